//! Graphs that the host launches: one worker for each entry, its stream, its context, its flag.
//!
//! A worker's end is a word that its stream writes behind the graph, so nobody asks a stream how it stands, but for a look
//! now and then whether it has failed (a failed stream writes nothing more).

pub(crate) mod api;
mod make;
mod outside;

use crate::layout::{GraphIOContext, cudaGraphExec_t, cudaq_graph_launch_engine_t};
use crate::status::{CUDA_UNKNOWN, Fault};
use core::ffi::c_void;
use core::mem::size_of;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{DeviceAddress, MappedRegion, Stream, StreamState};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_wire::flag::{self, TxState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use make::Wanted;
pub(crate) use outside::{EngineOutside, Publishing};

/// Workers of one engine at most.
pub(crate) const MAX_WORKERS: usize = 64;
/// Words from one worker's end flag to the next: a line each.
const LINE: usize = 8;
/// Sweeps that find nothing between two looks for failed streams.
const LOOK: u32 = 1 << 14;
/// How long destroy and drain wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// One worker, as the engine knows it.
#[derive(Debug)]
struct Worker {
    exec: cudaGraphExec_t,
    stream: Stream,
    id: u32,
    key: u64,
}

/// What launches and sweeps change.
#[derive(Debug)]
struct Turns {
    /// How often each worker was launched: what its end flag will hold.
    launches: Vec<u64>,
    idle_sweeps: u32,
}

/// How a worker's graph ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) slot: u32,
    pub(crate) failed: bool,
}

/// An engine. What C sees of it is at [`Engine::public`].
#[derive(Debug)]
pub(crate) struct Engine {
    public: *mut cudaq_graph_launch_engine_t,
    slots: u32,
    workers: Vec<Worker>,
    idle: Box<DeviceU64>,
    mask: u64,
    tags: Box<[AtomicI32]>,
    mailbox: Words,
    contexts: Words,
    contexts_device: u64,
    ends: Words,
    ends_device: u64,
    tx_flags: Words,
    in_place: bool,
    pub(crate) skip_marks: bool,
    turns: Mutex<Turns>,
    _memory: Vec<MappedRegion>,
}

// SAFETY: the pointers are names: C's view, which nothing here writes after it was made, and graphs that the driver follows.
unsafe impl Send for Engine {}
// SAFETY: as for `Send`; what changes is atomic or behind the lock.
unsafe impl Sync for Engine {}

impl Engine {
    pub(crate) fn public(&self) -> *mut cudaq_graph_launch_engine_t {
        self.public
    }

    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// An idle worker: the first, or the first of a function for a routing key.
    pub(crate) fn acquire(&self, function: Option<(u32, u64)>) -> Option<usize> {
        let idle = self.idle.load(Ordering::Acquire) & self.mask;
        (0..self.workers.len()).filter(|worker| idle >> worker & 1 == 1).find(|&worker| {
            let Worker { id, key, .. } = self.workers[worker];
            function.is_none_or(|(wanted, route)| id == wanted && (key == 0 || key == route))
        })
    }

    /// Whether a worker serves `slot` now.
    pub(crate) fn serves(&self, slot: u32) -> bool {
        let busy = !self.idle.load(Ordering::Acquire) & self.mask;
        (0..self.workers.len())
            .any(|worker| busy >> worker & 1 == 1 && self.tags[worker].load(Ordering::Relaxed) == slot as i32)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire) & self.mask == self.mask
    }

    /// Launches an idle worker for a slot. With `mark`, the in-flight mark is set first.
    ///
    /// # Safety
    /// The graph and the ring are there until it has ended: the contract of `cudaq_graph_launch_engine_launch`.
    pub(crate) unsafe fn launch(&self, worker: usize, slot: u32, mark: bool) -> Result<(), Fault> {
        let refuse = |why: &str| Fault::invalid(format!("worker {worker} for slot {slot}: {why}"));
        let entry = self.workers.get(worker).ok_or_else(|| refuse("there is no such worker"))?;
        if slot >= self.slots {
            return Err(refuse("the ring has no such slot"));
        }
        let bit = 1 << worker;
        // Acquire: pairs with `retire`, which gave the worker back.
        if self.idle.fetch_and(!bit, Ordering::AcqRel) & bit == 0 {
            return Err(refuse("the worker is busy"));
        }
        self.tags[worker].store(slot as i32, Ordering::Relaxed);
        if mark {
            self.tx_flags.store(slot as usize, flag::IN_FLIGHT, Ordering::Release);
        }
        let context = self.context_of(slot);
        let mail = if self.in_place { context.rx_slot } else { self.fill(worker, &context) };
        self.mailbox.store(worker, mail, Ordering::Release);
        let mut turns = crate::handles::lock(&self.turns);
        turns.launches[worker] += 1;
        // SAFETY: the caller's promise, and the hooks' contract.
        let launched = unsafe { self.enqueue(worker, entry, &context, turns.launches[worker]) };
        drop(turns);
        launched.map_err(|error| {
            let fault = Fault::from(error);
            let code = u16::try_from(fault.cuda).unwrap_or(CUDA_UNKNOWN as u16);
            self.tx_flags.store(slot as usize, flag::error(code), Ordering::Release);
            self.idle.fetch_or(bit, Ordering::Release);
            fault
        })
    }

    /// Hooks, graph, and the flags behind it.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn enqueue(
        &self,
        worker: usize,
        entry: &Worker,
        context: &GraphIOContext,
        launch: u64,
    ) -> Result<(), CudaError> {
        // SAFETY: C's view lives as long as the engine.
        let c_workers = unsafe { (*self.public).workers };
        // SAFETY: as many as workers; C may have set hooks, so it is read as it is.
        let hooks = unsafe { c_workers.wrapping_add(worker).read() };
        let slot = context.rx_slot as usize as *mut c_void;
        if let Some(hook) = hooks.pre_launch_fn {
            // SAFETY: the hook's contract in the header.
            unsafe { hook(hooks.pre_launch_data, slot, entry.stream.as_raw()) };
        }
        // SAFETY: the caller's promise.
        unsafe { entry.stream.launch_foreign_graph(entry.exec) }?;
        if let Some(hook) = hooks.post_launch_fn {
            // SAFETY: the hook's contract in the header.
            unsafe { hook(hooks.post_launch_data, slot, entry.stream.as_raw()) };
        }
        if self.in_place {
            let flag = DeviceAddress(context.tx_flag);
            // SAFETY: the response flag, which the ring's contract has mapped.
            unsafe { entry.stream.write_word_after(flag, context.tx_flag_value) }?;
        }
        let end = DeviceAddress(self.ends_device + (worker * LINE * 8) as u64);
        // SAFETY: a word of the engine's own mapped memory.
        unsafe { entry.stream.write_word_after(end, launch) }
    }

    /// Where a slot's request and response are, as the device sees them.
    fn context_of(&self, slot: u32) -> GraphIOContext {
        // SAFETY: C's view lives as long as the engine; its ring is the one that was checked.
        let ring = unsafe { (*self.public).ringbuffer };
        let at = |base: *mut u8, stride: usize| base.addr() as u64 + u64::from(slot) * stride as u64;
        let tx_slot = at(ring.tx_data, ring.tx_stride_sz);
        GraphIOContext {
            rx_slot: at(ring.rx_data, ring.rx_stride_sz),
            tx_slot,
            tx_flag: ring.tx_flags.addr() as u64 + u64::from(slot) * 8,
            tx_flag_value: tx_slot,
            tx_stride_sz: ring.tx_stride_sz as u64,
        }
    }

    /// Writes a worker's context; its device address.
    fn fill(&self, worker: usize, context: &GraphIOContext) -> u64 {
        const WORDS: usize = size_of::<GraphIOContext>() / 8;
        let GraphIOContext { rx_slot, tx_slot, tx_flag, tx_flag_value, tx_stride_sz } = *context;
        let words = [rx_slot, tx_slot, tx_flag, tx_flag_value, tx_stride_sz];
        for (place, word) in words.into_iter().enumerate() {
            self.contexts.store(worker * WORDS + place, word, Ordering::Relaxed);
        }
        self.contexts_device + (worker * size_of::<GraphIOContext>()) as u64
    }

    /// Gives back the workers whose graphs have ended; `ended` is told of each before that.
    pub(crate) fn sweep(&self, mut ended: impl FnMut(Ended)) {
        let busy = !self.idle.load(Ordering::Acquire) & self.mask;
        if busy == 0 {
            return;
        }
        let mut turns = crate::handles::lock(&self.turns);
        turns.idle_sweeps = turns.idle_sweeps.wrapping_add(1);
        let look = turns.idle_sweeps.is_multiple_of(LOOK);
        for worker in (0..self.workers.len()).filter(|worker| busy >> worker & 1 == 1) {
            // Acquire: pairs with the stream's write behind the graph.
            let done = self.ends.load(worker * LINE, Ordering::Acquire) == turns.launches[worker];
            let code = match self.workers[worker].stream.query_failure(look && !done) {
                Some(code) => code,
                None if done => CUDA_UNKNOWN as u16,
                None => continue,
            };
            self.retire(worker, done, code, &mut ended);
        }
    }

    fn retire(&self, worker: usize, done: bool, code: u16, ended: &mut impl FnMut(Ended)) {
        let slot = self.tags[worker].load(Ordering::Relaxed) as u32;
        let state = TxState::decode(self.tx_flags.load(slot as usize, Ordering::Acquire));
        // Marked still: the graph ended without an answer. Free: it was answered, and the answer taken.
        let failed = !done || state == TxState::InFlight;
        if failed {
            self.tx_flags.store(slot as usize, flag::error(code), Ordering::Release);
        }
        ended(Ended { slot, failed });
        // Release: pairs with `launch`.
        self.idle.fetch_or(1 << worker, Ordering::Release);
    }

    /// Waits for every worker, within bounds.
    pub(crate) fn drain(&self) {
        let begin = Instant::now();
        while !self.is_idle() && begin.elapsed() < PATIENCE {
            self.sweep(|_| ());
            std::thread::yield_now();
        }
    }

    pub(crate) fn response_flags(&self) -> &Words {
        &self.tx_flags
    }
}

/// Asks a stream whether it has failed, if it is time to.
trait QueryFailure {
    fn query_failure(&self, look: bool) -> Option<u16>;
}

impl QueryFailure for Stream {
    fn query_failure(&self, look: bool) -> Option<u16> {
        if !look {
            return None;
        }
        match self.query() {
            StreamState::Failed(error) => {
                Some(u16::try_from(Fault::from(error).cuda).unwrap_or(CUDA_UNKNOWN as u16))
            }
            StreamState::Ready | StreamState::Busy => None,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.drain();
        make::free_public(self.public);
    }
}
