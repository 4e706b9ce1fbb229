//! The receiving half of a reliable connection: every packet in its order, once, and acknowledged.

use crate::opcode::{Part, Service};
use crate::packet::{Aeth, Packet};
use crate::psn::Psn;
use crate::reason::Reason;
use crate::reliable::syndrome::{Nak, Syndrome};
use crate::responder::{Event, Memory, Responder};
use serde::Serialize;

/// What the receiving half counts beside its [`ResponderStats`](crate::ResponderStats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReliableStats {
    /// Acknowledgements, repeated ones included.
    pub acks: u64,
    /// "PSN sequence error": packets before one that came are missing.
    pub nak_sequence: u64,
    /// "Invalid request".
    pub nak_invalid: u64,
    /// "Remote access error": a wrong key, or addresses outside of the window.
    pub nak_access: u64,
    /// "Receiver not ready".
    pub nak_not_ready: u64,
}

/// The receiving half of a reliable connection. A packet that is refused uses up no number. One that is refused for its key,
/// addresses or operation breaks the peer's queue pair, by the acknowledgement; this half stays as it is.
#[derive(Clone, Debug)]
pub struct ReliableResponder {
    inner: Responder,
    expected: Psn,
    /// Messages completed, 24 bits.
    message: u32,
    /// A refusal was told since the last packet in order: the packets that follow are dropped in silence.
    refused: bool,
    reply: Option<(Psn, Syndrome)>,
    not_ready_timer: u8,
    stats: ReliableStats,
}

impl ReliableResponder {
    /// One that expects `first`, over what was received of no peer yet. `not_ready_timer` is how long a peer is told to wait
    /// where there is no room for its message: a code of [`rnr_ns`](crate::reliable::rnr_ns).
    #[must_use]
    pub fn new(inner: Responder, first: Psn, not_ready_timer: u8) -> Self {
        let stats = ReliableStats::default();
        Self { inner, expected: first, message: 0, refused: false, reply: None, not_ready_timer, stats }
    }

    /// What it has received.
    #[must_use]
    pub const fn responder(&self) -> &Responder {
        &self.inner
    }

    /// What it has told the peer.
    #[must_use]
    pub const fn stats(&self) -> &ReliableStats {
        &self.stats
    }

    /// The number of the next packet.
    #[must_use]
    pub const fn expected(&self) -> Psn {
        self.expected
    }

    /// Counts a packet that was refused before it came here.
    pub const fn count_refusal(&mut self, reason: Reason) {
        self.inner.count_refusal(reason);
    }

    /// Begins anew, for a new connection; the counts stay.
    pub fn restart(&mut self, first: Psn) {
        self.inner.restart();
        (self.expected, self.message, self.refused, self.reply) = (first, 0, false, None);
    }

    /// Takes in a packet of the peer's requests. What is to be told the peer of it is [`take_reply`](Self::take_reply).
    ///
    /// # Errors
    /// Why nothing came of it; it is counted.
    pub fn receive<'a, M: Memory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
    ) -> Result<Event<'a>, Reason> {
        let bth = &packet.bth;
        if bth.destination_qp != self.inner.queue_pair().number {
            return self.refuse(Reason::WrongQp);
        }
        if bth.opcode.service() != Service::Rc {
            return self.refuse(Reason::Unsupported);
        }
        let ahead = bth.psn.offset_from(self.expected);
        if ahead < 0 {
            // Its acknowledgement was lost, or is on its way. A refusal that waits says as much.
            let _ = self.reply.get_or_insert((self.expected.plus(Psn::MASK), Syndrome::Ack));
            return self.refuse(Reason::Duplicate);
        }
        if ahead > 0 {
            self.tell(self.expected, Syndrome::Nak(Nak::Sequence));
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
                    self.reply = Some((bth.psn, Syndrome::Ack));
                }
            }
            Err(Reason::Busy) => self.tell(bth.psn, Syndrome::NotReady { timer: self.not_ready_timer }),
            Err(Reason::WrongKey | Reason::OutOfRange | Reason::CrossesSlot) => {
                self.tell(bth.psn, Syndrome::Nak(Nak::RemoteAccess));
            }
            Err(_) => self.tell(bth.psn, Syndrome::Nak(Nak::InvalidRequest)),
        }
        event
    }

    fn refuse<T>(&mut self, reason: Reason) -> Result<T, Reason> {
        self.inner.count_refusal(reason);
        Err(reason)
    }

    /// A refusal, which is told once.
    fn tell(&mut self, psn: Psn, syndrome: Syndrome) {
        // Another packet of the same number may be refused for another reason: only "sequence" is told once.
        if syndrome != Syndrome::Nak(Nak::Sequence) || !self.refused {
            self.reply = Some((psn, syndrome));
        }
        self.refused = true;
    }

    /// What is to be told the peer, if anything is: it covers everything that was received.
    pub fn take_reply(&mut self) -> Option<(Psn, Aeth)> {
        let (psn, syndrome) = self.reply.take()?;
        let stats = &mut self.stats;
        *match syndrome {
            Syndrome::Ack => &mut stats.acks,
            Syndrome::NotReady { .. } => &mut stats.nak_not_ready,
            Syndrome::Nak(Nak::Sequence) => &mut stats.nak_sequence,
            Syndrome::Nak(Nak::RemoteAccess) => &mut stats.nak_access,
            Syndrome::Nak(Nak::InvalidRequest | Nak::RemoteOperation) => &mut stats.nak_invalid,
        } += 1;
        Some((psn, Aeth { syndrome: syndrome.code(), message: self.message }))
    }
}
