//! Introduced peers: the queue pair to which the answers of an address go, as the rendezvous introduced it.

use crate::icrc::ROCE_PORT;
use crate::rendezvous::Side;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// A peer that introduces itself. The rendezvous' thread waits until this is dropped: then the peer is told, and may send.
#[derive(Debug)]
pub struct Introduction {
    side: Side,
    _done: Sender<()>,
}

impl Introduction {
    /// What the peer says of itself.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Where the peer takes packets: at port 4791, since a rendezvous names no port.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.side.ip, ROCE_PORT)
    }
}

/// A rendezvous' end: tells the service's thread of peers.
#[derive(Clone, Debug)]
pub struct Introducer(Sender<Introduction>);

/// How long a service's thread may take to know a peer.
const TIMEOUT: Duration = Duration::from_millis(500);

impl Introducer {
    /// Tells of a peer, and waits for nothing. False if there is no service any more.
    pub fn tell(&self, side: Side) -> bool {
        self.send(side, mpsc::channel().0)
    }

    fn send(&self, side: Side, done: Sender<()>) -> bool {
        self.0.send(Introduction { side, _done: done }).is_ok()
    }

    /// Tells of a peer, and waits until the service's thread knows it, for half a second at most. False if it does not know it then.
    pub fn introduce(&self, side: Side) -> bool {
        let (done, known) = mpsc::channel();
        self.send(side, done) && known.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}

/// Both ends of what a rendezvous tells a service.
#[must_use]
pub fn introductions() -> (Introducer, Receiver<Introduction>) {
    let (tell, heard) = mpsc::channel();
    (Introducer(tell), heard)
}

/// Peers that named their queue pair at a rendezvous, one an IP address; the newest of them, as many as are kept. Answers to such a
/// peer go to its queue pair, and to port 4791: packets name neither.
///
/// ```
/// use ringcall_roce::introduced::{Introduced, introductions};
/// use ringcall_roce::rendezvous::Side;
///
/// let (introducer, heard) = introductions();
/// let mut introduced = Introduced::new(heard, 2);
/// let side = Side { qp: 0x99, key: 0, ip: "10.0.0.2".parse()? };
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
    sides: VecDeque<Side>,
    most: usize,
}

impl Introduced {
    /// Hears of `most` peers from a rendezvous' thread.
    #[must_use]
    pub fn new(heard: Receiver<Introduction>, most: usize) -> Self {
        Self { heard: Some(heard), sides: VecDeque::with_capacity(most), most }
    }

    /// Hears of none.
    #[must_use]
    pub const fn none() -> Self {
        Self { heard: None, sides: VecDeque::new(), most: 0 }
    }

    /// The next peer that has introduced itself, if one has: a new connection begins with it.
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

    fn find(&self, ip: Ipv4Addr) -> Option<&Side> {
        self.sides.iter().find(|side| side.ip == ip)
    }

    /// Where the answers to packets of this source go.
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
