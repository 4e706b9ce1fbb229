//! A queue pair that serves requests: the transport half of a device's loop.
//!
//! ```text
//! poll ─► Arrived ─► (handler writes into a TxSlot) ─► respond: request, BlueFlame, record, doorbell ─► receive again
//!   │                                                   │
//!   └► bad slot, too long, error: counted, received again └► room: completions are read when there is none left
//! ```
//! A response goes into a separate send slot, which is free: the NIC is known to be done with the request
//! that had it before. The receive credit is given back after the response is rung, which keeps its cost out
//! of the response's way; it is given back on every path, so it never shrinks.

use crate::QueueError;
use crate::counters::{Counters, Event};
use crate::cq::{Arrival, CompletionQueue, PolledCompletion, Side};
use crate::doorbell::{Doorbell, DoorbellRecord};
use crate::layout::Segment;
use crate::layout::cqe::Syndrome;
use crate::layout::wqe::{Completion, Operation, Payload, Remote};
use crate::rq::{Buffers, ReceiveQueue};
pub use crate::sequence::SLOT_BITS;
use crate::sequence::{Found, Sequence};
use crate::sq::{PostError, RecordMode, SendQueue};
use crate::wait::{Bound, Shutdown, WaitEnd, wait};
use ringcall_gpu::shared::{Bytes, Words};

/// The most slots that an immediate can name.
pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// The bits of an immediate that name the slot.
pub const SLOT_MASK: u32 = MAX_SLOTS - 1;

/// How a response travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePath {
    /// As a send: the peer has receive requests.
    Send,
    /// As a write into the slot of the request's number, with that number as the immediate.
    WriteImm {
        /// Where the peer's slot 0 is.
        base: Remote,
        /// Bytes from one slot of the peer's to the next: no fewer than a response slot of this side has, for an
        /// [`Endpoint`].
        stride: u32,
    },
}

/// What an endpoint is.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The queue pair's number, 24 bits.
    pub qpn: u32,
    /// Request slots, 1 to [`MAX_SLOTS`].
    pub slots: u32,
    /// Bytes of a request slot.
    pub rx_stride: u32,
    /// Bytes of a response slot; there are as many as the send queue has entries.
    pub tx_stride: u32,
    /// Key of the region that the response slots lie in.
    pub tx_lkey: u32,
    /// Address of response slot 0 in the region's terms.
    pub tx_base: u64,
    /// Receive requests posted at any time.
    pub depth: u32,
    /// What they take. With [`Buffers::Slots`] sends are accepted as well as writes with immediate.
    pub buffers: Buffers,
    /// Whether the immediate's upper 20 bits number the messages, so that missing ones are counted.
    pub sequence: bool,
    /// How responses travel.
    pub reply: ResponsePath,
    /// Whether the send counter is written to the doorbell record.
    pub record: RecordMode,
}

/// The memory of an endpoint. All of it is shared: with the NIC, or with the host.
#[derive(Debug, Clone)]
pub struct Windows {
    /// The receive side's completion queue.
    pub rx_completions: Words,
    /// Its doorbell record, if the NIC wants to know what was read.
    pub rx_completions_record: Option<Words>,
    /// The receive queue.
    pub receive: Words,
    /// The send side's completion queue.
    pub tx_completions: Words,
    /// Its doorbell record.
    pub tx_completions_record: Option<Words>,
    /// The send queue.
    pub send: Words,
    /// The queue pair's doorbell record.
    pub record: Words,
    /// Request slots.
    pub rx_data: Bytes,
    /// Response slots.
    pub tx_data: Bytes,
    /// Live counters, one word an [`Event`].
    pub counters: Words,
    /// The stop word.
    pub shutdown: Words,
}

/// A request that has arrived. Owes a response, or to be given back: until then its receive request is not posted again.
#[derive(Debug)]
#[must_use = "an arrived request is responded to or released, or the receive credit shrinks"]
pub struct Arrived {
    slot: u32,
    bytes: u32,
}

impl Arrived {
    /// Its slot, below the number of slots.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Bytes of the message that completed it, no more than a slot has.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// Room for a response: a send slot that the NIC no longer reads, and the entry of the send queue that goes with it.
#[derive(Debug)]
#[must_use = "room for a response is there to be used"]
pub struct TxSlot {
    index: u32,
}

impl TxSlot {
    /// Its index, which is that of its entry in the send queue.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }
}

/// A response's bytes.
#[derive(Debug, Clone, Copy)]
pub enum Frame<'a> {
    /// The first so many bytes of the send slot, where the handler wrote them.
    InSlot(u32),
    /// Private bytes: inline if they fit, else copied to the send slot.
    Bytes(&'a [u8]),
}

/// Why a message was dropped. Its receive request is posted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// The immediate names no slot.
    BadSlot(u32),
    /// Longer than a slot.
    TooLong(u32),
    /// A kind of message that is not accepted.
    Unaccepted(Arrival),
    /// The receive request failed.
    Failed(Syndrome),
    /// A completion of no meaning, which used up no receive request.
    Stray,
}

/// What [`Endpoint::poll`] found.
#[derive(Debug)]
pub enum Poll {
    /// Nothing.
    Empty,
    /// A request.
    Arrived(Arrived),
    /// Something that was counted and dropped.
    Discarded(Discard),
    /// The queue pair is in the error state.
    Dead(Syndrome),
}

/// Why a response was not sent; the request was given back to the NIC all the same, unless it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RespondError {
    /// Longer than a slot, or of no bytes.
    Length(u64),
    /// The room was taken by another response since it was reserved.
    Stale,
    /// The send queue refused it.
    Post(PostError),
}

/// A queue pair that serves requests. One agent works it.
#[derive(Debug)]
pub struct Endpoint<D> {
    config: Config,
    completions: CompletionQueue,
    receive: ReceiveQueue,
    send: SendQueue,
    record: DoorbellRecord,
    doorbell: D,
    rx_data: Bytes,
    tx_data: Bytes,
    counters: Counters,
    shutdown: Shutdown,
    sequence: Sequence,
    dead: Option<Syndrome>,
}

impl<D: Doorbell> Endpoint<D> {
    /// An endpoint over memory that [`CompletionQueue::prepare`] has been over, with its receive requests posted.
    ///
    /// # Errors
    /// A shape that cannot be, or memory too short for it.
    pub fn new(config: Config, windows: Windows, doorbell: D) -> Result<Self, QueueError> {
        for stride in [config.rx_stride, config.tx_stride] {
            if stride == 0 || !stride.is_multiple_of(8) || stride >= 1 << 31 {
                return Err(QueueError::Stride(stride));
            }
        }
        if let ResponsePath::WriteImm { stride: have, .. } = config.reply
            && have < config.tx_stride
        {
            return Err(QueueError::Remote { have, needed: config.tx_stride });
        }
        if config.slots == 0 || config.slots > MAX_SLOTS {
            return Err(QueueError::Slots(config.slots));
        }
        let mut record = DoorbellRecord::new(windows.record)?;
        let receive = ReceiveQueue::new(&windows.receive, config.depth, config.buffers, &mut record)?;
        if matches!(config.buffers, Buffers::Slots { .. }) && receive.entries() > config.slots {
            return Err(QueueError::Slots(config.slots));
        }
        let completions = CompletionQueue::new(windows.rx_completions, windows.rx_completions_record)?;
        if completions.entries() < config.depth {
            let completions = completions.entries();
            return Err(QueueError::Completions { requests: config.depth, completions });
        }
        let tx_completions = CompletionQueue::new(windows.tx_completions, windows.tx_completions_record)?;
        let send = SendQueue::new(windows.send, tx_completions, config.qpn, config.record)?;
        for (count, stride, have) in [
            (config.slots, config.rx_stride, windows.rx_data.len()),
            (send.entries(), config.tx_stride, windows.tx_data.len()),
        ] {
            let needed = count as usize * stride as usize;
            if have < needed {
                return Err(QueueError::TooSmall { needed: needed / 8, have: have / 8 });
            }
        }
        Ok(Self {
            config,
            completions,
            receive,
            send,
            record,
            doorbell,
            rx_data: windows.rx_data,
            tx_data: windows.tx_data,
            counters: Counters::new(windows.counters),
            shutdown: Shutdown::new(windows.shutdown),
            sequence: Sequence::default(),
            dead: None,
        })
    }

    /// What the endpoint is.
    #[must_use]
    #[inline(always)]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The send queue.
    #[must_use]
    pub fn send_queue(&self) -> &SendQueue {
        &self.send
    }

    /// The receive queue.
    #[must_use]
    pub fn receive_queue(&self) -> &ReceiveQueue {
        &self.receive
    }

    /// The stop word.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Whether the host asks to stop.
    #[must_use]
    #[inline(always)]
    pub fn is_stopping(&self) -> bool {
        self.shutdown.is_set()
    }

    /// Why the queue pair is in the error state, if it is.
    #[must_use]
    pub fn dead(&self) -> Option<Syndrome> {
        self.dead.or(self.send.dead())
    }

    /// Looks for one completion of the receive side.
    #[inline(always)]
    pub fn poll(&mut self) -> Poll {
        if let Some(syndrome) = self.dead() {
            return Poll::Dead(syndrome);
        }
        let Some(polled) = self.completions.poll() else { return Poll::Empty };
        self.counters.count(Event::RxCompletions);
        match polled {
            PolledCompletion::Received { arrival, immediate, bytes, wqe_counter } => {
                self.received(arrival, immediate, bytes, wqe_counter)
            }
            PolledCompletion::Failed { side: Side::Receive, syndrome: Syndrome::FLUSHED, .. } => {
                self.counters.count(Event::RxFlushed);
                self.dead = Some(Syndrome::FLUSHED);
                Poll::Dead(Syndrome::FLUSHED)
            }
            PolledCompletion::Failed { side: Side::Receive, syndrome, .. } => {
                self.discard(Event::RxErrors, Discard::Failed(syndrome))
            }
            PolledCompletion::Failed { .. }
            | PolledCompletion::SendDone { .. }
            | PolledCompletion::Stray { .. } => {
                self.counters.count(Event::RxStray);
                Poll::Discarded(Discard::Stray)
            }
        }
    }

    #[inline(always)]
    fn received(&mut self, arrival: Arrival, immediate: u32, bytes: u32, wqe_counter: u16) -> Poll {
        let own_slot = matches!(self.config.buffers, Buffers::Slots { .. });
        let slot = match arrival {
            Arrival::WriteImm => immediate & SLOT_MASK,
            // A send went to the slot of its receive request, whatever its immediate says.
            Arrival::Send | Arrival::SendImm if own_slot => {
                u32::from(wqe_counter) & (self.receive.entries() - 1)
            }
            _ => return self.discard(Event::RxUnaccepted, Discard::Unaccepted(arrival)),
        };
        if slot >= self.config.slots {
            return self.discard(Event::RxBadSlot, Discard::BadSlot(slot));
        }
        if bytes > self.config.rx_stride {
            return self.discard(Event::RxTooLong, Discard::TooLong(bytes));
        }
        if self.config.sequence && arrival != Arrival::Send {
            self.follow(immediate >> SLOT_BITS);
        }
        self.counters.count(Event::RxRequests);
        Poll::Arrived(Arrived { slot, bytes })
    }

    /// Counts the messages that are missing before message number `sequence`.
    #[inline(always)]
    fn follow(&mut self, sequence: u32) {
        match self.sequence.follow(sequence) {
            Found::Next { lost } => self.counters.add(Event::RxLost, lost.into()),
            Found::Old => self.counters.count(Event::RxReordered),
        }
    }

    /// A message that used up its receive request and goes no further.
    #[inline(always)]
    fn discard(&mut self, event: Event, why: Discard) -> Poll {
        self.counters.count(event);
        self.repost();
        Poll::Discarded(why)
    }

    #[inline(always)]
    fn repost(&mut self) {
        self.receive.repost(&mut self.record);
        self.counters.count(Event::RxReposted);
    }

    /// Waits for a request. Messages that are dropped meanwhile are counted.
    ///
    /// # Errors
    /// Stopped, bound reached, or dead.
    #[inline(always)]
    pub fn wait_arrival(&mut self, bound: Bound, relax: impl FnMut()) -> Result<Arrived, WaitEnd> {
        let shutdown = self.shutdown.clone();
        wait(&shutdown, bound, relax, || match self.poll() {
            Poll::Empty | Poll::Discarded(_) => None,
            Poll::Arrived(arrived) => Some(Ok(arrived)),
            Poll::Dead(_) => Some(Err(WaitEnd::Dead)),
        })?
    }

    /// Copies `out.len()` bytes of a request from `offset` (a multiple of 8) on; false if they are not all in its slot.
    #[inline]
    #[must_use]
    pub fn read(&self, arrived: &Arrived, offset: u32, out: &mut [u8]) -> bool {
        let stride = self.config.rx_stride as usize;
        let offset = offset as usize;
        if offset.checked_add(out.len()).is_none_or(|end| end > stride) {
            return false;
        }
        self.rx_data.read(arrived.slot as usize * stride + offset, out)
    }

    /// Room for a response, if there is some and the queue pair lives; completions are read only if there is none.
    #[inline(always)]
    pub fn try_reserve(&mut self) -> Option<TxSlot> {
        if !self.send.has_room() {
            self.reclaim();
        }
        // Flushed requests free their entries, too, of a queue that takes nothing more.
        if !self.send.has_room() || self.dead().is_some() {
            return None;
        }
        Some(TxSlot { index: self.send.next_entry() })
    }

    /// Waits for room for a response.
    ///
    /// # Errors
    /// Stopped, bound reached, or dead.
    #[inline(always)]
    pub fn reserve(&mut self, bound: Bound, relax: impl FnMut()) -> Result<TxSlot, WaitEnd> {
        if let Some(slot) = self.try_reserve() {
            return Ok(slot);
        }
        self.counters.count(Event::TxFull);
        let shutdown = self.shutdown.clone();
        wait(&shutdown, bound, relax, || match self.try_reserve() {
            Some(slot) => Some(Ok(slot)),
            None => self.dead().map(|_| Err(WaitEnd::Dead)),
        })?
    }

    /// Writes into a send slot from `offset` (a multiple of 8) on; false, and nothing written, if it does not fit, or if the
    /// slot was used since it was reserved.
    #[inline]
    pub fn write(&self, slot: &TxSlot, offset: u32, bytes: &[u8]) -> bool {
        let stride = self.config.tx_stride as usize;
        let offset = offset as usize;
        if !self.is_ours(slot.index) || offset.checked_add(bytes.len()).is_none_or(|end| end > stride) {
            return false;
        }
        self.tx_data.write(slot.index as usize * stride + offset, bytes)
    }

    /// Sends the response to a request, exactly as long as it is, and receives again.
    ///
    /// # Errors
    /// A response that cannot be sent; the request is then unanswered, counted as such, and its receive request posted.
    #[inline(always)]
    pub fn respond(&mut self, arrived: Arrived, slot: TxSlot, frame: Frame<'_>) -> Result<(), RespondError> {
        let (Arrived { slot: from, .. }, TxSlot { index }) = (arrived, slot);
        let sent = self.transmit(from, index, frame);
        if sent.is_err() {
            self.counters.count(Event::RxUnanswered);
        }
        self.repost_unless_dead();
        sent
    }

    /// Whether the next request still takes this send slot.
    #[inline(always)]
    fn is_ours(&self, index: u32) -> bool {
        self.send.has_room() && index == self.send.next_entry()
    }

    #[inline(always)]
    fn transmit(&mut self, from: u32, index: u32, frame: Frame<'_>) -> Result<(), RespondError> {
        if !self.is_ours(index) {
            return Err(RespondError::Stale);
        }
        let len = match frame {
            Frame::InSlot(len) => u64::from(len),
            Frame::Bytes(bytes) => bytes.len() as u64,
        };
        if len == 0 || len > u64::from(self.config.tx_stride) {
            self.counters.count(Event::TxTooLong);
            return Err(RespondError::Length(len));
        }
        // No more than a stride, which is a u32.
        let len = len as u32;
        let operation = match self.config.reply {
            ResponsePath::Send => Operation::Send,
            ResponsePath::WriteImm { base, stride } => {
                let offset = u64::from(from) * u64::from(stride);
                let address = base.address.wrapping_add(offset);
                Operation::WriteImm(Remote { address, ..base }, from)
            }
        };
        let offset = u64::from(index) * u64::from(self.config.tx_stride);
        let mut buffer = [0; crate::layout::wqe::INLINE_SEND];
        let fits = len as usize <= operation.inline_capacity();
        let payload = match frame {
            Frame::Bytes(bytes) if fits => Payload::Inline(bytes),
            // Back from where the handler wrote it: the same agent, so nothing has to be ordered.
            Frame::InSlot(_) if fits => {
                let buffer = buffer.get_mut(..len as usize).unwrap_or_default();
                if !self.tx_data.read(offset as usize, buffer) {
                    return Err(RespondError::Length(len.into()));
                }
                Payload::Inline(buffer)
            }
            Frame::Bytes(bytes) if !self.tx_data.write(offset as usize, bytes) => {
                return Err(RespondError::Length(len.into()));
            }
            _ => {
                let (lkey, address) = (self.config.tx_lkey, self.config.tx_base.wrapping_add(offset));
                Payload::Memory(Segment { bytes: len, lkey, address })
            }
        };
        let completion = self
            .send
            .post(operation, payload, &mut self.record, &mut self.doorbell)
            .map_err(RespondError::Post)?;
        self.counters.count(Event::TxPosted);
        if fits {
            self.counters.count(Event::TxInline);
        }
        if completion == Completion::Always {
            self.counters.count(Event::TxSignalled);
        }
        Ok(())
    }

    /// Gives a request back without a response.
    #[inline(always)]
    pub fn release(&mut self, arrived: Arrived) {
        let _released = arrived;
        self.counters.count(Event::RxUnanswered);
        self.repost_unless_dead();
    }

    /// Releases a request that another agent answers.
    #[inline(always)]
    pub fn hand_over(&mut self, arrived: Arrived) {
        let _released = arrived;
        self.repost_unless_dead();
    }

    #[inline(always)]
    fn repost_unless_dead(&mut self) {
        if self.dead().is_none() {
            self.repost();
        }
    }

    /// Reads the send side's completions, and counts them.
    #[inline(always)]
    pub fn reclaim(&mut self) {
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

    /// Waits until the NIC is done with every response: before the memory is given away.
    ///
    /// The last responses may not be signalled; an empty request that is asks for them. The stop word is
    /// looked at too, so a caller that drains because it was stopped gives `shutdown` a separate window.
    ///
    /// # Errors
    /// Stopped, bound reached, or dead.
    pub fn drain(&mut self, shutdown: &Shutdown, bound: Bound, relax: impl FnMut()) -> Result<(), WaitEnd> {
        let mut marked = false;
        wait(shutdown, bound, relax, || {
            self.reclaim();
            if self.dead().is_some() {
                return Some(Err(WaitEnd::Dead));
            }
            if self.send.under_way() == 0 {
                return Some(Ok(()));
            }
            if !marked && self.send.has_room() {
                marked = match self.send.post_marker(&mut self.record, &mut self.doorbell) {
                    Ok(posted) => {
                        self.counters.add(Event::TxPosted, posted.into());
                        self.counters.add(Event::TxSignalled, posted.into());
                        true
                    }
                    Err(_) => false,
                };
            }
            None
        })?
    }
}
