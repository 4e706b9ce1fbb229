//! Errors of building and starting a pipeline.

use ringcall::dispatcher::DispatcherError;
use ringcall::ring::RingError;
use ringcall::table::TableError;

/// An error of the user's own, from a factory.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a pipeline cannot be built or started.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// No GPU-stage factory.
    #[error("no inference stage: call `gpu_stage` before `build`")]
    NoGpuStage,
    /// No CPU-stage factory for the responses of a remote dispatcher.
    #[error("no CPU stage: call `stage` before `build`")]
    NoCpuStage,
    /// The remote dispatcher does not start.
    #[error("the dispatcher does not start: {0}")]
    Remote(BoxError),
    /// No workers.
    #[error("a pipeline needs at least one worker")]
    NoWorkers,
    /// The slots of a remote dispatcher's ring do not divide into its parts.
    #[error("a ring of {slots} slots does not divide into {parts} parts")]
    Parts {
        /// Slots of the ring.
        slots: u32,
        /// Parts that the dispatcher serves.
        parts: u32,
    },
    /// The ring cannot be made.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A factory failed.
    #[error("the {stage} stage of worker {worker} could not be made: {source}")]
    Factory {
        /// The factory.
        stage: &'static str,
        /// The worker that the factory was called for.
        worker: u32,
        /// The factory's error.
        source: BoxError,
    },
    /// Two workers give one function different schemas.
    #[error("worker {worker} gives `{function}` another schema than an earlier worker")]
    Schemas {
        /// The worker.
        worker: u32,
        /// The function.
        function: String,
    },
    /// The workers' functions do not make a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The dispatcher cannot be made.
    #[error(transparent)]
    Dispatcher(#[from] DispatcherError),
    /// The operating system refused a thread.
    #[error("no thread for {0}: {1}")]
    Thread(String, std::io::Error),
}

impl PipelineError {
    /// Wraps a factory's error.
    pub(crate) fn of_factory(stage: &'static str, worker: u32) -> impl FnOnce(BoxError) -> Self {
        move |source| Self::Factory { stage, worker, source }
    }
}
