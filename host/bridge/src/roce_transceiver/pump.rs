//! The pump that moves messages between a queue pair and two rings.

use super::adapter::Adapter;
use super::{RoceTransceiverOptions, Role, SendVerb};
use crate::Refused;
use crate::transceiver::idle::{IdlePolicy, SLEEP};
use crate::transceiver::pump::{last_ready, said_length};
use ringcall::thread::StopFlag;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_rdma::verbs::{
    EVENTS_INTERVAL, PairFault, RemoteQueuePair, SendError, SendOperation, VerbsError, WorkCompletion,
};
use ringcall_wire::flag::{FREE, IN_FLIGHT};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Completions between two polls of the responses.
const BURST: u32 = 32;
/// How long the last messages may take to be sent.
const LINGER: Duration = Duration::from_millis(200);
/// The bits of an immediate that name the slot.
const SLOT_MASK: u32 = 0xFFF;

/// Counters of a transceiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoceStats {
    /// Messages that were put into a slot, or sent back.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
    /// Writes whose immediate names no slot.
    pub malformed: u64,
    /// Writes over a message that was still waiting for its slot.
    pub overwritten: u64,
    /// Response slots that were cleared without being sent, because of an error mark or a length above a frame's.
    pub unsent: u64,
    /// Connections that have ended by a fault.
    pub broken: u64,
}

/// Live counters, and why nothing moves any more.
#[derive(Debug, Default)]
pub(super) struct Counted {
    received: DeviceU64,
    sent: DeviceU64,
    malformed: DeviceU64,
    overwritten: DeviceU64,
    unsent: DeviceU64,
    broken: DeviceU64,
    fault: Mutex<Option<PairFault>>,
}

impl Counted {
    pub(super) fn read(&self) -> RoceStats {
        let load = |count: &DeviceU64| count.load(Ordering::Relaxed);
        RoceStats {
            received: load(&self.received),
            sent: load(&self.sent),
            malformed: load(&self.malformed),
            overwritten: load(&self.overwritten),
            unsent: load(&self.unsent),
            broken: load(&self.broken),
        }
    }

    pub(super) fn fault(&self) -> Option<PairFault> {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, fault: PairFault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }
}

fn count(count: &DeviceU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    bytes: u32,
    /// Whether the message is a SEND, whose receive is posted again once the message is read.
    posts: bool,
}

pub(super) struct Pump {
    adapter: Box<dyn Adapter>,
    peer: Option<RemoteQueuePair>,
    /// The key to the peer's window.
    key: u32,
    role: Role,
    verb: SendVerb,
    frame_bytes: usize,
    ring: SharedRing,
    windows: RingWindows,
    /// For each slot, the message that waits until the slot is free.
    waiting: Box<[Option<Waiting>]>,
    waiting_count: u32,
    /// Slots of waiting SENDs, in the order in which they came: each waits for the ones before it.
    sends: VecDeque<u32>,
    /// Where the search for a waiting message begins.
    next: u32,
    /// The slot after the last response that was sent.
    first: SlotIndex,
    buffer: Vec<u8>,
    events_polled_at: Instant,
    counted: Arc<Counted>,
}

impl Pump {
    pub(super) fn new(
        adapter: Box<dyn Adapter>,
        options: &RoceTransceiverOptions,
        ring: SharedRing,
        counted: Arc<Counted>,
    ) -> Self {
        let geometry = *ring.geometry();
        Self {
            adapter,
            peer: None,
            key: 0,
            role: options.role,
            verb: options.verb,
            frame_bytes: options.frame_bytes as usize,
            windows: ring.windows(),
            waiting: geometry.iter().map(|_| None).collect(),
            waiting_count: 0,
            sends: VecDeque::with_capacity(geometry.slots() as usize),
            next: 0,
            // A ring has a slot 0, since `geometry` makes no empty one.
            first: geometry.slot(0).unwrap_or_else(|| unreachable!("a ring has slots")),
            buffer: vec![0; geometry.rx_stride() as usize],
            events_polled_at: Instant::now(),
            counted,
            ring,
        }
    }

    pub(super) fn connect(&mut self, peer: RemoteQueuePair, key: u32) -> Result<(), VerbsError> {
        self.adapter.connect(peer)?;
        (self.peer, self.key) = (Some(peer), key);
        Ok(())
    }

    /// Moves slots until it is stopped, or nothing moves any more.
    pub(super) fn run(&mut self, stop: &StopFlag) -> Result<(), PairFault> {
        let mut idle = IdlePolicy::new();
        while !stop.is_set() {
            if self.turn()? > 0 {
                idle.reset();
            } else if idle.blocks(|| self.is_due()) {
                self.adapter.doze(SLEEP);
            }
        }
        // One bounded round: slots filled after their poll are not sent.
        self.send_ready();
        Ok(())
    }

    /// Receives, sends, and checks the connection. Returns how many slots were moved.
    fn turn(&mut self) -> Result<u32, PairFault> {
        if let Some(fault) = self.counted.fault() {
            return Err(fault);
        }
        let mut moved = 0;
        if self.role != Role::SendOnly {
            while moved < BURST {
                let Some(slot) = self.receive()? else { break };
                // With [`Role::Forward`] messages fill no slot.
                if self.role != Role::Forward {
                    let address = self.ring.geometry().request_address(slot);
                    self.windows.rx_flags.store(slot.as_usize(), address, Ordering::Release);
                }
                moved += 1;
            }
        } else {
            self.collect()?;
        }
        if !matches!(self.role, Role::ReceiveOnly | Role::Forward) {
            moved += self.send_ready();
        }
        if moved == 0 {
            self.poll_events()?;
        }
        Ok(moved)
    }

    /// Polls the adapter's events other than completions, unless that was done recently.
    fn poll_events(&mut self) -> Result<(), PairFault> {
        if self.events_polled_at.elapsed() < EVENTS_INTERVAL {
            return Ok(());
        }
        self.events_polled_at = Instant::now();
        self.adapter.poll_events().or_else(|fault| self.ended(fault))
    }

    /// Whether the rings' user has a message, which it answers through memory.
    fn is_due(&self) -> bool {
        self.waiting_count > 0
            || self
                .ring
                .geometry()
                .iter()
                .any(|slot| self.ring.rx(slot) != FREE || self.ring.tx(slot) != FREE)
    }

    /// Handles the end of a connection: the next one begins with the same peer, unless the adapter is gone.
    fn ended(&mut self, fault: PairFault) -> Result<(), PairFault> {
        count(&self.counted.broken);
        self.waiting.fill(None);
        self.waiting_count = 0;
        self.sends.clear();
        let again = match self.peer {
            Some(peer) if fault != PairFault::DeviceRemoved => self.adapter.connect(peer).is_ok(),
            _ => false,
        };
        if again {
            return Ok(());
        }
        // An adapter that cannot be connected again may have been removed meanwhile.
        let fault = self.adapter.poll_events().err().unwrap_or(fault);
        self.counted.end(fault);
        Err(fault)
    }

    /// Takes all completions, in the order in which they came.
    fn collect(&mut self) -> Result<(), PairFault> {
        for _ in 0..BURST {
            let (slot, waiting) = match self.adapter.poll() {
                Ok(None) => return Ok(()),
                Ok(Some(WorkCompletion::Written { immediate, bytes })) => {
                    (immediate & SLOT_MASK, Waiting { bytes, posts: false })
                }
                Ok(Some(WorkCompletion::Received { slot, bytes })) => (slot, Waiting { bytes, posts: true }),
                Err(fault) => return self.ended(fault),
            };
            match self.waiting.get_mut(slot as usize) {
                // A slot's receive is posted again only when its message is read, so two SENDs never meet here. A write
                // may come over a SEND, whose receive must then still be posted.
                Some(entry) => {
                    let posted = entry.as_ref().is_some_and(|before| before.posts);
                    if waiting.posts && !posted {
                        self.sends.push_back(slot);
                    }
                    let posts = waiting.posts || posted;
                    match entry.replace(Waiting { posts, ..waiting }) {
                        None => self.waiting_count += 1,
                        Some(_) => count(&self.counted.overwritten),
                    }
                }
                None => count(&self.counted.malformed),
            }
        }
        Ok(())
    }

    /// Puts the next message into its slot, if there is one and the slot is free. The flag is left to the caller.
    fn receive(&mut self) -> Result<Option<SlotIndex>, PairFault> {
        self.collect()?;
        if self.waiting_count == 0 {
            return Ok(None);
        }
        let geometry = *self.ring.geometry();
        let slots = geometry.slots();
        for step in 0..slots {
            let index = (self.next + step) % slots;
            let (Some(slot), Some(waiting)) = (geometry.slot(index), self.waiting[index as usize]) else {
                continue;
            };
            if waiting.posts && self.sends.front() != Some(&index) {
                continue;
            }
            if self.role == Role::Forward {
                return Ok(self.forward(slot, waiting)?.then_some(slot));
            }
            // A user that only receives may use the response flags for something else.
            let is_answered = self.role == Role::ReceiveOnly || self.ring.tx(slot) == FREE;
            if self.ring.rx(slot) != FREE || !is_answered {
                continue;
            }
            let stride = geometry.rx_stride() as usize;
            let bytes = (waiting.bytes as usize).min(stride);
            self.adapter.read(index, &mut self.buffer[..bytes]);
            self.buffer[bytes..].fill(0);
            self.windows.rx_data.write(slot.as_usize() * stride, &self.buffer);
            count(&self.counted.received);
            self.taken(index, waiting)?;
            return Ok(Some(slot));
        }
        Ok(None)
    }

    /// Posts a message's receive again after the message was read.
    fn taken(&mut self, index: u32, waiting: Waiting) -> Result<(), PairFault> {
        self.waiting[index as usize] = None;
        self.waiting_count -= 1;
        self.next = index + 1;
        if waiting.posts {
            self.sends.pop_front();
        }
        if waiting.posts && self.adapter.release(index).is_err() {
            return self.ended(PairFault::Error("a receive could not be posted again"));
        }
        Ok(())
    }

    /// Sends a message back. Returns false if there was no room.
    fn forward(&mut self, slot: SlotIndex, waiting: Waiting) -> Result<bool, PairFault> {
        let bytes = (waiting.bytes as usize).min(self.buffer.len());
        self.adapter.read(slot.get(), &mut self.buffer[..bytes]);
        match self.adapter.send(self.operation(slot), &self.buffer[..bytes]) {
            Ok(()) => count(&self.counted.sent),
            Err(SendError::Full) => return Ok(false),
            Err(_) => count(&self.counted.unsent),
        }
        count(&self.counted.received);
        self.taken(slot.get(), waiting)?;
        Ok(true)
    }

    fn operation(&self, slot: SlotIndex) -> SendOperation {
        match self.verb {
            SendVerb::Send => SendOperation::Send,
            SendVerb::Write { base } => SendOperation::WriteImmediate {
                address: base + slot.as_usize() as u64 * u64::from(self.ring.geometry().rx_stride()),
                key: self.key,
                immediate: slot.get(),
            },
        }
    }

    /// Sends the responses that are ready, and returns how many. Slots filled in the order of the ring are sent in that
    /// order.
    fn send_ready(&mut self) -> u32 {
        let Some(last) = last_ready(&self.ring, self.first) else { return 0 };
        let geometry = *self.ring.geometry();
        let (mut slot, mut sent) = (self.first, 0);
        loop {
            let flag = self.ring.tx(slot);
            if flag != FREE && flag != IN_FLIGHT {
                let outcome = if flag == geometry.response_address(slot) {
                    self.send(slot)
                } else {
                    Err(SendError::NotConnected)
                };
                match outcome {
                    Ok(()) => sent += 1,
                    // The slot stays ready.
                    Err(SendError::Full) => return sent,
                    Err(_) => count(&self.counted.unsent),
                }
                self.windows.tx_flags.store(slot.as_usize(), FREE, Ordering::Release);
                self.first = geometry.next(slot);
            }
            if slot == last {
                return sent;
            }
            slot = geometry.next(slot);
        }
    }

    /// Sends the contents of a response slot.
    fn send(&mut self, slot: SlotIndex) -> Result<(), SendError> {
        let stride = self.ring.geometry().tx_stride() as usize;
        // The slot belongs to this ring.
        let _ = self.windows.tx_data.read(slot.as_usize() * stride, &mut self.buffer[..stride]);
        let whole = &self.buffer[..stride];
        let bytes = match said_length(whole) {
            None => self.frame_bytes,
            Some(bytes) if bytes > self.frame_bytes => {
                return Err(SendError::TooLong { bytes, most: self.frame_bytes });
            }
            Some(bytes) => bytes,
        };
        self.adapter.send(self.operation(slot), &self.buffer[..bytes])?;
        count(&self.counted.sent);
        Ok(())
    }

    /// Receives for a user that polls.
    pub(super) fn poll(&mut self) -> Result<Option<u32>, Refused> {
        let gone = |fault: PairFault| Refused::internal(fault.to_string());
        if let Some(fault) = self.counted.fault() {
            return Err(gone(fault));
        }
        let slot = self.receive().map_err(gone)?;
        if slot.is_none() {
            self.poll_events().map_err(gone)?;
        }
        Ok(slot.map(SlotIndex::get))
    }

    /// Sends for a user that polls.
    pub(super) fn publish(&mut self, slot: SlotIndex) -> Result<(), Refused> {
        if let Some(fault) = self.counted.fault() {
            return Err(Refused::internal(fault.to_string()));
        }
        let outcome = match self.send(slot) {
            // Completed messages make room.
            Err(SendError::Full) => {
                self.collect().map_err(|fault| Refused::internal(fault.to_string()))?;
                self.send(slot)
            }
            outcome => outcome,
        };
        outcome.map_err(|error| {
            if error != SendError::Full {
                count(&self.counted.unsent);
            }
            Refused::internal(error.to_string())
        })
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.adapter.drain(LINGER);
    }
}
