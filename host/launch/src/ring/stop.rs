//! Stop of a device dispatcher: a bounded drain, and a report.

use super::resources::Resources;
use super::watch::{Busy, Watch};
use super::{DeviceDispatcher, DeviceError, Running, Wired};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::StreamState;
use ringcall_protocol::RingMemory;
use ringcall_protocol::scan::Scan;
use ringcall_wire::launch::control;
use ringcall_wire::status::Status;
use std::time::{Duration, Instant};

/// Report of a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct StopReport {
    /// Requests answered between the call and the end.
    pub drained: u64,
    /// Requests that were still in the ring after the kernel had ended, and were answered `SHUTTING_DOWN`.
    pub refused: u64,
    /// Requests that could not be answered because the consumer had not taken the previous response of their slot.
    /// They stay in the ring.
    pub unanswered: u64,
    /// Handlers that did not return: the kernel still runs.
    pub stuck: Vec<Busy>,
    /// The kernel, or a graph that it launched, did not end; or the kernel failed (a handler panicked or accessed
    /// foreign memory, or the dispatcher could not launch itself again). Every request in flight is lost.
    pub failed: Option<DeviceError>,
    /// How long the stop took.
    pub took: Duration,
}

impl StopReport {
    /// Whether everything ended well: nothing refused, unanswered, stuck or failed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.refused == 0 && self.unanswered == 0 && self.stuck.is_empty() && self.failed.is_none()
    }
}

/// A stopped dispatcher.
#[derive(Debug)]
pub struct Stopped {
    /// The report of the stop.
    pub report: StopReport,
    /// The dispatcher, ready to be started again. `None` if it has failed, or if its kernel or a graph still runs;
    /// everything that these use is then kept until the process ends.
    pub dispatcher: Option<DeviceDispatcher<Wired>>,
}

/// The part of the deadline that remains for a kernel after it was told to end at once.
const LAST_PART: u32 = 5;

/// The least time that the stream gets from the kernel's last word to its end.
const GRACE_PERIOD: Duration = Duration::from_millis(10);

impl DeviceDispatcher<Running> {
    /// Answers the requests in the ring, waits for launched graphs, and ends the kernel within `deadline`, and a
    /// little more for the kernel's last words.
    ///
    /// The kernel drains for four fifths of the time and is then told to end at once. The host answers every
    /// remaining request in the ring `SHUTTING_DOWN`. A handler that does not return, or a graph, cannot be ended;
    /// the report names such handlers.
    #[must_use]
    pub fn stop(self, deadline: Duration) -> Stopped {
        let Self { resources, launcher, stream, state: Running { launched } } = self;
        let begin = Instant::now();
        let watch = Watch::new(&resources);
        let before = watch.counters().answered();
        resources.stop(control::STOP_DRAIN);
        let mut hurried = false;
        let outcome = loop {
            let elapsed = begin.elapsed();
            if resources.ended() {
                break stream.wait(deadline.saturating_sub(elapsed).max(GRACE_PERIOD));
            }
            if let StreamState::Failed(error) = stream.query() {
                break Err(error);
            }
            if !hurried && elapsed > deadline - deadline / LAST_PART {
                resources.stop(control::STOP_NOW);
                hurried = true;
            }
            if elapsed > deadline {
                break Err(CudaError::TimedOut(deadline));
            }
            std::thread::yield_now();
        };
        if matches!(outcome, Err(CudaError::TimedOut(_))) {
            let report = StopReport {
                drained: watch.counters().answered().saturating_sub(before),
                refused: 0,
                unanswered: 0,
                stuck: watch.busy(),
                failed: Some(DeviceError::NotEnded(deadline)),
                took: begin.elapsed(),
            };
            // The kernel, or a graph, may still write, so its memory, its code and the hold on frees are kept until
            // the process ends.
            launched.abandon();
            return Stopped { report, dispatcher: None };
        }
        let late = outcome.and_then(|()| resources.count_late());
        let failed = late.err().map(DeviceError::from).or_else(|| resources.failure());
        let drained = watch.counters().answered().saturating_sub(before);
        // On a shared ring other requests belong to other dispatchers.
        let (refused, unanswered) = if resources.shares_ring() { (0, 0) } else { refuse_rest(&resources) };
        let report = StopReport {
            drained,
            refused,
            unanswered,
            stuck: Vec::new(),
            failed: failed.clone(),
            took: begin.elapsed(),
        };
        launched.ended();
        let dispatcher =
            failed.is_none().then(|| DeviceDispatcher { resources, launcher, stream, state: Wired(()) });
        Stopped { report, dispatcher }
    }
}

/// Answers the requests that the kernel left, if the host reaches the ring.
fn refuse_rest(resources: &Resources) -> (u64, u64) {
    let (mut refused, mut unanswered) = (0, 0);
    let Some(ring) = resources.host_ring() else { return (refused, unanswered) };
    let ring = ring.shared();
    Scan::new(ring.geometry().slots()).full(ring, |seen| match seen.claim(ring) {
        Some(request) => {
            let _ = request.answer(ring, Status::SHUTTING_DOWN, &[]);
            refused += 1;
        }
        None => unanswered += 1,
    });
    (refused, unanswered)
}
