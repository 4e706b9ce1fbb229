//! Configuration of a queue pair on a socket: its numbers, its window, and its peer.

use crate::hosts::Hosts;
use crate::icrc::IcrcCheck;
use crate::mtu::PathMtu;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::responder::{Incomplete, LocalQueuePair};
use crate::socket::RoceSocket;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4};

/// A window's key that is new at each start and that nobody can guess without seeing the traffic. The seed of a hash
/// map's hasher serves as the randomness.
#[must_use]
pub fn random_key() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

/// Options of a queue pair on a socket, common to all services on one.
///
/// ```
/// use ringcall_roce::PortOptions;
///
/// let port = PortOptions { qp: 0x99, ..PortOptions::new(8, 256) };
/// let line: Vec<String> = port.details().iter().map(|(key, value)| format!("{key}={value}")).collect();
/// assert_eq!(line.join(" "), "qp=0x99 rkey=0xbeef base=0x0 pages=8 page_size=256");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortOptions {
    /// The local address of one interface; port 0 takes a free port. Default: 127.0.0.1 and a free port. Hardware sends
    /// only to port [`ROCE_PORT`](crate::ROCE_PORT).
    pub address: SocketAddrV4,
    /// The queue pair's number, 24 bits. Default: 0x12.
    pub qp: u32,
    /// The key to the window that peers write to. Default: 0xBEEF.
    pub key: u32,
    /// The window's first address. Default: 0.
    pub base: u64,
    /// Pages of the window, at most [`MAX_PAGES`](crate::MAX_PAGES): as many as a ring has slots.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// The queue pair to which messages go. Default: 2, a sensor bridge's.
    pub remote_qp: u32,
    /// The only peer: packets from other hosts are refused, and messages go to this address and port. `None` takes any
    /// peer that brings the window's key. Default: `None`.
    pub peer: Option<SocketAddrV4>,
    /// The hosts whose packets are accepted. Default: every host.
    pub allowed: Hosts,
    /// The path MTU, which the peer must share: a longer message is sent as several packets. Default: 1024 bytes.
    pub mtu: PathMtu,
    /// How iCRCs are checked. Default: [`IcrcCheck::Recover`], which accepts packets of adapters, too.
    pub icrc: IcrcCheck,
}

impl PortOptions {
    /// The default options, with a window of `pages` pages of `page_bytes`.
    #[must_use]
    pub const fn new(pages: u32, page_bytes: u32) -> Self {
        Self {
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            qp: 0x12,
            key: 0xBEEF,
            base: 0,
            pages,
            page_bytes,
            remote_qp: 2,
            peer: None,
            allowed: Hosts::ANY,
            mtu: PathMtu::B1024,
            icrc: IcrcCheck::Recover,
        }
    }

    /// The queue pair of these options, which discards frames that lost packets.
    #[must_use]
    pub const fn queue_pair(&self) -> LocalQueuePair {
        let Self { qp: number, key, base, pages: slots, page_bytes: slot_bytes, .. } = *self;
        LocalQueuePair { number, key, base, slot_bytes, slots, incomplete: Incomplete::Discard }
    }

    /// What a peer must know besides the address, as keys and values for a status line.
    #[must_use]
    pub fn details(&self) -> Vec<(&'static str, String)> {
        let Self { qp, key, base, pages, page_bytes, .. } = self;
        vec![
            ("qp", format!("{qp:#x}")),
            ("rkey", format!("{key:#x}")),
            ("base", format!("{base:#x}")),
            ("pages", pages.to_string()),
            ("page_size", page_bytes.to_string()),
        ]
    }

    /// Parses and checks a datagram that came to `socket`.
    ///
    /// # Errors
    /// [`Reason::WrongPeer`], [`Reason::WrongIcrc`] or [`Reason::Malformed`].
    #[inline]
    pub fn accept<'a>(
        &self,
        socket: &RoceSocket,
        source: SocketAddrV4,
        datagram: &'a [u8],
    ) -> Result<Packet<'a>, Reason> {
        if self.peer.is_some_and(|peer| peer.ip() != source.ip()) || !self.allowed.hears(*source.ip()) {
            return Err(Reason::WrongPeer);
        }
        let envelope = socket.envelope_from(source);
        Ok(envelope.check(datagram, self.icrc).and_then(|()| Packet::parse(datagram))?)
    }
}
