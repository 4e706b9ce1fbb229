//! Stop of three kernels, in the order in which requests pass them: a bounded drain, and a report.

use super::agent::{Agent, LAST_TIMEOUT, Launched, Waited};
use super::{RelayDispatcher, Running, Wired};
use crate::ring::{DeviceError, StopReport};
use ringcall_mlx5::Event;
use ringcall_mlx5::layout::cqe::Syndrome;
use ringcall_wire::unified::control;
use std::time::{Duration, Instant};

/// Report of a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayReport {
    /// The report of the dispatcher.
    pub dispatcher: StopReport,
    /// Requests that are in the ring and were not answered. They stay there for the next start.
    pub unanswered: u64,
    /// Responses for which no send completion was seen.
    pub unsent: u64,
    /// Why a queue pair is in the error state, if one is.
    pub dead: Option<Syndrome>,
    /// The receiver or the sender did not end, or failed.
    pub failed: Option<DeviceError>,
    /// How long the stop took.
    pub took: Duration,
}

impl RelayReport {
    /// Whether everything ended well.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dispatcher.is_clean()
            && self.unanswered == 0
            && self.unsent == 0
            && self.dead.is_none()
            && self.failed.is_none()
    }
}

/// Three stopped kernels.
#[derive(Debug)]
pub struct RelayStopped {
    /// The report of the stop.
    pub report: RelayReport,
    /// The kernels, ready to be started again; `None` if one still runs or has failed.
    pub dispatcher: Option<RelayDispatcher<Wired>>,
}

/// The part of a deadline in which the receiver takes the completions that have arrived.
const FIRST_PART: u32 = 4;
/// The part of the deadline that remains for a kernel after it was told to end at once.
const LAST_PART: u32 = 5;

/// Why a kernel did not end, or ended with an error. A kernel that may still run is kept.
fn failure_of(agent: Waited, launched: Launched, deadline: Duration) -> Option<DeviceError> {
    match agent {
        Waited::Ended => {
            launched.ended();
            None
        }
        Waited::Failed(error) => {
            launched.ended();
            Some(error)
        }
        Waited::Stuck => {
            // The kernel may still write, so its memory, its code and the hold on frees are kept until the process
            // ends.
            launched.abandon();
            Some(DeviceError::NotEnded(deadline))
        }
    }
}

fn dead(agent: &Agent) -> Option<Syndrome> {
    let word = agent.read(control::DEAD);
    (word != 0).then_some(Syndrome(word as u8))
}

impl RelayDispatcher<Running> {
    /// Takes the requests that have arrived, waits for their answers, sends the answers, waits until the NIC has sent
    /// them, and ends the kernels. All this takes at most `deadline`, and a little longer for each kernel's last
    /// words. For the next start, requests that were not taken stay in the completion queue, and requests that were
    /// not answered stay in the ring.
    #[must_use]
    pub fn stop(self, deadline: Duration) -> RelayStopped {
        let Self { receiver, sender, answered_before, state: Running { receiving, dispatcher, sending } } =
            self;
        let begin = Instant::now();
        let received = receiver.end(begin, deadline / FIRST_PART, deadline);
        let rest = deadline.saturating_sub(begin.elapsed());
        let stopped = dispatcher.stop(rest - rest / LAST_PART);
        let limit = deadline.max(begin.elapsed() + LAST_TIMEOUT);
        let sent = sender.end(begin, deadline - deadline / LAST_PART, limit);
        let failures = [failure_of(received, receiving, deadline), failure_of(sent, sending, deadline)];
        let [receive_failed, send_failed] = failures;
        let failed = receive_failed.or(send_failed);
        let taken = |event| receiver.events().count(event);
        let filled = taken(Event::RxRequests).saturating_sub(taken(Event::RxUnanswered));
        let answered = stopped.dispatcher.as_ref().map(|wired| wired.counters().answered());
        let report = RelayReport {
            unanswered: answered
                .map_or(0, |answered| filled.saturating_sub(answered_before.saturating_add(answered))),
            unsent: sender.read(control::POSTED).saturating_sub(sender.read(control::DONE)),
            dead: dead(&receiver).or(dead(&sender)),
            failed: failed.clone(),
            took: begin.elapsed(),
            dispatcher: stopped.report,
        };
        let dispatcher = match stopped.dispatcher {
            Some(dispatcher) if failed.is_none() => {
                Some(RelayDispatcher { receiver, sender, answered_before, state: Wired { dispatcher } })
            }
            _ => None,
        };
        RelayStopped { report, dispatcher }
    }
}
