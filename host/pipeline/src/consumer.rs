//! The consumer thread: harvests responses out of order and calls the completion handler.

use crate::config::ExternalIds;
use crate::stage::{CompletedRequest, StageTimes};
use crate::state::State;
use ringcall::completion_log::CompletionLog;
use ringcall::thread::StopFlag;
use ringcall::wire::flag::{FREE, IN_FLIGHT};
use ringcall::{Status, Wait};
use ringcall_gpu::clock;
use ringcall_protocol::RingMemory;
use ringcall_protocol::scan::GROUP;
use ringcall_protocol::slot::Response;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The user's completion handler.
pub type CompletionHandler = Box<dyn FnMut(&CompletedRequest<'_>) + Send>;

pub(crate) struct Consumer {
    pub(crate) state: Arc<State>,
    pub(crate) handler: CompletionHandler,
    pub(crate) stop: StopFlag,
    pub(crate) wait: Wait,
    /// The log in which the dispatcher of an external ring reports completions.
    pub(crate) log: Option<CompletionLog>,
    pub(crate) ids: IdExtender,
    /// A private copy of one result.
    pub(crate) result: Vec<u8>,
}

impl Consumer {
    /// Runs until `stop` is set and nothing is left to harvest. Returns the handler for the next start.
    pub(crate) fn run(mut self) -> (CompletionHandler, IdExtender) {
        self.stop.clone().poll_until_set(self.wait, || self.turn() > 0);
        (self.handler, self.ids)
    }

    /// Polls every slot once. Returns the number of answers.
    pub(crate) fn turn(&mut self) -> u32 {
        match self.log.clone() {
            None => self.harvest(),
            Some(log) => self.read_log(&log),
        }
    }

    /// Polls every response flag once, eight at a time. Returns the number of responses harvested.
    fn harvest(&mut self) -> u32 {
        let state = Arc::clone(&self.state);
        let ring = state.ring.shared();
        let mut found = 0;
        for group in 0..ring.geometry().slots().div_ceil(GROUP) {
            let flags = ring.tx_group(group);
            let there = |flag: u64| flag != FREE && flag != IN_FLIGHT;
            if !flags.iter().any(|&flag| there(flag)) {
                continue;
            }
            for (i, _) in flags.into_iter().enumerate().filter(|&(_, flag)| there(flag)) {
                let Some(slot) = ring.geometry().slot(group * GROUP + i as u32) else { continue };
                let Some(response) = Response::probe(ring, slot) else { continue };
                let len = response.read(ring, &mut self.result);
                let header = *response.header();
                let error = response.error();
                let times = state.times.take(slot);
                // Take the request id first, then free the slot: in the other order a fast producer could record its
                // next request in between, and this thread would take the id of that request.
                let entry = state.request_ids().take(slot);
                response.release(ring);
                found += 1;
                let request_id = entry.map_or(u64::from(header.request_id), |b| b.request_id);
                let submitted = entry.map_or(0, |b| b.submitted_ns);
                let times = StageTimes { submitted, harvested: clock::now_ns(), ..times };
                let done = Done {
                    request_id,
                    slot: slot.get(),
                    status: Status(header.status),
                    error,
                    ptp_timestamp: header.ptp_timestamp,
                    times,
                };
                self.complete(&done, Some(len));
            }
        }
        found
    }

    /// Polls the completion log once for every slot. Returns the number of completions read.
    fn read_log(&mut self, log: &CompletionLog) -> u32 {
        let state = Arc::clone(&self.state);
        let mut found = 0;
        for slot in state.ring.geometry().iter() {
            let Some(event) = log.take(slot) else { continue };
            found += 1;
            let times = StageTimes { harvested: clock::now_ns(), ..state.times.take(slot) };
            let request_id = self.ids.extend(event.request_id);
            let done = Done {
                request_id,
                slot: slot.get(),
                status: event.status,
                error: event.error,
                ptp_timestamp: 0,
                times,
            };
            self.complete(&done, None);
        }
        found
    }

    fn complete(&mut self, done: &Done, result: Option<usize>) {
        let Done { request_id, slot, status, error, ptp_timestamp, times } = *done;
        let completion = CompletedRequest {
            request_id,
            slot,
            status,
            error,
            ptp_timestamp,
            result: result.map(|len| &self.result[..len]),
            times,
        };
        let handler = &mut self.handler;
        if catch_unwind(AssertUnwindSafe(|| handler(&completion))).is_err() {
            self.state.counters.panics.fetch_add(1, Ordering::Relaxed);
        }
        // After the handler: a thread that waits for this count finds the handler's work done.
        self.state.counters.completed(status, error);
    }
}

struct Done {
    request_id: u64,
    slot: u32,
    status: Status,
    error: Option<u16>,
    ptp_timestamp: u64,
    times: StageTimes,
}

/// Extends the 32-bit request ids of an external ring to 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdExtender {
    rule: ExternalIds,
    highest: Option<u64>,
}

impl IdExtender {
    pub(crate) fn new(rule: ExternalIds) -> Self {
        Self { rule, highest: None }
    }

    /// The 64-bit id that has these low bits and is nearest to the highest id so far.
    pub(crate) fn extend(&mut self, low: u32) -> u64 {
        let (ExternalIds::Counting, Some(highest)) = (self.rule, self.highest) else {
            self.highest = Some(u64::from(low));
            return u64::from(low);
        };
        // Distance around the 32-bit circle, -2^31 .. 2^31.
        let step = i64::from(low.wrapping_sub(highest as u32).cast_signed());
        let id = highest.checked_add_signed(step).unwrap_or(u64::from(low));
        self.highest = Some(highest.max(id));
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A counter read out of order, within a window, is recovered exactly past any number of wraps.
        #[test]
        fn a_counter_is_recovered(start: u32, steps in proptest::collection::vec((1..1_u64 << 30, 0..1000_u64), 1..200)) {
            let mut extender = IdExtender::new(ExternalIds::Counting);
            let mut highest = u64::from(start);
            prop_assert_eq!(extender.extend(start), highest);
            for (ahead, behind) in steps {
                highest += ahead;
                prop_assert_eq!(extender.extend(highest as u32), highest);
                let late = highest - behind.min(highest);
                prop_assert_eq!(extender.extend(late as u32), late);
            }
        }

        #[test]
        fn opaque_ids_stay_as_they_are(ids in proptest::collection::vec(any::<u32>(), 1..50)) {
            let mut extender = IdExtender::new(ExternalIds::Opaque);
            for id in ids {
                prop_assert_eq!(extender.extend(id), u64::from(id));
            }
        }
    }
}
