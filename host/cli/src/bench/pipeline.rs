//! Overhead of the pipeline: injector, ring, dispatch, hand-off to a worker, harvest, with an engine that only copies
//! and without matching.

use super::measure::{Bench, Row, histogram};
use super::starvation::{Judgement, Timeout};
use crate::pinning;
use anyhow::{Result, anyhow, bail};
use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionId, RingConfig, Wait};
use ringcall_gpu::atomic::SystemU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_gpu::{clock, hint};
use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
use ringcall_pipeline::{CorePinning, EngineStage, Injector, Pipeline, StageConfig, WorkerResources};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Payload: d = 7's syndrome, bit-packed, 336 detectors.
const PAYLOAD: usize = 42;
/// How long an answer may take, without and with threads that wait for cores.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Polls between readings of the clock.
const CHECK_EVERY: u32 = 1 << 10;
/// Requests of the throughput measurement between readings of the clock.
const SUBMITTED_EVERY: u64 = 1 << 6;

pub(super) fn run(bench: &Bench) -> Result<Row> {
    let model =
        Passthrough::new("copy", vec![TensorSpec::new("syndrome", ElementType::U8, vec![1, PAYLOAD])?])?;
    // Five threads spin if there are cores for them; otherwise they take turns.
    let wait = if bench.cores.all().len() >= 4 { Wait::Spin } else { Wait::Auto };
    let config = StageConfig {
        workers: 1,
        ring: RingConfig { slots: 64, slot_bytes: 128 },
        cores: CorePinning {
            dispatcher: Some(bench.cores.server()),
            worker_base: bench.cores.extra(0),
            consumer: bench.cores.extra(1),
        },
        wait,
        ..StageConfig::default()
    };
    let last = Arc::new(CachePadded(SystemU64::new(u64::MAX)));
    let count = Arc::new(CachePadded(SystemU64::new(0)));
    let wrong = Arc::new(SystemU64::new(0));
    let handler = {
        let (last, count, wrong) = (Arc::clone(&last), Arc::clone(&count), Arc::clone(&wrong));
        move |c: &ringcall_pipeline::CompletedRequest<'_>| {
            let right =
                c.is_success() && c.result.is_some_and(|r| r.len() == PAYLOAD && r[0] == c.request_id as u8);
            if !right {
                wrong.store(wrong.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
            last.store(c.request_id, Ordering::Release);
        }
    };
    let pipeline = Pipeline::builder()
        .config(config)
        .gpu_stage(move |_| {
            let stage = EngineStage::new(model.instantiate()?)?;
            Ok(WorkerResources::inline("copy", HandlerSchema::new(), stage.output_bytes(), stage))
        })
        .on_completion(handler)
        .build()?
        .start()?;
    pipeline.pins().iter().for_each(pinning::tell);
    let injector = pipeline.injector().ok_or_else(|| anyhow!("no injector"))?;
    let row = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                pinning::pin("client", bench.cores.client());
                measure(bench, injector, &last, &count, wait)
            })
            .join()
            .map_err(|_| anyhow!("the client thread panicked"))?
    })?;
    let stopped = pipeline.stop(Duration::from_secs(5));
    if !stopped.report.is_clean() {
        bail!("the pipeline did not stop cleanly: {:?}", stopped.report);
    }
    Ok(Row { wrong: wrong.load(Ordering::Relaxed), ..row })
}

fn patient() -> Timeout {
    let [usual, most] = TIMEOUTS;
    Timeout::new(usual, most)
}

fn measure(
    bench: &Bench,
    mut injector: Injector,
    last: &SystemU64,
    count: &SystemU64,
    wait: Wait,
) -> Result<Row> {
    let function = FunctionId::of("copy");
    let mut payload = [0; PAYLOAD];
    let mut times = histogram()?;
    let mut trips = bench.all_trips();
    let mut before = clock::now_ns();
    let mut waiter = wait.resolve(4).waiter();
    while let Some(trip) = trips.next(before) {
        let i = trip.number;
        payload[0] = i as u8;
        injector.submit(function, &payload, i)?;
        let mut timeout = None;
        let mut polls = 0_u32;
        while last.load(Ordering::Acquire) != i {
            if wait == Wait::Spin {
                hint::spin();
            } else {
                waiter.idle();
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(CHECK_EVERY) {
                let timeout: &Timeout = timeout.get_or_insert_with(patient);
                if let Some(Judgement::Over(why)) = timeout.judge() {
                    bail!("request {i} had no completion {why}");
                }
            }
        }
        waiter.reset();
        let now = clock::now_ns();
        if trip.is_timed {
            times.record((now - before).max(1))?;
        }
        before = now;
    }
    let done_before = count.load(Ordering::Acquire);
    let begin = clock::now_ns();
    let most = bench.requests.min(1_000_000);
    let mut requests = 0;
    while requests < most {
        payload[0] = requests as u8;
        injector.submit(function, &payload, requests)?;
        requests += 1;
        if requests.is_multiple_of(SUBMITTED_EVERY) && clock::now_ns() - begin >= bench.limits.requests_ns {
            break;
        }
    }
    let timeout = patient();
    while count.load(Ordering::Acquire) - done_before < requests {
        waiter.idle();
        if let Some(Judgement::Over(why)) = timeout.judge() {
            let done = count.load(Ordering::Acquire) - done_before;
            bail!("{done} of {requests} requests had a completion {why}");
        }
    }
    let seconds = (clock::now_ns() - begin) as f64 / 1e9;
    Ok(Row { per_s: Some(requests as f64 / seconds), cut_from: trips.cut_from(), ..Row::new(&times) })
}
