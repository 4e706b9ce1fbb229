//! Making an engine: what it is made of is checked before CUDA is asked for anything.

use super::{Engine, LINE, MAX_WORKERS, Turns, Worker};
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
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::launch::MAX_SLOTS;
use ringcall_wire::status::DispatchMode;
use std::sync::Mutex;
use std::sync::atomic::AtomicI32;

// C reads the idle mask as one 64-bit atomic.
const _: () = assert!(size_of::<DeviceU64>() == 8 && size_of::<AtomicI32>() == 4);

/// What an engine is made of.
pub(crate) struct Wanted<'a> {
    pub(crate) ring: &'a cudaq_ringbuffer_t,
    pub(crate) entries: &'a [FunctionEntry],
    /// [`MAX_SLOTS`] where nobody says.
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) device: u32,
    pub(crate) skip_marks: bool,
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
        // Where nobody says how many slots there are, only where they begin can be checked.
        let known = if self.slots == MAX_SLOTS { 1 } else { self.slots };
        check(self.ring, View::Host, known, self.slot_bytes)?;
        check(self.ring, View::Device, known, self.slot_bytes)?;
        if !self.mailbox.is_null() {
            aligned(self.mailbox.cast_const(), 8, "the mailbox")?;
        }
        let context = Driver::load()?.device(self.device)?.context()?;
        let mut workers = Vec::new();
        for entry in &graphs {
            workers.push(Worker {
                exec: entry.handler as usize as *mut c_void,
                stream: Stream::new(&context)?,
                id: entry.function_id,
                key: entry.routing_key,
            });
        }
        let count = workers.len();
        let region = |bytes| MappedRegion::zeroed(&context, bytes);
        let (contexts, ends) = (region(count * size_of::<GraphIOContext>())?, region(count * LINE * 8)?);
        let mut memory = vec![contexts.clone(), ends.clone()];
        let (mailbox, bank) = if self.mailbox.is_null() {
            let mail = region(count * 8)?;
            let words = mail.words(0, count)?;
            memory.push(mail);
            let bank = words.address() as usize as *mut *mut c_void;
            (words, bank)
        } else {
            // SAFETY: the caller's promise.
            (unsafe { Words::from_raw(self.mailbox.cast::<u64>(), count) }?, self.mailbox)
        };
        // SAFETY: checked above, and the caller's promise.
        let tx_flags = unsafe { Words::from_raw(self.ring.tx_flags_host, self.slots as usize) }?;
        let mask = u64::MAX >> (64 - count);
        let in_place = self.ring.rx_data == self.ring.tx_data;
        let idle = Box::new(DeviceU64::new(mask));
        let tags: Box<[AtomicI32]> = (0..count).map(|_| AtomicI32::new(-1)).collect();
        let context_words = contexts.words(0, count * size_of::<GraphIOContext>() / 8)?;
        let c_workers: Box<[cudaq_host_dispatch_worker_t]> = workers.iter().map(c_worker).collect();
        let public = Box::new(cudaq_graph_launch_engine_t {
            ringbuffer: *self.ring,
            workers: Box::into_raw(c_workers).cast(),
            num_workers: count,
            worker_mask: mask,
            idle_mask: core::ptr::from_ref(&*idle).cast_mut().cast(),
            inflight_slot_tags: tags.as_ptr().cast_mut().cast(),
            h_mailbox_bank: bank,
            io_ctxs_host: if in_place {
                core::ptr::null_mut()
            } else {
                context_words.address() as usize as *mut c_void
            },
            io_ctxs_dev: if in_place {
                core::ptr::null_mut()
            } else {
                contexts.device_address(0)?.0 as usize as *mut c_void
            },
            skip_tx_markers: self.skip_marks.into(),
            owns_mailbox: self.mailbox.is_null().into(),
        });
        Ok(Some(Engine {
            public: Box::into_raw(public),
            slots: self.slots,
            workers,
            idle,
            mask,
            tags,
            mailbox,
            contexts: context_words,
            contexts_device: contexts.device_address(0)?.0,
            ends: ends.words(0, count * LINE)?,
            ends_device: ends.device_address(0)?.0,
            tx_flags,
            in_place,
            skip_marks: self.skip_marks,
            turns: Mutex::new(Turns { launches: vec![0; count], idle_sweeps: 0 }),
            _memory: memory,
        }))
    }
}

fn c_worker(worker: &Worker) -> cudaq_host_dispatch_worker_t {
    cudaq_host_dispatch_worker_t {
        graph_exec: worker.exec,
        stream: worker.stream.as_raw(),
        function_id: worker.id,
        pre_launch_fn: None,
        pre_launch_data: core::ptr::null_mut(),
        post_launch_fn: None,
        post_launch_data: core::ptr::null_mut(),
        routing_key: worker.key,
    }
}

/// Frees what C saw of an engine.
pub(super) fn free_public(public: *mut cudaq_graph_launch_engine_t) {
    // SAFETY: made in `make`, freed once, by the engine's drop.
    let public = unsafe { Box::from_raw(public) };
    let workers = core::ptr::slice_from_raw_parts_mut(public.workers, public.num_workers);
    // SAFETY: likewise; C does not change where the workers are or how many.
    drop(unsafe { Box::from_raw(workers) });
}
