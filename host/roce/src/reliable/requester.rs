//! The sending half of a reliable connection: keeps and retransmits messages until the peer acknowledges them.

use crate::message::{Message, MessageOperation};
use crate::mtu::PathMtu;
use crate::opcode::{Part, Service};
use crate::packet::{Aeth, Packet};
use crate::psn::Psn;
use crate::reliable::syndrome::{AckSyndrome, Nak, rnr_ns};
use serde::Serialize;
use std::collections::VecDeque;

/// Options of a sending half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequesterOptions {
    /// The peer's queue pair.
    pub destination_qp: u32,
    /// The number of the first packet, which the peer expects.
    pub first: Psn,
    /// The path MTU.
    pub mtu: PathMtu,
    /// The most unacknowledged packets. Default: 64.
    pub window: u32,
    /// How long to wait for an acknowledgement, in ns. Default: 4.096 us × 2¹⁴, which is 67 ms, as in most RDMA
    /// programs.
    pub timeout_ns: u64,
    /// How often a packet is retransmitted before the connection is given up. Default: 7.
    pub retries: u32,
    /// How often the peer may answer "not ready" to the same packet. Default: 64.
    pub not_ready_retries: u32,
    /// The most messages that are queued or unacknowledged. Default: 128.
    pub messages: usize,
    /// The longest message. Default: 4096 bytes.
    pub message_bytes: usize,
}

impl Default for RequesterOptions {
    fn default() -> Self {
        Self {
            destination_qp: 2,
            first: Psn::new(0),
            mtu: PathMtu::default(),
            window: 64,
            timeout_ns: 4_096 << 14,
            retries: 7,
            not_ready_retries: 64,
            messages: 128,
            message_bytes: 4096,
        }
    }
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReliableError {
    /// The peer acknowledged nothing.
    #[error("transport retries exceeded: the peer acknowledged nothing, although packets were sent again")]
    RetriesExceeded,
    /// The peer answered "not ready" every time.
    #[error("receiver-not-ready retries exceeded: the peer had no receive buffer all the time")]
    NotReadyRetriesExceeded,
    /// The peer does not support the requested operation.
    #[error("remote invalid request: the peer does not serve what it was asked")]
    InvalidRequest,
    /// The key or the addresses are not those of the peer's window.
    #[error("remote access error: key or address is not of the peer's window")]
    RemoteAccess,
    /// The peer failed.
    #[error("remote operation error: the peer failed")]
    RemoteOperation,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessagePostError {
    /// As many messages as allowed are queued.
    #[error("{0} messages wait for acknowledgements")]
    Full(usize),
    /// The message is longer than the options allow.
    #[error("a message of {bytes} bytes, where {most} are the most")]
    TooLong {
        /// The message's bytes.
        bytes: usize,
        /// The most bytes.
        most: usize,
    },
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] ReliableError),
}

/// Counters of a sending half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequesterStats {
    /// Messages accepted.
    pub posted: u64,
    /// Messages that the peer has acknowledged.
    pub completed: u64,
    /// Messages not acknowledged when the connection ended.
    pub flushed: u64,
    /// Packets sent for the first time.
    pub packets: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Acknowledgements that did not come in time.
    pub timeouts: u64,
    /// Times that the peer reported missing packets.
    pub nak_sequence: u64,
    /// Times that the peer reported "not ready".
    pub not_ready: u64,
    /// Acknowledgements of packets that are not waiting for one.
    pub stale: u64,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    operation: MessageOperation,
    first: Psn,
    packets: u32,
    /// The part of the buffer that holds the message, and the message's length.
    slot: usize,
    bytes: usize,
}

impl Posted {
    const fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }
}

/// The sending half of a reliable connection. Nothing is allocated after [`Self::new`].
#[derive(Clone, Debug)]
pub struct Requester {
    options: RequesterOptions,
    queue: VecDeque<Posted>,
    buffer: Box<[u8]>,
    /// The next free part of the buffer.
    slot: usize,
    /// The oldest unacknowledged packet.
    oldest: Psn,
    cursor: Psn,
    /// The number after the furthest packet sent.
    sent: Psn,
    /// The first packet of the next message.
    next: Psn,
    retries: u32,
    not_ready_retries: u32,
    deadline_ns: Option<u64>,
    /// Nothing is sent before this time.
    resume_ns: Option<u64>,
    ended: Option<ReliableError>,
    stats: RequesterStats,
}

impl Requester {
    /// A sending half that has sent nothing.
    #[must_use]
    pub fn new(options: RequesterOptions) -> Self {
        let RequesterOptions { first, messages, message_bytes, .. } = options;
        Self {
            options,
            queue: VecDeque::with_capacity(messages),
            buffer: vec![0; messages * message_bytes].into(),
            slot: 0,
            oldest: first,
            cursor: first,
            sent: first,
            next: first,
            retries: 0,
            not_ready_retries: 0,
            deadline_ns: None,
            resume_ns: None,
            ended: None,
            stats: RequesterStats::default(),
        }
    }

    /// Restarts with another queue pair of the peer. Queued messages are given up; the counters stay.
    pub fn restart(&mut self, destination_qp: u32) {
        self.give_up();
        let first = self.options.first;
        self.options.destination_qp = destination_qp;
        (self.oldest, self.cursor, self.sent, self.next) = (first, first, first, first);
        (self.retries, self.not_ready_retries) = (0, 0);
        (self.deadline_ns, self.resume_ns, self.ended) = (None, None, None);
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub const fn ended(&self) -> Option<ReliableError> {
        self.ended
    }

    /// The counters.
    #[must_use]
    pub const fn stats(&self) -> &RequesterStats {
        &self.stats
    }

    /// Messages that are queued or unacknowledged.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The sequence number of the last packet of a message of `bytes`, if it is posted next.
    #[must_use]
    pub const fn last_of_next(&self, bytes: usize) -> Psn {
        self.next.plus(self.options.mtu.packets(bytes) - 1)
    }

    /// When [`tick`](Self::tick) or [`transmit`](Self::transmit) has to be called next, unless a packet or a message
    /// comes first.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.deadline_ns.into_iter().chain(self.resume_ns).min()
    }

    /// Queues a message for `transmit`.
    ///
    /// # Errors
    /// See [`MessagePostError`].
    pub fn post(&mut self, operation: MessageOperation, bytes: &[u8]) -> Result<(), MessagePostError> {
        if let Some(error) = self.ended {
            return Err(error.into());
        }
        let RequesterOptions { messages, message_bytes: most, mtu, .. } = self.options;
        if bytes.len() > most {
            return Err(MessagePostError::TooLong { bytes: bytes.len(), most });
        }
        if self.queue.len() == messages {
            return Err(MessagePostError::Full(messages));
        }
        let slot = self.slot;
        self.slot = if slot + 1 < messages { slot + 1 } else { 0 };
        self.buffer[slot * most..][..bytes.len()].copy_from_slice(bytes);
        let packets = mtu.packets(bytes.len());
        self.queue.push_back(Posted { operation, first: self.next, packets, slot, bytes: bytes.len() });
        self.next = self.next.plus(packets);
        self.stats.posted += 1;
        Ok(())
    }

    /// Passes packets that may be sent now to `emit` until it refuses one. Returns how many it took.
    pub fn transmit(&mut self, now_ns: u64, mut emit: impl FnMut(&Packet<'_>) -> bool) -> usize {
        if self.ended.is_some() || self.resume_ns.is_some_and(|resume| now_ns < resume) {
            return 0;
        }
        self.resume_ns = None;
        let mut emitted = 0;
        let RequesterOptions { destination_qp, mtu, window, message_bytes, timeout_ns, .. } = self.options;
        while self.cursor != self.next && self.cursor.offset_from(self.oldest) < window as i32 {
            let index = self.queue.partition_point(|posted| posted.end().offset_from(self.cursor) <= 0);
            let Some(posted) = self.queue.get(index) else { break };
            let bytes = &self.buffer[posted.slot * message_bytes..][..posted.bytes];
            let message =
                Message { service: Service::Rc, operation: posted.operation, destination_qp, mtu, bytes };
            // Not negative: the message contains the cursor.
            let place = self.cursor.offset_from(posted.first).unsigned_abs();
            let mut packet = message.packet(place, posted.first);
            // An acknowledgement is requested at the end of a message, and before the window is full.
            let left = window as i32 - 1 - self.cursor.offset_from(self.oldest);
            let ends = matches!(packet.bth.opcode.part(), Part::Last | Part::Only);
            packet.bth.acknowledge = ends || left == 0 || left == window as i32 / 2;
            if !emit(&packet) {
                break;
            }
            emitted += 1;
            self.cursor = self.cursor.next();
            if self.cursor.offset_from(self.sent) > 0 {
                self.sent = self.cursor;
                self.stats.packets += 1;
            } else {
                self.stats.retransmitted += 1;
            }
            self.deadline_ns.get_or_insert(now_ns.saturating_add(timeout_ns));
        }
        emitted
    }

    /// Takes in an acknowledgement of the peer.
    pub fn acknowledge(&mut self, psn: Psn, aeth: Aeth, now_ns: u64) {
        if self.ended.is_some() {
            return;
        }
        let place = psn.offset_from(self.oldest);
        let Some(syndrome) = AckSyndrome::from_code(aeth.syndrome) else {
            self.stats.stale += 1;
            return;
        };
        // Only a packet that was sent and is not yet acknowledged counts.
        if place < 0 || psn.offset_from(self.sent) >= 0 {
            self.stats.stale += 1;
            return;
        }
        match syndrome {
            AckSyndrome::Ack => self.advance(psn.next(), now_ns),
            AckSyndrome::NotReady { timer } => {
                self.stats.not_ready += 1;
                self.advance(psn, now_ns);
                self.cursor = psn;
                self.deadline_ns = None;
                self.resume_ns = Some(now_ns.saturating_add(rnr_ns(timer)));
                self.not_ready_retries += 1;
                if self.not_ready_retries > self.options.not_ready_retries {
                    self.end(ReliableError::NotReadyRetriesExceeded);
                }
            }
            AckSyndrome::Nak(Nak::Sequence) => {
                self.stats.nak_sequence += 1;
                self.advance(psn, now_ns);
                self.again();
            }
            AckSyndrome::Nak(Nak::InvalidRequest) => self.end(ReliableError::InvalidRequest),
            AckSyndrome::Nak(Nak::RemoteAccess) => self.end(ReliableError::RemoteAccess),
            AckSyndrome::Nak(Nak::RemoteOperation) => self.end(ReliableError::RemoteOperation),
        }
    }

    /// Marks every packet before `psn` as received.
    fn advance(&mut self, psn: Psn, now_ns: u64) {
        if psn.offset_from(self.oldest) <= 0 {
            return;
        }
        self.oldest = psn;
        (self.retries, self.not_ready_retries) = (0, 0);
        while self.queue.front().is_some_and(|posted| posted.end().offset_from(psn) <= 0) {
            self.queue.pop_front();
            self.stats.completed += 1;
        }
        if self.cursor.offset_from(psn) < 0 {
            self.cursor = psn;
        }
        let waits = self.sent.offset_from(psn) > 0;
        self.deadline_ns = waits.then(|| now_ns.saturating_add(self.options.timeout_ns));
    }

    /// Retransmits from the oldest unacknowledged packet on, or ends the connection.
    fn again(&mut self) {
        if self.retries == self.options.retries {
            return self.end(ReliableError::RetriesExceeded);
        }
        self.retries += 1;
        self.cursor = self.oldest;
        self.deadline_ns = None;
    }

    /// Checks whether an acknowledgement is overdue.
    pub fn tick(&mut self, now_ns: u64) {
        if self.deadline_ns.is_some_and(|deadline| now_ns >= deadline) {
            self.stats.timeouts += 1;
            self.again();
        }
    }

    fn end(&mut self, error: ReliableError) {
        self.ended = Some(error);
        (self.deadline_ns, self.resume_ns) = (None, None);
        self.give_up();
    }

    fn give_up(&mut self) {
        self.stats.flushed += self.queue.len() as u64;
        self.queue.clear();
    }
}
