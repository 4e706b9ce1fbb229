//! Stop of a unified dispatcher: a bounded drain, and a report.

use super::{Resources, Running, UnifiedDispatcher, Wired};
use crate::ring::{DeviceError, failure};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::StreamState;
use ringcall_mlx5::layout::cqe::Syndrome;
use ringcall_wire::unified::control;
use std::time::{Duration, Instant};

/// A handler that does not return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// Its warp.
    pub warp: usize,
    /// The slot that it serves.
    pub slot: u32,
    /// Its function, by name or id.
    pub function: String,
}

/// Report of a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct UnifiedReport {
    /// Requests answered between the call and the end.
    pub drained: u64,
    /// Responses for which no send completion was seen.
    pub unsent: u64,
    /// Requests that were taken and not answered, because they wait for a graph or a graph has yet to answer them.
    /// The next start answers them.
    pub held: u64,
    /// Why the queue pair is in the error state, if it is.
    pub dead: Option<Syndrome>,
    /// Handlers that did not return: the kernel still runs, and its memory is kept until the process ends.
    pub stuck: Vec<Stuck>,
    /// The kernel did not end, or failed: a handler panicked or accessed foreign memory, a linked transport broke its
    /// interface, or the dispatcher could not launch itself again.
    pub failed: Option<DeviceError>,
    /// How long the stop took.
    pub took: Duration,
}

impl UnifiedReport {
    /// Whether everything ended well.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unsent == 0
            && self.held == 0
            && self.dead.is_none()
            && self.stuck.is_empty()
            && self.failed.is_none()
    }
}

/// A stopped dispatcher.
#[derive(Debug)]
pub struct UnifiedStopped {
    /// The report of the stop.
    pub report: UnifiedReport,
    /// The dispatcher, ready to be started again; `None` if its kernel still runs or has failed.
    pub dispatcher: Option<UnifiedDispatcher<Wired>>,
}

/// The part of the deadline that remains for a kernel after it was told to end at once.
const LAST_PART: u32 = 5;

impl UnifiedDispatcher<Running> {
    /// Answers the requests that have arrived, waits until the NIC has sent the responses, and ends the kernel within
    /// `deadline`, or twice that if a graph still runs. The kernel drains for four fifths of the time and is then
    /// told to end at once. Requests that have arrived and were not taken stay in the completion queue for the next
    /// start.
    #[must_use]
    pub fn stop(self, deadline: Duration) -> UnifiedStopped {
        let Self { resources, launcher, stream, state: Running { launched } } = self;
        let begin = Instant::now();
        let before = resources.counters().answered();
        resources.stop(control::STOP_DRAIN);
        let mut hurried = false;
        let outcome = loop {
            if matches!(resources.read(control::STATE), control::STATE_ENDED | control::STATE_FAILED) {
                break stream.wait(deadline).err();
            }
            if let StreamState::Failed(error) = stream.query() {
                break Some(error);
            }
            let elapsed = begin.elapsed();
            if !hurried && elapsed > deadline - deadline / LAST_PART {
                resources.stop(control::STOP_NOW);
                hurried = true;
            }
            if elapsed > deadline {
                let report = UnifiedReport {
                    drained: resources.counters().answered().saturating_sub(before),
                    unsent: 0,
                    held: 0,
                    dead: None,
                    stuck: resources.stuck(),
                    failed: Some(DeviceError::NotEnded(deadline)),
                    took: elapsed,
                };
                // The kernel may still write, so its memory, its code and the hold on frees are kept until the
                // process ends.
                launched.abandon();
                return UnifiedStopped { report, dispatcher: None };
            }
            std::thread::yield_now();
        };
        let failed = outcome.clone().map(DeviceError::from).or_else(|| failure(|word| resources.read(word)));
        let dead = resources.read(control::DEAD);
        let report = UnifiedReport {
            drained: resources.counters().answered().saturating_sub(before),
            unsent: resources.read(control::POSTED).saturating_sub(resources.read(control::DONE)),
            held: resources.read(control::HELD),
            dead: (dead != 0).then_some(Syndrome(dead as u8)),
            stuck: Vec::new(),
            failed: failed.clone(),
            took: begin.elapsed(),
        };
        if matches!(outcome, Some(CudaError::TimedOut(_))) {
            // The kernel has ended, but a graph that it launched has not, so the memory that the graph may write is
            // kept until the process ends.
            launched.abandon();
            return UnifiedStopped { report, dispatcher: None };
        }
        launched.ended();
        let dispatcher =
            failed.is_none().then(|| UnifiedDispatcher { resources, launcher, stream, state: Wired(()) });
        UnifiedStopped { report, dispatcher }
    }
}

impl Resources {
    fn stuck(&self) -> Vec<Stuck> {
        let busy = |warp: usize| {
            let record = self.read(control::BUSY + warp * control::BUSY_WORDS);
            let id = (record >> 32) as u32;
            let name = self.names.iter().find(|(known, _)| *known == id).map(|(_, name)| name.clone());
            let function = name.unwrap_or_else(|| format!("{id:#010x}"));
            (record != 0).then(|| Stuck { warp, slot: (record as u32).wrapping_sub(1), function })
        };
        (0..self.warps as usize).filter_map(busy).collect()
    }
}
