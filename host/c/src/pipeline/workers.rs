//! The program's graphs and hooks as workers of the pipeline.
//!
//! With a CPU stage, the stage finds out by itself when the graph's output is there, as the reference's do: a worker is ready as
//! soon as its graph is launched. Without one the stream writes a word after the graph, and the worker waits for that.

use super::callbacks::{Callback, GpuStageFn};
use super::config::PipelineConfig;
use super::deferred::Deferrals;
use crate::handles::lock;
use crate::layout::{WorkerHook, cudaStream_t, cudaq_host_dispatch_worker_t};
use crate::status::{CUDA_UNKNOWN, Fault};
use core::ffi::c_void;
use ringcall::Status;
use ringcall::worker::{Hook, LaunchContext, LaunchError, LaunchFn, ReadySignal};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{MappedRegion, Stream, StreamState};
use ringcall_gpu::shared::{Region, Words};
use ringcall_pipeline::{
    BoxError, Execution, Raised, RequestView, StageContext, StageOutcome, WorkerResources,
};
use ringcall_wire::function::FunctionId;
use ringcall_wire::schema::HandlerSchema;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

/// Between two questions how a stream stands, in looks that find its word unwritten: each question is a call of the driver.
const POLLS_PER_QUERY: u32 = 1 << 14;

/// What the GPU stage made, one for each worker.
pub(super) struct Workers(Vec<Arc<Worker>>);

struct Worker {
    given: Given,
    /// Its stream, if it has a graph.
    stream: Option<Stream>,
    /// Without a CPU stage: where its stream writes the number of each launch when the graph has ended.
    end: Option<EndWord>,
    ready: OnceLock<ReadySignal>,
}

/// The program's struct.
#[derive(Clone, Copy)]
struct Given(cudaq_host_dispatch_worker_t);

// SAFETY: graph and stream are the driver's names, user data is passed on, never followed; the header says which thread calls hooks.
unsafe impl Send for Given {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Given {}

struct EndWord {
    memory: MappedRegion,
    word: Words,
    launches: Mutex<u64>,
}

impl EndWord {
    fn new(config: &PipelineConfig) -> Result<Self, Fault> {
        let memory = MappedRegion::zeroed(&config.context()?, 8)?;
        Ok(Self { word: memory.words(0, 1)?, memory, launches: Mutex::default() })
    }

    /// Lets the stream write the number of this launch.
    fn follow(&self, stream: &Stream) -> Result<(), CudaError> {
        let mut launches = lock(&self.launches);
        *launches += 1;
        let address = self.memory.device_address(0)?;
        // SAFETY: a mapped word, which `memory` keeps: a worker is kept until its pipeline has stopped; Rust code reads it through
        // atomics.
        unsafe { stream.write_word_after(address, *launches) }
    }
}

impl Workers {
    /// Calls the GPU stage for each worker. A worker without a graph needs the CPU stage.
    pub(super) fn new(
        config: &PipelineConfig,
        has_cpu_stage: bool,
        gpu: Callback<GpuStageFn>,
    ) -> Result<Self, Fault> {
        let make = |number| {
            let given = gpu.call(number)?;
            if given.graph_exec.is_null() && !has_cpu_stage {
                return Err(Fault::invalid(format!(
                    "worker {number} has no graph, and there is no CPU stage"
                )));
            }
            let (mut stream, mut end) = (None, None);
            if !given.graph_exec.is_null() {
                let context = config.context()?;
                // SAFETY: the header's contract: a stream of the device that lives until the pipeline has stopped.
                stream = Some(unsafe { Stream::borrowed(&context, given.stream) });
                if !has_cpu_stage {
                    end = Some(EndWord::new(config)?);
                }
            }
            Ok(Arc::new(Worker { given: Given(given), stream, end, ready: OnceLock::new() }))
        };
        (0..config.workers).map(make).collect::<Result<_, Fault>>().map(Self)
    }

    /// A worker as the pipeline's.
    pub(super) fn resources(&self, worker: u32) -> Result<WorkerResources, BoxError> {
        let worker = self.0.get(worker as usize).ok_or("there is no such worker")?;
        let given = worker.given.0;
        let pre_launch = given.pre_launch_fn.map(|hook| worker.hook(hook, given.pre_launch_data));
        let post = given.post_launch_fn.map(|hook| worker.hook(hook, given.post_launch_data));
        let (execution, post_launch) = if worker.stream.is_some() {
            let (launching, connected) = (Arc::clone(worker), Arc::clone(worker));
            let launcher: LaunchFn = Box::new(move |_| launching.launch());
            let execution = Execution::Launched {
                launcher,
                raised: Raised::Host(Box::new(move |signal| {
                    let _ = connected.ready.set(signal);
                })),
                // The output is the program's: its CPU stage knows where.
                output: Region::zeroed(8)?.bytes(0, 8)?,
                check: None,
            };
            (execution, Some(worker.after_launch(post)))
        } else {
            let nothing = |_: RequestView<'_>, _: &mut [u8]| Ok(0);
            (Execution::Inline(Box::new(nothing)), post)
        };
        Ok(WorkerResources {
            function: format!("{:#010x}", given.function_id),
            id: Some(FunctionId(given.function_id)),
            schema: HandlerSchema::new(),
            execution,
            pre_launch,
            post_launch,
            output_bytes: 0,
        })
    }

    /// What looks for the end of a worker's graphs.
    pub(super) fn end(&self, worker: u32) -> End {
        End { worker: self.0.get(worker as usize).cloned(), seen: 0, polls: 0 }
    }
}

impl Worker {
    fn hook(self: &Arc<Self>, hook: WorkerHook, data: *mut c_void) -> Hook {
        let data = Data(data);
        let worker = Arc::clone(self);
        Box::new(move |context: &LaunchContext<'_>| {
            let slot = context.slot_address() as usize as *mut c_void;
            let stream: cudaStream_t = worker.given.0.stream;
            // SAFETY: the header's contract.
            unsafe { hook(data.get(), slot, stream) };
        })
    }

    fn launch(&self) -> Result<(), LaunchError> {
        let unknown = LaunchError { code: CUDA_UNKNOWN as u16 };
        let stream = self.stream.as_ref().ok_or(unknown)?;
        // SAFETY: the header's contract: a live graph of the stream's device, launched by this worker alone.
        let launched = unsafe { stream.launch_foreign_graph(self.given.0.graph_exec) };
        launched.map_err(|error| match u16::try_from(Fault::from(error).cuda) {
            Ok(code) => LaunchError { code },
            Err(_) => unknown,
        })
    }

    /// The program's hook; then the worker is ready to be looked at.
    fn after_launch(self: &Arc<Self>, mut post: Option<Hook>) -> Hook {
        let worker = Arc::clone(self);
        Box::new(move |context: &LaunchContext<'_>| {
            if let Some(post) = &mut post {
                post(context);
            }
            if let (Some(end), Some(stream)) = (&worker.end, &worker.stream) {
                // One that fails is found by the worker, which asks the stream.
                let _ = end.follow(stream);
            }
            if let Some(ready) = worker.ready.get() {
                ready.raise();
            }
        })
    }
}

/// A pointer of the program's.
struct Data(*mut c_void);

// SAFETY: it is passed on, never followed.
unsafe impl Send for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Looks for the end of a worker's graphs, where there is no CPU stage.
pub(super) struct End {
    worker: Option<Arc<Worker>>,
    /// Launches whose end was seen.
    seen: u64,
    polls: u32,
}

impl End {
    /// Polls once: the response that the graph has left in the request's slot, if it has ended.
    pub(super) fn poll(&mut self, deferrals: &Deferrals, context: &mut StageContext<'_>) -> StageOutcome {
        let slot = deferrals.slot(context.origin_slot());
        let parts = self.worker.as_deref().and_then(|worker| worker.stream.as_ref().zip(worker.end.as_ref()));
        let (Some((stream, end)), Some(slot)) = (parts, slot) else {
            return StageOutcome::Failed(Status::ENGINE_FAILED);
        };
        let launches = *lock(&end.launches);
        // Acquire: pairs with the stream's write, which follows what the graph wrote.
        if end.word.load(0, Ordering::Acquire) >= launches && launches > self.seen {
            self.seen = launches;
            return deferrals.outcome(slot, context);
        }
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_QUERY) {
            return StageOutcome::NotReady;
        }
        match stream.query() {
            StreamState::Busy => StageOutcome::NotReady,
            // All has ended, so the word was written by now, or never will be.
            StreamState::Ready if end.word.load(0, Ordering::Acquire) >= launches => StageOutcome::NotReady,
            StreamState::Ready | StreamState::Failed(_) => {
                self.seen = launches;
                StageOutcome::Failed(Status::ENGINE_FAILED)
            }
        }
    }
}
