//! The kernels of the device archive, over queues that the device reaches: the unified one, or three.

use super::Asked;
use super::adapter::{Adapter, Given, QueueMemory};
use super::hold::{Hold, QueuePosition, Turn};
use crate::device::{Beside, Watcher, linked_context, linked_functions, linked_kernel};
use crate::handles::lock;
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall_cuda::driver::{Context, Kernel};
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_launch::queue_pair::{
    QueuePair, Running, UnifiedDispatcher, UnifiedReport, UnifiedWatch, Wired,
};
use ringcall_launch::relay::{
    RelayDispatcher, RelayKernels, RelayOptions, RelayReport, RelayWatch, Running as RelayRunning,
    Wired as RelayWired,
};
use ringcall_launch::ring::{DeviceError, LinkedFunction};
use ringcall_mlx5::Event;
use ringcall_mlx5::layout::cqe::Syndrome;
use ringcall_rdma::context;
use ringcall_rdma::doca::QpLayout;
use ringcall_rdma::unified::UnifiedQueues;
use ringcall_wire::Counter;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Between two looks at the caller's flag.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
/// What of a stop's time is left to the watcher's last words.
const LAST_PART: u32 = 5;
/// Warps of the kernel: one takes completions, all serve what comes together.
const WARPS: u32 = 8;

/// The kernels that work queues.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kernels<T> {
    Unified(T),
    /// Receiver, dispatcher and sender.
    Three([T; 3]),
}

/// Names of the unified kernel and of the three.
const UNIFIED: &str = "ringcall_unified";
const THREE: [&str; 3] = ["ringcall_relay_receive", "ringcall_dispatch", "ringcall_relay_send"];

impl<T> Kernels<T> {
    /// The function that launches them.
    pub(super) const fn launch_function(&self) -> &'static str {
        match self {
            Self::Unified(_) => "HSB_launch_unified_dispatch",
            Self::Three(_) => "ringcall_hsb_launch_three_dispatch",
        }
    }
}

/// The kernels, as the archive finds them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) device: c_int,
    pub(super) kernels: Kernels<*mut c_void>,
}

impl Found {
    /// Refuses a kernel that is not there.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let (kernels, names) = match &self.kernels {
            Kernels::Unified(kernel) => (core::slice::from_ref(kernel), &[UNIFIED][..]),
            Kernels::Three(kernels) => (&kernels[..], &THREE[..]),
        };
        match names.iter().zip(kernels).find(|(_, kernel)| kernel.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(Fault::invalid(format!(
                "the kernel {name} is null: the program has none for device {}",
                self.device
            ))),
        }
    }

    /// # Safety
    /// The functions are the program's kernels of these names, loaded on `context`'s device.
    unsafe fn load(&self, context: &Arc<Context>) -> Result<Kernels<Kernel>, Fault> {
        // SAFETY: the caller's promise.
        let load = |function, name| unsafe { linked_kernel(context, function, name) };
        Ok(match self.kernels {
            Kernels::Unified(unified) => Kernels::Unified(load(unified, UNIFIED)?),
            Kernels::Three([receive, dispatch, send]) => {
                Kernels::Three([load(receive, THREE[0])?, load(dispatch, THREE[1])?, load(send, THREE[2])?])
            }
        })
    }
}

/// Turns at queues that are no adapter's of this library, by the address of their struct.
fn holds() -> &'static Mutex<HashMap<u64, Arc<Hold>>> {
    static HOLDS: OnceLock<Mutex<HashMap<u64, Arc<Hold>>>> = OnceLock::new();
    HOLDS.get_or_init(Mutex::default)
}

fn invalid(error: impl std::fmt::Display) -> Fault {
    Fault::invalid(error.to_string())
}

/// Queues of an adapter that is not this library's: its struct is copied from the device.
///
/// # Safety
/// The header's contract: the context's addresses are the device's.
unsafe fn foreign(device: &Arc<Context>, given: &Given) -> Result<(UnifiedQueues, QueuePair), Fault> {
    let context = match *given {
        Given::Of48(given) => context::Context::try_from(given),
        Given::Of72(given) => context::Context::try_from(given),
        Given::Own(given) => given.check(),
    }
    .map_err(|error| Fault::invalid(format!("the transport context: {error}")))?;
    let mut bytes = vec![0; QpLayout::SDK.bytes];
    // SAFETY: the caller's promise.
    unsafe { device.read_foreign(context.qp, &mut bytes) }?;
    let queues =
        UnifiedQueues::new(&context, &QpLayout::SDK.read(&bytes).map_err(invalid)?).map_err(invalid)?;
    queues.check_device(device.device().ordinal(), |address| device.device_of(address)).map_err(invalid)?;
    let copying = if queues.blue_flame { Copying::Whole } else { Copying::Not };
    // SAFETY: the caller's promise; checked as far as it can be.
    let pair = unsafe { QueuePair::from_raw(device, queues.config, copying, queues.addresses, Arc::new(())) };
    Ok((queues, pair))
}

/// Launches the kernels, which a thread watches until their end.
///
/// # Safety
/// The header's contract of the launch functions, on the device path; `found` are the program's kernels.
pub(super) unsafe fn launch(
    given: &Given,
    adapter: Option<&Adapter>,
    found: Found,
    asked: &Asked,
    beside: &Beside,
) -> Result<Watcher, Fault> {
    let context = linked_context(found.device)?;
    let (queues, pair, hold) = match adapter {
        Some(adapter) => {
            let QueueMemory::Device { ordinal, queues: mapped } = &adapter.memory else {
                return Err(Fault::invalid(
                    "the adapter's queues are in the host's memory: make it for a device, or serve it on the host path",
                ));
            };
            let wanted = context.device().ordinal();
            if *ordinal != wanted {
                return Err(Fault::invalid(format!(
                    "the adapter's queues are mapped for device {ordinal}, and the kernel runs on device {wanted}"
                )));
            }
            let queues = adapter.queues(given)?;
            let pair = mapped.pair_of(queues.config, &queues.addresses)?;
            (queues, pair, Arc::clone(&adapter.hold))
        }
        None => {
            // SAFETY: the caller's promise.
            let (queues, pair) = unsafe { foreign(&context, given) }?;
            (queues, pair, Arc::clone(lock(holds()).entry(given.qp()).or_default()))
        }
    };
    // SAFETY: the caller's promise.
    let functions = unsafe { linked_functions(&context, asked.table, asked.count) }?;
    // SAFETY: the caller's promise.
    let kernels = unsafe { found.load(&context) }?;
    let mut turn = hold.begin(&queues)?;
    let (shutdown, stats, stop) = (asked.shutdown.addr() as u64, asked.stats.addr() as u64, beside.stop);
    let device = Arc::clone(&context);
    let launch = move || {
        let mut position = turn.position();
        // SAFETY: the caller's promise; what was launched before was of the same addresses, as the turn has compared.
        let wired = match unsafe { wire(kernels, &pair, &functions, &mut position) } {
            Ok(wired) => wired,
            Err(fault) => {
                if let Some(position) = position {
                    turn.end(Ok(position));
                }
                return Err(fault);
            }
        };
        turn.opened(&queues);
        match wired.start() {
            Ok(running) => Ok((turn, running)),
            Err(error) => {
                turn.end(Err(format!("its kernel did not begin: {error}")));
                Err(error.into())
            }
        }
    };
    let thread = std::thread::Builder::new().name("ringcall-watch".to_owned());
    Watcher::launch(thread, launch, move |(turn, launched): (Turn, Launched)| {
        let counts = launched.counts();
        let was_stopped = watch(&device, &launched, &counts, shutdown, stats);
        let (why, position) = launched.stop(stop - stop / LAST_PART, was_stopped, &counts);
        // SAFETY: the contract of `cudaq_dispatcher_set_control`: 8 bytes that the device sees, until this thread has ended.
        let _ = unsafe { device.write_foreign(stats, &counts.dispatched().to_ne_bytes()) };
        match position {
            Some(position) => turn.end(Ok(position)),
            None => turn.end(Err(why.clone().unwrap_or_else(|| "its kernel has ended".to_owned()))),
        }
        why.map_or(Ok(()), |why| Err(Fault::internal(why)))
    })
}

/// Kernels that were made for queues, before their launch.
enum Made {
    Unified(UnifiedDispatcher<Wired>),
    Three(RelayDispatcher<RelayWired>),
}

impl Made {
    fn start(self) -> Result<Launched, DeviceError> {
        Ok(match self {
            Self::Unified(wired) => Launched::Unified(wired.start()?),
            Self::Three(wired) => Launched::Three(wired.start()?),
        })
    }
}

/// Makes them, at the place where the last launch has ended, which is left there if they cannot be made.
///
/// # Safety
/// The kernels are the program's, the functions those of its module, and what was launched before was made for queues of `pair`'s
/// addresses.
unsafe fn wire(
    kernels: Kernels<Kernel>,
    pair: &QueuePair,
    functions: &[LinkedFunction],
    position: &mut Option<QueuePosition>,
) -> Result<Made, Fault> {
    match (kernels, &mut *position) {
        (Kernels::Unified(_), Some(QueuePosition::Three(_))) => Err(Fault::invalid(
            "three kernels have worked the queues, and the unified one does not know where: make another adapter for it",
        )),
        (Kernels::Three(_), Some(QueuePosition::Device(_))) => Err(Fault::invalid(
            "the unified kernel has worked the queues, and three do not know where: make another adapter for them",
        )),
        (Kernels::Unified(kernel), earlier) => {
            let earlier = match earlier {
                Some(QueuePosition::Device(earlier)) => Some(&**earlier),
                _ => None,
            };
            // SAFETY: the caller's promise.
            let wired = unsafe { UnifiedDispatcher::linked(pair, kernel, functions, WARPS, earlier) }?;
            *position = None;
            Ok(Made::Unified(wired))
        }
        (Kernels::Three([_, dispatch, _]), Some(QueuePosition::Three(earlier))) => {
            // SAFETY: the caller's promise.
            unsafe { earlier.serve(dispatch, functions, RelayOptions::default().dispatcher) }?;
            let Some(QueuePosition::Three(earlier)) = position.take() else {
                return Err(Fault::internal("the kernels are not where they were"));
            };
            Ok(Made::Three(*earlier))
        }
        (Kernels::Three([receive, dispatch, send]), _) => {
            let kernels = RelayKernels { receive, dispatch, send };
            // SAFETY: the caller's promise.
            let wired =
                unsafe { RelayDispatcher::linked(pair, None, kernels, functions, RelayOptions::default()) }?;
            Ok(Made::Three(wired))
        }
    }
}

/// Kernels that run.
enum Launched {
    Unified(UnifiedDispatcher<Running>),
    Three(RelayDispatcher<RelayRunning>),
}

/// Their counters.
enum Counts {
    Unified(UnifiedWatch),
    Three(RelayWatch),
}

impl Counts {
    fn dispatched(&self) -> u64 {
        let counters = match self {
            Self::Unified(watch) => watch.counters(),
            Self::Three(watch) => watch.counters(),
        };
        counters.get(Counter::Dispatched)
    }

    fn event(&self, event: Event) -> u64 {
        match self {
            Self::Unified(watch) => watch.event(event),
            Self::Three(watch) => watch.event(event),
        }
    }
}

impl Launched {
    fn counts(&self) -> Counts {
        match self {
            Self::Unified(running) => Counts::Unified(running.watch()),
            Self::Three(running) => Counts::Three(running.watch()),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Unified(running) => running.has_ended(),
            Self::Three(running) => running.has_ended(),
        }
    }

    /// What went wrong, if anything did, and where a later launch goes on. `told`: the caller asked for the stop.
    fn stop(
        self,
        deadline: Duration,
        was_stopped: bool,
        counts: &Counts,
    ) -> (Option<String>, Option<QueuePosition>) {
        match self {
            Self::Unified(running) => {
                let stopped = running.stop(deadline);
                let why = failure(&stopped.report, was_stopped, counts.event(Event::TxFull));
                let alive = stopped.dispatcher.filter(|_| stopped.report.dead.is_none());
                (why, alive.map(|wired| QueuePosition::Device(Box::new(wired))))
            }
            Self::Three(running) => {
                let stopped = running.stop(deadline);
                let why = failure_of_three(&stopped.report, was_stopped, counts.event(Event::TxFull));
                let alive = stopped.dispatcher.filter(|_| stopped.report.dead.is_none());
                (why, alive.map(|wired| QueuePosition::Three(Box::new(wired))))
            }
        }
    }
}

/// Carries the count to the caller until the caller's flag is set; false: a kernel has ended by itself.
fn watch(context: &Context, running: &Launched, counts: &Counts, shutdown: u64, stats: u64) -> bool {
    let mut before = 0;
    loop {
        if running.has_ended() {
            return false;
        }
        let count = counts.dispatched();
        if count != before {
            // SAFETY: the contract of `cudaq_dispatcher_set_control`: 8 bytes that the device sees.
            let _ = unsafe { context.write_foreign(stats, &count.to_ne_bytes()) };
            before = count;
        }
        let mut flag = [0; 4];
        // SAFETY: as above: an int that the device sees.
        let read = unsafe { context.read_foreign(shutdown, &mut flag) };
        if read.is_err() || flag != [0; 4] {
            return true;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// What went wrong, in words, if anything did. `busy` are handlers that do not return, `full` how often the send queue was full.
fn words(
    failed: Option<&DeviceError>,
    busy: &[String],
    dead: Option<Syndrome>,
    [unsent, full]: [u64; 2],
    was_stopped: bool,
) -> Option<String> {
    if let Some(error) = failed {
        let busy = if busy.is_empty() { String::new() } else { format!(" (busy: {})", busy.join(", ")) };
        return Some(format!("the kernel has failed: {error}{busy}"));
    }
    if let Some(syndrome) = dead {
        return Some(format!("the queue pair is in the error state (syndrome {:#04x})", syndrome.0));
    }
    if unsent > 0 {
        return Some(format!(
            "{unsent} answers that the adapter has not sent within the stop; the send queue was full {full} times"
        ));
    }
    (!was_stopped).then(|| "the kernel has ended by itself".to_owned())
}

/// The same of the unified kernel.
fn failure(report: &UnifiedReport, was_stopped: bool, full: u64) -> Option<String> {
    let busy: Vec<_> =
        report.stuck.iter().map(|stuck| format!("{} in slot {}", stuck.function, stuck.slot)).collect();
    words(report.failed.as_ref(), &busy, report.dead, [report.unsent, full], was_stopped)
}

/// The same of three kernels. Requests that were not answered are no failure: the next launch serves them.
fn failure_of_three(report: &RelayReport, was_stopped: bool, full: u64) -> Option<String> {
    let dispatcher = &report.dispatcher;
    let busy: Vec<_> = dispatcher
        .stuck
        .iter()
        .map(|busy| format!("{:#010x} in slot {}", busy.function.0, busy.slot))
        .collect();
    let failed = dispatcher.failed.as_ref().or(report.failed.as_ref());
    words(failed, &busy, report.dead, [report.unsent, full], was_stopped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_launch::ring::StopReport;

    fn clean() -> UnifiedReport {
        UnifiedReport {
            drained: 0,
            unsent: 0,
            held: 0,
            dead: None,
            stuck: Vec::new(),
            failed: None,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn what_went_wrong_is_reported() {
        assert_eq!(failure(&clean(), true, 0), None);
        let says = |report: UnifiedReport, words: &str| {
            let why = failure(&report, true, 3).expect("it went wrong");
            assert!(why.contains(words), "{why}");
        };
        says(UnifiedReport { failed: Some(DeviceError::NotEnded(Duration::ZERO)), ..clean() }, "has failed");
        says(UnifiedReport { dead: Some(Syndrome::FLUSHED), ..clean() }, "error state");
        says(UnifiedReport { unsent: 2, ..clean() }, "2 answers");
        says(UnifiedReport { unsent: 2, ..clean() }, "full 3 times");
        assert!(failure(&clean(), false, 0).expect("nobody has told it").contains("by itself"));
    }

    #[test]
    fn what_went_wrong_with_three_is_reported() {
        let dispatcher = StopReport {
            drained: 0,
            refused: 0,
            unanswered: 0,
            stuck: Vec::new(),
            failed: None,
            took: Duration::ZERO,
        };
        let clean = RelayReport {
            dispatcher,
            unanswered: 0,
            unsent: 0,
            dead: None,
            failed: None,
            took: Duration::ZERO,
        };
        assert_eq!(failure_of_three(&clean, true, 0), None);
        assert_eq!(failure_of_three(&RelayReport { unanswered: 3, ..clean.clone() }, true, 0), None);
        let says = |report: &RelayReport, words: &str| {
            let why = failure_of_three(report, true, 3).expect("it went wrong");
            assert!(why.contains(words), "{why}");
        };
        let failed = || Some(DeviceError::NotEnded(Duration::ZERO));
        says(&RelayReport { failed: failed(), ..clean.clone() }, "has failed");
        let dispatcher = StopReport { failed: failed(), ..clean.dispatcher.clone() };
        says(&RelayReport { dispatcher, ..clean.clone() }, "has failed");
        says(&RelayReport { dead: Some(Syndrome::FLUSHED), ..clean.clone() }, "error state");
        says(&RelayReport { unsent: 2, ..clean.clone() }, "2 answers");
        assert!(failure_of_three(&clean, false, 0).expect("nobody has told it").contains("by itself"));
    }
}
