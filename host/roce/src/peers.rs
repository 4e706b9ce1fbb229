//! The peers of a queue pair on a socket, each with a receiving end, a window and sequence numbers.

use crate::packet::Packet;
use crate::psn::Psn;
use crate::reason::Reason;
use crate::responder::{LocalQueuePair, PacketEffect, QueuePairError, Responder};
use std::net::SocketAddrV4;

/// A peer's receiving end of the queue pair, its window, and the sequence numbers of packets to the peer.
#[derive(Debug)]
pub struct PeerQueuePair {
    responder: Responder,
    window: Box<[u8]>,
    /// Sequence number of the next packet to the peer.
    psn: Psn,
    /// When the peer's last packet came, as a count of all packets.
    heard: u64,
    lost: u64,
    incomplete: u64,
}

impl PeerQueuePair {
    /// Takes in a packet.
    ///
    /// # Errors
    /// Why the packet was refused.
    #[inline]
    pub fn receive<'a>(&mut self, packet: &Packet<'a>) -> Result<PacketEffect<'a>, Reason> {
        self.responder.receive(packet, &mut *self.window)
    }

    /// Packets missing by sequence number that this method has not reported before.
    #[inline]
    pub fn newly_lost(&mut self) -> u64 {
        let lost = self.responder.stats().lost_packets();
        let newly = lost.saturating_sub(self.lost);
        self.lost += newly;
        newly
    }

    /// Abandoned frames and messages that this method has not reported before.
    #[inline]
    pub fn newly_incomplete(&mut self) -> u64 {
        let newly = self.responder.stats().incomplete - self.incomplete;
        self.incomplete += newly;
        newly
    }

    /// The bytes of a slot in the peer's window.
    #[inline]
    #[must_use]
    pub fn page(&self, slot: u32) -> &[u8] {
        let bytes = self.responder.queue_pair().slot_bytes as usize;
        &self.window[slot as usize * bytes..][..bytes]
    }
}

/// The peers of a queue pair, in a fixed number of entries. A newcomer that brings the window's key takes the entry of
/// the peer that was silent longest. Its window is zeroed first, so no peer sees another peer's bytes.
///
/// ```
/// use ringcall_roce::{PacketEffect, Immediate, Packet, Peers, PortOptions, Psn, Reth};
///
/// let port = PortOptions::new(4, 256);
/// let mut peers = Peers::new(port.queue_pair(), 2)?;
/// peers.allocate();
/// let reth = Reth { address: port.base, key: port.key, length: 5 };
/// let packet = Packet::write_immediate(port.qp, Psn::new(0), reth, Immediate::new(0, Psn::new(0)), b"hello");
/// let peer = peers.hear("10.0.0.1:4791".parse()?, &packet).expect("it brings the key");
/// assert!(matches!(peer.receive(&packet)?, PacketEffect::Arrived(_)));
/// assert_eq!(&peer.page(0)[..5], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Peers {
    /// In the order of `entries`; kept apart because every packet searches the addresses.
    addresses: Box<[Option<SocketAddrV4>]>,
    entries: Box<[PeerQueuePair]>,
    /// The index of the peer found last.
    recent: usize,
    packets: u64,
    evicted: u64,
    /// The number of the first packet to the next newcomer; `None` takes it from the clock.
    first_psn: Option<Psn>,
}

/// Distance between the first numbers of successive newcomers if the clock does not give them.
const FAR: u32 = 0x0F_00B5;

impl Peers {
    /// A table of `count` entries without windows.
    ///
    /// # Errors
    /// The numbers of `qp` do not form a valid queue pair.
    pub fn new(qp: LocalQueuePair, count: usize) -> Result<Self, QueuePairError> {
        let entry = || {
            let responder = Responder::new(qp)?;
            Ok(PeerQueuePair {
                responder,
                window: Box::default(),
                psn: Psn::new(0),
                heard: 0,
                lost: 0,
                incomplete: 0,
            })
        };
        let entries = (0..count).map(|_| entry()).collect::<Result<_, _>>()?;
        let addresses = vec![None; count].into();
        Ok(Self { addresses, entries, recent: 0, packets: 0, evicted: 0, first_psn: None })
    }

    /// Numbers the packets to the first newcomer from `first` on, and packets to later newcomers from distant numbers.
    /// `None` takes the first number from the clock.
    #[must_use]
    pub fn numbered_from(self, first: Option<Psn>) -> Self {
        Self { first_psn: first, ..self }
    }

    /// Allocates the windows as zeroed memory, which occupies no pages until a peer writes to it.
    pub fn allocate(&mut self) {
        for peer in &mut self.entries {
            let qp = peer.responder.queue_pair();
            peer.window = vec![0; qp.slots as usize * qp.slot_bytes as usize].into();
        }
    }

    #[inline]
    fn position(&mut self, address: SocketAddrV4) -> Option<usize> {
        if self.addresses.get(self.recent) == Some(&Some(address)) {
            return Some(self.recent);
        }
        self.recent = self.addresses.iter().position(|&known| known == Some(address))?;
        Some(self.recent)
    }

    /// The sequence number of the next packet to a known peer.
    #[inline]
    pub fn number(&mut self, address: SocketAddrV4) -> Option<&mut Psn> {
        let index = self.position(address)?;
        Some(&mut self.entries[index].psn)
    }

    /// The peer that sent a packet.
    ///
    /// # Errors
    /// The sender is unknown, and the packet does not [open](LocalQueuePair::is_opened_by) the queue pair.
    #[inline]
    pub fn hear(&mut self, address: SocketAddrV4, packet: &Packet<'_>) -> Result<&mut PeerQueuePair, Reason> {
        self.packets += 1;
        let index = match self.position(address) {
            Some(index) => index,
            None => self.admit(address, packet)?,
        };
        let peer = &mut self.entries[index];
        peer.heard = self.packets;
        Ok(peer)
    }

    /// Forgets a peer: its next packet begins a new connection with a zeroed window.
    pub fn forget(&mut self, address: SocketAddrV4) {
        if let Some(index) = self.position(address) {
            self.addresses[index] = None;
            self.entries[index].heard = 0;
            self.entries[index].window.fill(0);
        }
    }

    /// How many peers have lost their entries to newcomers since the last call.
    #[inline]
    pub fn newly_evicted(&mut self) -> u64 {
        std::mem::take(&mut self.evicted)
    }

    fn admit(&mut self, address: SocketAddrV4, packet: &Packet<'_>) -> Result<usize, Reason> {
        let oldest = self.entries.iter_mut().enumerate().min_by_key(|(_, peer)| peer.heard);
        let (index, peer) = oldest.ok_or(Reason::WrongPeer)?;
        peer.responder.queue_pair().is_opened_by(packet)?;
        if self.addresses[index].replace(address).is_some() {
            self.evicted += 1;
            peer.window.fill(0);
        }
        peer.responder.restart();
        peer.psn = self.first_psn.unwrap_or_else(Psn::first);
        self.first_psn = self.first_psn.map(|first| first.plus(FAR));
        self.recent = index;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::immediate::Immediate;
    use crate::packet::Reth;
    use crate::port::PortOptions;

    #[test]
    fn a_newcomer_finds_a_window_of_zeros() {
        let port = PortOptions::new(2, 128);
        let mut peers = Peers::new(port.queue_pair(), 1).expect("a queue pair");
        peers.allocate();
        let [first, second] = ["10.0.0.1:1", "10.0.0.2:1"].map(|text| text.parse().expect("an address"));
        let reth = Reth { address: port.base, key: port.key, length: 5 };
        let packet = |psn| Packet::write_immediate(port.qp, psn, reth, Immediate::new(0, psn), b"hello");
        let psn = Psn::new(9);
        peers.hear(first, &packet(psn)).expect("the key").receive(&packet(psn)).expect("it is right");
        assert_eq!(peers.newly_evicted(), 0);
        let wrong = Packet { reth: Some(Reth { key: 1, ..reth }), ..packet(psn) };
        assert_eq!(peers.hear(second, &wrong).err(), Some(Reason::WrongKey));
        let peer = peers.hear(second, &packet(psn)).expect("the key");
        assert_eq!(peer.page(0), [0; 128]);
        assert_eq!((peers.newly_evicted(), peers.newly_evicted()), (1, 0));
        assert!(peers.number(first).is_none() && peers.number(second).is_some());
    }
}
