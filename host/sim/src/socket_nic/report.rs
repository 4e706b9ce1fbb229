//! Counters of a service, while it runs and at its end.

use crate::nic::stats::Violations;
use crate::nic::{Stats, Violation};
use crate::socket_nic::counts::{Count, Counts};
use crate::socket_nic::driver::Driver;
use ringcall_gpu::shared::Words;
use ringcall_mlx5::{Event, WaitEnd};
use ringcall_protocol::counters::{Bank, Snapshot};
use ringcall_roce::SocketDrops;
use ringcall_wire::counter::Counter;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a loop counts that is not this crate's: a device's kernels.
pub trait LoopStats: fmt::Debug + Send + Sync {
    /// How often something happened on the queues, now.
    fn event(&self, event: Event) -> u64;
    /// The counters of requests, now.
    fn counters(&self) -> Snapshot;
}

/// Where the loop counts.
#[derive(Debug, Clone)]
enum Loop {
    /// On a thread of this process.
    Here { endpoint: Words, bank: Arc<Bank> },
    /// Anywhere.
    Elsewhere(Arc<dyn LoopStats>),
}

/// Live counts of a service. Cheap to clone, for any thread.
#[derive(Debug, Clone)]
pub struct Watch {
    port: Arc<Counts>,
    serving: Loop,
    /// Where the operating system says.
    drops: Option<SocketDrops>,
}

impl Watch {
    pub(crate) fn new(
        port: Arc<Counts>,
        endpoint: Words,
        bank: Arc<Bank>,
        drops: Option<SocketDrops>,
    ) -> Self {
        Self { port, serving: Loop::Here { endpoint, bank }, drops }
    }

    /// Of a loop that counts by itself.
    pub(crate) fn of_loop(port: Arc<Counts>, counts: Arc<dyn LoopStats>, drops: Option<SocketDrops>) -> Self {
        Self { port, serving: Loop::Elsewhere(counts), drops }
    }

    /// Datagrams that the operating system dropped because the receive buffer was full; 0 where it does not say.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        self.drops.map_or(0, |drops| drops.read())
    }

    /// The port's counts.
    #[must_use]
    pub fn port(&self) -> &Counts {
        &self.port
    }

    /// A count of the queue pair.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        match &self.serving {
            Loop::Here { endpoint, .. } => endpoint.load(event as usize, Ordering::Relaxed),
            Loop::Elsewhere(counts) => counts.event(event),
        }
    }

    /// The loop's counters.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        match &self.serving {
            Loop::Here { bank, .. } => {
                let mut snapshot = Snapshot::default();
                snapshot.absorb(bank);
                snapshot
            }
            Loop::Elsewhere(counts) => counts.counters(),
        }
    }

    /// Counts of port and queue pair: name, meaning, value.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
        let port = Count::ALL.iter().map(|&count| (count.name(), count.meaning(), self.port.get(count)));
        let events = Event::ALL.iter().map(|&event| (event.name(), event.meaning(), self.event(event)));
        let drops = "datagrams that the operating system dropped because the receive buffer was full, where it says so";
        port.chain(events).chain([("kernel_drops", drops, self.kernel_drops())]).collect()
    }

    /// Whether the loop has read so many receive completions, and given every credit back.
    pub(crate) fn has_consumed(&self, completions: u64) -> bool {
        let credits = self.event(Event::RxReposted) + self.event(Event::RxStray);
        self.event(Event::RxCompletions) >= completions && credits >= completions
    }
}

/// The work of a service from start to stop.
#[derive(Debug, Clone)]
pub struct Report {
    /// Counts of port and queue pair: name and value.
    pub named: Vec<(&'static str, u64)>,
    /// The loop's counters.
    pub dispatcher: Snapshot,
    /// What the NIC counted; nothing if its thread did not come back.
    pub nic: Stats,
    /// Rules of the hardware that the loop broke: none, or there is a defect.
    pub violations: Violations,
    /// How the loop ended; `None`: a handler on it never returned.
    pub ended: Option<WaitEnd>,
    /// How long the stop took.
    pub took: Duration,
    balance: (i128, i128, i128),
}

impl Report {
    pub(crate) fn new(
        watch: &Watch,
        driver: Option<&Driver>,
        served: Option<(u64, WaitEnd)>,
        took: Duration,
    ) -> Self {
        let (nic, violations) =
            driver.map(|driver| (*driver.nic.stats(), *driver.nic.violations())).unwrap_or_default();
        let dispatcher = watch.counters();
        let n = i128::from;
        let event = |event| n(watch.event(event));
        let dropped_by_nic = nic.rx_no_credit + nic.rx_refused + nic.rx_dead + nic.rx_errors;
        let messages = n(watch.port().get(Count::Delivered))
            - n(nic.rx_delivered)
            - n(nic.rx_writes)
            - n(dropped_by_nic);
        let requests = n(nic.rx_delivered)
            - event(Event::RxRequests)
            - event(Event::RxBadSlot)
            - event(Event::RxTooLong)
            - event(Event::RxUnaccepted);
        // The port itself answers requests for busy pages.
        let answers = event(Event::RxRequests) + n(watch.port().get(Count::Busy))
            - event(Event::RxUnanswered)
            - n(watch.port().get(Count::Sent))
            - n(watch.port().get(Count::Unsent))
            - n(nic.tx_errors + nic.flushed);
        Self {
            named: watch.named().into_iter().map(|(name, _, value)| (name, value)).collect(),
            dispatcher,
            nic,
            violations,
            ended: served.map(|(_, ended)| ended),
            took,
            balance: (messages, requests, answers),
        }
    }

    /// How many messages from the port, requests from the NIC and answers of the loop are unaccounted for: always zeros
    /// after a stop that drained.
    #[must_use]
    pub const fn balance(&self) -> (i128, i128, i128) {
        self.balance
    }

    /// Whether it ended as told, with every message accounted for and no rule of the hardware broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.ended == Some(WaitEnd::Stopped)
            && self.balance == (0, 0, 0)
            && self.violations.broken().next().is_none()
    }

    /// Rules that were broken, by name.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.violations.broken().map(|(violation, n): (Violation, u64)| (violation.name(), n))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped in {:.1?}", self.took)?;
        if self.ended.is_none() {
            f.write_str(", the loop is stuck")?;
        }
        let completed = self.dispatcher.get(Counter::Completed);
        write!(f, ": {completed} answered well")?;
        for (name, n) in self.named.iter().filter(|&&(_, n)| n != 0) {
            write!(f, ", {name} {n}")?;
        }
        for (name, n) in self.broken() {
            write!(f, ", rule broken: {name} {n}")?;
        }
        Ok(())
    }
}
