//! A pipeline whose stages fail, panic, lie, wait, defer and come late, which is stopped in the midst of it and starts again.

use crate::random::Random;
use crate::{Summary, Violation};
use ringcall::{FunctionId, RingConfig};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_pipeline::{
    CompletedRequest, CpuStage, Deferral, Injector, Pipeline, PipelineBuilder, RequestView, StageConfig,
    StageContext, StageError, StageOutcome, Stepper, SubmitError, WorkerResources,
};
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::{HEADER_BYTES, Status};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const FUNCTION: &str = "simulated_decode";
const UNKNOWN: FunctionId = FunctionId::of("simulator_knows_none_of_this_name");
/// Bytes that each payload begins with: the request's number.
const TAG_BYTES: usize = 4;
/// What a stage that fails says.
const FAILED: Status = Status(42);
/// The most turns of a world.
const TURNS: u32 = 1_000_000;

/// What stages, the completion handler and those who answer later write down.
#[derive(Default)]
struct Log {
    /// What each request has to be answered with, as its stages have decided: by number.
    due: BTreeMap<u32, Vec<(Status, Vec<u8>)>>,
    inferred: BTreeMap<u32, u32>,
    /// Answers that come later: the right to each, what it is to be, and when.
    later: Vec<(Deferral, u32, u64)>,
    completions: Vec<Done>,
    panics: u64,
    /// The first thing that no stage may see.
    wrong: Option<String>,
}

struct Done {
    id: u64,
    status: Status,
    stamp: u64,
    result: Vec<u8>,
}

type Shared = Arc<Mutex<Log>>;

fn lock(log: &Shared) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unwinds as a panic does, without its message.
fn panics(log: &Shared) -> ! {
    lock(log).panics += 1;
    std::panic::resume_unwind(Box::new("on purpose"))
}

/// A request's number, at the beginning of its payload.
fn number_of(payload: &[u8]) -> u32 {
    payload.first_chunk::<TAG_BYTES>().map_or(u32::MAX, |tag| u32::from_le_bytes(*tag))
}

fn answer_to(payload: &[u8]) -> Vec<u8> {
    payload.iter().map(|byte| byte.wrapping_add(1)).collect()
}

struct Inference {
    random: Random,
    log: Shared,
    has_cpu: bool,
}

impl Inference {
    fn infer(&mut self, request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
        let number = number_of(request.payload);
        let way = self.random.below(100);
        let due = match way {
            0..4 => Some((FAILED, Vec::new())),
            4 | 5 => Some((Status::ENGINE_FAILED, Vec::new())),
            _ if self.has_cpu => None,
            _ => Some((Status::OK, request.payload.to_vec())),
        };
        {
            let mut log = lock(&self.log);
            *log.inferred.entry(number).or_default() += 1;
            log.due.entry(number).or_default().extend(due);
        }
        match way {
            0..4 => Err(StageError(FAILED)),
            4 => panics(&self.log),
            // More than there is room for.
            5 => Ok(output.len() + 1),
            _ => {
                output[..request.payload.len()].copy_from_slice(request.payload);
                Ok(request.payload.len())
            }
        }
    }
}

struct Stage {
    random: Random,
    log: Shared,
}

impl CpuStage for Stage {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        if context.output != context.request.payload {
            let text = format!("{:?} came with the output {:?}", context.request, context.output);
            lock(&self.log).wrong.get_or_insert(text);
        }
        let number = number_of(context.request.payload);
        let decide = |status, result| lock(&self.log).due.entry(number).or_default().push((status, result));
        match self.random.below(100) {
            0..25 => StageOutcome::NotReady,
            25..30 => {
                decide(FAILED, Vec::new());
                StageOutcome::Failed(FAILED)
            }
            30 | 31 => {
                decide(Status::HANDLER_PANIC, Vec::new());
                panics(&self.log)
            }
            32 | 33 => {
                decide(Status::ABANDONED, Vec::new());
                drop(context.defer());
                StageOutcome::Deferred
            }
            34 => {
                decide(Status::ABANDONED, Vec::new());
                StageOutcome::Deferred
            }
            35 => {
                // Nothing was written, and nothing of an earlier request may be there.
                decide(Status::RESULT_TOO_LONG, vec![0; context.response.len()]);
                StageOutcome::Done(context.response.len() + 1)
            }
            36..50 => {
                decide(Status::OK, number.to_le_bytes().to_vec());
                let at = clock::now_ns() + self.random.below(80_000);
                lock(&self.log).later.push((context.defer(), number, at));
                StageOutcome::Deferred
            }
            _ => {
                let answer = answer_to(context.output);
                context.response[..answer.len()].copy_from_slice(&answer);
                decide(Status::OK, answer);
                StageOutcome::Done(context.output.len())
            }
        }
    }
}

/// A request that was submitted.
struct Sent {
    number: u32,
    function: FunctionId,
    at: u64,
    run: u32,
}

struct World {
    pipeline: Stepper,
    injector: Option<Injector>,
    log: Shared,
    stamp: Arc<DeviceU64>,
    /// By id.
    sent: BTreeMap<u64, Sent>,
    workers: u32,
    slots: u64,
    capacity: usize,
    timeout: Option<u64>,
    left: u32,
    stalls: u64,
    /// Starts before this one.
    run: u32,
    /// Runs that did not answer everything before they stopped.
    cut: Vec<u32>,
    now: u64,
}

pub(crate) fn run(seed: u64) -> Result<Summary, Violation> {
    let mut random = Random::new(seed);
    clock::simulate(Some(1));
    let world = World::new(&mut random).map_err(|error| Violation::Setup(error.to_string()));
    let outcome = world.and_then(|mut world| {
        world.live(&mut random)?;
        world.settle()
    });
    clock::simulate(None);
    outcome
}

impl World {
    fn new(random: &mut Random) -> Result<Self, Box<dyn std::error::Error>> {
        let log = Shared::default();
        let (slots, workers) = (random.between(1, 20) as u32, random.between(1, 4) as u32);
        let slot_bytes = random.pick(&[64, 128, 256]);
        let timeout = random.chance(400).then(|| random.between(5_000, 200_000));
        let config = StageConfig {
            workers,
            ring: RingConfig { slots, slot_bytes },
            request_timeout: timeout.map(Duration::from_nanos),
            ..StageConfig::default()
        };
        let has_cpu = random.chance(800);
        let room = slot_bytes as usize;
        let (mut of_inference, mut of_stages, mut of_handler) = (random.fork(), random.fork(), random.fork());
        let (inferring, staging, handling) = (Arc::clone(&log), Arc::clone(&log), Arc::clone(&log));
        let handler = move |completion: &CompletedRequest<'_>| {
            let result = completion.result.unwrap_or_default().to_vec();
            let (id, status, stamp) = (completion.request_id, completion.status, completion.ptp_timestamp);
            lock(&handling).completions.push(Done { id, status, stamp, result });
            if of_handler.chance(10) {
                panics(&handling);
            }
        };
        let mut builder: PipelineBuilder = Pipeline::builder()
            .config(config)
            .gpu_stage(move |_| {
                let (random, log) = (of_inference.fork(), Arc::clone(&inferring));
                let mut stage = Inference { random, log, has_cpu };
                let infer = move |request: RequestView<'_>, output: &mut [u8]| stage.infer(request, output);
                Ok(WorkerResources::inline(FUNCTION, HandlerSchema::new(), room, infer))
            })
            .on_completion(handler);
        if has_cpu {
            builder = builder.cpu_stage(move |_| {
                Ok(Box::new(Stage { random: of_stages.fork(), log: Arc::clone(&staging) }))
            });
        }
        let pipeline = builder.build_stepper()?;
        let mut world = Self {
            pipeline,
            injector: None,
            log,
            stamp: Arc::default(),
            sent: BTreeMap::new(),
            workers,
            slots: slots.into(),
            capacity: room - HEADER_BYTES,
            timeout,
            left: 60,
            stalls: 0,
            run: 0,
            cut: Vec::new(),
            now: 1,
        };
        world.take_injector();
        Ok(world)
    }

    fn take_injector(&mut self) {
        let stamp = Arc::clone(&self.stamp);
        let injector = self.pipeline.injector();
        self.injector =
            injector.map(|injector| injector.with_ptp_clock(move || stamp.load(Ordering::Relaxed)));
    }

    fn submit(&mut self, random: &mut Random) -> Result<(), Violation> {
        let books = |text: &str| Err(Violation::Books(text.to_owned()));
        let Some(injector) = &mut self.injector else { return books("a second injector was refused") };
        let number = self.sent.len() as u32;
        // Ids of several requests have the same low half.
        let id = u64::from(number) << 32 | u64::from(number % 3);
        let len = random.between(TAG_BYTES as u64, self.capacity as u64) as usize;
        let mut payload = vec![0; len];
        random.fill(&mut payload);
        payload[..TAG_BYTES].copy_from_slice(&number.to_le_bytes());
        let function = if random.chance(30) { UNKNOWN } else { FunctionId::of(FUNCTION) };
        self.stamp.store(u64::from(number) + 1000, Ordering::Relaxed);
        if random.chance(20) {
            payload.resize(self.capacity + 1, 0);
            return match injector.try_submit(function, &payload, id) {
                Err(SubmitError::TooLong(_)) => Ok(()),
                other => books(&format!("a payload that is too long: {other:?}")),
            };
        }
        match injector.try_submit(function, &payload, id) {
            Ok(_) => {
                let sent = Sent { number, function, at: self.now, run: self.run };
                self.sent.insert(id, sent);
                self.left -= 1;
                Ok(())
            }
            Err(SubmitError::Full) => {
                self.stalls += 1;
                Ok(())
            }
            Err(error) => books(&format!("a running pipeline: {error}")),
        }
    }

    /// Who answers later does, in any order.
    fn answer_later(&mut self, random: &mut Random, all: bool) {
        let mut log = lock(&self.log);
        if log.later.is_empty() {
            return;
        }
        let index = random.index(log.later.len());
        if all || log.later[index].2 <= self.now {
            let (deferral, number, _) = log.later.swap_remove(index);
            drop(log);
            // Its request may have been answered otherwise.
            let _ = deferral.complete(Status::OK, &number.to_le_bytes());
        }
    }

    fn turn(&mut self, random: &mut Random) {
        match random.below(8) {
            0..=2 => drop(self.pipeline.step_dispatcher()),
            3..=5 => drop(self.pipeline.step_worker(random.below(self.workers.into()) as u32)),
            6 => drop(self.pipeline.step_consumer()),
            _ => self.answer_later(random, false),
        }
    }

    fn pass(&mut self, random: &mut Random) -> Result<(), Violation> {
        self.now += 20 + random.below(400);
        clock::simulate(Some(self.now));
        let stats = self.pipeline.stats();
        if stats.in_flight() > self.slots {
            return Err(Violation::Books(format!("more in flight than there are slots: {stats:?}")));
        }
        lock(&self.log).wrong.take().map_or(Ok(()), |text| Err(Violation::Books(text)))
    }

    fn live(&mut self, random: &mut Random) -> Result<(), Violation> {
        for _ in 0..TURNS {
            self.pass(random)?;
            match random.below(6) {
                0 if self.left > 0 => self.submit(random)?,
                _ => self.turn(random),
            }
            if self.left > 0 && random.chance(2) {
                self.stop(random)?;
                self.restart()?;
            }
            if self.left == 0 && self.pipeline.stats().in_flight() == 0 {
                return self.stop(random);
            }
        }
        Err(Violation::NoEnd { open: self.pipeline.stats().in_flight() as usize })
    }

    /// Stops, with requests in flight or when everything is answered.
    fn stop(&mut self, random: &mut Random) -> Result<(), Violation> {
        let drains = random.chance(500);
        if drains {
            let mut turns = 0;
            while self.pipeline.stats().in_flight() > 0 {
                self.pass(random)?;
                self.turn(random);
                turns += 1;
                if turns > TURNS {
                    return Err(Violation::NoEnd { open: self.pipeline.stats().in_flight() as usize });
                }
            }
        } else {
            self.cut.push(self.run);
        }
        let given_up = self.pipeline.stop(Duration::ZERO);
        if drains && given_up > 0 {
            return Err(Violation::Books(format!(
                "{given_up} requests were given up, and none was in flight"
            )));
        }
        if let Some(injector) = &mut self.injector
            && injector.try_submit(FunctionId::of(FUNCTION), &[0; TAG_BYTES], u64::MAX)
                != Err(SubmitError::Stopped)
        {
            return Err(Violation::Books("a stopped pipeline takes requests".to_owned()));
        }
        let stats = self.pipeline.stats();
        if stats.in_flight() > 0 {
            return Err(Violation::Books(format!("requests are in flight after a stop: {stats:?}")));
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Violation> {
        self.run += 1;
        self.injector = None;
        self.pipeline.start().map_err(|error| Violation::Setup(error.to_string()))?;
        self.take_injector();
        Ok(())
    }

    fn settle(mut self) -> Result<Summary, Violation> {
        // Those who come after everything was answered change nothing.
        let mut random = Random::new(0);
        while !lock(&self.log).later.is_empty() {
            self.answer_later(&mut random, true);
        }
        let stats = self.pipeline.stats();
        let mut log = lock(&self.log);
        let completions = std::mem::take(&mut log.completions);
        let (mut summary, mut open) = (Summary::default(), self.sent);
        let mut counted = [0_u64; 3];
        for Done { id, status, stamp, result } in completions {
            let wrong = |text: &str| Err(Violation::Answer(0, format!("request {id:#x}: {text}")));
            let Some(Sent { number, function, at, run }) = open.remove(&id) else {
                return wrong("it was completed twice, or never submitted");
            };
            if stamp != u64::from(number) + 1000 {
                return wrong("its completion has another's time stamp");
            }
            let runs = log.inferred.get(&number).copied().unwrap_or_default();
            let due = log.due.get(&number).map_or(&[][..], Vec::as_slice);
            if runs > 1 || due.len() > 1 {
                return Err(Violation::RunTwice { peer: 0, id: number, runs: runs.max(due.len() as u32) });
            }
            let timed_out = status == Status::TIMED_OUT
                && self.timeout.is_some_and(|timeout| self.now.saturating_sub(at) >= timeout);
            let cut = status == Status::SHUTTING_DOWN && self.cut.contains(&run);
            let unknown = status == Status::UNKNOWN_FUNCTION && function == UNKNOWN && runs == 0;
            let decided =
                due.first().is_some_and(|(expected, bytes)| (*expected, bytes) == (status, &result));
            if !(decided || (result.is_empty() && (timed_out || cut || unknown))) {
                return wrong(&format!("{status}, {result:?}; its stages said {due:?}"));
            }
            let kind = match status {
                Status::OK => 0,
                Status::TIMED_OUT | Status::SHUTTING_DOWN | Status::ABANDONED => 2,
                _ => 1,
            };
            counted[kind] += 1;
            summary.requests += 1;
            match kind {
                0 => summary.answered += 1,
                1 => summary.refused += 1,
                _ => summary.lost += 1,
            }
        }
        if let Some((id, _)) = open.first_key_value() {
            return Err(Violation::Books(format!("request {id:#x} was never completed: {stats:?}")));
        }
        let [succeeded, refused, given_up] = counted;
        let books = (stats.submitted, stats.completed, stats.succeeded, stats.refused, stats.timed_out);
        let seen = (summary.requests, summary.requests, succeeded, refused, given_up);
        if books != seen || stats.backpressure_stalls != self.stalls || stats.panics != log.panics {
            return Err(Violation::Books(format!(
                "{seen:?}, {} stalls, {} panics; counted: {stats:?}",
                self.stalls, log.panics
            )));
        }
        if stats.late_results > given_up {
            return Err(Violation::Books(format!("more late results than requests without one: {stats:?}")));
        }
        Ok(summary)
    }
}
