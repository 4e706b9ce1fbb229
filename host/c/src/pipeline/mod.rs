//! Real-time pipelines of C programs. The contract is in `ringcall_pipeline.h`.
//!
//! | module | what |
//! |---|---|
//! | `api` | the functions that C calls |
//! | `config` | the shape, checked, and the ring |
//! | `callbacks` | the program's functions, and what its stages answer |
//! | `workers` | graphs and hooks as a worker of the pipeline |
//! | `deferred` | answers that come after the CPU stage has returned |

pub(crate) mod api;
mod callbacks;
mod config;
mod deferred;
mod workers;

use crate::handles::{Registry, lock};
use crate::layout::cudaq_ringbuffer_t;
use crate::status::Fault;
use callbacks::{Callbacks, in_callback};
use config::{Memory, PipelineConfig};
use deferred::Deferrals;
use ringcall::{FunctionId, Ring};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_pipeline::{
    CompletedRequest, CpuStage, Injector, Monitor, PipelineError, RunningPipeline, StageContext, Stats,
    SubmitError,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use workers::Workers;

static PIPELINES: Registry<CPipeline> = Registry::new("pipeline");

/// A pipeline of a C program: idle or running, over one ring.
struct CPipeline {
    config: PipelineConfig,
    ring: Ring,
    /// What keeps a ring of the library's own.
    memory: Memory,
    callbacks: Mutex<Callbacks>,
    life: Mutex<Life>,
    /// There is one while the pipeline runs on a ring of its own; calls of several threads take turns.
    injector: Mutex<Option<Injector>>,
    counts: Mutex<Counts>,
    deferrals: Arc<Deferrals>,
    failures: Arc<DeviceU64>,
}

enum Life {
    Idle,
    Running(Box<ringcall_pipeline::Pipeline<RunningPipeline>>),
    /// A stop left a thread behind that may still use the ring.
    Stuck,
}

/// Counts of the finished runs and of the current run.
#[derive(Default)]
struct Counts {
    past: Stats,
    live: Option<Monitor>,
}

impl Counts {
    fn now(&self) -> Stats {
        let live = self.live.as_ref().map(Monitor::stats).unwrap_or_default();
        sum(&self.past, &live)
    }
}

fn sum(a: &Stats, b: &Stats) -> Stats {
    Stats {
        submitted: a.submitted + b.submitted,
        completed: a.completed + b.completed,
        succeeded: a.succeeded + b.succeeded,
        refused: a.refused + b.refused,
        timed_out: a.timed_out + b.timed_out,
        dispatched: a.dispatched + b.dispatched,
        backpressure_stalls: a.backpressure_stalls + b.backpressure_stalls,
        late_results: a.late_results + b.late_results,
        panics: a.panics + b.panics,
    }
}

impl From<PipelineError> for Fault {
    fn from(error: PipelineError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Submitted {
    Accepted = 1,
    Full = 0,
    NotRunning = -1,
}

impl CPipeline {
    fn new(config: PipelineConfig, ring: Ring, memory: Memory) -> Self {
        let deferrals = Arc::new(Deferrals::new(ring.shared().clone()));
        Self {
            config,
            ring,
            memory,
            callbacks: Mutex::default(),
            life: Mutex::new(Life::Idle),
            injector: Mutex::default(),
            counts: Mutex::default(),
            deferrals,
            failures: Arc::default(),
        }
    }

    /// Changes a callback, unless the pipeline runs.
    fn set(&self, change: impl FnOnce(&mut Callbacks)) -> Result<(), Fault> {
        in_callback()?;
        match &*lock(&self.life) {
            Life::Idle => change(&mut lock(&self.callbacks)),
            Life::Running(_) => return Err(Fault::invalid("the pipeline runs: stop it first")),
            Life::Stuck => return Err(stuck()),
        }
        Ok(())
    }

    fn start(&self) -> Result<(), Fault> {
        in_callback()?;
        let mut life = lock(&self.life);
        match &*life {
            Life::Idle => {}
            Life::Running(_) => return Ok(()),
            Life::Stuck => return Err(stuck()),
        }
        let callbacks = *lock(&self.callbacks);
        let gpu = callbacks.gpu.ok_or_else(|| Fault::invalid("no GPU stage: set one before the start"))?;
        let workers = Workers::new(&self.config, callbacks.cpu.is_some(), gpu)?;
        if callbacks.cpu.is_none() && self.ring.is_external() {
            return Err(Fault::invalid("an external ring needs a CPU stage"));
        }
        let running = self.build(callbacks, workers)?;
        lock(&self.counts).live = Some(running.monitor());
        *lock(&self.injector) = running.injector();
        *life = Life::Running(Box::new(running));
        Ok(())
    }

    fn build(
        &self,
        callbacks: Callbacks,
        workers: Workers,
    ) -> Result<ringcall_pipeline::Pipeline<RunningPipeline>, Fault> {
        let shared = Arc::new(workers);
        let (made, ends) = (Arc::clone(&shared), shared);
        let deferrals = Arc::clone(&self.deferrals);
        let (stage_failures, handler_failures) = (Arc::clone(&self.failures), Arc::clone(&self.failures));
        let handler = callbacks.completion;
        let pipeline = ringcall_pipeline::Pipeline::builder()
            .config(self.config.stages())
            .ring(self.ring.clone())
            .gpu_stage(move |worker| made.resources(worker))
            .cpu_stage(move |worker| {
                let deferrals = Arc::clone(&deferrals);
                let stage: Box<dyn CpuStage> = match callbacks.cpu {
                    Some(stage) => {
                        let failures = Arc::clone(&stage_failures);
                        Box::new(move |context: &mut StageContext<'_>| {
                            deferrals.run(stage, context, &failures)
                        })
                    }
                    None => {
                        let mut end = ends.end(worker);
                        Box::new(move |context: &mut StageContext<'_>| end.poll(&deferrals, context))
                    }
                };
                Ok(stage)
            })
            .on_completion(move |completion: &CompletedRequest<'_>| {
                if let Some(handler) = handler
                    && !handler.call(completion)
                {
                    handler_failures.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build()?;
        Ok(pipeline.start()?)
    }

    /// Stops it, if it runs. What does not end in time is answered `SHUTTING_DOWN`.
    fn stop(&self) -> Result<(), Fault> {
        in_callback()?;
        let mut life = lock(&self.life);
        let running = match std::mem::replace(&mut *life, Life::Stuck) {
            Life::Idle => {
                *life = Life::Idle;
                return Ok(());
            }
            Life::Running(running) => running,
            Life::Stuck => return Err(stuck()),
        };
        let stopped = running.stop(self.config.stop);
        drop(lock(&self.injector).take());
        let mut counts = lock(&self.counts);
        counts.live = None;
        counts.past = sum(&counts.past, &stopped.report.stats);
        drop(counts);
        self.deferrals.clear();
        let report = &stopped.report;
        if report.stuck_consumer || report.stuck_dispatcher || !report.stuck_workers.is_empty() {
            return Err(stuck());
        }
        *life = Life::Idle;
        Ok(())
    }

    fn try_submit(&self, function: u32, payload: &[u8], id: u64, again: bool) -> Result<Submitted, Fault> {
        if self.ring.is_external() {
            return Err(Fault::invalid("the ring is external: its producer is outside of the pipeline"));
        }
        let mut injector = lock(&self.injector);
        let Some(injector) = injector.as_mut() else { return Ok(Submitted::NotRunning) };
        let function = FunctionId(function);
        let result = if again {
            injector.retry(function, payload, id)
        } else {
            injector.try_submit(function, payload, id)
        };
        match result {
            Ok(_) => Ok(Submitted::Accepted),
            Err(SubmitError::Full) => Ok(Submitted::Full),
            Err(SubmitError::Stopped | SubmitError::Lost) => Ok(Submitted::NotRunning),
            Err(error @ SubmitError::TooLong(_)) => Err(Fault::invalid(error.to_string())),
        }
    }

    /// Waits for a slot, until the pipeline stops.
    fn submit(&self, function: u32, payload: &[u8], id: u64) -> Result<Submitted, Fault> {
        let mut waiter = config::WAIT.waiter();
        let mut again = false;
        loop {
            match self.try_submit(function, payload, id, again)? {
                Submitted::Full => again = true,
                end => return Ok(end),
            }
            waiter.idle();
        }
    }

    /// The ring as C sees it.
    fn ring(&self) -> cudaq_ringbuffer_t {
        self.memory.as_c()
    }
}

fn stuck() -> Fault {
    Fault::internal(
        "a callback of the pipeline did not return within the time of a stop: it cannot be started again, and its memory stays",
    )
}
