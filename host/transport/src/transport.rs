//! Transport traits: driven by the caller's thread, or running on its own.

use crate::latency::{FunctionAnswers, Latencies, LiveFunctions};
use crate::stats::LiveCounters;
use crate::wire::KernelDrops;
use crate::{Endpoint, Statistics};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A transport on its caller's thread: the same thread may run the dispatcher.
///
/// A turn is [`poll`](Self::poll), other work of the thread, then [`publish`](Self::publish). Neither blocks.
pub trait Unified: Send {
    /// Where it is reached.
    fn endpoint(&self) -> &Endpoint;

    /// Takes a batch of frames from the wire and fills vacant slots; how many frames there were. Without a vacant
    /// slot nothing is taken, and frames wait in the wire.
    fn poll(&mut self) -> usize;

    /// Sends the answers that are there, in any order they became ready, each to the peer that asked; how
    /// many.
    fn publish(&mut self) -> usize;

    /// Requests in slots that have no answer yet.
    fn under_way(&self) -> u32;

    /// Blocks until something arrives or the time is over, unless an answer is due; whether it blocked. For a thread that
    /// has found nothing to do for long.
    fn doze(&mut self, at_most: Duration) -> bool;

    /// From now on every request that comes is refused with `SHUTTING_DOWN`. There is no way back.
    fn close(&mut self);

    /// Answers every request in flight `SHUTTING_DOWN`, sends the answers as far as possible, and ends. Bounded.
    fn give_up(&mut self);

    /// A handle that reads the statistics.
    fn watch(&self) -> Watch;

    /// [Closes](Self::close) the transport, and makes turns until every request in flight is answered or the deadline
    /// has passed; then [gives up](Self::give_up) the rest. `between` runs in each turn: a dispatcher on this thread.
    fn stop(&mut self, deadline: Duration, between: &mut dyn FnMut()) -> StopReport {
        let watch = self.watch();
        let (begin, before) = (Instant::now(), watch.statistics());
        self.close();
        loop {
            let received = self.poll();
            between();
            let sent = self.publish();
            if self.under_way() == 0 || begin.elapsed() >= deadline {
                break;
            }
            if received + sent == 0 {
                std::thread::yield_now();
            }
        }
        self.give_up();
        let statistics = watch.statistics();
        StopReport {
            drained: statistics.answered - before.answered,
            dropped: statistics.dropped - before.dropped,
            refused: statistics.stopping - before.stopping,
            stuck: false,
            statistics,
            took: begin.elapsed(),
        }
    }
}

/// A transport with its own thread that fills the ring and sends its answers.
pub trait RingFilling: Send {
    /// Where it is reached.
    fn endpoint(&self) -> &Endpoint;

    /// A handle that reads the statistics.
    fn watch(&self) -> Watch;

    /// Refuses new requests, waits until every request in flight is answered, and ends. At the deadline it answers
    /// the remaining requests `SHUTTING_DOWN`. The wire is closed when this returns.
    fn stop(self: Box<Self>, deadline: Duration) -> StopReport;

    /// The counts, now.
    fn statistics(&self) -> Statistics {
        self.watch().statistics()
    }
}

/// Reads a transport's statistics from any thread, also after it has stopped. Cheap to clone.
#[derive(Clone)]
pub struct Watch(Source);

#[derive(Clone)]
enum Source {
    Own { counters: Arc<LiveCounters>, functions: Arc<LiveFunctions>, drops: Option<KernelDrops> },
    Other(Arc<dyn Fn() -> Statistics + Send + Sync>),
}

impl Watch {
    pub(crate) fn new(
        counters: Arc<LiveCounters>,
        functions: Arc<LiveFunctions>,
        drops: Option<KernelDrops>,
    ) -> Self {
        Self(Source::Own { counters, functions, drops })
    }

    /// For a transport that counts by itself: `read` says how far, at any time and from any thread.
    pub fn other(read: impl Fn() -> Statistics + Send + Sync + 'static) -> Self {
        Self(Source::Other(Arc::new(read)))
    }

    /// The counts, now. Never disturbs the transport; asks the operating system for the datagrams that it dropped.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        match &self.0 {
            Source::Own { counters, drops, .. } => {
                if let Some(drops) = drops {
                    // Gone with the socket: what was read last stays.
                    counters.kernel_drops.set(drops.read().max(counters.kernel_drops.get()));
                }
                counters.counts()
            }
            Source::Other(read) => read(),
        }
    }
}

impl Watch {
    /// How long answers took, now; `None` of a transport that counts by itself.
    #[must_use]
    pub fn latencies(&self) -> Option<Latencies> {
        match &self.0 {
            Source::Own { functions, .. } => Some(functions.counts()),
            Source::Other(_) => None,
        }
    }

    /// The same by function, first come first; nothing of a transport that counts by itself.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionAnswers> {
        match &self.0 {
            Source::Own { functions, .. } => functions.functions(),
            Source::Other(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.statistics()).finish()
    }
}

/// What a stop did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// Requests answered between the call and the end.
    pub drained: u64,
    /// Requests answered `SHUTTING_DOWN` because no other answer came in time.
    pub dropped: u64,
    /// Requests that came during the stop and were refused.
    pub refused: u64,
    /// The transport's thread did not come back.
    pub stuck: bool,
    /// The final counts.
    pub statistics: Statistics,
    /// How long the stop took.
    pub took: Duration,
}

impl fmt::Display for StopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drained, dropped, refused, stuck, statistics, took } = self;
        write!(f, "stopped in {took:.1?}: {drained} drained, {dropped} dropped, {refused} refused")?;
        if *stuck {
            f.write_str(", the thread is stuck")?;
        }
        write!(f, "; {statistics}")
    }
}
