//! The receiving end of a queue pair: every check between a packet and the memory that it writes to.
//!
//! A [`Responder`] serves one queue pair of the unreliable connected service and one window of memory, cut into slots.
//! It accepts the packets of a sensor bridge (WRITE ONLY, the last of a frame with an immediate), an RDMA adapter's
//! messages longer than its MTU (WRITE FIRST, MIDDLE, LAST), and SENDs, of several packets [if
//! enabled](Responder::gathering).

use crate::frame::{Extent, Fit, Frame};
use crate::icrc::{Envelope, IcrcCheck};
use crate::immediate::{Immediate, MAX_PAGES};
use crate::opcode::{Part, Service, Verb};
use crate::packet::{Packet, Reth};
use crate::psn::{Psn, PsnOrder, PsnTracker};
use crate::reason::{Reason, Refusals};
use serde::Serialize;

/// Memory that a peer may write to.
pub trait PeerMemory {
    /// The memory's size in bytes.
    fn bytes(&self) -> u64;

    /// Copies `payload` to `offset`; the range is within [`Self::bytes`] and in one slot.
    ///
    /// # Errors
    /// [`Busy`] if the slot must not be overwritten now. The packet is then counted and dropped.
    fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), Busy>;
}

/// A slot that must not be overwritten now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl PeerMemory for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), Busy> {
        let start = usize::try_from(offset).map_err(|_| Busy)?;
        let target = start.checked_add(payload.len()).and_then(|end| self.get_mut(start..end)).ok_or(Busy)?;
        target.copy_from_slice(payload);
        Ok(())
    }
}

/// No memory: for a queue pair that accepts only SENDs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl PeerMemory for NoMemory {
    fn bytes(&self) -> u64 {
        0
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Busy> {
        Err(Busy)
    }
}

/// What happens when the last packet of a frame comes and other packets are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// Nothing is published until the missing packets come. If they never do, the frame is counted.
    #[default]
    Discard,
    /// The frame is published at once, marked as incomplete: the missing bytes are the slot's previous ones.
    Publish,
}

/// Identity and window of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalQueuePair {
    /// The queue pair's number, 24 bits.
    pub number: u32,
    /// The R_Key of the window.
    pub key: u32,
    /// The window's first address.
    pub base: u64,
    /// Bytes of a slot (a page, to the sensor bridge).
    pub slot_bytes: u32,
    /// Slots of the window, at most [`MAX_PAGES`]; with 0, the queue pair accepts only SENDs.
    pub slots: u32,
    /// What happens to frames that lost packets.
    pub incomplete: Incomplete,
}

impl LocalQueuePair {
    /// Checks that a packet is for this queue pair and brings the window's key, so its sender may become the peer.
    ///
    /// # Errors
    /// [`Reason::WrongQp`]; [`Reason::NoMessage`] for a packet without a key; [`Reason::WrongKey`].
    pub fn is_opened_by(&self, packet: &Packet<'_>) -> Result<(), Reason> {
        match packet.reth {
            _ if packet.bth.destination_qp != self.number => Err(Reason::WrongQp),
            None => Err(Reason::NoMessage),
            Some(reth) if reth.key != self.key => Err(Reason::WrongKey),
            Some(_) => Ok(()),
        }
    }
}

/// Why numbers do not form a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueuePairError {
    /// The queue pair's number has more than 24 bits.
    #[error("queue pair number {0:#x} does not fit in 24 bits")]
    Number(u32),
    /// The window has more slots than the immediate's 12 bits can name.
    #[error("{0} slots: an immediate tells {MAX_PAGES} apart at most")]
    Slots(u32),
    /// Slots have no bytes.
    #[error("slots of no bytes")]
    SlotBytes,
    /// The window extends past the last address.
    #[error("a window of {bytes} bytes at {base:#x} wraps around")]
    Wraps {
        /// The window's first address.
        base: u64,
        /// The window's bytes.
        bytes: u64,
    },
}

/// A frame or message that has arrived in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivedFrame {
    /// The slot.
    pub slot: u32,
    /// Sequence number of the packet with the immediate; for a frame completed late, of the packet that completed it.
    pub psn: Psn,
    /// The immediate.
    pub immediate: Immediate,
    /// Bytes from the slot's start.
    pub bytes: u32,
    /// Whether every packet has come; always true with [`Incomplete::Discard`].
    pub complete: bool,
}

/// The effect of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEffect<'a> {
    /// Memory was written; the frame or message is not complete.
    Written,
    /// A slot is ready to be read.
    Arrived(ArrivedFrame),
    /// A SEND of one packet.
    Message(&'a [u8]),
    /// A SEND of several packets, whose bytes [`Responder::gathered`] returns.
    Gathered,
}

/// Counters of a responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResponderStats {
    /// Packets accepted.
    pub packets: u64,
    /// Payload bytes of the packets accepted.
    pub bytes: u64,
    /// Slots reported as [`PacketEffect::Arrived`].
    pub arrived: u64,
    /// Reported slots that lacked packets.
    pub arrived_incomplete: u64,
    /// SENDs reported as [`PacketEffect::Message`] or [`PacketEffect::Gathered`].
    pub messages: u64,
    /// Sequence numbers skipped.
    pub gap_packets: u64,
    /// Packets that came after later ones. Each had been counted in a gap, except for packets before the very first.
    pub late_packets: u64,
    /// Times that the sender restarted its sequence numbers.
    pub restarts: u64,
    /// Frames and messages given up because some of their packets never came.
    pub incomplete: u64,
    /// Packets refused, by reason.
    pub refused: Refusals,
}

impl ResponderStats {
    /// Packets that were sent, by their sequence numbers, and never came.
    #[must_use]
    pub const fn lost_packets(&self) -> u64 {
        self.gap_packets.saturating_sub(self.late_packets)
    }
}

#[derive(Clone, Copy, Debug)]
struct Write {
    next: Psn,
    slot: u32,
    /// Offset from the window's start.
    start: u64,
    bytes: u32,
    written: u32,
    /// Payload bytes of the first packet, and so of every packet but the last.
    piece: u32,
}

/// The receiving end of a queue pair. Nothing is allocated after [`Self::new`].
///
/// ```
/// use ringcall_roce::{PacketEffect, Immediate, Incomplete, Packet, Psn, LocalQueuePair, Responder, Reth};
///
/// let (slot_bytes, slots) = (256, 4);
/// let qp = LocalQueuePair { number: 2, key: 7, base: 0x1000, slot_bytes, slots, incomplete: Incomplete::Discard };
/// let mut responder = Responder::new(qp)?;
/// let mut memory = vec![0; 1024];
///
/// let reth = Reth { address: 0x1000 + 3 * 256, key: 7, length: 5 };
/// let packet = Packet::write_immediate(2, Psn::new(0), reth, Immediate::new(3, Psn::new(0)), b"hello");
/// let PacketEffect::Arrived(arrived) = responder.receive(&packet, &mut memory[..])? else { unreachable!() };
/// assert_eq!((arrived.slot, arrived.bytes, &memory[768..773]), (3, 5, &b"hello"[..]));
///
/// // The same packet once more is a duplicate, and counted.
/// assert!(responder.receive(&packet, &mut memory[..]).is_err());
/// assert_eq!(responder.stats().refused.total(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Responder {
    qp: LocalQueuePair,
    sequence: PsnTracker,
    frames: Box<[Option<Frame>]>,
    message: Option<Write>,
    /// The sequence number of the next packet of an unfinished SEND of several.
    gathering: Option<Psn>,
    gathered: Vec<u8>,
    /// The longest SEND of several packets; with 0, such SENDs are refused.
    message_bytes: usize,
    stats: ResponderStats,
}

impl Responder {
    /// A responder that has received nothing.
    ///
    /// # Errors
    /// The numbers of `qp` do not form a valid queue pair.
    pub fn new(qp: LocalQueuePair) -> Result<Self, QueuePairError> {
        if qp.number > Psn::MASK {
            return Err(QueuePairError::Number(qp.number));
        }
        if qp.slots > MAX_PAGES {
            return Err(QueuePairError::Slots(qp.slots));
        }
        if qp.slots > 0 && qp.slot_bytes == 0 {
            return Err(QueuePairError::SlotBytes);
        }
        let bytes = u64::from(qp.slots) * u64::from(qp.slot_bytes);
        if qp.base.checked_add(bytes).is_none() {
            return Err(QueuePairError::Wraps { base: qp.base, bytes });
        }
        Ok(Self {
            qp,
            sequence: PsnTracker::new(),
            frames: vec![None; qp.slots as usize].into_boxed_slice(),
            message: None,
            gathering: None,
            gathered: Vec::new(),
            message_bytes: 0,
            stats: ResponderStats::default(),
        })
    }

    /// Accepts SENDs of several packets, of up to `message_bytes`; by default they are refused.
    #[must_use]
    pub fn gathering(mut self, message_bytes: usize) -> Self {
        self.message_bytes = message_bytes;
        self.gathered = Vec::with_capacity(message_bytes);
        self
    }

    /// The message of the last [`PacketEffect::Gathered`].
    #[must_use]
    pub fn gathered(&self) -> &[u8] {
        &self.gathered
    }

    /// The queue pair that the responder serves.
    #[must_use]
    pub const fn queue_pair(&self) -> &LocalQueuePair {
        &self.qp
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &ResponderStats {
        &self.stats
    }

    /// Counts a packet that was refused before it came here.
    pub const fn count_refusal(&mut self, reason: Reason) {
        self.stats.refused.count(reason);
    }

    /// Forgets unfinished frames and sequence numbers, for a new peer. The counters stay.
    pub fn restart(&mut self) {
        self.sequence = PsnTracker::new();
        self.give_up_all();
    }

    /// Parses a datagram, checks its iCRC, and receives it.
    ///
    /// # Errors
    /// Why the packet was refused; the refusal is counted.
    pub fn receive_datagram<'a, M: PeerMemory + ?Sized>(
        &mut self,
        datagram: &'a [u8],
        envelope: &Envelope,
        icrc: IcrcCheck,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        match envelope.check(datagram, icrc).and_then(|()| Packet::parse(datagram)) {
            Ok(packet) => self.receive(&packet, memory),
            Err(error) => {
                let reason = Reason::from(error);
                self.stats.refused.count(reason);
                Err(reason)
            }
        }
    }

    /// Takes in a packet.
    ///
    /// # Errors
    /// Why the packet was refused; the refusal is counted.
    pub fn receive<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        let event = self.check(packet, memory);
        self.count(packet, event)
    }

    /// Takes in a packet of a reliable connection, whose queue pair, service and sequence number the caller has
    /// checked. If the packet is refused because its slot is [busy](Reason::Busy), it may be passed again.
    pub(crate) fn accept<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        let (message, incomplete) = (self.message, self.stats.incomplete);
        let event = self.located(packet, memory).and_then(|located| self.apply(packet, located, memory));
        if event == Err(Reason::Busy) {
            (self.message, self.stats.incomplete) = (message, incomplete);
        }
        self.count(packet, event)
    }

    fn count<'a>(
        &mut self,
        packet: &Packet<'a>,
        event: Result<PacketEffect<'a>, Reason>,
    ) -> Result<PacketEffect<'a>, Reason> {
        match event {
            Ok(event) => {
                self.stats.packets += 1;
                self.stats.bytes += packet.payload.len() as u64;
                match event {
                    PacketEffect::Written => {}
                    PacketEffect::Arrived(arrived) => {
                        self.stats.arrived += 1;
                        self.stats.arrived_incomplete += u64::from(!arrived.complete);
                    }
                    PacketEffect::Message(_) | PacketEffect::Gathered => self.stats.messages += 1,
                }
            }
            Err(reason) => self.stats.refused.count(reason),
        }
        event
    }

    fn check<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        let bth = &packet.bth;
        if bth.destination_qp != self.qp.number {
            return Err(Reason::WrongQp);
        }
        if bth.opcode.service() != Service::Uc {
            return Err(Reason::Unsupported);
        }
        // The checks precede the sequence number: a packet without the key, or for other addresses, must not use up a
        // sequence number of the peer, since its source address may be forged.
        let located = self.located(packet, memory)?;
        // A packet without a key must continue the message under way: otherwise it would end that message, too.
        if (bth.opcode.verb(), located) == (Verb::Write, None) {
            self.continues(packet)?;
        }
        match self.sequence.observe(bth.psn) {
            PsnOrder::First | PsnOrder::Next => {}
            PsnOrder::Gap(missing) => self.stats.gap_packets += u64::from(missing),
            PsnOrder::Late => self.stats.late_packets += 1,
            PsnOrder::Duplicate => return Err(Reason::Duplicate),
            PsnOrder::Restart => {
                self.stats.restarts += 1;
                self.give_up_all();
            }
        }
        self.apply(packet, located, memory)
    }

    /// Slot and offset of a packet that begins a WRITE.
    fn located<M: PeerMemory + ?Sized>(
        &self,
        packet: &Packet<'_>,
        memory: &M,
    ) -> Result<Option<(u32, u64)>, Reason> {
        match (packet.bth.opcode.verb(), packet.reth) {
            (Verb::Write, Some(reth)) => self.locate(reth, memory).map(Some),
            _ => Ok(None),
        }
    }

    /// Checks that a packet without a key continues the message under way, by its number, its length and its immediate.
    fn continues(&self, packet: &Packet<'_>) -> Result<(), Reason> {
        let next = self.message.filter(|message| message.next == packet.bth.psn).ok_or(Reason::NoMessage)?;
        self.fits(packet, &next).map(drop)
    }

    /// The immediate of a packet whose length is that of the message's next packet.
    fn fits(&self, packet: &Packet<'_>, message: &Write) -> Result<Option<Immediate>, Reason> {
        let left = u64::from(message.bytes - message.written);
        let carried = packet.payload.len() as u64;
        let right = match packet.bth.opcode.part() {
            Part::Last => carried == left,
            _ => carried == u64::from(message.piece) && carried < left,
        };
        if !right {
            return Err(Reason::WrongLength);
        }
        let immediate = self.check_immediate(packet.immediate, message.slot)?;
        let slot_start = u64::from(message.slot) * u64::from(self.qp.slot_bytes);
        if immediate.is_some() && message.start != slot_start {
            return Err(Reason::WrongSlot);
        }
        Ok(immediate)
    }

    /// Applies a packet whose sequence number was checked. Of its opcode only operation and part matter here, not the
    /// service.
    fn apply<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        located: Option<(u32, u64)>,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        let bth = &packet.bth;
        let (verb, part) = (bth.opcode.verb(), bth.opcode.part());
        if !(verb == Verb::Write && matches!(part, Part::Middle | Part::Last)) {
            // A new message ends the message under way: this service never retransmits.
            self.give_up_message();
        }
        if !(verb == Verb::Send && matches!(part, Part::Middle | Part::Last)) {
            self.stats.incomplete += u64::from(self.gathering.take().is_some());
        }
        match (verb, part, packet.reth.zip(located)) {
            (Verb::Send, Part::Only, _) => Ok(PacketEffect::Message(packet.payload)),
            (Verb::Send, _, _) => self.gather(packet),
            (Verb::Write, Part::Only, Some((reth, located))) => self.frame(packet, reth, located, memory),
            (Verb::Write, Part::First, Some((reth, (slot, start)))) => {
                let piece = packet.payload.len() as u32;
                let message = Write { next: bth.psn, slot, start, bytes: reth.length, written: 0, piece };
                self.proceed(packet, message, memory)
            }
            (Verb::Write, Part::Middle | Part::Last, _) => {
                let Some(message) = self.message.take() else { return Err(Reason::NoMessage) };
                let event = self.proceed(packet, message, memory);
                self.stats.incomplete += u64::from(event.is_err());
                event
            }
            _ => Err(Reason::Unsupported),
        }
    }

    /// Adds a packet to a SEND of several packets.
    fn gather(&mut self, packet: &Packet<'_>) -> Result<PacketEffect<'static>, Reason> {
        if self.message_bytes == 0 {
            return Err(Reason::Unsupported);
        }
        let part = packet.bth.opcode.part();
        if part == Part::First {
            self.gathered.clear();
        } else {
            let next = self.gathering.take().ok_or(Reason::NoMessage)?;
            if next != packet.bth.psn {
                self.stats.incomplete += 1;
                return Err(Reason::NoMessage);
            }
        }
        if self.gathered.len() + packet.payload.len() > self.message_bytes {
            self.stats.incomplete += 1;
            return Err(Reason::WrongLength);
        }
        self.gathered.extend_from_slice(packet.payload);
        if part == Part::Last {
            return Ok(PacketEffect::Gathered);
        }
        self.gathering = Some(packet.bth.psn.next());
        Ok(PacketEffect::Written)
    }

    /// The slot that contains a range of addresses, and the slot's offset in the window.
    fn locate<M: PeerMemory + ?Sized>(&self, reth: Reth, memory: &M) -> Result<(u32, u64), Reason> {
        if reth.key != self.qp.key {
            return Err(Reason::WrongKey);
        }
        let slot_bytes = u64::from(self.qp.slot_bytes);
        let window = memory.bytes().min(u64::from(self.qp.slots) * slot_bytes);
        let start = reth.address.checked_sub(self.qp.base).ok_or(Reason::OutOfRange)?;
        let end = start.checked_add(u64::from(reth.length)).ok_or(Reason::OutOfRange)?;
        if start >= window || end > window {
            return Err(Reason::OutOfRange);
        }
        let slot = start / slot_bytes;
        if end > (slot + 1) * slot_bytes {
            return Err(Reason::CrossesSlot);
        }
        // Below the number of slots.
        Ok((slot as u32, start))
    }

    fn check_immediate(&self, immediate: Option<u32>, slot: u32) -> Result<Option<Immediate>, Reason> {
        let Some(immediate) = immediate.map(Immediate) else { return Ok(None) };
        if immediate.page() >= self.qp.slots {
            return Err(Reason::NoSuchSlot);
        }
        if immediate.page() == slot { Ok(Some(immediate)) } else { Err(Reason::WrongSlot) }
    }

    /// Takes in a WRITE of one packet: a frame, or a part of one.
    fn frame<M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        reth: Reth,
        (slot, offset): (u32, u64),
        memory: &mut M,
    ) -> Result<PacketEffect<'static>, Reason> {
        let last = self.check_immediate(packet.immediate, slot)?;
        let start = (offset - u64::from(slot) * u64::from(self.qp.slot_bytes)) as u32;
        let psn = packet.bth.psn;
        let extent = Extent { psn, start, end: start + reth.length, last };
        let current = self.frames[slot as usize];
        let fit = Frame::fit(current.as_ref(), extent);
        if fit == Fit::Stale {
            return Err(Reason::Stale);
        }
        memory.write(offset, packet.payload).map_err(|Busy| Reason::Busy)?;
        self.stats.incomplete += u64::from(fit == Fit::Replaces);
        let frame = Frame::add(current.as_ref(), extent, fit);
        let whole = frame.complete();
        let publish = match (whole, last) {
            (Some((bytes, immediate)), _) => Some((bytes, immediate)),
            (None, Some(immediate)) if self.qp.incomplete == Incomplete::Publish => {
                Some((extent.end, immediate))
            }
            _ => None,
        };
        self.frames[slot as usize] = if publish.is_some() { None } else { Some(frame) };
        Ok(publish.map_or(PacketEffect::Written, |(bytes, immediate)| {
            PacketEffect::Arrived(ArrivedFrame { slot, psn, immediate, bytes, complete: whole.is_some() })
        }))
    }

    /// Adds a packet to a WRITE of several packets.
    fn proceed<M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        mut message: Write,
        memory: &mut M,
    ) -> Result<PacketEffect<'static>, Reason> {
        if packet.bth.psn != message.next {
            return Err(Reason::NoMessage);
        }
        let last = packet.bth.opcode.part() == Part::Last;
        let immediate = self.fits(packet, &message)?;
        let offset = message.start + u64::from(message.written);
        memory.write(offset, packet.payload).map_err(|Busy| Reason::Busy)?;
        // The WRITE has overwritten bytes of an unfinished frame in this slot.
        self.stats.incomplete += u64::from(self.frames[message.slot as usize].take().is_some());
        if !last {
            message.written += message.piece;
            message.next = packet.bth.psn.next();
            self.message = Some(message);
            return Ok(PacketEffect::Written);
        }
        let Write { slot, bytes, .. } = message;
        let psn = packet.bth.psn;
        Ok(immediate.map_or(PacketEffect::Written, |immediate| {
            PacketEffect::Arrived(ArrivedFrame { slot, psn, immediate, bytes, complete: true })
        }))
    }

    fn give_up_message(&mut self) {
        self.stats.incomplete += u64::from(self.message.take().is_some());
    }

    fn give_up_all(&mut self) {
        self.give_up_message();
        self.stats.incomplete += u64::from(self.gathering.take().is_some());
        let given_up = self.frames.iter_mut().filter_map(Option::take).count();
        self.stats.incomplete += given_up as u64;
    }
}
