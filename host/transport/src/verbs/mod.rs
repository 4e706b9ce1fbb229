//! RDMA verbs transport: an adapter's queue pair through libibverbs, which is loaded at run time.
//!
//! # On the wire
//! The protocol of [`roce`](crate::roce), through an adapter: a request is an RDMA WRITE with immediate into a page of
//! the service's window, whose first address is 0, and the immediate's low 12 bits name the page, which is a slot of
//! the ring. The answer is a SEND. The endpoint names everything that a peer must know.
//!
//! # Connections
//! A queue pair has one peer, named by [`VerbsOptions::peer`] or a rendezvous. With each introduction, and after a
//! fault, a new connection begins: both sides start from [`PairOptions::first_psn`], and answers to the earlier
//! connection's requests are counted as unsent. Faults are counted by name: `broken_…`, and `device_removed`, after
//! which the device is closed and nothing more comes. (The kernel's removal of a device waits until it is closed.)

mod caller;

pub use caller::{VerbsCaller, VerbsWindow};
pub use ringcall_rdma::verbs::{PairFault, PairOptions, RemoteQueuePair, VerbsError, VerbsQueuePair};

use crate::wire::{BATCH, ConnectionEnd, ReceivedFrame, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress};
use ringcall_rdma::verbs::{EVENTS_INTERVAL, SendError, SendOperation, WorkCompletion};
use ringcall_roce::introduced::{Introduced, Introduction};
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_roce::{Immediate, ROCE_PORT};
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The transport's name in an [`TransportAddress`].
pub const NAME: &str = "verbs";

/// Options of a verbs wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbsOptions {
    /// Device, queue pair and window, with as many slots as the ring, each at least as long as the ring's.
    pub pair: PairOptions,
    /// The peer, if it is known; otherwise a rendezvous names it.
    pub peer: Option<RemoteQueuePair>,
}

/// An answer's recipient: the connection on which its request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    remote: RemoteQueuePair,
    /// Number of earlier connections.
    number: u64,
}

/// A service's queue pair of an adapter. A client uses [`VerbsCaller`].
#[derive(Debug)]
pub struct Verbs {
    /// `None` after the device was removed.
    pair: Option<VerbsQueuePair>,
    side: ConnectionSide,
    endpoint: TransportAddress,
    slot_bytes: u32,
    peer: Option<Connected>,
    connections: u64,
    introduced: Introduced,
    page: Vec<u8>,
    /// Consecutive polls that found nothing.
    idle: u32,
    /// When the device was last polled for events other than completions.
    events_polled_at: Instant,
}

/// Empty polls between two readings of the clock.
const POLLS_BETWEEN: u32 = 16;
/// The longest sleep, limited because a completion at its very beginning may be missed.
const LONGEST_SLEEP: Duration = Duration::from_millis(5);

impl Verbs {
    /// Opens the device, and connects the queue pair if the peer is known.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub fn open(options: VerbsOptions) -> Result<Self, VerbsError> {
        let pair = VerbsQueuePair::open(options.pair)?;
        let mut verbs = Self {
            side: side(&pair),
            endpoint: endpoint(&pair),
            slot_bytes: pair.options().slot_bytes,
            pair: Some(pair),
            peer: None,
            connections: 0,
            introduced: Introduced::none(),
            page: Vec::new(),
            idle: 0,
            events_polled_at: Instant::now(),
        };
        if let Some(remote) = options.peer {
            verbs.connect(remote)?;
        }
        Ok(verbs)
    }

    /// Begins a new connection with each peer that introduces itself at a rendezvous.
    #[must_use]
    pub fn introduced_by(mut self, rendezvous: Receiver<Introduction>) -> Self {
        self.introduced = Introduced::new(rendezvous, 1);
        self
    }

    /// This side, for a rendezvous to tell a peer.
    #[must_use]
    pub fn side(&self) -> ConnectionSide {
        self.side
    }

    fn connect(&mut self, remote: RemoteQueuePair) -> Result<(), VerbsError> {
        self.peer = None;
        let Some(pair) = &mut self.pair else { return Ok(()) };
        self.connections += 1;
        pair.connect(remote)?;
        self.peer = Some(Connected { remote, number: self.connections });
        Ok(())
    }

    fn meet(&mut self) -> io::Result<()> {
        while let Some(met) = self.introduced.take_next() {
            let ConnectionSide { qp, ip, .. } = met.side();
            self.connect(RemoteQueuePair { qp, ip }).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Sends the last answers and closes the device.
    fn close(&mut self) {
        if let Some(mut pair) = self.pair.take() {
            pair.drain(LINGER);
        }
    }

    /// Handles the end of a connection: begins a new one with the same peer, if the device is still there; otherwise closes it.
    fn ended(
        &mut self,
        fault: PairFault,
        take: &mut impl FnMut(WireArrival<'_, Connected>),
    ) -> io::Result<()> {
        take(WireArrival::Broken(broken(fault)));
        let peer = self.peer.take();
        if fault == PairFault::DeviceRemoved {
            self.close();
        }
        match peer {
            Some(Connected { remote, .. }) => self.connect(remote).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

/// How long the last answers may take to be sent.
const LINGER: Duration = Duration::from_millis(200);

impl Drop for Verbs {
    fn drop(&mut self) {
        self.close();
    }
}

pub(crate) fn side(pair: &VerbsQueuePair) -> ConnectionSide {
    ConnectionSide { qp: pair.number(), key: pair.key(), ip: pair.ip() }
}

/// How the end of a connection is counted.
pub(crate) const fn broken(fault: PairFault) -> ConnectionEnd {
    match fault {
        PairFault::RetriesExceeded => ConnectionEnd::Silent,
        PairFault::NotReadyRetriesExceeded => ConnectionEnd::NotReady,
        PairFault::Refused(_) => ConnectionEnd::Refused,
        PairFault::Error(_) => ConnectionEnd::QueuePair,
        PairFault::DeviceRemoved => ConnectionEnd::Device,
    }
}

pub(crate) fn endpoint(pair: &VerbsQueuePair) -> TransportAddress {
    let PairOptions { slots, slot_bytes, reliable, first_psn, .. } = pair.options();
    let details = vec![
        ("qp", format!("{:#x}", pair.number())),
        ("rkey", format!("{:#x}", pair.key())),
        ("base", "0x0".to_owned()),
        ("pages", slots.to_string()),
        ("page_size", slot_bytes.to_string()),
        ("service", if *reliable { "rc" } else { "uc" }.to_owned()),
        ("psn", format!("{first_psn:#x}")),
    ];
    let address = SocketAddr::V4(SocketAddrV4::new(pair.ip(), ROCE_PORT));
    TransportAddress { transport: NAME, address, details }
}

/// The wire error for a message that was not posted.
pub(crate) fn unsent(why: SendError) -> io::Error {
    match why {
        SendError::Full => io::ErrorKind::WouldBlock.into(),
        SendError::TooLong { .. } => io::Error::new(io::ErrorKind::InvalidInput, why),
        SendError::NotConnected => io::Error::new(io::ErrorKind::NotConnected, why),
        _ => io::Error::other(why),
    }
}

impl Wire for Verbs {
    type Peer = Connected;
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> TransportAddress {
        self.endpoint.clone()
    }

    fn max_frame_bytes(&self) -> usize {
        self.slot_bytes as usize
    }

    fn open(&mut self, receive_bytes: usize, _: usize) -> io::Result<()> {
        self.page = vec![0; receive_bytes];
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, Connected>)) -> io::Result<()> {
        if self.pair.is_none() {
            return Ok(());
        }
        self.meet()?;
        self.idle += 1;
        if self.idle >= POLLS_BETWEEN {
            self.idle = 0;
            let is_due = self.events_polled_at.elapsed() >= EVENTS_INTERVAL;
            if is_due {
                self.events_polled_at = Instant::now();
            }
            if is_due
                && let Some(pair) = &mut self.pair
                && let Err(fault) = pair.poll_events()
            {
                return self.ended(fault, take);
            }
        }
        let (Some(from), Some(pair)) = (self.peer, &mut self.pair) else { return Ok(()) };
        for _ in 0..limit {
            match pair.poll() {
                Ok(None) => break,
                Ok(Some(WorkCompletion::Written { immediate, bytes })) => {
                    self.idle = 0;
                    let (slot, len) = (Immediate(immediate).page(), bytes as usize);
                    if slot >= pair.options().slots {
                        take(WireArrival::Malformed);
                        continue;
                    }
                    let here = len.min(self.page.len());
                    let page = &mut self.page[..here];
                    pair.read(slot, page);
                    take(WireArrival::Frame(ReceivedFrame { from, slot: Some(slot), bytes: page, len }));
                }
                // A SEND is not a request; its receive is posted again.
                Ok(Some(WorkCompletion::Received { slot, .. })) => {
                    take(WireArrival::Malformed);
                    pair.release(slot).map_err(io::Error::other)?;
                }
                Err(fault) => return self.ended(fault, take),
            }
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<Connected>) -> Sent {
        let mut frames = 0;
        for frame in outbox.frames().take(BATCH) {
            let Some(pair) = self.pair.as_mut().filter(|_| self.peer == Some(frame.to)) else {
                return Sent { frames, error: Some(io::ErrorKind::NotConnected.into()) };
            };
            match pair.send(SendOperation::Send, frame.bytes) {
                Ok(()) => frames += 1,
                Err(why) => return Sent { frames, error: Some(unsent(why)) },
            }
        }
        Sent { frames, error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        match &self.pair {
            Some(pair) if self.peer.is_some() => pair.wait(timeout.min(LONGEST_SLEEP)),
            _ => {
                std::thread::sleep(timeout.min(LONGEST_SLEEP));
                Ok(())
            }
        }
    }
}
