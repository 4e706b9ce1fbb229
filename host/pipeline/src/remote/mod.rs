//! The pipeline whose dispatcher is elsewhere: a kernel on a device polls the ring and runs inference, and workers of this
//! process take its answers from the ring.
//!
//! ```text
//! injector ─► ring ─► a dispatcher elsewhere: inference ─► response flag ─► worker: CPU stage ─► consumer ─► completion handler
//! ```
//! | thread | does | allocates | blocks |
//! |---|---|---|---|
//! | the caller's, with the [`Injector`](crate::Injector) | writes requests into the device's ring | no | as there |
//! | workers | poll the ring's response flags; whoever sees one first takes it, runs the CPU stage, answers | no | no |
//! | consumer | harvests answers, calls the completion handler | no | no |
//! | warden | answers what takes too long, asks whether the dispatcher still works | when it does not | it sleeps between looks |
//!
//! What holds of the [pipeline](crate) holds here: every request that was submitted has exactly one completion. What the
//! device does is an allegation: an answer without its magic, to another request or longer than its slot is completed
//! [`ENGINE_FAILED`](ringcall::Status::ENGINE_FAILED); one that comes after its request was timed out, or that nobody asked for,
//! is dropped and counted. A slot whose answer the device still owes is not used again until it comes, or the dispatcher has
//! ended. A dispatcher that says that it has failed, or that lets every slot's time run out, is lost: from then on
//! submissions are refused with [`SubmitError::Lost`](crate::SubmitError::Lost).
//!
//! Any dispatcher will do that polls a ring and answers in it; here one of this process, with a call for inference:
//!
//! ```
//! use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status, dispatcher};
//! use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemotePipeline, RemoteStop};
//! use ringcall_pipeline::{BoxError, RequestView, StageConfig};
//! use std::sync::mpsc;
//! use std::time::Duration;
//!
//! struct Doubling {
//!     ring: Ring,
//!     running: Option<HostDispatcher<dispatcher::Running>>,
//! }
//!
//! impl RemoteDispatcher for Doubling {
//!     fn ring(&self) -> &Ring {
//!         &self.ring
//!     }
//!     fn start(&mut self) -> Result<(), BoxError> {
//!         let double = |args: &[u8], out: &mut [u8]| -> Result<usize, Status> {
//!             out.iter_mut().zip(args).for_each(|(out, arg)| *out = arg * 2);
//!             Ok(args.len())
//!         };
//!         let table = FunctionTable::builder().host_call("double", double).build(&self.ring)?;
//!         self.running = Some(HostDispatcher::builder(&self.ring, table).build()?.start()?);
//!         Ok(())
//!     }
//!     fn health(&self) -> Health {
//!         Box::new(|| Ok(()))
//!     }
//!     fn stop(&mut self, deadline: Duration) -> RemoteStop {
//!         let ended = self.running.take().is_none_or(|running| !running.stop(deadline).report.stuck);
//!         RemoteStop { ended, failure: None }
//!     }
//! }
//!
//! let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 })?;
//! let (done, completions) = mpsc::channel();
//! let pipeline = RemotePipeline::builder(Doubling { ring, running: None })
//!     .config(StageConfig { workers: 1, ..StageConfig::default() })
//!     .stage(|_worker| {
//!         // On what the dispatcher left: the sum.
//!         Ok(Box::new(|_: RequestView<'_>, output: &[u8], response: &mut [u8]| {
//!             response[0] = output.iter().sum();
//!             Ok(1)
//!         }))
//!     })
//!     .on_completion(move |completion| {
//!         let _ = done.send(completion.result.map(<[u8]>::to_vec));
//!     })
//!     .build()?
//!     .start()?;
//! pipeline.injector().expect("the first").submit(FunctionId::of("double"), &[1, 2, 3], 1 << 40)?;
//! assert_eq!(completions.recv()?, Some(vec![12]));
//! assert!(pipeline.stop(Duration::from_secs(1)).is_clean());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod desks;
mod pipeline;
mod warden;
mod worker;

pub(crate) use desks::Desks;
pub use pipeline::{RemotePipeline, RemotePipelineBuilder, RemoteStopped, Running};

use crate::error::BoxError;
use crate::stage::{RequestView, StageError};
use ringcall::Ring;
use std::time::Duration;

/// Says whether a dispatcher works; `Err` says why not. Called by a thread of its own, when something takes long.
pub type Health = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A dispatcher that is not a thread of this pipeline: it polls a ring's request flags, runs inference, and answers in the
/// ring's response slots. Nothing that it writes is trusted.
pub trait RemoteDispatcher: Send {
    /// The ring that it polls: the same one for all its life. Slots have room for requests and for its answers.
    fn ring(&self) -> &Ring;

    /// In how many equal parts, runs of slots, its ring is served, each apart from the others: requests go to each of them in
    /// turn. Of as many slots as there are, a divisor.
    fn parts(&self) -> u32 {
        1
    }

    /// Begins to poll. After [`stop`](Self::stop) it can be called again.
    ///
    /// # Errors
    /// The dispatcher's own; nothing polls then.
    fn start(&mut self) -> Result<(), BoxError>;

    /// Something that asks how it is. It may wait for a moment, not for ever.
    fn health(&self) -> Health;

    /// Answers what is in the ring, as far as there is time, and ends; returns soon after `deadline` in any case. Also after
    /// a start that failed, where it does nothing.
    fn stop(&mut self, deadline: Duration) -> RemoteStop;
}

/// How a dispatcher elsewhere has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteStop {
    /// Nothing of it touches the ring any more. Where not, it is never started again.
    pub ended: bool,
    /// It did not end well.
    pub failure: Option<String>,
}

/// CPU work on what a dispatcher elsewhere left (matching). One per worker.
pub trait RemoteStage: Send {
    /// Reads the request and the dispatcher's answer, both private copies and both of any length; writes the result;
    /// returns its length in bytes.
    ///
    /// # Errors
    /// The status to answer with. A panic is caught and answered [`HANDLER_PANIC`](ringcall::Status::HANDLER_PANIC).
    fn process(
        &mut self,
        request: RequestView<'_>,
        output: &[u8],
        response: &mut [u8],
    ) -> Result<usize, StageError>;
}

impl<F> RemoteStage for F
where
    F: FnMut(RequestView<'_>, &[u8], &mut [u8]) -> Result<usize, StageError> + Send,
{
    fn process(
        &mut self,
        request: RequestView<'_>,
        output: &[u8],
        response: &mut [u8],
    ) -> Result<usize, StageError> {
        self(request, output, response)
    }
}
