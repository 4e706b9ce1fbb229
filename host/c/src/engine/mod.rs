//! Graph engine: graphs that the host launches, with one worker for each entry, its stream, its context and its flag.
//!
//! A worker's end is a word that its stream writes after the graph, so no thread queries a stream's state, except now
//! and then to see whether the stream has failed (a failed stream writes nothing more). If the answer is known to be
//! a graph's last action, the answer is the end, and a launch is one call of the driver.

pub(crate) mod api;
mod executor;
#[cfg(test)]
pub(crate) mod fake;
mod graph_stream;
mod lease;
mod make;
mod sweep;
#[cfg(test)]
mod tests;

use crate::handles::lock;
use crate::layout::{GraphIOContext, cudaGraphExec_t, cudaq_graph_launch_engine_t};
use crate::status::Fault;
use core::ffi::c_void;
use core::mem::size_of;
use graph_stream::GraphStream;
use lease::LeaseLock;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{DeviceAddress, MappedRegion};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_launch::ring::worker_pool::{Found, IdleMask, NotTaken, WorkerPool};
use ringcall_protocol::Geometry;
use ringcall_protocol::ring::RingWindows;
use ringcall_wire::flag;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use executor::{EngineExecutor, Publishing};
pub(crate) use lease::Lease;
pub(crate) use make::Wanted;
pub(crate) use sweep::Ended;

/// Workers of one engine at most.
pub(crate) const MAX_WORKERS: usize = 64;
/// Words from one worker's end flag to the next: a line each.
const LINE: usize = 8;

/// One worker, as described by the C program. The [`WorkerPool`] knows which workers are idle and which slot each
/// serves.
#[derive(Debug)]
struct Worker {
    exec: cudaGraphExec_t,
    stream: Box<dyn GraphStream>,
    id: u32,
    key: u64,
}

/// The idle mask, where C reads it: a bit for each worker. Written under the pool's lock alone.
#[derive(Debug, Clone)]
struct Mask(Arc<DeviceU64>);

impl IdleMask for Mask {
    fn set(&self, worker: usize, idle: bool) {
        let (bit, mask) = (1 << worker, self.0.load(Ordering::Relaxed));
        // Release: pairs with the acquire of a reader without the lock.
        self.0.store(if idle { mask | bit } else { mask & !bit }, Ordering::Release);
    }
}

/// An engine. Its public part for C is [`Engine::public`].
#[derive(Debug)]
pub(crate) struct Engine {
    public: *mut cudaq_graph_launch_engine_t,
    slots: u32,
    workers: Vec<Worker>,
    idle: Mask,
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
    /// A worker has ended when its slot is answered: nothing is written after its graph.
    answer_ends: bool,
    pool: Mutex<WorkerPool<Mask>>,
    lease: LeaseLock,
    memory: Vec<MappedRegion>,
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
        if self.idle.0.load(Ordering::Acquire) & self.mask == 0 {
            return None;
        }
        match self.find(function) {
            Found::Worker(worker) => Some(worker),
            Found::Busy | Found::NoWorker => None,
        }
    }

    /// The worker for requests of a function with a routing key: an idle worker, a busy worker, or none.
    pub(crate) fn find(&self, function: Option<(u32, u64)>) -> Found {
        lock(&self.pool).find(function)
    }

    /// Whether a worker serves `slot` now, or has answered it and not ended yet.
    pub(crate) fn serves(&self, slot: u32) -> bool {
        !self.is_idle() && lock(&self.pool).serves(slot)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.0.load(Ordering::Acquire) & self.mask == self.mask
    }

    /// Says that other dispatchers take requests from the ring, too.
    pub(crate) fn share(&self) {
        lock(&self.pool).share();
    }

    /// Launches an idle worker for a slot. With `mark`, the in-flight mark is set: before the launch if the graph
    /// answers by the flag, else after it. After a failure the worker is idle, and the caller handles the slot's
    /// flag.
    ///
    /// # Safety
    /// The graph and the ring are there until it has ended: the contract of `cudaq_graph_launch_engine_launch`.
    pub(crate) unsafe fn launch(&self, worker: usize, slot: u32, mark: bool) -> Result<(), Fault> {
        let launch = self
            .take(worker, slot)
            .map_err(|why| Fault::invalid(format!("worker {worker} for slot {slot}: {why}")))?;
        let mark = || {
            if mark {
                self.tx_flags.store(slot as usize, flag::IN_FLIGHT, Ordering::Release);
            }
        };
        if !self.in_place {
            mark();
        }
        let context = self.context_of(slot);
        let mail = if self.in_place { context.rx_slot } else { self.fill(worker, &context) };
        self.mailbox.store(worker, mail, Ordering::Release);
        // Without the lock: hooks may call the engine.
        // SAFETY: the caller's promise, and the hooks' contract.
        let launched = unsafe { self.enqueue(worker, &self.workers[worker], &context, launch, mark) };
        let mut pool = lock(&self.pool);
        match launched {
            Ok(whole) => pool.launched(worker, whole),
            Err(_) => pool.refused(worker),
        }
        launched.map(drop).map_err(Fault::from)
    }

    /// Makes an idle worker busy with a slot. Returns the number of this launch.
    fn take(&self, worker: usize, slot: u32) -> Result<u64, NotTaken> {
        let mut pool = lock(&self.pool);
        let launch = pool.take(worker, slot)?;
        self.tags[worker].store(slot as i32, Ordering::Relaxed);
        Ok(launch)
    }

    /// Puts hooks, graph and the flags after it on the stream. Returns whether all of them were put there. In place,
    /// the stream writes the response flag, and `mark` comes between graph and flag, so that a client that sees the
    /// mark can wait for the graph by waiting for the device.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch).
    unsafe fn enqueue(
        &self,
        worker: usize,
        entry: &Worker,
        context: &GraphIOContext,
        launch: u64,
        mark: impl FnOnce(),
    ) -> Result<bool, CudaError> {
        // SAFETY: C's view lives as long as the engine.
        let c_workers = unsafe { (*self.public).workers };
        // SAFETY: as many as workers; C may have set hooks, so it is read as it is.
        let hooks = unsafe { c_workers.wrapping_add(worker).read() };
        let slot = context.rx_slot as usize as *mut c_void;
        if let Some(hook) = hooks.pre_launch_fn {
            // SAFETY: the hook's contract in the header.
            unsafe { hook(hooks.pre_launch_data, slot, entry.stream.raw()) };
        }
        // SAFETY: the caller's promise.
        unsafe { entry.stream.launch(entry.exec) }?;
        if self.in_place {
            mark();
        }
        // From here on the graph runs: after a failure the worker stays busy until its stream is queried.
        let mut whole = true;
        if let Some(hook) = hooks.post_launch_fn {
            // SAFETY: the hook's contract in the header.
            unsafe { hook(hooks.post_launch_data, slot, entry.stream.raw()) };
        }
        if self.in_place {
            let flag = DeviceAddress(context.tx_flag);
            // SAFETY: the response flag, which the ring's contract has mapped.
            whole = unsafe { entry.stream.write_after(flag, context.tx_flag_value) }.is_ok();
        }
        if !self.answer_ends {
            let end = DeviceAddress(self.ends_device + (worker * LINE * 8) as u64);
            // SAFETY: a word of the engine's own mapped memory.
            let _ = unsafe { entry.stream.write_after(end, launch) };
        }
        Ok(whole)
    }

    /// Device addresses of a slot's request and response.
    fn context_of(&self, slot: u32) -> GraphIOContext {
        // SAFETY: C's view lives as long as the engine; its ring was checked.
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

    /// Writes a worker's context. Returns its device address.
    fn fill(&self, worker: usize, context: &GraphIOContext) -> u64 {
        const WORDS: usize = size_of::<GraphIOContext>() / 8;
        let GraphIOContext { rx_slot, tx_slot, tx_flag, tx_flag_value, tx_stride_sz } = *context;
        let words = [rx_slot, tx_slot, tx_flag, tx_flag_value, tx_stride_sz];
        for (offset, word) in words.into_iter().enumerate() {
            self.contexts.store(worker * WORDS + offset, word, Ordering::Relaxed);
        }
        self.contexts_device + (worker * size_of::<GraphIOContext>()) as u64
    }

    /// Whether its graphs read and answer in a ring of this shape, at these addresses.
    fn is_of(&self, ring: &Geometry) -> bool {
        // SAFETY: C's view lives as long as the engine; its ring was checked.
        let own = unsafe { (*self.public).ringbuffer };
        let strides = (ring.rx_stride() as usize, ring.tx_stride() as usize);
        let Some(first) = ring.slot(0) else { return false };
        let data = (ring.request_address(first), ring.response_address(first));
        ring.slots() <= self.slots
            && strides == (own.rx_stride_sz, own.tx_stride_sz)
            && data == (own.rx_data_host.addr() as u64, own.tx_data_host.addr() as u64)
    }

    /// Whether its ring has the flags of this one.
    fn has_flags(&self, ring: &RingWindows) -> bool {
        // SAFETY: as in `is_of`.
        let own = unsafe { (*self.public).ringbuffer };
        let own = [own.rx_flags_host, own.tx_flags_host].map(|flags| flags.addr() as u64);
        own == [ring.rx_flags.address(), ring.tx_flags.address()]
    }

    pub(crate) fn response_flags(&self) -> &Words {
        &self.tx_flags
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.sweep(|_| ());
        if self.is_idle() {
            make::free_public(self.public);
        } else {
            // A graph may still read its context, and its stream will write the end, so everything that they use is
            // kept.
            core::mem::forget((core::mem::take(&mut self.workers), core::mem::take(&mut self.memory)));
        }
    }
}
