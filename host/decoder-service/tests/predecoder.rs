//! A network bound to an experiment. The networks here pass their input through as logits.

use ringcall_decoder_service::{
    Inference, Pace, Predecoder, PredecoderError, Problem, Service, ServiceConfig, ShotSource,
};
use ringcall_infer::{
    ElementType, Engine, InferError, Model, Passthrough, TensorSpec, check_buffers, conformance,
};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::PredecoderVolume;
use std::sync::Arc;
use std::time::Duration;

fn experiment() -> MemoryExperiment {
    MemoryExperiment { distance: 5, rounds: 4, basis: Basis::Z, noise: CircuitNoise::uniform(0.006) }
}

fn network(element: ElementType, shape: [usize; 5]) -> Arc<dyn Model> {
    Arc::new(Passthrough::new("n", vec![TensorSpec::new("x", element, shape).unwrap()]).unwrap())
}

fn fitting() -> Arc<dyn Model> {
    network(ElementType::F32, [1, 4, 5, 5, 5])
}

#[test]
fn applies_what_the_network_decides() {
    let volume = PredecoderVolume::new(5, 4, Basis::Z).unwrap();
    // Above 0.6: an error wherever a detector is, and flips of all checks of weight 4.
    let model = Predecoder::new(fitting(), &experiment(), Some(0.6)).unwrap();
    assert_eq!(model.inputs()[0].to_string(), "detectors: u8[1, 96]");
    let mut engine = model.instantiate().unwrap();
    for seed in 0..20_usize {
        let detectors: Vec<u8> = (0..96).map(|k| u8::from((k * 7 + seed * 31) % 11 == 0)).collect();
        let mut decided: Vec<bool> = volume.maps().iter().map(|&map| map > 0.6).collect();
        for (place, _) in volume.places().iter().zip(&detectors).filter(|(_, set)| **set == 1) {
            decided[*place as usize] = true;
        }
        let parity =
            |cells: &[u32]| cells.iter().fold(0, |sum, &cell| sum ^ u8::from(decided[cell as usize]));
        let expected: Vec<u8> = (0..96).map(|k| detectors[k] ^ parity(volume.residual_cells(k))).collect();
        let (mut residual, mut frame) = ([9; 96], [9]);
        engine.run(&[&detectors], &mut [&mut residual, &mut frame]).unwrap();
        assert_eq!((residual.to_vec(), frame[0]), (expected, parity(volume.frame_cells())));
    }
}

#[test]
fn conforms() {
    conformance::check(&Predecoder::new(fitting(), &experiment(), Some(0.6)).unwrap()).unwrap();
}

#[test]
fn other_networks_are_refused() {
    let refuse = |network, threshold| Predecoder::new(network, &experiment(), threshold).unwrap_err();
    assert!(matches!(refuse(fitting(), None), PredecoderError::NoThreshold(_)));
    assert!(matches!(refuse(fitting(), Some(f32::NAN)), PredecoderError::Threshold(_)));
    for other in [network(ElementType::F32, [1, 4, 4, 5, 5]), network(ElementType::F16, [1, 4, 5, 5, 5])] {
        let error = refuse(other, Some(0.0));
        assert!(matches!(error, PredecoderError::Shape { .. }), "{error}");
    }
    let even = MemoryExperiment { distance: 4, ..experiment() };
    let error = Predecoder::new(fitting(), &even, Some(0.0)).unwrap_err();
    assert!(matches!(error, PredecoderError::Experiment(_)), "{error}");
}

/// With a threshold above everything the network does nothing, and the pipeline is matching alone.
#[test]
fn serves_a_pipeline() {
    let problem = Problem::new(experiment().detector_error_model().unwrap()).unwrap();
    let pace = Pace { requests: Some(300), duration: None, interval: Duration::ZERO };
    let failures = |inference: &Inference| {
        let config = ServiceConfig { workers: 1, request_timeout: None, ..ServiceConfig::default() };
        let service = Service::start(&problem, inference, config).unwrap();
        let source = ShotSource::sampled(&problem, 1).unwrap();
        let summary = service.drive(source, pace, &mut |_| true).unwrap();
        assert_eq!((summary.stats.succeeded, summary.lost()), (300, 0));
        summary.rate.errors
    };
    let silent = Predecoder::new(fitting(), &experiment(), Some(1.5)).unwrap();
    assert_eq!(failures(&Inference::Model(Arc::new(silent))), failures(&Inference::None));
}

/// A network in which every third output ends with this element; all others are zeros.
#[derive(Clone)]
struct LastElement {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    element: Vec<u8>,
    runs: u32,
}

impl LastElement {
    fn model(input: TensorSpec, output: TensorSpec, element: &[u8]) -> Arc<dyn Model> {
        Arc::new(Self { inputs: vec![input], outputs: vec![output], element: element.to_vec(), runs: 0 })
    }
}

impl Model for LastElement {
    fn name(&self) -> &str {
        "last element"
    }
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }
    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(self.clone()))
    }
}

impl Engine for LastElement {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }
    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.inputs, &self.outputs, inputs, outputs)?;
        outputs[0].fill(0);
        self.runs += 1;
        if self.runs.is_multiple_of(3) {
            let end = outputs[0].len();
            outputs[0][end - self.element.len()..].copy_from_slice(&self.element);
        }
        Ok(())
    }
}

/// A decision by a number that is none is no decision: the request fails, and the others are answered.
#[test]
fn a_network_that_gives_no_number_fails_its_request() {
    let problem = Problem::new(experiment().detector_error_model().unwrap()).unwrap();
    let pace = Pace { requests: Some(300), duration: None, interval: Duration::ZERO };
    let refused = |inference: Inference| {
        let config = ServiceConfig { request_timeout: None, ..ServiceConfig::default() };
        let service = Service::start(&problem, &inference, config).unwrap();
        let source = ShotSource::sampled(&problem, 1).unwrap();
        let summary = service.drive(source, pace, &mut |_| true).unwrap();
        assert_eq!(
            (summary.stats.completed, summary.lost(), summary.rate.shots),
            (300, 0, summary.stats.succeeded)
        );
        summary.stats.refused
    };
    let spec = |name, element, n| TensorSpec::new(name, element, [1, n]).unwrap();
    let detectors = || spec("detectors", ElementType::U8, 96);
    let volume = || TensorSpec::new("x", ElementType::F32, [1, 4, 5, 5, 5]).unwrap();
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0] {
        let expected = if value.is_finite() { 0 } else { 100 };
        let bytes = value.to_le_bytes();
        let logits = LastElement::model(volume(), volume(), &bytes);
        let bound = Predecoder::new(logits, &experiment(), Some(0.5)).unwrap();
        assert_eq!(refused(Inference::Model(Arc::new(bound))), expected, "a logit of {value}");
        let left = LastElement::model(detectors(), spec("left", ElementType::F32, 96), &bytes);
        assert_eq!(refused(Inference::Model(left)), expected, "a residual of {value}");
    }
    for (bits, expected) in [(0x7E00_u16, 100), (0x7C00, 100), (0xFC00, 100), (0x3C00, 0)] {
        let left = LastElement::model(detectors(), spec("left", ElementType::F16, 96), &bits.to_le_bytes());
        assert_eq!(refused(Inference::Model(left)), expected, "a residual of {bits:#x}");
    }
}
