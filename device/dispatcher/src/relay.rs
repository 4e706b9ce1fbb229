//! Three kernels in place of one: requests go from a queue pair into a ring of flags, any dispatcher serves the ring, and
//! its answers go from the ring to a queue pair.
//!
//! ```text
//! NIC ─ payload into the ring's slot, completion ─► Receiver ─ request flag ─► dispatcher ─ response flag ─► Sender ─► NIC
//! ```
//! The NIC's window *is* the ring's request slots, so a receiver moves no bytes: it checks what came and sets
//! the flag. A sender copies a response to a private send slot and frees the ring's slot before it rings, so
//! that a peer that has its answer finds the slot vacant: so an answer is sent only once the dispatcher has
//! cleared the request's flag, too.
//!
//! # Depths
//! A slot has one request under way. With as many receive requests as slots no message finds no credit, and with as many
//! entries in the send queue no response waits: both constructors demand it.
//!
//! # Records
//! The two are different agents, and a doorbell record is one word with one writer. So they belong to two
//! queue pairs (a message on an unreliable connection does not name its queue pair, so the peer cannot tell),
//! or to one whose NIC keeps the send counter itself ([`RecordMode::NotWritten`]).

use crate::queue_pair::single::Extent;
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::counters::{Counters, Event};
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::{Doorbell, DoorbellRecord};
use ringcall_mlx5::endpoint::{Arrived, Endpoint, Poll};
use ringcall_mlx5::layout::Segment;
use ringcall_mlx5::layout::wqe::{Completion, Operation, Payload};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_mlx5::wait::{Bound, Ended, Shutdown, wait};
use ringcall_protocol::ring::RingMemory;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{SharedRing, SlotIndex};
use ringcall_wire::flag;
use ringcall_wire::header::HEADER_BYTES;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was nothing.
    Idle,
    /// A request is in the ring.
    Filled,
    /// A completion that brought none: counted.
    Dropped,
    /// The queue pair is in the error state.
    Dead,
}

/// From a queue pair into a ring. One agent works it, and no other fills the ring.
#[derive(Debug)]
pub struct Receiver<D> {
    endpoint: Endpoint<D>,
    ring: SharedRing,
    flags: Words,
    data: Bytes,
    extent: Extent,
}

impl<D: Doorbell> Receiver<D> {
    /// A receiver whose endpoint's request slots are the ring's. The endpoint's send side is not used.
    ///
    /// # Errors
    /// Other slots than the ring's, fewer receive requests than slots, or receive requests with buffers of their own: the NIC
    /// would write a send into the slot of a request that is being served.
    pub fn new(endpoint: Endpoint<D>, ring: SharedRing, extent: Extent) -> Result<Self, QueueError> {
        let (config, geometry) = (*endpoint.config(), *ring.geometry());
        if config.buffers != Buffers::Credits {
            return Err(QueueError::Buffers);
        }
        if config.slots != geometry.slots() {
            return Err(QueueError::Slots(config.slots));
        }
        if config.rx_stride != geometry.rx_stride() {
            return Err(QueueError::Stride(config.rx_stride));
        }
        let depth = endpoint.receive_queue().depth();
        if depth < config.slots {
            return Err(QueueError::Depth { depth, entries: config.slots });
        }
        let windows = ring.windows();
        Ok(Self { endpoint, ring, flags: windows.rx_flags, data: windows.rx_data, extent })
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.endpoint.counters()
    }

    /// Looks for one completion.
    #[inline]
    pub fn step(&mut self) -> Step {
        match self.endpoint.poll() {
            Poll::Empty => Step::Idle,
            Poll::Discarded(_) => Step::Dropped,
            Poll::Dead(_) => Step::Dead,
            Poll::Arrived(arrived) => self.fill(arrived),
        }
    }

    #[inline]
    fn fill(&mut self, arrived: Arrived) -> Step {
        let slot = self.ring.geometry().slot(arrived.slot());
        // A peer that writes into a slot whose request is being served has spoilt it; a second flag would make it two.
        let Some(slot) = slot.filter(|&slot| Vacant::probe(&self.ring, slot).is_some()) else {
            self.endpoint.release(arrived);
            return Step::Dropped;
        };
        if self.extent == Extent::Received {
            self.mend(slot, arrived.bytes());
        }
        let address = self.ring.geometry().request_address(slot);
        // Pairs with the dispatcher's `RingMemory::observe`. The payload was seen after the completion's fence.
        self.flags.store(slot.as_usize(), address, Ordering::Release);
        self.endpoint.hand_over(arrived);
        Step::Filled
    }

    /// A request that is shorter than it says would be served with bytes of an earlier one. Made to say more than a slot
    /// holds it is answered `ARG_TOO_LONG`; without a whole header, `BAD_MAGIC`.
    #[inline]
    fn mend(&self, slot: SlotIndex, bytes: u32) {
        let at = slot.as_usize() * self.ring.geometry().rx_stride() as usize;
        let room = bytes.checked_sub(HEADER_BYTES as u32);
        let Some([head, lengths]) = self.data.read_words::<2>(at) else { return };
        match room {
            None => {
                self.data.write_words(at, [head & !MAGIC_MASK]);
            }
            Some(room) if lengths as u32 > room => {
                self.data.write_words(at + 8, [lengths | ARG_LEN_MASK]);
            }
            Some(_) => {}
        }
    }

    /// Fills the ring until it is stopped, or the queue pair dead, or `bound` passes with nothing; how many requests.
    pub fn run(&mut self, bound: Bound, mut relax: impl FnMut()) -> (u64, Ended) {
        let shutdown = self.endpoint.shutdown().clone();
        let mut filled = 0;
        loop {
            let found = wait(&shutdown, bound, &mut relax, || match self.step() {
                Step::Idle => None,
                step => Some(step),
            });
            match found {
                Ok(Step::Filled) => filled += 1,
                Ok(Step::Idle | Step::Dropped) => {}
                Ok(Step::Dead) => return (filled, Ended::Dead),
                Err(ended) => return (filled, ended),
            }
        }
    }
}

/// The magic in a header's first word.
const MAGIC_MASK: u64 = u32::MAX as u64;
/// The payload's length in a header's second word.
const ARG_LEN_MASK: u64 = u32::MAX as u64;

/// What a sender is.
#[derive(Debug, Clone, Copy)]
pub struct SenderConfig {
    /// The queue pair's number, 24 bits.
    pub qpn: u32,
    /// Bytes of a send slot; there are as many as the send queue has entries.
    pub stride: u32,
    /// Key of the region that the send slots lie in.
    pub lkey: u32,
    /// Address of send slot 0 in the region's terms.
    pub base: u64,
    /// Whether the send counter is written to the doorbell record.
    pub record: RecordMode,
}

/// The memory of a sender.
#[derive(Debug, Clone)]
pub struct SenderWindows {
    /// The completion queue.
    pub completions: Words,
    /// Its doorbell record, if the NIC wants to know what was read.
    pub completions_record: Option<Words>,
    /// The send queue.
    pub send: Words,
    /// The doorbell record, whose receive half is always 0: no receiver's.
    pub record: Words,
    /// Send slots.
    pub data: Bytes,
    /// Live counters, one word an [`Event`]: no receiver's.
    pub counters: Words,
    /// The stop word.
    pub shutdown: Words,
}

/// From a ring to a queue pair. One agent works it, and no other takes the ring's answers.
#[derive(Debug)]
pub struct Sender<D> {
    config: SenderConfig,
    ring: SharedRing,
    send: SendQueue,
    record: DoorbellRecord,
    doorbell: D,
    data: Bytes,
    counters: Counters,
    shutdown: Shutdown,
    /// The slot that is looked at first.
    next: u32,
}

impl<D: Doorbell> Sender<D> {
    /// A sender over memory whose completion queue was [prepared](CompletionQueue::prepare).
    ///
    /// # Errors
    /// A shape that cannot be, fewer entries than the ring has slots, or memory too short.
    pub fn new(
        config: SenderConfig,
        windows: SenderWindows,
        ring: SharedRing,
        doorbell: D,
    ) -> Result<Self, QueueError> {
        let geometry = *ring.geometry();
        let SenderConfig { stride, .. } = config;
        if stride < geometry.tx_stride() || !stride.is_multiple_of(8) || stride >= 1 << 31 {
            return Err(QueueError::Stride(stride));
        }
        let completions = CompletionQueue::new(windows.completions, windows.completions_record)?;
        let send = SendQueue::new(windows.send, completions, config.qpn, config.record)?;
        if send.entries() < geometry.slots() {
            return Err(QueueError::Slots(geometry.slots()));
        }
        let needed = send.entries() as usize * stride as usize;
        if windows.data.len() < needed {
            return Err(QueueError::TooSmall { needed: needed / 8, have: windows.data.len() / 8 });
        }
        Ok(Self {
            config,
            ring,
            send,
            record: DoorbellRecord::new(windows.record)?,
            doorbell,
            data: windows.data,
            counters: Counters::new(windows.counters),
            shutdown: Shutdown::new(windows.shutdown),
            next: 0,
        })
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sends every answer that is there, as far as there is room; how many. `scratch` is private memory as long as a send
    /// slot.
    #[inline]
    pub fn step(&mut self, scratch: &mut [u8]) -> u32 {
        let slots = self.ring.geometry().slots();
        let mut sent = 0;
        for _ in 0..slots {
            let at = self.next;
            self.next = if at + 1 < slots { at + 1 } else { 0 };
            let Some(slot) = self.ring.geometry().slot(at) else { continue };
            let Some(response) = Response::probe(&self.ring, slot) else { continue };
            // An answer is there before its request's flag is cleared. Sent now, it could bring the next request while the
            // slot does not look vacant yet: the receiver would drop it.
            if self.ring.rx(slot) != flag::FREE {
                continue;
            }
            if !self.send.has_room() {
                self.reclaim();
                if !self.send.has_room() {
                    self.counters.count(Event::TxFull);
                    // Taken up again where it was left.
                    self.next = at;
                    return sent;
                }
            }
            sent += u32::from(self.transmit(response, scratch));
        }
        sent
    }

    #[inline]
    fn transmit(&mut self, response: Response, scratch: &mut [u8]) -> bool {
        let header = *response.header();
        let body = scratch.get_mut(HEADER_BYTES..).unwrap_or_default();
        let len = HEADER_BYTES + response.read(&self.ring, body);
        let offset = self.send.next_entry() as usize * self.config.stride as usize;
        response.release(&self.ring);
        let frame = scratch.get_mut(..len).unwrap_or_default();
        for (to, from) in frame.iter_mut().zip(header.to_bytes()) {
            *to = from;
        }
        // A response flag that is no answer is not sent: an error mark without one.
        if frame.is_empty() || !header.has_magic() {
            self.counters.count(Event::RxUnanswered);
            return false;
        }
        let inline = len <= Operation::Send.inline_capacity();
        if !inline && !self.data.write(offset, frame) {
            self.counters.count(Event::TxTooLong);
            return false;
        }
        let address = self.config.base.wrapping_add(offset as u64);
        let payload = if inline {
            Payload::Inline(frame)
        } else {
            // No longer than a stride, which is a u32.
            Payload::Memory(Segment { bytes: len as u32, lkey: self.config.lkey, address })
        };
        let Ok(completion) = self.send.post(Operation::Send, payload, &mut self.record, &mut self.doorbell)
        else {
            self.counters.count(Event::RxUnanswered);
            return false;
        };
        self.counters.count(Event::TxPosted);
        self.counters.add(Event::TxInline, inline.into());
        self.counters.add(Event::TxSignalled, (completion == Completion::Always).into());
        true
    }

    #[inline]
    fn reclaim(&mut self) {
        let found = self.send.reclaim();
        for (event, n) in [
            (Event::TxCompletions, found.completions),
            (Event::TxErrors, found.failed),
            (Event::TxFlushed, found.flushed),
            (Event::TxStray, found.stray),
        ] {
            self.counters.add(event, n.into());
        }
    }

    /// Sends answers until it is stopped, or the queue pair dead, or `bound` passes without one; how many.
    pub fn run(&mut self, scratch: &mut [u8], bound: Bound, mut relax: impl FnMut()) -> (u64, Ended) {
        let shutdown = self.shutdown.clone();
        let mut sent = 0;
        loop {
            let found = wait(&shutdown, bound, &mut relax, || {
                if self.send.dead().is_some() {
                    return Some(None);
                }
                Some(self.step(scratch)).filter(|&n| n > 0).map(Some)
            });
            match found {
                Ok(Some(n)) => sent += u64::from(n),
                Ok(None) => return (sent, Ended::Dead),
                Err(ended) => return (sent, ended),
            }
        }
    }
}
