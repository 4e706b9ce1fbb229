//! The ledger of requests in flight: which agent may answer a slot.
//!
//! A request in flight can end in several ways at once: its worker finishes, a deferred completion arrives from
//! another thread, its time is up, the dispatcher stops. The ledger makes exactly one of them the answer. Each slot has
//! a generation that moves on with every request, so a result that comes too late, even after the slot was reused, is
//! recognised and dropped (and counted by the caller).
//!
//! The words are memory of this side alone, so read-modify-write is allowed.

use crate::ring::SlotIndex;
use crate::slot::InFlight;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_wire::header::RequestHeader;

/// How far a request in flight has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// Nobody's: never used, or answered.
    Completed = 0,
    /// Accepted, waiting for a worker of its function.
    Queued = 1,
    /// With a worker.
    Running = 2,
    /// Released by its worker, to be completed from elsewhere.
    Deferred = 3,
}

impl Phase {
    const fn of(state: u64) -> Self {
        match state & 0xFF {
            1 => Self::Queued,
            2 => Self::Running,
            3 => Self::Deferred,
            _ => Self::Completed,
        }
    }
}

/// The plain-data name of one request in flight: can be copied into mailboxes and tags. Worth nothing by itself:
/// only [`Ledger::complete`] turns it into the right to answer, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The slot.
    pub slot: SlotIndex,
    /// Which request in that slot.
    pub generation: u64,
    /// The private copy of the request header.
    pub header: RequestHeader,
}

/// What a dump shows of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// How far the request has come.
    pub phase: Phase,
    /// Which request in that slot, from 1.
    pub generation: u64,
    /// Its function.
    pub function_id: u32,
    /// The 32-bit id of its header.
    pub request_id: u32,
    /// When it was accepted (clock of the caller, ns).
    pub since_ns: u64,
    /// The worker that has it, once it is [`Phase::Running`].
    pub worker: Option<u32>,
}

/// The words of one slot.
#[derive(Debug, Default)]
pub struct Record {
    /// generation << 8 | phase.
    state: DeviceU64,
    /// function id | request id << 32.
    ids: DeviceU64,
    since_ns: DeviceU64,
    /// worker + 1, or 0.
    worker: DeviceU64,
}

/// The ledger of a ring: one [`Record`] a slot, in storage of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct Ledger<'a> {
    records: &'a [CachePadded<Record>],
}

impl<'a> Ledger<'a> {
    /// A ledger over `records`, one a slot.
    #[must_use]
    pub const fn new(records: &'a [CachePadded<Record>]) -> Self {
        Self { records }
    }

    fn record(&self, slot: SlotIndex) -> Option<&'a Record> {
        self.records.get(slot.as_usize()).map(|padded| &padded.0)
    }

    /// The dispatcher takes a request: from here on it must be completed.
    ///
    /// Called by one dispatcher, after the slot's previous request was completed *and* its response taken.
    #[inline]
    #[allow(clippy::needless_pass_by_value)] // uses it up: from here on only `complete` gives the right to answer
    pub fn open(&self, in_flight: InFlight, phase: Phase, now_ns: u64) -> Ticket {
        let (slot, header) = (in_flight.slot(), *in_flight.header());
        let Some(record) = self.record(slot) else { return Ticket { slot, generation: 0, header } };
        let generation = (record.state.load(Ordering::Relaxed) >> 8) + 1;
        record
            .ids
            .store(u64::from(header.function_id) | u64::from(header.request_id) << 32, Ordering::Relaxed);
        record.since_ns.store(now_ns, Ordering::Relaxed);
        record.worker.store(0, Ordering::Relaxed);
        // Release: a watchdog that sees the new generation sees its facts.
        record.state.store(generation << 8 | phase as u64, Ordering::Release);
        Ticket { slot, generation, header }
    }

    /// Moves a request in flight on. False if it was completed meanwhile: the caller drops what it had in mind.
    #[inline]
    pub fn advance(&self, ticket: &Ticket, phase: Phase, worker: Option<u32>) -> bool {
        let Some(record) = self.record(ticket.slot) else { return false };
        if let Some(worker) = worker {
            record.worker.store(u64::from(worker) + 1, Ordering::Relaxed);
        }
        self.exchange(record, ticket.generation, phase).is_some()
    }

    /// Wins the right to answer, or learns that another agent had it.
    ///
    /// Acquire-release: what the loser-to-be wrote before is seen, and the next [`open`](Self::open) sees this.
    #[inline]
    pub fn complete(&self, ticket: &Ticket) -> Option<InFlight> {
        let record = self.record(ticket.slot)?;
        self.exchange(record, ticket.generation, Phase::Completed)
            .map(|_| InFlight::resume(ticket.slot, ticket.header))
    }

    #[inline]
    fn exchange(&self, record: &Record, generation: u64, to: Phase) -> Option<Phase> {
        let mut state = record.state.load(Ordering::Relaxed);
        loop {
            if state >> 8 != generation || Phase::of(state) == Phase::Completed {
                return None;
            }
            let next = generation << 8 | to as u64;
            match record.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Some(Phase::of(before)),
                Err(found) => state = found,
            }
        }
    }

    /// What the ledger knows of `slot`. A snapshot: it may have moved on by the time it is read.
    #[must_use]
    pub fn snapshot(&self, slot: SlotIndex) -> Option<Entry> {
        let record = self.record(slot)?;
        let state = record.state.load(Ordering::Acquire);
        let ids = record.ids.load(Ordering::Relaxed);
        let worker = record.worker.load(Ordering::Relaxed);
        Some(Entry {
            phase: Phase::of(state),
            generation: state >> 8,
            function_id: ids as u32,
            request_id: (ids >> 32) as u32,
            since_ns: record.since_ns.load(Ordering::Relaxed),
            worker: worker.checked_sub(1).and_then(|w| u32::try_from(w).ok()),
        })
    }

    /// Every slot whose request is in flight.
    pub fn in_flight(self) -> impl Iterator<Item = (usize, Entry)> + 'a {
        self.records.iter().enumerate().filter_map(move |(index, padded)| {
            if Phase::of(padded.0.state.load(Ordering::Relaxed)) == Phase::Completed {
                return None;
            }
            let slot = crate::ring::SlotIndex::unchecked(index as u32);
            self.snapshot(slot).filter(|entry| entry.phase != Phase::Completed).map(|entry| (index, entry))
        })
    }
}
