//! The receiving end of a queue pair: every check between a packet and the memory it asks to write.
//!
//! A [`Responder`] stands for one queue pair of the unreliable connected service and one window of memory, cut into
//! slots. It takes what a sensor bridge sends (WRITE ONLY packets, the last of a frame with an immediate), what an RDMA
//! adapter sends for messages longer than its MTU (WRITE FIRST, MIDDLE, LAST), and SENDs, of several packets
//! [where it is told so](Responder::gathering).

use crate::frame::{Extent, Fit, Frame};
use crate::icrc::{Envelope, IcrcCheck};
use crate::immediate::{Immediate, MAX_PAGES};
use crate::opcode::{Part, Service, Verb};
use crate::packet::{Packet, Reth};
use crate::psn::{Arrival, Psn, Sequence};
use crate::reason::{Reason, Refusals};
use serde::Serialize;

/// Memory that a peer may write to.
pub trait Memory {
    /// Its size in bytes.
    fn bytes(&self) -> u64;

    /// Copies `payload` to `offset`; the range lies within [`Self::bytes`] and in one slot.
    ///
    /// # Errors
    /// [`Busy`] if the slot must not be overwritten now. The packet is then counted and dropped.
    fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), Busy>;
}

/// A slot that must not be overwritten now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl Memory for [u8] {
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

/// No memory: for a queue pair that takes SENDs alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl Memory for NoMemory {
    fn bytes(&self) -> u64 {
        0
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Busy> {
        Err(Busy)
    }
}

/// What to do with a frame that lost packets, when its last one comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomplete {
    /// Publish nothing, until the rest comes after all; count the frame if it never does.
    #[default]
    Discard,
    /// Publish it at once, marked as incomplete: bytes that are missing are the slot's old ones.
    Publish,
}

/// What a queue pair answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePair {
    /// Its number, 24 bits.
    pub number: u32,
    /// The R_Key of its window.
    pub key: u32,
    /// The window's first address.
    pub base: u64,
    /// Bytes of a slot (a page, to the sensor bridge).
    pub slot_bytes: u32,
    /// Slots of the window, [`MAX_PAGES`] at most; 0 takes SENDs alone.
    pub slots: u32,
    /// What to do with frames that lost packets.
    pub incomplete: Incomplete,
}

impl QueuePair {
    /// Checks that a packet is for it and brings the window's key: its sender may be the peer.
    ///
    /// # Errors
    /// [`Reason::WrongQp`]; [`Reason::NoMessage`] for a packet that brings no key; [`Reason::WrongKey`].
    pub fn is_opened_by(&self, packet: &Packet<'_>) -> Result<(), Reason> {
        match packet.reth {
            _ if packet.bth.destination_qp != self.number => Err(Reason::WrongQp),
            None => Err(Reason::NoMessage),
            Some(reth) if reth.key != self.key => Err(Reason::WrongKey),
            Some(_) => Ok(()),
        }
    }
}

/// A queue pair that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueuePairError {
    /// More than 24 bits.
    #[error("queue pair number {0:#x} does not fit in 24 bits")]
    Number(u32),
    /// An immediate has 12 bits for the slot.
    #[error("{0} slots: an immediate tells {MAX_PAGES} apart at most")]
    Slots(u32),
    /// A slot holds something.
    #[error("slots of no bytes")]
    SlotBytes,
    /// The addresses end before the window does.
    #[error("a window of {bytes} bytes at {base:#x} wraps around")]
    Wraps {
        /// Its first address.
        base: u64,
        /// Its size.
        bytes: u64,
    },
}

/// A frame or message is in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The slot.
    pub slot: u32,
    /// Sequence number of the packet with the immediate; of a frame completed late, the packet that completed it.
    pub psn: Psn,
    /// The immediate.
    pub immediate: Immediate,
    /// Bytes from the slot's start.
    pub bytes: u32,
    /// Whether every packet of it came; always, with [`Incomplete::Discard`].
    pub complete: bool,
}

/// What came of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Memory was written; more is to come.
    Written,
    /// A slot is ready to be read.
    Arrived(Arrived),
    /// A SEND of one packet.
    Message(&'a [u8]),
    /// A SEND of several packets, whose bytes are [`Responder::gathered`].
    Gathered,
}

/// What a responder counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResponderStats {
    /// Packets taken in.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Slots reported as [`Event::Arrived`].
    pub arrived: u64,
    /// Those of them that lacked packets.
    pub arrived_incomplete: u64,
    /// SENDs reported as [`Event::Message`] or [`Event::Gathered`].
    pub messages: u64,
    /// Sequence numbers skipped.
    pub gap_packets: u64,
    /// Packets that came after later ones; each had been counted in a gap, those at the very beginning apart.
    pub late_packets: u64,
    /// Times the sender began anew with its numbers.
    pub restarts: u64,
    /// Frames and messages given up because packets of them never came.
    pub incomplete: u64,
    /// Packets refused, by reason.
    pub refused: Refusals,
}

impl ResponderStats {
    /// Packets that were sent, by their numbers, and did not come.
    #[must_use]
    pub const fn lost_packets(&self) -> u64 {
        self.gap_packets.saturating_sub(self.late_packets)
    }
}

/// A WRITE of several packets that is under way.
#[derive(Clone, Copy, Debug)]
struct Write {
    next: Psn,
    slot: u32,
    /// From the window's start.
    start: u64,
    bytes: u32,
    written: u32,
    /// Bytes of each packet but the last: as many as the first one has.
    piece: u32,
}

/// The receiving end of a queue pair. Nothing is allocated after [`Self::new`].
///
/// ```
/// use ringcall_roce::{Event, Immediate, Incomplete, Packet, Psn, QueuePair, Responder, Reth};
///
/// let (slot_bytes, slots) = (256, 4);
/// let qp = QueuePair { number: 2, key: 7, base: 0x1000, slot_bytes, slots, incomplete: Incomplete::Discard };
/// let mut responder = Responder::new(qp)?;
/// let mut memory = vec![0; 1024];
///
/// let reth = Reth { address: 0x1000 + 3 * 256, key: 7, length: 5 };
/// let packet = Packet::write_immediate(2, Psn::new(0), reth, Immediate::new(3, Psn::new(0)), b"hello");
/// let Event::Arrived(arrived) = responder.receive(&packet, &mut memory[..])? else { unreachable!() };
/// assert_eq!((arrived.slot, arrived.bytes, &memory[768..773]), (3, 5, &b"hello"[..]));
///
/// // The same packet once more is a duplicate, and counted.
/// assert!(responder.receive(&packet, &mut memory[..]).is_err());
/// assert_eq!(responder.stats().refused.total(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Responder {
    qp: QueuePair,
    sequence: Sequence,
    frames: Box<[Option<Frame>]>,
    message: Option<Write>,
    /// The number of the next packet of a SEND of several that is under way.
    gathering: Option<Psn>,
    gathered: Vec<u8>,
    /// The longest SEND of several packets; 0 takes none.
    message_bytes: usize,
    stats: ResponderStats,
}

impl Responder {
    /// A queue pair that has received nothing.
    ///
    /// # Errors
    /// Numbers that make no queue pair.
    pub fn new(qp: QueuePair) -> Result<Self, QueuePairError> {
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
            sequence: Sequence::new(),
            frames: vec![None; qp.slots as usize].into_boxed_slice(),
            message: None,
            gathering: None,
            gathered: Vec::new(),
            message_bytes: 0,
            stats: ResponderStats::default(),
        })
    }

    /// Takes SENDs of several packets, of up to so many bytes; without this call they are refused.
    #[must_use]
    pub fn gathering(mut self, message_bytes: usize) -> Self {
        self.message_bytes = message_bytes;
        self.gathered = Vec::with_capacity(message_bytes);
        self
    }

    /// The message of the last [`Event::Gathered`].
    #[must_use]
    pub fn gathered(&self) -> &[u8] {
        &self.gathered
    }

    /// What it answers to.
    #[must_use]
    pub const fn queue_pair(&self) -> &QueuePair {
        &self.qp
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> &ResponderStats {
        &self.stats
    }

    /// Counts a packet that was refused before it came here.
    pub const fn count_refusal(&mut self, reason: Reason) {
        self.stats.refused.count(reason);
    }

    /// Forgets frames under way and sequence numbers: for a new peer. The counts stay.
    pub fn restart(&mut self) {
        self.sequence = Sequence::new();
        self.give_up_all();
    }

    /// Parses a datagram, checks its iCRC, and receives it.
    ///
    /// # Errors
    /// Why nothing came of it; it is counted.
    pub fn receive_datagram<'a, M: Memory + ?Sized>(
        &mut self,
        datagram: &'a [u8],
        envelope: &Envelope,
        icrc: IcrcCheck,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
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
    /// Why nothing came of it; it is counted.
    pub fn receive<'a, M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
        let event = self.check(packet, memory);
        self.count(packet, event)
    }

    /// Takes in a packet of a reliable connection, whose queue pair, service and sequence number were found right. One that is
    /// refused because its slot is [busy](Reason::Busy) may be taken in again.
    pub(crate) fn accept<'a, M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
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
        event: Result<Event<'a>, Reason>,
    ) -> Result<Event<'a>, Reason> {
        match event {
            Ok(event) => {
                self.stats.packets += 1;
                self.stats.bytes += packet.payload.len() as u64;
                match event {
                    Event::Written => {}
                    Event::Arrived(arrived) => {
                        self.stats.arrived += 1;
                        self.stats.arrived_incomplete += u64::from(!arrived.complete);
                    }
                    Event::Message(_) | Event::Gathered => self.stats.messages += 1,
                }
            }
            Err(reason) => self.stats.refused.count(reason),
        }
        event
    }

    fn check<'a, M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
        let bth = &packet.bth;
        if bth.destination_qp != self.qp.number {
            return Err(Reason::WrongQp);
        }
        if bth.opcode.service() != Service::Uc {
            return Err(Reason::Unsupported);
        }
        // Before the sequence number is observed: a packet without the key, or for other addresses, must not use up a number
        // of the peer's, since its source address may be forged.
        let located = self.located(packet, memory)?;
        // Nor must one without a key that is not what the message under way goes on with: it would end that message, too.
        if (bth.opcode.verb(), located) == (Verb::Write, None) {
            self.continues(packet)?;
        }
        match self.sequence.observe(bth.psn) {
            Arrival::First | Arrival::Next => {}
            Arrival::Gap(missing) => self.stats.gap_packets += u64::from(missing),
            Arrival::Late => self.stats.late_packets += 1,
            Arrival::Duplicate => return Err(Reason::Duplicate),
            Arrival::Restart => {
                self.stats.restarts += 1;
                self.give_up_all();
            }
        }
        self.apply(packet, located, memory)
    }

    /// Slot and start of a packet that begins a WRITE.
    fn located<M: Memory + ?Sized>(
        &self,
        packet: &Packet<'_>,
        memory: &M,
    ) -> Result<Option<(u32, u64)>, Reason> {
        match (packet.bth.opcode.verb(), packet.reth) {
            (Verb::Write, Some(reth)) => self.locate(reth, memory).map(Some),
            _ => Ok(None),
        }
    }

    /// Checks that a packet without a key is what the message under way goes on with: its number, its length, its immediate.
    fn continues(&self, packet: &Packet<'_>) -> Result<(), Reason> {
        let next = self.message.filter(|message| message.next == packet.bth.psn).ok_or(Reason::NoMessage)?;
        self.fits(packet, &next).map(drop)
    }

    /// The immediate of a packet that has the length of the message's next one.
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

    /// What a packet does whose sequence number was found right. Of the service's opcodes it looks at operation and part alone.
    fn apply<'a, M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        located: Option<(u32, u64)>,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
        let bth = &packet.bth;
        let (verb, part) = (bth.opcode.verb(), bth.opcode.part());
        if !(verb == Verb::Write && matches!(part, Part::Middle | Part::Last)) {
            // A message that begins ends the message under way: this service never repeats.
            self.give_up_message();
        }
        if !(verb == Verb::Send && matches!(part, Part::Middle | Part::Last)) {
            self.stats.incomplete += u64::from(self.gathering.take().is_some());
        }
        match (verb, part, packet.reth.zip(located)) {
            (Verb::Send, Part::Only, _) => Ok(Event::Message(packet.payload)),
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

    /// A packet of a SEND of several.
    fn gather(&mut self, packet: &Packet<'_>) -> Result<Event<'static>, Reason> {
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
            return Ok(Event::Gathered);
        }
        self.gathering = Some(packet.bth.psn.next());
        Ok(Event::Written)
    }

    /// The slot of a range of addresses, and where in the window it begins.
    fn locate<M: Memory + ?Sized>(&self, reth: Reth, memory: &M) -> Result<(u32, u64), Reason> {
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

    /// A WRITE of one packet: a frame, or a part of one.
    fn frame<M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        reth: Reth,
        (slot, offset): (u32, u64),
        memory: &mut M,
    ) -> Result<Event<'static>, Reason> {
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
        Ok(publish.map_or(Event::Written, |(bytes, immediate)| {
            Event::Arrived(Arrived { slot, psn, immediate, bytes, complete: whole.is_some() })
        }))
    }

    /// A packet of a message of several.
    fn proceed<M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        mut message: Write,
        memory: &mut M,
    ) -> Result<Event<'static>, Reason> {
        if packet.bth.psn != message.next {
            return Err(Reason::NoMessage);
        }
        let last = packet.bth.opcode.part() == Part::Last;
        let immediate = self.fits(packet, &message)?;
        let offset = message.start + u64::from(message.written);
        memory.write(offset, packet.payload).map_err(|Busy| Reason::Busy)?;
        // Bytes of a frame that was under way in this slot are gone.
        self.stats.incomplete += u64::from(self.frames[message.slot as usize].take().is_some());
        if !last {
            message.written += message.piece;
            message.next = packet.bth.psn.next();
            self.message = Some(message);
            return Ok(Event::Written);
        }
        let Write { slot, bytes, .. } = message;
        let psn = packet.bth.psn;
        Ok(immediate.map_or(Event::Written, |immediate| {
            Event::Arrived(Arrived { slot, psn, immediate, bytes, complete: true })
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
