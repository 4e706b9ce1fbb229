//! Three kernels that a program has linked into itself, with its handlers.

#![allow(unsafe_code)] // named for it: a caller's addresses become parameters of kernels

use super::{Between, DeviceDispatcher, RelayDispatcher, RelayOptions, Wired};
use crate::queue_pair::QueuePair;
use crate::ring::{DeviceError, DispatcherOptions, LinkedFunction};
use ringcall_cuda::driver::Kernel;

/// A program's kernels.
#[derive(Debug, Clone)]
pub struct RelayKernels {
    /// `ringcall_relay_receive`.
    pub receive: Kernel,
    /// The entry point of the dispatcher that the options name, such as `ringcall_dispatch`.
    pub dispatch: Kernel,
    /// `ringcall_relay_send`.
    pub send: Kernel,
}

impl RelayDispatcher<Wired> {
    /// Allocates everything that a program's three kernels need. Requests come from `receive`; answers go to `send`, or to
    /// `receive` if `send` is `None`.
    ///
    /// # Safety
    /// The kernels are those, of a module that is never unloaded, and each function is one of its module and of the handlers'
    /// signature.
    ///
    /// # Errors
    /// As for [`wire`](Self::wire), except that nothing is linked. Two functions with one id, or one that no thread and no warp calls.
    pub unsafe fn linked(
        receive: &QueuePair,
        send: Option<&QueuePair>,
        kernels: RelayKernels,
        functions: &[LinkedFunction],
        options: RelayOptions,
    ) -> Result<Self, DeviceError> {
        let between = Between::new(receive, send)?;
        // SAFETY: the caller's promise.
        let dispatcher = unsafe {
            DeviceDispatcher::linked_to(between.ring()?, kernels.dispatch, functions, options.dispatcher)
        }?;
        between.with([(kernels.receive, None), (kernels.send, None)], dispatcher, options.extent)
    }

    /// Serves the ring with other functions from the next start on. Requests that wait in the queues and in the ring are served by them,
    /// and counters of requests begin at 0.
    ///
    /// # Safety
    /// As for [`linked`](Self::linked); `dispatch` is the kernel that `options` names.
    ///
    /// # Errors
    /// As for [`linked`](Self::linked). Then the functions before stay.
    pub unsafe fn serve(
        &mut self,
        dispatch: Kernel,
        functions: &[LinkedFunction],
        options: DispatcherOptions,
    ) -> Result<(), DeviceError> {
        let ring = self.state.dispatcher.ring().clone();
        // SAFETY: the caller's promise.
        let dispatcher = unsafe { DeviceDispatcher::linked_to(ring, dispatch, functions, options) }?;
        self.answered_before += self.counters().answered();
        self.state.dispatcher = dispatcher;
        Ok(())
    }
}
