//! The service around a decoder: as a remote dispatcher, which a host dispatcher simulates, and as a model.

use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig, Status, dispatcher};
use ringcall_decoder_service::{
    Inference, Pace, Problem, ResidualDecoder, Service, ServiceConfig, ShotSource, Summary,
};
use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers};
use ringcall_pipeline::BoxError;
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use ringcall_qec::circuit::{Code, Experiment};
use ringcall_qec::decode::DecoderOptions;
use std::sync::Arc;
use std::time::Duration;

const REQUESTS: u64 = 400;
/// Bytes after the result of `decode_syndrome`, which are no concern of the service.
const MORE: usize = 16;

fn problem() -> Problem {
    let model = Experiment { p: 0.003, ..Experiment::of(Code::Bb72) }.detector_error_model().unwrap();
    Problem::with_decoder(model, &DecoderOptions::default()).unwrap()
}

/// What a device answers. `spoil` is done to it.
fn decoding(
    problem: &Problem,
    spoil: fn(&mut [u8]),
) -> impl FnMut(&[u8], &mut [u8]) -> usize + Send + 'static {
    let mut decoder = ResidualDecoder::new(problem).unwrap();
    let (mut left, result_bytes) = (vec![0; problem.inferred_bytes()], problem.result_bytes());
    move |bits, out| {
        left[..bits.len()].copy_from_slice(bits);
        let len = decoder.decode(&left, out).unwrap();
        assert_eq!(len, result_bytes);
        out[len..len + MORE].fill(0xAB);
        spoil(&mut out[..len]);
        len + MORE
    }
}

struct FakeDevice {
    ring: Ring,
    problem: Problem,
    spoil: fn(&mut [u8]),
    running: Option<HostDispatcher<dispatcher::Running>>,
}

impl RemoteDispatcher for FakeDevice {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn start(&mut self) -> Result<(), BoxError> {
        let mut decode = decoding(&self.problem, self.spoil);
        let call = move |bits: &[u8], out: &mut [u8]| -> Result<usize, Status> { Ok(decode(bits, out)) };
        let table = FunctionTable::builder().host_call(DECODE_SYNDROME, call).build(&self.ring)?;
        self.running = Some(HostDispatcher::builder(&self.ring, table).build()?.start()?);
        Ok(())
    }

    fn health(&self) -> Health {
        Box::new(|| Ok(()))
    }

    fn stop(&mut self, deadline: Duration) -> RemoteStop {
        let ended = self.running.take().is_none_or(|running| !running.stop(deadline).report.stuck);
        RemoteStop { ended, failure: None }
    }
}

/// The same as a model.
struct Decoding {
    problem: Problem,
    inputs: [TensorSpec; 1],
    outputs: [TensorSpec; 1],
}

impl Decoding {
    fn new(problem: &Problem, answer_bytes: usize) -> Self {
        let spec = |name, n: usize| [TensorSpec::new(name, ElementType::U8, [1, n]).unwrap()];
        let (inputs, outputs) = (spec("bits", problem.request_bytes()), spec("answer", answer_bytes));
        Self { problem: problem.clone(), inputs, outputs }
    }
}

impl Model for Decoding {
    fn name(&self) -> &str {
        "decoding"
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        let decode = Box::new(decoding(&self.problem, |_| ()));
        Ok(Box::new(DecodingEngine { specs: [self.inputs.clone(), self.outputs.clone()], decode }))
    }
}

/// Turns a request's bytes into an answer's. Returns their number.
type Decode = Box<dyn FnMut(&[u8], &mut [u8]) -> usize + Send>;

struct DecodingEngine {
    specs: [[TensorSpec; 1]; 2],
    decode: Decode,
}

impl Engine for DecodingEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.specs[0]
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.specs[1]
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.specs[0], &self.specs[1], inputs, outputs)?;
        (self.decode)(inputs[0], outputs[0]);
        Ok(())
    }
}

/// A timeout that no busy machine reaches: with 1 s, the default, some requests are answered `TIMED_OUT` there.
fn config() -> ServiceConfig {
    ServiceConfig { request_timeout: Some(Duration::from_secs(120)), ..ServiceConfig::default() }
}

fn drive(problem: &Problem, service: Service) -> Summary {
    let pace = Pace { requests: Some(REQUESTS), duration: None, interval: Duration::ZERO };
    let source = ShotSource::sampled(problem, 7).unwrap();
    service.drive(source, pace, &mut |_| true).unwrap()
}

fn remote(problem: &Problem, spoil: fn(&mut [u8])) -> Service {
    let slot_bytes =
        ((problem.request_bytes().max(problem.result_bytes() + MORE)) as u32 + 24).next_multiple_of(64);
    let ring = Ring::allocate(RingConfig { slots: 16, slot_bytes }).unwrap();
    let device = FakeDevice { ring, problem: problem.clone(), spoil, running: None };
    Service::start_remote_decoder(problem, device, config()).unwrap()
}

#[test]
fn a_decoder_elsewhere_answers_as_one_here() {
    let problem = problem();
    let here = drive(&problem, Service::start(&problem, &Inference::None, config()).unwrap());
    assert!(here.rate.errors > 0 && here.rate.shots == REQUESTS, "{:?}", here.rate);
    let model = Decoding::new(&problem, problem.result_bytes() + MORE);
    let model = Inference::Decoder(Arc::new(model));
    let services = [remote(&problem, |_| ()), Service::start(&problem, &model, config()).unwrap()];
    for service in services {
        let elsewhere = drive(&problem, service);
        assert_eq!((elsewhere.lost(), elsewhere.stats.succeeded), (0, REQUESTS));
        assert_eq!((elsewhere.rate, elsewhere.unconverged), (here.rate, here.unconverged));
        assert_eq!(elsewhere.observable_errors, here.observable_errors);
        assert_eq!(elsewhere.density_in, here.density_in);
    }
}

#[test]
fn answers_that_are_none_are_failures_and_not_results() {
    let problem = problem();
    for spoil in [|result: &mut [u8]| result[1] = 0xFF, |result: &mut [u8]| result[6] = 2] {
        let spoiled = drive(&problem, remote(&problem, spoil));
        assert_eq!((spoiled.lost(), spoiled.stats.succeeded, spoiled.rate.shots), (0, 0, 0));
    }
}

#[test]
fn a_model_without_room_for_a_result_is_refused() {
    let problem = problem();
    let short = Inference::Decoder(Arc::new(Decoding::new(&problem, problem.result_bytes() - 1)));
    let why = short.check(&problem).unwrap_err().to_string();
    assert!(why.contains("32 bytes of bits go in and 10 come out"), "{why}");
}
