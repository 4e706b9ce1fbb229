//! A reliable connection: a queue pair's sending and receiving half.

use crate::message::MessageOperation;
use crate::opcode::Verb;
use crate::packet::Packet;
use crate::psn::Psn;
use crate::reason::Reason;
use crate::reliable::requester::{
    MessagePostError, ReliableError, Requester, RequesterOptions, RequesterStats,
};
use crate::reliable::responder::{ReliableResponder, ReliableStats};
use crate::responder::{LocalQueuePair, PacketEffect, PeerMemory, QueuePairError, Responder};
use serde::Serialize;

/// Options of a reliable connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// Options of the sending half. Its first number is also the first one expected from the peer.
    pub requester: RequesterOptions,
    /// The longest accepted SEND of several packets; 0 accepts none.
    pub gathered_bytes: usize,
    /// How long the peer is told to wait when there is no room, as a code of [`rnr_ns`](crate::reliable::rnr_ns).
    /// Default: 0, which is 655 ms; most programs use 12, which is 0.64 ms.
    pub not_ready_timer: u8,
}

/// Counters of a reliable connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionStats {
    /// Counters of the messages sent.
    pub requester: RequesterStats,
    /// Counters of the replies to the peer.
    pub responder: ReliableStats,
}

/// A queue pair of the reliable service. Nothing is allocated after [`Self::new`].
///
/// ```
/// use ringcall_roce::reliable::{Connection, ConnectionOptions};
/// use ringcall_roce::{PacketEffect, Immediate, MessageOperation, PortOptions, Psn};
///
/// let port = PortOptions { qp: 2, ..PortOptions::new(4, 256) };
/// let mut here = Connection::new(PortOptions { qp: 2, ..port }.queue_pair(), ConnectionOptions::default())?;
/// let mut there = Connection::new(port.queue_pair(), ConnectionOptions::default())?;
/// let immediate = Some(Immediate::new(1, Psn::new(0)).0);
/// here.post(MessageOperation::Write { address: 256, key: port.key, immediate }, b"hello")?;
/// let mut memory = vec![0; 1024];
/// let mut arrived = 0;
/// here.transmit(0, |_| {
///     // The first one is lost.
///     true
/// });
/// let overdue = here.deadline_ns().expect("an acknowledgement is waited for");
/// here.transmit(overdue, |packet| {
///     arrived += u32::from(matches!(there.receive(packet, &mut memory[..], overdue), Ok(Some(PacketEffect::Arrived(_)))));
///     true
/// });
/// there.transmit(overdue, |acknowledgement| {
///     here.receive(acknowledgement, &mut [0; 0][..], overdue).expect("it is right");
///     true
/// });
/// assert_eq!((arrived, &memory[256..261]), (1, &b"hello"[..]));
/// assert_eq!((here.requester().stats().completed, here.requester().stats().retransmitted), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    requester: Requester,
    responder: ReliableResponder,
    first: Psn,
    remote_qp: u32,
}

impl Connection {
    /// A connection that has sent and received nothing.
    ///
    /// # Errors
    /// The numbers of `qp` do not form a valid queue pair.
    pub fn new(qp: LocalQueuePair, options: ConnectionOptions) -> Result<Self, QueuePairError> {
        let ConnectionOptions { requester, gathered_bytes, not_ready_timer } = options;
        let responder = Responder::new(qp)?.gathering(gathered_bytes);
        Ok(Self {
            first: requester.first,
            remote_qp: requester.destination_qp,
            requester: Requester::new(requester),
            responder: ReliableResponder::new(responder, requester.first, not_ready_timer),
        })
    }

    /// Restarts the connection with another queue pair of the peer. The counters stay.
    pub fn restart(&mut self, remote_qp: u32) {
        self.remote_qp = remote_qp;
        self.requester.restart(remote_qp);
        self.responder.restart(self.first);
    }

    /// The sending half.
    #[must_use]
    pub const fn requester(&self) -> &Requester {
        &self.requester
    }

    /// The receiving half.
    #[must_use]
    pub const fn responder(&self) -> &ReliableResponder {
        &self.responder
    }

    /// The connection's counters; [`Responder::stats`] counts packets and refusals.
    #[must_use]
    pub const fn stats(&self) -> ConnectionStats {
        ConnectionStats { requester: *self.requester.stats(), responder: *self.responder.stats() }
    }

    /// The peer's queue pair.
    #[must_use]
    pub const fn remote_qp(&self) -> u32 {
        self.remote_qp
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub const fn ended(&self) -> Option<ReliableError> {
        self.requester.ended()
    }

    /// When [`transmit`](Self::transmit) has to be called next, unless a packet or a message comes first.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.requester.deadline_ns()
    }

    /// Counts a packet that was refused before it came here.
    pub const fn count_refusal(&mut self, reason: Reason) {
        self.responder.count_refusal(reason);
    }

    /// Queues a message. [`transmit`](Self::transmit) sends it, again if necessary, until the peer has acknowledged it.
    ///
    /// # Errors
    /// See [`MessagePostError`].
    pub fn post(&mut self, operation: MessageOperation, bytes: &[u8]) -> Result<(), MessagePostError> {
        self.requester.post(operation, bytes)
    }

    /// Takes in a packet. `None`: an acknowledgement.
    ///
    /// # Errors
    /// Why the packet was refused; the refusal is counted.
    pub fn receive<'a, M: PeerMemory + ?Sized>(
        &mut self,
        packet: &Packet<'a>,
        memory: &mut M,
        now_ns: u64,
    ) -> Result<Option<PacketEffect<'a>>, Reason> {
        let Some(aeth) = packet.aeth.filter(|_| packet.bth.opcode.verb() == Verb::Acknowledge) else {
            return self.responder.receive(packet, memory).map(Some);
        };
        if packet.bth.destination_qp != self.responder.responder().queue_pair().number {
            self.count_refusal(Reason::WrongQp);
            return Err(Reason::WrongQp);
        }
        self.requester.acknowledge(packet.bth.psn, aeth, now_ns);
        Ok(None)
    }

    /// Passes packets that are due to `emit` until it refuses one: first the reply to the peer, then messages, with
    /// overdue packets again. Returns how many packets `emit` took. (A reply that `emit` refuses is lost, as a packet
    /// on the network may be.)
    pub fn transmit(&mut self, now_ns: u64, mut emit: impl FnMut(&Packet<'_>) -> bool) -> usize {
        let mut emitted = 0;
        if let Some((psn, aeth)) = self.responder.take_reply() {
            emitted += usize::from(emit(&Packet::acknowledge(self.remote_qp, psn, aeth)));
        }
        self.requester.tick(now_ns);
        emitted + self.requester.transmit(now_ns, emit)
    }
}
