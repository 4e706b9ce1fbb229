//! The workers: who is free, who serves which slot, and what became of it.

use super::super::mailed::{Mailbox, Mailed};
use crate::dispatcher::DeviceError;
use crate::driver::StreamState;
use core::fmt::Debug;
use ringcall::outside::{LaunchError, Outside};
use ringcall_dispatch::ring::SlotIndex;
use ringcall_dispatch::{Geometry, RingMemory, SharedRing};
use ringcall_gpu::shared::Bytes;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;
use std::time::{Duration, Instant};

/// Looks at what is under way between two questions how a stream stands: each is a call of the driver.
pub(super) const LOOK: u32 = 1 << 14;
/// `CUDA_ERROR_INVALID_VALUE`: a slot that the graphs' ring does not have.
pub(super) const INVALID: u16 = 1;
/// `CUDA_ERROR_NOT_FOUND`: no worker is for such a request.
pub(super) const NOT_FOUND: u16 = 500;
/// `CUDA_ERROR_UNKNOWN`: a graph ended without an answer.
pub(super) const UNKNOWN: u16 = 999;
/// A worker that nobody is.
const NOBODY: u32 = u32::MAX;
/// How long the last graphs' ends are waited for when all is dropped.
const MOMENT: Duration = Duration::from_millis(100);

/// What a worker's graph runs on. Tests play one.
pub(super) trait Lane: Debug + Send {
    /// Starts the graph, and returns.
    fn launch(&self) -> Result<(), u16>;
    /// How its stream stands: a call of the driver.
    fn state(&self) -> LaneState;
    /// Its graph is left to itself, and may never end.
    fn abandon(&self);
}

/// How a worker's stream stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LaneState {
    #[default]
    Busy,
    /// All has ended.
    Done,
    /// CUDA's number of what went wrong.
    Failed(u16),
}

fn code(error: &DeviceError) -> u16 {
    let code = match error {
        DeviceError::Cuda(error) => error.code(),
        _ => None,
    };
    code.and_then(|code| u16::try_from(code.code).ok()).unwrap_or(UNKNOWN)
}

impl Lane for Mailed {
    fn launch(&self) -> Result<(), u16> {
        Mailed::launch(self).map_err(|error| code(&error))
    }

    fn state(&self) -> LaneState {
        match Mailed::state(self) {
            StreamState::Failed(error) => LaneState::Failed(code(&error.into())),
            StreamState::Ready => LaneState::Done,
            StreamState::Busy => LaneState::Busy,
        }
    }

    fn abandon(&self) {
        Mailed::abandon(self);
    }
}

/// An executable graph and its mailbox.
#[derive(Debug)]
pub(super) struct Worker {
    function: u32,
    key: u64,
    lane: Box<dyn Lane>,
    mailbox: Mailbox,
    /// Of the request that it was claimed for last.
    header: RequestHeader,
    /// Whose answer it owes.
    slot: Option<SlotIndex>,
    /// It was launched, and its end was not noticed yet.
    runs: bool,
    /// Its stream is broken: nothing runs on it any more, or ever will.
    failed: bool,
}

impl Worker {
    pub(super) fn new(function: u32, key: u64, lane: Box<dyn Lane>, mailbox: Mailbox) -> Self {
        let header = RequestHeader::new(function, 0, 0, 0);
        Self { function, key, lane, mailbox, header, slot: None, runs: false, failed: false }
    }

    fn is_for(&self, header: &RequestHeader, key: u64) -> bool {
        !self.failed && self.function == header.function_id && (self.key == 0 || self.key == key)
    }

    /// Owes nothing, and its graph is done with the mailbox.
    fn is_idle(&self) -> bool {
        self.slot.is_none() && (self.failed || self.mailbox.is_free())
    }
}

/// The workers of a ring.
#[derive(Debug)]
pub(super) struct Crew {
    ring: SharedRing,
    /// Device addresses of the response slots and flags.
    tx_data: u64,
    tx_flags: u64,
    responses: Bytes,
    workers: Vec<Worker>,
    /// How many of them owe an answer.
    owing: usize,
    /// How many of them run, those that owe an answer among them.
    running: usize,
    staged: Vec<u8>,
    looks: u32,
}

impl Crew {
    pub(super) fn new(ring: SharedRing, tx_data: u64, tx_flags: u64) -> Self {
        let responses = ring.windows().tx_data;
        let staged = vec![0; ring.geometry().request_capacity() as usize];
        Self {
            ring,
            tx_data,
            tx_flags,
            responses,
            workers: Vec::new(),
            owing: 0,
            running: 0,
            staged,
            looks: 0,
        }
    }

    /// Bytes of a mailbox's payload, and of a result.
    pub(super) fn capacity(&self) -> u32 {
        self.ring.geometry().request_capacity()
    }

    pub(super) fn add(&mut self, worker: Worker) {
        self.workers.push(worker);
    }

    fn is_unanswered(&self, slot: SlotIndex) -> bool {
        // Acquire: pairs with the release of the graph's answer.
        TxState::decode(self.ring.tx(slot)) == TxState::InFlight
    }

    /// How a slot was answered. The response stays where it is until the slot is launched again, taken or not.
    fn status_of(&self, slot: SlotIndex) -> Status {
        let at = slot.as_usize() * self.ring.geometry().tx_stride() as usize;
        self.responses
            .read_words(at)
            .map_or(Status::OK, |words| Status(ResponseHeader::from_words(words).status))
    }

    /// Answers for a graph that has ended without.
    fn fail(&self, slot: SlotIndex, header: &RequestHeader, code: u16) -> Status {
        let answer = ResponseHeader::reply(header, Status::LAUNCH_FAILED.0, 0);
        self.ring.write_response(slot, answer.to_words(), &[]);
        self.ring.publish_tx(slot, flag::error(code));
        Status::LAUNCH_FAILED
    }

    /// What became of the request in `slot`, if that is known. `over` has the code to fail it with, once its graph has ended.
    fn outcome(&self, worker: &Worker, slot: SlotIndex, over: Option<u16>) -> Option<Status> {
        if !self.is_unanswered(slot) {
            return Some(self.status_of(slot));
        }
        over.map(|code| self.fail(slot, &worker.header, code))
    }

    /// Takes note of what has ended; with `look` also of graphs that ended without freeing their mailbox, or failed.
    fn settle(&mut self, look: bool, ended: &mut dyn FnMut(Status)) {
        for index in 0..self.workers.len() {
            let worker = &self.workers[index];
            if !worker.runs {
                continue;
            }
            // In this order: a graph that is over answers and frees no more, and one that has freed its mailbox has answered.
            let ask = look && !worker.mailbox.is_free();
            let state = if ask { worker.lane.state() } else { LaneState::Busy };
            let free = worker.mailbox.is_free();
            let over = match state {
                LaneState::Failed(code) => Some(code),
                LaneState::Done => Some(UNKNOWN),
                LaneState::Busy => free.then_some(UNKNOWN),
            };
            let status = worker.slot.and_then(|slot| self.outcome(worker, slot, over));
            let worker = &mut self.workers[index];
            if let Some(status) = status {
                worker.slot = None;
                self.owing -= 1;
                ended(status);
            }
            if over.is_some() {
                worker.runs = false;
                self.running -= 1;
                worker.failed = matches!(state, LaneState::Failed(_));
                if !worker.failed && !free {
                    worker.mailbox.take_back();
                }
            }
        }
    }
}

impl Outside for Crew {
    fn is_for(&self, ring: &Geometry) -> bool {
        // With the addresses of its memory.
        self.ring.geometry() == ring
    }

    #[inline]
    fn service(&mut self, ended: &mut dyn FnMut(Status)) {
        if self.running == 0 {
            return;
        }
        self.looks = self.looks.wrapping_add(1);
        self.settle(self.looks.is_multiple_of(LOOK), ended);
    }

    #[inline]
    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> Option<u32> {
        let mut anybody = false;
        let mut found = None;
        for (index, worker) in
            self.workers.iter().enumerate().filter(|(_, worker)| worker.is_for(header, key))
        {
            anybody = true;
            if worker.is_idle() {
                found = Some(index);
                break;
            }
        }
        if !anybody {
            // Nobody ever will: `start` says so.
            return Some(NOBODY);
        }
        let index = found?;
        // Its answer was taken and the slot filled again before a look at it: that must not be taken for the new one's end.
        if self.serves(slot) {
            return None;
        }
        self.workers[index].header = *header;
        Some(index as u32)
    }

    #[inline]
    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError> {
        let Some(worker) = self.workers.get_mut(worker as usize) else {
            return Err(LaunchError { code: NOT_FOUND });
        };
        // The device writes to addresses made of it, and it may be another ring's.
        let Some(slot) = self.ring.geometry().slot(slot.get()) else {
            return Err(LaunchError { code: INVALID });
        };
        let payload = &mut self.staged[..];
        // The dispatcher has checked the header's length; this is its copy.
        let len = (worker.header.arg_len as usize).min(payload.len());
        let payload = &mut payload[..len];
        self.ring.read_payload(slot, payload);
        let geometry = self.ring.geometry();
        let offset = u64::from(slot.get()) * u64::from(geometry.tx_stride());
        worker.mailbox.set(io::TX_SLOT, self.tx_data + offset);
        worker.mailbox.set(io::TX_FLAG, self.tx_flags + u64::from(slot.get()) * 8);
        worker.mailbox.set(io::TX_VALUE, geometry.response_address(slot));
        worker.mailbox.set(io::TX_CAPACITY, geometry.result_capacity().into());
        worker.mailbox.set(io::SLOT, slot.get().into());
        // It fits: mailboxes are as large as the ring's payloads.
        let posted = worker.mailbox.post(&worker.header, payload);
        debug_assert!(posted);
        worker.lane.launch().map_err(|code| {
            worker.mailbox.take_back();
            LaunchError { code }
        })?;
        worker.slot = Some(slot);
        self.owing += 1;
        // Its last end may not have been noticed yet.
        self.running += usize::from(!worker.runs);
        worker.runs = true;
        Ok(())
    }

    fn marks(&self) -> bool {
        true
    }

    fn serves(&self, slot: SlotIndex) -> bool {
        self.owing > 0 && self.workers.iter().any(|worker| worker.slot == Some(slot))
    }

    fn is_idle(&self) -> bool {
        self.owing == 0 && self.workers.iter().all(Worker::is_idle)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let begin = Instant::now();
        while !self.is_idle() {
            self.settle(true, &mut |_| ());
            if begin.elapsed() >= MOMENT {
                // A graph still reads its mailbox and will write into the ring; freeing anything else would wait for it.
                self.workers
                    .iter()
                    .filter(|worker| !worker.is_idle())
                    .for_each(|worker| worker.lane.abandon());
                core::mem::forget((core::mem::take(&mut self.workers), self.ring.clone()));
                return;
            }
            std::thread::yield_now();
        }
    }
}
