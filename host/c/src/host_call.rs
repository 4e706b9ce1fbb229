//! A C function as a handler of the host dispatcher.

use crate::layout::HostRpcFn;
use crate::raw_ring::aligned;
use crate::status::Fault;
use ringcall::table::{HostHandler, Slots};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_wire::header::{RESPONSE_MAGIC, RequestHeader};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::{FromBytes, IntoBytes};

/// Requests dispatched: for `cudaq_dispatcher_get_processed`, and in the caller's word. One thread adds.
#[derive(Debug, Clone)]
pub(crate) struct CallCounter {
    count: Arc<DeviceU64>,
    stats: Option<Words>,
}

impl CallCounter {
    /// Counts on from the counts in `stats`, if there is one, unless [`restart`](Self::restart) is called.
    ///
    /// # Safety
    /// `stats` is null, or a word of host memory that stays until the counter is gone.
    pub(crate) unsafe fn new(stats: *mut u64) -> Result<Self, Fault> {
        let stats = if stats.is_null() {
            None
        } else {
            aligned(stats.cast_const(), 8, "stats")?;
            // SAFETY: the caller's promise.
            Some(unsafe { Words::from_raw(stats, 1) }?)
        };
        let begin = stats.as_ref().map_or(0, |word| word.load(0, Ordering::Relaxed));
        Ok(Self { count: Arc::new(DeviceU64::new(begin)), stats })
    }

    /// Counts from 0. Before anybody adds.
    pub(crate) fn restart(&self) {
        self.set(0);
    }

    #[inline]
    fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
        if let Some(stats) = &self.stats {
            stats.store(0, count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add(&self) {
        // Its initial contents come from the caller and may be anything.
        self.set(self.count.load(Ordering::Relaxed).wrapping_add(1));
    }
}

/// One C function.
pub(crate) struct HostCall {
    function: HostRpcFn,
    counter: CallCounter,
}

impl HostCall {
    /// # Safety
    /// `function` keeps the contract of `cudaq_host_rpc_fn_t` for slots of the ring that it is called for.
    pub(crate) unsafe fn new(function: HostRpcFn, counter: CallCounter) -> Self {
        Self { function, counter }
    }
}

impl HostHandler for HostCall {
    fn call(&mut self, _: &[u8], _: &mut [u8]) -> Result<usize, Status> {
        // The dispatcher calls with both slots.
        Err(Status::ABANDONED)
    }

    #[inline]
    fn call_in_slots(&mut self, _: &RequestHeader, slots: &mut Slots) -> Result<(Status, usize), Status> {
        let Slots { request, response } = slots;
        // What is read below; a slot has room for its header.
        response[..2].fill(0);
        self.counter.add();
        let slot_bytes = request.len().min(response.len()) * size_of::<u64>();
        let (from, to) = (request.as_ptr(), response.as_mut_ptr());
        // SAFETY: the promise of `new`; both slots are private, apart and alive.
        unsafe { (self.function)(from.cast(), to.cast(), slot_bytes) };
        // Field by field, as handlers write them: a word over two stores would wait for everything stored before.
        let fields = <[u32]>::ref_from_bytes(response.as_bytes()).unwrap_or_default();
        let [magic, status, result_len, ..] = fields else { return Err(Status::ABANDONED) };
        if *magic != RESPONSE_MAGIC {
            return Err(Status::ABANDONED);
        }
        // A result that is too long is cut by the dispatcher, which says so.
        Ok((Status(status.cast_signed()), *result_len as usize))
    }
}
