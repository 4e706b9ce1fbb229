//! Relay-BP, one shot at a time: on one core, as a captured graph, and over a ring that the device polls.
//!
//! The experiments are memory experiments of bivariate bicycle codes, and of the surface code of distance 13 with the
//! errors of both bases together, with as many rounds as their distance, circuit noise of 0.003, and one solution.
//! Every answer of a device must equal the CPU's, to the bit.
//! rounds as their distance, circuit noise of 0.003, one solution. Every answer of a device is held to the CPU's, to the bit.

use super::device::{context, round_trips};
use super::measure::{Bench, DecodeFigures, Row, histogram};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use ringcall::{FunctionId, RingConfig};
use ringcall_bp::{BpConfig, BpDecoder, BpGraph};
use ringcall_gpu::clock;
use ringcall_gpu_decoders::relay_bp::{Answer, AnswerLayout, Bounds, Ended, GpuModel, GridHandler};
use ringcall_infer::Model;
use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules};
use ringcall_qec::circuit::{Code, Experiment};
use ringcall_qec::decode::RelayFactory;
use ringcall_qec::sample::Sampler;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

const FUNCTION: &str = "decode_syndrome";
const NOISE: f64 = 0.003;
const SEED: u64 = 5;
/// Distance of the surface code. Its errors are not split by basis, and flip more checks than a device's kernel takes.
const SURFACE_DISTANCE: u32 = 13;
/// How long the CPU may decode for a row, and how long the row may take in total.
const CPU_NS: u64 = 3_000_000_000;
const WHOLE_NS: u64 = 2 * CPU_NS;
/// Shots through which round trips with a device cycle.
const SHOTS: usize = 4000;

/// A code's graph, its shots and the CPU's answers.
struct Case {
    factory: RelayFactory,
    config: BpConfig,
    requests: Vec<Vec<u8>>,
    owed: HashMap<Vec<u8>, Answer>,
}

fn counts() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 1 << 27, 3)?)
}

impl Case {
    /// Decodes shots until there are enough or the time is over, and returns the row of the times.
    fn new(code: Code, lanes: u32, most: usize) -> Result<(Self, Row)> {
        let distance = code.distance().unwrap_or(SURFACE_DISTANCE);
        let experiment = Experiment { distance, rounds: distance, p: NOISE, ..Experiment::of(code) };
        let model = experiment.detector_error_model()?;
        let config = BpConfig { lanes, ..BpConfig::relay() };
        let factory = RelayFactory::new(&model, &config)?;
        let graph: &BpGraph = factory.graph();
        let mut decoder = BpDecoder::new(graph, &config)?;
        let mut sampler = Sampler::new(&model, SEED)?;
        let mut shot = sampler.new_shot();
        let (mut defects, mut observables) = (Vec::new(), vec![0; graph.observable_bytes()]);
        let (mut times, mut iterations) = (histogram()?, counts()?);
        let (mut requests, mut owed) = (Vec::new(), HashMap::new());
        let mut total = 0;
        let end = clock::now_ns() + WHOLE_NS;
        let is_over = |total| total >= CPU_NS || clock::now_ns() >= end;
        while requests.len() < most && (requests.is_empty() || !is_over(total)) {
            sampler.sample_into(&mut shot)?;
            shot.detectors.ones_into(&mut defects);
            let begin = clock::now_ns();
            let outcome = decoder.decode(&defects, &mut observables)?;
            let took = (clock::now_ns() - begin).max(1);
            total += took;
            times.record(took)?;
            iterations.record(outcome.iterations.into())?;
            let request: Vec<u8> = shot.detectors.iter_bytes().collect();
            let answer = Answer {
                observables: observables.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte)),
                corrections: decoder.error().len() as u32,
                iterations: outcome.iterations,
                weight: outcome.weight,
                solutions: outcome.solutions,
                ended: if outcome.converged { Ended::Converged } else { Ended::Exhausted },
            };
            owed.insert(request.clone(), answer);
            requests.push(request);
        }
        let row = Row {
            ratio_to_floor: f64::NAN,
            per_s: Some(times.len() as f64 / (total as f64 / 1e9)),
            bp: Some(DecodeFigures::new(times.value_at_quantile(0.9999), &iterations, None)),
            ..Row::new(&times)
        };
        Ok((Self { factory, config, requests, owed }, row))
    }

    fn layout(&self) -> AnswerLayout {
        AnswerLayout::new(self.factory.graph().num_observables() as u32)
    }

    fn is_right(&self, request: &[u8], answer: &[u8]) -> Option<Answer> {
        let found = self.layout().read(answer)?;
        (self.owed.get(request) == Some(&found)).then_some(found)
    }
}

/// Why this device cannot run the kernel, if it cannot.
pub(super) fn unfit() -> Option<String> {
    let (major, minor) = context().ok()?.device().capability();
    (major < 9).then(|| {
        format!("the Relay-BP kernel is for compute capability 9.0 and later, this GPU has {major}.{minor}")
    })
}

/// On one core.
pub(super) fn cpu(bench: &Bench, code: Code) -> Result<Row> {
    let most = usize::try_from(bench.trips).unwrap_or(usize::MAX);
    bench.on_client_core(|| Ok(Case::new(code, 1, most)?.1))
}

/// Figures that a device's answers contain.
struct Said {
    iterations: Histogram<u64>,
    inside: Histogram<u64>,
    clock_khz: u64,
}

impl Said {
    fn new() -> Result<Self> {
        let clock_khz = context()?.device().clock_khz()?.into();
        Ok(Self { iterations: counts()?, inside: histogram()?, clock_khz })
    }

    fn record(&mut self, case: &Case, answer: Answer, bytes: &[u8]) {
        let cycles = u64::from(case.layout().cycles(bytes).unwrap_or(0));
        self.inside.saturating_record(cycles * 1_000_000 / self.clock_khz.max(1));
        self.iterations.saturating_record(answer.iterations.into());
    }

    fn on(&self, row: Row, p9999_ns: u64) -> Row {
        let bp = Some(DecodeFigures::new(p9999_ns, &self.iterations, Some(&self.inside)));
        Row { ratio_to_floor: f64::NAN, bp, ..row }
    }
}

/// As a captured graph: a request is put into mapped memory, the graph launched, and the answer read.
pub(super) fn graph(bench: &Bench, code: Code) -> Result<Row> {
    let (case, _) = Case::new(code, 1, SHOTS)?;
    let model = GpuModel::new(case.factory.graph(), &case.config, &context()?, Bounds::default())?;
    let trips = bench.shorter(10).trips;
    bench.on_client_core(|| {
        let mut engine = model.instantiate()?;
        let mut bytes = vec![0; model.layout().bytes()];
        let (mut times, mut said, mut wrong) = (histogram()?, Said::new()?, 0);
        let mut trips = bench.trips_after(trips / 10 + 1, trips);
        let mut requests = case.requests.iter().cycle();
        while let Some((trip, request)) = trips.next(clock::now_ns()).zip(requests.next()) {
            let begin = clock::now_ns();
            engine.run(&[request], &mut [&mut bytes])?;
            let took = clock::now_ns() - begin;
            match case.is_right(request, &bytes) {
                Some(answer) => said.record(&case, answer, &bytes),
                None => wrong += 1,
            }
            if trip.is_timed {
                times.record(took.max(1))?;
            }
        }
        let row = Row { wrong, cut_from: trips.cut_from(), ..Row::new(&times) };
        Ok(said.on(row, times.value_at_quantile(0.9999)))
    })
}

/// Over a ring, by the cooperative dispatcher, with `lanes` that race.
pub(super) fn ring(bench: &Bench, code: Code, lanes: u32) -> Result<Row> {
    let (case, _) = Case::new(code, lanes, SHOTS)?;
    let context = context()?;
    let handler = GridHandler::new(case.factory.graph(), &case.config, &context, Bounds::default())?;
    let ring = MappedRing::allocate(&context, RingConfig { slots: 4, slot_bytes: handler.slot_bytes() })?;
    let functions = handler.function(Functions::new(), FUNCTION);
    let dispatcher =
        DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options())?
            .start()?;
    let said = Mutex::new(Said::new()?);
    let measured = round_trips(
        &bench.shorter(4),
        ring.ring(),
        FunctionId::of(FUNCTION),
        vec![0; handler.request_bytes()],
        handler.answer_bytes(),
        |i, payload| payload.copy_from_slice(&case.requests[i as usize % case.requests.len()]),
        |payload, bytes| {
            let answer = case.is_right(payload, bytes);
            if let (Some(answer), Ok(mut said)) = (answer, said.lock()) {
                said.record(&case, answer, bytes);
            }
            answer.is_some()
        },
    );
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if !stopped.report.is_clean() {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    let row = measured?;
    let p9999_ns = row.p9999_ns;
    Ok(said.into_inner().ok().context("a client panicked")?.on(row, p9999_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_shots_that_the_cpu_decodes() {
        let (case, row) = Case::new(Code::Bb72, 1, 50).unwrap();
        assert_eq!((case.requests.len(), row.n), (50, 50));
        let request = &case.requests[0];
        let mut bytes = vec![0; case.layout().bytes()];
        assert!(case.is_right(request, &bytes).is_none());
        let owed = case.owed[request];
        let words = [owed.corrections, 1, owed.iterations, owed.weight, owed.solutions, 0, 9];
        bytes[..2].copy_from_slice(&owed.observables.to_le_bytes()[..2]);
        bytes[2..].copy_from_slice(&words.map(u32::to_le_bytes).concat());
        assert_eq!((case.is_right(request, &bytes), case.layout().cycles(&bytes)), (Some(owed), Some(9)));
    }
}
