//! Peers that a rendezvous has named: which queue pair the answers of an address go to.

use crate::icrc::ROCE_PORT;
use crate::rendezvous::Side;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::sync::mpsc::Receiver;

/// Peers that named their queue pair at a rendezvous, one an IP address; the newest of them, as many as are kept. Answers to such a
/// peer go to its queue pair, and to port 4791: packets name neither.
///
/// ```
/// use ringcall_roce::introduced::Introduced;
/// use ringcall_roce::rendezvous::Side;
/// use std::sync::mpsc::channel;
///
/// let (tell, heard) = channel();
/// let mut introduced = Introduced::new(heard, 2);
/// tell.send(Side { qp: 0x99, key: 0, ip: "10.0.0.2".parse()? })?;
/// assert_eq!(introduced.next(), Some("10.0.0.2:4791".parse()?));
/// assert_eq!(introduced.next(), None);
/// // From whichever port it sends.
/// let source = "10.0.0.2:49152".parse()?;
/// assert_eq!(introduced.address(source), "10.0.0.2:4791".parse()?);
/// assert_eq!(introduced.queue_pair(source), Some(0x99));
/// assert_eq!(introduced.address("10.0.0.3:5000".parse()?), "10.0.0.3:5000".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Introduced {
    heard: Option<Receiver<Side>>,
    /// The newest last.
    sides: VecDeque<Side>,
    most: usize,
}

impl Introduced {
    /// Hears of `most` peers from a rendezvous' thread.
    #[must_use]
    pub fn new(heard: Receiver<Side>, most: usize) -> Self {
        Self { heard: Some(heard), sides: VecDeque::with_capacity(most), most }
    }

    /// Hears of none.
    #[must_use]
    pub const fn none() -> Self {
        Self { heard: None, sides: VecDeque::new(), most: 0 }
    }

    /// The address of the next peer that has introduced itself, if one has: a new connection begins with it.
    #[inline]
    pub fn next(&mut self) -> Option<SocketAddrV4> {
        let side = self.heard.as_ref()?.try_recv().ok()?;
        self.sides.retain(|known| known.ip != side.ip);
        if self.sides.len() == self.most {
            self.sides.pop_front();
        }
        self.sides.push_back(side);
        Some(SocketAddrV4::new(side.ip, ROCE_PORT))
    }

    fn find(&self, ip: std::net::Ipv4Addr) -> Option<&Side> {
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
