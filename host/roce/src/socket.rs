//! RoCE v2 from an ordinary UDP socket: no adapter, no privilege.
//!
//! The kernel writes the IP and UDP headers, and the iCRC covers parts of them, so the sender must know what the kernel
//! will write. A Linux UDP socket that is *not connected* and has `IP_MTU_DISCOVER` set to "do" sends every packet with
//! identification 0 and "don't fragment". Every other kind of socket increments the identification, so the iCRCs of its
//! packets cannot be right. The iCRC covers the source address, too, so the socket is bound to it.
//!
//! A receiver cannot see a packet's IP header. [`RoceSocket::envelope_from`] assumes that the sender is a socket of
//! this kind. Adapters increment the identification: [`IcrcCheck::Recover`](crate::IcrcCheck::Recover) checks their
//! packets, too.
//!
//! Receiving on port 4791 works as long as no RDMA stack claims the port on that interface.

use crate::drops::SocketDrops;
use crate::error::PacketError;
use crate::icrc::Envelope;
use crate::packet::Packet;
use crate::psn::Psn;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg, setsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, set_ip_mtu_discover, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// The most packets that one system call moves.
pub const BATCH: usize = 32;

/// Bytes of kernel buffer requested for each direction; the kernel's limits may allow fewer.
const BUFFER_BYTES: usize = 4 << 20;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The address is unspecified.
    #[error(
        "{0} is not one address: the iCRC covers the source address, so name the interface's \
         (`RoceSocket::route_source` finds the one for a peer)"
    )]
    Unspecified(SocketAddrV4),
    /// The kernel refused.
    #[error("a RoCE socket on {address} failed: {cause}")]
    Io {
        /// The address to bind to.
        address: SocketAddrV4,
        /// The kernel's error. It is part of the message, so it is not reported as the error's source again.
        cause: io::Error,
    },
}

/// A carrier of datagrams in place of a socket, such as a simulated network. Its methods are those of the socket, and
/// none but [`wait`](Self::wait) blocks.
pub trait Datagrams: std::fmt::Debug + Send + Sync {
    /// Sends a datagram to `to`.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room now; any other error if this datagram cannot be
    /// sent.
    fn send(&self, to: SocketAddrV4, datagram: &[u8]) -> io::Result<()>;

    /// Copies the oldest datagram into `room`, as much of it as fits. Returns its sender and its length.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none.
    fn receive(&self, room: &mut [u8]) -> io::Result<(SocketAddrV4, usize)>;

    /// Waits until a datagram is there, or until `timeout`. Returns whether there is one.
    ///
    /// # Errors
    /// The network's error.
    fn wait(&self, timeout: Duration) -> io::Result<bool>;

    /// The sequence number of the first packet to each peer: a simulation has no clock from which [`Psn::first`] could
    /// take it.
    fn first_psn(&self) -> Psn;
}

#[derive(Debug)]
enum Carrier {
    Kernel(UdpSocket),
    Other(Arc<dyn Datagrams>),
}

/// A UDP socket whose packets have right iCRCs. No method but [`Self::wait`] blocks.
///
/// ```
/// use ringcall_roce::{Inbox, PacketOutbox, Packet, Psn, RoceSocket};
/// use std::time::Duration;
///
/// let a = RoceSocket::bind("127.0.0.1:0".parse()?)?;
/// let b = RoceSocket::bind("127.0.0.1:0".parse()?)?;
/// let mut outbox = PacketOutbox::new(1024);
/// outbox.push(&a, b.local_addr(), &Packet::send(0x12, Psn::new(0), b"answer"))?;
/// a.send(&mut outbox)?;
///
/// let mut inbox = Inbox::new(1024);
/// assert!(b.wait(Duration::from_secs(5))?);
/// assert_eq!(b.receive(&mut inbox)?, 1);
/// let (peer, datagram) = inbox.iter().next().expect("one came");
/// b.envelope_from(peer).verify(datagram)?;
/// assert_eq!(Packet::parse(datagram)?.payload, b"answer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RoceSocket {
    carrier: Carrier,
    local: SocketAddrV4,
}

impl RoceSocket {
    /// Binds to one address of this machine; port 0 takes a free port.
    ///
    /// # Errors
    /// An unspecified address, or the kernel's error.
    pub fn bind(address: SocketAddrV4) -> Result<Self, SocketError> {
        if address.ip().is_unspecified() {
            return Err(SocketError::Unspecified(address));
        }
        Self::open(address).map_err(|cause| SocketError::Io { address, cause })
    }

    fn open(address: SocketAddrV4) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
        set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
        set_socket_send_buffer_size(&socket, BUFFER_BYTES)?;
        let SocketAddr::V4(local) = socket.local_addr()? else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        Ok(Self { carrier: Carrier::Kernel(socket), local })
    }

    /// A socket on a simulated network, bound to `local` there.
    #[must_use]
    pub fn over(network: Arc<dyn Datagrams>, local: SocketAddrV4) -> Self {
        Self { carrier: Carrier::Other(network), local }
    }

    /// Makes [`Self::send`] and [`Self::receive`] fail once with [`io::ErrorKind::ConnectionRefused`] after a
    /// destination has answered that no socket is bound to its port (ICMP port unreachable). This is for a client of
    /// one service, which then ends; [`Self::wait`] no longer waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn tell_closed_ports(&self) -> io::Result<()> {
        match &self.carrier {
            Carrier::Kernel(socket) => {
                setsockopt(socket, sockopt::Ipv4RecvErr, &true).map_err(io::Error::from)
            }
            Carrier::Other(_) => Ok(()),
        }
    }

    /// The counter of datagrams that the operating system drops for this socket. `None` if the system shows none.
    #[must_use]
    pub fn drops(&self) -> Option<SocketDrops> {
        match &self.carrier {
            Carrier::Kernel(socket) => SocketDrops::of(socket, SocketAddr::V4(self.local)),
            Carrier::Other(_) => None,
        }
    }

    /// The sequence number of the first packet to each peer, if the network sets one; `None` leaves it to the clock.
    #[must_use]
    pub fn first_psn(&self) -> Option<Psn> {
        match &self.carrier {
            Carrier::Kernel(_) => None,
            Carrier::Other(network) => Some(network.first_psn()),
        }
    }

    /// The address of this machine from which packets to `peer` go. No packet is sent.
    ///
    /// # Errors
    /// No route.
    pub fn route_source(peer: SocketAddrV4) -> io::Result<Ipv4Addr> {
        let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Connecting a datagram socket only makes the kernel choose a route.
        probe.connect(peer)?;
        match probe.local_addr()? {
            SocketAddr::V4(local) => Ok(*local.ip()),
            SocketAddr::V6(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    /// The address to which the socket is bound.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddrV4 {
        self.local
    }

    /// Headers of packets from this socket to `peer`.
    #[must_use]
    pub const fn envelope_to(&self, peer: SocketAddrV4) -> Envelope {
        Envelope::v4(self.local, peer)
    }

    /// Headers of packets from `peer` to this socket, if `peer` is a socket of this kind.
    #[must_use]
    pub const fn envelope_from(&self, peer: SocketAddrV4) -> Envelope {
        Envelope::v4(peer, self.local)
    }

    /// Another handle to the same socket, for another thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn try_clone(&self) -> io::Result<Self> {
        let carrier = match &self.carrier {
            Carrier::Kernel(socket) => Carrier::Kernel(socket.try_clone()?),
            Carrier::Other(network) => Carrier::Other(Arc::clone(network)),
        };
        Ok(Self { carrier, local: self.local })
    }

    /// Waits until a packet can be received, or until `timeout`. Returns whether one can be.
    ///
    /// # Errors
    /// The kernel's error, except for interruptions.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let socket = match &self.carrier {
            Carrier::Kernel(socket) => socket,
            Carrier::Other(network) => return network.wait(timeout),
        };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the packets of the outbox in order, as many as the kernel takes now. Returns how many it took; the rest
    /// stays in the outbox.
    ///
    /// # Errors
    /// The kernel's error for the first remaining packet, which is then dropped from the outbox, such as a packet
    /// longer than the route's MTU. A full send buffer is not an error.
    pub fn send(&self, outbox: &mut PacketOutbox) -> io::Result<usize> {
        let socket = match &self.carrier {
            Carrier::Kernel(socket) => socket,
            Carrier::Other(network) => return Self::send_by(&**network, outbox),
        };
        let mut total = 0;
        while outbox.head < outbox.used {
            let slots = outbox.head..outbox.used.min(outbox.head + BATCH);
            let count = slots.len();
            let first = slots.start;
            let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|k| {
                [IoSlice::new(if k < count { outbox.bytes(first + k) } else { &[] })]
            });
            let peers: [Option<SockaddrIn>; BATCH] =
                std::array::from_fn(|k| (k < count).then(|| outbox.entries[first + k].0.into()));
            let sent = SEND.with_borrow_mut(|headers| {
                let flags = MsgFlags::MSG_DONTWAIT;
                sendmmsg(socket.as_raw_fd(), headers, &slices[..count], &peers[..count], [], flags)
                    .map(Iterator::count)
            });
            match sent {
                Ok(sent) => {
                    outbox.head += sent;
                    total += sent;
                }
                Err(nix::Error::EAGAIN | nix::Error::ENOBUFS) => return Ok(total),
                Err(nix::Error::EINTR) => {}
                Err(error) => {
                    outbox.head += 1;
                    return Err(error.into());
                }
            }
        }
        outbox.clear();
        Ok(total)
    }

    fn send_by(network: &dyn Datagrams, outbox: &mut PacketOutbox) -> io::Result<usize> {
        let mut total = 0;
        while outbox.head < outbox.used {
            match network.send(outbox.entries[outbox.head].0, outbox.bytes(outbox.head)) {
                Ok(()) => total += 1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(total),
                Err(error) => {
                    outbox.head += 1;
                    return Err(error);
                }
            }
            outbox.head += 1;
        }
        outbox.clear();
        Ok(total)
    }

    /// Replaces the inbox's contents by at most [`BATCH`] received packets. Returns how many packets came from the
    /// socket, including those too long for the inbox.
    ///
    /// # Errors
    /// The kernel's error; an empty socket is not an error.
    pub fn receive(&self, inbox: &mut Inbox) -> io::Result<usize> {
        let Inbox { buffer, packet_bytes, entries, too_long } = inbox;
        entries.clear();
        let socket = match &self.carrier {
            Carrier::Kernel(socket) => socket,
            Carrier::Other(network) => {
                for room in buffer.chunks_exact_mut(*packet_bytes) {
                    match network.receive(room) {
                        Ok((peer, bytes)) => {
                            *too_long += u64::from(bytes > *packet_bytes);
                            entries.push((peer, Some(bytes).filter(|bytes| bytes <= packet_bytes)));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) if entries.is_empty() => return Err(error),
                        Err(_) => break,
                    }
                }
                return Ok(entries.len());
            }
        };
        let received = RECEIVE.with_borrow_mut(|headers| {
            let mut chunks = buffer.chunks_exact_mut(*packet_bytes);
            let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
                std::array::from_fn(|_| [IoSliceMut::new(chunks.next().unwrap_or_default())]);
            let flags = MsgFlags::MSG_DONTWAIT;
            let messages = recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None)?;
            let mut count = 0;
            for message in messages {
                let length = if message.flags.contains(MsgFlags::MSG_TRUNC) {
                    *too_long += 1;
                    None
                } else {
                    Some(message.bytes)
                };
                let peer = message.address.map_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), Into::into);
                entries.push((peer, length));
                count += 1;
            }
            Ok(count)
        });
        match received {
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
            Ok(count) => Ok(count),
        }
    }
}

// The kernel's message headers point into themselves, so they cannot move to another thread; sockets and boxes can. The
// two directions leave different data in them, so each has its own.
thread_local! {
    static SEND: RefCell<MultiHeaders<SockaddrIn>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static RECEIVE: RefCell<MultiHeaders<SockaddrIn>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Why a packet was not added to an [`PacketOutbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The outbox is full: send its packets first.
    #[error("the outbox is full")]
    Full,
    /// The packet cannot be built, or is longer than the outbox allows.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

/// Packets to be sent, built in place, with room for a fixed number.
#[derive(Debug)]
pub struct PacketOutbox {
    buffer: Box<[u8]>,
    packet_bytes: usize,
    entries: Box<[(SocketAddrV4, usize)]>,
    head: usize,
    used: usize,
}

const NOWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

impl PacketOutbox {
    /// An empty outbox for [`BATCH`] packets of up to `packet_bytes` from the BTH to the iCRC.
    #[must_use]
    pub fn new(packet_bytes: usize) -> Self {
        Self::with_room(BATCH, packet_bytes)
    }

    /// An empty outbox for `packets` packets of up to `packet_bytes` from the BTH to the iCRC.
    #[must_use]
    pub fn with_room(packets: usize, packet_bytes: usize) -> Self {
        let buffer = vec![0; packet_bytes * packets].into_boxed_slice();
        Self { buffer, packet_bytes, entries: vec![(NOWHERE, 0); packets].into(), head: 0, used: 0 }
    }

    /// The number of packets in the outbox.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.used - self.head
    }

    /// Whether the outbox is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the outbox is full. (Packets make room only when all of them were sent.)
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// The number of packets that can still be added.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.entries.len() - self.used
    }

    /// Drops the packets in the outbox.
    pub const fn clear(&mut self) {
        self.head = 0;
        self.used = 0;
    }

    /// Builds a packet from `socket` to `peer`.
    ///
    /// # Errors
    /// See [`PushError`].
    pub fn push(
        &mut self,
        socket: &RoceSocket,
        peer: SocketAddrV4,
        packet: &Packet<'_>,
    ) -> Result<(), PushError> {
        let envelope = socket.envelope_to(peer);
        self.push_with(peer, |room| packet.write(&envelope, room))
    }

    /// Adds a datagram unchanged.
    ///
    /// # Errors
    /// See [`PushError`].
    pub fn push_bytes(&mut self, peer: SocketAddrV4, datagram: &[u8]) -> Result<(), PushError> {
        self.push_with(peer, |room| {
            let available = room.len();
            let target = room
                .get_mut(..datagram.len())
                .ok_or(PacketError::BufferTooSmall { needed: datagram.len(), available })?;
            target.copy_from_slice(datagram);
            Ok(datagram.len())
        })
    }

    fn push_with(
        &mut self,
        peer: SocketAddrV4,
        write: impl FnOnce(&mut [u8]) -> Result<usize, PacketError>,
    ) -> Result<(), PushError> {
        if self.is_full() {
            return Err(PushError::Full);
        }
        let room = &mut self.buffer[self.used * self.packet_bytes..][..self.packet_bytes];
        self.entries[self.used] = (peer, write(room)?);
        self.used += 1;
        Ok(())
    }

    fn bytes(&self, index: usize) -> &[u8] {
        &self.buffer[index * self.packet_bytes..][..self.entries[index].1]
    }
}

/// Room for [`BATCH`] received packets.
#[derive(Debug)]
pub struct Inbox {
    buffer: Box<[u8]>,
    packet_bytes: usize,
    /// Sender and length; `None` for a datagram that was too long.
    entries: Vec<(SocketAddrV4, Option<usize>)>,
    too_long: u64,
}

impl Inbox {
    /// An empty inbox for packets of up to `packet_bytes` from the BTH to the iCRC.
    #[must_use]
    pub fn new(packet_bytes: usize) -> Self {
        let packet_bytes = packet_bytes.max(1);
        let buffer = vec![0; packet_bytes * BATCH].into_boxed_slice();
        Self { buffer, packet_bytes, entries: Vec::with_capacity(BATCH), too_long: 0 }
    }

    /// Senders and datagrams of the last [`RoceSocket::receive`], except for datagrams that were too long.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddrV4, &[u8])> {
        self.entries
            .iter()
            .zip(self.buffer.chunks_exact(self.packet_bytes))
            .filter_map(|(&(peer, length), chunk)| Some((peer, &chunk[..length?])))
    }

    /// Datagrams dropped so far because they were longer than this inbox's packets.
    #[must_use]
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }
}
