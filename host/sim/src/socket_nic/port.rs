//! A NIC's port on a UDP socket: RoCE v2 packets become messages, messages become packets.

use crate::nic::{Message, Port};
use crate::socket_nic::counts::{Count, Counts};
use ringcall_roce::introduced::{Introduced, Introduction};
use ringcall_roce::opcode::{Part, Service};
use ringcall_roce::{
    BATCH, Busy, Inbox, MAX_OVERHEAD_BYTES, MessageOperation, Packet, PacketEffect, PacketOutbox, PathMtu,
    PeerMemory, Peers, PortOptions, Psn, QueuePairError, Reason, Responder, RoceSocket, SocketError,
};
use ringcall_wire::HEADER_BYTES;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::mpsc;

/// The longest message that is sent: the largest path MTU.
pub const MAX_MESSAGE_BYTES: u32 = 4096;

/// Room for a batch of messages of one packet, and for the longest message of the smallest packets.
const OUTBOX_PACKETS: usize = BATCH;
const _: () = assert!(PathMtu::B256.packets(MAX_MESSAGE_BYTES as usize) as usize <= OUTBOX_PACKETS);

/// When a request's bytes are written to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// When every packet of it has come: it is put together here and given to the NIC as one write with immediate, whose
    /// completion tells the length of all. A request that lost a packet never reaches memory.
    #[default]
    Frames,
    /// As packets come, as an adapter does: the completion tells the length of the last message alone, so requests of
    /// several messages are as long as their slot.
    Packets,
}

/// Why there is no port.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Numbers that make no queue pair.
    #[error(transparent)]
    QueuePair(#[from] QueuePairError),
    /// No socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// A request that the NIC has, and whose answer is to be sent.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    page: u32,
    request_id: u32,
    from: SocketAddrV4,
}

/// Requests in flight: the oldest first, one a page at most.
#[derive(Debug)]
struct Requests {
    in_flight: Vec<InFlight>,
    /// Whether answers come in the order of their requests.
    in_order: bool,
}

impl Requests {
    fn new(pages: u32) -> Self {
        Self { in_flight: Vec::with_capacity(pages as usize), in_order: true }
    }

    /// Records a request before it is delivered; false if its page has another in flight, or if its answer could not be told from
    /// that of another peer's request.
    fn begin(&mut self, page: u32, bytes: &[u8], from: SocketAddrV4) -> bool {
        // The id that the answer will echo: zero, as its, if there is no header.
        let header =
            bytes.first_chunk::<HEADER_BYTES>().and_then(|bytes| RequestHeader::from_bytes(bytes).ok());
        let request_id = header.map_or(0, |header| header.request_id);
        // However old the other is: its handler may still run.
        let taken = |other: &InFlight| {
            other.page == page || (!self.in_order && other.request_id == request_id && other.from != from)
        };
        if self.in_flight.iter().any(taken) {
            return false;
        }
        self.in_flight.push(InFlight { page, request_id, from });
        true
    }

    /// The peer whose request a message answers: of those with the answer's id the oldest, which in any order are one peer's.
    fn end(&mut self, message: &[u8]) -> Option<SocketAddrV4> {
        let header =
            message.first_chunk::<HEADER_BYTES>().and_then(|bytes| ResponseHeader::from_bytes(bytes).ok());
        let request_id = header.map_or(0, |header| header.request_id);
        let index = self.in_flight.iter().position(|request| request.request_id == request_id)?;
        if !self.in_order {
            return Some(self.in_flight.remove(index).from);
        }
        // Requests before this one will have no answer: their pages become free.
        self.in_flight.drain(..=index).next_back().map(|request| request.from)
    }
}

/// The header of a request; zeros, as the one that is answered to, if there is none.
fn header_of(bytes: &[u8]) -> RequestHeader {
    let header = bytes.first_chunk::<HEADER_BYTES>().and_then(|bytes| RequestHeader::from_bytes(bytes).ok());
    header.unwrap_or_else(|| RequestHeader::from_words([0; 3]))
}

/// The receiving end of the queue pair, by [`Delivery`].
#[derive(Debug)]
enum Receiver {
    /// A window for each peer, frame by frame. The requests in flight say whose answer a message is; `None` where answers
    /// leave by another queue pair.
    Frames { peers: Box<Peers>, requests: Option<Requests> },
    /// One peer, the last that brought the key; packet by packet.
    Packets { responder: Box<Responder>, last: LastPacket },
}

/// The last packet's address and bytes, and the message that it continues.
#[derive(Debug, Default)]
struct LastPacket {
    window_bytes: u64,
    offset: Option<u64>,
    bytes: Vec<u8>,
    begun: u64,
    message: Vec<u8>,
}

impl PeerMemory for LastPacket {
    fn bytes(&self) -> u64 {
        self.window_bytes
    }

    fn write(&mut self, at: u64, payload: &[u8]) -> Result<(), Busy> {
        self.offset = Some(at);
        self.bytes.clear();
        self.bytes.extend_from_slice(payload);
        Ok(())
    }
}

impl LastPacket {
    /// The message that an accepted packet ends, if it ends one.
    fn message(
        &mut self,
        options: &PortOptions,
        packet: &Packet<'_>,
        event: PacketEffect<'_>,
        payload: &mut Vec<u8>,
    ) -> Option<Message> {
        let PortOptions { key: rkey, base, .. } = *options;
        let at = self.offset.take()?;
        let part = packet.bth.opcode.part();
        if matches!(part, Part::First | Part::Only) {
            self.begun = at;
            self.message.clear();
        }
        self.message.extend_from_slice(&self.bytes);
        if matches!(part, Part::First | Part::Middle) {
            return None;
        }
        payload.extend_from_slice(&self.message);
        let address = base + self.begun;
        Some(match event {
            PacketEffect::Arrived(arrived) => {
                Message::WriteImm { address, rkey, immediate: arrived.immediate.0 }
            }
            PacketEffect::Written | PacketEffect::Message(_) | PacketEffect::Gathered => {
                Message::Write { address, rkey }
            }
        })
    }
}

/// A queue pair's port: sequence numbers both ways, every check of the unreliable connected service.
///
/// Duplicates are dropped by their sequence numbers, frames that lost a packet are not completed. (An adapter
/// looks at neither for messages of one packet, and would deliver both.) With [`Delivery::Frames`] several
/// peers may write at once: each has its own window, and gets the answers to its own requests. A request for
/// a page whose request is in flight is answered `BACKPRESSURE` and counted.
#[derive(Debug)]
pub struct RocePort {
    socket: RoceSocket,
    options: PortOptions,
    receiver: Receiver,
    /// The peer that wrote last; the one peer, if there is one.
    peer: Option<SocketAddrV4>,
    introduced: Introduced,
    /// Of the next packet to a peer that has no separate numbers.
    psn: Psn,
    inbox: Inbox,
    seen: usize,
    here: usize,
    outbox: PacketOutbox,
    /// Of each packet in the outbox: whether it ends its message.
    ends: VecDeque<bool>,
    /// A packet of the message that is going out has failed.
    is_broken: bool,
    counts: Arc<Counts>,
    closed: bool,
}

impl RocePort {
    /// Binds. `peers` may write at a time with [`Delivery::Frames`], one with [`Delivery::Packets`].
    ///
    /// # Errors
    /// Options that make no queue pair, or an address that is taken or not ours.
    pub fn bind(options: PortOptions, delivery: Delivery, peers: usize) -> Result<Self, PortError> {
        Self::over(RoceSocket::bind(options.address)?, options, delivery, peers)
    }

    /// Takes a socket that is bound already, in place of the one at [`PortOptions::address`].
    ///
    /// # Errors
    /// Options that make no queue pair.
    pub fn over(
        socket: RoceSocket,
        options: PortOptions,
        delivery: Delivery,
        peers: usize,
    ) -> Result<Self, PortError> {
        let receiver = match delivery {
            Delivery::Frames => {
                let peers = Peers::new(options.queue_pair(), peers.max(1))?;
                let mut peers = Box::new(peers.numbered_from(socket.first_psn()));
                peers.allocate();
                let requests = Requests::new(options.pages);
                Receiver::Frames { peers, requests: Some(requests) }
            }
            Delivery::Packets => Receiver::Packets {
                responder: Box::new(Responder::new(options.queue_pair())?),
                last: LastPacket {
                    window_bytes: u64::from(options.pages) * u64::from(options.page_bytes),
                    ..LastPacket::default()
                },
            },
        };
        let packet_bytes = options.page_bytes.max(MAX_MESSAGE_BYTES) as usize + MAX_OVERHEAD_BYTES;
        Ok(Self {
            options,
            receiver,
            peer: options.peer,
            introduced: Introduced::none(),
            psn: socket.first_psn().unwrap_or_else(Psn::first),
            socket,
            inbox: Inbox::new(packet_bytes),
            seen: 0,
            here: 0,
            outbox: PacketOutbox::with_room(OUTBOX_PACKETS, options.mtu.bytes() + MAX_OVERHEAD_BYTES),
            ends: VecDeque::with_capacity(OUTBOX_PACKETS),
            is_broken: false,
            counts: Arc::default(),
            closed: false,
        })
    }

    /// For a queue pair whose answers leave by another queue pair: requests in flight are not recorded. A message goes to the peer that wrote last, and a page may be written while its request
    /// is in flight.
    #[must_use]
    pub fn without_requests(mut self) -> Self {
        if let Receiver::Frames { requests, .. } = &mut self.receiver {
            *requests = None;
        }
        self
    }

    /// For a queue pair whose answers leave in another order than their requests came. Of two peers' requests with one id the second is
    /// answered `BACKPRESSURE` while the first is in flight: their answers could not be told apart.
    #[must_use]
    pub fn answered_in_any_order(mut self) -> Self {
        if let Receiver::Frames { requests: Some(requests), .. } = &mut self.receiver {
            requests.in_order = false;
        }
        self
    }

    /// Answers to peers that introduce themselves at a rendezvous go to the queue pair that they name, and to port 4791 unless there
    /// is [one peer](PortOptions::peer). So many are known at a time.
    #[must_use]
    pub fn introduced_by(mut self, rendezvous: mpsc::Receiver<Introduction>, peers: usize) -> Self {
        self.introduced = Introduced::new(rendezvous, peers);
        self
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddrV4 {
        self.socket.local_addr()
    }

    /// What it counts, live.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// The socket: to wait on it, from the port's own thread.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn socket(&self) -> std::io::Result<RoceSocket> {
        self.socket.try_clone()
    }

    /// Takes nothing more from the socket; what was taken is still delivered.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Hands the socket what waits, as far as it takes it; whether nothing waits any more.
    pub fn flush(&mut self) -> bool {
        if self.outbox.is_empty() {
            return true;
        }
        let before = self.outbox.len();
        let failed = self.socket.send(&mut self.outbox).is_err();
        let gone = before - self.outbox.len();
        // The packet that failed has left the outbox too, as the last one.
        for (left, ends) in (0..gone).rev().zip(self.ends.drain(..gone)) {
            self.is_broken |= failed && left == 0;
            if ends {
                let count = if std::mem::take(&mut self.is_broken) { Count::Unsent } else { Count::Sent };
                self.counts.add(count, 1);
            }
        }
        self.counts.add(Count::Errors, failed.into());
        self.outbox.is_empty()
    }

    /// Takes a batch from the socket; false if nothing was there.
    fn refill(&mut self) -> bool {
        if self.closed {
            return false;
        }
        (self.seen, self.here) = (0, 0);
        while let Some(met) = self.introduced.take_next() {
            let peer = self.options.peer.unwrap_or(met.address());
            match &mut self.receiver {
                Receiver::Frames { peers, .. } => peers.forget(peer),
                Receiver::Packets { .. } if self.peer == Some(peer) => self.peer = self.options.peer,
                Receiver::Packets { .. } => (),
            }
        }
        let before = self.inbox.too_long();
        let Ok(taken) = self.socket.receive(&mut self.inbox) else {
            self.counts.add(Count::Errors, 1);
            return false;
        };
        let too_long = self.inbox.too_long() - before;
        self.counts.add(Count::Packets, taken as u64);
        self.counts.add(Count::Refused, too_long);
        self.here = taken - too_long as usize;
        taken > 0
    }

    /// Takes one packet in. Returns the message that it completes.
    fn take(&mut self, index: usize, payload: &mut Vec<u8>) -> Option<Message> {
        let Self { socket, options, receiver, peer: writer, introduced, psn, inbox, counts, .. } = self;
        let (source, datagram) = inbox.iter().nth(index)?;
        let refuse = |count| {
            counts.add(count, 1);
            None
        };
        let refuse_for = |reason| {
            match reason {
                Reason::Duplicate => return refuse(Count::Repeated),
                Reason::WrongIcrc => counts.add(Count::WrongIcrc, 1),
                Reason::WrongKey => counts.add(Count::WrongKey, 1),
                _ => (),
            }
            refuse(Count::Refused)
        };
        let packet = match options.accept(socket, source, datagram) {
            Ok(packet) => packet,
            Err(reason) => return refuse_for(reason),
        };
        let from = options.peer.unwrap_or_else(|| introduced.address(source));
        payload.clear();
        let message = match receiver {
            Receiver::Frames { peers, requests } => {
                let peer = match peers.hear(from, &packet) {
                    Ok(peer) => peer,
                    Err(reason) => return refuse_for(reason),
                };
                *writer = Some(from);
                let outcome = peer.receive(&packet);
                counts.add(Count::Lost, peer.newly_lost());
                counts.add(Count::Incomplete, peer.newly_incomplete());
                let message = match outcome {
                    Err(reason) => return refuse_for(reason),
                    Ok(PacketEffect::Written | PacketEffect::Gathered) => None,
                    Ok(PacketEffect::Message(bytes)) => {
                        payload.extend_from_slice(bytes);
                        Some(send_of(&packet))
                    }
                    Ok(PacketEffect::Arrived(arrived)) => {
                        let bytes = &peer.page(arrived.slot)[..arrived.bytes as usize];
                        if requests.as_mut().is_some_and(|all| !all.begin(arrived.slot, bytes, from)) {
                            let header = header_of(bytes);
                            let reply = ResponseHeader::reply(&header, Status::BACKPRESSURE.0, 0).to_bytes();
                            counts.add(Count::Busy, 1);
                            self.transmit(Some(from), Message::Send, &reply);
                            return None;
                        }
                        payload.extend_from_slice(bytes);
                        let address = options.base + u64::from(arrived.slot) * u64::from(options.page_bytes);
                        Some(Message::WriteImm { address, rkey: options.key, immediate: arrived.immediate.0 })
                    }
                };
                counts.add(Count::Evicted, peers.newly_evicted());
                message
            }
            Receiver::Packets { responder, last } => {
                if *writer != Some(from) {
                    if let Err(reason) = responder.queue_pair().is_opened_by(&packet) {
                        return refuse_for(reason);
                    }
                    *writer = Some(from);
                    *psn = socket.first_psn().unwrap_or_else(Psn::first);
                    responder.restart();
                }
                let outcome = responder.receive(&packet, last);
                counts.set(Count::Lost, responder.stats().lost_packets());
                counts.set(Count::Incomplete, responder.stats().incomplete);
                match outcome {
                    Err(reason) => return refuse_for(reason),
                    Ok(PacketEffect::Message(bytes)) => {
                        payload.extend_from_slice(bytes);
                        Some(send_of(&packet))
                    }
                    Ok(event) => last.message(options, &packet, event, payload),
                }
            }
        };
        counts.add(Count::Accepted, 1);
        counts.add(Count::Delivered, message.is_some().into());
        message
    }

    /// The sequence number of the next packet to a peer; `None` if it lost its entry meanwhile and cannot be told.
    fn number(&mut self, to: SocketAddrV4) -> Option<&mut Psn> {
        match &mut self.receiver {
            Receiver::Frames { peers, .. } if self.options.peer != Some(to) => peers.number(to),
            _ => Some(&mut self.psn),
        }
    }

    /// Sends a message to a peer, as several packets if it is longer than the path MTU; false, and counted, if that cannot be.
    fn transmit(&mut self, to: Option<SocketAddrV4>, message: Message, payload: &[u8]) -> bool {
        let lost = |port: &Self| {
            port.counts.add(Count::Unsent, 1);
            false
        };
        let to = to.filter(|_| payload.len() <= MAX_MESSAGE_BYTES as usize);
        let Some(to) = to else { return lost(self) };
        let Some(&mut psn) = self.number(to) else { return lost(self) };
        let operation = match message {
            Message::Send => MessageOperation::Send { immediate: None },
            Message::SendImm { immediate } => MessageOperation::Send { immediate: Some(immediate) },
            Message::Write { address, rkey: key } => {
                MessageOperation::Write { address, key, immediate: None }
            }
            Message::WriteImm { address, rkey: key, immediate } => {
                MessageOperation::Write { address, key, immediate: Some(immediate) }
            }
        };
        let PortOptions { remote_qp, mtu, .. } = self.options;
        let destination_qp = self.introduced.queue_pair(to).unwrap_or(remote_qp);
        let service = Service::Uc;
        let message = ringcall_roce::Message { service, operation, destination_qp, mtu, bytes: payload };
        let packets = message.packets();
        if self.outbox.room() < packets as usize && !self.flush() {
            return lost(self);
        }
        for index in 0..packets {
            if self.outbox.push(&self.socket, to, &message.packet(index, psn)).is_err() {
                // Not for want of room: no packet of it is right, and the first one was not taken.
                return lost(self);
            }
            self.ends.push_back(index + 1 == packets);
        }
        if let Some(number) = self.number(to) {
            *number = psn.plus(packets);
        }
        true
    }
}

/// The message that a SEND of one packet is.
fn send_of(packet: &Packet<'_>) -> Message {
    packet.immediate.map_or(Message::Send, |immediate| Message::SendImm { immediate })
}

impl Port for RocePort {
    fn receive(&mut self, payload: &mut Vec<u8>) -> Option<Message> {
        self.flush();
        // One batch a call at most, so that it ends.
        if self.seen == self.here && !self.refill() {
            return None;
        }
        while self.seen < self.here {
            let index = self.seen;
            self.seen += 1;
            if let Some(message) = self.take(index, payload) {
                return Some(message);
            }
        }
        None
    }

    fn send(&mut self, message: Message, payload: &[u8]) -> bool {
        let to = match &mut self.receiver {
            Receiver::Frames { requests: Some(requests), .. } => requests.end(payload),
            _ => self.peer,
        };
        self.transmit(to, message, payload)
    }

    fn undelivered(&mut self) {
        if let Receiver::Frames { requests: Some(requests), .. } = &mut self.receiver {
            // The request that was given to the NIC last is the newest.
            requests.in_flight.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn request(id: u32) -> [u8; HEADER_BYTES] {
        RequestHeader::new(7, 0, id, 0).to_bytes()
    }

    fn answer(id: u32) -> [u8; HEADER_BYTES] {
        ResponseHeader::reply(&RequestHeader::new(7, 0, id, 0), 0, 0).to_bytes()
    }

    const PEERS: [SocketAddrV4; 2] =
        [SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2)];

    #[test]
    fn an_answer_in_order_frees_the_pages_of_those_before() {
        let mut requests = Requests::new(4);
        for (page, id) in [(0, 10), (1, 11), (2, 12)] {
            assert!(requests.begin(page, &request(id), PEERS[page as usize % 2]));
        }
        assert_eq!(requests.end(&answer(11)), Some(PEERS[1]));
        assert!(requests.begin(0, &request(13), PEERS[0]), "the first will have no answer");
        assert_eq!(requests.end(&answer(10)), None);
        assert!(!requests.begin(2, &request(14), PEERS[0]));
    }

    #[test]
    fn answers_in_any_order_find_their_peers() {
        let mut requests = Requests { in_order: false, ..Requests::new(4) };
        for (page, id) in [(0, 10), (1, 11), (2, 12)] {
            assert!(requests.begin(page, &request(id), PEERS[page as usize % 2]));
        }
        assert!(!requests.begin(3, &request(11), PEERS[0]), "whose answer would it be?");
        assert!(requests.begin(3, &request(12), PEERS[0]));
        for (id, peer) in [(12, 0), (10, 0), (11, 1), (12, 0)] {
            assert_eq!(requests.end(&answer(id)), Some(PEERS[peer]));
        }
        assert_eq!(requests.end(&answer(12)), None);
    }
}
