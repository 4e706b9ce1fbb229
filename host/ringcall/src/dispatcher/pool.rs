//! Worker pools and their queues: one queue for each function.

use super::DispatcherError;
use crate::shared::Shared;
use crate::table::Functions;
use crate::worker::{LaunchContext, Start, WorkerSpec};
use ringcall_gpu::clock;
use ringcall_protocol::fifo::{Links, SlotFifo};
use ringcall_protocol::idle::IdleMask;
use ringcall_protocol::ledger::{Phase, Ticket};
use ringcall_protocol::mailbox::Job;
use ringcall_protocol::{InFlight, RingMemory, SlotIndex};
use ringcall_wire::counter::Counter;
use ringcall_wire::status::{DispatchMode, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The workers of one function and the requests that wait for them.
#[derive(Debug)]
struct Team {
    /// Which workers serve it: a mask of the idle mask's shape. All zero: none.
    members: Vec<u64>,
    waiting: SlotFifo,
}

/// All workers of a dispatcher.
#[derive(Debug)]
pub(super) struct Pool {
    specs: Vec<WorkerSpec>,
    /// One for each function of the table.
    teams: Vec<Team>,
    /// Functions whose queue is not empty; each turn polls these queues.
    waiting_teams: u32,
    links: Vec<u32>,
    /// The request that waits or runs in each slot.
    tickets: Vec<Option<Ticket>>,
}

impl Pool {
    pub(super) fn new(
        shared: &Shared,
        functions: &Functions,
        specs: Vec<WorkerSpec>,
    ) -> Result<Self, DispatcherError> {
        let words = IdleMask::words_for(specs.len() as u32);
        let mut teams: Vec<Team> = functions
            .entries
            .iter()
            .map(|_| Team { members: vec![0; words], waiting: SlotFifo::new() })
            .collect();
        for (worker, spec) in specs.iter().enumerate() {
            let entry = functions
                .entries
                .iter()
                .find(|entry| entry.id == spec.function)
                .ok_or(DispatcherError::UnknownFunction { worker, id: spec.function.0 })?;
            if entry.mode != DispatchMode::GraphLaunch {
                return Err(DispatcherError::NotAWorkerCall { worker, name: entry.name.clone() });
            }
            teams[entry.index].members[worker / 64] |= 1 << (worker % 64);
            shared.idle().release(worker as u32);
        }
        let slots = shared.ring.geometry().slots() as usize;
        Ok(Self { specs, teams, waiting_teams: 0, links: vec![0; slots], tickets: vec![None; slots] })
    }

    pub(super) fn serves(&self, function: usize) -> bool {
        self.teams.get(function).is_some_and(|team| team.members.iter().any(|&word| word != 0))
    }

    /// Assigns a request in flight to an idle worker of its function, or queues it.
    #[inline]
    pub(super) fn accept(&mut self, shared: &Shared, function: usize, in_flight: InFlight) {
        let now = clock::now_ns();
        let slot = in_flight.slot();
        let team = &mut self.teams[function];
        // In order: no request overtakes a waiting one.
        let worker = if team.waiting.is_empty() { shared.idle().claim(&team.members) } else { None };
        let phase = if worker.is_some() { Phase::Running } else { Phase::Queued };
        let ticket = shared.ledger().open(in_flight, phase, now);
        self.tickets[slot.as_usize()] = Some(ticket);
        match worker {
            Some(worker) => self.launch(shared, worker, ticket, now, now),
            None => {
                shared.bank.count(Counter::Queued);
                if team.waiting.is_empty() {
                    self.waiting_teams += 1;
                }
                team.waiting.push(&mut Links::new(&mut self.links), slot);
            }
        }
    }

    /// Assigns waiting requests to workers that have become idle. Returns how many.
    #[inline]
    pub(super) fn refill(&mut self, shared: &Shared) -> u32 {
        if self.waiting_teams == 0 {
            return 0;
        }
        let mut launched = 0;
        for function in 0..self.teams.len() {
            while !self.teams[function].waiting.is_empty() {
                let team = &mut self.teams[function];
                let Some(worker) = shared.idle().claim(&team.members) else { break };
                let slot = team.waiting.pop(&mut Links::new(&mut self.links), shared.ring.geometry());
                if team.waiting.is_empty() {
                    self.waiting_teams -= 1;
                }
                match slot.and_then(|slot| self.tickets[slot.as_usize()]) {
                    Some(ticket) if shared.ledger().advance(&ticket, Phase::Running, Some(worker)) => {
                        let accepted =
                            shared.ledger().snapshot(ticket.slot).map_or(0, |entry| entry.since_ns);
                        self.launch(shared, worker, ticket, accepted, clock::now_ns());
                        launched += 1;
                    }
                    // The request was answered while it waited: the worker is still free.
                    _ => shared.idle().release(worker),
                }
            }
        }
        launched
    }

    fn launch(&mut self, shared: &Shared, worker: u32, ticket: Ticket, accepted_ns: u64, posted_ns: u64) {
        let job = Job { ticket, accepted_ns, posted_ns };
        let spec = &mut self.specs[worker as usize];
        shared.bank.count(Counter::Dispatched);
        // Also in the ledger, for dumps; the phase is already Running.
        let _ = shared.ledger().advance(&ticket, Phase::Running, Some(worker));
        let context = LaunchContext { job: &job, worker, ring: &shared.ring };
        // Caught: this thread serves every other request too.
        let launched = catch_unwind(AssertUnwindSafe(|| {
            if let Some(hook) = &mut spec.pre_launch {
                hook(&context);
            }
            shared.cells[worker as usize].mailbox.post(&job);
            match &mut spec.start {
                Start::Mailbox => Ok(()),
                Start::Launch(start) => start(&context),
            }
        }));
        let _ = match launched {
            Ok(Ok(())) => {
                if let Some(hook) = &mut spec.post_launch {
                    let _ = catch_unwind(AssertUnwindSafe(|| hook(&context)));
                }
                return;
            }
            Ok(Err(error)) => shared.complete_error(&ticket, &shared.bank, Status::LAUNCH_FAILED, error.code),
            Err(_) => shared.complete(&ticket, Some(&shared.bank), Status::HANDLER_PANIC, &[]),
        };
        // Nothing was started, so no thread will empty the mailbox or release the worker.
        let _ = shared.cells[worker as usize].mailbox.take(shared.ring.geometry());
        shared.idle().release(worker);
    }

    /// Answers `status` to every request in flight that is older than `oldest_ns` (0: every request). Returns how
    /// many.
    pub(super) fn give_up(&mut self, shared: &Shared, status: Status, oldest_ns: u64) -> u64 {
        let mut given_up = 0;
        for slot in shared.ring.geometry().iter() {
            let Some(entry) = shared.ledger().snapshot(slot) else { continue };
            if entry.phase == Phase::Completed || (oldest_ns > 0 && entry.since_ns > oldest_ns) {
                continue;
            }
            let Some(ticket) = self.tickets[slot.as_usize()] else { continue };
            if ticket.generation != entry.generation {
                continue;
            }
            if entry.phase == Phase::Queued {
                self.forget(slot);
            }
            if shared.complete(&ticket, Some(&shared.bank), status, &[]).is_ok() {
                given_up += 1;
            }
        }
        given_up
    }

    /// Removes a slot from the queue in which it waits, since its request is about to be answered and the slot used
    /// again.
    fn forget(&mut self, slot: SlotIndex) {
        for team in &mut self.teams {
            if team.waiting.remove(&mut Links::new(&mut self.links), slot) {
                if team.waiting.is_empty() {
                    self.waiting_teams -= 1;
                }
                return;
            }
        }
    }
}
