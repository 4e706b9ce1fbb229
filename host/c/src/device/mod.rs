//! The device path: a launch function on a stream of this library, stopped through the caller's flag.

pub(crate) mod api;
mod code;
mod ledger;
mod lifecycle;
mod linked;
mod watcher;

use crate::config::Config;
use crate::entries::{EntryLayout, Schemas};
use crate::handles::lock;
use crate::layout::{
    DispatchLaunchFn, UnifiedLaunchFnV1, UnifiedLaunchFnV2, cudaStream_t, cudaq_function_table_t,
    cudaq_ringbuffer_t,
};
use crate::status::{Fault, attempt};
pub(crate) use api::not_linked;
pub(crate) use code::Code;
use core::ffi::{c_int, c_void};
use linked::{Asked, Linked, Which};
pub(crate) use linked::{MOST_WARPS, linked_context, linked_functions, linked_kernel};
use ringcall::external::BadRequests;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver, Stream, StreamState};
use ringcall_launch::ring::LinkedGraphs;
use ringcall_wire::status::KernelType;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
pub(crate) use watcher::Watcher;

/// The function that starts a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Launch {
    Ring(DispatchLaunchFn),
    UnifiedV1(UnifiedLaunchFnV1, *mut c_void),
    UnifiedV2(UnifiedLaunchFnV2, *mut c_void),
    /// This library's function, with the program's device code.
    Code,
}

impl Launch {
    pub(crate) const fn is_unified(self) -> bool {
        !matches!(self, Self::Ring(_) | Self::Code)
    }
}

/// The dispatcher to start.
pub(crate) struct Order<'a> {
    pub(crate) config: Config,
    pub(crate) ring: Option<cudaq_ringbuffer_t>,
    pub(crate) table: cudaq_function_table_t,
    pub(crate) layout: EntryLayout,
    pub(crate) schemas: Schemas,
    /// `None`: as the environment says.
    pub(crate) bad_requests: Option<BadRequests>,
    pub(crate) serial_handlers: Option<bool>,
    pub(crate) warps: Option<u32>,
    pub(crate) shutdown: *mut c_int,
    pub(crate) stats: *mut u64,
    pub(crate) launch: Launch,
    pub(crate) code: &'a Code,
    pub(crate) stop: Duration,
}

/// Settings that a dispatcher passes to the launch helpers of this library in addition to their arguments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Beside {
    pub(crate) layout: EntryLayout,
    pub(crate) schemas: Schemas,
    pub(crate) bad_requests: Option<BadRequests>,
    /// `None`: as the environment says.
    pub(crate) serial_handlers: Option<bool>,
    /// The fewest warps of a block; `None`: as the environment says.
    pub(crate) warps: Option<u32>,
    pub(crate) shared: bool,
    pub(crate) skip_marks: bool,
    /// Address of request slot 0 on the host, which flags may hold as well; 0 if unknown.
    pub(crate) rx_host: u64,
    /// Whether a loop on the host is asked for, and no kernel.
    pub(crate) host: bool,
    /// How long a stop may take.
    pub(crate) stop: Duration,
}

impl Beside {
    /// What an order tells.
    pub(crate) fn of(order: &Order<'_>) -> Self {
        let Config { shared, skip_marks, .. } = order.config;
        Self {
            layout: order.layout,
            schemas: order.schemas,
            bad_requests: order.bad_requests,
            serial_handlers: order.serial_handlers,
            warps: order.warps,
            shared,
            skip_marks,
            rx_host: order.ring.map_or(0, |ring| ring.rx_data_host.addr() as u64),
            host: false,
            stop: order.stop,
        }
    }
}

thread_local! {
    static BESIDE: Cell<Beside> = Cell::default();
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
    /// Watchers of launched kernels, while a dispatcher is being started.
    static WATCHERS: RefCell<Option<Vec<Watcher>>> = const { RefCell::new(None) };
}

/// Calls a launch function, and tells it what there is beside its arguments; the watchers of what it has launched, and why it launched
/// nothing, if it said so.
pub(crate) fn call_launch(beside: Beside, launch: impl FnOnce()) -> (Vec<Watcher>, Option<Fault>) {
    BESIDE.set(beside);
    FAULT.set(None);
    WATCHERS.set(Some(Vec::new()));
    launch();
    BESIDE.set(Beside::default());
    (WATCHERS.take().unwrap_or_default(), FAULT.take())
}

/// Calls a transport's launch function.
///
/// # Safety
/// The header's contract of `cudaq_dispatcher_start`, and the launch function's own.
pub(crate) unsafe fn launch_unified(order: &Order<'_>, stream: cudaStream_t) {
    let Order { config, ring, table, shutdown, stats, .. } = order;
    let (entries, count) = (table.entries, table.count as usize);
    match order.launch {
        // SAFETY: the caller's promise.
        Launch::UnifiedV1(launch, ctx) => unsafe { launch(ctx, entries, count, *shutdown, *stats, stream) },
        Launch::UnifiedV2(launch, ctx) => {
            let stride = ring.map_or(config.slot_bytes as usize, |ring| ring.tx_stride_sz);
            // SAFETY: the caller's promise.
            unsafe { launch(ctx, stride, entries, count, *shutdown, *stats, stream) };
        }
        Launch::Ring(_) | Launch::Code => report(Fault::invalid("this launch function is not for UNIFIED")),
    }
}

/// Passes a kernel's watcher to the dispatcher that is being started on this thread, if any.
pub(crate) fn hand_over(watcher: Watcher) {
    WATCHERS.with_borrow_mut(|watchers| watchers.as_mut().map(|watchers| watchers.push(watcher)));
}

/// The settings of the dispatcher that is being started on this thread.
pub(crate) fn beside() -> Beside {
    let beside = BESIDE.get();
    Beside { shared: beside.shared || SHARE.load(Ordering::Relaxed), ..beside }
}

/// `cudaq_dispatch_kernel_set_shared_ring_mode`: for kernels that no dispatcher launches.
static SHARE: AtomicBool = AtomicBool::new(false);

pub(crate) fn share_rings(share: bool) {
    SHARE.store(share, Ordering::Relaxed);
}

/// Launch functions return no value, so the reason of a failed launch is kept here for the dispatcher that called the
/// function.
pub(crate) fn report(fault: Fault) {
    FAULT.set(Some(fault));
}

/// A kernel that runs, or has run.
#[derive(Debug)]
pub(crate) struct DeviceRun {
    context: Arc<Context>,
    stream: Stream,
    shutdown: u64,
    stats: u64,
    stop: Duration,
    /// They access the caller's flag and count until they have ended.
    watchers: Mutex<Vec<Watcher>>,
}

/// The least time that watchers get to notice an end, even if less of the stop time is left.
const NOTICE: Duration = Duration::from_millis(50);

impl DeviceRun {
    /// # Safety
    /// The header's contract of `cudaq_dispatcher_start`, and the launch function's own.
    pub(crate) unsafe fn start(order: &Order<'_>) -> Result<Self, Fault> {
        let context = Driver::load()?.device(order.config.device)?.context()?;
        let stream = Stream::new(&context)?;
        let run = Self {
            shutdown: order.shutdown.addr() as u64,
            stats: order.stats.addr() as u64,
            stop: order.stop,
            watchers: Mutex::default(),
            context,
            stream,
        };
        // SAFETY: the caller's promise: an int that the device sees.
        if unsafe { run.read::<4>(run.shutdown) }? != [0; 4] {
            return Err(Fault::invalid("the shutdown flag is set: clear it before a start"));
        }
        // Counts begin here, before the launch, since the kernel may count at once. SAFETY: the caller's promise: a
        // word that the device sees.
        unsafe { run.context.write_foreign(run.stats, &0_u64.to_ne_bytes()) }?;
        // SAFETY: the caller's promise.
        let (watchers, fault) = call_launch(Beside::of(order), || unsafe { run.launch(order) });
        *lock(&run.watchers) = watchers;
        if let Some(fault) = fault {
            return Err(run.undone(fault));
        }
        match run.stream.query() {
            StreamState::Failed(error) => Err(error.into()),
            StreamState::Ready | StreamState::Busy => Ok(run),
        }
    }

    /// Handles a launch function that reports a fault. It may have launched a kernel before, which must not outlive
    /// the caller's memory, so that kernel is ended. Returns the error.
    fn undone(&self, fault: Fault) -> Fault {
        if self.stream.query() == StreamState::Ready && lock(&self.watchers).is_empty() {
            return fault;
        }
        match self.stop() {
            Ok(_) => {
                // As it was found.
                // SAFETY: the contract of `start`, whose call this is part of.
                let _ = unsafe { self.context.write_foreign(self.shutdown, &0_i32.to_ne_bytes()) };
                fault
            }
            Err(left) => {
                Fault::internal(format!("{}; what was launched before that: {}", fault.why, left.why))
            }
        }
    }

    /// # Safety
    /// As for [`start`](Self::start).
    unsafe fn launch(&self, order: &Order<'_>) {
        let Order { config, ring, table, shutdown, stats, .. } = order;
        let (entries, count, stream) = (table.entries, table.count as usize, self.stream.as_raw());
        match (order.launch, ring) {
            // SAFETY: the caller's promise.
            (Launch::Ring(launch), Some(ring)) => unsafe {
                launch(
                    ring.rx_flags,
                    ring.tx_flags,
                    ring.rx_data,
                    ring.tx_data,
                    ring.rx_stride_sz,
                    ring.tx_stride_sz,
                    entries,
                    count,
                    *shutdown,
                    *stats,
                    config.slots as usize,
                    config.blocks,
                    config.threads,
                    stream,
                );
            },
            (Launch::Code, Some(ring)) => {
                // SAFETY: the caller's promise.
                let launched = attempt(|| unsafe { self.launch_code(order, *ring) });
                if let Err(fault) = launched {
                    report(fault);
                }
            }
            (Launch::Ring(_) | Launch::Code, None) => {
                report(Fault::invalid("cudaq_dispatcher_set_ringbuffer was not called"));
            }
            // SAFETY: the caller's promise.
            (Launch::UnifiedV1(..) | Launch::UnifiedV2(..), _) => unsafe { launch_unified(order, stream) },
        }
    }

    /// # Safety
    /// As for [`start`](Self::start).
    unsafe fn launch_code(&self, order: &Order<'_>, ring: cudaq_ringbuffer_t) -> Result<(), Fault> {
        let Config { device, blocks, threads, slots, kernel, .. } = order.config;
        let which = if kernel == KernelType::Cooperative { Which::Cooperative } else { Which::Regular };
        let asked = Asked {
            ring,
            table: core::ptr::null_mut(),
            count: 0,
            shutdown: order.shutdown,
            stats: order.stats,
            slots: slots as usize,
            blocks,
            threads,
            graphs: LinkedGraphs::default(),
        };
        let device = c_int::try_from(device).map_err(|_| Fault::invalid("there is no such device"))?;
        // SAFETY: the caller's promise.
        let linked = unsafe { Linked::of_code(which, device, order.code, &asked, self.stream.as_raw()) }?;
        // SAFETY: the caller's promise.
        hand_over(unsafe { linked.launch(self.stream.as_raw()) }?);
        Ok(())
    }

    /// # Safety
    /// So many bytes are at `address`.
    unsafe fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], CudaError> {
        let mut bytes = [0; N];
        // SAFETY: the caller's promise.
        unsafe { self.context.read_foreign(address, &mut bytes) }?;
        Ok(bytes)
    }

    /// Sets the flag and waits for the kernel and its watchers. Returns the count and what a watcher found wrong. From
    /// then on the caller's memory is not accessed.
    ///
    /// # Errors
    /// Something has not ended.
    pub(crate) fn stop(&self) -> Result<(u64, Option<Fault>), Fault> {
        let begin = Instant::now();
        // SAFETY: the contract of `start`: the flag stays until a stop has said that all is over.
        unsafe { self.context.write_foreign(self.shutdown, &1_i32.to_ne_bytes()) }?;
        match self.stream.wait(self.stop) {
            Err(CudaError::TimedOut(_)) => {
                return Err(Fault::internal(format!(
                    "the kernel did not end within {:?}: a handler does not return, or the shutdown flag is not the \
                     device's",
                    self.stop
                )));
            }
            Err(error) => return Err(error.into()),
            Ok(()) => (),
        }
        let watchers = lock(&self.watchers);
        for watcher in &*watchers {
            if !watcher.wait(self.stop.saturating_sub(begin.elapsed()).max(NOTICE)) {
                return Err(Fault::internal("the kernel has not ended, or its watcher has not noticed yet"));
            }
        }
        let fault = watchers.iter().find_map(Watcher::fault);
        Ok((self.count()?, fault))
    }

    /// The kernel's count, read past the running kernel.
    ///
    /// # Errors
    /// It has ended by itself, with something to say.
    pub(crate) fn processed(&self) -> Result<u64, Fault> {
        // Held by a stop, which says it.
        let fault =
            self.watchers.try_lock().ok().and_then(|watchers| watchers.iter().find_map(Watcher::fault));
        fault.map_or_else(|| self.count(), Err)
    }

    fn count(&self) -> Result<u64, Fault> {
        // SAFETY: as for `stop`.
        Ok(u64::from_ne_bytes(unsafe { self.read::<8>(self.stats) }?))
    }
}
