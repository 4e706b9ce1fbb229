//! The unified kernel of the device archive, over queues that the device reaches.

use super::Asked;
use super::adapter::{Adapter, Given, QueueMemory};
use super::hold::{Hold, Place, Turn};
use crate::device::{Beside, Watcher, linked_context, linked_functions, linked_kernel};
use crate::handles::lock;
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall_cuda::driver::Context;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_launch::queue_pair::{QueuePair, Running, UnifiedDispatcher, UnifiedReport, UnifiedWatch};
use ringcall_mlx5::Event;
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

/// The kernel, as the archive finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) device: c_int,
    pub(super) function: *mut c_void,
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

/// Launches the kernel, which a thread watches until its end.
///
/// # Safety
/// The header's contract of the launch functions, on the device path; `found` is the program's `ringcall_unified`.
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
    let kernel = unsafe { linked_kernel(&context, found.function) }?;
    let mut turn = hold.begin(&queues)?;
    let (shutdown, stats, stop) = (asked.shutdown.addr() as u64, asked.stats.addr() as u64, beside.stop);
    let device = Arc::clone(&context);
    let launch = move || {
        let place = turn.place();
        let earlier = match &place {
            Some(Place::Device(earlier)) => Some(&**earlier),
            _ => None,
        };
        // SAFETY: the caller's promise; an earlier dispatcher was of the same addresses, as the turn has compared.
        let wired = unsafe { UnifiedDispatcher::linked(&pair, kernel, &functions, WARPS, earlier) };
        let wired = match (wired, place) {
            (Ok(wired), _) => wired,
            (Err(error), Some(place)) => {
                turn.end(Ok(place));
                return Err(error.into());
            }
            (Err(error), None) => return Err(error.into()),
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
    Watcher::launch(thread, launch, move |(turn, running): (Turn, UnifiedDispatcher<Running>)| {
        let told = watch(&device, &running, shutdown, stats);
        let counts = running.watch();
        let stopped = running.stop(stop - stop / LAST_PART);
        // SAFETY: the contract of `cudaq_dispatcher_set_control`: 8 bytes that the device sees, until this thread has ended.
        let _ = unsafe { device.write_foreign(stats, &dispatched(&counts).to_ne_bytes()) };
        let report = &stopped.report;
        let why = failure(report, told, counts.event(Event::TxFull));
        match stopped.dispatcher {
            Some(wired) if report.dead.is_none() => turn.end(Ok(Place::Device(Box::new(wired)))),
            _ => turn.end(Err(why.clone().unwrap_or_else(|| "its kernel has ended".to_owned()))),
        }
        why.map_or(Ok(()), |why| Err(Fault::internal(why)))
    })
}

fn dispatched(counts: &UnifiedWatch) -> u64 {
    counts.counters().get(Counter::Dispatched)
}

/// Carries the count to the caller until the caller's flag is set; false: the kernel has ended by itself.
fn watch(context: &Context, running: &UnifiedDispatcher<Running>, shutdown: u64, stats: u64) -> bool {
    let counts = running.watch();
    let mut before = 0;
    loop {
        if running.has_ended() {
            return false;
        }
        let count = dispatched(&counts);
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

/// What went wrong, in words, if anything did.
fn failure(report: &UnifiedReport, told: bool, full: u64) -> Option<String> {
    if let Some(error) = &report.failed {
        let stuck: Vec<_> =
            report.stuck.iter().map(|stuck| format!("{} in slot {}", stuck.function, stuck.slot)).collect();
        let busy = if stuck.is_empty() { String::new() } else { format!(" (busy: {})", stuck.join(", ")) };
        return Some(format!("the kernel has failed: {error}{busy}"));
    }
    if let Some(syndrome) = report.dead {
        return Some(format!("the queue pair is in the error state (syndrome {:#04x})", syndrome.0));
    }
    if report.unsent > 0 {
        return Some(format!(
            "{} answers that the adapter has not sent within the stop; the send queue was full {full} times",
            report.unsent
        ));
    }
    (!told).then(|| "the kernel has ended by itself".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_launch::ring::DeviceError;
    use ringcall_mlx5::layout::cqe::Syndrome;

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
    fn what_went_wrong_is_told() {
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
}
