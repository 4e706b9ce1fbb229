//! Unified dispatchers whose kernel a program has linked into itself, with its handlers.

#![allow(unsafe_code)] // named for it: a caller's addresses become parameters of a kernel

use super::wire::Parts;
use super::{QueuePair, UnifiedDispatcher, Wired, check_strides, queue_params};
use crate::ring::{DeviceError, KernelKind, LinkedFunction, UnifiedKernel, check_shape, unified_table};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Kernel, Stream};
use ringcall_dispatcher::queue_pair::layout;
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::shared_layout::Needs;
use ringcall_protocol::Geometry;
use ringcall_wire::unified::control;
use std::sync::Arc;

impl UnifiedDispatcher<Wired> {
    /// Lays everything out for `kernel`, which is the program's `ringcall_unified`, with one block of `warps` warps. Where the queues were
    /// worked before, `earlier` is the dispatcher that did, stopped: this one takes them up where that one left them.
    ///
    /// # Safety
    /// The kernel is that, of a module that is never unloaded, and each function is one of its module and of the handlers' signature.
    /// `earlier` was made for `pair`, or for a queue pair of the same addresses.
    ///
    /// # Errors
    /// A queue pair that was wired before, without `earlier`. Two functions with one id, or one that no warp calls; a shape that no kernel has,
    /// strides that are no multiples of 16, a kernel that does not fit the device, no memory.
    pub unsafe fn linked(
        pair: &QueuePair,
        kernel: Kernel,
        functions: &[LinkedFunction],
        warps: u32,
        earlier: Option<&Self>,
    ) -> Result<Self, DeviceError> {
        let claimed = if earlier.is_none() { Some(pair.claim()?) } else { None };
        let (context, config) = (&pair.context, &pair.config);
        let kind = KernelKind::Regular { blocks: 1, warps };
        check_shape(kind, config.slots)?;
        check_strides(config)?;
        let table = unified_table(functions)?;
        let parts = Parts {
            context,
            geometry: Geometry::new(config.slots, config.rx_stride, config.tx_stride, 0, 0, 0)?,
            kind,
            kernel: UnifiedKernel::Queues,
            warps,
            threads: kind.threads(),
            transport: Arc::new(pair.clone()),
            layout: |cells, entries, staging_bytes, shared_staging| {
                layout::of(Needs { slots: 0, cells, entries, workers: warps, staging_bytes, shared_staging })
                    .bytes
            },
        };
        let stream = Arc::new(Stream::new(context)?);
        let params = queue_params(pair, Extent::Received);
        let wired = parts.over(params, table, kernel, (stream, None, None))?;
        if let Some(earlier) = earlier {
            let (from, to) = (&earlier.resources.control, &wired.resources.control);
            // The counts of what happened on the queues, and where in them the kernel was.
            for word in control::EVENTS..control::WORDS {
                to.store(word, from.load(word, Ordering::Acquire), Ordering::Relaxed);
            }
        }
        if let Some(claimed) = claimed {
            claimed.for_ever();
        }
        Ok(wired)
    }
}
