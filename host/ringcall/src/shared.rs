//! State shared by a dispatcher, its workers and its watchers.

use crate::completion_log::{CompletionEvent, CompletionLog};
use ringcall_gpu::atomic::{DeviceU64, SystemU64};
use ringcall_gpu::clock;
use ringcall_gpu::pad::CachePadded;
use ringcall_gpu::shared::Words;
use ringcall_protocol::counters::{Bank, CommonBank, Snapshot};
use ringcall_protocol::idle::IdleMask;
use ringcall_protocol::ledger::{Ledger, Record, Ticket};
use ringcall_protocol::mailbox::Mailbox;
use ringcall_protocol::ready::ReadyFlag;
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::sync::atomic::Ordering;

/// Progress of a stop. The value only grows until the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub(crate) enum Control {
    Run = 0,
    /// Take and answer all requests in the ring, then end.
    Drain = 1,
    /// The deadline has passed: answer every request `SHUTTING_DOWN` and end.
    Halt = 2,
}

/// One worker's words.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) mailbox: CachePadded<Mailbox>,
    ready: CachePadded<SystemU64>,
    /// The ready flag that a device raises, in place of the other flag.
    mapped: Option<Words>,
    pub(crate) bank: Bank,
}

/// Shared by the dispatcher thread, its workers, deferred completions and readers of counters.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ring: SharedRing,
    records: Box<[CachePadded<Record>]>,
    idle: Box<[DeviceU64]>,
    pub(crate) cells: Box<[Cell]>,
    /// Written by the dispatcher thread alone.
    pub(crate) bank: Bank,
    /// Written by deferred completions, from any thread.
    common: CommonBank,
    control: CachePadded<DeviceU64>,
    /// The function id + 1 of an inline call under way and when it began, for watchers.
    pub(crate) inline_function: DeviceU64,
    /// One event a slot, for a reader of completions that must not touch the response flags.
    completion_log: Option<CompletionLog>,
}

impl Cell {
    fn new(mapped: Option<Words>) -> Self {
        Self { mapped, ..Self::default() }
    }

    fn ready(&self) -> ReadyFlag<'_> {
        let mapped = self.mapped.as_ref().and_then(|words| words.get(0));
        ReadyFlag::new(mapped.unwrap_or(&self.ready.0))
    }
}

impl Shared {
    /// Creates the state, with a worker for each ready flag. A flag is a word of this state or a word that a device
    /// writes.
    pub(crate) fn new(
        ring: SharedRing,
        flags: impl ExactSizeIterator<Item = Option<Words>>,
        completion_log: Option<CompletionLog>,
    ) -> Self {
        let slots = ring.geometry().slots() as usize;
        let words = IdleMask::words_for(flags.len() as u32);
        Self {
            records: (0..slots).map(|_| CachePadded::default()).collect(),
            idle: (0..words).map(|_| DeviceU64::new(0)).collect(),
            cells: flags.map(Cell::new).collect(),
            bank: Bank::default(),
            common: CommonBank::default(),
            control: CachePadded(DeviceU64::new(Control::Run as u64)),
            inline_function: DeviceU64::new(0),
            completion_log,
            ring,
        }
    }

    pub(crate) fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.records)
    }

    pub(crate) fn idle(&self) -> IdleMask<'_> {
        IdleMask::new(&self.idle)
    }

    pub(crate) fn ready(&self, worker: u32) -> Option<ReadyFlag<'_>> {
        self.cells.get(worker as usize).map(Cell::ready)
    }

    pub(crate) fn control(&self) -> Control {
        match self.control.load(Ordering::Relaxed) {
            0 => Control::Run,
            1 => Control::Drain,
            _ => Control::Halt,
        }
    }

    pub(crate) fn set_control(&self, to: Control) {
        self.control.store(to as u64, Ordering::Relaxed);
    }

    /// Whether any slot has the in-flight mark. A request is complete only when its mark is gone.
    pub(crate) fn any_in_flight(&self) -> bool {
        use ringcall_wire::flag::IN_FLIGHT;
        self.ring.geometry().iter().any(|slot| self.ring.tx(slot) == IN_FLIGHT)
    }

    pub(crate) fn counters(&self) -> Snapshot {
        let mut sum = Snapshot::default();
        sum.absorb(&self.bank);
        for cell in &self.cells {
            sum.absorb(&cell.bank);
        }
        sum.absorb_common(&self.common);
        sum
    }

    /// Answers a request in flight, if no other agent has. Counts the answer in `bank`, or in the common bank.
    pub(crate) fn complete(
        &self,
        ticket: &Ticket,
        bank: Option<&Bank>,
        status: Status,
        result: &[u8],
    ) -> Result<(), Late> {
        let count = |counter| match bank {
            Some(bank) => bank.count(counter),
            None => self.common.count(counter),
        };
        match self.ledger().complete(ticket) {
            Some(in_flight) => {
                // Counted before it is published, so that an agent that saw the answer also sees the count.
                let capacity = self.ring.geometry().result_capacity() as usize;
                let (status, _) = status.clamped(result.len(), capacity);
                count(Counter::of_status(status));
                self.log_completion(ticket.slot, &ticket.header, status, None);
                let _ = in_flight.answer(&self.ring, status, result);
                Ok(())
            }
            None => {
                count(Counter::LateResults);
                Err(Late)
            }
        }
    }

    /// Sets the error mark on a request in flight, if it was not answered.
    pub(crate) fn complete_error(
        &self,
        ticket: &Ticket,
        bank: &Bank,
        status: Status,
        code: u16,
    ) -> Result<(), Late> {
        match self.ledger().complete(ticket) {
            Some(in_flight) => {
                bank.count(Counter::of_status(status));
                self.log_completion(ticket.slot, &ticket.header, status, Some(code));
                in_flight.fail(&self.ring, status, code);
                Ok(())
            }
            None => {
                bank.count(Counter::LateResults);
                Err(Late)
            }
        }
    }

    /// Whether the last completion of `slot` was not read from the completion log.
    #[inline(always)]
    pub(crate) fn completion_unread(&self, slot: SlotIndex) -> bool {
        self.completion_log.as_ref().is_some_and(|log| log.is_pending(slot))
    }

    /// Records a completion in the log, before its response is published.
    #[inline(always)]
    pub(crate) fn log_completion(
        &self,
        slot: SlotIndex,
        header: &RequestHeader,
        status: Status,
        error: Option<u16>,
    ) {
        if let Some(log) = &self.completion_log {
            log.record(slot, &CompletionEvent { request_id: header.request_id, status, error });
        }
    }

    /// A dump of every slot that is not idle, for people.
    pub(crate) fn dump(&self) -> SlotDump {
        let now = clock::now_ns();
        let ledger = self.ledger();
        let slots = self
            .ring
            .geometry()
            .iter()
            .filter_map(|slot| {
                let (rx, tx) = (self.ring.rx(slot), self.ring.tx(slot));
                let entry = ledger.snapshot(slot)?;
                let completed = entry.phase == ringcall_protocol::ledger::Phase::Completed;
                (rx != 0 || tx != 0 || !completed).then(|| SlotState {
                    slot: slot.get(),
                    rx,
                    tx,
                    phase: (!completed).then(|| format!("{:?}", entry.phase)),
                    function_id: entry.function_id,
                    request_id: entry.request_id,
                    worker: entry.worker.filter(|_| !completed),
                    age_us: if completed { 0 } else { now.saturating_sub(entry.since_ns) / 1000 },
                })
            })
            .collect();
        let workers = (0..self.cells.len() as u32)
            .map(|worker| WorkerState {
                worker,
                idle: self.idle().is_idle(worker),
                ready: self.ready(worker).map_or(0, |flag| flag.state()),
                slot: self.cells[worker as usize]
                    .mailbox
                    .tag(self.ring.geometry())
                    .map(|j| j.ticket.slot.get()),
            })
            .collect();
        SlotDump {
            slots,
            workers,
            inline_function: self.inline_function.load(Ordering::Relaxed).checked_sub(1),
        }
    }
}

/// The request was answered before (it was late, or the dispatcher stopped). The result was dropped and counted in
/// [`Counter::LateResults`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request was already answered: it timed out, or the dispatcher stopped")]
pub struct Late;

/// One slot of a [`SlotDump`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    /// The slot.
    pub slot: u32,
    /// Its request flag.
    pub rx: u64,
    /// Its response flag.
    pub tx: u64,
    /// Phase of its request, if one is in flight.
    pub phase: Option<String>,
    /// The function of the slot's last request.
    pub function_id: u32,
    /// The 32-bit id of the request last taken from this slot.
    pub request_id: u32,
    /// The worker that has the request.
    pub worker: Option<u32>,
    /// For how long it has been in flight, µs.
    pub age_us: u64,
}

/// One worker of a [`SlotDump`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerState {
    /// The worker.
    pub worker: u32,
    /// Whether its bit in the idle mask is set.
    pub idle: bool,
    /// Its ready flag: 0 idle, 1 ready, 2 being processed.
    pub ready: u64,
    /// Its origin tag: the slot of its last job.
    pub slot: Option<u32>,
}

/// State of every slot that is not idle and of every worker: a snapshot of live words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotDump {
    /// Slots that are not idle.
    pub slots: Vec<SlotState>,
    /// All workers.
    pub workers: Vec<WorkerState>,
    /// The function id of the inline call that the dispatcher thread is executing, if any.
    pub inline_function: Option<u64>,
}

impl std::fmt::Display for SlotDump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} slots not idle", self.slots.len())?;
        for s in &self.slots {
            writeln!(
                f,
                "  slot {:4}  rx {:#018x}  tx {:#018x}  {:8}  function {:#010x}  request {}  worker {}  age {} us",
                s.slot,
                s.rx,
                s.tx,
                s.phase.as_deref().unwrap_or("-"),
                s.function_id,
                s.request_id,
                s.worker.map_or_else(|| "-".to_owned(), |w| w.to_string()),
                s.age_us
            )?;
        }
        for w in &self.workers {
            writeln!(
                f,
                "  worker {:3}  {}  ready {}  slot {}",
                w.worker,
                if w.idle { "idle" } else { "busy" },
                w.ready,
                w.slot.map_or_else(|| "-".to_owned(), |s| s.to_string())
            )?;
        }
        match self.inline_function {
            Some(id) => writeln!(f, "  dispatcher in inline call {id:#010x}"),
            None => Ok(()),
        }
    }
}
