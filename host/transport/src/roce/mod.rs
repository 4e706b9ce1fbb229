//! RoCE v2 without an adapter: requests come as RDMA WRITEs into pages, answers leave as SENDs.
//!
//! # On the wire
//! What a sensor bridge speaks, and what [`ringcall_roce`] knows: a request is written to a page of a window
//! by WRITE ONLY packets (or by the FIRST, MIDDLE and LAST ones of an adapter), the last of which has an
//! immediate that names the page. A page is a slot of the ring. The answer is one UC SEND ONLY packet, with
//! sequence numbers for each peer. What a peer must know is in the endpoint: queue pair, key, first address,
//! number and size of pages.
//!
//! # Where requests are put together
//! In pages of the wire's own, a window for each peer, so that no peer writes into another's request and none into a slot.
//! A frame is handed over when every packet of it has come, and then copied into its slot; one that lost a packet is not.
//! A frame for a slot whose request is still being served is refused (`BACKPRESSURE`), as on every wire that names slots.
//!
//! # Whom answers go to
//! Where the requests come from, or the address in [`PortOptions::peer`]: an adapter takes packets at port
//! 4791 alone, from any source port. [`RoceOptions::peers`] of them are known at a time. A packet of an unknown
//! peer must bring the window's key; the peer then takes the entry of the peer that was silent longest, which
//! is counted as [`evicted`](crate::Statistics::evicted), and whose answers that are still due are counted as
//! unsent. It finds zeros in its window.
//!
//! # What is counted
//! [`lost`](crate::Statistics::lost) are packets that sequence numbers say are missing; one that comes late after all was
//! counted, and makes up for the next. [`incomplete`](crate::Statistics::incomplete) are frames and messages that were given
//! up because packets of them never came. [`repeated`](crate::Statistics::repeated) are packets that were here before.
//! [`wrong_icrc`](crate::Statistics::wrong_icrc), [`wrong_key`](crate::Statistics::wrong_key),
//! [`no_message`](crate::Statistics::no_message) (a packet before it is missing) and
//! [`forbidden`](crate::Statistics::forbidden) (of another host than the one peer) say why a packet was refused; every other
//! reason (queue pair, addresses, no RoCE) is [`malformed`](crate::Statistics::malformed).

use crate::udp::MAX_DATAGRAM_BYTES;
use crate::wire::{Arrival, Frame, KernelDrops, Sent, Wire};
use crate::{Endpoint, Outbox, TransportError};
use ringcall_roce::{
    BATCH, Event, Inbox, MAX_OVERHEAD_BYTES, MAX_PAGES, PAGE_UNIT_BYTES, Packet, Peers, PortOptions,
    PushError, Reason, RoceSocket, SocketDrops,
};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

/// The most peers known at a time, unless [`RoceOptions::peers`] says otherwise.
pub const DEFAULT_PEERS: usize = 64;
/// The transport's name in an [`Endpoint`].
pub const NAME: &str = "roce";

/// Choices of a RoCE wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoceOptions {
    /// The queue pair and its window: as many pages as the ring has slots, each a multiple of 128 bytes and no less than a slot.
    /// Default: 64 of 16 KiB, as rings have.
    pub port: PortOptions,
    /// The most peers known at a time; each has its own window, which takes up memory once the peer writes to
    /// it. Default: [`DEFAULT_PEERS`].
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

/// A queue pair in software, bound to a UDP socket. A service's end: callers are simulated by `ringcall-sim`, or by an
/// FPGA.
///
/// ```
/// use ringcall_roce::PortOptions;
/// use ringcall_transport::{Endpoint, Wire, roce};
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
    inbox: Inbox,
    /// Datagrams of the inbox that were looked at, and how many it has.
    seen: usize,
    here: usize,
    out: ringcall_roce::Outbox,
    receive_bytes: usize,
}

/// The longest frame in one packet.
const MAX_FRAME_BYTES: usize = MAX_DATAGRAM_BYTES - MAX_OVERHEAD_BYTES;

impl Roce {
    /// Binds. Packets that come before the wire is attached to a ring wait in the receive buffer.
    ///
    /// # Errors
    /// Options that make no queue pair, or an address that is taken, not ours, or not one.
    pub fn bind(options: &RoceOptions) -> Result<Self, TransportError> {
        options.check()?;
        let peers = Peers::new(options.port.queue_pair(), options.peers)?;
        let socket = RoceSocket::bind(options.port.address)?;
        let (inbox, out) = (Inbox::new(0), ringcall_roce::Outbox::new(0));
        Ok(Self { socket, options: *options, peers, inbox, seen: 0, here: 0, out, receive_bytes: 0 })
    }

    /// Puts an answer into the outbox, with the peer's next number.
    fn pack(&mut self, to: SocketAddrV4, bytes: &[u8]) -> io::Result<()> {
        let Self { socket, options, peers, out, .. } = self;
        let Some(psn) = peers.number(to) else { return Err(io::ErrorKind::NotConnected.into()) };
        let packet = Packet::send(options.port.remote_qp, *psn, bytes);
        out.push(socket, to, &packet).map_err(|error| match error {
            PushError::Full => io::ErrorKind::WouldBlock.into(),
            PushError::Packet(error) => io::Error::new(io::ErrorKind::InvalidInput, error),
        })?;
        *psn = psn.next();
        Ok(())
    }
}

/// A packet of which nothing comes, as it is counted.
const fn ignored(reason: Reason) -> Arrival<'static, SocketAddrV4> {
    match reason {
        Reason::Duplicate => Arrival::Repeated,
        Reason::WrongPeer => Arrival::Forbidden,
        Reason::WrongIcrc => Arrival::WrongIcrc,
        Reason::WrongKey => Arrival::WrongKey,
        Reason::NoMessage => Arrival::NoMessage,
        _ => Arrival::Malformed,
    }
}

impl Wire for Roce {
    type Peer = SocketAddrV4;
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> Endpoint {
        let address = SocketAddr::V4(self.socket.local_addr());
        Endpoint { transport: NAME, address, details: self.options.port.details() }
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_FRAME_BYTES.min(self.options.port.page_bytes as usize)
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        self.receive_bytes = receive_bytes;
        self.peers.allocate();
        self.inbox = Inbox::new(self.max_frame_bytes() + MAX_OVERHEAD_BYTES);
        self.out = ringcall_roce::Outbox::new(send_bytes + MAX_OVERHEAD_BYTES);
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(Arrival<'_, SocketAddrV4>)) -> io::Result<()> {
        let Self { socket, options, peers, inbox, seen, here, receive_bytes, .. } = self;
        if *seen == *here {
            (*seen, *here) = (0, 0);
            let before = inbox.too_long();
            let outcome = socket.receive(inbox);
            (before..inbox.too_long()).for_each(|_| take(Arrival::Malformed));
            outcome?;
            *here = inbox.iter().count();
        }
        let mut frames = 0;
        for (source, datagram) in inbox.iter().skip(*seen) {
            if frames == limit {
                break;
            }
            *seen += 1;
            let from = options.port.peer.unwrap_or(source);
            let packet = options.port.accept(socket, source, datagram);
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
                take(Arrival::Lost(lost));
            }
            if incomplete > 0 {
                take(Arrival::Incomplete(incomplete));
            }
            match event {
                Ok(Event::Written) => (),
                Ok(Event::Arrived(arrived)) => {
                    frames += 1;
                    let len = arrived.bytes as usize;
                    let bytes = &peer.page(arrived.slot)[..len.min(*receive_bytes)];
                    take(Arrival::Frame(Frame { from, slot: Some(arrived.slot), bytes, len }));
                }
                Err(reason) => take(ignored(reason)),
                Ok(Event::Message(_)) => take(Arrival::Malformed),
            }
        }
        let evicted = peers.newly_evicted();
        if evicted > 0 {
            take(Arrival::Evicted(evicted));
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<SocketAddrV4>) -> Sent {
        let mut packed = 0;
        let mut error = None;
        for frame in outbox.frames().take(BATCH) {
            match self.pack(frame.to, frame.bytes) {
                Ok(()) => packed += 1,
                Err(why) => {
                    error = Some(why);
                    break;
                }
            }
        }
        let sent = match self.socket.send(&mut self.out) {
            Ok(sent) => sent,
            // The failed frame is no longer in the outbox.
            Err(why) => {
                let sent = packed - self.out.len() - 1;
                error = Some(why);
                self.take_back(outbox, sent, packed);
                return Sent { frames: sent, error };
            }
        };
        if sent < packed {
            error = Some(io::ErrorKind::WouldBlock.into());
        }
        self.take_back(outbox, sent, packed);
        Sent { frames: sent, error }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        if self.seen < self.here { Ok(()) } else { self.socket.wait(timeout).map(drop) }
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        let drops = SocketDrops::of(&self.socket, SocketAddr::V4(self.socket.local_addr()))?;
        Some(KernelDrops::new(move || drops.read()))
    }
}

impl Roce {
    /// Gives the numbers of packets back that were packed and not sent, and empties the outbox.
    fn take_back(&mut self, outbox: &Outbox<SocketAddrV4>, sent: usize, packed: usize) {
        for frame in outbox.frames().take(packed).skip(sent) {
            if let Some(psn) = self.peers.number(frame.to) {
                *psn = psn.plus(ringcall_roce::Psn::MASK);
            }
        }
        self.out.clear();
    }
}
