//! Fake engines without CUDA: a test decides when a graph answers, and when its stream reaches the work after it.

use super::Engine;
use super::graph_stream::GraphStream;
use super::make::{Parts, Wanted};
use super::{GraphIOContext, LINE};
use crate::layout::{cudaGraphExec_t, cudaStream_t, cudaq_ringbuffer_t};
use core::mem::size_of;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::DeviceAddress;
use ringcall_gpu::shared::{Region, Words};
use ringcall_launch::ring::worker_pool::WorkerStream;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::status::DispatchMode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const SLOTS: u32 = 4;
pub(crate) const SLOT: u32 = 64;
/// Words of a slot.
const WORDS: usize = SLOT as usize / 8;
/// The function of every worker.
pub(crate) const FUNCTION: u32 = 0x77;

#[derive(Debug, Default)]
struct Play {
    launches: u32,
    queued: Vec<(u64, u64)>,
    running: bool,
    failure: Option<u16>,
    refuses: bool,
    loses_writes: bool,
    /// The ring's response flags.
    tx_flags: Option<Words>,
    at_launches: Vec<[u64; SLOTS as usize]>,
    at_writes: Vec<[u64; SLOTS as usize]>,
}

impl Play {
    /// The response flags now, for a stream that has them.
    fn seen(&self) -> Option<[u64; SLOTS as usize]> {
        let flags = self.tx_flags.as_ref()?;
        Some(core::array::from_fn(|slot| flags.load(slot, Ordering::Acquire)))
    }
}

/// A stream and the graphs on it.
#[derive(Debug, Default)]
pub(crate) struct FakeStream(Mutex<Play>);

impl FakeStream {
    fn play(&self) -> std::sync::MutexGuard<'_, Play> {
        crate::handles::lock(&self.0)
    }

    pub(crate) fn launches(&self) -> u32 {
        self.play().launches
    }

    /// How much was put after graphs, and has not been written.
    pub(crate) fn queued(&self) -> usize {
        self.play().queued.len()
    }

    /// The response flags that each launch found.
    pub(crate) fn at_launches(&self) -> Vec<[u64; SLOTS as usize]> {
        self.play().at_launches.clone()
    }

    /// The launches that each call found which put a write after a graph.
    pub(crate) fn at_writes(&self) -> Vec<[u64; SLOTS as usize]> {
        self.play().at_writes.clone()
    }

    /// The graph is over: the work after it is written.
    pub(crate) fn end(&self) {
        let queued = {
            let mut play = self.play();
            play.running = false;
            std::mem::take(&mut play.queued)
        };
        for (address, value) in queued {
            // SAFETY: words of the bench's memory, which is there as long as its streams.
            let word = unsafe { Words::from_raw(address as usize as *mut u64, 1) }.expect("aligned");
            word.store(0, value, Ordering::Release);
        }
    }

    /// The stream has failed: nothing is written any more.
    pub(crate) fn fail(&self, code: u16) {
        let mut play = self.play();
        (play.failure, play.queued) = (Some(code), Vec::new());
    }

    /// From now on nothing can be put after graphs.
    pub(crate) fn lose_writes(&self) {
        self.play().loses_writes = true;
    }

    /// From now on launches fail.
    pub(crate) fn refuse(&self) {
        self.play().refuses = true;
    }
}

impl GraphStream for Arc<FakeStream> {
    fn raw(&self) -> cudaStream_t {
        core::ptr::null_mut()
    }

    unsafe fn launch(&self, _: cudaGraphExec_t) -> Result<(), CudaError> {
        let mut play = self.play();
        if play.refuses {
            return Err(CudaError::TimedOut(Duration::ZERO));
        }
        let seen = play.seen();
        play.at_launches.extend(seen);
        play.launches += 1;
        play.running = true;
        Ok(())
    }

    unsafe fn write_after(&self, address: DeviceAddress, value: u64) -> Result<(), CudaError> {
        let mut play = self.play();
        if play.loses_writes {
            return Err(CudaError::TimedOut(Duration::ZERO));
        }
        let seen = play.seen();
        play.at_writes.extend(seen);
        play.queued.push((address.0, value));
        Ok(())
    }

    fn state(&self) -> WorkerStream {
        let play = self.play();
        match play.failure {
            Some(code) => WorkerStream::Failed(code),
            None if play.running => WorkerStream::Busy,
            None => WorkerStream::Done,
        }
    }
}

/// An engine, its ring and its streams.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) engine: Arc<Engine>,
    pub(crate) streams: Vec<Arc<FakeStream>>,
    pub(crate) ring: cudaq_ringbuffer_t,
    pub(crate) entries: Vec<FunctionEntry>,
    pub(crate) rx_flags: Words,
    pub(crate) tx_flags: Words,
    pub(crate) rx_data: Words,
    pub(crate) tx_data: Words,
}

/// How a bench's engine is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) skip_marks: bool,
    pub(crate) answer_last: bool,
    /// Another dispatcher, which the test simulates, has the ring too.
    pub(crate) shared: bool,
    /// Responses lie in their requests' slots.
    pub(crate) in_place: bool,
    /// The workers' routing keys; 0 where there are fewer.
    pub(crate) keys: &'static [u64],
}

impl Bench {
    pub(crate) fn new(workers: usize, skip_marks: bool) -> Self {
        Self::of(workers, Manner { skip_marks, ..Manner::default() })
    }

    pub(crate) fn of(workers: usize, manner: Manner) -> Self {
        let Manner { skip_marks, answer_last, shared, in_place, keys } = manner;
        let words = |count: usize| {
            let region = Region::zeroed(count * 8).expect("memory");
            region.words(0, count).expect("all of it")
        };
        let slots = SLOTS as usize;
        let (rx_flags, tx_flags) = (words(slots), words(slots));
        let rx_data = words(slots * WORDS);
        let tx_data = if in_place { rx_data.clone() } else { words(slots * WORDS) };
        let at = |words: &Words| words.address() as usize;
        let ring = cudaq_ringbuffer_t {
            rx_flags: at(&rx_flags) as *mut u64,
            tx_flags: at(&tx_flags) as *mut u64,
            rx_data: at(&rx_data) as *mut u8,
            tx_data: at(&tx_data) as *mut u8,
            rx_stride_sz: SLOT as usize,
            tx_stride_sz: SLOT as usize,
            rx_flags_host: at(&rx_flags) as *mut u64,
            tx_flags_host: at(&tx_flags) as *mut u64,
            rx_data_host: at(&rx_data) as *mut u8,
            tx_data_host: at(&tx_data) as *mut u8,
        };
        let entry = |index: usize| {
            let mut entry = <FunctionEntry as zerocopy::FromZeros>::new_zeroed();
            entry.handler = 0x1000 + index as u64;
            entry.function_id = FUNCTION;
            entry.routing_key = keys.get(index).copied().unwrap_or(0);
            entry.dispatch_mode = DispatchMode::GraphLaunch.raw() as u8;
            entry
        };
        let entries: Vec<FunctionEntry> = (0..workers).map(entry).collect();
        let streams: Vec<Arc<FakeStream>> = (0..workers).map(|_| Arc::default()).collect();
        for stream in &streams {
            stream.play().tx_flags = Some(tx_flags.clone());
        }
        let (contexts, ends) = (words(workers * size_of::<GraphIOContext>() / 8), words(workers * LINE));
        let parts = Parts {
            streams: streams
                .iter()
                .map(|stream| Box::new(Arc::clone(stream)) as Box<dyn GraphStream>)
                .collect(),
            contexts_device: contexts.address(),
            contexts,
            ends_device: ends.address(),
            ends,
            own_mailbox: Some(words(workers)),
            memory: Vec::new(),
        };
        let wanted = Wanted {
            ring: &ring,
            entries: &entries,
            slots: SLOTS,
            slot_bytes: SLOT,
            device: 0,
            skip_marks,
            shared,
            answer_last,
            mailbox: core::ptr::null_mut(),
        };
        // SAFETY: the ring is the bench's own, and so is the rest.
        let engine = unsafe { wanted.assemble(&entries, parts) }.expect("an engine");
        Self { engine: Arc::new(engine), streams, ring, entries, rx_flags, tx_flags, rx_data, tx_data }
    }

    /// A producer's request.
    pub(crate) fn ask(&self, slot: u32, id: u32) {
        self.ask_for(slot, id, None);
    }

    /// One with a routing key.
    pub(crate) fn ask_for(&self, slot: u32, id: u32, key: Option<u64>) {
        let len = if key.is_some() { 8 } else { 0 };
        let header = RequestHeader::new(FUNCTION, len, id, 0).to_words();
        for (offset, word) in header.into_iter().chain(key).enumerate() {
            self.rx_data.store(slot as usize * WORDS + offset, word, Ordering::Relaxed);
        }
        let address = self.rx_data.address() + u64::from(slot * SLOT);
        self.rx_flags.store(slot as usize, address, Ordering::Release);
    }

    /// What a graph does: header, then flag.
    pub(crate) fn answer(&self, slot: u32) {
        let at = slot as usize * WORDS;
        let words: [u64; HEADER_WORDS] = core::array::from_fn(|offset| {
            self.rx_data.load(slot as usize * WORDS + offset, Ordering::Relaxed)
        });
        let header = ResponseHeader::reply(&RequestHeader::from_words(words), 0, 0).to_words();
        for (offset, word) in header.into_iter().enumerate() {
            self.tx_data.store(at + offset, word, Ordering::Relaxed);
        }
        let address = self.tx_data.address() + u64::from(slot * SLOT);
        self.tx_flags.store(slot as usize, address, Ordering::Release);
    }

    /// The consumer's part.
    pub(crate) fn take(&self, slot: u32) {
        self.tx_flags.store(slot as usize, flag::FREE, Ordering::Release);
    }

    pub(crate) fn rx(&self, slot: u32) -> u64 {
        self.rx_flags.load(slot as usize, Ordering::Acquire)
    }

    pub(crate) fn tx(&self, slot: u32) -> u64 {
        self.tx_flags.load(slot as usize, Ordering::Acquire)
    }

    /// The response of a slot.
    pub(crate) fn response(&self, slot: u32) -> ResponseHeader {
        let word = |offset| self.tx_data.load(slot as usize * WORDS + offset, Ordering::Relaxed);
        ResponseHeader::from_words(core::array::from_fn(word))
    }
}
