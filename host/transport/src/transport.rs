//! Transport traits: driven by the caller's thread, or running on a thread of their own.

use crate::latency::{FunctionAnswers, Latencies, LiveFunctions};
use crate::stats::LiveCounters;
use crate::wire::KernelDrops;
use crate::{TransportAddress, TransportStats};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A transport driven by its caller's thread, which may also run the dispatcher.
///
/// A turn is [`poll`](Self::poll), other work of the thread, then [`publish`](Self::publish). Neither blocks.
pub trait UnifiedTransport: Send {
    /// The transport's address.
    fn endpoint(&self) -> &TransportAddress;

    /// Takes a batch of frames from the wire into vacant slots. Returns the number of frames. While no slot is vacant
    /// nothing is taken, and frames wait in the wire.
    fn poll(&mut self) -> usize;

    /// Sends the answers that are ready, each to the sender of its request, in the order in which they became ready.
    /// Returns the number of answers.
    fn publish(&mut self) -> usize;

    /// The number of requests in slots without an answer.
    fn under_way(&self) -> u32;

    /// Blocks until a frame arrives, or until `at_most`, unless an answer is due. Returns whether it blocked. For a
    /// thread that has found no work for long.
    fn doze(&mut self, at_most: Duration) -> bool;

    /// Refuses every further request with `SHUTTING_DOWN`. This cannot be undone.
    fn close(&mut self);

    /// Answers every request in flight with `SHUTTING_DOWN`, sends the answers as far as possible, and ends. Bounded.
    fn give_up(&mut self);

    /// A handle that reads the stats.
    fn watch(&self) -> TransportWatch;

    /// [Closes](Self::close) the transport, and runs turns until every request in flight is answered or the deadline
    /// has passed; then [gives up](Self::give_up) the remaining requests. `between` runs in each turn, for a dispatcher
    /// on this thread.
    fn stop(&mut self, deadline: Duration, between: &mut dyn FnMut()) -> TransportStopReport {
        let watch = self.watch();
        let (begin, before) = (Instant::now(), watch.stats());
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
        let stats = watch.stats();
        TransportStopReport {
            drained: stats.answered - before.answered,
            dropped: stats.dropped - before.dropped,
            refused: stats.stopping - before.stopping,
            stuck: false,
            stats,
            took: begin.elapsed(),
        }
    }
}

/// A transport that fills the ring and sends answers on a thread of its own.
pub trait RingFilling: Send {
    /// The transport's address.
    fn endpoint(&self) -> &TransportAddress;

    /// A handle that reads the stats.
    fn watch(&self) -> TransportWatch;

    /// Refuses new requests, waits until every request in flight is answered, and ends. At the deadline it answers the
    /// remaining requests `SHUTTING_DOWN`. When this returns, the wire is closed.
    fn stop(self: Box<Self>, deadline: Duration) -> TransportStopReport;

    /// The current counters.
    fn stats(&self) -> TransportStats {
        self.watch().stats()
    }
}

/// Reads a transport's stats from any thread, even after the transport has stopped. Cheap to clone.
#[derive(Clone)]
pub struct TransportWatch(Source);

#[derive(Clone)]
enum Source {
    Own { counters: Arc<LiveCounters>, functions: Arc<LiveFunctions>, drops: Option<KernelDrops> },
    Other(Arc<dyn Fn() -> TransportStats + Send + Sync>),
}

impl TransportWatch {
    pub(crate) fn new(
        counters: Arc<LiveCounters>,
        functions: Arc<LiveFunctions>,
        drops: Option<KernelDrops>,
    ) -> Self {
        Self(Source::Own { counters, functions, drops })
    }

    /// A handle for a transport with counters of its own, which `read` returns at any time and on any thread.
    pub fn other(read: impl Fn() -> TransportStats + Send + Sync + 'static) -> Self {
        Self(Source::Other(Arc::new(read)))
    }

    /// The current counters, with the datagrams that the operating system has dropped. Reading them never disturbs the
    /// transport.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        match &self.0 {
            Source::Own { counters, drops, .. } => {
                if let Some(drops) = drops {
                    // The system's counter is gone with the socket: the last value stays.
                    counters.kernel_drops.set(drops.read().max(counters.kernel_drops.get()));
                }
                counters.stats()
            }
            Source::Other(read) => read(),
        }
    }
}

impl TransportWatch {
    /// The latencies so far; `None` for a transport with counters of its own.
    #[must_use]
    pub fn latencies(&self) -> Option<Latencies> {
        match &self.0 {
            Source::Own { functions, .. } => Some(functions.counts()),
            Source::Other(_) => None,
        }
    }

    /// The latencies by function, in the order of the first answers; empty for a transport with counters of its own.
    #[must_use]
    pub fn functions(&self) -> Vec<FunctionAnswers> {
        match &self.0 {
            Source::Own { functions, .. } => functions.functions(),
            Source::Other(_) => Vec::new(),
        }
    }
}

impl fmt::Debug for TransportWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.stats()).finish()
    }
}

/// The effects of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportStopReport {
    /// Requests answered between the call and the end.
    pub drained: u64,
    /// Requests answered `SHUTTING_DOWN` because no other answer came in time.
    pub dropped: u64,
    /// Requests that came during the stop and were refused.
    pub refused: u64,
    /// Whether the transport's thread did not end in time.
    pub stuck: bool,
    /// The final counters.
    pub stats: TransportStats,
    /// How long the stop took.
    pub took: Duration,
}

impl fmt::Display for TransportStopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { drained, dropped, refused, stuck, stats, took } = self;
        write!(f, "stopped in {took:.1?}: {drained} drained, {dropped} dropped, {refused} refused")?;
        if *stuck {
            f.write_str(", the thread is stuck")?;
        }
        write!(f, "; {stats}")
    }
}
