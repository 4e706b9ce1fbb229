//! Creation of an engine. Its parts are checked before any call of CUDA.

use super::graph_stream::GraphStream;
use super::lease::LeaseLock;
use super::{Engine, LINE, MAX_WORKERS, Mask, Worker};
use crate::layout::{
    GraphIOContext, cudaq_graph_launch_engine_t, cudaq_host_dispatch_worker_t, cudaq_ringbuffer_t,
};
use crate::raw_ring::{View, aligned, check};
use crate::status::Fault;
use core::ffi::c_void;
use core::mem::size_of;
use ringcall_cuda::driver::{Driver, MappedRegion, Stream};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_launch::ring::worker_pool::{Answers, WorkerPool};
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::launch::MAX_SLOTS;
use ringcall_wire::status::DispatchMode;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, Mutex};

// C reads the idle mask as one 64-bit atomic.
const _: () = assert!(size_of::<DeviceU64>() == 8 && size_of::<AtomicI32>() == 4);

/// Parameters of an engine.
pub(crate) struct Wanted<'a> {
    pub(crate) ring: &'a cudaq_ringbuffer_t,
    pub(crate) entries: &'a [FunctionEntry],
    /// [`MAX_SLOTS`] if the program does not say.
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) device: u32,
    pub(crate) skip_marks: bool,
    /// Other dispatchers take requests from the ring, too, as far as the caller says.
    pub(crate) shared: bool,
    /// Whether, as the caller says, graphs do nothing after their answer.
    pub(crate) answer_last: bool,
    /// The caller's, or null.
    pub(crate) mailbox: *mut *mut c_void,
}

impl Wanted<'_> {
    /// The table's graphs, in their order.
    fn graphs(&self) -> Result<Vec<FunctionEntry>, Fault> {
        let graph = |entry: &&FunctionEntry| entry.mode() == Ok(DispatchMode::GraphLaunch);
        let graphs: Vec<FunctionEntry> = self.entries.iter().filter(graph).copied().collect();
        if graphs.len() > MAX_WORKERS {
            let count = graphs.len();
            return Err(Fault::invalid(format!(
                "{count} graphs: an engine has {MAX_WORKERS} workers at most"
            )));
        }
        Ok(graphs)
    }

    /// Makes the engine; `None` if the table has no graph.
    ///
    /// # Safety
    /// The ring's memory is there for `slots` slots, and the mailbox for as many workers, until the engine is gone.
    pub(crate) unsafe fn make(&self) -> Result<Option<Engine>, Fault> {
        let graphs = self.graphs()?;
        if graphs.is_empty() {
            return Ok(None);
        }
        // If the program does not say how many slots there are, only their beginning can be checked.
        let known = if self.slots == MAX_SLOTS { 1 } else { self.slots };
        check(self.ring, View::Host, known, self.slot_bytes)?;
        check(self.ring, View::Device, known, self.slot_bytes)?;
        if !self.mailbox.is_null() {
            aligned(self.mailbox.cast_const(), 8, "the mailbox")?;
        }
        let context = Driver::load()?.device(self.device)?.context()?;
        let mut streams: Vec<Box<dyn GraphStream>> = Vec::new();
        for _ in &graphs {
            streams.push(Box::new(Stream::new(&context)?));
        }
        let count = graphs.len();
        let region = |bytes| MappedRegion::zeroed(&context, bytes);
        let (contexts, ends) = (region(count * size_of::<GraphIOContext>())?, region(count * LINE * 8)?);
        let mut memory = vec![contexts.clone(), ends.clone()];
        let own = if self.mailbox.is_null() { Some(region(count * 8)?) } else { None };
        let own_mailbox = own.as_ref().map(|region| region.words(0, count)).transpose()?;
        memory.extend(own);
        let parts = Parts {
            streams,
            contexts: contexts.words(0, count * size_of::<GraphIOContext>() / 8)?,
            contexts_device: contexts.device_address(0)?.0,
            ends: ends.words(0, count * LINE)?,
            ends_device: ends.device_address(0)?.0,
            own_mailbox,
            memory,
        };
        // SAFETY: checked above, and the caller's promise.
        unsafe { self.assemble(&graphs, parts) }.map(Some)
    }

    /// Builds an engine from checked parts.
    ///
    /// # Safety
    /// As for [`make`](Self::make), after its checks; there is a stream for each graph.
    pub(super) unsafe fn assemble(&self, graphs: &[FunctionEntry], parts: Parts) -> Result<Engine, Fault> {
        let Parts { streams, contexts, contexts_device, ends, ends_device, own_mailbox, memory } = parts;
        let worker = |(entry, stream): (&FunctionEntry, Box<dyn GraphStream>)| Worker {
            exec: entry.handler as usize as *mut c_void,
            stream,
            id: entry.function_id,
            key: entry.routing_key,
        };
        let workers: Vec<Worker> = graphs.iter().zip(streams).map(worker).collect();
        let count = workers.len();
        let (mailbox, bank) = match own_mailbox {
            Some(words) => {
                let bank = words.address() as usize as *mut *mut c_void;
                (words, bank)
            }
            // SAFETY: the caller's promise.
            None => (unsafe { Words::from_raw(self.mailbox.cast::<u64>(), count) }?, self.mailbox),
        };
        // SAFETY: checked above, and the caller's promise.
        let tx_flags = unsafe { Words::from_raw(self.ring.tx_flags_host, self.slots as usize) }?;
        let response_words = (self.slots as usize).saturating_mul(self.ring.tx_stride_sz) / 8;
        #[allow(clippy::cast_ptr_alignment)] // checked, and again by `from_raw`
        let responses = self.ring.tx_data_host.cast::<u64>();
        // SAFETY: checked above, and the caller's promise: only slots that a caller names are touched.
        let responses = unsafe { Words::from_raw(responses, response_words) }?;
        let mask = u64::MAX >> (64 - count);
        let in_place = self.ring.rx_data == self.ring.tx_data;
        let idle = Mask(Arc::new(DeviceU64::new(0)));
        let slots = (!in_place).then_some((responses, self.ring.tx_stride_sz / 8));
        let mut pool = WorkerPool::new(Answers::new(tx_flags.clone(), slots, !self.skip_marks), idle.clone());
        for worker in &workers {
            pool.add(worker.id, worker.key);
        }
        if self.shared {
            pool.share();
        }
        let tags: Box<[AtomicI32]> = (0..count).map(|_| AtomicI32::new(-1)).collect();
        let c_workers: Box<[cudaq_host_dispatch_worker_t]> = workers.iter().map(c_worker).collect();
        let public = Box::new(cudaq_graph_launch_engine_t {
            ringbuffer: *self.ring,
            workers: Box::into_raw(c_workers).cast(),
            num_workers: count,
            worker_mask: mask,
            idle_mask: Arc::as_ptr(&idle.0).cast_mut().cast(),
            inflight_slot_tags: tags.as_ptr().cast_mut().cast(),
            h_mailbox_bank: bank,
            io_ctxs_host: if in_place {
                core::ptr::null_mut()
            } else {
                contexts.address() as usize as *mut c_void
            },
            io_ctxs_dev: if in_place {
                core::ptr::null_mut()
            } else {
                contexts_device as usize as *mut c_void
            },
            skip_tx_markers: self.skip_marks.into(),
            owns_mailbox: self.mailbox.is_null().into(),
        });
        Ok(Engine {
            public: Box::into_raw(public),
            slots: self.slots,
            workers,
            idle,
            mask,
            tags,
            mailbox,
            contexts,
            contexts_device,
            ends,
            ends_device,
            tx_flags,
            in_place,
            skip_marks: self.skip_marks,
            // Without marks a taken answer looks like a missing one. In place, the answer is the stream's write after
            // the graph.
            answer_ends: !self.skip_marks && (self.answer_last || in_place),
            pool: Mutex::new(pool),
            lease: LeaseLock::default(),
            memory,
        })
    }
}

/// Parts of an engine other than the ring.
pub(super) struct Parts {
    /// One for each graph.
    pub(super) streams: Vec<Box<dyn GraphStream>>,
    /// Their contexts, and where the device sees these.
    pub(super) contexts: Words,
    pub(super) contexts_device: u64,
    /// Their end flags, likewise.
    pub(super) ends: Words,
    pub(super) ends_device: u64,
    /// The mailbox, if the caller has none.
    pub(super) own_mailbox: Option<Words>,
    /// The mapped memory of these parts.
    pub(super) memory: Vec<MappedRegion>,
}

fn c_worker(worker: &Worker) -> cudaq_host_dispatch_worker_t {
    cudaq_host_dispatch_worker_t {
        graph_exec: worker.exec,
        stream: worker.stream.raw(),
        function_id: worker.id,
        pre_launch_fn: None,
        pre_launch_data: core::ptr::null_mut(),
        post_launch_fn: None,
        post_launch_data: core::ptr::null_mut(),
        routing_key: worker.key,
    }
}

/// Frees the public part of an engine.
pub(super) fn free_public(public: *mut cudaq_graph_launch_engine_t) {
    // SAFETY: made in `make`, freed once, by the engine's drop.
    let public = unsafe { Box::from_raw(public) };
    let workers = core::ptr::slice_from_raw_parts_mut(public.workers, public.num_workers);
    // SAFETY: likewise; C does not change where the workers are or how many.
    drop(unsafe { Box::from_raw(workers) });
}
