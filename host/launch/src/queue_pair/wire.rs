//! Linking, loading and allocation for a unified kernel before its launch.

use super::{QueuePair, Resources, UnifiedDispatcher, Wired};
use crate::ring::{
    DeviceError, Functions, KernelKind, LoadedTable, Modules, UnifiedKernel, UnifiedLauncher, link_unified,
};
use ringcall_cuda::driver::{Context, DeviceBuffer, Kernel, MappedRegion, Module, Stream};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::queue_pair::{Copying, Plan};
use ringcall_dispatcher::ring::grid::GridChannel;
use ringcall_dispatcher::ring::staging_bytes;
use ringcall_mlx5::endpoint::ResponsePath;
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_protocol::Geometry;
use ringcall_wire::launch::saved;
use ringcall_wire::unified::{UnifiedParams, control, options};
use std::any::Any;
use std::sync::Arc;
use zerocopy::IntoBytes;

fn option_bits(pair: &QueuePair, extent: Extent) -> u32 {
    let when = |condition, bit| if condition { bit } else { 0 };
    let config = &pair.config;
    when(config.record == RecordMode::NotWritten, options::NO_RECORD)
        | when(pair.copying == Copying::Whole, options::BLUE_FLAME)
        | when(pair.copying == Copying::FirstWordLast, options::BLUE_FLAME_FIRST_WORD_LAST)
        | when(matches!(config.buffers, Buffers::Slots { .. }), options::RECEIVE_SENDS)
        | when(config.sequence, options::SEQUENCE)
        | when(matches!(config.reply, ResponsePath::WriteImm { .. }), options::REPLY_WRITE)
        | when(extent == Extent::Slot, options::WHOLE_SLOTS)
}

/// Parameters of a kernel, or of a transport, that describe a queue pair.
pub(crate) fn queue_params(pair: &QueuePair, extent: Extent) -> UnifiedParams {
    let config = &pair.config;
    let (rx_lkey, rx_base) = match config.buffers {
        Buffers::Slots { lkey, base, .. } => (lkey, base),
        Buffers::Credits => (0, 0),
    };
    let (remote, remote_stride) = match config.reply {
        ResponsePath::WriteImm { base, stride } => (Some(base), stride),
        ResponsePath::Send => (None, 0),
    };
    UnifiedParams {
        rx_base,
        tx_base: config.tx_base,
        remote_base: remote.map_or(0, |remote| remote.address),
        qpn: config.qpn,
        depth: config.depth,
        slots: config.slots,
        rx_stride: config.rx_stride,
        tx_stride: config.tx_stride,
        rx_lkey,
        tx_lkey: config.tx_lkey,
        remote_rkey: remote.map_or(0, |remote| remote.rkey),
        remote_stride,
        options: option_bits(pair, extent),
        ..pair.addresses
    }
}

/// Differences between the kinds of unified dispatchers.
pub(super) struct Parts<'a, L> {
    pub(super) context: &'a Arc<Context>,
    pub(super) geometry: Geometry,
    pub(super) kind: KernelKind,
    pub(super) kernel: UnifiedKernel,
    /// Warps that have staging buffers.
    pub(super) warps: u32,
    /// Threads of a block.
    pub(super) threads: u32,
    pub(super) transport: Arc<dyn Any + Send + Sync>,
    /// Bytes of shared memory for this many cells and entries and this size of a staging buffer, with or without the
    /// buffers in shared memory.
    pub(super) layout: L,
}

impl<L: Fn(u32, u32, u32, bool) -> u32> Parts<'_, L> {
    /// Links, loads and allocates. `params` holds the transport's parameters.
    pub(super) fn wire(
        self,
        params: UnifiedParams,
        functions: &Functions,
        modules: &Modules,
    ) -> Result<UnifiedDispatcher<Wired>, DeviceError> {
        let (context, geometry, kind, kernel) = (self.context, self.geometry, self.kind, self.kernel);
        let stream = Arc::new(Stream::new(context)?);
        let graphs = kernel == UnifiedKernel::Graph;
        let saved = if graphs { Some(DeviceBuffer::zeroed(context, saved::WORDS * 8)?) } else { None };
        let at = saved.as_ref().map_or(0, |buffer| buffer.address().0);
        let (table, module) =
            link_unified(context, functions, modules, &geometry, kind, kernel, at, &stream)?;
        let loaded = module.kernel(kernel.entry())?;
        self.over(params, table, loaded, (stream, saved, Some(module)))
    }

    /// Allocates, for a kernel that is loaded and a table of its functions; `kept` is what else was made for it: its stream, the words that
    /// graphs count in, its module where that is not the program's.
    pub(super) fn over(
        self,
        params: UnifiedParams,
        table: LoadedTable,
        loaded: Kernel,
        kept: (Arc<Stream>, Option<DeviceBuffer>, Option<Module>),
    ) -> Result<UnifiedDispatcher<Wired>, DeviceError> {
        let Self { context, geometry, kind, kernel, warps, threads, transport, layout } = self;
        let (stream, saved, module) = kept;
        let zeroed = |wanted: bool, bytes: usize| -> Result<Option<DeviceBuffer>, DeviceError> {
            Ok(if wanted { Some(DeviceBuffer::zeroed(context, bytes)?) } else { None })
        };
        let address = |buffer: &Option<DeviceBuffer>| buffer.as_ref().map_or(0, |buffer| buffer.address().0);
        let graphs = kernel == UnifiedKernel::Graph;
        let grid = kernel == UnifiedKernel::Grid;
        let (rx_stride, tx_stride) = (geometry.rx_stride(), geometry.tx_stride());
        let staging = staging_bytes(rx_stride.max(tx_stride));
        let (cells, entries) = (table.cells.len() as u32, table.entries.len() as u32);
        let most = context.device().max_shared_per_block()?;
        // Every block of a grid reads the staging buffers.
        let in_shared = !grid && layout(cells, entries, staging, true) <= most;
        let shared = layout(cells, entries, staging, in_shared);
        let scratch = zeroed(!in_shared, warps as usize * 2 * staging as usize)?;
        let channel = zeroed(grid, GridChannel::BYTES)?;
        let plan = Plan::new(table.execs, geometry.slots(), rx_stride, tx_stride);
        let pending = zeroed(graphs, plan.words() * 8)?;
        let region = MappedRegion::zeroed(context, control::WORDS * 8)?;
        let upload = |bytes: &[u8]| -> Result<DeviceBuffer, DeviceError> {
            let buffer = DeviceBuffer::zeroed(context, bytes.len().max(16))?;
            buffer.write_from(0, bytes)?;
            Ok(buffer)
        };
        let tables = [upload(table.entries.as_bytes())?, upload(table.cells.as_bytes())?];
        let (multiplier, shift) = table.index.parts();
        let params = UnifiedParams {
            entries: tables[0].address().0,
            cells: tables[1].address().0,
            control: region.device_address(0)?.0,
            scratch: address(&scratch),
            grid: address(&channel),
            saved: address(&saved),
            pending: address(&pending),
            rx_stride,
            tx_stride,
            entry_count: entries,
            cell_count: cells,
            multiplier,
            shift,
            staging_bytes: staging,
            execs: table.execs,
            ..params
        };
        let launcher = UnifiedLauncher::unified(
            context,
            loaded,
            kernel.entry(),
            kind,
            [threads, shared],
            params.as_bytes(),
            &stream,
        )?;
        let resources = Resources {
            context: Arc::clone(context),
            control: region.words(0, control::WORDS)?,
            names: table.names,
            warps,
            channel,
            _transport: transport,
            _control: region,
            _tables: tables,
            _memory: [scratch, saved, pending],
            _graphs: table.graphs,
            _module: module,
        };
        let (resources, launcher) = (Arc::new(resources), Arc::new(launcher));
        Ok(UnifiedDispatcher { resources, launcher, stream, state: Wired(()) })
    }
}
