//! Graphs: mailboxes, and threads that play what was launched.

use crate::device::Door;
use crate::harness::{Memory, RingParts};
use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows, mailbox_bytes};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_protocol::RingMemory;
use ringcall_wire::Counter;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, io, saved};
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What looks at the mailbox before anybody else when a graph is launched; an error refuses the launch.
pub(crate) type OnLaunch = Box<dyn Fn(&Words) -> Result<(), i32> + Send + Sync>;

/// Executables of several graphs, one mailbox each.
pub(crate) struct Park {
    ring: RingParts,
    boxes: Memory,
    stride: u32,
    execs: u32,
    graphs: u32,
    /// What every child passes before it reads anything.
    pub(crate) door: Door,
    on_launch: OnLaunch,
    finished: DeviceU64,
    counters: [DeviceU64; Counter::COUNT],
    /// The words that outlive an execution: children count there. On a device by atomic additions of their own.
    saved: Mutex<Option<Words>>,
    /// Children under way at one time, by executable: never more than one.
    running: Vec<DeviceU64>,
}

impl Park {
    /// `graphs` graphs of `execs` executables. Their children answer every word of the payload with its number plus the
    /// graph's.
    pub(crate) fn new(ring: &RingParts, graphs: u32, execs: u32, on_launch: OnLaunch) -> Arc<Self> {
        let stride = mailbox_bytes(ring.ring.geometry().request_capacity());
        let boxes = Memory::zeroed((graphs * execs * stride) as usize);
        let park = Self {
            ring: ring.clone(),
            stride,
            execs,
            graphs,
            door: Door::default(),
            on_launch,
            finished: DeviceU64::new(0),
            counters: std::array::from_fn(|_| DeviceU64::new(0)),
            saved: Mutex::new(None),
            running: (0..graphs * execs).map(|_| DeviceU64::new(0)).collect(),
            boxes,
        };
        for number in 0..graphs * execs {
            let address = park.boxes.base() + u64::from(number * stride);
            let mailbox = park.mailbox(address, io::EXEC + 1).expect("inside");
            // The handle says which executable it is.
            mailbox.store(io::EXEC, 0xE000 + u64::from(number), Relaxed);
        }
        Arc::new(park)
    }

    /// Children count in these words from now on.
    pub(crate) fn count_in(&self, saved: &Words) {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved.clone());
    }

    /// The table's entry for graph `graph`.
    pub(crate) fn entry(&self, id: u32, graph: u32, routing_key: u64) -> DeviceEntry {
        assert!(graph < self.graphs);
        DeviceEntry {
            execs: self.execs,
            io_stride: self.stride,
            routing_key,
            ..crate::harness::entry(
                id,
                HandlerKind::Graph,
                self.boxes.base() + u64::from(graph * self.execs * self.stride),
            )
        }
    }

    pub(crate) fn mailbox(&self, address: u64, words: usize) -> Option<Words> {
        self.boxes.words_at(address, words)
    }

    pub(crate) fn finished(&self) -> u64 {
        self.finished.load(Acquire)
    }

    /// A count of the children's own.
    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.counters[counter.index()].load(Relaxed)
    }

    pub(crate) fn launch(park: &Arc<Self>, exec: u64) -> Result<(), i32> {
        let number = exec.checked_sub(0xE000).filter(|&number| (number as usize) < park.running.len());
        let number = number.expect("a handle that the host wrote") as u32;
        let address = park.boxes.base() + u64::from(number * park.stride);
        let mailbox = park.mailbox(address, park.stride as usize / 8).expect("inside");
        assert_eq!(mailbox.load(io::STATE, Relaxed), io::LAUNCHED, "launched without a claim");
        (park.on_launch)(&mailbox)?;
        let before = park.running[number as usize].fetch_add(1, AcqRel);
        assert_eq!(before, 0, "executable {number} was launched while it ran");
        let park = Arc::clone(park);
        thread::spawn(move || park.child(&mailbox, number));
        Ok(())
    }

    /// What a graph's kernels do.
    fn child(&self, mailbox: &Words, number: u32) {
        self.door.pass();
        let child = Child::new(mailbox);
        if let Some((slot, flag)) = child.response_addresses() {
            let stride = self.ring.ring.geometry().tx_stride() as usize;
            let slot = self.ring.memory.words_at(slot, stride / 8).expect("in the ring");
            let flag = self.ring.memory.words_at(flag, 1).expect("in the ring");
            let response = ResponseWindows { slot: &slot, flag: &flag };
            let words = child.arg_len().div_ceil(8) as usize;
            for word in 0..words {
                let value = child.payload_word(word).wrapping_add(u64::from(number / self.execs));
                child.set_result_word(&response, word, value);
            }
            self.mirrored(|| child.answer(&response, Some(&self.counters), Status::OK, child.arg_len()));
        }
        self.running[number as usize].fetch_add(u64::MAX, Release);
        self.mirrored(|| child.finish(&self.finished));
    }

    /// Does it, and copies the children's counts to where the dispatcher reads them.
    fn mirrored(&self, work: impl FnOnce()) {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        work();
        if let Some(saved) = &*saved {
            for (index, count) in self.counters.iter().enumerate() {
                saved.store(saved::CHILDREN + index, count.load(Relaxed), Relaxed);
            }
            saved.store(saved::FINISHED, self.finished.load(Relaxed), Relaxed);
        }
    }
}
