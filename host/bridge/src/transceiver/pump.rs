//! The pump that moves datagrams between a socket and two rings.

use super::idle::{IdlePolicy, SLEEP};
use crate::Refused;
use ringcall::thread::StopFlag;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::scan::GROUP;
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag::{FREE, IN_FLIGHT};
use ringcall_wire::header::{HEADER_BYTES, REQUEST_MAGIC, RequestHeader};
use ringcall_wire::header::{RESPONSE_MAGIC, ResponseHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Attempts to send while the socket's buffer is full, with a [`SLEEP`] between them.
const TRIES: u32 = 2000;
/// Datagrams between two polls of the responses.
const BURST: u32 = 32;

pub(super) struct Pump {
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    /// The sender of the newest datagram, for responses without a request.
    newest: Option<SocketAddr>,
    ring: SharedRing,
    windows: RingWindows,
    /// The sender of each request slot's contents.
    from: Box<[Option<SocketAddr>]>,
    next: SlotIndex,
    /// The slot after the last response that was sent.
    first: SlotIndex,
    buffer: Vec<u8>,
    out: Vec<u8>,
    oversize: Arc<DeviceU64>,
    /// Whether the user polls; request flags are then not used.
    pub(super) driven: bool,
}

impl Pump {
    pub(super) fn new(
        socket: UdpSocket,
        peer: Option<SocketAddr>,
        ring: SharedRing,
        oversize: Arc<DeviceU64>,
    ) -> Self {
        let geometry = *ring.geometry();
        // A ring has a slot 0, since `geometry` makes no empty one.
        let first = geometry.slot(0).unwrap_or_else(|| unreachable!("a ring has slots"));
        Self {
            socket,
            peer,
            newest: None,
            windows: ring.windows(),
            from: geometry.iter().map(|_| None).collect(),
            next: first,
            first,
            // One byte more than a slot: a datagram that fills the buffer is too long.
            buffer: vec![0; geometry.rx_stride() as usize + 1],
            out: vec![0; geometry.tx_stride() as usize],
            oversize,
            driven: false,
            ring,
        }
    }

    pub(super) fn run(mut self, stop: &StopFlag) {
        let mut idle = IdlePolicy::new();
        while !stop.is_set() {
            let mut moved = 0;
            while moved < BURST && self.receive().is_some() {
                moved += 1;
            }
            moved += self.send_ready();
            if moved > 0 {
                idle.reset();
            } else if idle.blocks(|| self.is_due()) {
                self.doze(PollFlags::IN);
            }
        }
        self.send_ready();
    }

    /// Blocks until the socket is ready, or a response may be.
    fn doze(&self, flags: PollFlags) {
        const SLEEP_SPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos() as _ };
        let _ = poll(&mut [PollFd::new(&self.socket, flags)], Some(&SLEEP_SPEC));
    }

    /// Whether the ring's user has a request from the socket, which it answers through memory. At a connected end the
    /// socket receives answers instead.
    fn is_due(&self) -> bool {
        self.peer.is_none()
            && self
                .ring
                .geometry()
                .iter()
                .any(|slot| self.ring.rx(slot) != FREE || self.ring.tx(slot) != FREE)
    }

    /// Puts a datagram into the next slot, if there is one and the slot is free.
    fn receive(&mut self) -> Option<u32> {
        let slot = self.next;
        let (rx, tx) = (self.ring.rx(slot), self.ring.tx(slot));
        if rx != FREE || tx != FREE {
            return None;
        }
        let geometry = *self.ring.geometry();
        let stride = geometry.rx_stride() as usize;
        let (len, from) = loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok((len, from)) if len <= stride => break (len, from),
                Ok(_) => {
                    self.oversize.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                // No datagram, or a report that no socket listened.
                Err(_) => return None,
            }
        };
        self.buffer[len..stride].fill(0);
        self.windows.rx_data.write(slot.as_usize() * stride, &self.buffer[..stride]);
        self.newest = Some(from);
        self.from[slot.as_usize()] = Some(from);
        if !self.driven {
            self.windows.rx_flags.store(slot.as_usize(), geometry.request_address(slot), Ordering::Release);
        }
        self.next = geometry.next(slot);
        Some(slot.get())
    }

    /// Receives for a user that polls.
    pub(super) fn poll(&mut self) -> Option<u32> {
        self.receive()
    }

    /// Sends the responses that are ready, and returns how many.
    fn send_ready(&mut self) -> u32 {
        match self.peer {
            Some(_) => self.send_in_order(),
            None => self.send_past_unanswered(),
        }
    }

    /// Sends for a connected end: in the order of the ring, up to the first slot that is not ready. The user fills
    /// slots in that order, so a later slot would overtake an earlier one.
    fn send_in_order(&mut self) -> u32 {
        let slots = self.ring.geometry().slots();
        let mut sent = 0;
        for _ in 0..slots {
            match self.ring.tx(self.first) {
                FREE | IN_FLIGHT => break,
                value => sent += self.send_one(self.first, value),
            }
        }
        sent
    }

    /// Sends for a bound end, skipping slots that are not answered. Answers made in the order of the ring are sent in
    /// that order: up to the last slot seen ready, whose flag was set after theirs.
    fn send_past_unanswered(&mut self) -> u32 {
        let Some(last) = last_ready(&self.ring, self.first) else { return 0 };
        let geometry = *self.ring.geometry();
        let (mut slot, mut sent) = (self.first, 0);
        loop {
            let value = self.ring.tx(slot);
            if value != FREE && value != IN_FLIGHT {
                sent += self.send_one(slot, value);
            }
            if slot == last {
                return sent;
            }
            slot = geometry.next(slot);
        }
    }

    /// Sends a slot if its flag says that it has a response, and clears the flag. Returns how many were sent.
    fn send_one(&mut self, slot: SlotIndex, flag: u64) -> u32 {
        let geometry = *self.ring.geometry();
        let sent = flag == geometry.response_address(slot) && self.publish(slot).is_ok();
        self.windows.tx_flags.store(slot.as_usize(), FREE, Ordering::Release);
        self.first = geometry.next(slot);
        u32::from(sent)
    }

    /// Sends the contents of a response slot.
    pub(super) fn publish(&mut self, slot: SlotIndex) -> Result<(), Refused> {
        let to = self.peer.or(self.from[slot.as_usize()]).or(self.newest);
        let to = to.ok_or_else(|| Refused::invalid("nobody to send to: no datagram has come yet"))?;
        let stride = self.out.len();
        if !self.windows.tx_data.read(slot.as_usize() * stride, &mut self.out) {
            return Err(Refused::internal("the slot is outside its ring"));
        }
        let frame = &self.out[..length(&self.out)];
        for _ in 0..TRIES {
            let outcome = match self.peer {
                Some(_) => self.socket.send(frame),
                None => self.socket.send_to(frame, to),
            };
            match outcome {
                Ok(_) => return Ok(()),
                // The socket's buffer is full. The network empties it, even if no peer is at its end.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    self.doze(PollFlags::OUT);
                }
                Err(error) => return Err(Refused::internal(format!("cannot send to {to}: {error}"))),
            }
        }
        Err(Refused::internal(format!("cannot send to {to}: the socket's buffer stays full")))
    }
}

/// The last response slot in the order of the ring, from `first` on, whose flag is set. Slots before it were filled
/// before it if the user fills them in that order.
pub(crate) fn last_ready(ring: &SharedRing, first: SlotIndex) -> Option<SlotIndex> {
    let geometry = *ring.geometry();
    let (first, slots) = (first.get(), geometry.slots());
    let mut last = None;
    for group in 0..slots.div_ceil(GROUP) {
        let flags = ring.tx_group(group);
        for (value, index) in flags.into_iter().zip(group * GROUP..) {
            if value != FREE && value != IN_FLIGHT && index < slots {
                let distance = if index < first { index + slots - first } else { index - first };
                last = last.max(Some((distance, index)));
            }
        }
    }
    let last = last.and_then(|(_, index)| geometry.slot(index))?;
    // With acquire: the dispatcher that set this flag had set the flags before it.
    let _ = ring.tx(last);
    Some(last)
}

/// The bytes of a slot to send: as many as its header says, or all.
fn length(slot: &[u8]) -> usize {
    said_length(slot).map_or(slot.len(), |bytes| bytes.min(slot.len()))
}

/// The frame's length by the header in its slot, which may exceed the slot; `None` without a header.
pub(crate) fn said_length(slot: &[u8]) -> Option<usize> {
    let header = RequestHeader::from_bytes(slot).ok()?;
    let payload = match header.magic {
        REQUEST_MAGIC => header.arg_len,
        RESPONSE_MAGIC => ResponseHeader::from_bytes(slot).ok()?.result_len,
        _ => return None,
    };
    Some(HEADER_BYTES.saturating_add(payload as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_sent_as_long_as_its_header_says() {
        let mut slot = vec![7; 64];
        assert_eq!(length(&slot), 64, "no header");
        let request = RequestHeader::new(1, 5, 2, 3);
        slot[..HEADER_BYTES].copy_from_slice(&request.to_bytes());
        assert_eq!(length(&slot), 29);
        slot[..HEADER_BYTES].copy_from_slice(&ResponseHeader::reply(&request, 0, 40).to_bytes());
        assert_eq!(length(&slot), 64);
        slot[..HEADER_BYTES].copy_from_slice(&ResponseHeader::reply(&request, 0, u32::MAX).to_bytes());
        assert_eq!(length(&slot), 64);
    }
}
