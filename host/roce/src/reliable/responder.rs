//! The receiving half of a reliable connection: takes each packet once and in order, and acknowledges it.

use crate::opcode::{Part, Service};
use crate::packet::{Aeth, Packet};
use crate::psn::Psn;
use crate::reason::Reason;
use crate::reliable::syndrome::{AckSyndrome, Nak};
use crate::responder::{PacketEffect, PeerMemory, Responder};
use serde::Serialize;

/// Counters of the receiving half, besides its [`ResponderStats`](crate::ResponderStats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReliableStats {
    /// Acknowledgements, including repeated ones.
    pub acks: u64,
    /// "PSN sequence error": earlier packets are missing.
    pub nak_sequence: u64,
    /// "Invalid request".
    pub nak_invalid: u64,
    /// "Remote access error": a wrong key, or addresses outside the window.
    pub nak_access: u64,
    /// "Receiver not ready".
    pub nak_not_ready: u64,
}

/// The receiving half of a reliable connection. A refused packet uses up no sequence number. If it is refused for its
/// key, addresses or operation, the acknowledgement breaks the peer's queue pair, while this half stays as it is.
#[derive(Clone, Debug)]
pub struct ReliableResponder {
    inner: Responder,
    expected: Psn,
    /// Messages completed, 24 bits.
    message: u32,
    /// A refusal was sent since the last packet in order: later packets out of order are dropped silently.
    refused: bool,
    reply: Option<(Psn, AckSyndrome)>,
    not_ready_timer: u8,
    stats: ReliableStats,
}

impl ReliableResponder {
    /// A receiving half that expects `first` and whose `inner` has received nothing yet. `not_ready_timer` is how long
    /// the peer is told to wait when there is no room for its message, as a code of
    /// [`rnr_ns`](crate::reliable::rnr_ns).
    #[must_use]
    pub fn new(inner: Responder, first: Psn, not_ready_timer: u8) -> Self {
        let stats = ReliableStats::default();
        Self { inner, expected: first, message: 0, refused: false, reply: None, not_ready_timer, stats }
    }

    /// The responder that takes in the packets.
    #[must_use]
    pub const fn responder(&self) -> &Responder {
        &self.inner
    }

    /// Counters of the replies.
    #[must_use]
    pub const fn stats(&self) -> &ReliableStats {
        &self.stats
    }

    /// The sequence number of the next packet.
    #[must_use]
    pub const fn expected(&self) -> Psn {
        self.expected
    }

    /// Counts a packet that was refused before it came here.
    pub const fn count_refusal(&mut self, reason: Reason) {
        self.inner.count_refusal(reason);
    }

    /// Restarts for a new connection. The counters stay.
    pub fn restart(&mut self, first: Psn) {
        self.inner.restart();
        (self.expected, self.message, self.refused, self.reply) = (first, 0, false, None);
    }

    /// Takes in a packet of the peer's requests. [`take_reply`](Self::take_reply) returns the reply to it.
    ///
    /// # Errors
    /// Why the packet was refused; the refusal is counted.
    pub fn receive<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<PacketEffect<'a>, Reason> {
        let bth = &packet.bth;
        if bth.destination_qp != self.inner.queue_pair().number {
            return self.refuse(Reason::WrongQp);
        }
        if bth.opcode.service() != Service::Rc {
            return self.refuse(Reason::Unsupported);
        }
        let ahead = bth.psn.offset_from(self.expected);
        if ahead < 0 {
            // A duplicate: its acknowledgement was lost, or is under way. A pending refusal acknowledges as much.
            let _ = self.reply.get_or_insert((self.expected.plus(Psn::MASK), AckSyndrome::Ack));
            return self.refuse(Reason::Duplicate);
        }
        if ahead > 0 {
            self.tell(self.expected, AckSyndrome::Nak(Nak::Sequence));
            return self.refuse(Reason::WrongPsn);
        }
        let event = self.inner.accept(packet, memory);
        match event {
            Ok(_) => {
                self.refused = false;
                self.expected = bth.psn.next();
                let ends = matches!(bth.opcode.part(), Part::Last | Part::Only);
                self.message = (self.message + u32::from(ends)) & Psn::MASK;
                if ends || bth.acknowledge {
                    self.reply = Some((bth.psn, AckSyndrome::Ack));
                }
            }
            Err(Reason::Busy) => self.tell(bth.psn, AckSyndrome::NotReady { timer: self.not_ready_timer }),
            Err(Reason::WrongKey | Reason::OutOfRange | Reason::CrossesSlot) => {
                self.tell(bth.psn, AckSyndrome::Nak(Nak::RemoteAccess));
            }
            Err(_) => self.tell(bth.psn, AckSyndrome::Nak(Nak::InvalidRequest)),
        }
        event
    }

    fn refuse<T>(&mut self, reason: Reason) -> Result<T, Reason> {
        self.inner.count_refusal(reason);
        Err(reason)
    }

    /// Prepares a refusal, once for each kind that may repeat.
    fn tell(&mut self, psn: Psn, syndrome: AckSyndrome) {
        // Another packet of the same number may be refused for another reason, so only "sequence" is sent just once.
        if syndrome != AckSyndrome::Nak(Nak::Sequence) || !self.refused {
            self.reply = Some((psn, syndrome));
        }
        self.refused = true;
    }

    /// The reply to the peer, if one is due. It covers everything received so far.
    pub fn take_reply(&mut self) -> Option<(Psn, Aeth)> {
        let (psn, syndrome) = self.reply.take()?;
        let stats = &mut self.stats;
        *match syndrome {
            AckSyndrome::Ack => &mut stats.acks,
            AckSyndrome::NotReady { .. } => &mut stats.nak_not_ready,
            AckSyndrome::Nak(Nak::Sequence) => &mut stats.nak_sequence,
            AckSyndrome::Nak(Nak::RemoteAccess) => &mut stats.nak_access,
            AckSyndrome::Nak(Nak::InvalidRequest | Nak::RemoteOperation) => &mut stats.nak_invalid,
        } += 1;
        Some((psn, Aeth { syndrome: syndrome.code(), message: self.message }))
    }
}
