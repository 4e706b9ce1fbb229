//! A service of the committed network that hands over to matching, on a device: every answer against what the CPU's engine and
//! matching make of the request. Skipped, with a line, without a device. `RINGCALL_SHAPE_REQUESTS` says how many requests each
//! way, `RINGCALL_DECISION_SHOTS` how many shots they are taken from, at most 2000.

mod common;

use common::{Bound, PATIENCE, ROUNDING, answer, drive, experiment, from_env, logits, on_device};
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{RingConfig, Wait};
use ringcall_ai_service::{AiPredecoderService, Options as ServiceOptions, Stage, WorkerOptions, Workers};
use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, KernelKind, MappedRing, Modules, Options};
use ringcall_cuda::driver::devrt;
use ringcall_infer::Model;
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_qec::predecoder::PredecoderVolume;
use ringcall_qec::sample::Sampler;
use ringcall_service::{Problem, ResidualDecoder};
use ringcall_service_gpu::{GpuPredecoder, MatchingStage};

const NAME: &str = "every_answer_is_the_networks_and_matchings";
const SLOTS: u32 = 16;
const DISTANCE: u32 = 7;
/// Decisions near the threshold of one shot that are tipped in all ways.
const MOST_NEAR: usize = 12;

/// A request, and the CPU's answer to it.
struct Shot {
    request: Vec<u8>,
    logits: Vec<f32>,
    owed: Vec<u8>,
}

/// What matching makes of a network's logits.
struct Judge<'a> {
    volume: &'a PredecoderVolume,
    threshold: f32,
    decoder: ResidualDecoder,
    result: Vec<u8>,
}

impl Judge<'_> {
    fn answer(&mut self, logits: &[f32], request: &[u8]) -> Vec<u8> {
        let left = answer(self.volume, logits, self.threshold, request);
        let len = self.decoder.decode(&left, &mut self.result).expect("decodable");
        self.result[..len].to_vec()
    }

    /// Whether rounding explains another answer: some decisions whose logits are next to the threshold, taken the other way.
    fn explains(&mut self, shot: &Shot, found: &[u8]) -> bool {
        let away = |at: &usize| (shot.logits[*at] - self.threshold).abs();
        let mut near: Vec<usize> = (0..shot.logits.len()).filter(|at| away(at) <= ROUNDING).collect();
        near.sort_by(|a, b| away(a).total_cmp(&away(b)));
        near.truncate(MOST_NEAR);
        (1_u32..1 << near.len()).any(|tipped| {
            let mut logits = shot.logits.clone();
            for (_, &at) in near.iter().enumerate().filter(|(i, _)| tipped >> i & 1 == 1) {
                let above = logits[at] > self.threshold;
                logits[at] = self.threshold + if above { -1.0 } else { 1.0 };
            }
            self.answer(&logits, &shot.request) == found
        })
    }
}

#[test]
fn every_answer_is_the_networks_and_matchings() {
    on_device(NAME, |context| {
        if let Err(why) = devrt::find() {
            return eprintln!("skipped: {NAME}: {}", why.to_string().lines().next().unwrap_or_default());
        }
        let requests = from_env("RINGCALL_SHAPE_REQUESTS", 2000);
        let count = from_env("RINGCALL_DECISION_SHOTS", 200).min(2000);
        let Bound { volume, model, network, threshold, cpu, .. } = Bound::new(DISTANCE, 0.003);
        let problem = Problem::new(model).expect("a problem");
        let mut judge = Judge {
            volume: &volume,
            threshold,
            decoder: ResidualDecoder::new(&problem).expect("a decoder"),
            result: vec![0; problem.result_bytes()],
        };
        let mut engine = cpu.instantiate().expect("an engine");
        let mut sampler = Sampler::new(problem.model(), 31).expect("a sampler");
        let mut drawn = sampler.new_shot();
        let shots: Vec<Shot> = (0..count)
            .map(|_| {
                sampler.sample_into(&mut drawn).expect("a shot");
                let request: Vec<u8> = drawn.detectors.iter_bytes().collect();
                let logits = logits(&mut *engine, &volume, &request);
                let owed = judge.answer(&logits, &request);
                Shot { request, logits, owed }
            })
            .collect();
        let payloads: Vec<Vec<u8>> = shots.iter().map(|shot| shot.request.clone()).collect();

        let experiment = experiment(DISTANCE, 0.003);
        let predecoder = GpuPredecoder::new("3x128", network, &experiment, Some(threshold), context);
        let predecoder = predecoder.expect("bound");
        for (instances, depth) in [(1, 1), (1, 16), (2, 4), (4, 4)] {
            let engine = predecoder.engine(instances).expect("on the device");
            let options = ServiceOptions { instances, ..ServiceOptions::default() };
            let service = AiPredecoderService::new(&engine, depth, &options).expect("a service");
            let config = RingConfig { slots: SLOTS, slot_bytes: service.slot_bytes() };
            let ring = MappedRing::allocate(context, config).expect("a ring");
            let functions = service.function(Functions::new(), DECODE_SYNDROME);
            let graphs = Options::new(KernelKind::graph());
            let device = DeviceDispatcher::wire(&ring, functions, Modules::new(), graphs).expect("wired");
            let stage = |_| -> Box<dyn Stage> {
                Box::new(MatchingStage::packed(&problem, service.outputs()).expect("residual and frame"))
            };
            let stages = (0..3).map(stage).collect();
            let options = WorkerOptions { wait: Wait::Yield { spins: 64 }, ..WorkerOptions::default() };
            let running = device.start().expect("started");
            let workers = Workers::start(service.queues(), ring.ring().shared(), stages, &options);
            let workers = workers.expect("started");

            let mut otherwise: Vec<Option<Vec<u8>>> = vec![None; shots.len()];
            let per_s = drive(ring.ring(), DECODE_SYNDROME, &payloads, requests, |place, result| {
                if result == shots[place].owed || otherwise[place].as_deref() == Some(result) {
                    return true;
                }
                // One that has two other answers fails here.
                otherwise[place].replace(result.to_vec()).is_none()
            });
            assert!(running.stop(PATIENCE).report.is_clean());
            let report = workers.stop(PATIENCE);
            assert!(report.is_clean(), "{report:?}");
            assert_eq!((report.workers.answered, report.workers.failed), (requests, 0), "{report:?}");
            let published: Vec<u64> = report.queues.iter().map(|queue| queue.published).collect();
            assert_eq!(published.iter().sum::<u64>(), requests);

            let tipped: Vec<_> = shots
                .iter()
                .zip(&otherwise)
                .filter_map(|(shot, found)| Some((shot, found.as_ref()?)))
                .collect();
            for (shot, found) in &tipped {
                assert!(
                    judge.explains(shot, found),
                    "{found:?}, not {:?}, which rounding does not explain",
                    shot.owed
                );
            }
            assert!(tipped.len() as u64 * 1000 <= count, "{} of {count} shots are tipped over", tipped.len());
            eprintln!(
                "d = {DISTANCE}, {instances} instances with queues of {depth}: {requests} requests of {count} shots, {published:?} \
                 by each instance, {} shots tipped over, {per_s:.0} requests a second",
                tipped.len()
            );
        }
    });
}

/// Without a device: what this test excuses, and what not.
#[test]
fn only_decisions_next_to_the_threshold_are_excused() {
    let (threshold, rounds) = (0.5, 3);
    let experiment = MemoryExperiment { rounds, ..experiment(3, 0.003) };
    let volume = PredecoderVolume::new(3, rounds, experiment.basis).expect("in range");
    let problem = Problem::new(experiment.detector_error_model().expect("a model")).expect("a problem");
    let decoder = ResidualDecoder::new(&problem).expect("a decoder");
    let mut judge = Judge { volume: &volume, threshold, decoder, result: vec![0; problem.result_bytes()] };
    let request = vec![0; problem.request_bytes()];
    // A decision on the logical operator.
    let on = volume.frame_cells()[0] as usize;
    for (at, excused) in [(threshold + 0.9 * ROUNDING, true), (threshold + 1.1 * ROUNDING, false)] {
        let mut logits = vec![-9.0; volume.maps().len()];
        let nothing = judge.answer(&logits, &request);
        logits[on] = at;
        let owed = judge.answer(&logits, &request);
        assert_ne!(owed, nothing);
        let shot = Shot { request: request.clone(), logits, owed };
        assert_eq!(judge.explains(&shot, &nothing), excused, "{at}");
        assert!(!judge.explains(&shot, &[0xFF; 9]), "an answer that nothing makes");
    }
}
