//! Seeded chaos: stages that are slow, panic, fail, defer, drop their deferral or are never ready; requests of unknown functions
//! and of wrong lengths; rings of 1, 2, 64 and 4,096 slots; restarts, some at a deadline of zero. Every request is answered or
//! accounted for exactly once.
//!
//! `RINGCALL_CHAOS_REQUESTS` sets the number of requests, `RINGCALL_CHAOS_SEED` the seed.

mod support;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall::client::Client;
use ringcall::wire::header::RequestHeader;
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionId, Ring, RingConfig, Status};
use ringcall_pipeline::{
    CompletedRequest, CpuStage, Deferral, Pipeline, PipelineBuilder, RequestView, StageConfig, StageContext,
    StageError, StageOutcome, Stats, WorkerResources,
};
use ringcall_protocol::Vacant;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::*;

const ANY: FunctionId = FunctionId::of("any_length");
const SIXTEEN: FunctionId = FunctionId::of("sixteen_bytes");

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn chaos(seed: u64, stream: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// The result of a request that went well: a word of its payload, mixed.
fn result_of(word: u64) -> [u8; 8] {
    (word ^ 0xA5A5_A5A5_A5A5_A5A5).rotate_left(17).to_le_bytes()
}

/// Once in `n`.
fn once_in(rng: &mut impl Rng, n: u32) -> bool {
    rng.random_range(0..n) == 0
}

fn dawdle(rng: &mut impl Rng) {
    if once_in(rng, 64) {
        std::thread::yield_now();
    }
    if once_in(rng, 20_000) {
        std::thread::sleep(Duration::from_micros(rng.random_range(1..500)));
    }
}

struct Inference(Xoshiro256PlusPlus);

impl Inference {
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        dawdle(&mut self.0);
        if once_in(&mut self.0, 2000) {
            panic!("on purpose");
        }
        if once_in(&mut self.0, 500) {
            return Err(StageError(Status::BAD_PAYLOAD));
        }
        output[..request.payload.len()].copy_from_slice(request.payload);
        Ok(request.payload.len())
    }
}

struct Stage {
    rng: Xoshiro256PlusPlus,
    deferred: Sender<(Deferral, u64)>,
    never: bool,
}

impl CpuStage for Stage {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        assert_eq!(context.output, context.request.payload, "another request's output");
        if self.never {
            // Until the request is answered otherwise. The next job begins afresh.
            self.never = !once_in(&mut self.rng, 50_000);
            return StageOutcome::NotReady;
        }
        dawdle(&mut self.rng);
        let word = context.output.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        match self.rng.random_range(0..10_000_u32) {
            0..5 => panic!("on purpose"),
            5..105 => StageOutcome::Failed(Status(self.rng.random_range(1..100))),
            105..205 => StageOutcome::NotReady,
            205..405 => {
                let _ = self.deferred.send((context.defer(), word));
                StageOutcome::Deferred
            }
            405..425 => {
                drop(context.defer());
                StageOutcome::Deferred
            }
            425..430 => StageOutcome::Deferred,
            430..440 => StageOutcome::Done(context.response.len() + 1),
            440 if once_in(&mut self.rng, 4) => {
                self.never = true;
                StageOutcome::NotReady
            }
            _ => {
                context.response[..8].copy_from_slice(&result_of(word));
                StageOutcome::Done(8)
            }
        }
    }
}

/// Counts of completions by id and by status, and of results that belong to another request.
#[derive(Default)]
struct Ledger {
    ids: Vec<u8>,
    statuses: BTreeMap<i32, u64>,
    wrong: u64,
    seen: u64,
}

impl Ledger {
    fn enter(&mut self, completion: &CompletedRequest<'_>) {
        self.seen += 1;
        let id = completion.request_id;
        // The high half counts too: ids are spread over all 64 bits.
        let index = (id & 0xFFFF_FFFF) as usize;
        if id >> 32 != spread(index as u64) >> 32 || index >= self.ids.len() {
            self.wrong += 1;
            return;
        }
        self.ids[index] = self.ids[index].saturating_add(1);
        *self.statuses.entry(completion.status.0).or_default() += 1;
        if let Some(result) = completion.result
            && completion.is_success()
            && *result != result_of(id)
            && *result != result_of(0)
        {
            self.wrong += 1;
        }
    }

    fn sum(&self, kinds: impl Fn(&Status) -> bool) -> u64 {
        self.statuses.iter().filter(|&(&status, _)| kinds(&Status(status))).map(|(_, n)| n).sum()
    }

    fn check(&self, stats: &Stats, submitted: u64) {
        let nobody_finished =
            |s: &Status| matches!(*s, Status::TIMED_OUT | Status::SHUTTING_DOWN | Status::ABANDONED);
        assert_eq!(self.wrong, 0, "completions with another request's id or result");
        let not_once = self.ids[..submitted as usize].iter().filter(|&&times| times != 1).count();
        assert_eq!(not_once, 0, "requests completed never or twice, of {submitted}: {stats:?}");
        assert_eq!((stats.submitted, stats.completed), (submitted, submitted), "{stats:?}");
        assert_eq!(stats.succeeded, self.sum(|s| s.is_ok()), "{stats:?}");
        assert_eq!(stats.timed_out, self.sum(nobody_finished), "{stats:?}");
        assert_eq!(stats.refused, submitted - stats.succeeded - stats.timed_out, "{stats:?}");
    }
}

/// The id of request `index`: the index below a high half that depends on the index.
fn spread(index: u64) -> u64 {
    index | (index.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF) << 32
}

struct Setup {
    builder: PipelineBuilder,
    ledger: Arc<Mutex<Ledger>>,
    answering: JoinHandle<()>,
}

/// Answers deferred requests, some late, some never.
fn answer_later(deferrals: Receiver<(Deferral, u64)>, mut rng: Xoshiro256PlusPlus) {
    let mut consumer_state = Vec::new();
    for (deferral, word) in deferrals {
        consumer_state.push((deferral, word));
        if once_in(&mut rng, 3) {
            continue;
        }
        for (deferral, word) in consumer_state.drain(..) {
            dawdle(&mut rng);
            if once_in(&mut rng, 20) {
                drop(deferral);
            } else {
                let _ = deferral.complete(Status::OK, &result_of(word));
            }
        }
    }
}

fn setup(config: StageConfig, seed: u64, requests: u64) -> Setup {
    quiet_panics();
    let (deferred, deferrals) = channel();
    let ledger = Arc::new(Mutex::new(Ledger { ids: vec![0; requests as usize], ..Ledger::default() }));
    let answering = std::thread::spawn(move || answer_later(deferrals, chaos(seed, 1)));
    let mut starts = 100;
    let entries = Arc::clone(&ledger);
    let mut handler = chaos(seed, 2);
    let builder = Pipeline::builder()
        .config(config)
        .gpu_stage(move |worker| {
            starts += 1;
            let mut inference = Inference(chaos(seed, starts));
            let infer = move |request: RequestView<'_>, output: &mut [u8]| inference.infer(request, output);
            Ok(if worker % 2 == 0 {
                WorkerResources::inline("any_length", HandlerSchema::new(), 64, infer)
            } else {
                let schema = HandlerSchema::new().arg(TypeDesc::array_uint8(16));
                WorkerResources::inline("sixteen_bytes", schema, 64, infer)
            })
        })
        .cpu_stage(move |worker| {
            let rng = chaos(seed ^ 0xC0FFEE, u64::from(worker));
            Ok(Box::new(Stage { rng, deferred: deferred.clone(), never: false }))
        })
        .on_completion(move |completion| {
            lock(&entries).enter(completion);
            dawdle(&mut handler);
            if once_in(&mut handler, 5000) {
                panic!("on purpose");
            }
        });
    Setup { builder, ledger, answering }
}

fn shape(workers: u32, slots: u32) -> StageConfig {
    // Long for a request and short for the test: requests that are never ready end here.
    StageConfig { request_timeout: Some(Duration::from_millis(4)), ..config(workers, slots) }
}

/// A payload of any length that fits, which begins with `id`, and its function: sometimes an unknown one, sometimes one of
/// another length.
fn request<'a>(rng: &mut impl Rng, id: u64, buffer: &'a mut [u8; 40]) -> (FunctionId, &'a [u8]) {
    buffer[..8].copy_from_slice(&id.to_le_bytes());
    match rng.random_range(0..1000_u32) {
        0..5 => (FunctionId(rng.random()), &buffer[..8]),
        5..10 => (SIXTEEN, &buffer[..rng.random_range(8..40)]),
        10..15 => (ANY, &buffer[..0]),
        n if n % 3 == 0 => (SIXTEEN, &buffer[..16]),
        _ => (ANY, &buffer[..rng.random_range(8..=40)]),
    }
}

/// Sends `requests` through an injector, over `runs` runs.
fn injected(seed: u64, workers: u32, slots: u32, requests: u64, runs: u64) {
    let Setup { builder, ledger, answering } = setup(shape(workers, slots), seed, requests);
    let mut pipeline = builder.build().expect("built");
    let mut rng = chaos(seed, 3);
    let (mut next, mut buffer) = (0, [0x5A; 40]);
    for run in 1..=runs {
        let running = pipeline.start().expect("started");
        let mut injector = running.injector().expect("one at a time");
        while next < requests * run / runs {
            let (function, payload) = request(&mut rng, spread(next), &mut buffer);
            injector.submit(function, payload, spread(next)).expect("running and short enough");
            next += 1;
        }
        // Every third stop has a deadline of zero.
        let deadline = if run % 3 == 0 { Duration::ZERO } else { LONG };
        let stopped = running.stop(deadline);
        let report = stopped.report;
        assert!(!report.stuck_dispatcher && !report.stuck_consumer, "{report:?}");
        assert!(deadline.is_zero() || (report.dropped == 0 && report.stuck_workers.is_empty()), "{report:?}");
        lock(&ledger).check(&report.stats, next);
        pipeline = stopped.pipeline.expect("nothing is stuck");
    }
    drop(pipeline);
    answering.join().expect("no panic");
}

/// Sends `requests` through an external ring: valid ones, and ones that no well-behaved producer writes.
fn external(seed: u64, workers: u32, slots: u32, requests: u64) {
    let ours = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
    // The ids that the completions show are the producer's own 32 bits here.
    let config = StageConfig { external_ids: ringcall_pipeline::ExternalIds::Opaque, ..shape(workers, 1) };
    let Setup { builder, ledger, answering } = setup(config, seed, 0);
    let theirs = Ring::external(ours.shared().clone());
    let running = builder.ring(theirs).build().expect("built").start().expect("started");
    let client = Client::new(&ours);
    let mut rng = chaos(seed, 4);
    let (mut sent, mut got, mut buffer) = (0, 0, [0x5A; 40]);
    let mut waiting: Vec<Option<u32>> = vec![None; slots as usize];
    let mut next = ours.geometry().slot(0).expect("a slot");
    let mut moved = Instant::now();
    while got < requests {
        assert!(moved.elapsed() < LONG, "{got} of {requests} answered");
        while sent < requests && Vacant::probe(ours.shared(), next).is_some() {
            let (function, payload) = request(&mut rng, sent, &mut buffer);
            let mut header = RequestHeader::new(function.0, payload.len() as u32, sent as u32, sent);
            let mut flag = ours.geometry().request_address(next);
            match rng.random_range(0..1000_u32) {
                0 => header.magic = rng.random(),
                1 => header.arg_len = rng.random(),
                2 => flag = rng.random_range(1..u64::MAX),
                3 => header = RequestHeader { request_id: header.request_id, ..garbage(&mut rng) },
                _ => (),
            }
            let raw = [&header.to_bytes(), payload].concat();
            ours.shared().forge_request(next, &raw, flag);
            waiting[next.as_usize()] = Some(sent as u32);
            next = ours.geometry().next(next);
            sent += 1;
        }
        let taken = client.take_all(|response, _| {
            let asked = waiting[response.slot().as_usize()].take();
            assert_eq!(asked, Some(response.header().request_id), "answered twice, or another's answer");
        });
        if taken > 0 {
            moved = Instant::now();
            got += taken as u64;
        } else {
            std::thread::yield_now();
        }
    }
    let stopped = running.stop(LONG);
    let stats = stopped.report.stats;
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    assert_eq!((stats.submitted, stats.completed), (requests, requests));
    assert_eq!(stats.completed, stats.succeeded + stats.refused + stats.timed_out);
    drop(stopped);
    let seen = lock(&ledger).seen;
    assert_eq!(seen, requests, "completions");
    answering.join().expect("no panic");
}

fn garbage(rng: &mut impl Rng) -> RequestHeader {
    RequestHeader::from_words(rng.random())
}

#[test]
fn every_request_is_answered_or_accounted_for() {
    let requests = from_env("RINGCALL_CHAOS_REQUESTS", 1_000_000);
    let seed = from_env("RINGCALL_CHAOS_SEED", 20_261_121);
    // In percent. Small rings are slow: each request waits for the one before.
    for (slots, workers, runs, share) in [(1, 2, 10, 1), (2, 3, 10, 3), (64, 3, 20, 50), (4096, 2, 5, 37)] {
        let begin = Instant::now();
        injected(seed.wrapping_add(u64::from(slots)), workers, slots, requests * share / 100, runs);
        eprintln!("{slots} slots: {} requests in {:?}", requests * share / 100, begin.elapsed());
    }
    for (slots, share) in [(1, 1), (64, 8)] {
        let begin = Instant::now();
        external(seed.wrapping_add(7), 2, slots, requests * share / 100);
        eprintln!("{slots} slots, external: {} requests in {:?}", requests * share / 100, begin.elapsed());
    }
}
