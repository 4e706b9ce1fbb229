//! Halt of a dispatcher: every request is answered, no handler is called.

use super::answer::{answer, check, is_answered_in_place};
use super::malformed::MalformedGuard;
use super::run::Loop;
use crate::shared::Shared;
use ringcall_gpu::clock;
use ringcall_protocol::RingMemory;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::{Request, Seen};
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::status::Status;

impl Loop {
    /// Halts after the deadline: answers every request and calls no handler. External requests still in flight after
    /// `timeout_ns` stay unanswered here, since their executor answers them. Requests that other dispatchers of the
    /// ring answer stay, too.
    pub(super) fn halt(&mut self, shared: &Shared, timeout_ns: u64) {
        let _ = self.pool.give_up(shared, Status::SHUTTING_DOWN, 0);
        // A worker that has just won the right to answer may not have published its answer yet. It has only stores
        // left, so this wait ends as soon as the worker's thread runs; the wait is bounded nevertheless.
        let until = clock::now_ns() + timeout_ns;
        loop {
            let mut executor_idle = true;
            if let Some(executor) = &mut self.executor {
                executor.service(&mut |status| shared.bank.count(Counter::of_status(status)));
                executor_idle = executor.is_idle();
            }
            // On a shared ring an in-flight mark may belong to another dispatcher, whose graph has no time limit
            // here.
            let all_completed = self.compat.shared_ring || !shared.any_in_flight();
            if (executor_idle && all_completed) || clock::now_ns() >= until {
                break;
            }
            std::thread::yield_now();
        }
        // Refusals need no order.
        Scan::new(shared.ring.geometry().slots()).full(&shared.ring, |seen| self.refuse(shared, seen, until));
    }

    /// Answers a request with `SHUTTING_DOWN`, if this dispatcher may answer it.
    fn refuse(&self, shared: &Shared, seen: Seen, until: u64) {
        if self.executor.as_ref().is_some_and(|executor| executor.serves(seen.slot())) {
            return;
        }
        // An unread completion is not overwritten: without a reader the request stays in its slot for a restart.
        while shared.completion_unread(seen.slot()) {
            if clock::now_ns() >= until {
                return;
            }
            std::thread::yield_now();
        }
        let claimed = if self.compat.shared_ring {
            self.claim_own(shared, seen)
        } else {
            seen.claim(&shared.ring).map(|request| (request, None))
        };
        // The lock is released after the answer.
        if let Some((request, _guard)) = claimed {
            shared.bank.count(Counter::Received);
            answer(shared, request, Status::SHUTTING_DOWN, &[]);
        }
    }

    /// Takes a request of a shared ring if its function is this dispatcher's, or if the request is malformed and this
    /// dispatcher holds the lock for malformed requests.
    fn claim_own(&self, shared: &Shared, seen: Seen) -> Option<(Request, Option<MalformedGuard<'static>>)> {
        let ring = &shared.ring;
        // `None`: another dispatcher's request. Otherwise: whether the request is malformed.
        let is_malformed =
            |request: &Request| match check(shared, &self.table, &self.pool, self.compat, request) {
                Err(status) if self.compat.leaves(status) => None,
                Err(status) => Some(self.compat.is_malformed(status)),
                Ok(_) => Some(false),
            };
        let request = seen.claim(ring)?;
        let guard = if is_malformed(&request)? { Some(self.malformed?.take()?) } else { None };
        // The request may have been answered meanwhile: see `Request::again`.
        let value = ring.rx(request.slot());
        let request = (value != flag::FREE).then_some(request)?.again(ring, value)?;
        let malformed = is_malformed(&request)?;
        if malformed && (guard.is_none() || is_answered_in_place(ring, &request)) {
            return None;
        }
        Some((request, guard.filter(|_| malformed)))
    }
}
