//! Who writes, and what they have written so far.

use ringcall_roce::{Event, Packet, Psn, QueuePair, QueuePairError, Reason, Responder};
use std::net::SocketAddrV4;

/// One peer: its end of the queue pair, its window, and the numbers of its answers.
#[derive(Debug)]
pub(super) struct Peer {
    address: Option<SocketAddrV4>,
    responder: Responder,
    window: Box<[u8]>,
    /// Of the next answer.
    psn: Psn,
    /// When it was last heard, in packets of all.
    heard: u64,
    /// Lost packets that were told.
    lost: u64,
}

impl Peer {
    /// Takes a packet in.
    #[inline]
    pub(super) fn receive<'a>(&mut self, packet: &Packet<'a>) -> Result<Event<'a>, Reason> {
        self.responder.receive(packet, &mut *self.window)
    }

    /// Packets that are missing and were not told yet.
    #[inline]
    pub(super) fn newly_lost(&mut self) -> u64 {
        let lost = self.responder.stats().lost_packets();
        let newly = lost.saturating_sub(self.lost);
        self.lost += newly;
        newly
    }

    /// What is in a page.
    #[inline]
    pub(super) fn page(&self, slot: u32) -> &[u8] {
        let bytes = self.responder.queue_pair().slot_bytes as usize;
        &self.window[slot as usize * bytes..][..bytes]
    }
}

/// The peers, a fixed number: few enough to be searched in turn.
#[derive(Debug)]
pub(super) struct Peers {
    places: Box<[Peer]>,
    packets: u64,
}

impl Peers {
    /// Places without windows.
    pub(super) fn new(qp: QueuePair, count: usize) -> Result<Self, QueuePairError> {
        let place = || {
            let responder = Responder::new(qp)?;
            let window = Box::default();
            Ok(Peer { address: None, responder, window, psn: Psn::new(0), heard: 0, lost: 0 })
        };
        Ok(Self { places: (0..count).map(|_| place()).collect::<Result<_, _>>()?, packets: 0 })
    }

    /// Makes the windows.
    pub(super) fn make_room(&mut self) {
        for peer in &mut self.places {
            let qp = peer.responder.queue_pair();
            peer.window = vec![0; qp.slots as usize * qp.slot_bytes as usize].into();
        }
    }

    fn position(&self, address: SocketAddrV4) -> Option<usize> {
        self.places.iter().position(|peer| peer.address == Some(address))
    }

    /// The number of the next answer to a peer, if it is known.
    #[inline]
    pub(super) fn number(&mut self, address: SocketAddrV4) -> Option<&mut Psn> {
        let index = self.position(address)?;
        Some(&mut self.places[index].psn)
    }

    /// Who has sent a packet; `None`: it is for another queue pair, or from nobody who is known or brings the key.
    #[inline]
    pub(super) fn hear(&mut self, address: SocketAddrV4, packet: &Packet<'_>) -> Option<&mut Peer> {
        self.packets += 1;
        let index = match self.position(address) {
            Some(index) => index,
            None => self.admit(address, packet)?,
        };
        let peer = &mut self.places[index];
        peer.heard = self.packets;
        Some(peer)
    }

    /// Gives a newcomer the place of whoever was silent longest.
    fn admit(&mut self, address: SocketAddrV4, packet: &Packet<'_>) -> Option<usize> {
        let (index, peer) = self.places.iter_mut().enumerate().min_by_key(|(_, peer)| peer.heard)?;
        if !peer.responder.queue_pair().is_opened_by(packet) {
            return None;
        }
        peer.address = Some(address);
        peer.responder.restart();
        peer.psn = Psn::first();
        Some(index)
    }
}
