//! UDP transport: one datagram is one frame.
//!
//! # On the wire
//! A request is a datagram: the 24-byte header, then the payload; further bytes up to the length of a slot are padding
//! and ignored. There is no handshake, sequence number, fragmentation or acknowledgement. The answer goes to the
//! request's source address, from its destination address, without padding. The CUDA-Q reference speaks the same
//! protocol both ways: it sends whole slots padded with zeros, and accepts any datagram from 24 bytes up to a slot.
//! (Its service answers the source of the *last* datagram; this one answers each request's source.)
//!
//! # What is refused
//! Datagrams longer than a slot or shorter than their `arg_len` are answered `ARG_TOO_LONG`, wrong magics `BAD_MAGIC`;
//! datagrams shorter than a header, and responses, are ignored. Each is counted. The reference drops all of these.
//!
//! If peers share a key ([`Tagged`](crate::Tagged)), an eight-byte [tag](ringcall_wire::tag) follows the payload, and
//! datagrams without a tag are counted and not answered.
//!
//! Datagrams of peers that are not served ([`UdpOptions::allowed`]) are counted and not answered, since their addresses
//! may be forged.
//!
//! # Back-pressure
//! While no slot is vacant nothing is read: datagrams wait in the socket's receive buffer
//! ([`UdpOptions::receive_buffer_bytes`]), and the operating system drops and counts those that do not fit
//! ([`TransportStats::kernel_drops`](crate::TransportStats::kernel_drops)).
//!
//! # System calls
//! Batches use `recvmmsg` and `sendmmsg` for up to [`BATCH`](crate::wire::BATCH) datagrams; single datagrams use
//! `recvfrom` and `sendto`, which are faster. A socket bound to every address of this machine (0.0.0.0, ::) moves one
//! datagram at a time by `recvmsg` and `sendmsg`, which carry the local address; this `sendmsg` allocates. No call
//! blocks: a thread polls, and blocks in `poll` only after it has found nothing for long ([`IdleStrategy`](crate::IdleStrategy)).

mod allowed;
mod socket;
mod wildcard;

use crate::wire::{KernelDrops, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress, TransportError};
pub use allowed::{AllowedPeer, NoPeer};
use ringcall_roce::SocketDrops;
use socket::Batches;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// The most bytes of a UDP datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// The transport's name in an [`TransportAddress`].
pub const NAME: &str = "udp";

/// Options of a UDP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpOptions {
    /// The local address, IPv4 or IPv6; port 0 takes a free port. Default: 127.0.0.1 and a free port.
    pub address: SocketAddr,
    /// Requested bytes of the receive buffer, which holds datagrams while the ring is full. The operating system may
    /// grant less (`net.core.rmem_max`). `None` keeps the system's default. Default: 4 MiB.
    pub receive_buffer_bytes: Option<usize>,
    /// The peers that are served; empty serves every peer. Default: empty.
    pub allowed: Vec<AllowedPeer>,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            receive_buffer_bytes: Some(4 << 20),
            allowed: Vec::new(),
        }
    }
}

/// A datagram's source address, and its local address, from which the answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The peer's address.
    pub address: SocketAddr,
    /// The datagram's destination address, if the socket is bound to every address of this machine.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self { address, local: None }
    }
}

/// A bound UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    address: SocketAddr,
    batches: Batches,
    /// Bound to every address of this machine, so each datagram carries its local address.
    wildcard: bool,
    allowed: Box<[AllowedPeer]>,
}

impl Udp {
    /// Binds the socket. Datagrams that come before the wire is attached to a ring wait in the receive buffer.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the socket cannot be set up.
    pub fn bind(options: &UdpOptions) -> Result<Self, TransportError> {
        let bind = |source| TransportError::Bind { address: options.address, source };
        let socket = UdpSocket::bind(options.address).map_err(bind)?;
        socket.set_nonblocking(true)?;
        if let Some(bytes) = options.receive_buffer_bytes {
            // A smaller grant is not an error.
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes).map_err(io::Error::from)?;
        }
        let address = socket.local_addr()?;
        let wildcard = address.ip().is_unspecified();
        if wildcard {
            wildcard::enable(&socket, address.is_ipv4(), true)?;
        }
        let allowed = options.allowed.clone().into();
        Ok(Self { socket, address, batches: Batches::new(address.is_ipv4()), wildcard, allowed })
    }

    /// A client's socket at a free port, which receives datagrams only from the service at `to`.
    ///
    /// # Errors
    /// No socket is available, or there is no route.
    pub fn to(to: SocketAddr) -> Result<Self, TransportError> {
        let any =
            if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { "::".parse().unwrap_or(to.ip()) };
        let mut wire = Self::bind(&UdpOptions { address: SocketAddr::new(any, 0), ..UdpOptions::default() })?;
        wire.connect(to)?;
        Ok(wire)
    }

    /// Receives datagrams only from `peer`, and is told by the operating system if no socket listens there.
    ///
    /// # Errors
    /// No route.
    pub fn connect(&mut self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer)?;
        // A connected socket has one local address, that of the route.
        if std::mem::take(&mut self.wildcard) {
            wildcard::enable(&self.socket, self.address.is_ipv4(), false)?;
        }
        Ok(())
    }
}

impl Wire for Udp {
    type Peer = Peer;
    const NAMES_SLOTS: bool = false;

    fn endpoint(&self) -> TransportAddress {
        TransportAddress::new(NAME, self.address)
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }

    fn open(&mut self, receive_bytes: usize, _send_bytes: usize) -> io::Result<()> {
        self.batches.make_room(receive_bytes);
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, Peer>)) -> io::Result<()> {
        let Self { socket, batches, wildcard, allowed, .. } = self;
        if allowed.is_empty() {
            return batches.receive(socket, limit, *wildcard, take);
        }
        batches.receive(socket, limit, *wildcard, &mut |arrival| match arrival {
            WireArrival::Frame(frame) if !allowed.iter().any(|peer| peer.is(frame.from.address)) => {
                take(WireArrival::Forbidden);
            }
            arrival => take(arrival),
        })
    }

    fn send(&mut self, outbox: &Outbox<Peer>) -> Sent {
        if self.wildcard {
            socket::send_each(&self.socket, outbox)
        } else {
            socket::send(&self.socket, outbox)
        }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        socket::wait(&self.socket, timeout)
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        let drops = SocketDrops::of(&self.socket, self.address)?;
        Some(KernelDrops::new(move || drops.read()))
    }
}

/// A client of a UDP service, Ringcall's or the reference's.
pub type Caller = crate::Caller<Udp>;

impl Caller {
    /// A caller of the service at `to`, from a free port.
    ///
    /// # Errors
    /// No socket is available, or there is no route.
    pub fn connect(to: SocketAddr, options: &crate::CallerOptions) -> Result<Self, TransportError> {
        Self::new(Udp::to(to)?, to.into(), options)
    }
}
