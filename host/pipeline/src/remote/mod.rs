//! A pipeline with a remote dispatcher: a kernel on a device polls the ring and runs inference, and workers of this process
//! take its responses from the ring.
//!
//! ```text
//! injector ─► ring ─► remote dispatcher: inference ─► response flag ─► worker: CPU stage ─► consumer ─► completion handler
//! ```
//! | thread | does | allocates | blocks |
//! |---|---|---|---|
//! | the caller's, with the [`Injector`](crate::Injector) | writes requests into the device's ring | no | as there |
//! | workers | poll the ring's response flags; the first worker to claim a response runs the CPU stage and answers | no | no |
//! | consumer | harvests answers, calls the completion handler | no | no |
//! | watchdog | answers requests that take too long, and asks for the dispatcher's health | when the dispatcher has failed | sleeps between checks |
//!
//! As in the [pipeline](crate), every submitted request has exactly one completion. The device's responses are allegations:
//! a response without its magic, with another request's id or longer than its slot completes the request with
//! [`ENGINE_FAILED`](ringcall::Status::ENGINE_FAILED). A response to a request that has timed out, or to no request, is
//! dropped and counted. A slot whose response is outstanding is not reused until the response comes or the dispatcher has
//! ended. The dispatcher is lost if it reports a failure, or if the requests of all slots time out: from then on submissions
//! are refused with [`SubmitError::Lost`](crate::SubmitError::Lost).
//!
//! Any dispatcher that polls a ring and answers in it can be used. This one runs in the same process:
//!
//! ```
//! use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status, dispatcher};
//! use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
//! use ringcall_pipeline::{BoxError, Pipeline, RequestView, StageConfig};
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
//! let pipeline = Pipeline::remote(Doubling { ring, running: None })
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

mod dispatch;
mod in_flight;
mod watchdog;
mod worker;

pub use dispatch::RemotePipelineBuilder;
pub(crate) use in_flight::InFlightTable;

use crate::error::BoxError;
use crate::stage::{RequestView, StageError};
use ringcall::Ring;
use std::time::Duration;

/// A function that reports a dispatcher's health; `Err` names the fault. The watchdog calls it when a request
/// takes long.
pub type Health = Box<dyn FnMut() -> Result<(), String> + Send>;

/// A dispatcher outside this pipeline: it polls a ring's request flags, runs inference, and answers in the ring's response
/// slots. Nothing that it writes is trusted.
pub trait RemoteDispatcher: Send {
    /// The ring that it polls; always the same one. Its slots have room for requests and for responses.
    fn ring(&self) -> &Ring;

    /// The number of equal parts (runs of slots) that the dispatcher serves independently. Requests go to the parts in turn.
    /// Must divide the number of slots.
    fn parts(&self) -> u32 {
        1
    }

    /// Starts polling. May be called again after [`stop`](Self::stop).
    ///
    /// # Errors
    /// The dispatcher's own error. Nothing polls the ring then.
    fn start(&mut self) -> Result<(), BoxError>;

    /// A function that reports its health. It may block for a bounded time.
    fn health(&self) -> Health;

    /// Drains the ring until `deadline`, ends, and returns soon after the deadline. Called after a start that failed, too,
    /// where it does nothing.
    fn stop(&mut self, deadline: Duration) -> RemoteStop;
}

/// How a remote dispatcher has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteStop {
    /// The dispatcher no longer accesses the ring. If false, it is never started again.
    pub ended: bool,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// CPU work on a remote dispatcher's response, such as matching. One instance per worker.
pub trait RemoteStage: Send {
    /// Reads the request and the dispatcher's response (private copies of any length), writes the result, and returns the
    /// result's length in bytes.
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
