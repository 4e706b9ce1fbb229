//! A network bound to an experiment. The networks here are pass-through: logits are what goes in.

use ringcall_infer::{ElementType, Engine, InferError, Model, Passthrough, TensorSpec, conformance};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_service::{
    Inference, Pace, Predecoder, PredecoderError, Problem, Service, ServiceConfig, ShotSource,
};
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
        let config = ServiceConfig { workers: 1, ..ServiceConfig::default() };
        let service = Service::start(&problem, inference, config).unwrap();
        let source = ShotSource::sampled(&problem, 1).unwrap();
        let summary = service.drive(source, pace, &mut |_| true).unwrap();
        assert_eq!((summary.stats.succeeded, summary.lost()), (300, 0));
        summary.rate.errors
    };
    let silent = Predecoder::new(fitting(), &experiment(), Some(1.5)).unwrap();
    assert_eq!(failures(&Inference::Model(Arc::new(silent))), failures(&Inference::None));
}

/// A network whose last output is not a number.
struct Broken(Arc<dyn Model>);
struct BrokenEngine(Box<dyn Engine>);

impl Model for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn inputs(&self) -> &[TensorSpec] {
        self.0.inputs()
    }
    fn outputs(&self) -> &[TensorSpec] {
        self.0.outputs()
    }
    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(BrokenEngine(self.0.instantiate()?)))
    }
}

impl Engine for BrokenEngine {
    fn inputs(&self) -> &[TensorSpec] {
        self.0.inputs()
    }
    fn outputs(&self) -> &[TensorSpec] {
        self.0.outputs()
    }
    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        self.0.run(inputs, outputs)?;
        let last = outputs[0].len() - 4;
        outputs[0][last..].copy_from_slice(&f32::NAN.to_le_bytes());
        Ok(())
    }
}

#[test]
fn a_network_whose_output_is_not_a_number_fails_the_request() {
    let network: Arc<dyn Model> = Arc::new(Broken(fitting()));
    let model = Predecoder::new(network, &experiment(), Some(0.6)).unwrap();
    let error = model.instantiate().unwrap().run(&[&[0; 96]], &mut [&mut [0; 96], &mut [0]]).unwrap_err();
    assert!(matches!(error, InferError::NotANumber { index: 499, .. }), "{error}");

    let problem = Problem::new(experiment().detector_error_model().unwrap()).unwrap();
    let service =
        Service::start(&problem, &Inference::Model(Arc::new(model)), ServiceConfig::default()).unwrap();
    let source = ShotSource::sampled(&problem, 1).unwrap();
    let pace = Pace { requests: Some(20), duration: None, interval: Duration::ZERO };
    let summary = service.drive(source, pace, &mut |_| true).unwrap();
    assert_eq!((summary.stats.succeeded, summary.stats.refused, summary.lost()), (0, 20, 0));
}
