//! Dispatch by this process: a host dispatcher that hands requests to worker threads.

use crate::config::StageConfig;
use crate::dispatch::{Dispatch, Drained};
use crate::error::{BoxError, PipelineError};
use crate::monitor::requests_of;
use crate::report::Dump;
use crate::stage::{CpuStage, Execution, Raised, StageTimes, WorkerResources};
use crate::state::State;
use crate::threads::{ConsumerState, Stop, ThreadSet};
use crate::worker::{Output, Worker};
use ringcall::completion_log::CompletionLog;
use ringcall::dispatcher::{self, Running, Watch};
use ringcall::thread::StopFlag;
use ringcall::worker::{Start, WorkerSpec};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Wait};
use std::sync::Arc;

pub(crate) type GpuFactory = Box<dyn FnMut(u32) -> Result<WorkerResources, BoxError> + Send>;
pub(crate) type CpuFactory = Box<dyn FnMut(u32) -> Result<Box<dyn CpuStage>, BoxError> + Send>;

pub(crate) struct HostDispatch {
    pub(crate) gpu: GpuFactory,
    pub(crate) cpu: Option<CpuFactory>,
    /// If dropped without a stop, it answers the requests in flight `SHUTTING_DOWN`.
    pub(crate) running: Option<HostDispatcher<Running>>,
}

/// The parts of a pipeline that a host dispatcher serves.
pub(crate) type Parts = (State, StageConfig, HostDispatch, ConsumerState);

/// A dispatcher, its workers and its log, before anything runs.
pub(crate) struct Wired {
    pub(crate) dispatcher: HostDispatcher<dispatcher::Wired>,
    /// Complete but for their stop flags.
    pub(crate) workers: Vec<Worker>,
    /// The log of completions, on an external ring.
    pub(crate) log: Option<CompletionLog>,
}

impl HostDispatch {
    /// Calls the factories and connects the stages to a table, a dispatcher and workers.
    pub(crate) fn wire(
        &mut self,
        state: &Arc<State>,
        config: &StageConfig,
        wait: Wait,
    ) -> Result<Wired, PipelineError> {
        let log = state.ring.is_external().then(|| CompletionLog::new(state.ring.geometry()));
        let (table, specs, outputs) = wire_workers(state, config, &mut self.gpu)?;
        let options =
            HostOptions { wait, core: config.cores.dispatcher, request_timeout: config.request_timeout };
        let mut builder = HostDispatcher::builder(&state.ring, table).options(options);
        for spec in specs {
            builder = builder.worker(spec);
        }
        if let Some(log) = &log {
            builder = builder.completion_log(log.clone());
        }
        let dispatcher = builder.build()?;
        let geometry = *state.ring.geometry();
        let mut workers = Vec::new();
        for (port, (output, connect, output_bytes)) in dispatcher.ports().into_iter().zip(outputs) {
            let worker = port.worker();
            if let Some(connect) = connect {
                connect(port.signal());
            }
            let cpu = self.cpu.as_mut().map(|factory| factory(worker)).transpose();
            let cpu = cpu.map_err(PipelineError::of_factory("CPU", worker))?;
            workers.push(Worker {
                port,
                output,
                cpu,
                state: Arc::clone(state),
                stop: StopFlag::default(),
                wait,
                payload: vec![0; geometry.request_capacity() as usize],
                inferred: vec![0; output_bytes],
                response: vec![0; geometry.result_capacity() as usize],
                times: StageTimes::default(),
                inferred_bytes: 0,
                held: None,
            });
        }
        Ok(Wired { dispatcher, workers, log })
    }
}

impl Dispatch for HostDispatch {
    fn polling_threads(&self) -> usize {
        1
    }

    fn start(
        &mut self,
        state: &Arc<State>,
        config: &StageConfig,
        threads: &mut ThreadSet,
        consumer: ConsumerState,
    ) -> Result<(), PipelineError> {
        let Wired { dispatcher, workers, log } = self.wire(state, config, threads.wait)?;
        for worker in workers {
            threads.worker(&config.cores, move |stop| Worker { stop, ..worker }.run())?;
        }
        threads.consumer(&config.cores, log, consumer)?;
        let dispatcher = dispatcher.start()?;
        threads.pins.push(dispatcher.pin().clone());
        self.running = Some(dispatcher);
        Ok(())
    }

    fn watch(&self) -> Option<Watch> {
        self.running.as_ref().map(HostDispatcher::watch)
    }

    fn stop(&mut self, state: &Arc<State>, threads: &mut ThreadSet, stop: Stop) -> Drained {
        let Some(dispatcher) = self.running.take() else { return Drained::default() };
        let watch = dispatcher.watch();
        // Read before the dispatcher stops: its stop answers the requests that it gives up, and the consumer may complete those
        // before the stop returns.
        let under_way = requests_of(state);
        let stopped = dispatcher.stop(stop.left());
        let unfinished = stopped.report.unfinished.map(|slots| {
            let mut requests = under_way;
            requests.retain(|request| slots.slots.iter().any(|slot| slot.slot == request.slot));
            for request in &mut requests {
                request.age_us += u64::try_from(stop.begin.elapsed().as_micros()).unwrap_or(0);
            }
            Dump { requests, slots }
        });

        // Everything is answered now.
        let stuck_workers = threads.stop_workers(stop);
        threads.stop_consumer();
        state.counters.absorb(&watch.counters());
        Drained {
            drained: stopped.report.drained,
            dropped: stopped.report.dropped,
            unfinished,
            stuck_workers,
            stuck_dispatcher: stopped.report.stuck,
            can_restart: stopped.dispatcher.is_some(),
            ..Drained::default()
        }
    }
}

type Connect = Option<Box<dyn FnOnce(ringcall::worker::ReadySignal) + Send>>;
type Wiring = (FunctionTable, Vec<WorkerSpec>, Vec<(Output, Connect, usize)>);

/// Calls the inference factory for each worker and registers the workers' functions in a table.
fn wire_workers(state: &State, config: &StageConfig, gpu: &mut GpuFactory) -> Result<Wiring, PipelineError> {
    let mut table = FunctionTable::builder();
    let mut known: Vec<(String, ringcall::wire::schema::HandlerSchema)> = Vec::new();
    let (mut specs, mut outputs) = (Vec::new(), Vec::new());
    for worker in 0..config.workers {
        let resources = gpu(worker).map_err(PipelineError::of_factory("GPU", worker))?;
        let WorkerResources { function, id, schema, execution, pre_launch, post_launch, output_bytes } =
            resources;
        let id = id.unwrap_or_else(|| FunctionId::of(&function));
        match known.iter().find(|(name, _)| *name == function) {
            Some((_, earlier)) if *earlier != schema => {
                return Err(PipelineError::Schemas { worker, function });
            }
            Some(_) => (),
            None => {
                table = table.worker_call(&function, schema).with_id(id);
                known.push((function.clone(), schema));
            }
        }
        let (mut connect, mut ready): (Connect, _) = (None, None);
        let (start, output, output_bytes) = match execution {
            Execution::Inline(stage) => (Start::Mailbox, Output::Inline(stage), output_bytes),
            Execution::Launched { launcher, raised, output, check } => {
                match raised {
                    Raised::Host(code) => connect = Some(code),
                    Raised::Device(word) => ready = Some(word),
                }
                let bytes = output_bytes.min(output.len());
                (Start::Launch(launcher), Output::Mapped(output, check), bytes)
            }
        };
        specs.push(WorkerSpec { function: id, start, pre_launch, post_launch, ready });
        outputs.push((output, connect, output_bytes));
    }
    Ok((table.build(&state.ring)?, specs, outputs))
}
