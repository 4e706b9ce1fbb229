//! Counters of a running service, in one form for every transport and dispatcher.

use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::counters::Snapshot;
use ringcall_transport::{FunctionAnswers, Latencies, TransportStats};
use ringcall_wire::counter::Counter;
use ringcall_wire::qec::DecodeResponse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The current value of a counter.
pub(super) struct NamedCounter {
    pub(super) name: String,
    pub(super) meaning: &'static str,
    pub(super) value: u64,
    /// Whether the value may also fall.
    pub(super) falls: bool,
}

/// All current counters of a service.
#[derive(Default)]
pub(super) struct ServiceCounters {
    pub(super) counters: Vec<NamedCounter>,
    /// Latencies of answers, if the transport measures them.
    pub(super) latencies: Option<Latencies>,
    pub(super) functions: Vec<FunctionAnswers>,
}

/// Reads every counter, from any thread.
pub(super) type ReadCounters = Arc<dyn Fn() -> ServiceCounters + Send + Sync>;

pub(super) fn transport(stats: &TransportStats) -> impl Iterator<Item = NamedCounter> + use<> {
    stats.named().zip(TransportStats::MEANINGS).map(|((name, value), (_, meaning))| NamedCounter {
        name: format!("ringcall_transport_{name}"),
        meaning,
        value,
        falls: name.ends_with("under_way"),
    })
}

pub(super) fn queue_pair(
    named: Vec<(&'static str, &'static str, u64)>,
) -> impl Iterator<Item = NamedCounter> {
    let counter = |(name, meaning, value)| NamedCounter {
        name: format!("ringcall_transport_{name}"),
        meaning,
        value,
        falls: false,
    };
    named.into_iter().map(counter)
}

/// Answers to decodes, counted as they are given.
#[derive(Debug, Default)]
pub(super) struct Answers {
    given: DeviceU64,
    unconverged: DeviceU64,
    late: DeviceU64,
}

impl Answers {
    /// One more, which says so of its decode.
    pub(super) fn count(&self, converged: Option<i32>) {
        self.given.fetch_add(1, Ordering::Relaxed);
        self.unconverged.fetch_add((converged == Some(0)).into(), Ordering::Relaxed);
        self.late.fetch_add((converged == Some(DecodeResponse::LATE)).into(), Ordering::Relaxed);
    }

    /// All answers, those that are best guesses, and those that are late.
    pub(super) fn counts(&self) -> [u64; 3] {
        [&self.given, &self.unconverged, &self.late].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The counts of decodes: all, those that are best guesses, and those that are late.
pub(super) fn decodes([given, unconverged, late]: [u64; 3]) -> [NamedCounter; 3] {
    [
        ("ringcall_decode_answers", "shots decoded and answered", given),
        (
            "ringcall_decode_unconverged",
            "answers that are best guesses: nothing was found that explains the syndrome",
            unconverged,
        ),
        (
            "ringcall_decode_late",
            "answers whose decode was cut off, by the deadline or at the service's end",
            late,
        ),
    ]
    .map(|(name, meaning, value)| NamedCounter { name: name.to_owned(), meaning, value, falls: false })
}

pub(super) fn dispatcher(counters: &Snapshot) -> impl Iterator<Item = NamedCounter> + use<> {
    let counters = *counters;
    Counter::ALL.iter().map(move |&counter| NamedCounter {
        name: format!("ringcall_dispatcher_{}", counter.name()),
        meaning: counter.meaning(),
        value: counters.get(counter),
        falls: false,
    })
}
