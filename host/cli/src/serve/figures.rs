//! What a running service counts, in one form for every transport and dispatcher.

use ringcall_protocol::counters::Snapshot;
use ringcall_transport::{Latencies, Statistics};
use ringcall_wire::counter::Counter;
use std::sync::Arc;

/// One count, now.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) meaning: &'static str,
    pub(super) value: u64,
    /// It may also fall.
    pub(super) falls: bool,
}

/// Everything that a service counts, now.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) figures: Vec<Figure>,
    /// How long answers took, where the transport measures it.
    pub(super) latencies: Option<Latencies>,
}

/// Reads every count, from any thread.
pub(super) type Figures = Arc<dyn Fn() -> Counted + Send + Sync>;

/// A transport's, as Prometheus names them.
pub(super) fn transport(statistics: &Statistics) -> impl Iterator<Item = Figure> + use<> {
    statistics.named().zip(Statistics::MEANINGS).map(|((name, value), (_, meaning))| Figure {
        name: format!("ringcall_transport_{name}"),
        meaning,
        value,
        falls: name.ends_with("under_way"),
    })
}

/// A queue pair's.
pub(super) fn queue_pair(named: Vec<(&'static str, &'static str, u64)>) -> impl Iterator<Item = Figure> {
    let figure = |(name, meaning, value)| Figure {
        name: format!("ringcall_transport_{name}"),
        meaning,
        value,
        falls: false,
    };
    named.into_iter().map(figure)
}

/// A dispatcher's.
pub(super) fn dispatcher(counters: &Snapshot) -> impl Iterator<Item = Figure> + use<> {
    let counters = *counters;
    Counter::ALL.iter().map(move |&counter| Figure {
        name: format!("ringcall_dispatcher_{}", counter.name()),
        meaning: counter.meaning(),
        value: counters.get(counter),
        falls: false,
    })
}
