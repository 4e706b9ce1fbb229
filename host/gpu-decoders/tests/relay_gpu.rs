//! Relay-BP over a mapped ring and as a graph, against `ringcall-bp` to the bit. Skipped, with a line, without a device.

mod common;

use common::codes::{count, graph_of, model, model_of, owed, packed, shots};
use common::on_relay_device;
use ringcall::RingConfig;
use ringcall_bp::kernel::{SHAPES, Tables};
use ringcall_bp::{BpConfig, BpGraph, BpGraphBuilder};
use ringcall_cuda::driver::Context;
use ringcall_gpu_decoders::relay_bp::{Answer, AnswerLayout, Bounds, Ended, GpuError, GpuModel, GridHandler};
use ringcall_infer::Model;
use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules, Running};
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_qec::circuit::{Code, DetectorBases, Experiment};
use ringcall_qec::code::Basis;
use ringcall_wire::Status;
use ringcall_wire::function::FunctionId;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(5);
const NAME: &str = "decode_syndrome";

/// A running dispatcher with the handler in it.
struct Served {
    ring: MappedRing,
    layout: AnswerLayout,
    checks: usize,
    handler: GridHandler,
    dispatcher: DeviceDispatcher<Running>,
}

impl Served {
    fn start(context: &Arc<Context>, graph: &BpGraph, config: &BpConfig, bounds: Bounds) -> Self {
        let handler = GridHandler::new(graph, config, context, bounds).expect("a handler");
        let ring = RingConfig { slots: 1, slot_bytes: handler.slot_bytes() };
        let ring = MappedRing::allocate(context, ring).expect("a ring");
        let (functions, modules) =
            (handler.function(Functions::new(), NAME), handler.modules(Modules::new()));
        let wired = DeviceDispatcher::wire(&ring, functions, modules, handler.options()).expect("wired");
        let (layout, checks) = (handler.layout(), graph.num_checks());
        Self { ring, layout, checks, handler, dispatcher: wired.start().expect("started") }
    }

    /// One call through the ring's only slot.
    fn call(&self, payload: &[u8], result: &mut Vec<u8>) -> Status {
        let ring = self.ring.ring();
        let slot = ring.geometry().slot(0).expect("a slot");
        let begin = Instant::now();
        let vacant = loop {
            if let Some(vacant) = Vacant::probe(ring.shared(), slot) {
                break vacant;
            }
            assert!(begin.elapsed() < TIMEOUT, "the slot does not become free");
        };
        vacant.submit(ring.shared(), FunctionId::of(NAME).0, 7, 7, payload).expect("it fits");
        loop {
            if let Some(response) = Response::probe(ring.shared(), slot) {
                let (status, len) = (Status(response.header().status), response.header().result_len);
                result.resize(len as usize, 0);
                response.read(ring.shared(), result);
                response.release(ring.shared());
                return status;
            }
            assert!(begin.elapsed() < TIMEOUT, "no answer");
        }
    }

    fn decode(&self, defects: &[u32]) -> Answer {
        let mut result = Vec::new();
        let status = self.call(&packed(self.checks, defects), &mut result);
        assert_eq!(status, Status::OK, "{defects:?}");
        self.layout.read(&result).unwrap_or_else(|| panic!("{defects:?}: {result:?} is no answer"))
    }

    /// How long the stop took.
    fn stop(self) -> Duration {
        let begin = Instant::now();
        let stopped = self.dispatcher.stop(TIMEOUT);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
        begin.elapsed()
    }
}

fn configs(lanes: u32) -> [(&'static str, BpConfig); 3] {
    let relay = BpConfig::relay();
    [
        ("1 solution", relay.clone()),
        ("5 solutions", BpConfig { solutions: 5, ..relay.clone() }),
        ("raced lanes", BpConfig { lanes, ..relay }),
    ]
}

/// The answers of the ring to as many shots as the environment says, each to the bit.
fn answers_are_the_cpus(name: &str, experiment: Experiment, lanes: u32) {
    on_relay_device(name, |context| {
        let model = model_of(experiment);
        let graph = graph_of(&model);
        for (number, (which, config)) in configs(lanes).into_iter().enumerate() {
            // Most of the time is the CPU's.
            let shots =
                shots(&model, 11 + number as u64, count("RINGCALL_RELAY_SHOTS", 400) / [1, 20, 4][number]);
            let owed = owed(&graph, &config, &shots);
            let served = Served::start(context, &graph, &config, Bounds::default());
            let mut times: Vec<Duration> = Vec::with_capacity(shots.len());
            for (number, (defects, owed)) in shots.iter().zip(&owed).enumerate() {
                let begin = Instant::now();
                let answer = served.decode(defects);
                times.push(begin.elapsed());
                assert_eq!(answer, *owed, "{which}, shot {number}: {defects:?}");
            }
            let shape = served.handler.shape().name;
            served.stop();
            eprintln!("{name}, {which}, {shape}, over a ring: {}", quantiles(times));

            let model = GpuModel::new(&graph, &config, context, Bounds::default()).expect("a model");
            let mut engine = model.instantiate().expect("an engine");
            let (layout, mut bytes) = (model.layout(), vec![0; model.layout().bytes()]);
            let mut times = Vec::new();
            for (number, (defects, owed)) in shots.iter().zip(&owed).take(5000).enumerate() {
                let request = packed(graph.num_checks(), defects);
                let begin = Instant::now();
                engine.run(&[&request], &mut [&mut bytes]).expect("a run");
                times.push(begin.elapsed());
                assert_eq!(layout.read(&bytes), Some(*owed), "{which}, shot {number} of a graph");
            }
            eprintln!("{name}, {which}, {}, as a graph: {}", model.shape().name, quantiles(times));
        }
    });
}

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(at);
    format!("{} shots, p50 {p50:.1} us, p99 {p99:.1}, p99.9 {p999:.1}, max {max:.1}", times.len())
}

#[test]
fn answers_of_bb72_are_the_cpus_to_the_bit() {
    answers_are_the_cpus("answers_of_bb72_are_the_cpus_to_the_bit", Experiment::of(Code::Bb72), 8);
}

#[test]
fn answers_of_bb144_are_the_cpus_to_the_bit() {
    answers_are_the_cpus("answers_of_bb144_are_the_cpus_to_the_bit", Experiment::of(Code::Bb144), 6);
}

#[test]
fn answers_of_bb72_in_the_x_basis_are_the_cpus_to_the_bit() {
    let experiment = Experiment { basis: Basis::X, ..Experiment::of(Code::Bb72) };
    answers_are_the_cpus("answers_of_bb72_in_the_x_basis_are_the_cpus_to_the_bit", experiment, 8);
}

#[test]
fn answers_of_bb144_in_the_x_basis_are_the_cpus_to_the_bit() {
    let experiment = Experiment { basis: Basis::X, ..Experiment::of(Code::Bb144) };
    answers_are_the_cpus("answers_of_bb144_in_the_x_basis_are_the_cpus_to_the_bit", experiment, 6);
}

/// Detectors of X and of Z checks in one shot, of the surface code in the X basis. The kernel takes no such graph of a bicycle
/// code, as the next test shows.
#[test]
fn answers_to_both_kinds_of_detectors_are_the_cpus_to_the_bit() {
    let experiment = Experiment { distance: 5, rounds: 5, basis: Basis::X, ..Experiment::of(Code::Surface) };
    answers_are_the_cpus("answers_to_both_kinds_of_detectors_are_the_cpus_to_the_bit", experiment, 6);
}

#[test]
fn answers_of_a_color_code_are_the_cpus_to_the_bit() {
    let experiment = Experiment { distance: 5, rounds: 5, ..Experiment::of(Code::Color) };
    answers_are_the_cpus("answers_of_a_color_code_are_the_cpus_to_the_bit", experiment, 6);
}

/// An error of a bicycle code flips nine detectors if both kinds of checks have them: this is refused, with or without a device.
#[test]
fn both_kinds_of_detectors_of_a_bicycle_code_are_refused() {
    for code in [Code::Bb72, Code::Bb144] {
        let experiment = Experiment { detectors: DetectorBases::Both, ..Experiment::of(code) };
        let model = model_of(experiment);
        let most = model.mechanisms.iter().map(|error| error.detectors.len()).max();
        assert_eq!(most, Some(9), "checks of one column");
        let refusal = Tables::choose(&graph_of(&model), &SHAPES).expect_err("the kernel takes 8");
        assert!(refusal.to_string().contains("the GPU's Relay-BP"), "{refusal}");
    }
}

/// Graphs of columns of up to 8 checks, in the shapes for large and for long ones.
#[test]
fn other_graphs_and_syndromes_that_nothing_explains() {
    on_relay_device("other_graphs_and_syndromes_that_nothing_explains", |context| {
        let mut builder = BpGraphBuilder::new(61, 20);
        for number in 0..400_u32 {
            let checks: Vec<u32> =
                (0..=number % 8).map(|k| (number * 7 + k * (3 + number % 5)) % 60).collect();
            let probability = if number % 50 == 0 { 0.5 } else { 0.001 * f64::from(number % 9 + 1) };
            builder.error(probability, &checks, &[number % 20]).expect("in range");
            // What never happens is left out.
            builder.error(0.0, &[60], &[number % 20]).expect("in range");
        }
        let long = builder.build().expect("small");
        let mut builder = BpGraphBuilder::new(1500, 2);
        for number in 0..20_000_u32 {
            let checks = [number % 1500, (number * 7 + 1) % 1500, (number / 3) % 1500];
            builder.error(0.002, &checks[..(1 + number % 3) as usize], &[number % 2]).expect("in range");
        }
        let wide = builder.build().expect("small");
        // No pair of the columns explains an odd number of defects.
        let mut builder = BpGraphBuilder::new(12, 1);
        for check in 0..11 {
            builder.error(0.01, &[check, check + 1], &[0]).expect("in range");
        }
        let even = builder.build().expect("small");
        let some = |checks: u32, step: u32| {
            (0..checks).filter(|check| (check * 5 + step * 3) % 11 < step % 4).collect()
        };
        let relay = BpConfig { max_iterations: 700, ..BpConfig::relay() };
        for (name, graph, extra, config) in [
            ("long", &long, vec![60], relay.clone()),
            ("long", &long, vec![60, 3], BpConfig { solutions: 3, lanes: 4, ..relay.clone() }),
            ("wide", &wide, vec![1499], relay.clone()),
            ("even", &even, vec![4], relay.clone()),
            ("even", &even, vec![0, 1, 2], BpConfig { lanes: 14, ..relay.clone() }),
            ("even", &even, vec![11], BpConfig::min_sum(30)),
        ] {
            let checks = graph.num_checks() as u32;
            let mut shots: Vec<Vec<u32>> = (0..20).map(|step| some(checks, step)).collect();
            shots.extend([extra, vec![], (0..checks).collect()]);
            // A device that races fewer lanes says so.
            let fits = GridHandler::new(graph, &config, context, Bounds::default());
            if let Err(GpuError::Lanes { most, .. }) = fits {
                eprintln!("{name}: {} lanes do not fit {most} clusters", config.lanes);
                continue;
            }
            drop(fits);
            let owed = owed(graph, &config, &shots);
            let served = Served::start(context, graph, &config, Bounds::default());
            for (defects, owed) in shots.iter().zip(owed) {
                assert_eq!(served.decode(defects), owed, "{name}: {defects:?}");
            }
            eprintln!("{name} in shape {}", served.handler.shape().name);
            served.stop();
        }
    });
}

#[test]
fn bad_requests_are_refused_and_the_next_one_is_answered() {
    on_relay_device("bad_requests_are_refused_and_the_next_one_is_answered", |context| {
        let graph = graph_of(&model(Code::Bb72));
        for lanes in [1, 3] {
            let config = BpConfig { lanes, ..BpConfig::relay() };
            let served = Served::start(context, &graph, &config, Bounds::default());
            let mut result = Vec::new();
            for _ in 0..50 {
                let mut request = packed(graph.num_checks(), &[]);
                assert_eq!(served.call(&request[1..], &mut result), Status::SCHEMA_MISMATCH);
                *request.last_mut().expect("bytes") = 0x80;
                assert_eq!(served.call(&request, &mut result), Status::BAD_PAYLOAD);
                let answer = served.decode(&[]);
                assert_eq!((answer.ended, answer.weight, answer.iterations), (Ended::Converged, 0, 1));
            }
            served.stop();
        }
        let served = Served::start(
            context,
            &graph,
            &BpConfig::relay(),
            Bounds { results_only: true, ..Bounds::default() },
        );
        let mut result = Vec::new();
        assert_eq!(served.call(&packed(graph.num_checks(), &[]), &mut result), Status::OK);
        assert_eq!(result, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        served.stop();
    });
}

/// A graph whose odd syndromes never converge, and a configuration that would try for seconds.
fn endless() -> (BpGraph, BpConfig) {
    let mut builder = BpGraphBuilder::new(12, 1);
    for check in 0..11 {
        builder.error(0.01, &[check, check + 1], &[0]).expect("in range");
    }
    (builder.build().expect("small"), BpConfig { legs: 100_000, leg_iterations: 600, ..BpConfig::relay() })
}

#[test]
fn late_and_cancelled_decodes_are_answered() {
    on_relay_device("late_and_cancelled_decodes_are_answered", |context| {
        let (graph, config) = endless();
        for lanes in [1, 5] {
            let config = BpConfig { lanes, ..config.clone() };
            let deadline = Some(Duration::from_micros(300));
            let served = Served::start(context, &graph, &config, Bounds { deadline, ..Bounds::default() });
            let begin = Instant::now();
            for _ in 0..100 {
                let answer = served.decode(&[4]);
                assert_eq!((answer.ended, answer.solutions), (Ended::Late, 0));
                assert_eq!(served.decode(&[4, 5]).ended, Ended::Converged);
            }
            eprintln!("{lanes} lanes: {:?} for a late decode", begin.elapsed() / 100);
            served.stop();

            let served = Served::start(context, &graph, &config, Bounds::default());
            let flag = served.handler.cancel_flag().clone();
            for _ in 0..20 {
                std::thread::scope(|scope| {
                    let begun = Instant::now();
                    let decode = scope.spawn(|| served.decode(&[4]));
                    std::thread::sleep(Duration::from_millis(2));
                    assert!(!decode.is_finished(), "it ended by itself, after {:?}", begun.elapsed());
                    flag.raise().expect("raised");
                    let answer = decode.join().expect("no panic");
                    assert_eq!((answer.ended, answer.solutions), (Ended::Cancelled, 0));
                });
                flag.lower().and_then(|()| flag.finish()).expect("lowered");
                assert_eq!(served.decode(&[4, 5]).ended, Ended::Converged);
            }
            served.stop();
        }
    });
}

/// Not only the answer is bounded: so is the end of the kernel, whatever it decodes.
#[test]
fn a_dispatcher_stops_while_it_decodes() {
    on_relay_device("a_dispatcher_stops_while_it_decodes", |context| {
        let (graph, config) = endless();
        let bounds = Bounds { deadline: Some(Duration::from_millis(10)), ..Bounds::default() };
        let served = Served::start(context, &graph, &config, bounds);
        let ring = served.ring.ring();
        let slot = ring.geometry().slot(0).expect("a slot");
        let vacant = Vacant::probe(ring.shared(), slot).expect("vacant");
        vacant.submit(ring.shared(), FunctionId::of(NAME).0, 7, 7, &packed(12, &[4])).expect("it fits");
        std::thread::sleep(Duration::from_millis(1));
        eprintln!("stopped in {:?} while it decoded", served.stop());
    });
}

#[test]
fn none_of_a_million_requests_is_lost() {
    on_relay_device("none_of_a_million_requests_is_lost", |context| {
        let model = model(Code::Bb72);
        let graph = graph_of(&model);
        let config = BpConfig { lanes: 4, ..BpConfig::relay() };
        let shots = shots(&model, 5, 2000);
        let owed = owed(&graph, &config, &shots);
        let handler = GridHandler::new(&graph, &config, context, Bounds::default()).expect("a handler");
        const SLOTS: u32 = 16;
        let ring = RingConfig { slots: SLOTS, slot_bytes: handler.slot_bytes() };
        let ring = MappedRing::allocate(context, ring).expect("a ring");
        let (functions, modules) =
            (handler.function(Functions::new(), NAME), handler.modules(Modules::new()));
        let wired = DeviceDispatcher::wire(&ring, functions, modules, handler.options()).expect("wired");
        let running = wired.start().expect("started");
        let requests: Vec<_> = shots.iter().map(|defects| packed(graph.num_checks(), defects)).collect();
        let shared = ring.ring().shared();
        let total = count("RINGCALL_RELAY_REQUESTS", 10_000);
        let (mut sent, mut answered, mut of) = (0, 0, [None; SLOTS as usize]);
        let mut bytes = vec![0; handler.answer_bytes()];
        let (begin, mut last) = (Instant::now(), Instant::now());
        while answered < total {
            for (index, of) in (0..SLOTS).zip(&mut of) {
                let slot = ring.ring().geometry().slot(index).expect("a slot");
                if let Some(number) = *of {
                    let Some(response) = Response::probe(shared, slot) else { continue };
                    assert_eq!(Status(response.header().status), Status::OK);
                    assert_eq!(response.header().request_id, number as u32);
                    response.read(shared, &mut bytes);
                    response.release(shared);
                    let answer = handler.layout().read(&bytes).expect("an answer");
                    assert_eq!(answer, owed[number % owed.len()], "request {number}");
                    (*of, answered, last) = (None, answered + 1, Instant::now());
                } else if sent < total
                    && let Some(vacant) = Vacant::probe(shared, slot)
                {
                    let request = &requests[sent % requests.len()];
                    vacant.submit(shared, FunctionId::of(NAME).0, sent as u32, 7, request).expect("it fits");
                    (*of, sent) = (Some(sent), sent + 1);
                }
            }
            assert!(last.elapsed() < TIMEOUT, "no answer to {} of {total} requests", sent - answered);
        }
        eprintln!(
            "{total} requests, none lost, {:.0} a second",
            total as f64 / begin.elapsed().as_secs_f64()
        );
        let stopped = running.stop(TIMEOUT);
        assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    });
}

#[test]
fn what_does_not_fit_is_refused() {
    on_relay_device("what_does_not_fit_is_refused", |context| {
        let graph = graph_of(&model(Code::Bb144));
        let config = BpConfig { lanes: 64, ..BpConfig::relay() };
        let error = GridHandler::new(&graph, &config, context, Bounds::default()).expect_err("64 lanes");
        assert!(matches!(error, GpuError::Lanes { lanes: 65, .. }), "{error}");
        eprintln!("{error}");
        // A million errors of 40 checks each, as host/bp/tests/bad_input.rs has them for the CPU.
        let mut builder = BpGraphBuilder::new(20_000, 1);
        for number in 0..1_000_000_u32 {
            let checks: [u32; 40] = std::array::from_fn(|k| (number * 37 + k as u32 * 499) % 20_000);
            builder.error(0.001, &checks, &[0]).expect("in range");
        }
        let large = builder.build().expect("a graph for a CPU");
        let error =
            GridHandler::new(&large, &BpConfig::relay(), context, Bounds::default()).expect_err("large");
        assert!(error.to_string().contains("at most 8 checks of one column, and the graph has"), "{error}");
    });
}
