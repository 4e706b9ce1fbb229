//! The end of a dispatcher whose time is up: everything is answered, nothing is called.

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
    /// The deadline has passed: everything is answered, nothing is called. An external request still under
    /// way after `timeout_ns` is left alone: it will be answered there. So is what other dispatchers of the
    /// ring answer.
    pub(super) fn halt(&mut self, shared: &Shared, timeout_ns: u64) {
        let _ = self.pool.give_up(shared, Status::SHUTTING_DOWN, 0);
        // A worker that won the right to answer a moment ago may not have published yet: it has only stores to do, so
        // this ends as soon as it runs. Bounded all the same.
        let until = clock::now_ns() + timeout_ns;
        loop {
            let mut executor_idle = true;
            if let Some(executor) = &mut self.executor {
                executor.service(&mut |status| shared.bank.count(Counter::of_status(status)));
                executor_idle = executor.is_idle();
            }
            // On a shared ring marks may be other dispatchers', whose graphs take as long as they do.
            let settled = self.compat.shared_ring || !shared.any_in_flight();
            if (executor_idle && settled) || clock::now_ns() >= until {
                break;
            }
            std::thread::yield_now();
        }
        // Refusals have no order.
        Scan::new(shared.ring.geometry().slots()).full(&shared.ring, |seen| self.refuse(shared, seen, until));
    }

    /// Answers that there will be no answer, if that is ours to say.
    fn refuse(&self, shared: &Shared, seen: Seen, until: u64) {
        if self.executor.as_ref().is_some_and(|executor| executor.serves(seen.slot())) {
            return;
        }
        // An unread notice is not overwritten: without a reader the request stays where it is, for a restart.
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

    /// A request of a ring that other dispatchers serve, too: if it is for a function of this dispatcher, or if it is malformed and
    /// this dispatcher holds the lock for malformed requests.
    fn claim_own(&self, shared: &Shared, seen: Seen) -> Option<(Request, Option<MalformedGuard<'static>>)> {
        let ring = &shared.ring;
        // `None`: another dispatcher's. Otherwise whether it is malformed.
        let is_malformed =
            |request: &Request| match check(shared, &self.table, &self.pool, self.compat, request) {
                Err(status) if self.compat.leaves(status) => None,
                Err(status) => Some(self.compat.is_malformed(status)),
                Ok(_) => Some(false),
            };
        let request = seen.claim(ring)?;
        let guard = if is_malformed(&request)? { Some(self.malformed?.take()?) } else { None };
        // What was seen may have been answered since: see `Request::again`.
        let value = ring.rx(request.slot());
        let request = (value != flag::FREE).then_some(request)?.again(ring, value)?;
        let malformed = is_malformed(&request)?;
        if malformed && (guard.is_none() || is_answered_in_place(ring, &request)) {
            return None;
        }
        Some((request, guard.filter(|_| malformed)))
    }
}
