//! The whole pipeline with the predecoder on a device, under both dispatchers: nothing is lost, and every answer is what the
//! CPU's engine and matching predict.
//! Skipped, with a line, without a device. `RINGCALL_PIPELINE_REQUESTS` says how many requests a run.

mod common;

use common::{Bound, MODEL, Predicted, experiment, from_env, on_device, round_and_round};
use ringcall_cuda::driver::devrt;
use ringcall_decoder_service::gpu::{Copies, GpuPredecoder};
use ringcall_decoder_service::study::{Arm, Bind, Matching, Point, Relay, ShotCounts, State, Stop, Study};
use ringcall_decoder_service::{
    Inference, Pace, Predecoder, Problem, REMOTE_STAGES, Service, ServiceConfig, ShotSource, Summary,
};
use ringcall_gpu_decoders::predecoder::Network;
use ringcall_infer::onnx::{OnnxModel, OnnxOptions};
use ringcall_pipeline::remote::RemoteDispatcher;
use ringcall_qec::code::Basis;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn drive(source: ShotSource, service: Service, requests: u64, interval: Duration) -> Summary {
    let pace = Pace { requests: Some(requests), duration: None, interval };
    let summary = service.drive(source, pace, &mut |_| true).expect("a run");
    let stats = &summary.stats;
    assert_eq!((stats.succeeded, summary.lost(), summary.unexpected), (requests, 0, 0), "{stats:?}");
    assert_eq!((summary.rate.shots, &summary.failure), (requests, &None));
    summary
}

/// The shots come with the CPU's predictions instead of the truth, so that every answer is compared.
#[test]
fn both_dispatchers_lose_nothing_and_predict_what_the_cpu_does() {
    on_device("both_dispatchers_lose_nothing_and_predict_what_the_cpu_does", |context| {
        let n = from_env("RINGCALL_PIPELINE_REQUESTS", 2000);
        // Few shots where the CPU takes long: some 50 ms for each at d = 13, 200 at 21, 700 at 31.
        for (distance, requests, shots) in [
            (3, n, n),
            (7, n, n),
            (13, n, n / 5),
            (21, 100.max(n / 10), 20.max(n / 40)),
            (31, 300.max(n / 25), 20.max(n / 100)),
        ] {
            let bound = Bound::new(distance, 0.006);
            let problem = Problem::new(bound.model.clone()).expect("a problem");
            let Predicted { shots, errors } = bound.predicted(bound.shots(shots, 11));
            let network = bound.network.clone();
            let predecoder =
                GpuPredecoder::new("3x128_int8", network, &experiment(distance, 0.006), None, context);
            let predecoder = predecoder.expect("bound");
            let config = ServiceConfig { workers: 3, ..ServiceConfig::default() };
            let run = |service: Service, interval: Duration| {
                drive(round_and_round(&problem, &shots, requests), service, requests, interval)
            };

            let inference = predecoder.inference().expect("graphs");
            let host = run(Service::start(&problem, &inference, config).expect("started"), Duration::ZERO);
            let mut device = Vec::new();
            // The network of d = 31 takes a whole device.
            let several = match distance {
                ..=13 => 4,
                21 => 2,
                _ => 1,
            };
            for (kernels, interval) in
                [(1, Duration::ZERO), (1, Duration::from_micros(30)), (several, Duration::ZERO)]
            {
                let dispatcher = predecoder.dispatchers(config.slots, kernels).expect("a dispatcher");
                let service = Service::start_remote(&problem, dispatcher, config).expect("started");
                device.push(run(service, interval));
            }
            for (way, run) in [&host].into_iter().chain(&device).enumerate() {
                assert_eq!(
                    run.rate.errors, 0,
                    "d = {distance}, way {way}: answers are not what the CPU predicts"
                );
                assert_eq!(run.matching_skipped, host.matching_skipped);
                assert_eq!(run.density_out.to_bits(), host.density_out.to_bits());
            }
            for run in &device {
                assert!(run.stages.iter().map(|(name, _)| name).eq(REMOTE_STAGES));
            }
            let alone = Service::start(&problem, &Inference::None, config).expect("started");
            let alone = run(alone, Duration::ZERO);
            assert!(host.density_out < alone.density_out, "the network takes something away");
            eprintln!(
                "d = {distance}: {requests} requests of {} shots, each with the CPU's prediction ({errors} of them are wrong), {} skipped, p50 {} ns with a graph, {} ns in the \
                 device's dispatcher at full speed, {} ns every 30 us, {} ns in {several} of them at full speed ({:.0} instead \
                 of {:.0} a second)",
                shots.len(),
                host.matching_skipped,
                host.latency.value_at_quantile(0.5),
                device[0].latency.value_at_quantile(0.5),
                device[1].latency.value_at_quantile(0.5),
                device[2].latency.value_at_quantile(0.5),
                device[2].throughput_per_s(),
                device[0].throughput_per_s(),
            );
        }
    });
}

/// A dispatch graph that stays on the device and launches a graph of the network for each request: nothing is lost, every answer is what
/// the CPU's engine and matching predict, and it restarts.
#[test]
fn graphs_of_the_devices_dispatcher_predict_what_the_cpu_does() {
    const NAME: &str = "graphs_of_the_devices_dispatcher_predict_what_the_cpu_does";
    on_device(NAME, |context| {
        if let Err(why) = devrt::find() {
            return eprintln!("skipped: {NAME}: {}", why.to_string().lines().next().unwrap_or_default());
        }
        let n = from_env("RINGCALL_PIPELINE_REQUESTS", 2000);
        for (distance, requests, shots) in [(3, n, n), (7, n, n), (13, n, n / 5)] {
            let bound = Bound::new(distance, 0.006);
            let problem = Problem::new(bound.model.clone()).expect("a problem");
            let Predicted { shots, errors } = bound.predicted(bound.shots(shots, 11));
            let network = bound.network.clone();
            let predecoder =
                GpuPredecoder::new("3x128_int8", network, &experiment(distance, 0.006), None, context);
            let predecoder = predecoder.expect("bound");
            let config = ServiceConfig { workers: 3, ..ServiceConfig::default() };
            for (instances, interval) in
                [(1, Duration::ZERO), (1, Duration::from_micros(30)), (4, Duration::ZERO)]
            {
                let dispatcher = predecoder.graph_dispatcher(config.slots, instances).expect("a dispatcher");
                let service = Service::start_remote(&problem, dispatcher, config).expect("started");
                let run = drive(round_and_round(&problem, &shots, requests), service, requests, interval);
                assert_eq!(run.rate.errors, 0, "d = {distance}, {instances} graphs: not the CPU's answers");
                assert!(run.stages.iter().map(|(name, _)| name).eq(REMOTE_STAGES));
                eprintln!(
                    "d = {distance}: {requests} requests of {} shots, each with the CPU's prediction ({errors} of them are wrong), by \
                     {instances} graphs that the device launches, one every {} us: p50 {} ns, {:.0} a second",
                    shots.len(),
                    interval.as_micros(),
                    run.latency.value_at_quantile(0.5),
                    run.throughput_per_s(),
                );
            }
            let mut dispatcher = predecoder.graph_dispatcher(8, 2).expect("a dispatcher");
            for _ in 0..3 {
                dispatcher.start().expect("started");
                assert_eq!(dispatcher.health()(), Ok(()));
                let stopped = dispatcher.stop(Duration::from_secs(5));
                assert_eq!((stopped.ended, stopped.failure), (true, None));
            }
        }
    });
}

/// A copy in the network's place, in graphs that raise ready flags: all is left to matching, whichever way bits cross the bus.
#[test]
fn a_copy_in_the_networks_place_leaves_all_to_matching() {
    on_device("a_copy_in_the_networks_place_leaves_all_to_matching", |context| {
        let requests = from_env("RINGCALL_PIPELINE_REQUESTS", 2000);
        for distance in [3, 7, 13] {
            let bound = Bound::new(distance, 0.006);
            let problem = Problem::new(bound.model.clone()).expect("a problem");
            let shots = bound.shots(requests.min(500), 11);
            let network = bound.network.clone();
            let predecoder =
                GpuPredecoder::new("3x128_int8", network, &experiment(distance, 0.006), None, context);
            let predecoder = predecoder.expect("bound");
            let config = ServiceConfig { workers: 4, ..ServiceConfig::default() };
            let run = |inference: &Inference| {
                let service = Service::start(&problem, inference, config).expect("started");
                drive(round_and_round(&problem, &shots, requests), service, requests, Duration::ZERO)
            };
            let alone = run(&Inference::None);
            for copies in [Copies::Fastest, Copies::Kernels, Copies::CopyEngines, Copies::Hook] {
                let copied = predecoder.launched_without(2, copies, config.slots).expect("graphs");
                let copied = run(&copied);
                assert_eq!(copied.rate.errors, alone.rate.errors, "d = {distance}, {copies:?}");
                assert_eq!(copied.density_out.to_bits(), alone.density_out.to_bits(), "{copies:?}");
                eprintln!(
                    "d = {distance}, {copies:?}: without the network p50 {} ns, {:.0} a second",
                    copied.latency.value_at_quantile(0.5),
                    copied.throughput_per_s(),
                );
            }
        }
    });
}

/// Graphs that the dispatcher launches and whose last nodes raise ready flags, one at a time or several at once, whichever way bits
/// cross the bus: nothing is lost, and every answer is what the CPU's engine and matching predict. At d = 7 `RINGCALL_FLAG_REQUESTS`
/// says how many requests the first way has: a million for the soak.
#[test]
fn ready_flags_lose_nothing_and_predict_what_the_cpu_does() {
    on_device("ready_flags_lose_nothing_and_predict_what_the_cpu_does", |context| {
        let n = from_env("RINGCALL_PIPELINE_REQUESTS", 2000);
        let soak = from_env("RINGCALL_FLAG_REQUESTS", n);
        for (distance, most) in [(3, n), (7, soak), (13, n)] {
            let shots = if distance == 13 { n / 5 } else { n.min(4000) };
            let bound = Bound::new(distance, 0.006);
            let problem = Problem::new(bound.model.clone()).expect("a problem");
            let Predicted { shots, errors } = bound.predicted(bound.shots(shots, 11));
            let network = bound.network.clone();
            let experiment = experiment(distance, 0.006);
            let predecoder =
                GpuPredecoder::new("3x128_int8", network, &experiment, None, context).expect("bound");
            let config = ServiceConfig { workers: 4, ..ServiceConfig::default() };
            let host = {
                let inference = predecoder.inference().expect("graphs");
                let service = Service::start(&problem, &inference, config).expect("started");
                drive(round_and_round(&problem, &shots, most), service, most, Duration::ZERO)
            };
            let ways = [
                (1, Copies::Fastest, most),
                (2, Copies::Kernels, n),
                (4, Copies::CopyEngines, n),
                (1, Copies::Hook, n),
                (4, Copies::Fastest, most),
            ];
            for (streams, copies, requests) in ways {
                let inference = predecoder.launched(streams, copies, config.slots).expect("graphs");
                let service = Service::start(&problem, &inference, config).expect("started");
                let run =
                    drive(round_and_round(&problem, &shots, requests), service, requests, Duration::ZERO);
                assert_eq!(
                    run.rate.errors, 0,
                    "d = {distance}, {streams} streams, {copies:?}: not the CPU's answers"
                );
                if requests == most {
                    assert_eq!(run.matching_skipped, host.matching_skipped);
                    assert_eq!(run.density_out.to_bits(), host.density_out.to_bits());
                }
                eprintln!(
                    "d = {distance}: {requests} requests of {} shots ({errors} of the predictions are wrong), {streams} streams, \
                     {copies:?}: p50 {} ns, {:.0} a second; with worker threads that wait p50 {} ns, {:.0} a second",
                    shots.len(),
                    run.latency.value_at_quantile(0.5),
                    run.throughput_per_s(),
                    host.latency.value_at_quantile(0.5),
                    host.throughput_per_s(),
                );
            }
        }
    });
}

/// A study whose threads take turns on the device has the counts of one on the CPU.
#[test]
fn a_study_counts_the_same_on_the_device() {
    on_device("a_study_counts_the_same_on_the_device", |context| {
        let on_gpu = |point: &Point| -> Result<Inference, Failure> {
            let network = Network::from_onnx(MODEL)?;
            Ok(GpuPredecoder::new("3x128_int8", network, &point.surface().unwrap(), None, context)?
                .inference()?)
        };
        let on_cpu = |point: &Point| -> Result<Inference, Failure> {
            let options = Predecoder::sizes(&point.surface().unwrap())
                .into_iter()
                .fold(OnnxOptions::new(), |all, (name, size)| all.with_symbol(name, size));
            let network = Arc::new(OnnxModel::from_bytes("3x128_int8", MODEL, &options)?);
            Ok(Inference::Model(Arc::new(Predecoder::new(network, &point.surface().unwrap(), None)?)))
        };
        let point = |distance| Point::surface(distance, distance, Basis::X, 0.006);
        let counts = |bind: &Bind<'_>| -> Vec<ShotCounts> {
            let study = Study {
                deadline: None,
                program: String::new(),
                seed: 3,
                batch_shots: 100,
                matching: Matching::Correlated,
                relay: Relay::default(),
                predecoder: Some(Arm { label: "3x128_int8".to_owned(), bind }),
                points: vec![point(3), point(7)],
                models: BTreeMap::new(),
                stop: Stop { shots: 400, errors: None },
                threads: 4,
                shard: None,
            };
            let mut state = State::new(study.setup());
            assert!(study.run(&mut state, &mut Vec::new(), &mut |_| true).expect("a study"));
            study.points.iter().map(|point| state.outcome(point, &study.stop).counts).collect()
        };
        for (gpu, cpu) in counts(&on_gpu).iter().zip(&counts(&on_cpu)) {
            assert_eq!((gpu.shots, gpu.errors, gpu.fired), (400, cpu.errors, cpu.fired));
            let [gpu, cpu] = [gpu, cpu].map(|counts| counts.predecoder.expect("an arm"));
            assert_eq!((gpu.errors, gpu.fired), (cpu.errors, cpu.fired));
            assert!(gpu.fired > 0, "{gpu:?}");
        }
    });
}

/// Started, stopped and started again on one ring; an answer to an abandoned request does no harm.
#[test]
fn the_devices_dispatcher_restarts() {
    on_device("the_devices_dispatcher_restarts", |context| {
        let experiment = experiment(5, 0.006);
        let network = Network::from_onnx(MODEL).expect("the committed model");
        let predecoder =
            GpuPredecoder::new("3x128_int8", network, &experiment, Some(0.0), context).expect("bound");
        for (slots, kernels) in [(4, 1), (8, 2), (16, 4)] {
            let mut dispatcher = predecoder.dispatchers(slots, kernels).expect("a dispatcher");
            for _ in 0..3 {
                dispatcher.start().expect("started");
                assert!(dispatcher.start().is_err(), "it runs already");
                assert_eq!(dispatcher.health()(), Ok(()));
                let stopped = dispatcher.stop(Duration::from_secs(5));
                assert_eq!((stopped.ended, stopped.failure), (true, None));
                // Nothing polls: a stop of nothing ends at once.
                assert!(dispatcher.stop(Duration::ZERO).ended);
            }
            let _ = dispatcher.start();
            drop(dispatcher); // ends the kernel, then frees its memory
        }
        assert!(predecoder.dispatchers(6, 2).is_err(), "parts of three flags");
        predecoder.dispatcher(4).expect("the device is free again");
    });
}
