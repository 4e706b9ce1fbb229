//! Linked dispatchers: kernels that a program has linked with its handlers, on the program's own ring.
//!
//! The kernels are the usual dispatch kernels. The host has no view of the ring, so a stop cannot answer requests
//! that the kernel left.

#![allow(unsafe_code)] // named for it: a caller's addresses become parameters of a kernel

use super::index::{Clash, chain, index};
use super::launch::Launcher;
use super::modules::{Modules, addresses};
use super::resources::{self, Loaded, check_shape, option_bits, polling_blocks, shared_memory};
use super::unified::LoadedTable;
use super::{
    DeviceDispatcher, DeviceError, DeviceRing, DispatcherOptions, Footprint, KernelKind, LaunchStats,
    Triggers, Wired,
};
use core::sync::atomic::Ordering;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeferFrees, DeviceBuffer, Kernel, MappedRegion, Stream};
use ringcall_dispatcher::ring::grid::GridChannel;
use ringcall_dispatcher::ring::{Partition, staging_bytes};
use ringcall_dispatcher::shared_layout::Needs;
use ringcall_gpu::shared::Words;
use ringcall_protocol::Geometry;
use ringcall_protocol::table::{Cell, IdIndex, IndexError};
use ringcall_wire::Counter;
use ringcall_wire::launch::{DeviceEntry, DispatchParams, HandlerKind, control, saved};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A caller's ring, as the device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedRing {
    /// Request flags.
    pub rx_flags: u64,
    /// Response flags.
    pub tx_flags: u64,
    /// Request slots.
    pub rx_data: u64,
    /// Response slots.
    pub tx_data: u64,
    /// Address of request slot 0 as a producer may write it into flags, if it differs from `rx_data`; else `rx_data`.
    pub rx_peer: u64,
    /// How many slots.
    pub slots: u32,
    /// Bytes of a request slot.
    pub rx_stride: u32,
    /// Bytes of a response slot.
    pub tx_stride: u32,
}

/// A caller's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedFunction {
    /// Its id.
    pub id: u32,
    /// Its address in the module of the calling kernel, or for a graph the handle of its executable.
    pub address: u64,
    /// Payload bytes that its schema requires; `None`: any length.
    pub arg_bytes: Option<u32>,
    /// How it is called: `Thread`, `Warp`, `Grid`, `Graph`, or `Elsewhere`.
    pub kind: HandlerKind,
    /// The routing key, among several graphs with one id: the first eight bytes of the graph's requests. 0 for the
    /// only graph.
    pub routing_key: u64,
}

/// A caller's graphs and their context.
///
/// Their executables were instantiated for device launch and uploaded. One launch at a time uses the context; a graph
/// answers through the context and then does not use it again. The request of a graph that ends without an answer is
/// answered `LAUNCH_FAILED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkedGraphs {
    /// Address of the [`context`](ringcall_wire::launch::context) through which the graphs find their requests; 0 if
    /// no graph answers requests.
    pub context: u64,
    /// The executable that is launched when a handler returns the trigger marker
    /// ([`GRAPH_TRIGGER`](ringcall_wire::flag::GRAPH_TRIGGER)) as its status; 0 for none. The handler's request is
    /// answered `OK`, and no other request is served before the graph has ended. Handlers are called one at a time,
    /// since each may trigger the graph.
    pub trigger: u64,
}

/// How long a graph may take to answer. After that the dispatcher serves no other request until the graph has ended.
const ANSWERS_WITHIN_MS: u64 = 1000;

/// A linked dispatch kernel with its memory. Its owner launches it.
#[derive(Debug)]
pub struct LinkedDispatcher {
    context: Arc<Context>,
    launcher: Launcher,
    control: Words,
    blocks: usize,
    /// The barrier of a cooperative grid.
    channel: Option<DeviceBuffer>,
    _memory: (MappedRegion, Vec<DeviceBuffer>),
}

impl LinkedDispatcher {
    /// Links the kernel of `kind` with modules that define `symbols` and loads it, for programs that hold their
    /// handlers as data. Returns the kernel, which keeps everything loaded, and the symbols' addresses.
    ///
    /// # Errors
    /// The modules do not link. The error names a symbol that no module defines.
    pub fn load(
        context: &Arc<Context>,
        modules: &Modules,
        kind: KernelKind,
        symbols: &[&str],
    ) -> Result<(Kernel, Vec<u64>), DeviceError> {
        let module = modules.load(context, kind, symbols)?;
        Ok((module.kernel(kind.entry())?, addresses(&module, symbols)?))
    }

    /// Allocates everything for `kernel`, the entry point that `chosen` names.
    ///
    /// # Safety
    /// Until the kernel and everything that it launched have ended, the ring is mapped into the device; each function
    /// is a function of the kernel's module with the handlers' signature, or an executable that the device can launch;
    /// the trigger graph is such an executable; and the context is memory that the device can write.
    ///
    /// # Errors
    /// An impossible ring, two functions with one id, graphs for a kernel that launches none or without a context, a kernel
    /// that does not fit the device, no memory.
    pub unsafe fn new(
        context: &Arc<Context>,
        kernel: Kernel,
        ring: LinkedRing,
        functions: &[LinkedFunction],
        graphs: LinkedGraphs,
        chosen: DispatcherOptions,
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        let kind = chosen.kernel;
        check_shape(kind, ring.slots)?;
        check_kernel(functions, graphs, &chosen)?;
        let LinkedRing { slots, rx_stride, tx_stride, .. } = ring;
        Geometry::new(slots, rx_stride, tx_stride, ring.rx_data, ring.rx_peer, ring.tx_data)?;
        let (entries, cells, index) = lay_out(functions, graphs.trigger)?;
        let staging = staging_bytes(rx_stride.max(tx_stride));
        let needs = |shared_staging| Needs {
            slots: Partition::of(slots, 0, polling_blocks(kind)).count,
            cells: cells.len() as u32,
            entries: entries.len() as u32,
            workers: kind.workers(),
            staging_bytes: staging,
            shared_staging,
        };
        let cooperative = matches!(kind, KernelKind::Cooperative { .. });
        let (in_shared, shared) = shared_memory(&chosen, context.device().max_shared_per_block()?, needs);
        let mut memory = Vec::new();
        let mut zeroed = |bytes: usize| -> Result<u64, CudaError> {
            let buffer = DeviceBuffer::zeroed(context, bytes.max(16))?;
            let address = buffer.address().0;
            memory.push(buffer);
            Ok(address)
        };
        let blocks = kind.blocks() as usize;
        let saved = zeroed(blocks * saved::WORDS * 8)?;
        let limit = ANSWERS_WITHIN_MS * u64::from(context.device().clock_khz()?.max(1));
        for (word, value) in [(saved::CONTEXT, graphs.context), (saved::LIMIT, limit)] {
            // SAFETY: a word of the memory just made, which no kernel uses yet.
            unsafe { context.write_foreign(saved + word as u64 * 8, &value.to_le_bytes()) }?;
        }
        let bytes = polling_blocks(kind) as usize * kind.workers() as usize * 2 * staging as usize;
        let scratch = if in_shared { 0 } else { zeroed(bytes)? };
        let channel =
            if cooperative { Some(DeviceBuffer::zeroed(context, GridChannel::BYTES)?) } else { None };
        let region = MappedRegion::zeroed(context, blocks * control::WORDS * 8)?;
        let mut upload = |bytes: &[u8]| -> Result<u64, CudaError> {
            let buffer = DeviceBuffer::zeroed(context, bytes.len().max(16))?;
            buffer.write_from(0, bytes)?;
            let address = buffer.address().0;
            memory.push(buffer);
            Ok(address)
        };
        let (entries_at, cells_at) = (upload(entries.as_bytes())?, upload(cells.as_bytes())?);
        let (multiplier, shift) = index.parts();
        let params = DispatchParams {
            rx_flags: ring.rx_flags,
            tx_flags: ring.tx_flags,
            rx_data: ring.rx_data,
            tx_data: ring.tx_data,
            rx_peer: ring.rx_peer,
            entries: entries_at,
            cells: cells_at,
            control: region.device_address(0)?.0,
            saved,
            scratch,
            grid: channel.as_ref().map_or(0, |buffer| buffer.address().0),
            slots,
            rx_stride,
            tx_stride,
            entry_count: entries.len() as u32,
            cell_count: cells.len() as u32,
            multiplier,
            shift,
            options: option_bits(&chosen, &entries),
            staging_bytes: staging,
            sleep_ns: chosen.sleep_ns,
            handler_blocks: 0,
            reserved: 0,
            participant: 0,
        };
        let launcher = Launcher::over(context, kernel, &chosen, shared, &params, stream)?;
        let control = region.words(0, blocks * control::WORDS)?;
        let blocks = polling_blocks(kind) as usize;
        Ok(Self {
            context: Arc::clone(context),
            launcher,
            control,
            blocks,
            channel,
            _memory: (region, memory),
        })
    }

    /// Launches the kernel and returns. No memory of the CUDA context is freed while the returned hold lives: keep
    /// the hold until the kernel has ended.
    ///
    /// # Safety
    /// As for [`new`](Self::new). This object outlives the kernel. The kernel is launched again only after it has
    /// ended: on the stream of the last launch, or after a wait for that stream. ([`has_ended`](Self::has_ended)
    /// reports the blocks that poll; the other blocks of a cooperative grid end after them.)
    ///
    /// # Errors
    /// The driver refuses.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<DeferFrees, DeviceError> {
        // The stop word of the last launch is still set and would stop this launch, too. It is cleared in the
        // stream's order, after the last launch has read it. Before the first launch the word is zero.
        if self.control.load(control::STATE, Ordering::Acquire) != control::STATE_NEW
            && let Some(channel) = &self.channel
        {
            channel.fill_in_order(0, stream)?;
        }
        for block in 0..self.blocks {
            let base = block * control::WORDS;
            self.control.store(base + control::STATE, control::STATE_NEW, Ordering::Relaxed);
            self.control.store(base + control::STOP, control::STOP_NO, Ordering::Release);
        }
        let hold = self.context.hold_frees();
        self.launcher.launch(stream)?;
        Ok(hold)
    }

    /// Tells the kernel to serve the requests in the ring and end.
    pub fn drain(&self) {
        for block in 0..self.blocks {
            self.control.store(
                block * control::WORDS + control::STOP,
                control::STOP_DRAIN,
                Ordering::Release,
            );
        }
    }

    /// Whether every block that polls has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        (0..self.blocks).all(|block| {
            let state = self.control.load(block * control::WORDS + control::STATE, Ordering::Acquire);
            matches!(state, control::STATE_ENDED | control::STATE_FAILED)
        })
    }

    /// One counter, now.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        let word = control::COUNTERS + counter.index();
        (0..self.blocks)
            .map(|block| self.control.load(block * control::WORDS + word, Ordering::Acquire))
            .sum()
    }

    /// Launches that the kernel has made by itself, over all its launches. They are read from mapped memory, also
    /// while the kernel runs or hangs. All zero for a kernel that launches no graphs.
    #[must_use]
    pub fn launches(&self) -> LaunchStats {
        LaunchStats::of(|word| self.control.load(word, Ordering::Acquire))
    }

    /// Counts of the trigger graph, also read from mapped memory. They are up to date at the latest when the
    /// request that triggered the graph is answered, and always describe one launch.
    #[must_use]
    pub fn triggers(&self) -> Triggers {
        Triggers::of(|word| self.control.load(word, Ordering::Acquire))
    }

    /// Resources that the kernel uses on the device.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.launcher.footprint()
    }
}

impl DeviceDispatcher<Wired> {
    /// Allocates everything for `kernel`, which a program has linked with its functions, and for a ring that this library made.
    ///
    /// # Safety
    /// The kernel is the entry point that `chosen` names, of a module that is never unloaded, and each function is one of its module and
    /// of the handlers' signature.
    pub(crate) unsafe fn linked_to(
        ring: DeviceRing,
        kernel: Kernel,
        functions: &[LinkedFunction],
        chosen: DispatcherOptions,
    ) -> Result<Self, DeviceError> {
        let table = unified_table(functions)?;
        check_kernel(functions, LinkedGraphs::default(), &chosen)?;
        let stream = Arc::new(Stream::new(&ring.context)?);
        let loaded = Loaded { kernel, module: None, table, participant: 0, saved: None, shares: false };
        let made = resources::over(ring, loaded, chosen, &stream)?;
        Ok(Self::of(made, stream))
    }
}

/// A table of functions whose addresses are known.
fn lay_out(
    functions: &[LinkedFunction],
    trigger: u64,
) -> Result<(Vec<DeviceEntry>, Vec<Cell>, IdIndex), DeviceError> {
    let mut entries = entries(functions, trigger);
    let heads = chain(&mut entries[..functions.len()], |_, _| true).map_err(|clash| {
        DeviceError::Shape(match clash {
            Clash::Id { first, second, id } => IndexError::Collision { id, first, second }.to_string(),
            Clash::Route { second, key } => {
                format!("entry {second}: another graph of its id has the routing key {key}, too")
            }
        })
    })?;
    let (index, cells) = index(&entries, &heads)?;
    Ok((entries, cells, index))
}

/// The same for kernels between the queues of a NIC, which launch no graphs.
///
/// # Errors
/// Two functions with one id, or one that is not called by a thread or a warp.
pub(crate) fn unified_table(functions: &[LinkedFunction]) -> Result<LoadedTable, DeviceError> {
    let called =
        |function: &&LinkedFunction| matches!(function.kind, HandlerKind::Thread | HandlerKind::Warp);
    if let Some(function) = functions.iter().find(|function| !called(function)) {
        return Err(DeviceError::Shape(format!(
            "function {:#010x} is called by neither a thread nor a warp: no other is served by a program's kernels on queues",
            function.id
        )));
    }
    let (entries, cells, index) = lay_out(functions, 0)?;
    let names = functions.iter().map(|function| (function.id, format!("{:#010x}", function.id))).collect();
    Ok(LoadedTable { entries, cells, index, names, graphs: Vec::new(), execs: 0 })
}

/// The table's entries: the functions, and after them the trigger graph, which is not in the index. Every handler may
/// trigger it.
fn entries(functions: &[LinkedFunction], trigger: u64) -> Vec<DeviceEntry> {
    let last = functions.len() as u32;
    let follow_up = if trigger == 0 { DeviceEntry::NONE } else { last };
    let entry = |function: &LinkedFunction| DeviceEntry {
        address: function.address,
        id: function.id,
        kind: function.kind as u32,
        arg_bytes: function.arg_bytes.unwrap_or(DeviceEntry::NONE),
        follow_up: if function.kind == HandlerKind::Graph { DeviceEntry::NONE } else { follow_up },
        execs: 0,
        io_stride: 0,
        routing_key: function.routing_key,
        next_route: DeviceEntry::NONE,
        reserved: 0,
    };
    let graph =
        LinkedFunction { id: 0, address: trigger, arg_bytes: None, kind: HandlerKind::Graph, routing_key: 0 };
    functions.iter().chain((trigger != 0).then_some(&graph)).map(entry).collect()
}

/// Checks that a program can link this kernel, and that the kernel can launch the given graphs.
fn check_kernel(
    functions: &[LinkedFunction],
    graphs: LinkedGraphs,
    chosen: &DispatcherOptions,
) -> Result<(), DeviceError> {
    let shape = |why: &str| Err(DeviceError::Shape(why.to_owned()));
    if matches!(chosen.kernel, KernelKind::Ahead { .. }) {
        return shape("a program's grid is served by its first block, not by one of its own");
    }
    let serves = functions.iter().any(|function| function.kind == HandlerKind::Graph);
    if !serves && graphs.trigger == 0 {
        return Ok(());
    }
    if !matches!(chosen.kernel, KernelKind::Graph { .. }) {
        return shape("only a dispatch graph launches graphs");
    }
    if serves && graphs.context == 0 {
        return shape("graphs find their requests by a context, and there is none");
    }
    if !graphs.context.is_multiple_of(8) {
        return shape("the graphs' context is not aligned to 8 bytes");
    }
    if serves && chosen.skip_marks {
        return shape("a graph's answer is known by the end of its in-flight mark: marks cannot be left out");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(id: u32, address: u64, routing_key: u64) -> LinkedFunction {
        LinkedFunction { id, address, arg_bytes: None, kind: HandlerKind::Graph, routing_key }
    }

    fn handler(id: u32) -> LinkedFunction {
        LinkedFunction { kind: HandlerKind::Thread, ..graph(id, 0x100, 0) }
    }

    #[test]
    fn every_handler_may_ask_for_the_trigger_graph_and_nobody_else() {
        let functions = [handler(1), graph(2, 0x200, 0)];
        let with = entries(&functions, 0x300);
        assert_eq!(with.len(), 3);
        assert_eq!((with[0].follow_up, with[1].follow_up), (2, DeviceEntry::NONE));
        assert!(!with[0].is_foreign() && with[1].is_foreign() && with[2].is_foreign());
        assert_eq!(with[2].address, 0x300);
        let without = entries(&functions, 0);
        assert_eq!((without.len(), without[0].follow_up), (2, DeviceEntry::NONE));
    }

    #[test]
    fn the_trigger_graph_is_no_function() {
        let functions = [handler(1), graph(2, 0x200, 5), graph(2, 0x208, 6)];
        let mut entries = entries(&functions, 0x300);
        let heads = chain(&mut entries[..3], |_, _| true).expect("distinct routes");
        assert_eq!(heads, [0, 1]);
        assert_eq!(entries[1].next_route, 2);
        let (index, cells) = index(&entries, &heads).expect("two ids");
        let found = |id| index.lookup(&cells, ringcall_wire::function::FunctionId(id));
        assert_eq!((found(1), found(2), found(0)), (Some(0), Some(1), None));
    }

    #[test]
    fn what_clashes_is_named() {
        let clash =
            |functions: &[LinkedFunction]| chain(&mut entries(functions, 0), |_, _| true).unwrap_err();
        assert_eq!(clash(&[handler(7), handler(7)]), Clash::Id { first: 0, second: 1, id: 7 });
        assert_eq!(clash(&[graph(7, 8, 0), handler(7)]), Clash::Id { first: 0, second: 1, id: 7 });
        assert_eq!(clash(&[graph(7, 8, 3), graph(7, 16, 3)]), Clash::Route { second: 1, key: 3 });
    }

    #[test]
    fn graphs_need_a_kernel_that_launches_a_context_and_marks() {
        let functions = [handler(1), graph(2, 0x200, 0)];
        let wired = LinkedGraphs { context: 64, trigger: 0 };
        let launching = DispatcherOptions::new(KernelKind::graph());
        assert!(check_kernel(&functions, wired, &launching).is_ok());
        assert!(check_kernel(&functions, wired, &DispatcherOptions::new(KernelKind::regular())).is_err());
        assert!(check_kernel(&functions, LinkedGraphs::default(), &launching).is_err());
        assert!(check_kernel(&functions, LinkedGraphs { context: 60, trigger: 0 }, &launching).is_err());
        assert!(
            check_kernel(&functions, wired, &DispatcherOptions { skip_marks: true, ..launching }).is_err()
        );
        let trigger = LinkedGraphs { context: 0, trigger: 0x300 };
        assert!(check_kernel(&functions[..1], trigger, &launching).is_ok());
        assert!(
            check_kernel(&functions[..1], trigger, &DispatcherOptions::new(KernelKind::regular())).is_err()
        );
        assert!(
            check_kernel(
                &functions[..1],
                LinkedGraphs::default(),
                &DispatcherOptions::new(KernelKind::regular())
            )
            .is_ok()
        );
    }

    #[test]
    fn a_programs_grid_is_not_served_ahead() {
        let refused = |kernel| {
            check_kernel(&[handler(1)], LinkedGraphs::default(), &DispatcherOptions::new(kernel)).is_err()
        };
        assert!(refused(KernelKind::Ahead { blocks: 2, threads: 64 }));
        assert!(!refused(KernelKind::Cooperative { blocks: 2, threads: 64 }));
    }
}
