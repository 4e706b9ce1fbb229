//! Dispatchers whose kernels a program has linked into itself, or has had linked, with its handlers, and whose ring is that
//! program's.
//!
//! The kernels are the same as everywhere; only the host's view of the ring is missing, so a stop cannot answer what the
//! kernel left.

#![allow(unsafe_code)] // named for it: addresses of somebody else's become parameters of a kernel

use super::launch::Launcher;
use super::modules::{Modules, addresses};
use super::resources::{check_shape, polling_blocks, shared_memory};
use super::{DeviceError, Footprint, KernelKind, Options};
use crate::CudaError;
use crate::driver::{Context, DeviceBuffer, FreeHold, Kernel, MappedRegion, Stream};
use core::sync::atomic::Ordering;
use ringcall_dispatch::Geometry;
use ringcall_dispatch::persistent::cooperative::Rally;
use ringcall_dispatch::persistent::layout::Needs;
use ringcall_dispatch::persistent::{Share, stage_bytes};
use ringcall_dispatch::table::{EMPTY, IdIndex, IndexError};
use ringcall_gpu::shared::Words;
use ringcall_wire::Counter;
use ringcall_wire::launch::{DeviceEntry, DispatchParams, HandlerKind, control, options, saved};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A ring of somebody else's, as the device sees it.
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
    /// Address of request slot 0 as a producer may write it into flags, where that differs; else `rx_data`.
    pub rx_peer: u64,
    /// How many slots.
    pub slots: u32,
    /// Bytes of a request slot.
    pub rx_stride: u32,
    /// Bytes of a response slot.
    pub tx_stride: u32,
}

/// A function of somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedFunction {
    /// Its id.
    pub id: u32,
    /// Its address, in the module of the kernel that calls it.
    pub address: u64,
    /// Payload bytes that its schema demands; `None` for any.
    pub arg_bytes: Option<u32>,
    /// How it is called: `Thread`, `Warp`, `Grid`, or `Elsewhere`.
    pub kind: HandlerKind,
}

/// A dispatch kernel with all that it needs, not launched by itself.
#[derive(Debug)]
pub struct LinkedDispatcher {
    context: Arc<Context>,
    launcher: Launcher,
    control: Words,
    blocks: usize,
    _memory: (MappedRegion, Vec<DeviceBuffer>),
}

impl LinkedDispatcher {
    /// Links the kernel of `kind` with modules that define `symbols`, and loads it: the kernel, which keeps everything loaded,
    /// and the symbols' addresses, for a dispatcher of that kernel. For programs that hold their handlers as data.
    ///
    /// # Errors
    /// They do not link: a symbol that no module defines is named.
    pub fn load(
        context: &Arc<Context>,
        modules: &Modules,
        kind: KernelKind,
        symbols: &[&str],
    ) -> Result<(Kernel, Vec<u64>), DeviceError> {
        let module = modules.load(context, kind, symbols)?;
        Ok((module.kernel(kind.entry())?, addresses(&module, symbols)?))
    }

    /// Lays everything out for `kernel`, which is the entry point that `chosen` names.
    ///
    /// # Safety
    /// The ring is mapped into the device, and each function is one of the kernel's module and of the handlers' signature,
    /// until the kernel has ended.
    ///
    /// # Errors
    /// An impossible ring, two functions with one id, a kernel that does not fit the device, no memory.
    pub unsafe fn new(
        context: &Arc<Context>,
        kernel: Kernel,
        ring: LinkedRing,
        functions: &[LinkedFunction],
        chosen: Options,
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        let kind = chosen.kernel;
        check_shape(kind, ring.slots)?;
        let LinkedRing { slots, rx_stride, tx_stride, .. } = ring;
        Geometry::new(slots, rx_stride, tx_stride, ring.rx_data, ring.rx_peer, ring.tx_data)?;
        let entries: Vec<DeviceEntry> = functions.iter().map(entry).collect();
        let (index, cells) = index(&entries)?;
        let stage = stage_bytes(rx_stride.max(tx_stride));
        let needs = |shared_stages| Needs {
            slots: Share::of(slots, 0, polling_blocks(kind)).count,
            cells: cells.len() as u32,
            entries: entries.len() as u32,
            workers: kind.workers(),
            stage_bytes: stage,
            shared_stages,
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
        let stages = polling_blocks(kind) as usize * kind.workers() as usize * 2 * stage as usize;
        let scratch = if in_shared { 0 } else { zeroed(stages)? };
        let grid = if cooperative { zeroed(Rally::BYTES)? } else { 0 };
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
            grid,
            slots,
            rx_stride,
            tx_stride,
            entry_count: entries.len() as u32,
            cell_count: cells.len() as u32,
            multiplier,
            shift,
            options: if chosen.shared_ring { options::SHARED_RING } else { 0 }
                | if chosen.skip_marks { options::SKIP_MARKS } else { 0 },
            stage_bytes: stage,
            nap_ns: chosen.nap_ns,
        };
        let launcher = Launcher::over(context, kernel, &chosen, shared, &params, stream)?;
        let control = region.words(0, blocks * control::WORDS)?;
        let blocks = polling_blocks(kind) as usize;
        Ok(Self { context: Arc::clone(context), launcher, control, blocks, _memory: (region, memory) })
    }

    /// Launches the kernel, once, and returns. Nothing of the context is freed while the returned hold lives: keep it until
    /// the kernel has ended.
    ///
    /// # Safety
    /// As for [`new`](Self::new). This outlives the kernel, and is not launched again before that has ended.
    ///
    /// # Errors
    /// The driver refuses.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<FreeHold, DeviceError> {
        for block in 0..self.blocks {
            let base = block * control::WORDS;
            self.control.store(base + control::STATE, control::STATE_NEW, Ordering::Relaxed);
            self.control.store(base + control::STOP, control::STOP_NO, Ordering::Release);
        }
        let hold = self.context.hold_frees();
        self.launcher.launch(stream)?;
        Ok(hold)
    }

    /// Tells the kernel to serve what is in the ring and end.
    pub fn drain(&self) {
        for block in 0..self.blocks {
            self.control.store(
                block * control::WORDS + control::STOP,
                control::STOP_DRAIN,
                Ordering::Release,
            );
        }
    }

    /// Whether every block has ended.
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

    /// What the kernel takes of the device.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.launcher.footprint()
    }
}

fn entry(function: &LinkedFunction) -> DeviceEntry {
    DeviceEntry {
        address: function.address,
        id: function.id,
        kind: function.kind as u32,
        arg_bytes: function.arg_bytes.unwrap_or(DeviceEntry::NONE),
        follow_up: DeviceEntry::NONE,
        execs: 0,
        io_stride: 0,
        routing_key: 0,
        next_route: DeviceEntry::NONE,
        reserved: 0,
    }
}

fn index(entries: &[DeviceEntry]) -> Result<(IdIndex, Vec<ringcall_dispatch::table::Cell>), DeviceError> {
    let mut size = IdIndex::cells_for(entries.len());
    loop {
        let mut cells = vec![EMPTY; size];
        match IdIndex::build(entries.len(), |place| entries[place].id, &mut cells) {
            Ok(index) => return Ok((index, cells)),
            Err(IndexError::NoMultiplier) if size < 1 << 24 => size *= 2,
            Err(error) => return Err(DeviceError::Shape(error.to_string())),
        }
    }
}
