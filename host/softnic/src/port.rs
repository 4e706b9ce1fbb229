//! A NIC's port on a UDP socket: RoCE v2 packets become messages, messages become packets.

use crate::counts::{Count, Counts};
use ringcall_nic::{Message, Port};
use ringcall_roce::opcode::Part;
use ringcall_roce::{
    Busy, Event, Immediate, Inbox, MAX_OVERHEAD_BYTES, Memory, Opcode, Outbox, Packet, PortOptions, Psn,
    PushError, QueuePairError, Reason, Responder, Reth, RoceSocket, SocketError,
};
use std::net::SocketAddrV4;
use std::sync::Arc;

/// The largest path MTU: no message is sent that is longer, as none is cut into several packets.
pub const MAX_MESSAGE_BYTES: u32 = 4096;

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

/// Where a packet's bytes go before the NIC has them.
#[derive(Debug)]
enum Staging {
    /// A window of our own, frame by frame.
    Window(Box<[u8]>),
    /// The last packet's place and bytes, and the message that it continues.
    Last { window_bytes: u64, offset: Option<u64>, bytes: Vec<u8>, begun: u64, message: Vec<u8> },
}

impl Memory for Staging {
    fn bytes(&self) -> u64 {
        match self {
            Self::Window(window) => window.bytes(),
            Self::Last { window_bytes, .. } => *window_bytes,
        }
    }

    fn write(&mut self, at: u64, payload: &[u8]) -> Result<(), Busy> {
        match self {
            Self::Window(window) => window.write(at, payload),
            Self::Last { offset, bytes, .. } => {
                *offset = Some(at);
                bytes.clear();
                bytes.extend_from_slice(payload);
                Ok(())
            }
        }
    }
}

/// A queue pair's port: one peer, sequence numbers both ways, every check of the unreliable connected service.
///
/// Duplicates are dropped by their sequence numbers, frames that lost a packet are not completed. (An adapter looks at
/// neither for messages of one packet, and would deliver both.)
#[derive(Debug)]
pub struct RocePort {
    socket: RoceSocket,
    options: PortOptions,
    responder: Responder,
    staging: Staging,
    peer: Option<SocketAddrV4>,
    /// Of the next packet out.
    psn: Psn,
    inbox: Inbox,
    seen: usize,
    here: usize,
    outbox: Outbox,
    counts: Arc<Counts>,
    closed: bool,
}

impl RocePort {
    /// Binds.
    ///
    /// # Errors
    /// Options that make no queue pair, or an address that is taken or not ours.
    pub fn bind(options: PortOptions, delivery: Delivery) -> Result<Self, PortError> {
        let responder = Responder::new(options.queue_pair())?;
        let window_bytes = options.pages as usize * options.page_bytes as usize;
        let staging = match delivery {
            Delivery::Frames => Staging::Window(vec![0; window_bytes].into()),
            Delivery::Packets => Staging::Last {
                window_bytes: window_bytes as u64,
                offset: None,
                bytes: Vec::new(),
                begun: 0,
                message: Vec::new(),
            },
        };
        let packet_bytes = options.page_bytes.max(MAX_MESSAGE_BYTES) as usize + MAX_OVERHEAD_BYTES;
        Ok(Self {
            socket: RoceSocket::bind(options.address)?,
            options,
            responder,
            staging,
            peer: options.peer,
            psn: Psn::first(),
            inbox: Inbox::new(packet_bytes),
            seen: 0,
            here: 0,
            outbox: Outbox::new(MAX_MESSAGE_BYTES as usize + MAX_OVERHEAD_BYTES),
            counts: Arc::default(),
            closed: false,
        })
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
        let gone = (before - self.outbox.len()) as u64;
        // The packet that failed has left the outbox too.
        self.counts.add(Count::Sent, gone - u64::from(failed));
        self.counts.add(Count::Unsent, failed.into());
        self.counts.add(Count::Errors, failed.into());
        self.outbox.is_empty()
    }

    /// Takes a batch from the socket; false if nothing was there.
    fn refill(&mut self) -> bool {
        if self.closed {
            return false;
        }
        (self.seen, self.here) = (0, 0);
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

    /// One packet; what it completes.
    fn take(&mut self, index: usize, payload: &mut Vec<u8>) -> Option<Message> {
        let Self { socket, options, responder, staging, peer, psn, inbox, counts, .. } = self;
        let (source, datagram) = inbox.iter().nth(index)?;
        let Some(packet) = options.accept(socket, source, datagram) else {
            counts.add(Count::Refused, 1);
            return None;
        };
        if options.peer.is_none() && *peer != Some(source) {
            if !responder.queue_pair().is_opened_by(&packet) {
                counts.add(Count::Refused, 1);
                return None;
            }
            *peer = Some(source);
            *psn = Psn::first();
            responder.restart();
        }
        let outcome = responder.receive(&packet, staging);
        counts.set(Count::Lost, responder.stats().lost_packets());
        let event = match outcome {
            Ok(event) => event,
            Err(why) => {
                let repeated = why == Reason::Duplicate;
                counts.add(if repeated { Count::Repeated } else { Count::Refused }, 1);
                return None;
            }
        };
        counts.add(Count::Accepted, 1);
        let message = deliver(options, staging, &packet, event, payload);
        counts.add(Count::Delivered, message.is_some().into());
        message
    }
}

/// What an accepted packet means to the NIC, if it means anything yet.
fn deliver(
    options: &PortOptions,
    staging: &mut Staging,
    packet: &Packet<'_>,
    event: Event<'_>,
    payload: &mut Vec<u8>,
) -> Option<Message> {
    let PortOptions { key: rkey, base, page_bytes, .. } = *options;
    payload.clear();
    if let Event::Message(bytes) = event {
        payload.extend_from_slice(bytes);
        return Some(packet.immediate.map_or(Message::Send, |immediate| Message::SendImm { immediate }));
    }
    let immediate = |event| match event {
        Event::Arrived(arrived) => Some(arrived.immediate.0),
        Event::Written | Event::Message(_) => None,
    };
    match staging {
        Staging::Window(window) => {
            let Event::Arrived(arrived) = event else { return None };
            let start = arrived.slot as usize * page_bytes as usize;
            payload.extend_from_slice(window.get(start..start + arrived.bytes as usize)?);
            let immediate = arrived.immediate.0;
            Some(Message::WriteImm { address: base + start as u64, rkey, immediate })
        }
        Staging::Last { offset, bytes, begun, message, .. } => {
            let at = offset.take()?;
            let part = packet.bth.opcode.part();
            if matches!(part, Part::First | Part::Only) {
                *begun = at;
                message.clear();
            }
            message.extend_from_slice(bytes);
            if matches!(part, Part::First | Part::Middle) {
                return None;
            }
            payload.extend_from_slice(message);
            let address = base + *begun;
            Some(match immediate(event) {
                Some(immediate) => Message::WriteImm { address, rkey, immediate },
                None => Message::Write { address, rkey },
            })
        }
    }
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
        let lost = |port: &Self| {
            port.counts.add(Count::Unsent, 1);
            false
        };
        let Some(peer) = self.peer else { return lost(self) };
        // No more than a packet's, or refused.
        let Some(length) = u32::try_from(payload.len()).ok().filter(|&n| n <= MAX_MESSAGE_BYTES) else {
            return lost(self);
        };
        let (qp, psn) = (self.options.remote_qp, self.psn);
        let packet = match message {
            Message::Send => Packet::send(qp, psn, payload),
            Message::SendImm { immediate } => {
                let mut packet = Packet::send(qp, psn, payload);
                packet.bth.opcode = Opcode::UcSendOnlyImmediate;
                packet.immediate = Some(immediate);
                packet
            }
            Message::Write { address, rkey: key } => {
                Packet::write_only(qp, psn, Reth { address, key, length }, payload)
            }
            Message::WriteImm { address, rkey: key, immediate } => {
                let reth = Reth { address, key, length };
                Packet::write_immediate(qp, psn, reth, Immediate(immediate), payload)
            }
        };
        let mut pushed = self.outbox.push(&self.socket, peer, &packet);
        if matches!(pushed, Err(PushError::Full)) && self.flush() {
            pushed = self.outbox.push(&self.socket, peer, &packet);
        }
        if pushed.is_err() {
            return lost(self);
        }
        self.psn = psn.next();
        true
    }
}
