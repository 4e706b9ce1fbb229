//! Resources of a dispatch kernel: its memory and its parameters.

use super::functions::Functions;
use super::launch::Launcher;
use super::loaded_graph::{LoadedGraph, fill_addresses};
use super::modules::Modules;
use super::modules::address_in;
use super::unified::LoadedTable;
use super::{DeviceError, DeviceRing, DispatcherOptions, Halt, KernelKind, failure};
use core::sync::atomic::Ordering;
use ringcall::Ring;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, DeviceBuffer, Kernel, MappedRegion, Module, Stream, StreamState};
use ringcall_dispatcher::ring::grid::GridChannel;
use ringcall_dispatcher::ring::{Layout, Partition, staging_bytes};
use ringcall_dispatcher::shared_layout::Needs;
use ringcall_gpu::shared::Words;
use ringcall_wire::Counter;
use ringcall_wire::launch::{DeviceEntry, DispatchParams, HandlerKind, MAX_SLOTS, control, options, saved};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long a kernel may take from its launch to its first poll.
const BEGINS_WITHIN: Duration = Duration::from_secs(1);

/// Memory that a kernel uses while it runs, and the part of it that the host reads.
#[derive(Debug)]
pub(super) struct Resources {
    ring: DeviceRing,
    names: Vec<(u32, String)>,
    shares_ring: bool,
    kernel: KernelKind,
    clock_khz: u32,
    control: Words,
    saved: DeviceBuffer,
    // Kept alive for the kernel.
    _control: MappedRegion,
    _tables: [DeviceBuffer; 2],
    _scratch: Option<DeviceBuffer>,
    channel: Option<DeviceBuffer>,
    _graphs: Vec<LoadedGraph>,
    /// `None`: the program's own.
    _module: Option<Module>,
}

/// A loaded dispatch kernel and its functions.
pub(super) struct Loaded {
    pub(super) kernel: Kernel,
    /// `None`: the program's own, which is never unloaded.
    pub(super) module: Option<Module>,
    pub(super) table: LoadedTable,
    /// Address of the participant function; 0 for none.
    pub(super) participant: u64,
    /// The words of the kernel's graphs, if the table's entries name them already.
    pub(super) saved: Option<DeviceBuffer>,
    /// Whether other dispatchers serve some of the functions.
    pub(super) shares: bool,
}

/// Words that a kernel saves from one launch to the next.
fn saved_words(context: &Arc<Context>, kind: KernelKind) -> Result<DeviceBuffer, DeviceError> {
    Ok(DeviceBuffer::zeroed(context, kind.blocks() as usize * saved::WORDS * 8)?)
}

/// Links and loads the functions and allocates the resources.
pub(super) fn wire(
    ring: DeviceRing,
    functions: &Functions,
    modules: &Modules,
    chosen: DispatcherOptions,
    stream: &Stream,
) -> Result<(Resources, Launcher), DeviceError> {
    let context = &Arc::clone(&ring.context);
    let geometry = ring.geometry;
    let kind = chosen.kernel;
    check_shape(kind, geometry.slots())?;
    let mut table = functions.lay_out(&geometry, kind)?;
    let symbols = functions.symbols();
    let module = modules.load(context, kind, &symbols)?;

    let saved = saved_words(context, kind)?;
    let graphs = fill_addresses(&mut table, functions, &module, &geometry, saved.address().0, stream)?;

    let participant = match functions.participant_of(kind)? {
        Some(symbol) => address_in(&module, &symbols, symbol)?,
        None => 0,
    };
    let names =
        table.entries.iter().zip(&functions.all).map(|(entry, f)| (entry.id, f.name.clone())).collect();
    let execs = graphs.iter().map(LoadedGraph::execs).sum();
    let table =
        LoadedTable { entries: table.entries, cells: table.cells, index: table.index, names, graphs, execs };
    let loaded = Loaded {
        kernel: module.kernel(kind.entry())?,
        module: Some(module),
        table,
        participant,
        saved: Some(saved),
        shares: functions.shares(),
    };
    over(ring, loaded, chosen, stream)
}

/// Allocates the resources for a kernel that is loaded.
pub(super) fn over(
    ring: DeviceRing,
    loaded: Loaded,
    chosen: DispatcherOptions,
    stream: &Stream,
) -> Result<(Resources, Launcher), DeviceError> {
    let context = &Arc::clone(&ring.context);
    let geometry = ring.geometry;
    let kind = chosen.kernel;
    check_shape(kind, geometry.slots())?;
    let Loaded { kernel, module, table, participant, saved, shares } = loaded;
    let saved = match saved {
        Some(saved) => saved,
        None => saved_words(context, kind)?,
    };
    let blocks = kind.blocks() as usize;
    let staging = staging_bytes(geometry.rx_stride().max(geometry.tx_stride()));
    let needs = |shared_staging| Needs {
        slots: Partition::of(geometry.slots(), 0, polling_blocks(kind)).count,
        cells: table.cells.len() as u32,
        entries: table.entries.len() as u32,
        workers: kind.workers(),
        staging_bytes: staging,
        shared_staging,
    };
    let (in_shared, shared) = shared_memory(&chosen, context.device().max_shared_per_block()?, needs);
    let scratch = if in_shared {
        None
    } else {
        let bytes = polling_blocks(kind) as usize * kind.workers() as usize * 2 * staging as usize;
        Some(DeviceBuffer::zeroed(context, bytes)?)
    };
    let channel =
        if kind.is_grid() { Some(DeviceBuffer::zeroed(context, GridChannel::BYTES)?) } else { None };
    let control_region = MappedRegion::zeroed(context, blocks * control::WORDS * 8)?;
    let upload = |bytes: &[u8]| -> Result<DeviceBuffer, DeviceError> {
        let buffer = DeviceBuffer::zeroed(context, bytes.len().max(16))?;
        buffer.write_from(0, bytes)?;
        Ok(buffer)
    };
    let (entries, cells) = (upload(table.entries.as_bytes())?, upload(table.cells.as_bytes())?);
    let (multiplier, shift) = table.index.parts();
    let addresses = ring.addresses;
    let params = DispatchParams {
        rx_flags: addresses.rx_flags,
        tx_flags: addresses.tx_flags,
        rx_data: addresses.rx_data,
        tx_data: addresses.tx_data,
        rx_peer: ring.rx_peer,
        entries: entries.address().0,
        cells: cells.address().0,
        control: control_region.device_address(0)?.0,
        saved: saved.address().0,
        scratch: scratch.as_ref().map_or(0, |buffer| buffer.address().0),
        grid: channel.as_ref().map_or(0, |buffer| buffer.address().0),
        slots: geometry.slots(),
        rx_stride: geometry.rx_stride(),
        tx_stride: geometry.tx_stride(),
        entry_count: table.entries.len() as u32,
        cell_count: table.cells.len() as u32,
        multiplier,
        shift,
        options: option_bits(&chosen, &table.entries),
        staging_bytes: staging,
        sleep_ns: chosen.sleep_ns,
        handler_blocks: if matches!(kind, KernelKind::Ahead { .. }) { kind.blocks() } else { 0 },
        reserved: 0,
        participant,
    };
    let launcher = Launcher::over(context, kernel, &chosen, shared, &params, stream)?;
    let resources = Resources {
        ring,
        names: table.names,
        shares_ring: chosen.shared_ring || shares,
        kernel: kind,
        clock_khz: context.device().clock_khz()?.max(1),
        control: control_region.words(0, blocks * control::WORDS)?,
        saved,
        _control: control_region,
        _tables: [entries, cells],
        _scratch: scratch,
        channel,
        _graphs: table.graphs,
        _module: module,
    };
    Ok((resources, launcher))
}

/// Bytes of shared memory that a block of [`KernelKind::Ahead`] has in addition to the handlers' bytes.
pub const AHEAD_SHARED: u32 = Layout::PARTICIPANT;

/// The option bits of a kernel with these entries: from the options and from the table.
pub(super) fn option_bits(chosen: &DispatcherOptions, entries: &[DeviceEntry]) -> u32 {
    let default_of_several = entries.iter().any(|entry| entry.kind == HandlerKind::OtherDispatcher as u32);
    [
        (chosen.shared_ring, options::SHARED_RING),
        (chosen.skip_marks, options::SKIP_MARKS),
        (chosen.drop_bad_requests, options::DROP_BAD_REQUESTS),
        (chosen.serial_handlers, options::SERIAL_HANDLERS),
        (default_of_several, options::DEFAULT_OF_SEVERAL),
    ]
    .into_iter()
    .filter_map(|(set, bit)| set.then_some(bit))
    .sum()
}

/// The number of blocks that poll: of a cooperative grid only the poller's block.
pub(super) const fn polling_blocks(kind: KernelKind) -> u32 {
    if kind.is_grid() { 1 } else { kind.blocks() }
}

/// Whether the staging buffers are in shared memory, of which a block has at most `most` bytes, and the total bytes
/// of a block, with the handlers' bytes at the end.
pub(super) fn shared_memory(
    chosen: &DispatcherOptions,
    most: u32,
    needs: impl Fn(bool) -> Needs,
) -> (bool, u32) {
    let bytes = |in_shared| {
        let own = Layout::of(needs(in_shared)).shared.bytes;
        match chosen.kernel {
            // One block serves, and other blocks run handlers.
            KernelKind::Ahead { .. } => own.max(AHEAD_SHARED.saturating_add(chosen.handler_shared)),
            _ => own.saturating_add(chosen.handler_shared),
        }
    };
    // Every block of a grid reads the staging buffers.
    let in_shared = !chosen.kernel.is_grid() && bytes(true) <= most;
    (in_shared, bytes(in_shared))
}

/// The counters of an ended kernel and of the graphs that it launched.
fn all_counts(words: &[u64; saved::WORDS]) -> [u64; Counter::COUNT] {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    std::array::from_fn(|index| word(saved::COUNTERS + index).wrapping_add(word(saved::CHILDREN + index)))
}

pub(crate) fn check_shape(kind: KernelKind, slots: u32) -> Result<(), DeviceError> {
    if slots > MAX_SLOTS {
        return Err(DeviceError::TooManySlots { slots });
    }
    let threads = kind.threads();
    if threads == 0 || threads > 1024 || !threads.is_multiple_of(32) || kind.blocks() == 0 {
        let why = format!(
            "a dispatcher has at least one block of 1 to 32 whole warps, not {} of {threads} threads",
            kind.blocks()
        );
        return Err(DeviceError::Shape(why));
    }
    Ok(())
}

impl Halt for Resources {
    fn halt(&self) {
        self.stop(control::STOP_NOW);
    }
}

impl Resources {
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.ring.context
    }

    /// The ring.
    pub(super) fn ring(&self) -> &DeviceRing {
        &self.ring
    }

    /// The host's view of the ring, if it has one.
    pub(super) fn host_ring(&self) -> Option<&Ring> {
        self.ring.host.as_ref()
    }

    /// Whether other dispatchers serve the ring, too.
    pub(super) fn shares_ring(&self) -> bool {
        self.shares_ring
    }

    /// The name of a function by its id.
    pub(super) fn name_of(&self, id: u32) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == id).map(|(_, name)| name.as_str())
    }

    /// Ticks of the device's clock as time, at its highest rate.
    pub(super) fn ticks(&self, ticks: u64) -> Duration {
        Duration::from_nanos((u128::from(ticks) * 1_000_000 / u128::from(self.clock_khz)) as u64)
    }

    /// Blocks that have a control block in use.
    pub(super) fn blocks(&self) -> usize {
        polling_blocks(self.kernel) as usize
    }

    /// Word `word` of block `block`'s control block.
    pub(super) fn read(&self, block: usize, word: usize) -> u64 {
        self.control.load(block * control::WORDS + word, Ordering::Acquire)
    }

    /// Tells every block to stop in this way.
    pub(super) fn stop(&self, how: u64) {
        for block in 0..self.blocks() {
            self.control.store(block * control::WORDS + control::STOP, how, Ordering::Release);
        }
    }

    /// Whether every block has ended.
    pub(super) fn ended(&self) -> bool {
        (0..self.blocks()).all(|block| {
            matches!(self.read(block, control::STATE), control::STATE_ENDED | control::STATE_FAILED)
        })
    }

    /// Why the kernel ended by itself, if it did.
    pub(super) fn failure(&self) -> Option<DeviceError> {
        (0..self.blocks()).find_map(|block| failure(|word| self.read(block, word)))
    }

    /// Adds the counts of graphs that ended after the kernel's last report. Kernel and graphs have ended.
    pub(super) fn count_late(&self) -> Result<(), CudaError> {
        if !matches!(self.kernel, KernelKind::Graph { .. }) {
            return Ok(());
        }
        for block in 0..self.blocks() {
            let mut words = [0_u64; saved::WORDS];
            self.saved.read_into(block * saved::WORDS * 8, words.as_mut_bytes())?;
            for (index, count) in all_counts(&words).into_iter().enumerate() {
                self.control.store(
                    block * control::WORDS + control::COUNTERS + index,
                    count,
                    Ordering::Relaxed,
                );
            }
        }
        Ok(())
    }

    /// Prepares for a launch: counters continue from their last values. Before the first launch there is nothing to
    /// do, and on a device that other kernels occupy nothing can be done, because fills and copies wait for these
    /// kernels.
    pub(super) fn reset(&self) -> Result<(), DeviceError> {
        if (0..self.blocks()).all(|block| self.read(block, control::STATE) == control::STATE_NEW) {
            return Ok(());
        }
        self.saved.fill(0)?;
        for block in 0..self.blocks() {
            let base = block * control::WORDS;
            for index in 0..Counter::COUNT {
                let count = self.read(block, control::COUNTERS + index);
                let at = (block * saved::WORDS + saved::COUNTERS + index) * 8;
                self.saved.write_from(at, &count.to_le_bytes())?;
            }
            for word in control::BUSY..control::WORDS {
                self.control.store(base + word, 0, Ordering::Relaxed);
            }
            self.control.store(base + control::STATE, control::STATE_NEW, Ordering::Relaxed);
            self.control.store(base + control::STOP, control::STOP_NO, Ordering::Release);
        }
        if let Some(channel) = &self.channel {
            channel.fill(0)?;
        }
        Ok(())
    }

    /// Waits until every block polls.
    pub(super) fn await_running(&self, stream: &Stream) -> Result<(), DeviceError> {
        let begin = Instant::now();
        loop {
            let states: Vec<u64> = (0..self.blocks()).map(|block| self.read(block, control::STATE)).collect();
            if states.contains(&control::STATE_FAILED) {
                return Err(DeviceError::Refused);
            }
            if states.iter().all(|&state| state != control::STATE_NEW) {
                return Ok(());
            }
            if let StreamState::Failed(error) = stream.query() {
                return Err(error.into());
            }
            if begin.elapsed() > BEGINS_WITHIN {
                return Err(DeviceError::DidNotBegin(BEGINS_WITHIN));
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_shared_memory_follows_what_the_kernel_needs() {
        let needs = |shared_staging| Needs {
            slots: 16,
            cells: 4,
            entries: 2,
            workers: 7,
            staging_bytes: 4096,
            shared_staging,
        };
        let [without, with] = [false, true].map(|in_shared| Layout::of(needs(in_shared)).shared.bytes);
        assert!(without < with);
        let regular = DispatcherOptions::new(KernelKind::regular());
        assert_eq!(shared_memory(&regular, with, needs), (true, with));
        assert_eq!(shared_memory(&regular, with - 1, needs), (false, without));
        let more = regular.handler_shared(1000);
        assert_eq!(shared_memory(&more, with + 1000, needs), (true, with + 1000));
        assert_eq!(shared_memory(&more, with + 999, needs), (false, without + 1000));
        let grid =
            DispatcherOptions::new(KernelKind::Cooperative { blocks: 2, threads: 64 }).handler_shared(1000);
        assert_eq!(shared_memory(&grid, u32::MAX, needs), (false, without + 1000));
        let ahead = DispatcherOptions::new(KernelKind::Ahead { blocks: 2, threads: 64 });
        assert_eq!(shared_memory(&ahead, u32::MAX, needs), (false, without.max(AHEAD_SHARED)));
        let more = ahead.handler_shared(without);
        assert_eq!(shared_memory(&more, u32::MAX, needs), (false, AHEAD_SHARED + without));
        // A size that no block can have is refused by the launch and does not wrap around.
        assert_eq!(shared_memory(&regular.handler_shared(u32::MAX), with, needs), (false, u32::MAX));
    }

    #[test]
    fn others_functions_set_their_option() {
        let functions = crate::ring::Functions::new().symbol(
            "ours",
            "ours",
            HandlerKind::Thread,
            ringcall_wire::schema::HandlerSchema::new(),
        );
        let geometry = ringcall_protocol::Geometry::new(4, 64, 64, 64, 64, 4096).expect("a ring");
        let kind = KernelKind::regular();
        let bits = |functions: &Functions, chosen: &DispatcherOptions| {
            option_bits(chosen, &functions.lay_out(&geometry, kind).expect("a table").entries)
        };
        let alone = DispatcherOptions::new(kind);
        assert_eq!(bits(&functions, &alone), 0);
        assert_eq!(bits(&functions, &DispatcherOptions { skip_marks: true, ..alone }), options::SKIP_MARKS);
        assert_eq!(
            bits(&functions, &DispatcherOptions { drop_bad_requests: true, ..alone }),
            options::DROP_BAD_REQUESTS
        );
        assert_eq!(bits(&functions, &alone.shared_ring()), options::SHARED_RING);
        let listed = functions.elsewhere("theirs");
        assert_eq!(bits(&listed, &alone), options::DEFAULT_OF_SEVERAL);
        assert_eq!(bits(&listed, &alone.shared_ring()), options::SHARED_RING | options::DEFAULT_OF_SEVERAL);
    }

    #[test]
    fn counts_are_the_kernels_and_its_graphs() {
        let mut words = [u64::MAX; saved::WORDS];
        for index in 0..Counter::COUNT {
            words[saved::COUNTERS + index] = index as u64;
            words[saved::CHILDREN + index] = 100 * index as u64;
        }
        assert_eq!(all_counts(&words), std::array::from_fn(|index| 101 * index as u64));
    }
}
