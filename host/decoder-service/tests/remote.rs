//! The service around a remote dispatcher, which a host dispatcher simulates; and around a model between bits.

use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig, Status, dispatcher};
use ringcall_decoder_service::{
    DriveError, Inference, Pace, Problem, REMOTE_STAGES, STAGES, Service, ServiceConfig, ServiceError,
    ShotSource, Summary,
};
use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};
use ringcall_pipeline::BoxError;
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use std::sync::Arc;
use std::time::Duration;

const REQUESTS: u64 = 400;

/// What becomes of a request's bits; true flips the frame.
type Decide = fn(&mut [u8]) -> bool;

/// Plays the device: a call on a dispatcher's thread.
struct FakeDevice {
    ring: Ring,
    decide: Decide,
    /// Does not poll, and says that it is ill.
    sick: bool,
    running: Option<HostDispatcher<dispatcher::Running>>,
}

impl FakeDevice {
    fn new(problem: &Problem, decide: Decide) -> Self {
        let slot_bytes = (problem.inferred_bytes() as u32 + 24).next_multiple_of(64);
        let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes }).unwrap();
        Self { ring, decide, sick: false, running: None }
    }
}

impl RemoteDispatcher for FakeDevice {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn start(&mut self) -> Result<(), BoxError> {
        if self.sick {
            return Ok(());
        }
        let decide = self.decide;
        let call = move |bits: &[u8], out: &mut [u8]| -> Result<usize, Status> {
            out[..bits.len()].copy_from_slice(bits);
            out[bits.len()] = u8::from(decide(&mut out[..bits.len()]));
            Ok(bits.len() + 1)
        };
        let table = FunctionTable::builder().host_call(DECODE_SYNDROME, call).build(&self.ring)?;
        self.running = Some(HostDispatcher::builder(&self.ring, table).build()?.start()?);
        Ok(())
    }

    fn health(&self) -> Health {
        let sick = self.sick;
        Box::new(move || if sick { Err("it burns".to_owned()) } else { Ok(()) })
    }

    fn stop(&mut self, deadline: Duration) -> RemoteStop {
        let ended = self.running.take().is_none_or(|running| !running.stop(deadline).report.stuck);
        RemoteStop { ended, failure: None }
    }
}

/// The same as an engine.
struct Between(Vec<TensorSpec>, Vec<TensorSpec>, Decide);

impl Between {
    fn new(bytes: usize, decide: Decide) -> Self {
        let spec = |name, n: usize| vec![TensorSpec::new(name, ElementType::U8, [1, n]).unwrap()];
        Self(spec("bits", bytes), spec("left", bytes + 1), decide)
    }
}

impl Model for Between {
    fn name(&self) -> &str {
        "between"
    }
    fn inputs(&self) -> &[TensorSpec] {
        &self.0
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.1
    }
    fn metadata(&self) -> &[(String, String)] {
        &[]
    }
    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        Ok(Box::new(Self(self.0.clone(), self.1.clone(), self.2)))
    }
}

impl Engine for Between {
    fn inputs(&self) -> &[TensorSpec] {
        &self.0
    }
    fn outputs(&self) -> &[TensorSpec] {
        &self.1
    }
    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.0, &self.1, inputs, outputs)?;
        let (left, frame) = outputs[0].split_at_mut(inputs[0].len());
        left.copy_from_slice(inputs[0]);
        frame[0] = u8::from((self.2)(left));
        Ok(())
    }
}

fn problem() -> Problem {
    let noise = CircuitNoise::uniform(0.008);
    let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
    Problem::new(experiment.detector_error_model().unwrap()).unwrap()
}

fn config() -> ServiceConfig {
    ServiceConfig { workers: 2, request_timeout: None, ..ServiceConfig::default() }
}

fn drive(problem: &Problem, service: Service) -> Result<Summary, DriveError> {
    let pace = Pace { requests: Some(REQUESTS), duration: None, interval: Duration::ZERO };
    service.drive(ShotSource::sampled(problem, 7).unwrap(), pace, &mut |_| true)
}

fn elsewhere(problem: &Problem, decide: Decide) -> Summary {
    let service = Service::start_remote(problem, FakeDevice::new(problem, decide), config()).unwrap();
    let summary = drive(problem, service).unwrap();
    assert_eq!((summary.lost(), summary.unexpected, summary.failure.as_ref()), (0, 0, None));
    summary
}

fn here(problem: &Problem, inference: &Inference) -> Summary {
    drive(problem, Service::start(problem, inference, config()).unwrap()).unwrap()
}

#[test]
fn decides_as_a_pipeline_with_its_dispatcher_here() {
    let problem = problem();
    let alone = here(&problem, &Inference::None);
    assert!(alone.rate.errors > 0 && alone.matching_skipped > 0 && alone.matching_skipped < REQUESTS);
    // Nothing decided; and, as an oracle that a wrong frame shows, the frame flipped every time.
    for (decide, errors) in
        [((|_| false) as Decide, alone.rate.errors), (|_| true, REQUESTS - alone.rate.errors)]
    {
        let model = Inference::Packed(Arc::new(Between::new(problem.request_bytes(), decide)));
        for summary in [elsewhere(&problem, decide), here(&problem, &model)] {
            assert_eq!((summary.rate.shots, summary.rate.errors), (REQUESTS, errors));
            assert_eq!(summary.matching_skipped, alone.matching_skipped);
            assert!((summary.density_in - alone.density_in).abs() < 1e-12);
            assert!((summary.density_out - summary.density_in).abs() < 1e-12);
        }
    }
}

/// What is not measured has no figures: there is no `dispatch` of no time, and no `inference` that is something else.
#[test]
fn times_have_the_names_of_what_was_measured() {
    let problem = problem();
    let device = elsewhere(&problem, |bits| {
        bits.fill(0);
        false
    });
    for (summary, expected) in
        [(&device, &REMOTE_STAGES[..]), (&here(&problem, &Inference::None), &STAGES[..])]
    {
        let names: Vec<_> = summary.stages.iter().map(|(name, _)| name).collect();
        assert_eq!(names, expected);
        for name in &expected[1..] {
            let times = summary.stages.get(name).expect("it is measured");
            assert_eq!(times.len(), REQUESTS, "{name}");
        }
        // The parts after `injection` are the whole, to the three digits that a histogram keeps.
        let parts: f64 =
            summary.stages.iter().skip(1).map(|(_, times)| times.mean() * times.len() as f64).sum();
        let whole = summary.latency.mean() * summary.latency.len() as f64;
        assert!((parts / whole - 1.0).abs() < 0.02, "{parts} of {whole}");
    }
    assert!(device.stages.get("dispatch").is_none() && device.stages.get("inference").is_none());
}

#[test]
fn what_is_left_empty_is_not_matched() {
    let problem = problem();
    let summary = elsewhere(&problem, |bits| {
        bits.fill(0);
        false
    });
    assert_eq!((summary.matching_skipped, summary.stats.succeeded), (REQUESTS, REQUESTS));
    assert!(summary.density_in > 0.0 && summary.density_out == 0.0);
}

/// The frame's byte with its padding set, as by a device that gave up; or no frame at all.
#[test]
fn an_answer_that_cannot_be_is_refused() {
    let problem = problem();
    let device = FakeDevice { sick: true, ..FakeDevice::new(&problem, |_| false) };
    let call = |bits: &[u8], out: &mut [u8]| -> Result<usize, Status> {
        out[..bits.len()].copy_from_slice(bits);
        out[bits.len()] = 0x80;
        Ok(bits.len() + usize::from(bits[0].is_multiple_of(2)))
    };
    let table = FunctionTable::builder().host_call(DECODE_SYNDROME, call).build(&device.ring).unwrap();
    let running = HostDispatcher::builder(&device.ring, table).build().unwrap().start().unwrap();
    let summary = drive(&problem, Service::start_remote(&problem, device, config()).unwrap()).unwrap();
    assert_eq!((summary.stats.refused, summary.stats.succeeded, summary.lost()), (REQUESTS, 0, 0));
    assert!(!running.stop(Duration::from_secs(5)).report.stuck);
}

#[test]
fn a_dispatcher_that_is_dead_ends_the_run_with_its_reason() {
    let problem = problem();
    let device = FakeDevice { sick: true, ..FakeDevice::new(&problem, |_| false) };
    let config = ServiceConfig { request_timeout: Some(Duration::from_millis(20)), ..config() };
    let service = Service::start_remote(&problem, device, config).unwrap();
    let error = drive(&problem, service).expect_err("nobody answers");
    assert_eq!(error.to_string(), "the dispatcher answers no more: it burns");
}

#[test]
fn a_ring_or_a_model_of_another_size_is_refused() {
    let problem = problem();
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 24 }).unwrap();
    let device = FakeDevice { ring, ..FakeDevice::new(&problem, |_| false) };
    let error = Service::start_remote(&problem, device, config()).expect_err("too small");
    assert!(matches!(error, ServiceError::Ring { what: "requests", found: 0, .. }), "{error}");
    let model = Inference::Packed(Arc::new(Between::new(problem.request_bytes() + 1, |_| false)));
    let error = Service::start(&problem, &model, config()).expect_err("too long").to_string();
    assert!(error.contains("bytes of bits go in"), "{error}");
}
