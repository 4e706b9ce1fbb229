//! Running services: a transport and a dispatcher, in this process or on a device.

use super::ThreadsArg;
use super::counters::{self, ReadCounters, ServiceCounters};
use crate::report::count;
use crate::style;
use anyhow::Result;
use ringcall::HostDispatcher;
use ringcall::dispatcher::{Running, Watch, Wired};
use ringcall_gpu_decoders::relay_bp::CancelFlag;
use ringcall_launch::ring::{DeviceDispatcher, Running as OnDevice};
use ringcall_mlx5::{Event, WaitEnd};
use ringcall_protocol::counters::Snapshot;
use ringcall_sim::socket_nic::{self, LoopStats};
use ringcall_transport::{
    OneThread, RingFilling, ThreadOptions, Threaded, TransportAddress, TransportStopReport, TransportWatch,
    UnifiedTransport, roce,
};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// A running service of any kind.
pub(super) trait Served {
    /// The address for peers.
    fn endpoint(&self) -> TransportAddress;
    /// A reader of all counters.
    fn counters(&self) -> ReadCounters;
    /// Stops the transport first, so that requests in flight are still answered.
    fn stop(self: Box<Self>, deadline: Duration) -> Outcome;
}

pub(super) struct Outcome {
    pub(super) text: String,
    /// The outcome for programs.
    pub(super) json: Value,
    /// Whether a thread or kernel did not end.
    pub(super) stuck: bool,
    pub(super) balance: (i128, i128),
}

/// Transport and host dispatcher on one thread.
struct OneThreadService {
    service: OneThread,
    dispatcher: Watch,
}

impl Served for OneThreadService {
    fn endpoint(&self) -> TransportAddress {
        self.service.endpoint().clone()
    }

    fn counters(&self) -> ReadCounters {
        let (transport, dispatcher) = (self.service.watch(), self.dispatcher.clone());
        Arc::new(move || both(&transport, &dispatcher.counters()))
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        let (report, stopped) = self.service.stop(deadline);
        let stuck = stopped.is_none_or(|stopped| stopped.report.stuck);
        Outcome::of_ring(&report, stuck, &self.dispatcher.counters())
    }
}

/// Transport and host dispatcher on a thread each.
pub(super) struct TwoThreadService {
    pub(super) transport: Box<dyn RingFilling>,
    pub(super) dispatcher: HostDispatcher<Running>,
}

impl Served for TwoThreadService {
    fn endpoint(&self) -> TransportAddress {
        self.transport.endpoint().clone()
    }

    fn counters(&self) -> ReadCounters {
        let (transport, dispatcher) = (self.transport.watch(), self.dispatcher.watch());
        Arc::new(move || both(&transport, &dispatcher.counters()))
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        let report = self.transport.stop(deadline);
        let dispatcher = self.dispatcher.watch();
        let stuck = self.dispatcher.stop(deadline).report.stuck;
        Outcome::of_ring(&report, stuck, &dispatcher.counters())
    }
}

/// A transport's thread, and a kernel.
pub(super) struct DeviceService {
    pub(super) transport: Threaded,
    pub(super) dispatcher: DeviceDispatcher<OnDevice>,
    /// Ends decodes that a stop cannot wait for.
    pub(super) cancel: Option<CancelFlag>,
}

/// Raises a flag after a time, unless it is dropped before.
struct Raised {
    _waiting: Option<Sender<()>>,
}

impl Raised {
    fn after(time: Duration, flag: CancelFlag) -> Self {
        let (waiting, dropped) = mpsc::channel();
        let raise = move || {
            // Without a flag the stop ends at its deadline.
            if dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) && flag.raise().is_err() {
                tracing::warn!("the GPU's decodes cannot be cancelled");
            }
        };
        let thread = std::thread::Builder::new().name("ringcall-cancel".to_owned()).spawn(raise);
        Self { _waiting: thread.is_ok().then_some(waiting) }
    }
}

impl Served for DeviceService {
    fn endpoint(&self) -> TransportAddress {
        self.transport.endpoint().clone()
    }

    fn counters(&self) -> ReadCounters {
        let (transport, dispatcher) = (self.transport.watch(), self.dispatcher.watch());
        Arc::new(move || both(&transport, &dispatcher.counters()))
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        // It lives until the kernel has ended.
        let _raised = self.cancel.map(|flag| Raised::after(deadline / 2, flag));
        let report = Box::new(self.transport).stop(deadline);
        let dispatcher = self.dispatcher.watch();
        let stopped = self.dispatcher.stop(deadline.max(Duration::from_millis(50))).report;
        let failed = !stopped.stuck.is_empty() || stopped.failed.is_some();
        Outcome::of_ring(&report, failed, &dispatcher.counters())
    }
}

/// A NIC in software and the unified loop.
impl Served for socket_nic::Service {
    fn endpoint(&self) -> TransportAddress {
        // The peer's protocol is RoCE.
        let mut details = self.options().port.details();
        details.push(("device", socket_nic::NAME.to_owned()));
        TransportAddress { transport: roce::NAME, address: SocketAddr::V4(self.address()), details }
    }

    fn counters(&self) -> ReadCounters {
        let watch = self.watch();
        Arc::new(move || {
            let counters = counters::dispatcher(&watch.counters());
            let counters = counters::queue_pair(watch.named()).chain(counters).collect();
            ServiceCounters { counters, ..ServiceCounters::default() }
        })
    }

    fn stop(self: Box<Self>, deadline: Duration) -> Outcome {
        Outcome::of_nic(&socket_nic::Service::stop(*self, deadline))
    }
}

/// A transport polled by a thread of this process, and the host's dispatcher on the same thread or its own.
pub(super) fn driven(
    link: impl UnifiedTransport + 'static,
    dispatcher: HostDispatcher<Wired>,
    threads: ThreadsArg,
) -> Result<Box<dyn Served>> {
    let options = ThreadOptions::default();
    Ok(match threads {
        ThreadsArg::One => {
            let watch = dispatcher.watch();
            let service = OneThread::start(link, dispatcher, &options)?;
            Box::new(OneThreadService { service, dispatcher: watch })
        }
        ThreadsArg::Own => {
            let dispatcher = dispatcher.start()?;
            Box::new(TwoThreadService { transport: Box::new(Threaded::start(link, &options)?), dispatcher })
        }
    })
}

fn both(transport: &TransportWatch, counters: &Snapshot) -> ServiceCounters {
    let counters = counters::transport(&transport.stats()).chain(counters::dispatcher(counters)).collect();
    ServiceCounters { counters, latencies: transport.latencies(), functions: transport.functions() }
}

fn counts(named: impl Iterator<Item = (&'static str, u64)>) -> Value {
    Value::Object(named.map(|(name, n)| (name.to_owned(), n.into())).collect::<Map<_, _>>())
}

impl Outcome {
    /// The text for people, with counters that are not 0 or with all counters.
    pub(super) fn shown(&self, verbose: bool) -> String {
        const LABEL: usize = 12;
        let mut text = style::paragraph("stopped", LABEL, &self.text);
        for part in ["transport", "dispatcher"] {
            let counts = self.json[part].as_object().into_iter().flatten();
            let counts = counts.filter_map(|(name, count)| Some((name, count.as_u64()?)));
            let shown = counts.filter(|(_, count)| verbose || *count > 0);
            let words: Vec<String> = shown.map(|(name, n)| format!("{name} {}", count(n))).collect();
            let words = if words.is_empty() { "nothing yet".to_owned() } else { words.join(", ") };
            text += &style::paragraph(part, LABEL, &words);
        }
        let (frames, requests) = self.balance;
        text + &format!("unaccounted: {frames} frames, {requests} requests\n")
    }

    fn of_ring(report: &TransportStopReport, stuck: bool, counters: &Snapshot) -> Self {
        let balance @ (frames, slots) = report.stats.balance();
        Self {
            text: format!(
                "in {}; {} requests answered late, {} dropped, {} refused{}",
                style::span(report.took),
                report.drained,
                report.dropped,
                report.refused,
                if report.stuck { "; the thread is stuck" } else { "" }
            ),
            json: json!({
                "drained": report.drained,
                "dropped": report.dropped,
                "refused": report.refused,
                "unaccounted": { "frames": frames as i64, "requests": slots as i64 },
                "transport": counts(report.stats.named()),
                "dispatcher": counts(counters.named()),
            }),
            stuck: stuck || report.stuck,
            balance,
        }
    }

    /// Of an adapter's queue pair: how its kernel ended, and the requests that it took and neither answered nor gave back.
    pub(super) fn of_adapter(counts: &dyn LoopStats, ended: Option<WaitEnd>, unanswered: i128) -> Self {
        let text = match ended {
            Some(WaitEnd::Dead) => "the queue pair is in the error state",
            Some(_) => "in order",
            None => "the kernel is stuck",
        };
        let events = Event::ALL.iter().map(|&event| (event.name(), counts.event(event)));
        Self {
            text: text.to_owned(),
            json: json!({
                "unaccounted": { "frames": 0, "requests": unanswered as i64 },
                "transport": self::counts(events),
                "dispatcher": self::counts(counts.counters().named()),
            }),
            stuck: ended.is_none(),
            balance: (0, unanswered),
        }
    }

    pub(super) fn of_nic(report: &socket_nic::Report) -> Self {
        let (messages, requests, answers) = report.balance();
        let balance @ (frames, slots) = (messages, requests.abs() + answers.abs());
        let broken: u64 = report.broken().map(|(_, n)| n).sum();
        Self {
            text: match broken {
                0 => "in order".to_owned(),
                broken => format!("{broken} broken rules: {report}"),
            },
            json: json!({
                "unaccounted": { "frames": frames as i64, "requests": slots as i64 },
                "broken_rules": broken,
                "transport": counts(report.named.iter().copied()),
                "dispatcher": counts(report.dispatcher.named()),
            }),
            stuck: report.ended.is_none(),
            balance,
        }
    }
}
