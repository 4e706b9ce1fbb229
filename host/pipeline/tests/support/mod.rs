//! Shared by the pipeline's tests: a CPU stage that does what each payload says, and a list of completions.
#![allow(dead_code, unreachable_pub)] // each test uses its part

use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status, Wait, dispatcher};
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use ringcall_pipeline::{
    BoxError, CompletedRequest, CpuStage, Deferral, Injector, Pipeline, PipelineBuilder, RequestView,
    StageConfig, StageContext, StageError, StageOutcome, StageTimes, SubmitError, WorkerResources,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, Once, TryLockError};
use std::time::{Duration, Instant};

/// Longer than any step takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);
/// The function that all of [`builder`]'s workers serve.
pub const ECHO: FunctionId = FunctionId::of("echo");

/// Payload byte 0: the fate of the request.
pub mod act {
    /// The payload comes back, each byte plus one.
    pub const DONE: u8 = 0;
    /// The same as `DONE`, after payload byte 1 times `NotReady`.
    pub const LATER: u8 = 1;
    /// Never ready.
    pub const NEVER: u8 = 2;
    /// Fails with status 7.
    pub const FAIL: u8 = 3;
    /// Panics.
    pub const PANIC: u8 = 4;
    /// Claims more result than fits.
    pub const TOO_LONG: u8 = 5;
    /// Answered from another thread, with payload bytes plus one.
    pub const DEFER: u8 = 6;
    /// Deferred, and the right to answer is dropped.
    pub const DROP: u8 = 7;
    /// Reports a deferral without having taken the right to answer.
    pub const LIE: u8 = 8;
    /// Inference panics.
    pub const INFER_PANIC: u8 = 10;
    /// Inference fails with `BAD_PAYLOAD`.
    pub const INFER_FAIL: u8 = 11;
    /// Inference claims more output than fits.
    pub const INFER_TOO_LONG: u8 = 12;
    /// The completion handler panics.
    pub const HANDLER_PANIC: u8 = 20;
}

/// A completion, with an owned result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub id: u64,
    pub slot: u32,
    pub status: Status,
    pub error: Option<u16>,
    pub result: Option<Vec<u8>>,
    pub times: StageTimes,
}

/// Locks by `try_lock`.
///
/// This function, [`Log`] and [`Gate`] poll: the standard library's contended mutexes and condition variables are not
/// instrumented, so ThreadSanitizer would report the data that they protect.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Poisoned(_)) => panic!("a thread panicked with the lock"),
        }
    }
}

/// All completions so far.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Done>>>);

impl Log {
    pub fn push(&self, completion: &CompletedRequest<'_>) {
        let done = Done {
            id: completion.request_id,
            slot: completion.slot,
            status: completion.status,
            error: completion.error,
            result: completion.result.map(<[u8]>::to_vec),
            times: completion.times,
        };
        lock(&self.0).push(done);
    }

    /// Waits for `n` completions in all, and returns them.
    pub fn wait(&self, n: usize) -> Vec<Done> {
        wait_for("completions", || self.len() >= n);
        lock(&self.0).clone()
    }

    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A gate that stays shut until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    pub fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub fn pass(&self) {
        while !self.0.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Deliberate panics in the pipeline's threads print nothing; all others do.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
                loud(info);
            }
        }));
    });
}

/// Small slots, and polling that lets other threads run.
pub fn config(workers: u32, slots: u32) -> StageConfig {
    StageConfig {
        workers,
        ring: RingConfig { slots, slot_bytes: 64 },
        wait: Wait::Yield { spins: 4 },
        ..StageConfig::default()
    }
}

/// Inference: the payload is the output.
pub fn infer(request: RequestView<'_>, output: &mut [u8]) -> Result<usize, StageError> {
    match request.payload.first() {
        Some(&act::INFER_PANIC) => panic!("on purpose"),
        Some(&act::INFER_FAIL) => return Err(StageError(Status::BAD_PAYLOAD)),
        Some(&act::INFER_TOO_LONG) => return Ok(output.len() + 1),
        _ => (),
    }
    output[..request.payload.len()].copy_from_slice(request.payload);
    Ok(request.payload.len())
}

/// A worker that serves `echo` with [`infer`].
pub fn echo() -> WorkerResources {
    WorkerResources::inline("echo", HandlerSchema::new(), 64, infer)
}

/// The answer to a payload.
pub fn answer(payload: &[u8]) -> Vec<u8> {
    payload.iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// The CPU stage of [`act`]; deferred requests go to `deferred`.
pub struct Acting {
    pub deferred: Sender<(Deferral, Vec<u8>)>,
    turns: u8,
}

impl CpuStage for Acting {
    fn process(&mut self, context: &mut StageContext<'_>) -> StageOutcome {
        assert_eq!(context.output, context.request.payload);
        let payload = context.output;
        match payload.first() {
            Some(&act::LATER) if self.turns < payload[1] => {
                self.turns += 1;
                return StageOutcome::NotReady;
            }
            Some(&act::NEVER) => return StageOutcome::NotReady,
            Some(&act::FAIL) => return StageOutcome::Failed(Status(7)),
            Some(&act::PANIC) => panic!("on purpose"),
            Some(&act::TOO_LONG) => return StageOutcome::Done(context.response.len() + 1),
            Some(&act::DEFER) => {
                self.deferred.send((context.defer(), payload.to_vec())).expect("somebody answers");
                return StageOutcome::Deferred;
            }
            Some(&act::DROP) => {
                drop(context.defer());
                return StageOutcome::Deferred;
            }
            Some(&act::LIE) => return StageOutcome::Deferred,
            _ => (),
        }
        self.turns = 0;
        for (out, byte) in context.response.iter_mut().zip(payload) {
            *out = byte.wrapping_add(1);
        }
        StageOutcome::Done(payload.len())
    }
}

/// A pipeline of [`echo`] workers and [`Acting`] stages; deferred requests come out of the receiver.
pub fn builder(config: StageConfig, log: &Log) -> (PipelineBuilder, Receiver<(Deferral, Vec<u8>)>) {
    quiet_panics();
    let (deferred, deferrals) = mpsc::channel();
    let log = log.clone();
    let builder = Pipeline::builder()
        .config(config)
        .gpu_stage(|_| Ok(echo()))
        .cpu_stage(move |_| Ok(Box::new(Acting { deferred: deferred.clone(), turns: 0 })))
        .on_completion(move |completion| {
            log.push(completion);
            let first = completion.result.and_then(<[u8]>::first);
            if completion.is_success() && first == Some(&(act::HANDLER_PANIC + 1)) {
                panic!("on purpose");
            }
        });
    (builder, deferrals)
}

/// Submits, waiting for a slot.
pub fn submit(injector: &mut Injector, payload: &[u8], id: u64) {
    injector.submit(ECHO, payload, id).expect("running");
}

/// Submits if there is room within a long time.
pub fn try_until(injector: &mut Injector, payload: &[u8], id: u64) -> Result<(), SubmitError> {
    let begin = Instant::now();
    loop {
        match injector.try_submit(ECHO, payload, id) {
            Err(SubmitError::Full) if begin.elapsed() < LONG => std::thread::yield_now(),
            other => return other.map(|_| ()),
        }
    }
}

/// Waits until `met`.
pub fn wait_for(what: &str, mut met: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !met() {
        assert!(begin.elapsed() < LONG, "waited for: {what}");
        std::thread::yield_now();
    }
}

/// A ring of small slots.
pub fn ring(slots: u32) -> Ring {
    Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring")
}

/// A host dispatcher with one call that copies, as a `RemoteDispatcher`.
pub struct Hosted {
    ring: Ring,
    running: Option<HostDispatcher<dispatcher::Running>>,
}

impl Hosted {
    pub fn new(slots: u32) -> Self {
        Self { ring: ring(slots), running: None }
    }
}

impl RemoteDispatcher for Hosted {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn start(&mut self) -> Result<(), BoxError> {
        let copy = |args: &[u8], out: &mut [u8]| -> Result<usize, Status> {
            out[..args.len()].copy_from_slice(args);
            Ok(args.len())
        };
        let table = FunctionTable::builder().host_call("echo", copy).build(&self.ring)?;
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
