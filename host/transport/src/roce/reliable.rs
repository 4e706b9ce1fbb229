//! Reliable RoCE v2 transport with one peer: both sides send packets again until they are acknowledged.

use crate::roce::{MAX_FRAME_BYTES, NAME, RoceOptions, ignored};
use crate::wire::{KernelDrops, ReceivedFrame, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress, TransportError};
use ringcall_gpu::clock;
use ringcall_roce::introduced::{Introduced, Introduction};
use ringcall_roce::reliable::{Connection, ConnectionOptions, MessagePostError, RequesterOptions};
use ringcall_roce::{
    BATCH, Inbox, MAX_OVERHEAD_BYTES, MessageOperation, PacketEffect, PortOptions, Psn, QueuePairError,
    RoceSocket,
};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Options of a reliable wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReliableOptions {
    /// The queue pair and its window. Its peer is named here, or introduced by a rendezvous.
    pub port: PortOptions,
    /// The sequence number of the first packet, the same in both directions. Default: 0.
    pub first_psn: u32,
}

/// An answer's recipient: the connection on which its request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoceConnection {
    address: SocketAddrV4,
    /// Number of earlier connections.
    number: u64,
}

/// A service's queue pair of the reliable service in software, bound to a UDP socket. Its one peer is named by
/// [`PortOptions::peer`] or a rendezvous. After a connection has ended, and with each introduction, a new connection
/// begins: both sides start from the first sequence number.
///
/// ```
/// use ringcall_roce::PortOptions;
/// use ringcall_transport::{TransportError, Wire, roce};
///
/// let port = PortOptions { peer: Some("127.0.0.1:4791".parse()?), ..PortOptions::new(8, 256) };
/// let wire = roce::ReliableRoce::bind(&roce::ReliableOptions { port, first_psn: 0 })?;
/// assert!(wire.endpoint().to_string().starts_with("transport=roce port="));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ReliableRoce {
    socket: RoceSocket,
    options: ReliableOptions,
    connection: Connection,
    peer: Option<RoceConnection>,
    introduced: Introduced,
    window: Box<[u8]>,
    inbox: Inbox,
    /// Processed datagrams of the inbox, and how many it has.
    seen: usize,
    here: usize,
    out: ringcall_roce::PacketOutbox,
    receive_bytes: usize,
    /// Retransmitted packets reported so far.
    resent: u64,
}

/// The most answers that wait for an acknowledgement.
const ANSWERS: usize = 4 * BATCH;
/// How long a peer must wait after it was refused for lack of room: 0.64 ms.
const NOT_READY_TIMER: u8 = 12;

impl ReliableRoce {
    /// Binds the queue pair's socket. Packets that come before the wire is attached to a ring wait in the receive
    /// buffer.
    ///
    /// # Errors
    /// Options that do not form a valid queue pair, or an address that is in use, unspecified or not this machine's.
    pub fn bind(options: &ReliableOptions) -> Result<Self, TransportError> {
        Self::check(options)?;
        Self::over(RoceSocket::bind(options.port.address)?, options)
    }

    fn check(options: &ReliableOptions) -> Result<(), TransportError> {
        let ReliableOptions { port, first_psn } = *options;
        RoceOptions { port, peers: 1 }.check()?;
        if first_psn > Psn::MASK {
            let (setting, value) = ("the first packet sequence number", first_psn.into());
            return Err(TransportError::Setting { setting, value, needed: "it has 24 bits" });
        }
        Ok(())
    }

    /// Uses a bound socket instead of one at [`PortOptions::address`].
    ///
    /// # Errors
    /// Options that do not form a valid queue pair.
    pub fn over(socket: RoceSocket, options: &ReliableOptions) -> Result<Self, TransportError> {
        Self::check(options)?;
        Ok(Self {
            socket,
            options: *options,
            connection: connection(options, 0)?,
            peer: options.port.peer.map(|address| RoceConnection { address, number: 0 }),
            introduced: Introduced::none(),
            window: Box::default(),
            inbox: Inbox::new(0),
            seen: 0,
            here: 0,
            out: ringcall_roce::PacketOutbox::new(0),
            receive_bytes: 0,
            resent: 0,
        })
    }

    /// Begins a new connection with each peer that introduces itself at a rendezvous: with the queue pair that it
    /// names, at port 4791 of its address unless [the peer](PortOptions::peer) is named.
    #[must_use]
    pub fn introduced_by(mut self, rendezvous: Receiver<Introduction>) -> Self {
        self.introduced = Introduced::new(rendezvous, 1);
        self
    }

    fn restart(&mut self, address: SocketAddrV4, remote_qp: u32) {
        let number = self.peer.map_or(0, |peer| peer.number + 1);
        self.peer = Some(RoceConnection { address, number });
        self.connection.restart(remote_qp);
        self.window.fill(0);
    }

    fn meet(&mut self) {
        while let Some(met) = self.introduced.take_next() {
            self.restart(self.options.port.peer.unwrap_or(met.address()), met.side().qp);
        }
    }

    /// Sends the packets that are due, as far as the socket takes them. The other packets count as lost and are sent
    /// again later.
    fn transmit(&mut self) -> io::Result<()> {
        let Self { socket, connection, peer, out, .. } = self;
        let Some(RoceConnection { address, .. }) = *peer else { return Ok(()) };
        loop {
            let room = out.room();
            let taken =
                connection.transmit(clock::now_ns(), |packet| out.push(socket, address, packet).is_ok());
            let packed = out.len();
            if packed > 0 {
                let outcome = socket.send(out);
                let left = out.len();
                if outcome.is_err() || left > 0 {
                    out.clear();
                    return outcome.map(drop);
                }
            }
            if taken < room {
                return Ok(());
            }
        }
    }
}

/// How long the last answers may wait for their acknowledgement.
const LINGER: Duration = Duration::from_millis(200);

impl Drop for ReliableRoce {
    /// Retransmits the last answers for a while, until they are acknowledged.
    fn drop(&mut self) {
        let begin = std::time::Instant::now();
        while self.connection.requester().waiting() > 0 && begin.elapsed() < LINGER {
            if self.wait(LINGER).is_err() || self.receive(BATCH, &mut |_| ()).is_err() {
                return;
            }
        }
    }
}

fn connection(options: &ReliableOptions, message_bytes: usize) -> Result<Connection, QueuePairError> {
    let requester = RequesterOptions {
        destination_qp: options.port.remote_qp,
        first: Psn::new(options.first_psn),
        mtu: options.port.mtu,
        messages: ANSWERS,
        message_bytes,
        ..RequesterOptions::default()
    };
    let connection = ConnectionOptions { requester, gathered_bytes: 0, not_ready_timer: NOT_READY_TIMER };
    Connection::new(options.port.queue_pair(), connection)
}

impl Wire for ReliableRoce {
    type Peer = RoceConnection;
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> TransportAddress {
        let address = SocketAddr::V4(self.socket.local_addr());
        let mut details = self.options.port.details();
        details.push(("service", "rc".to_owned()));
        details.push(("psn", format!("{:#x}", self.options.first_psn)));
        TransportAddress { transport: NAME, address, details }
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_FRAME_BYTES.min(self.options.port.page_bytes as usize)
    }

    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()> {
        let PortOptions { pages, page_bytes, mtu, .. } = self.options.port;
        self.receive_bytes = receive_bytes;
        self.window = vec![0; pages as usize * page_bytes as usize].into();
        self.inbox = Inbox::new(self.max_frame_bytes() + MAX_OVERHEAD_BYTES);
        self.out = ringcall_roce::PacketOutbox::new(send_bytes.min(mtu.bytes()) + MAX_OVERHEAD_BYTES);
        self.connection = connection(&self.options, send_bytes).map_err(io::Error::other)?;
        Ok(())
    }

    fn receive(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(WireArrival<'_, RoceConnection>),
    ) -> io::Result<()> {
        self.meet();
        if self.seen == self.here {
            (self.seen, self.here) = (0, 0);
            let before = self.inbox.too_long();
            let outcome = self.socket.receive(&mut self.inbox);
            (before..self.inbox.too_long()).for_each(|_| take(WireArrival::Malformed));
            outcome?;
            self.here = self.inbox.iter().count();
        }
        let Self { socket, options, connection, peer, window, inbox, seen, receive_bytes, .. } = self;
        let now = clock::now_ns();
        let page_bytes = options.port.page_bytes as usize;
        let mut frames = 0;
        for (source, datagram) in inbox.iter().skip(*seen) {
            if frames == limit {
                break;
            }
            *seen += 1;
            let Some(from) = peer.filter(|peer| peer.address.ip() == source.ip()) else {
                take(WireArrival::Forbidden);
                continue;
            };
            let packet = options.port.accept(socket, source, datagram);
            match packet.and_then(|packet| connection.receive(&packet, &mut window[..], now)) {
                Ok(Some(PacketEffect::Arrived(arrived))) => {
                    frames += 1;
                    let len = arrived.bytes as usize;
                    let page = &window[arrived.slot as usize * page_bytes..][..len.min(*receive_bytes)];
                    take(WireArrival::Frame(ReceivedFrame {
                        from,
                        slot: Some(arrived.slot),
                        bytes: page,
                        len,
                    }));
                }
                Ok(Some(PacketEffect::Written) | None) => (),
                Ok(Some(PacketEffect::Message(_) | PacketEffect::Gathered)) => take(WireArrival::Malformed),
                Err(reason) => take(ignored(reason)),
            }
        }
        let outcome = self.transmit();
        let resent = self.connection.requester().stats().retransmitted;
        if resent > self.resent {
            take(WireArrival::Resent(resent - self.resent));
            self.resent = resent;
        }
        if let (Some(error), Some(peer)) = (self.connection.ended(), self.peer) {
            take(WireArrival::Broken(error.into()));
            let remote_qp = self.connection.remote_qp();
            self.restart(peer.address, remote_qp);
        }
        outcome
    }

    fn send(&mut self, outbox: &Outbox<RoceConnection>) -> Sent {
        let mut frames = 0;
        let mut error = None;
        for frame in outbox.frames() {
            if self.peer != Some(frame.to) {
                error = Some(io::ErrorKind::NotConnected.into());
                break;
            }
            match self.connection.post(MessageOperation::Send { immediate: None }, frame.bytes) {
                Ok(()) => frames += 1,
                Err(why) => {
                    error = Some(match why {
                        MessagePostError::Full(_) => io::ErrorKind::WouldBlock.into(),
                        MessagePostError::TooLong { .. } => io::Error::new(io::ErrorKind::InvalidInput, why),
                        MessagePostError::Ended(_) => io::Error::new(io::ErrorKind::NotConnected, why),
                    });
                    break;
                }
            }
        }
        // Packets that the socket does not take now are sent again later. Its error does not concern the next frame; if
        // it persists, the next poll of the socket returns it.
        let _ = self.transmit();
        Sent { frames, error }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        if self.seen < self.here {
            return Ok(());
        }
        let left = |deadline: u64| Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
        let timeout = self.connection.deadline_ns().map_or(timeout, |deadline| timeout.min(left(deadline)));
        self.socket.wait(timeout).map(drop)
    }

    fn kernel_drops(&self) -> Option<KernelDrops> {
        let drops = self.socket.drops()?;
        Some(KernelDrops::new(move || drops.read()))
    }
}
