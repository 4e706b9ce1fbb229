//! What moves datagrams, on whatever thread.

use crate::Refused;
use ringcall::Wait;
use ringcall_dispatch::ring::RingWindows;
use ringcall_dispatch::scan::GROUP;
use ringcall_dispatch::{RingMemory, SharedRing, SlotIndex};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_wire::flag::{FREE, IN_FLIGHT};
use ringcall_wire::header::{HEADER_BYTES, REQUEST_MAGIC, RequestHeader};
use ringcall_wire::header::{RESPONSE_MAGIC, ResponseHeader};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Empty turns before the thread blocks until a datagram comes or a response may be ready, where it has a core to itself.
const SPINS: u32 = 20_000;
/// The same where it shares a core with the threads that it waits for.
const SPINS_ON_A_SHARED_CORE: u32 = 16;
/// Threads that poll on both sides of a ring: the program's, the dispatcher's and this one.
const POLLING_THREADS: usize = 3;
/// The longest that it blocks: responses come through memory, and nothing would wake it.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };
/// Tries to send while the socket's buffer is full, a [`NAP`] between.
const TRIES: u32 = 2000;
/// Datagrams between two looks at the responses.
const BURST: u32 = 32;

pub(super) struct Pump {
    socket: UdpSocket,
    /// The one peer.
    peer: Option<SocketAddr>,
    /// The sender of the newest datagram: for responses to no request.
    newest: Option<SocketAddr>,
    ring: SharedRing,
    windows: RingWindows,
    /// The sender of the request in each slot.
    from: Box<[Option<SocketAddr>]>,
    /// The slot that the next datagram is put into.
    next: SlotIndex,
    /// The slot after the one that was sent last.
    send_from: SlotIndex,
    buffer: Vec<u8>,
    out: Vec<u8>,
    oversize: Arc<DeviceU64>,
    /// Driven by hooks: request flags are not used.
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
        // A ring has a slot 0; `geometry` makes nothing else.
        let first = geometry.iter().next().unwrap_or_else(|| unreachable!("a ring has slots"));
        Self {
            socket,
            peer,
            newest: None,
            windows: ring.windows(),
            from: geometry.iter().map(|_| None).collect(),
            next: first,
            send_from: first,
            // One byte more than a slot: what fills it is too long.
            buffer: vec![0; geometry.rx_stride() as usize + 1],
            out: vec![0; geometry.tx_stride() as usize],
            oversize,
            driven: false,
            ring,
        }
    }

    pub(super) fn run(mut self, stop: &DeviceU64) {
        let wait = Wait::default().resolve(POLLING_THREADS);
        let spins = if wait == Wait::Spin { SPINS } else { SPINS_ON_A_SHARED_CORE };
        let mut waiter = wait.waiter();
        let mut idle = 0_u32;
        while stop.load(Ordering::Acquire) == 0 {
            let mut moved = 0;
            while moved < BURST && self.receive().is_some() {
                moved += 1;
            }
            moved += self.send_ready();
            if moved > 0 {
                idle = 0;
                waiter.reset();
                continue;
            }
            idle = idle.saturating_add(1);
            if idle < spins {
                waiter.idle();
            } else {
                let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&NAP));
            }
        }
        self.send_ready();
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
                // Nothing there; or word that nobody listened, which is no datagram.
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

    /// For a user that drives it.
    pub(super) fn poll(&mut self) -> Option<u32> {
        self.receive()
    }

    /// Sends every response that is ready, in the ring's order from where it stopped. A slot that is not ready is passed over,
    /// so no response waits for another. Returns how many were sent.
    fn send_ready(&mut self) -> u32 {
        let geometry = *self.ring.geometry();
        let mut sent = 0;
        for _ in 0..geometry.slots() {
            let Some(distance) = self.first_ready(geometry.slots()) else { break };
            let found = self.slot_after(distance);
            // With acquire this time: pairs with the release of the flag's writer. A writer that fills slots in the ring's
            // order has set the flags of the slots before this one by now, so they are read again.
            let mut value = self.ring.tx(found);
            let distance = self.first_ready(distance).unwrap_or(distance);
            let slot = self.slot_after(distance);
            if slot != found {
                value = self.ring.tx(slot);
            }
            if value == geometry.response_address(slot) && self.publish(slot).is_ok() {
                sent += 1;
            }
            self.windows.tx_flags.store(slot.as_usize(), FREE, Ordering::Release);
            self.send_from = geometry.next(slot);
        }
        sent
    }

    /// The slot so many slots after the one that was sent last.
    fn slot_after(&self, distance: u32) -> SlotIndex {
        let geometry = self.ring.geometry();
        geometry.slot((self.send_from.get() + distance) % geometry.slots()).unwrap_or(self.send_from)
    }

    /// How far the first ready slot is from [`send_from`](Self::send_from), if it is nearer than `limit`. Eight flags at a
    /// time, relaxed.
    fn first_ready(&self, limit: u32) -> Option<u32> {
        let slots = self.ring.geometry().slots();
        let mut distance = 0;
        while distance < limit {
            let index = (self.send_from.get() + distance) % slots;
            let flags = self.ring.tx_group(index / GROUP);
            let of_group = flags.into_iter().skip((index % GROUP) as usize).take((slots - index) as usize);
            for value in of_group.take((limit - distance) as usize) {
                if value != FREE && value != IN_FLIGHT {
                    return Some(distance);
                }
                distance += 1;
            }
        }
        None
    }

    /// Sends what is in a response slot.
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
                // The socket's buffer is full: the network takes datagrams out of it, whoever is at its end.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&NAP));
                }
                Err(error) => return Err(Refused::internal(format!("cannot send to {to}: {error}"))),
            }
        }
        Err(Refused::internal(format!("cannot send to {to}: the socket's buffer stays full")))
    }
}

/// How much of a slot is worth sending: what its header says, or all of it.
fn length(slot: &[u8]) -> usize {
    let Ok(header) = RequestHeader::from_bytes(slot) else { return slot.len() };
    let payload = match header.magic {
        REQUEST_MAGIC => header.arg_len,
        RESPONSE_MAGIC => ResponseHeader::from_bytes(slot).map_or(u32::MAX, |header| header.result_len),
        _ => u32::MAX,
    };
    HEADER_BYTES.saturating_add(payload as usize).min(slot.len())
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
