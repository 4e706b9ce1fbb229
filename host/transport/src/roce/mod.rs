//! RoCE v2 transport without an adapter: requests are RDMA WRITEs into pages, answers are SENDs.
//!
//! # On the wire
//! The packets are those of a sensor bridge, as [`ringcall_roce`] reads them: a request is written to a page of a
//! window by WRITE ONLY packets (or by an adapter's FIRST, MIDDLE and LAST ones), the last of which has an immediate
//! that names the page. A page is a slot of the ring. The answer is a UC SEND, with sequence numbers for each peer. The
//! endpoint names everything that a peer must know: queue pair, key, first address, number and size of pages. An answer
//! longer than the [path MTU](PortOptions::mtu) is a UC SEND of several packets.
//!
//! # Where requests are assembled
//! In pages of the wire's, a window for each peer, so no peer writes into another peer's request or into a slot. A
//! frame is copied into its slot when all its packets have come; a frame that lost a packet never is. A frame for a
//! slot whose request is still being served is refused (`BACKPRESSURE`), as on every wire that names slots.
//!
//! # Where answers go
//! To the requests' source, or to the address in [`PortOptions::peer`]: an adapter takes packets only at port 4791,
//! from any source port. Up to [`RoceOptions::peers`] peers are known at a time. A packet of an unknown peer must bring
//! the window's key. The peer then takes the entry of the peer that was silent longest, which is counted as
//! [`evicted`](crate::TransportStats::evicted), and whose outstanding answers are counted as unsent. The newcomer's window
//! is zeroed.
//!
//! # The reliable service
//! [`ReliableRoce`] is a queue pair of the reliable connected service with one peer: each packet is sent again until it
//! is acknowledged. [`wrong_psn`](crate::TransportStats::wrong_psn) counts packets out of order, which the peer sends
//! again, [`resent`](crate::TransportStats::resent) the packets that this side sends again; `broken_…` counters say why a
//! connection has ended.
//!
//! # What is counted
//! [`lost`](crate::TransportStats::lost) counts packets that are missing by sequence number; a packet that comes late was
//! counted, and makes up for the next lost one. [`incomplete`](crate::TransportStats::incomplete) counts frames and
//! messages given up because some of their packets never came, [`repeated`](crate::TransportStats::repeated) duplicates.
//! [`wrong_icrc`](crate::TransportStats::wrong_icrc), [`wrong_key`](crate::TransportStats::wrong_key),
//! [`no_message`](crate::TransportStats::no_message) (an earlier packet is missing) and
//! [`forbidden`](crate::TransportStats::forbidden) (from a host that is not allowed) count refused packets by reason;
//! packets refused for any other reason (queue pair, addresses, not RoCE) are
//! [`malformed`](crate::TransportStats::malformed).

mod reliable;

pub use reliable::{ReliableOptions, ReliableRoce};

use crate::udp::MAX_DATAGRAM_BYTES;
use crate::wire::{KernelDrops, ReceivedFrame, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress, TransportError};
use ringcall_roce::introduced::{Introduced, Introduction};
use ringcall_roce::opcode::{Service, Verb};
use ringcall_roce::{
    BATCH, Inbox, MAX_OVERHEAD_BYTES, MAX_PAGES, Message, MessageOperation, PAGE_UNIT_BYTES, PacketEffect,
    Peers, PortOptions, Reason, RoceSocket,
};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The most peers known at a time, unless [`RoceOptions::peers`] says otherwise.
pub const DEFAULT_PEERS: usize = 64;
/// The transport's name in an [`TransportAddress`].
pub const NAME: &str = "roce";

/// Options of a RoCE wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoceOptions {
    /// The queue pair and its window. The window has as many pages as the ring has slots; a page is a multiple of 128
    /// bytes and at least a slot. Default: 64 pages of 16 KiB, as rings have.
    pub port: PortOptions,
    /// The most peers known at a time. Each has its own window, which occupies memory once the peer writes to it.
    /// Default: [`DEFAULT_PEERS`].
    pub peers: usize,
}

impl Default for RoceOptions {
    fn default() -> Self {
        Self { port: PortOptions::new(64, 16 * 1024), peers: DEFAULT_PEERS }
    }
}

impl RoceOptions {
    fn check(&self) -> Result<(), TransportError> {
        let wrong = |setting, value: u64, needed| Err(TransportError::Setting { setting, value, needed });
        let PortOptions { pages, page_bytes, remote_qp, .. } = self.port;
        if pages == 0 || pages > MAX_PAGES {
            return wrong("the number of pages", pages.into(), "give 1 to 4096");
        }
        if page_bytes == 0 || !page_bytes.is_multiple_of(PAGE_UNIT_BYTES) {
            return wrong("the page size", page_bytes.into(), "give a multiple of 128 bytes");
        }
        if remote_qp >> 24 != 0 {
            return wrong("the remote queue pair", remote_qp.into(), "it has 24 bits");
        }
        if self.peers == 0 {
            return wrong("the number of peers", 0, "give at least 1");
        }
        Ok(())
    }
}

/// A service's queue pair in software, bound to a UDP socket. Its callers are FPGAs, or simulated by `ringcall-sim`.
///
/// ```
/// use ringcall_roce::PortOptions;
/// use ringcall_transport::{TransportAddress, Wire, roce};
///
/// let wire = roce::Roce::bind(&roce::RoceOptions { port: PortOptions::new(8, 256), ..Default::default() })?;
/// let line = wire.endpoint().to_string();
/// assert!(line.starts_with("transport=roce port="));
/// assert!(line.ends_with(" qp=0x12 rkey=0xbeef base=0x0 pages=8 page_size=256"));
/// # Ok::<(), ringcall_transport::TransportError>(())
/// ```
#[derive(Debug)]
pub struct Roce {
    socket: RoceSocket,
    options: RoceOptions,
    peers: Peers,
    introduced: Introduced,
    inbox: Inbox,
    /// Processed datagrams of the inbox, and how many it has.
    seen: usize,
    here: usize,
    out: ringcall_roce::PacketOutbox,
    /// Packets of the next frame that were sent before the send buffer was full.
    begun: u32,
    receive_bytes: usize,
}

/// The longest frame in one packet.
const MAX_FRAME_BYTES: usize = MAX_DATAGRAM_BYTES - MAX_OVERHEAD_BYTES;

impl Roce {
    /// Binds the queue pair's socket. Packets that come before the wire is attached to a ring wait in the receive
    /// buffer.
    ///
    /// # Errors
    /// Options that do not form a valid queue pair, or an address that is in use, unspecified or not this machine's.
    pub fn bind(options: &RoceOptions) -> Result<Self, TransportError> {
        options.check()?;
        Self::over(RoceSocket::bind(options.port.address)?, options)
    }

    /// Uses a bound socket instead of one at [`PortOptions::address`].
    ///
    /// # Errors
    /// Options that do not form a valid queue pair.
    pub fn over(socket: RoceSocket, options: &RoceOptions) -> Result<Self, TransportError> {
        options.check()?;
        let peers = Peers::new(options.port.queue_pair(), options.peers)?.numbered_from(socket.first_psn());
        let (inbox, out) = (Inbox::new(0), ringcall_roce::PacketOutbox::new(0));
        Ok(Self {
            socket,
            options: *options,
            peers,
            introduced: Introduced::none(),
            inbox,
            seen: 0,
            here: 0,
            out,
            begun: 0,
            receive_bytes: 0,
        })
    }

    /// Sends answers to peers that introduce themselves at a rendezvous to the queue pairs that they name, at port 4791
    /// unless there is [only one peer](PortOptions::peer).
    #[must_use]
    pub fn introduced_by(mut self, rendezvous: Receiver<Introduction>) -> Self {
        self.introduced = Introduced::new(rendezvous, self.options.peers);
        self
    }

    /// Adds an answer's packets from packet `begun` on to the outbox, with the peer's next sequence numbers. Returns
    /// how many; none if they do not all fit.
    fn pack(&mut self, to: SocketAddrV4, bytes: &[u8], begun: u32) -> io::Result<u32> {
        let Self { socket, options, peers, introduced, out, .. } = self;
        let Some(psn) = peers.number(to) else { return Err(io::ErrorKind::NotConnected.into()) };
        let PortOptions { remote_qp, mtu, .. } = options.port;
        let destination_qp = introduced.queue_pair(to).unwrap_or(remote_qp);
        let operation = MessageOperation::Send { immediate: None };
        let message = Message { service: Service::Uc, operation, destination_qp, mtu, bytes };
        let packets = message.packets();
        let left = packets - begun.min(packets - 1);
        if out.room() < left as usize {
            return Ok(0);
        }
        // The sequence number of the message's first packet.
        let first = psn.plus((packets - left).wrapping_neg());
        for index in packets - left..packets {
            let pushed = out.push(socket, to, &message.packet(index, first));
            pushed.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        }
        *psn = psn.plus(left);
        Ok(left)
    }
}

const fn ignored<P>(reason: Reason) -> WireArrival<'static, P> {
    match reason {
        Reason::Duplicate => WireArrival::Repeated,
        Reason::WrongPeer => WireArrival::Forbidden,
        Reason::WrongIcrc => WireArrival::WrongIcrc,
        Reason::WrongKey => WireArrival::WrongKey,
        Reason::NoMessage => WireArrival::NoMessage,
        Reason::WrongPsn => WireArrival::WrongPsn,
        _ => WireArrival::Malformed,
    }
}

impl Wire for Roce {
    type Peer = SocketAddrV4;
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> TransportAddress {
        let address = SocketAddr::V4(self.socket.local_addr());
        TransportAddress { transport: NAME, address, details: self.options.port.details() }
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_FRAME_BYTES.min(self.options.port.page_bytes as usize)
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        self.receive_bytes = receive_bytes;
        self.peers.allocate();
        self.inbox = Inbox::new(self.max_frame_bytes() + MAX_OVERHEAD_BYTES);
        // There is room for the longest answer.
        let mtu = self.options.port.mtu;
        let packets = BATCH.max(mtu.packets(send_bytes) as usize);
        let packet_bytes = send_bytes.min(mtu.bytes()) + MAX_OVERHEAD_BYTES;
        self.out = ringcall_roce::PacketOutbox::with_room(packets, packet_bytes);
        Ok(())
    }

    fn receive(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(WireArrival<'_, SocketAddrV4>),
    ) -> io::Result<()> {
        let Self { socket, options, peers, introduced, inbox, seen, here, receive_bytes, .. } = self;
        while let Some(met) = introduced.take_next() {
            peers.forget(options.port.peer.unwrap_or(met.address()));
        }
        if *seen == *here {
            (*seen, *here) = (0, 0);
            let before = inbox.too_long();
            let outcome = socket.receive(inbox);
            (before..inbox.too_long()).for_each(|_| take(WireArrival::Malformed));
            outcome?;
            *here = inbox.iter().count();
        }
        let mut frames = 0;
        for (source, datagram) in inbox.iter().skip(*seen) {
            if frames == limit {
                break;
            }
            *seen += 1;
            let from = options.port.peer.unwrap_or_else(|| introduced.address(source));
            let packet = options.port.accept(socket, source, datagram);
            // A SEND names no page and brings no key: if its source is forged, it must not use up a sequence number of
            // the peer.
            let packet = packet.and_then(|packet| match packet.bth.opcode.verb() {
                Verb::Send => Err(Reason::Unsupported),
                _ => Ok(packet),
            });
            let (packet, peer) = match packet.and_then(|packet| Ok((packet, peers.hear(from, &packet)?))) {
                Ok(heard) => heard,
                Err(reason) => {
                    take(ignored(reason));
                    continue;
                }
            };
            let event = peer.receive(&packet);
            let (lost, incomplete) = (peer.newly_lost(), peer.newly_incomplete());
            if lost > 0 {
                take(WireArrival::Lost(lost));
            }
            if incomplete > 0 {
                take(WireArrival::Incomplete(incomplete));
            }
            match event {
                Ok(PacketEffect::Written) => (),
                Ok(PacketEffect::Arrived(arrived)) => {
                    frames += 1;
                    let len = arrived.bytes as usize;
                    let bytes = &peer.page(arrived.slot)[..len.min(*receive_bytes)];
                    take(WireArrival::Frame(ReceivedFrame { from, slot: Some(arrived.slot), bytes, len }));
                }
                Err(reason) => take(ignored(reason)),
                Ok(PacketEffect::Message(_) | PacketEffect::Gathered) => take(WireArrival::Malformed),
            }
        }
        let evicted = peers.newly_evicted();
        if evicted > 0 {
            take(WireArrival::Evicted(evicted));
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<SocketAddrV4>) -> Sent {
        // Packets of each frame in the socket's outbox.
        let mut packets = [0; BATCH];
        let mut error = None;
        let resumed = std::mem::take(&mut self.begun);
        let mut begun = resumed;
        let mut frames = 0;
        for frame in outbox.frames().take(BATCH) {
            match self.pack(frame.to, frame.bytes, std::mem::take(&mut begun)) {
                Ok(0) => break,
                Ok(packed) => {
                    packets[frames] = packed;
                    frames += 1;
                }
                Err(why) => {
                    error = Some(why);
                    break;
                }
            }
        }
        let packed = self.out.len();
        if let Err(why) = self.socket.send(&mut self.out) {
            // The packet that failed is no longer in the outbox.
            let gone = packed - self.out.len() - 1;
            let (sent, _) = self.take_back(outbox, &packets[..frames], gone);
            return Sent { frames: sent, error: Some(why) };
        }
        let gone = packed - self.out.len();
        let (sent, rest) = self.take_back(outbox, &packets[..frames], gone);
        // Nothing of a frame that is given up is left to send: the next frame begins with its first packet.
        let given_up = frames == 0 && error.is_some();
        self.begun = if given_up {
            0
        } else if sent == 0 {
            resumed + rest
        } else {
            rest
        };
        if sent < frames {
            error = Some(io::ErrorKind::WouldBlock.into());
        }
        Sent { frames: sent, error }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        if self.seen < self.here { Ok(()) } else { self.socket.wait(timeout).map(drop) }
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        let drops = self.socket.drops()?;
        Some(KernelDrops::new(move || drops.read()))
    }
}

impl Roce {
    /// Empties the outbox, of whose packets `gone` were sent, and takes back the sequence numbers of the others.
    /// `packets` has the number of each frame's packets. Returns how many frames were sent whole, and how many packets
    /// of the next frame were sent.
    fn take_back(&mut self, outbox: &Outbox<SocketAddrV4>, packets: &[u32], mut gone: usize) -> (usize, u32) {
        let (mut frames, mut rest) = (0, 0);
        for (frame, &packed) in outbox.frames().zip(packets) {
            // No more than `packed`.
            let sent = gone.min(packed as usize) as u32;
            gone -= sent as usize;
            if sent == packed {
                frames += 1;
                continue;
            }
            if sent > 0 {
                rest = sent;
            }
            if let Some(psn) = self.peers.number(frame.to) {
                *psn = psn.plus((packed - sent).wrapping_neg());
            }
        }
        self.out.clear();
        (frames, rest)
    }
}
