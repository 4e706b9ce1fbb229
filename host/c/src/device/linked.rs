//! Linked kernels: a program has linked them with its handlers from the device archive, or they are linked here with
//! the program's device code.
//!
//! The archive, or the linking, provides the kernel. This file does everything else: tables, control words, the
//! launch, and a watcher thread. The thread copies the caller's shutdown flag to the kernel and the kernel's count to
//! the caller's stats, since flag and stats may be in any memory.

use super::code::{Code, CodeFunction};
use super::ledger::{Launching, SelfLaunchStats};
use super::lifecycle::Lifecycle;
use super::watcher::Watcher;
use super::{Beside, beside};
use crate::entries::{Schemas, check_entries, check_table};
use crate::host_loop::bad_requests;
use crate::layout::{cudaStream_t, cudaq_function_table_t, cudaq_ringbuffer_t};
use crate::raw_ring::{View, aligned, check};
use crate::served::{RingId, Served};
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall::external::BadRequests;
use ringcall_cuda::driver::{Context, Driver, Kernel, Module, Stream};
use ringcall_launch::ring::{
    DeviceError, DispatcherOptions, KernelKind, LinkedDispatcher, LinkedFunction, LinkedGraphs, LinkedRing,
};
use ringcall_wire::Counter;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::launch::{HandlerKind, MAX_SLOTS};
use ringcall_wire::status::DispatchMode;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads of a block that the kernels' registers allow, with any handlers.
const MOST_THREADS: u32 = 256;
/// Warps of a block, likewise.
pub(crate) const MOST_WARPS: u32 = MOST_THREADS / 32;
/// Time between two polls of the caller's flag.
const POLL_INTERVAL: Duration = Duration::from_micros(500);
/// How long a watcher may take to notice an end: many polls, even on a busy machine.
const NOTICE: Duration = Duration::from_secs(1);
/// How long to wait for a kernel that was told to end before its memory is kept for good.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Which of the archive's kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Regular,
    Cooperative,
    Graph,
}

impl Which {
    pub(super) fn of(raw: c_int) -> Result<Self, Fault> {
        match raw {
            0 => Ok(Self::Regular),
            1 => Ok(Self::Cooperative),
            2 => Ok(Self::Graph),
            _ => Err(Fault::invalid(format!("there is no kernel {raw}"))),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Regular => "ringcall_dispatch",
            Self::Cooperative => "ringcall_dispatch_grid",
            Self::Graph => "ringcall_dispatch_graph",
        }
    }

    /// How its kernel calls handlers.
    const fn calls(self) -> HandlerKind {
        match self {
            Self::Cooperative => HandlerKind::Grid,
            Self::Regular | Self::Graph => HandlerKind::Thread,
        }
    }

    /// The kernel's shape for the caller's request. Single threads call the handlers of the regular kernels, so fewer
    /// threads than requested serve as well; a cooperative handler relies on its number of threads. With a trigger
    /// graph one warp serves, because handlers that trigger the graph share state with it and were written for a
    /// dispatcher that calls handlers one after the other.
    fn kind(self, blocks: u32, threads: u32, graphs: LinkedGraphs) -> Result<KernelKind, Fault> {
        let warps = threads.clamp(32, MOST_THREADS).div_ceil(32);
        let whole = threads.is_multiple_of(32) && (32..=MOST_THREADS).contains(&threads);
        match self {
            Self::Regular => Ok(KernelKind::Regular { blocks, warps }),
            Self::Graph if blocks == 1 && graphs.trigger != 0 => Ok(KernelKind::Graph { warps: 2 }),
            Self::Graph if blocks == 1 => Ok(KernelKind::Graph { warps }),
            Self::Graph => Err(Fault::invalid(format!("a dispatch graph has one block, not {blocks}"))),
            Self::Cooperative if whole => Ok(KernelKind::Cooperative { blocks, threads }),
            Self::Cooperative => Err(Fault::invalid(format!(
                "{threads} threads a block: a cooperative grid has whole warps, {MOST_THREADS} threads at most"
            ))),
        }
    }
}

/// The arguments of a launch function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) ring: cudaq_ringbuffer_t,
    pub(super) table: *mut FunctionEntry,
    pub(super) count: usize,
    pub(super) shutdown: *mut c_int,
    pub(super) stats: *mut u64,
    pub(super) slots: usize,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Of a dispatch graph.
    pub(super) graphs: LinkedGraphs,
}

impl Asked {
    fn slots(&self) -> Result<u32, Fault> {
        u32::try_from(self.slots).ok().filter(|&slots| slots <= MAX_SLOTS).ok_or_else(|| {
            Fault::invalid(format!("num_slots is {}: a kernel polls {MAX_SLOTS} at most", self.slots))
        })
    }

    fn check(&self) -> Result<(), Fault> {
        check(&self.ring, View::Device, self.slots()?, 0)?;
        aligned(self.shutdown.cast_const(), 4, "the shutdown flag")?;
        aligned(self.stats.cast_const(), 8, "stats")?;
        if self.graphs.context == 0 {
            return Ok(());
        }
        aligned(core::ptr::without_provenance::<u64>(self.graphs.context as usize), 8, "graph_io_ctx")
    }
}

/// A kernel with its memory. Its watcher knows whether it runs.
#[derive(Debug)]
pub(super) struct Linked {
    context: Arc<Context>,
    dispatcher: Arc<LinkedDispatcher>,
    ring: RingId,
    /// The functions that it serves.
    functions: Vec<u32>,
    shutdown: u64,
    stats: u64,
    /// Of what [`relaunch`](Self::relaunch) launches.
    cycle: Lifecycle<Watcher>,
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Cuda(error) => error.into(),
            other => Self::invalid(other.to_string()),
        }
    }
}

/// The device on which the archive's kernels are loaded: the device of the calling thread's context, which is its
/// primary context.
fn context(device: c_int) -> Result<Arc<Context>, Fault> {
    let device = u32::try_from(device).map_err(|_| Fault::invalid(format!("there is no device {device}")))?;
    Ok(Driver::load()?.device(device)?.context()?)
}

/// # Safety
/// `function` is the archive's kernel, loaded on `context`'s device.
unsafe fn kernel(context: &Arc<Context>, which: Which, function: *mut c_void) -> Result<Kernel, Fault> {
    // SAFETY: the caller's promise.
    unsafe { linked_kernel(context, function, which.name()) }
}

/// The device that the archive's kernels are loaded on.
pub(crate) fn linked_context(device: c_int) -> Result<Arc<Context>, Fault> {
    context(device)
}

/// The archive's kernel `name`.
///
/// # Safety
/// `function` is that kernel, loaded on `context`'s device.
pub(crate) unsafe fn linked_kernel(
    context: &Arc<Context>,
    function: *mut c_void,
    name: &'static str,
) -> Result<Kernel, Fault> {
    if function.is_null() {
        return Err(Fault::invalid("the kernel is null"));
    }
    // SAFETY: the caller's promise; a program's kernels are never unloaded.
    Ok(unsafe { Module::foreign_kernel(context, function, name) }?)
}

/// The functions of a table, wherever it lies, that kernels on queues call.
///
/// # Safety
/// `count` entries are there.
pub(crate) unsafe fn linked_functions(
    context: &Context,
    table: *mut FunctionEntry,
    count: usize,
) -> Result<Vec<LinkedFunction>, Fault> {
    // SAFETY: the caller's promise.
    unsafe { functions(context, table, count, Which::Regular) }
}

impl Linked {
    /// # Safety
    /// The header's contract of the launch helpers; `function` as for [`kernel`].
    pub(super) unsafe fn new(
        which: Which,
        device: c_int,
        function: *mut c_void,
        asked: &Asked,
        stream: cudaStream_t,
    ) -> Result<Self, Fault> {
        asked.check()?;
        let context = context(device)?;
        // SAFETY: the caller's promise.
        let kernel = unsafe { kernel(&context, which, function) }?;
        // SAFETY: the caller's promise.
        let functions = unsafe { functions(&context, asked.table, asked.count, which) }?;
        let trigger =
            (asked.graphs.trigger != 0).then_some(("the trigger graph".to_owned(), asked.graphs.trigger));
        let graphs = functions.iter().filter(|function| function.kind == HandlerKind::Graph);
        let graphs = graphs.map(|graph| (format!("the graph of function {:#010x}", graph.id), graph.address));
        for (what, exec) in graphs.chain(trigger) {
            // SAFETY: the caller's promise: a live executable graph.
            let launchable =
                unsafe { context.is_device_launchable(core::ptr::without_provenance_mut(exec as usize)) }?;
            if !launchable {
                return Err(Fault::invalid(format!(
                    "{what} was not instantiated with cudaGraphInstantiateFlagDeviceLaunch"
                )));
            }
        }
        // SAFETY: the caller's promise.
        unsafe { Self::over(context, which, kernel, &functions, asked, stream) }
    }

    /// Links a program's modules with the kernel and allocates memory for their functions.
    ///
    /// # Safety
    /// The header's contract of `ringcall_dispatcher_add_function`.
    pub(super) unsafe fn of_code(
        which: Which,
        device: c_int,
        code: &Code,
        asked: &Asked,
        stream: cudaStream_t,
    ) -> Result<Self, Fault> {
        asked.check()?;
        let context = context(device)?;
        let mut symbols: Vec<&str> = code.functions.iter().map(|f| f.symbol.as_str()).collect();
        symbols.sort_unstable();
        symbols.dedup();
        let kind = which.kind(asked.blocks.max(1), asked.threads, asked.graphs)?;
        let (kernel, addresses) = LinkedDispatcher::load(&context, &code.modules, kind, &symbols)?;
        let address_of = |symbol: &str| {
            let index = symbols.binary_search(&symbol).ok()?;
            addresses.get(index).copied().filter(|&address| address != 0)
        };
        let function = |f: &CodeFunction| {
            let address = address_of(&f.symbol)
                .ok_or_else(|| Fault::internal(format!("`{}` was linked to no address", f.symbol)))?;
            let malformed = |error| Fault::invalid(format!("the schema of `{}`: {error}", f.symbol));
            let (arg_bytes, kind) = (f.schema.arg_len().map_err(malformed)?, which.calls());
            Ok(LinkedFunction { id: f.id, address, arg_bytes, kind, routing_key: 0 })
        };
        let functions = code.functions.iter().map(function).collect::<Result<Vec<_>, Fault>>()?;
        // SAFETY: the functions are the kernel's module's, which the kernel keeps; else the caller's promise.
        unsafe { Self::over(context, which, kernel, &functions, asked, stream) }
    }

    /// # Safety
    /// As for [`new`](Self::new); the functions are of the kernel's module.
    unsafe fn over(
        context: Arc<Context>,
        which: Which,
        kernel: Kernel,
        functions: &[LinkedFunction],
        asked: &Asked,
        stream: cudaStream_t,
    ) -> Result<Self, Fault> {
        let beside = beside();
        let kind = which.kind(asked.blocks.max(1), asked.threads, asked.graphs)?;
        let kind = at_least(kind, warps(beside.warps)?, asked.graphs);
        let rx_data = asked.ring.rx_data.addr() as u64;
        let ring = LinkedRing {
            rx_flags: asked.ring.rx_flags.addr() as u64,
            tx_flags: asked.ring.tx_flags.addr() as u64,
            rx_data,
            tx_data: asked.ring.tx_data.addr() as u64,
            rx_peer: if beside.rx_host == 0 { rx_data } else { beside.rx_host },
            slots: asked.slots()?,
            rx_stride: asked.ring.rx_stride_sz as u32,
            tx_stride: asked.ring.tx_stride_sz as u32,
        };
        let options = DispatcherOptions {
            shared_ring: beside.shared,
            skip_marks: beside.skip_marks,
            drop_bad_requests: bad_requests(beside.bad_requests)? == BadRequests::Drop,
            serial_handlers: serial_handlers(beside.serial_handlers)?,
            ..DispatcherOptions::new(kind)
        };
        // SAFETY: the caller's stream, which is used here alone.
        let stream = unsafe { Stream::borrowed(&context, stream) };
        // SAFETY: the caller's promise.
        let dispatcher = unsafe {
            LinkedDispatcher::new(&context, kernel, ring, functions, asked.graphs, options, &stream)
        }?;
        let served = functions.iter().filter(|function| function.kind != HandlerKind::OtherDispatcher);
        Ok(Self {
            context,
            dispatcher: Arc::new(dispatcher),
            ring: RingId::of(&asked.ring),
            functions: served.map(|function| function.id).collect(),
            shutdown: asked.shutdown.addr() as u64,
            stats: asked.stats.addr() as u64,
            cycle: Lifecycle::new("dispatch graph"),
        })
    }

    /// Launches the kernel. A thread watches it until its end.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(super) unsafe fn launch(&self, stream: cudaStream_t) -> Result<Watcher, Fault> {
        let (context, shutdown, stats) = (Arc::clone(&self.context), self.shutdown, self.stats);
        let served = self.serve()?;
        let launch = || {
            // SAFETY: the caller's stream, which is used here alone.
            let stream = unsafe { Stream::borrowed(&self.context, stream) };
            // SAFETY: the caller's promise; the watcher keeps the dispatcher until the kernel has ended.
            let hold = unsafe { self.dispatcher.launch(&stream) }?;
            Ok((hold, Arc::clone(&self.dispatcher), served))
        };
        let thread = std::thread::Builder::new().name("ringcall-watch".to_owned());
        Watcher::launch(thread, launch, move |(hold, dispatcher, served)| {
            let ended = watch(&context, &dispatcher, shutdown, stats);
            if ended {
                drop((hold, dispatcher, served));
            } else {
                // The kernel may still write: its memory is kept until the process ends, and its functions
                // are not served by another.
                std::mem::forget((hold, dispatcher, served));
            }
            Ok(())
        })
    }

    /// Registers the served functions. Waits for the watcher of an earlier kernel, which may not have noticed the
    /// kernel's end yet.
    fn serve(&self) -> Result<Arc<Served>, Fault> {
        let begin = Instant::now();
        loop {
            match Served::begin(self.ring, "a kernel", self.functions.iter().copied()) {
                Err(_) if begin.elapsed() < NOTICE => std::thread::sleep(POLL_INTERVAL),
                outcome => return outcome,
            }
        }
    }

    /// Launches a kernel that does not run, was not ended, and is not being launched by another thread.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub(super) unsafe fn relaunch(&self, stream: cudaStream_t) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        self.cycle.launch(|watcher| self.is_over(watcher), || unsafe { self.launch(stream) })
    }

    /// Ends a kernel that does not run: no thread can launch it any more. Waits for a launch in progress.
    pub(super) fn end(&self) -> Result<(), Fault> {
        self.cycle.end(NOTICE, |watcher| self.is_over(watcher))
    }

    /// Whether the launched kernel has ended. Waits until the watcher of an ended kernel has noticed the end.
    fn is_over(&self, watcher: &Watcher) -> bool {
        if self.dispatcher.has_ended() {
            let _ = watcher.wait(NOTICE);
        }
        // The watcher holds the other reference; a watcher that gave up has leaked it.
        Arc::strong_count(&self.dispatcher) == 1
    }
}

impl Launching for Linked {
    fn device(&self) -> u32 {
        self.context.device().ordinal()
    }

    fn so_far(&self) -> SelfLaunchStats {
        SelfLaunchStats::new(self.dispatcher.launches().relaunches, self.dispatcher.triggers())
    }
}

/// Copies flag and count between the caller and the kernel until the kernel has ended. Returns whether it has.
fn watch(context: &Context, dispatcher: &LinkedDispatcher, shutdown: u64, stats: u64) -> bool {
    let mut stopped_at = None;
    let mut before = 0;
    loop {
        // Checked first, since counts after the end are final.
        let ended = dispatcher.has_ended();
        let count = dispatcher.count(Counter::Dispatched);
        if count != before {
            // SAFETY: the contract of `cudaq_dispatcher_set_control`: 8 bytes that the device sees.
            let _ = unsafe { context.write_foreign(stats, &count.to_ne_bytes()) };
            before = count;
        }
        if ended {
            return true;
        }
        let mut flag = [0; 4];
        // SAFETY: as above: an int that the device sees.
        let read = unsafe { context.read_foreign(shutdown, &mut flag) };
        if stopped_at.is_none() && (read.is_err() || flag != [0; 4]) {
            dispatcher.drain();
            stopped_at = Some(Instant::now());
        }
        if stopped_at.is_some_and(|stopped_at: Instant| stopped_at.elapsed() > TIMEOUT) {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Reads the table from any memory.
///
/// # Safety
/// `count` entries are there.
unsafe fn functions(
    context: &Context,
    entries: *mut FunctionEntry,
    count: usize,
    which: Which,
) -> Result<Vec<LinkedFunction>, Fault> {
    let Beside { layout, schemas, shared, .. } = beside();
    check_table(&cudaq_function_table_t { entries, count: u32::try_from(count).unwrap_or(u32::MAX) })?;
    let mut bytes = vec![0; count * layout.bytes()];
    // SAFETY: the caller's promise.
    unsafe { context.read_foreign(entries.addr() as u64, &mut bytes) }?;
    table(layout.parse_all(&bytes)?, schemas, which, shared)
}

/// A kernel's functions from a table's entries. On a shared ring another dispatcher serves the other functions.
fn table(
    mut entries: Vec<FunctionEntry>,
    schemas: Schemas,
    which: Which,
    shared: bool,
) -> Result<Vec<LinkedFunction>, Fault> {
    check_entries(&mut entries, schemas)?;
    let function = |(index, entry): (usize, &FunctionEntry)| {
        let kind = match entry.mode() {
            Ok(DispatchMode::DeviceCall) => which.calls(),
            // On a shared ring another dispatcher launches graphs: its mark on a reused slot would be taken for this
            // dispatcher's mark.
            Ok(DispatchMode::GraphLaunch) if which == Which::Graph && !shared => HandlerKind::Graph,
            _ if shared => HandlerKind::OtherDispatcher,
            Ok(DispatchMode::GraphLaunch) => {
                return Err(Fault::unsupported(format!(
                    "entry {index} is a GRAPH_LAUNCH: a dispatch graph (cudaq_create_dispatch_graph_regular) launches graphs \
                     from the device, the host path from the host"
                )));
            }
            _ => {
                return Err(Fault::unsupported(format!("entry {index} is for the host: no kernel calls it")));
            }
        };
        Ok(LinkedFunction {
            id: entry.function_id,
            address: entry.handler,
            arg_bytes: entry
                .schema
                .arg_len()
                .map_err(|error| Fault::invalid(format!("entry {index}: {error}")))?,
            kind,
            routing_key: if kind == HandlerKind::Graph { entry.routing_key } else { 0 },
        })
    };
    let mut functions = entries.iter().enumerate().map(function).collect::<Result<Vec<_>, _>>()?;
    // Several graphs of one function count as one function of another dispatcher.
    let mut of_others = BTreeSet::new();
    functions
        .retain(|function| function.kind != HandlerKind::OtherDispatcher || of_others.insert(function.id));
    Ok(functions)
}

/// Blocks of a kernel that fit a multiprocessor.
///
/// # Safety
/// `function` as for [`kernel`].
pub(super) unsafe fn occupancy(
    which: Which,
    device: c_int,
    function: *mut c_void,
    threads: u32,
) -> Result<u32, Fault> {
    let context = context(device)?;
    // SAFETY: the caller's promise.
    let kernel = unsafe { kernel(&context, which, function) }?;
    let threads = if which == Which::Cooperative { threads } else { threads.clamp(32, MOST_THREADS) };
    Ok(kernel.occupancy(threads, 0)?)
}

/// Names the environment's choice of the fewest warps of a block.
const WARPS: &str = "RINGCALL_WARPS";

/// The fewest warps of a block: the program's choice, else the environment's; 0 for as many as the launch asks for.
///
/// # Errors
/// The environment's value is no number, or more warps than a block has.
fn warps(chosen: Option<u32>) -> Result<u32, Fault> {
    let Some(value) = std::env::var_os(WARPS).filter(|_| chosen.is_none()) else {
        return Ok(chosen.unwrap_or(0));
    };
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|&warps| warps <= MOST_WARPS);
    number.ok_or_else(|| {
        Fault::invalid(format!("{WARPS} is `{}`: take 0 to {MOST_WARPS}", value.to_string_lossy()))
    })
}

/// A kernel whose warps serve each on their own, with no fewer of them than `fewest`. A trigger graph has one warp that serves, and a
/// grid has the threads that its handlers rely on.
fn at_least(kind: KernelKind, fewest: u32, graphs: LinkedGraphs) -> KernelKind {
    match kind {
        KernelKind::Regular { blocks, warps } => KernelKind::Regular { blocks, warps: warps.max(fewest) },
        KernelKind::Graph { warps } if graphs.trigger == 0 => KernelKind::Graph { warps: warps.max(fewest) },
        other => other,
    }
}

/// Names the environment's choice of [`DispatcherOptions::serial_handlers`]: `0` or `1`.
const SERIAL_HANDLERS: &str = "RINGCALL_SERIAL_HANDLERS";

/// Whether handlers are called one at a time: the program's choice, else the environment's.
///
/// # Errors
/// The environment's value is neither 0 nor 1.
fn serial_handlers(chosen: Option<bool>) -> Result<bool, Fault> {
    match (chosen, std::env::var_os(SERIAL_HANDLERS)) {
        (Some(chosen), _) => Ok(chosen),
        (None, None) => Ok(false),
        (None, Some(value)) if value == "0" || value == "1" => Ok(value == "1"),
        (None, Some(value)) => {
            Err(Fault::invalid(format!("{SERIAL_HANDLERS} is `{}`: take 0 or 1", value.to_string_lossy())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::attempt;
    use ringcall_wire::TypeDesc;
    use ringcall_wire::function::FunctionId;
    use ringcall_wire::schema::HandlerSchema;
    use ringcall_wire::status::CudaqStatus;

    fn entry(id: u32, mode: DispatchMode, routing_key: u64) -> FunctionEntry {
        let mut entry = FunctionEntry::new(FunctionId(id), mode, HandlerSchema::new(), 0x1000);
        entry.routing_key = routing_key;
        entry
    }

    fn kinds(entries: &[FunctionEntry], which: Which, shared: bool) -> Option<Vec<(HandlerKind, u64)>> {
        let functions = table(entries.to_vec(), Schemas::Ignored, which, shared).ok()?;
        Some(functions.iter().map(|function| (function.kind, function.routing_key)).collect())
    }

    #[test]
    fn graphs_are_for_the_dispatch_graph() {
        let entries = [entry(1, DispatchMode::DeviceCall, 0), entry(2, DispatchMode::GraphLaunch, 0)];
        let served = [(HandlerKind::Thread, 0), (HandlerKind::Graph, 0)];
        assert_eq!(kinds(&entries, Which::Graph, false).as_deref(), Some(&served[..]));
        for which in [Which::Regular, Which::Cooperative] {
            assert_eq!(kinds(&entries, which, false), None);
        }
        for which in [Which::Regular, Which::Cooperative, Which::Graph] {
            let kinds = kinds(&entries, which, true).expect("the graph is another dispatcher's");
            assert_eq!(kinds[1].0, HandlerKind::OtherDispatcher);
        }
    }

    #[test]
    fn a_lone_graphs_routing_key_is_whatever_was_there() {
        let lone = [entry(1, DispatchMode::GraphLaunch, 77)];
        assert_eq!(kinds(&lone, Which::Graph, false).as_deref(), Some(&[(HandlerKind::Graph, 0)][..]));
        let two = [entry(1, DispatchMode::GraphLaunch, 77), entry(1, DispatchMode::GraphLaunch, 78)];
        let keys = [(HandlerKind::Graph, 77), (HandlerKind::Graph, 78)];
        assert_eq!(kinds(&two, Which::Graph, false).as_deref(), Some(&keys[..]));
        assert_eq!(kinds(&two, Which::Regular, true).map(|kinds| kinds.len()), Some(1));
    }

    #[test]
    fn a_schema_binds_only_where_it_is_checked() {
        let sixteen = HandlerSchema::new().arg(TypeDesc::array_uint8(16));
        let unwritten = HandlerSchema { num_args: 0xA5, ..HandlerSchema::new() };
        let arg_bytes = |schema, schemas| {
            let mut entry = entry(1, DispatchMode::DeviceCall, 0);
            entry.schema = schema;
            table(vec![entry], schemas, Which::Regular, false).ok().map(|functions| functions[0].arg_bytes)
        };
        assert_eq!(arg_bytes(sixteen, Schemas::Ignored), Some(None));
        assert_eq!(arg_bytes(unwritten, Schemas::Ignored), Some(None));
        assert_eq!(arg_bytes(sixteen, Schemas::Checked), Some(Some(16)));
        assert_eq!(arg_bytes(unwritten, Schemas::Checked), None);
    }

    #[test]
    fn what_no_kernel_can_serve_is_refused() {
        let mut null = entry(1, DispatchMode::GraphLaunch, 0);
        null.handler = 0;
        let mut unknown = entry(1, DispatchMode::DeviceCall, 0);
        unknown.dispatch_mode = 9;
        let host = entry(1, DispatchMode::HostCall, 0);
        for (bad, status) in [
            (null, CudaqStatus::InvalidArg),
            (unknown, CudaqStatus::InvalidArg),
            (host, CudaqStatus::Unsupported),
        ] {
            let fault =
                attempt(|| table(vec![bad], Schemas::Ignored, Which::Graph, false)).expect_err("refused");
            assert_eq!(fault.status, status, "{bad:?}");
        }
        assert_eq!(
            kinds(&[host], Which::Graph, true).map(|kinds| kinds[0].0),
            Some(HandlerKind::OtherDispatcher)
        );
    }

    #[test]
    fn a_ring_with_more_slots_than_a_kernel_polls_is_refused() {
        let ring = cudaq_ringbuffer_t {
            rx_flags: core::ptr::null_mut(),
            tx_flags: core::ptr::null_mut(),
            rx_data: core::ptr::null_mut(),
            tx_data: core::ptr::null_mut(),
            rx_stride_sz: 64,
            tx_stride_sz: 64,
            rx_flags_host: core::ptr::null_mut(),
            tx_flags_host: core::ptr::null_mut(),
            rx_data_host: core::ptr::null_mut(),
            tx_data_host: core::ptr::null_mut(),
        };
        let asked = |slots| Asked {
            ring,
            table: core::ptr::null_mut(),
            count: 0,
            shutdown: core::ptr::null_mut(),
            stats: core::ptr::null_mut(),
            slots,
            blocks: 1,
            threads: 32,
            graphs: LinkedGraphs::default(),
        };
        assert_eq!(asked(4096).slots().ok(), Some(4096));
        for slots in [4097, 1 << 20, usize::MAX] {
            let fault = asked(slots).check().expect_err("refused");
            assert_eq!(fault.status, CudaqStatus::InvalidArg, "{slots}");
            assert!(fault.why.contains("4096 at most"), "{}", fault.why);
        }
    }

    #[test]
    fn a_block_has_no_fewer_warps_than_were_set() {
        let (none, trigger) = (LinkedGraphs::default(), LinkedGraphs { context: 0, trigger: 1 });
        let regular = |warps| KernelKind::Regular { blocks: 2, warps };
        assert_eq!(at_least(regular(1), 0, none), regular(1));
        assert_eq!(at_least(regular(1), 8, none), regular(8));
        assert_eq!(at_least(regular(8), 4, none), regular(8));
        let graph = |warps| KernelKind::Graph { warps };
        assert_eq!(at_least(graph(1), 4, none), graph(4));
        assert_eq!(at_least(graph(2), 8, trigger), graph(2));
        let grid = KernelKind::Cooperative { blocks: 2, threads: 64 };
        assert_eq!(at_least(grid, 8, none), grid);
        assert_eq!(warps(Some(4)).map_err(|_| ()), Ok(4), "whatever the environment says");
    }

    #[test]
    fn beside_a_trigger_graph_one_warp_serves() {
        let shape = |graphs| Which::Graph.kind(1, 256, graphs).map_err(|_| ());
        assert_eq!(shape(LinkedGraphs::default()), Ok(KernelKind::Graph { warps: 8 }));
        let trigger = LinkedGraphs { context: 0, trigger: 1 };
        assert_eq!(shape(trigger), Ok(KernelKind::Graph { warps: 2 }));
        assert!(Which::Graph.kind(2, 256, trigger).is_err(), "one block");
    }
}
