//! Peers introduced by a rendezvous, and the queue pairs to which their answers go.

use crate::icrc::ROCE_PORT;
use crate::rendezvous::ConnectionSide;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// A peer that introduces itself. Dropping it lets the rendezvous thread, which waits for that, tell the peer that it
/// may send.
#[derive(Debug)]
pub struct Introduction {
    side: ConnectionSide,
    _done: Sender<()>,
}

impl Introduction {
    /// The peer's side, as the peer has named it.
    #[must_use]
    pub const fn side(&self) -> ConnectionSide {
        self.side
    }

    /// The address at which the peer receives packets: at port 4791, since a rendezvous names no port.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.side.ip, ROCE_PORT)
    }
}

/// The rendezvous' end of the channel: reports peers to the service's thread.
#[derive(Clone, Debug)]
pub struct Introducer(Sender<Introduction>);

/// How long a service's thread may take to learn of a peer.
const TIMEOUT: Duration = Duration::from_millis(500);

impl Introducer {
    /// Reports a peer without waiting. Returns false if the service is gone.
    pub fn tell(&self, side: ConnectionSide) -> bool {
        self.send(side, mpsc::channel().0)
    }

    fn send(&self, side: ConnectionSide, done: Sender<()>) -> bool {
        self.0.send(Introduction { side, _done: done }).is_ok()
    }

    /// Reports a peer, and waits up to half a second until the service's thread has learned of it. Returns whether it
    /// has.
    pub fn introduce(&self, side: ConnectionSide) -> bool {
        let (done, known) = mpsc::channel();
        self.send(side, done) && known.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}

/// A channel from a rendezvous to a service.
#[must_use]
pub fn introductions() -> (Introducer, Receiver<Introduction>) {
    let (tell, heard) = mpsc::channel();
    (Introducer(tell), heard)
}

/// The newest peers that named their queue pair at a rendezvous, one for each IP address. Answers to such a peer go to
/// its queue pair at port 4791, since packets name neither.
///
/// ```
/// use ringcall_roce::introduced::{Introduced, introductions};
/// use ringcall_roce::rendezvous::ConnectionSide;
///
/// let (introducer, heard) = introductions();
/// let mut introduced = Introduced::new(heard, 2);
/// let side = ConnectionSide { qp: 0x99, key: 0, ip: "10.0.0.2".parse()? };
/// let rendezvous = std::thread::spawn(move || introducer.introduce(side));
/// let introduction = std::iter::from_fn(|| Some(introduced.take_next())).flatten().next().expect("it comes");
/// assert_eq!(introduction.address(), "10.0.0.2:4791".parse()?);
/// drop(introduction);
/// assert!(rendezvous.join().expect("it ran"));
/// // From whichever port it sends.
/// let source = "10.0.0.2:49152".parse()?;
/// assert_eq!(introduced.address(source), "10.0.0.2:4791".parse()?);
/// assert_eq!(introduced.queue_pair(source), Some(0x99));
/// assert_eq!(introduced.address("10.0.0.3:5000".parse()?), "10.0.0.3:5000".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Introduced {
    heard: Option<Receiver<Introduction>>,
    /// The newest last.
    sides: VecDeque<ConnectionSide>,
    most: usize,
}

impl Introduced {
    /// Keeps up to `most` peers that a rendezvous' thread reports.
    #[must_use]
    pub fn new(heard: Receiver<Introduction>, most: usize) -> Self {
        Self { heard: Some(heard), sides: VecDeque::with_capacity(most), most }
    }

    /// Keeps no peers.
    #[must_use]
    pub const fn none() -> Self {
        Self { heard: None, sides: VecDeque::new(), most: 0 }
    }

    /// The next peer that has introduced itself, if any: a new connection begins with the introduction.
    #[inline]
    pub fn take_next(&mut self) -> Option<Introduction> {
        let introduction = self.heard.as_ref()?.try_recv().ok()?;
        let side = introduction.side;
        self.sides.retain(|known| known.ip != side.ip);
        if self.sides.len() == self.most {
            self.sides.pop_front();
        }
        self.sides.push_back(side);
        Some(introduction)
    }

    fn find(&self, ip: Ipv4Addr) -> Option<&ConnectionSide> {
        self.sides.iter().find(|side| side.ip == ip)
    }

    /// The address for answers to packets from `source`.
    #[inline]
    #[must_use]
    pub fn address(&self, source: SocketAddrV4) -> SocketAddrV4 {
        if self.find(*source.ip()).is_some() { SocketAddrV4::new(*source.ip(), ROCE_PORT) } else { source }
    }

    /// The queue pair of a peer that has introduced itself.
    #[inline]
    #[must_use]
    pub fn queue_pair(&self, peer: SocketAddrV4) -> Option<u32> {
        self.find(*peer.ip()).map(|side| side.qp)
    }
}
