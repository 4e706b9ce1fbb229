//! The peers of a queue pair on a socket: a receiving end, a window and sequence numbers for each.

use crate::packet::Packet;
use crate::psn::Psn;
use crate::reason::Reason;
use crate::responder::{Event, QueuePair, QueuePairError, Responder};
use std::net::SocketAddrV4;

/// One peer: its receiving end of the queue pair, its window, and the sequence numbers of packets to the
/// peer.
#[derive(Debug)]
pub struct Peer {
    responder: Responder,
    window: Box<[u8]>,
    /// Of the next packet to it.
    psn: Psn,
    /// When a packet of it came last, as a count of all packets.
    heard: u64,
    /// Lost packets that were reported.
    lost: u64,
    /// Frames given up that were reported.
    incomplete: u64,
}

impl Peer {
    /// Takes a packet in.
    ///
    /// # Errors
    /// Why nothing came of it.
    #[inline]
    pub fn receive<'a>(&mut self, packet: &Packet<'a>) -> Result<Event<'a>, Reason> {
        self.responder.receive(packet, &mut *self.window)
    }

    /// Packets that are missing, by their sequence numbers, and were not reported by this call before.
    #[inline]
    pub fn newly_lost(&mut self) -> u64 {
        let lost = self.responder.stats().lost_packets();
        let newly = lost.saturating_sub(self.lost);
        self.lost += newly;
        newly
    }

    /// Frames and messages that were given up, and were not reported by this call before.
    #[inline]
    pub fn newly_incomplete(&mut self) -> u64 {
        let newly = self.responder.stats().incomplete - self.incomplete;
        self.incomplete += newly;
        newly
    }

    /// The bytes of a slot of its window.
    #[inline]
    #[must_use]
    pub fn page(&self, slot: u32) -> &[u8] {
        let bytes = self.responder.queue_pair().slot_bytes as usize;
        &self.window[slot as usize * bytes..][..bytes]
    }
}

/// The peers of a queue pair: a fixed number of entries. A newcomer that brings the window's key takes the entry of the
/// peer that was silent longest, and finds a window of zeros: never another peer's bytes.
///
/// ```
/// use ringcall_roce::{Event, Immediate, Packet, Peers, PortOptions, Psn, Reth};
///
/// let port = PortOptions::new(4, 256);
/// let mut peers = Peers::new(port.queue_pair(), 2)?;
/// peers.allocate();
/// let reth = Reth { address: port.base, key: port.key, length: 5 };
/// let packet = Packet::write_immediate(port.qp, Psn::new(0), reth, Immediate::new(0, Psn::new(0)), b"hello");
/// let peer = peers.hear("10.0.0.1:4791".parse()?, &packet).expect("it brings the key");
/// assert!(matches!(peer.receive(&packet)?, Event::Arrived(_)));
/// assert_eq!(&peer.page(0)[..5], b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Peers {
    /// In the order of `entries`; apart from the rest, since they are searched.
    addresses: Box<[Option<SocketAddrV4>]>,
    entries: Box<[Peer]>,
    /// The index of the peer found last.
    recent: usize,
    packets: u64,
    evicted: u64,
    /// The number of the first packet to the next newcomer; `None`: by the clock.
    first_psn: Option<Psn>,
}

/// From one newcomer's first number to the next's, where the clock gives none.
const FAR: u32 = 0x0F_00B5;

impl Peers {
    /// `count` entries without windows.
    ///
    /// # Errors
    /// Numbers that make no queue pair.
    pub fn new(qp: QueuePair, count: usize) -> Result<Self, QueuePairError> {
        let entry = || {
            let responder = Responder::new(qp)?;
            Ok(Peer { responder, window: Box::default(), psn: Psn::new(0), heard: 0, lost: 0, incomplete: 0 })
        };
        let entries = (0..count).map(|_| entry()).collect::<Result<_, _>>()?;
        let addresses = vec![None; count].into();
        Ok(Self { addresses, entries, recent: 0, packets: 0, evicted: 0, first_psn: None })
    }

    /// Packets to the first newcomer are numbered from `first` on, to the others from numbers far from it; `None`: from a number that
    /// the clock gives.
    #[must_use]
    pub fn numbered_from(self, first: Option<Psn>) -> Self {
        Self { first_psn: first, ..self }
    }

    /// Allocates the windows: zeroed memory, which takes up space once a peer writes to it.
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

    /// The sequence number of the next packet to a peer, if the peer is known.
    #[inline]
    pub fn number(&mut self, address: SocketAddrV4) -> Option<&mut Psn> {
        let index = self.position(address)?;
        Some(&mut self.entries[index].psn)
    }

    /// The peer that has sent a packet.
    ///
    /// # Errors
    /// The sender is not known, and the packet does not [open](QueuePair::is_opened_by) the queue pair.
    #[inline]
    pub fn hear(&mut self, address: SocketAddrV4, packet: &Packet<'_>) -> Result<&mut Peer, Reason> {
        self.packets += 1;
        let index = match self.position(address) {
            Some(index) => index,
            None => self.admit(address, packet)?,
        };
        let peer = &mut self.entries[index];
        peer.heard = self.packets;
        Ok(peer)
    }

    /// Forgets a peer: a new connection begins with it, and finds zeros in its window.
    pub fn forget(&mut self, address: SocketAddrV4) {
        if let Some(index) = self.position(address) {
            self.addresses[index] = None;
            self.entries[index].heard = 0;
            self.entries[index].window.fill(0);
        }
    }

    /// How many peers have lost their entry to a newcomer, since this was asked last.
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
