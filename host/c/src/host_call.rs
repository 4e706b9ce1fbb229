//! A C function as a handler of the host dispatcher.

use crate::layout::HostRpcFn;
use crate::raw_ring::aligned;
use crate::status::Fault;
use ringcall::table::HostHandler;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// Requests dispatched: for `cudaq_dispatcher_get_processed`, and in the caller's word. One thread adds.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    count: Arc<DeviceU64>,
    stats: Option<Words>,
}

impl Tally {
    /// Counts on from what is in `stats`, if there is one, unless [`restart`](Self::restart) is called.
    ///
    /// # Safety
    /// `stats` is null, or a word of host memory that stays until the tally is gone.
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
        // What it began with is the caller's, and may be anything.
        self.set(self.count.load(Ordering::Relaxed).wrapping_add(1));
    }
}

/// One C function, with private slots for it to read and write.
pub(crate) struct HostCall {
    function: HostRpcFn,
    request: Box<[u64]>,
    response: Box<[u64]>,
    slot_bytes: usize,
    tally: Tally,
}

impl HostCall {
    /// # Safety
    /// `function` keeps the contract of `cudaq_host_rpc_fn_t` for slots of these sizes.
    pub(crate) unsafe fn new(function: HostRpcFn, rx_stride: u32, tx_stride: u32, tally: Tally) -> Self {
        let words = |bytes: u32| vec![0; bytes as usize / 8].into_boxed_slice();
        Self {
            function,
            request: words(rx_stride),
            response: words(tx_stride),
            slot_bytes: rx_stride.min(tx_stride) as usize,
            tally,
        }
    }
}

impl HostHandler for HostCall {
    fn call(&mut self, _: &[u8], _: &mut [u8]) -> Result<usize, Status> {
        // The dispatcher calls with the header.
        Err(Status::ABANDONED)
    }

    fn call_with_header(
        &mut self,
        header: &RequestHeader,
        request: &[u8],
        result: &mut [u8],
    ) -> Result<(Status, usize), Status> {
        self.request[..HEADER_WORDS].copy_from_slice(&header.to_words());
        // The payload was checked against the slot's capacity.
        self.request.as_mut_bytes()[HEADER_BYTES..][..request.len()].copy_from_slice(request);
        self.response[..HEADER_WORDS].fill(0);
        self.tally.add();
        let (from, to) = (self.request.as_ptr(), self.response.as_mut_ptr());
        // SAFETY: the promise of `new`; both slots are private, apart and alive.
        unsafe { (self.function)(from.cast(), to.cast(), self.slot_bytes) };
        let mut words = [0; HEADER_WORDS];
        words.copy_from_slice(&self.response[..HEADER_WORDS]);
        let answer = ResponseHeader::from_words(words);
        if !answer.has_magic() {
            return Err(Status::ABANDONED);
        }
        let len = answer.result_len as usize;
        let fits = len.min(result.len());
        result[..fits].copy_from_slice(&self.response.as_bytes()[HEADER_BYTES..][..fits]);
        // A longer one is cut by the dispatcher, which says so.
        Ok((answer.status(), len))
    }
}
