//! Log of a service on standard error; `RUST_LOG` sets the lowest level, by default `warn`.
//!
//! The threads that serve requests log nothing. The main thread polls the counters once a second, so that a flood of
//! refusals gives a line a second instead of one a request.

use super::counters::ReadCounters;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// For people
    Text,
    /// An object a line
    Json,
}

/// Starts logging. A process that logs already keeps its format.
pub(super) fn start(format: LogFormatArg) {
    let asked = std::env::var("RUST_LOG").ok().and_then(|asked| asked.parse::<Targets>().ok());
    let targets = asked.unwrap_or_else(|| Targets::new().with_default(Level::WARN));
    let registry = tracing_subscriber::registry().with(targets);
    let layer = || tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = match format {
        LogFormatArg::Text => registry.with(layer().with_ansi(false)).try_init(),
        LogFormatArg::Json => registry.with(layer().json().flatten_event(true)).try_init(),
    };
}

/// The counters whose rise is logged: frames that were not served as their senders hoped.
const WORRYING: [&str; 22] = [
    "oversize",
    "truncated",
    "bad_magic",
    "bad_slot",
    "slot_taken",
    "runts",
    "malformed",
    "forbidden",
    "wrong_icrc",
    "wrong_key",
    "no_message",
    "wrong_psn",
    "lost",
    "incomplete",
    "unsent",
    "broken_silent",
    "broken_refused",
    "broken_queue_pair",
    DEVICE_REMOVED,
    "evicted",
    "errors",
    "kernel_drops",
];

/// The count after which a service answers nothing more.
const DEVICE_REMOVED: &str = "device_removed";

/// Polls counters once a second.
pub(super) struct Watchman {
    counters: ReadCounters,
    seen: BTreeMap<String, u64>,
    checked: Instant,
}

const CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Watchman {
    pub(super) fn new(counters: ReadCounters) -> Self {
        Self { counters, seen: BTreeMap::new(), checked: Instant::now() }
    }

    /// Logs the counters that have risen since the last poll, at most once a second.
    pub(super) fn check(&mut self) {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.checked = Instant::now();
        for (name, more, all) in self.risen() {
            if name == DEVICE_REMOVED {
                tracing::error!(
                    count = name,
                    all,
                    "the RDMA device was removed, or its address: nothing more is served; start the service again once the device is back"
                );
                continue;
            }
            tracing::warn!(count = name, more, all, "frames were not served");
        }
    }

    fn risen(&mut self) -> Vec<(String, u64, u64)> {
        let mut risen = Vec::new();
        for counter in (self.counters)().counters {
            let Some(name) = counter.name.strip_prefix("ringcall_transport_") else { continue };
            if WORRYING.contains(&name) {
                let before = self.seen.insert(name.to_owned(), counter.value).unwrap_or(0);
                if counter.value > before {
                    risen.push((name.to_owned(), counter.value - before, counter.value));
                }
            }
        }
        risen
    }
}

#[cfg(test)]
mod tests {
    use super::super::counters::{ServiceCounters, transport};
    use super::*;
    use ringcall_gpu::atomic::DeviceU64;
    use ringcall_transport::TransportStats;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn every_worrying_count_is_one_of_a_transport() {
        for name in WORRYING {
            assert!(TransportStats::default().set(name, 1), "{name}");
        }
    }

    #[test]
    fn a_rise_is_said_once() {
        let flood = Arc::new(DeviceU64::new(0));
        let read = Arc::clone(&flood);
        let mut watchman = Watchman::new(Arc::new(move || {
            let mut counts = TransportStats::default();
            counts.set("runts", read.load(Ordering::Relaxed));
            counts.set("answered", 7);
            ServiceCounters { counters: transport(&counts).collect(), ..ServiceCounters::default() }
        }));
        assert_eq!(watchman.risen(), []);
        flood.store(1_000_000, Ordering::Relaxed);
        assert_eq!(watchman.risen(), [("runts".to_owned(), 1_000_000, 1_000_000)]);
        assert_eq!(watchman.risen(), []);
    }
}
