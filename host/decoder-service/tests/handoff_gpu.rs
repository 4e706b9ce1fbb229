//! A service of the committed network that hands over to matching, on a device: every answer against what the CPU's engine and
//! matching make of the request. Skipped, with a line, without a device. `RINGCALL_SHAPE_REQUESTS` says how many requests each
//! way, `RINGCALL_DECISION_SHOTS` how many shots they are taken from, at most 2000.

mod common;

use common::{Bound, TIMEOUT, bytes_of, drive, experiment, from_env, on_device};
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{RingConfig, Wait};
use ringcall_cuda::driver::devrt;
use ringcall_decoder_service::gpu::{GpuPredecoder, MatchingStage};
use ringcall_decoder_service::{Problem, ResidualDecoder};
use ringcall_inference_service::{AiPredecoderService, ServiceOptions, Stage, WorkerOptions, Workers};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules,
};

const NAME: &str = "every_answer_is_the_networks_and_matchings";
const SLOTS: u32 = 16;
const DISTANCE: u32 = 7;

/// What matching makes of a residual and its frame.
fn matched(decoder: &mut ResidualDecoder, problem: &Problem, left: &[u8]) -> Vec<u8> {
    let mut result = vec![0; problem.result_bytes()];
    let len = decoder.decode(left, &mut result).expect("decodable");
    result.truncate(len);
    result
}

#[test]
fn every_answer_is_the_networks_and_matchings() {
    on_device(NAME, |context| {
        if let Err(why) = devrt::find() {
            return eprintln!("skipped: {NAME}: {}", why.to_string().lines().next().unwrap_or_default());
        }
        let requests = from_env("RINGCALL_SHAPE_REQUESTS", 2000);
        let count = from_env("RINGCALL_DECISION_SHOTS", 200).min(2000);
        let bound = Bound::new(DISTANCE, 0.003);
        let shots = bound.shots(count, 31);
        let owed = bound.owed(&shots);
        let payloads: Vec<Vec<u8>> = shots.iter().map(bytes_of).collect();
        let Bound { model, network, threshold, .. } = bound;
        let problem = Problem::new(model).expect("a problem");
        let mut decoder = ResidualDecoder::new(&problem).expect("a decoder");
        let owed: Vec<Vec<u8>> = owed.iter().map(|left| matched(&mut decoder, &problem, left)).collect();

        let experiment = experiment(DISTANCE, 0.003);
        let predecoder = GpuPredecoder::new("3x128_int8", network, &experiment, Some(threshold), context);
        let predecoder = predecoder.expect("bound");
        for (instances, depth) in [(1, 1), (1, 16), (2, 4), (4, 4)] {
            let engine = predecoder.engine(instances).expect("on the device");
            let options = ServiceOptions { instances, ..ServiceOptions::default() };
            let service = AiPredecoderService::new(&engine, depth, &options).expect("a service");
            let config = RingConfig { slots: SLOTS, slot_bytes: service.slot_bytes() };
            let ring = MappedRing::allocate(context, config).expect("a ring");
            let functions = service.function(Functions::new(), DECODE_SYNDROME);
            let graphs = DispatcherOptions::new(KernelKind::graph());
            let device = DeviceDispatcher::wire(&ring, functions, Modules::new(), graphs).expect("wired");
            let stage = |_| -> Box<dyn Stage> {
                Box::new(MatchingStage::packed(&problem, service.outputs()).expect("residual and frame"))
            };
            let stages = (0..3).map(stage).collect();
            let options = WorkerOptions { wait: Wait::Yield { spins: 64 }, ..WorkerOptions::default() };
            let running = device.start().expect("started");
            let workers = Workers::start(service.queues(), ring.ring().shared(), stages, &options);
            let workers = workers.expect("started");

            let is_owed = |place: usize, answer: &[u8]| assert_eq!(answer, owed[place], "shot {place}");
            let per_s = drive(ring.ring(), DECODE_SYNDROME, &payloads, requests, is_owed);
            assert!(running.stop(TIMEOUT).report.is_clean());
            let report = workers.stop(TIMEOUT);
            assert!(report.is_clean(), "{report:?}");
            assert_eq!((report.workers.answered, report.workers.failed), (requests, 0), "{report:?}");
            let published: Vec<u64> = report.queues.iter().map(|queue| queue.published).collect();
            assert_eq!(published.iter().sum::<u64>(), requests);

            eprintln!(
                "d = {DISTANCE}, {instances} instances with queues of {depth}: {requests} requests of {count} shots, {published:?} \
                 by each instance, each with the CPU's answer, {per_s:.0} requests a second"
            );
        }
    });
}
