//! Networks of any depth and width on a device, a launch for each layer; the other side is `kernels-cu/layers/layers.cu`.

use crate::predecoder::Wiring;
use crate::predecoder::layer::DOUBLED;
use crate::predecoder::loaded::{GpuError, Wired};
use crate::predecoder::network::{INPUTS, Layers, Network, TAPS};
use half::f16;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{
    Context, DeviceAddress, DeviceBuffer, Graph, Kernel, KernelArgs, Launch, Linker, Module, NodeId,
};
use std::sync::Arc;
use zerocopy::{Immutable, IntoBytes};

const PTX: &str = include_str!("../../../../kernels-cu/ptx/layers.ptx");
const VOLUME: &str = "ringcall_layers_volume";
const NARROW: &str = "ringcall_layers_narrow";
const WIDE: &str = "ringcall_layers_wide";
const LAST: &str = "ringcall_layers_last";

/// Threads of a block.
const THREADS: u32 = 256;
/// Channels of a product: its rows, and as many to sum over at once.
const TILE: usize = 16;
/// Hidden channels are padded with zeros to whole blocks of the narrow kernel.
const BLOCK: usize = 32;
/// Positions of a block of any kernel divide this.
const POSITIONS: u32 = 64;
/// Positions from which on blocks of 64 channels and 64 positions are enough to fill a device.
const MANY: u32 = 2048;

/// One kernel: 16 `channels` tiles and so many positions a block, and the bytes of shared memory that its sums take.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    kernel: &'static str,
    channels: usize,
    positions: u32,
    shares: u32,
}

const NARROW_TILING: Tiling = Tiling { kernel: NARROW, channels: 32, positions: 32, shares: 8 };
const WIDE_TILING: Tiling = Tiling { kernel: WIDE, channels: 64, positions: 64, shares: 4 };
const LAST_TILING: Tiling = Tiling { kernel: LAST, channels: 16, positions: 32, shares: 8 };

impl Tiling {
    /// `[shares][positions][channels + 4]` floats.
    const fn shared(self) -> u32 {
        self.shares * self.positions * (self.channels as u32 + 4) * 4
    }

    const fn launch(self, count: u32, outputs: usize) -> Launch {
        Launch {
            grid: [count.div_ceil(self.positions), (outputs / self.channels) as u32, 1],
            block: [THREADS, 1, 1],
            dynamic_shared: self.shared(),
            cooperative: false,
            cluster: 1,
        }
    }
}

/// Parameters of a layer's kernel.
#[derive(Debug, Clone, Copy, Default, IntoBytes, Immutable)]
#[repr(C)]
struct Params {
    input: u64,
    output: u64,
    weights: u64,
    scales: u64,
    cells: u64,
    logits: u64,
    left: u64,
    flips: u64,
    width: u32,
    plane: u32,
    pad: u32,
    count: u32,
    cell_count: u32,
    inputs: u32,
    outputs: u32,
    integer: u32,
    threshold: f32,
    bit_count: u32,
}

/// One layer on a device.
#[derive(Debug, Clone, Copy)]
struct OnDevice {
    weights: u64,
    scales: u64,
    /// Multiples of 16.
    inputs: usize,
    outputs: usize,
    tiling: Tiling,
}

/// A network on a device, for one volume.
#[derive(Debug)]
pub(crate) struct Layered {
    module: Module,
    layers: Vec<OnDevice>,
    tables: [Arc<DeviceBuffer>; 3],
    pub(crate) wired: Option<Wired>,
    params: Params,
    /// The representation of 1 in the first layer's input.
    one: f32,
}

/// One run's tensors between the layers, and the nodes that work on them.
#[derive(Debug)]
pub(crate) struct LayersRun {
    nodes: Vec<(Kernel, Launch, KernelArgs)>,
    _activations: Vec<DeviceBuffer>,
    _tables: [Arc<DeviceBuffer>; 3],
}

impl Layered {
    /// Puts a network on a device, for `layers` layers of `d` by `d` cells, which a wiring must be for, too.
    pub(crate) fn new(
        network: &Network,
        context: &Arc<Context>,
        [d, layers]: [u32; 2],
        wiring: Option<&Wiring>,
    ) -> Result<Self, GpuError> {
        let too_large = || GpuError::TooLarge { d, layers, multiprocessors: 0 };
        let volume = Volume::of(d, layers).ok_or_else(too_large)?;
        let image =
            Linker::new(context.device().capability()).ptx("the layers' kernels", PTX)?.link(context)?;
        let module = Module::load(context, &image)?;
        let upload = |bytes: &[u8]| {
            let buffer = DeviceBuffer::zeroed(context, bytes.len().max(8))?;
            buffer.write_from(0, bytes)?;
            Ok::<_, GpuError>(Arc::new(buffer))
        };
        let packed = Packed::new(network);
        let weights = upload(&packed.bytes)?;
        let cells = upload(volume.cells(wiring).as_bytes())?;
        let flips = upload(wiring.map_or(&[][..], Wiring::flips).as_bytes())?;
        let base = weights.address().0;
        let layers = packed.layers.iter().enumerate().map(|(index, layer)| {
            let tiling = if index + 1 == packed.layers.len() {
                LAST_TILING
            } else if layer.outputs.is_multiple_of(WIDE_TILING.channels) && volume.count >= MANY {
                WIDE_TILING
            } else {
                NARROW_TILING
            };
            OnDevice {
                weights: base + layer.weights as u64,
                scales: base + layer.scales as u64,
                inputs: layer.inputs,
                outputs: layer.outputs,
                tiling,
            }
        });
        let params = Params {
            cells: cells.address().0,
            flips: flips.address().0,
            width: volume.width,
            plane: volume.width * volume.width,
            pad: volume.pad,
            count: volume.count,
            cell_count: volume.cell_count,
            integer: u32::from(packed.integer),
            threshold: wiring.map_or(0.0, |wiring| wiring.threshold),
            bit_count: wiring.map_or(0, Wiring::bits),
            ..Params::default()
        };
        let wired = wiring.map(|wiring| Wired {
            request_bytes: wiring.request_bytes(),
            answer_bytes: wiring.answer_bytes(),
        });
        Ok(Self {
            layers: layers.collect(),
            module,
            tables: [weights, cells, flips],
            wired,
            params,
            one: if packed.integer { f32::from(DOUBLED) } else { 1.0 },
        })
    }

    /// A run between two tensors: volume and logits, or bits and the bits left.
    pub(crate) fn run(
        &self,
        context: &Arc<Context>,
        [from, to]: [DeviceAddress; 2],
    ) -> Result<LayersRun, CudaError> {
        let Params { pad, count, cell_count, bit_count, .. } = self.params;
        let rows = (2 * pad + count.next_multiple_of(POSITIONS)) as usize;
        // Zero to begin with: the borders stay so.
        let activations = self
            .layers
            .iter()
            .map(|layer| DeviceBuffer::zeroed(context, rows * layer.inputs * size_of::<f16>()))
            .collect::<Result<Vec<_>, _>>()?;
        let at = |index: usize| activations.get(index).map_or(0, |buffer| buffer.address().0);
        let mut nodes = Vec::with_capacity(self.layers.len() + 1);
        let [volume, request, left] = match self.wired {
            Some(_) => [0, from.0, to.0],
            None => [from.0, 0, 0],
        };
        let threads = count.max((bit_count / 8 + 1).div_ceil(4));
        let args = KernelArgs::new()
            .u64(volume)
            .u64(request)
            .u64(at(0))
            .u64(self.params.cells)
            .u64(left)
            .u32(pad)
            .u32(count)
            .u32(cell_count)
            .u32(bit_count)
            .bytes(&self.one.to_le_bytes());
        let first = self.module.kernel(VOLUME)?;
        nodes.push((first, Launch::linear(threads.div_ceil(THREADS), THREADS), args));
        for (index, layer) in self.layers.iter().enumerate() {
            let OnDevice { weights, scales, inputs, outputs, tiling } = *layer;
            let last = index + 1 == self.layers.len();
            let kernel = self.module.kernel(tiling.kernel)?;
            kernel.set_dynamic_shared(tiling.shared())?;
            let params = Params {
                input: at(index),
                output: at(index + 1),
                weights,
                scales,
                logits: if last && self.wired.is_none() { to.0 } else { 0 },
                left: if last { left } else { 0 },
                inputs: inputs as u32,
                outputs: outputs as u32,
                ..self.params
            };
            nodes.push((kernel, tiling.launch(count, outputs), KernelArgs::new().bytes(params.as_bytes())));
        }
        Ok(LayersRun { nodes, _activations: activations, _tables: self.tables.each_ref().map(Arc::clone) })
    }
}

impl LayersRun {
    /// Adds the nodes to a graph, after the nodes `after`; the last of them.
    pub(crate) fn add_to(&self, graph: &mut Graph, after: &[NodeId]) -> Result<NodeId, CudaError> {
        let mut last = None;
        for (kernel, launch, args) in &self.nodes {
            let before = last.map(|node| [node]);
            last = Some(graph.add_kernel(
                kernel,
                launch,
                args,
                before.as_ref().map_or(after, |one| &one[..]),
            )?);
        }
        last.ok_or_else(|| CudaError::Graph("a network without layers".to_owned()))
    }
}

/// The padded grid that positions are numbered through.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Volume {
    d: u32,
    width: u32,
    /// Positions.
    count: u32,
    cell_count: u32,
    /// Rows before the first position, and after the last.
    pad: u32,
}

/// What the kernels know of a position.
#[derive(Debug, Clone, Copy, PartialEq, IntoBytes, Immutable)]
#[repr(C)]
struct Cell {
    cell: u32,
    maps: [u16; 2],
    bits: [u32; 2],
}

impl Volume {
    /// The most positions: of more, numbers of rows and channels together would not fit 32 bits.
    const MOST: u32 = 1 << 20;

    fn of(d: u32, layers: u32) -> Option<Self> {
        let width = d.checked_add(1)?;
        let plane = width.checked_mul(width)?;
        let count = plane.checked_mul(layers)?;
        let fits = d > 0 && layers > 0 && count <= Self::MOST && plane <= Self::MOST;
        fits.then(|| Self { d, width, count, cell_count: layers * d * d, pad: plane + width + 1 })
    }

    fn cells(&self, wiring: Option<&Wiring>) -> Vec<Cell> {
        let none = Cell { cell: u32::MAX, maps: [0; 2], bits: [u32::MAX; 2] };
        let mut cells = vec![none; self.count as usize];
        let (d, width, cell_count) = (self.d as usize, self.width as usize, self.cell_count as usize);
        for cell in 0..cell_count {
            let (layer, in_layer) = (cell / (d * d), cell % (d * d));
            let map = |at: usize| wiring.map_or(0, |wiring| f16::from_f32(wiring.maps[at]).to_bits());
            cells[(layer * width + in_layer / d) * width + in_layer % d] = Cell {
                cell: cell as u32,
                maps: [map(cell), map(cell_count + cell)],
                bits: wiring.map_or([u32::MAX; 2], |wiring| wiring.cell_bits()[cell]),
            };
        }
        cells
    }
}

/// A network's layers in device memory, each part aligned to 256 bytes.
#[derive(Debug)]
struct Packed {
    bytes: Vec<u8>,
    layers: Vec<PackedLayer>,
    integer: bool,
}

/// Where a layer's parts lie.
#[derive(Debug)]
struct PackedLayer {
    weights: usize,
    scales: usize,
    inputs: usize,
    outputs: usize,
}

impl Packed {
    fn new(network: &Network) -> Self {
        let mut packed =
            Self { bytes: Vec::new(), layers: Vec::new(), integer: network.half_layers().is_empty() };
        let count = network.widths().len();
        let mut from = INPUTS;
        for (index, to) in network.widths().into_iter().enumerate() {
            let inputs = if index == 0 { TILE } else { from.next_multiple_of(BLOCK) };
            let outputs = if index + 1 == count { TILE } else { to.next_multiple_of(BLOCK) };
            let channel = |row: usize, column: usize, tap: usize| (row * from + column) * TAPS + tap;
            let inside = |row: usize, column: usize| row < to && column < from;
            let (weights, factors, offsets) = match &network.layers {
                Layers::Integers(layers) => {
                    let layer = &layers[index];
                    let weights = fragments(inputs, outputs, |row, column, tap| match inside(row, column) {
                        // Whole numbers of at most 10 bits: exact.
                        true => f16::from_f32(f32::from(layer.weights[channel(row, column, tap)])),
                        false => f16::ZERO,
                    });
                    (weights, layer.factors.clone(), layer.offsets.clone())
                }
                Layers::Halves(layers) => {
                    let layer = &layers[index];
                    let weights = fragments(inputs, outputs, |row, column, tap| match inside(row, column) {
                        true => layer.weights[channel(row, column, tap)],
                        false => f16::ZERO,
                    });
                    (weights, vec![1.0; to], layer.biases.clone())
                }
            };
            let scales = [factors, offsets].map(|mut values| {
                values.resize(outputs, 0.0);
                values
            });
            let weights = packed.push(&weights);
            let scales = packed.push(scales.concat().as_bytes());
            packed.layers.push(PackedLayer { weights, scales, inputs, outputs });
            from = to;
        }
        packed
    }

    fn push(&mut self, part: &[u8]) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(256), 0);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(part);
        at
    }
}

/// `[outputs / 16][TAPS][inputs / 16][32 lanes][4 pairs]`: a lane's pairs are of rows 8 apart, and of four channels in that lie side by
/// side.
fn fragments(inputs: usize, outputs: usize, at: impl Fn(usize, usize, usize) -> f16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(inputs * outputs * TAPS * size_of::<f16>());
    for tile in 0..outputs / TILE {
        for tap in 0..TAPS {
            for chunk in 0..inputs / TILE {
                for lane in 0..32 {
                    for pair in 0..4 {
                        let row = tile * TILE + lane / 4 + pair % 2 * 8;
                        let column = chunk * TILE + lane % 4 * 4 + pair / 2 * 2;
                        bytes.extend(at(row, column, tap).to_le_bytes());
                        bytes.extend(at(row, column + 1, tap).to_le_bytes());
                    }
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predecoder::{HalfLayer, Layer};

    #[test]
    fn parameters_are_laid_out_as_the_kernels_read_them() {
        assert_eq!(size_of::<Params>(), 104);
        assert_eq!(size_of::<Cell>(), 16);
        for tiling in [NARROW_TILING, WIDE_TILING, LAST_TILING] {
            assert!(POSITIONS.is_multiple_of(tiling.positions) && tiling.shared() <= 160 << 10);
        }
    }

    #[test]
    fn every_cell_has_a_position_and_borders_have_none() {
        let volume = Volume::of(3, 2).expect("small");
        let cells = volume.cells(None);
        assert_eq!((cells.len(), volume.pad), (32, 16 + 5));
        assert!(cells.iter().map(|cell| cell.cell).filter(|&cell| cell != u32::MAX).eq(0..18));
        // Layer 1, row 2, column 1.
        assert_eq!(cells[16 + 2 * 4 + 1].cell, 16);
        for at in [3, 12, 15, 31] {
            assert_eq!(cells[at].cell, u32::MAX, "{at}");
        }
        assert_eq!((Volume::of(0, 3), Volume::of(3, 0), Volume::of(2000, 2)), (None, None, None));
        assert_eq!(Volume::of(u32::MAX, 1), None);
    }

    #[test]
    fn a_weight_lies_where_the_kernels_look() {
        let layer = |inputs: usize, outputs: usize| Layer {
            weights: vec![0; inputs * outputs * TAPS],
            factors: vec![0.5; outputs],
            offsets: vec![0.25; outputs],
        };
        let mut layers = [layer(4, 40), layer(40, 4)];
        // Channel 37 in to channel 3 out, at tap 20.
        layers[1].weights[(3 * 40 + 37) * TAPS + 20] = -7;
        let packed = Packed::new(&Network::new(layers).expect("a network"));
        let [first, last] = &packed.layers[..] else { panic!("two layers") };
        assert_eq!([first.inputs, first.outputs, last.inputs, last.outputs], [16, 64, 64, 16]);
        let halves: Vec<f16> = packed.bytes[last.weights..last.scales]
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f16::from_le_bytes(*bytes))
            .collect();
        // Channel 37 is the second of the second lane's in the third 16.
        let at = (20 * 4 + 2) * 256 + (3 * 4 + 1) * 8 + 1;
        assert_eq!(halves[at], f16::from_f32(-7.0));
        assert_eq!(halves.iter().filter(|&&half| half != f16::ZERO).count(), 1);
        let scales: Vec<f32> = packed.bytes[first.scales..][..512]
            .as_chunks()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect();
        assert_eq!((scales[39], scales[40], scales[64 + 39], scales[64 + 40]), (0.5, 0.0, 0.25, 0.0));

        let half = |inputs: usize, outputs: usize| HalfLayer {
            weights: vec![f16::ONE; inputs * outputs * TAPS],
            biases: vec![3.0; outputs],
        };
        let packed = Packed::new(&Network::in_halves([half(4, 8), half(8, 4)]).expect("a network"));
        assert!(!packed.integer);
        let scales = &packed.bytes[packed.layers[1].scales..];
        assert_eq!(scales[..4], 1.0_f32.to_le_bytes());
        assert_eq!(scales[64..68], 3.0_f32.to_le_bytes());
    }
}
