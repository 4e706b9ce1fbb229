//! What the tests on a device need.
#![allow(dead_code)] // each uses its part

mod owed;

#[allow(unused_imports)] // as above
pub(crate) use owed::{Predicted, on_all_cores, round_and_round};
use ringcall::{Client, FunctionId, Ring, Status};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_decoder_service::Predecoder;
use ringcall_decoder_service::gpu::wiring;
use ringcall_gpu_decoders::predecoder::{Network, Wiring};
use ringcall_infer::Engine;
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_qec::shots::Shot;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Against hanging; no test asserts that anything is fast.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// The committed model, so that a test needs nothing but itself.
pub(crate) const MODEL: &[u8] = include_bytes!("../../../../training/models/predecoder_3x128_int8.onnx");

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    // In turn: while one test's kernel runs, no other test loads code, and memory that another test drops is not freed.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
        Ok(context) if context.device().capability() != (9, 0) => {
            eprintln!("skipped: {name}: the kernels are for compute capability 9.0");
        }
        Ok(context) => {
            let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            test(&context);
            eprintln!("ran: {name}");
        }
    }
}

pub(crate) fn experiment(distance: u32, p: f64) -> MemoryExperiment {
    MemoryExperiment { distance, rounds: distance, basis: Basis::Z, noise: CircuitNoise::uniform(p) }
}

/// The committed network, bound to an experiment.
pub(crate) struct Bound {
    pub(crate) volume: PredecoderVolume,
    pub(crate) model: DetectorErrorModel,
    pub(crate) network: Network,
    pub(crate) threshold: f32,
    /// The same network on the CPU.
    pub(crate) cpu: OnnxModel,
    pub(crate) wiring: Wiring,
}

impl Bound {
    pub(crate) fn new(distance: u32, p: f64) -> Self {
        let experiment = experiment(distance, p);
        let network = Network::from_onnx(MODEL).expect("the committed model");
        let threshold = Predecoder::threshold_of("3x128_int8", network.metadata(), &experiment, None)
            .expect("it has one");
        let options = Predecoder::sizes(&experiment)
            .into_iter()
            .fold(OnnxOptions::new(), |all, (name, size)| all.with_symbol(name, size));
        Self {
            volume: PredecoderVolume::new(distance, distance, experiment.basis).expect("in range"),
            model: experiment.detector_error_model().expect("a model"),
            network,
            threshold,
            cpu: OnnxModel::from_bytes("3x128_int8", MODEL, &options).expect("the committed model"),
            wiring: wiring(&experiment, threshold).expect("wired"),
        }
    }
}

/// A number from the environment: the GPU bundle asks for more than a test by itself does.
pub(crate) fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A shot's syndrome, as a request.
pub(crate) fn bytes_of(shot: &Shot) -> Vec<u8> {
    shot.detectors.iter_bytes().collect()
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// The network's input for one syndrome.
pub(crate) fn input(volume: &PredecoderVolume, request: &[u8]) -> Vec<f32> {
    let mut input = volume.maps().to_vec();
    for (bit, &place) in volume.places().iter().enumerate() {
        if request[bit / 8] >> (bit % 8) & 1 == 1 {
            input[place as usize] = 1.0;
        }
    }
    input
}

/// One syndrome through one engine of a network.
pub(crate) fn logits(engine: &mut dyn Engine, volume: &PredecoderVolume, request: &[u8]) -> Vec<f32> {
    let input: Vec<u8> = input(volume, request).iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut output = vec![0; input.len()];
    engine.run(&[&input], &mut [&mut output]).expect("a run");
    floats(&output)
}

/// What decisions leave, and the frame after it.
pub(crate) fn answer(volume: &PredecoderVolume, logits: &[f32], threshold: f32, request: &[u8]) -> Vec<u8> {
    let mut left = request.to_vec();
    let frame = volume.apply(logits, threshold, &mut left);
    left.push(u8::from(frame));
    left
}

/// Sends payloads round and round, all slots in use, until `n` were answered; `take` gets each answer. Requests a second.
pub(crate) fn drive(
    ring: &Ring,
    function: &str,
    payloads: &[Vec<u8>],
    n: u64,
    mut take: impl FnMut(usize, &[u8]),
) -> f64 {
    let mut client = Client::new(ring);
    let mut result = vec![0; ring.geometry().result_capacity() as usize];
    let (mut sent, mut got, mut last) = (0_u64, 0_u64, Instant::now());
    let begin = last;
    while got < n {
        let before = got;
        while sent < n {
            let place = (sent % payloads.len() as u64) as usize;
            if client.send(FunctionId::of(function), sent as u32, sent, &payloads[place]).is_err() {
                break;
            }
            sent += 1;
        }
        got += client.take_all(|response, shared| {
            let (header, error) = (*response.header(), response.error());
            let len = response.read(shared, &mut result);
            let request = header.ptp_timestamp;
            assert_eq!((error, Status(header.status)), (None, Status::OK), "request {request}");
            let place = (request % payloads.len() as u64) as usize;
            take(place, &result[..len]);
        }) as u64;
        if got != before {
            last = Instant::now();
        }
        assert!(last.elapsed() < TIMEOUT, "{got} of {n} answered, then none for {TIMEOUT:?}");
    }
    n as f64 / begin.elapsed().as_secs_f64()
}
