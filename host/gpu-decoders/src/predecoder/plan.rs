//! How a network is spread over a device: shapes of the kernel, and what each lays out where. The other side is
//! `kernels-cu/predecoder/shape.cuh`.

use crate::predecoder::network::TAPS;
use crate::predecoder::{OUTPUTS, WIDTH, Wiring};
use half::f16;
use zerocopy::{Immutable, IntoBytes};

/// Bytes of a line of three taps of 64 input channels, for 64 output channels, a byte each.
const LINE: u32 = 2 * 6144;
/// Most stages of the weights' ring.
const MAX_STAGES: u32 = 20;
/// Most tiles, so blocks, of a kernel.
const MAX_TILES: u32 = 132;
/// Lanes of a warp.
const WARP: u32 = 32;
/// 32-bit words of a sector, which each counter has for itself.
const SECTOR: u32 = 8;
/// Before the rings: barriers, and what a handler keeps; then a byte for each of a tile's positions.
const HEAD_BYTES: u32 = 1024;
/// Bytes of a row: 16 channels of a hidden layer, or the halves of two columns of the volume.
const ROW: u32 = 16;
/// Groups of 16 channels in a slab of activations.
const SLAB_GROUPS: u32 = 4;
/// Bytes of the counters.
pub(crate) const SYNC_BYTES: usize = ((4 + 3 * MAX_TILES) * SECTOR * 4) as usize;

/// One compiled shape of the kernel: a cluster of `channel_shares * input_shares` blocks computes a tile of `positions`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub(crate) channel_shares: u32,
    pub(crate) input_shares: u32,
    pub(crate) positions: u32,
    /// PTX as deflated data, which `build.rs` writes.
    deflated: &'static [u8],
}

macro_rules! shape {
    ($cs:literal, $ks:literal, $positions:literal) => {
        Shape {
            channel_shares: $cs,
            input_shares: $ks,
            positions: $positions,
            deflated: include_bytes!(concat!(
                env!("OUT_DIR"),
                "/cs",
                $cs,
                "ks",
                $ks,
                "n",
                $positions,
                ".sm_90a.ptx.deflated"
            )),
        }
    };
}

/// The committed shapes, in the order in which they are tried: most blocks a position first.
pub(crate) const SHAPES: &[Shape] = &[
    shape!(2, 2, 24),
    shape!(2, 2, 48),
    shape!(2, 2, 64),
    shape!(2, 2, 96),
    shape!(2, 1, 96),
    shape!(2, 1, 144),
    shape!(2, 1, 176),
    shape!(1, 1, 256),
];

impl Shape {
    /// The kernel's PTX.
    pub(crate) fn ptx(self) -> String {
        let text = miniz_oxide::inflate::decompress_to_vec(self.deflated).ok();
        text.and_then(|text| String::from_utf8(text).ok()).expect("build.rs deflated a text")
    }

    /// Blocks of a cluster.
    pub(crate) const fn cluster(self) -> u32 {
        self.channel_shares * self.input_shares
    }

    /// Positions of a tile.
    pub(crate) const fn tile(self) -> u32 {
        self.positions
    }

    const fn blocks_of_64(self) -> u32 {
        2 / self.channel_shares
    }

    /// Threads of a block: eight warps that compute, and two that fetch.
    pub(crate) const fn threads(self) -> u32 {
        32 * (8 + 2)
    }

    /// Bytes of a stage of the weights' ring: of 64 output channels the three lines of a layer of time, or of 128 one.
    const fn stage(self) -> u32 {
        let lines = if self.blocks_of_64() == 1 { 3 } else { 1 };
        LINE * lines * self.blocks_of_64()
    }

    /// Whether the first layer is computed where it is needed, borders and all.
    const fn fused(self) -> bool {
        self.input_shares == 2
    }

    /// Positions of the first layer that a block computes, where taps reach `span` positions before and after.
    const fn first_positions(self, span: u32) -> u32 {
        if self.fused() { self.tile() + 2 * span } else { self.tile() }
    }

    /// What the first layer reads: rows, a byte for each that tells cells from borders, and a request of at most two bits a
    /// cell.
    const fn input_bytes(self, span: u32, cells: u32) -> u32 {
        let rows = self.first_positions(span) + 2 * span + 1;
        rows * ROW + rows.next_multiple_of(16) + (2 * cells).div_ceil(8)
    }

    /// Positions that a block finishes of its channels, at most: of the columns of 8 the first half, or the others.
    const fn finished(self) -> u32 {
        let columns = self.tile() / 8;
        8 * (columns - (self.input_shares - 1) * (columns / self.input_shares))
    }

    /// What a block gets of the sums of the cluster's other share of input channels.
    const fn received(self) -> u32 {
        (self.input_shares - 1) * (self.finished() / 8) * 2048
    }

    /// The last hidden layer, as halves.
    const fn last(self) -> u32 {
        self.blocks_of_64() * 64 * self.finished() * 2
    }
}

/// What a device offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Blocks of this many that fit at once.
    pub(crate) multiprocessors: u32,
    /// Shared memory of a block.
    pub(crate) shared: u32,
}

/// A volume of `layers` times `d` by `d` cells, on one shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) shape: Shape,
    pub(crate) d: u32,
    pub(crate) layers: u32,
    pub(crate) tiles: u32,
    pub(crate) pad: u32,
    pub(crate) rows: u32,
    stages: u32,
    slabs: u32,
    slab_rows: u32,
    slab_bytes: u32,
    group_rows: u32,
    off_input: u32,
    off_slabs: u32,
    off_received: u32,
    off_ring: u32,
    pub(crate) shared: u32,
    /// Blocks that fit at once, in clusters as these.
    most: u32,
}

/// Offsets in shared memory are multiples of this.
const fn aligned(bytes: u32) -> u32 {
    bytes.next_multiple_of(128)
}

impl Plan {
    /// The first of `shapes` that fits.
    pub(crate) fn choose(shapes: &[Shape], d: u32, layers: u32, offer: Offer) -> Option<Self> {
        shapes.iter().find_map(|&shape| Self::of(shape, d, layers, offer))
    }

    fn of(shape: Shape, d: u32, layers: u32, offer: Offer) -> Option<Self> {
        let width = d.checked_add(1)?;
        let plane = width.checked_mul(width)?;
        let count = plane.checked_mul(layers)?;
        let tiles = count.div_ceil(shape.tile());
        // Clusters live in parts of the device whose size is no multiple of theirs: measured, 120 of 132.
        let margin = if shape.cluster() > 2 { 12 } else { 0 };
        let most = offer.multiprocessors.saturating_sub(margin);
        if tiles == 0 || tiles > MAX_TILES || tiles * shape.cluster() > most {
            return None;
        }
        let pad = plane + width + 1;
        // A warp asks for the tiles that a tile's taps reach in the layer before and its own, a stream for each.
        if !shape.fused() && (shape.tile() + pad).div_ceil(shape.tile()) + 1 > WARP {
            return None;
        }
        let rows = (2 * pad + tiles * shape.tile() + 16).next_multiple_of(8);
        let slab_rows = shape.tile() + 2 * width + 2;
        let (input, last) = (shape.input_bytes(pad, layers * d * d), shape.last());
        let off_slabs = aligned(HEAD_BYTES + shape.tile());
        let (slabs, group_rows, slab_bytes, off_input, off_received);
        if shape.fused() {
            // Windows of one piece, with the first layer's activations: a layer of time further is a slab further.
            (slabs, group_rows, slab_bytes) = (3, shape.first_positions(pad), plane * ROW);
            // Beside them; finished positions lie over the input, which is not needed by then.
            off_input = aligned(off_slabs + SLAB_GROUPS * group_rows * ROW);
            off_received = aligned(off_input + input.max(last));
        } else {
            slabs = if d <= 25 { 4 } else { 3 };
            group_rows = slab_rows;
            slab_bytes = aligned(SLAB_GROUPS * slab_rows * ROW);
            // In turns at one offset: the input, slabs, finished positions.
            off_input = off_slabs;
            off_received = aligned(off_slabs + (slabs * slab_bytes).max(input).max(last));
        }
        let off_ring = aligned(off_received + shape.received());
        // 128 bytes are for alignment, where a handler's memory begins after other memory.
        let room = offer.shared.checked_sub(off_ring + 128)?;
        let stages = (room / shape.stage()).min(MAX_STAGES);
        if stages < 2 {
            return None;
        }
        let shared = off_ring + stages * shape.stage();
        Some(Self {
            shape,
            d,
            layers,
            tiles,
            pad,
            rows,
            stages,
            slabs,
            slab_rows,
            slab_bytes,
            group_rows,
            off_input,
            off_slabs,
            off_received,
            off_ring,
            shared,
            most,
        })
    }

    /// Blocks of the grid.
    pub(crate) const fn blocks(&self) -> u32 {
        self.tiles * self.shape.cluster()
    }

    /// Whether one more cluster fits beside them.
    pub(crate) const fn leaves_a_cluster(&self) -> bool {
        self.blocks() + self.shape.cluster() <= self.most
    }

    /// Cells of the volume.
    pub(crate) const fn cells(&self) -> usize {
        (self.layers * self.d * self.d) as usize
    }

    /// What the kernel asks for each position, from `2 * pad` before the first to as many after the last: its cell, or all
    /// ones; two halves of the maps; the numbers of its two bits, or all ones. Without a wiring no maps, and no bits.
    pub(crate) fn cells_table(&self, wiring: Option<&Wiring>) -> Vec<u8> {
        let (d, width) = (self.d as usize, self.d as usize + 1);
        let (square, around, cells) = (d * d, 2 * self.pad as usize, self.cells());
        let map = |at: usize| wiring.map_or([0; 2], |w| f16::from_f32(w.maps[at]).to_le_bytes());
        let mut entries = vec![[0xFF; 16]; self.layers as usize * width * width + 2 * around];
        for cell in 0..cells {
            let (layer, in_layer) = (cell / square, cell % square);
            let entry = &mut entries[around + (layer * width + in_layer / d) * width + in_layer % d];
            entry[..4].copy_from_slice(&(cell as u32).to_le_bytes());
            entry[4..8].copy_from_slice([map(cell), map(cells + cell)].as_flattened());
            if let Some(wiring) = wiring {
                entry[8..].copy_from_slice(wiring.cell_bits()[cell].map(u32::to_le_bytes).as_flattened());
            }
        }
        entries.into_flattened()
    }

    /// Bytes of the activations of one layer.
    pub(crate) const fn activation_bytes(&self) -> usize {
        self.rows as usize * WIDTH
    }

    /// Bytes of the last layer's products, of each share of its input channels.
    pub(crate) const fn sum_bytes(&self) -> usize {
        (self.shape.channel_shares * self.rows) as usize * TAPS * OUTPUTS * size_of::<f32>()
    }

    /// The kernel's parameters, addresses apart.
    pub(crate) fn params(&self) -> Params {
        let width = self.d + 1;
        Params {
            d: self.d,
            layers: self.layers,
            width,
            plane: width * width,
            count: self.layers * width * width,
            pad: self.pad,
            rows: self.rows,
            tiles: self.tiles,
            stages: self.stages,
            slabs: self.slabs,
            slab_bytes: self.slab_bytes,
            slab_rows: self.slab_rows,
            group_rows: self.group_rows,
            off_input: self.off_input,
            off_slabs: self.off_slabs,
            off_received: self.off_received,
            off_ring: self.off_ring,
            shared: self.shared,
            ..Params::default()
        }
    }
}

/// `Params` of the kernel: addresses are the device's, 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct Params {
    pub(crate) d: u32,
    pub(crate) layers: u32,
    pub(crate) width: u32,
    pub(crate) plane: u32,
    pub(crate) count: u32,
    pub(crate) pad: u32,
    pub(crate) rows: u32,
    pub(crate) tiles: u32,
    pub(crate) stages: u32,
    pub(crate) slabs: u32,
    pub(crate) slab_bytes: u32,
    pub(crate) slab_rows: u32,
    pub(crate) group_rows: u32,
    pub(crate) off_input: u32,
    pub(crate) off_slabs: u32,
    pub(crate) off_received: u32,
    pub(crate) off_ring: u32,
    pub(crate) shared: u32,
    /// `[4][layers][d][d]` halves.
    pub(crate) input: u64,
    /// A request's bits, tied to the volume by `cells`, which has the maps.
    pub(crate) bits: u64,
    /// `[4][layers][d][d]` floats.
    pub(crate) logits: u64,
    /// What decisions leave of the bits, and the frame, in whole words elsewhere in the device's memory.
    pub(crate) left: u64,
    /// [`Plan::cells_table`].
    pub(crate) cells: u64,
    pub(crate) threshold: f32,
    pub(crate) bit_count: u32,
    /// [`Wiring::flips`].
    pub(crate) flips: u64,
    pub(crate) first: u64,
    pub(crate) middle: u64,
    pub(crate) last: u64,
    /// Of each layer factors, then offsets.
    pub(crate) scales: [u64; 4],
    pub(crate) activations: [u64; 2],
    pub(crate) sums: u64,
    pub(crate) sync: u64,
    pub(crate) failed: u64,
    pub(crate) stamps: u64,
    /// Clock cycles that a wait may take.
    pub(crate) limit: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predecoder::Share;
    use proptest::prelude::*;
    use ringcall_launch::ring::AHEAD_SHARED;

    const H200: Offer = Offer { multiprocessors: 132, shared: 232_448 };

    fn chosen(d: u32, layers: u32) -> Plan {
        Plan::choose(SHAPES, d, layers, H200).unwrap_or_else(|| panic!("none for {d} by {layers}"))
    }

    #[test]
    fn each_shape_has_its_text() {
        for shape in SHAPES {
            let Shape { channel_shares, input_shares, positions, .. } = shape;
            let path = format!(
                "{}/../../kernels-cu/predecoder/ptx/cs{channel_shares}ks{input_shares}n{positions}.sm_90a.ptx",
                env!("CARGO_MANIFEST_DIR")
            );
            let committed = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
            assert!(shape.ptx() == committed, "{path} is not what the shape has");
        }
    }

    #[test]
    fn the_usual_distances_fill_the_device() {
        for (d, layers, blocks) in [
            (7, 7, 76),
            (7, 8, 88),
            (13, 13, 108),
            (13, 14, 116),
            (21, 21, 116),
            (21, 22, 122),
            (31, 31, 124),
        ] {
            assert_eq!(chosen(d, layers).blocks(), blocks, "{d} by {layers}");
        }
        assert!(Plan::choose(SHAPES, 41, 41, H200).is_none());
        assert!(Plan::choose(SHAPES, u32::MAX, 3, H200).is_none());
        assert!(Plan::choose(SHAPES, 13, 13, Offer { shared: 40 << 10, ..H200 }).is_none());
    }

    /// What parts of the device have: blocks of one of so many.
    #[test]
    fn parts_of_a_device_are_filled_too() {
        for (d, layers, parts, shape, blocks, stages, leaves) in [
            (7, 8, 1, [2, 2, 24], 88, 5, true),
            (7, 8, 2, [2, 2, 48], 44, 5, true),
            (7, 8, 3, [2, 2, 64], 32, 5, false),
            (7, 8, 4, [2, 1, 96], 12, 5, true),
            (13, 14, 1, [2, 2, 96], 116, 4, true),
            (13, 14, 2, [2, 1, 96], 58, 5, true),
            (13, 14, 3, [2, 1, 144], 40, 4, true),
            (13, 14, 4, [2, 1, 176], 32, 4, false),
            (21, 22, 1, [2, 1, 176], 122, 4, true),
            (21, 22, 2, [1, 1, 256], 42, 5, true),
            (31, 31, 1, [1, 1, 256], 124, 6, true),
        ] {
            let offer = Offer { multiprocessors: 132 / parts, shared: H200.shared - AHEAD_SHARED };
            let plan = Plan::choose(SHAPES, d, layers, offer).unwrap_or_else(|| panic!("{d} in {parts}"));
            let found = [plan.shape.channel_shares, plan.shape.input_shares, plan.shape.positions];
            assert_eq!(
                (found, plan.blocks(), plan.stages, plan.leaves_a_cluster()),
                (shape, blocks, stages, leaves),
                "{d} by {layers} in {parts}"
            );
            assert!(plan.blocks() * parts <= 132);
        }
        assert!(Plan::choose(SHAPES, 31, 32, Offer { multiprocessors: 66, ..H200 }).is_none());
        assert!(Plan::choose(SHAPES, 3, 3, Offer { multiprocessors: 0, ..H200 }).is_none());
    }

    /// Runs of all parts, and the block of the dispatcher that launches them. That block takes a multiprocessor
    /// from one cluster at most, and clusters of one size fill a part of the device in any order they come.
    #[test]
    fn runs_on_shares_fit_at_once_beside_a_dispatcher() {
        let (mut found, mut most) = (0, 0);
        for (d, layers) in (2..=31).flat_map(|d| [(d, 1), (d, d), (d, d + 1)]) {
            for parts in 1..=16 {
                let share = Share::beside(1).one_of(parts);
                let offer = Offer { multiprocessors: share.multiprocessors(132), ..H200 };
                let Some(plan) = Plan::choose(SHAPES, d, layers, offer) else { continue };
                let cluster = plan.shape.cluster();
                let room = if cluster > 2 { 120 } else { 132 };
                let clusters = room / cluster - 1;
                assert!(
                    plan.tiles * parts <= clusters,
                    "{d} by {layers} in {parts}: {} of {cluster}",
                    plan.tiles
                );
                (found, most) = (found + 1, most.max(parts));
            }
        }
        assert!(found > 300 && most > 4, "{found} plans, in {most} parts at most");
        let quarter = Offer { multiprocessors: Share::beside(1).one_of(4).multiprocessors(132), ..H200 };
        assert!(
            Plan::choose(SHAPES, 7, 8, quarter).is_some() && Plan::choose(SHAPES, 13, 14, quarter).is_some()
        );
        assert_eq!(Share::WHOLE.one_of(0).multiprocessors(132), 0);
        assert_eq!(Share::beside(200).multiprocessors(132), 0);
    }

    #[test]
    fn every_cell_is_in_the_table_once() {
        let plan = chosen(3, 2);
        let input: Vec<f32> = (0..72).map(|i| i as f32).collect();
        // Bits 0 and 1 in both channels of cell 16.
        let wiring = Wiring::new(3, 2, &input, &[16, 18 + 16], |_| [0; 0], &[], 0.0).expect("fits");
        let table = plan.cells_table(Some(&wiring));
        assert_eq!(table.len(), (2 * 16 + 4 * plan.pad as usize) * 16);
        let words: Vec<u32> = table.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
        assert!(words.iter().step_by(4).copied().filter(|&cell| cell != u32::MAX).eq(0..18));
        // Layer 1, row 2, column 1.
        let at = 2 * plan.pad as usize + 16 + 2 * 4 + 1;
        let maps = [36.0 + 16.0, 54.0 + 16.0].map(|v| f16::from_f32(v).to_le_bytes());
        assert_eq!(
            words[4 * at..][..4],
            [16, u32::from_le_bytes(maps.as_flattened().try_into().expect("4")), 0, 1]
        );
        assert_eq!(plan.cells_table(None)[at * 16..][..8], [16, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn nothing_overlaps(d in 2_u32..=60, layers in 1_u32..=32, shape in prop::sample::select(SHAPES)) {
            let Some(plan) = Plan::of(shape, d, layers, H200) else { return Ok(()) };
            prop_assert!(plan.tiles * shape.tile() >= layers * (d + 1) * (d + 1));
            prop_assert!(plan.off_slabs >= HEAD_BYTES + shape.tile());
            for offset in [plan.off_slabs, plan.off_input, plan.off_received, plan.off_ring] {
                prop_assert_eq!(offset % 128, 0);
            }
            // The rows that the taps of the last position reach.
            let last = (plan.slabs - 1) * plan.slab_bytes + 3 * plan.group_rows * 16 + plan.slab_rows * 16;
            let input = plan.off_input + shape.input_bytes(plan.pad, layers * d * d);
            let finished = plan.off_input + shape.last();
            for end in [plan.off_slabs + last, input, finished] {
                prop_assert!(end <= plan.off_received);
            }
            prop_assert!(plan.off_received + shape.received() <= plan.off_ring);
            if shape.fused() {
                // The first layer writes the slabs while it reads its input.
                prop_assert!(plan.off_slabs + last <= plan.off_input);
            }
            // The first layer's products are of so many positions, and read rows after the last as well.
            let chunk = match (shape.fused(), shape.tile()) {
                (true, 24) => 24,
                (true, 48) => 40,
                (true, 64) => 48,
                (true, _) => 64,
                (false, tile) => tile / 2,
            };
            let read = shape.first_positions(plan.pad) + chunk - 1 + 2 * plan.pad + 3;
            prop_assert!(plan.off_input + read * 16 <= plan.shared);
            prop_assert!(plan.stages >= 2 && plan.stages <= MAX_STAGES);
            prop_assert_eq!(plan.off_ring + plan.stages * shape.stage(), plan.shared);
            prop_assert!(plan.shared + 128 <= H200.shared);
            // The tiles that a tile's slabs are of: of a layer of time, of the first up to the tile itself.
            for (tile, dz) in (0..plan.tiles).flat_map(|tile| [(tile, 0), (tile, 1), (tile, 2)]) {
                let (first, plane) = (tile * shape.tile(), (d + 1) * (d + 1));
                let from = i64::from(first) + (dz - 1) * i64::from(plane) - i64::from(d + 2);
                let to = from + i64::from(plan.slab_rows) - 1;
                let own = if dz == 0 { i64::from(first + shape.tile()) - 1 } else { to };
                let tile_of = |at: i64| at.clamp(0, i64::from(layers * plane) - 1) / i64::from(shape.tile());
                prop_assert!(shape.fused() || tile_of(to.max(own)) - tile_of(from) < 32, "{tile}, {dz}");
            }
            // The farthest taps of the last tile stay inside.
            let reach = plan.pad + plan.tiles * shape.tile() + plan.pad;
            prop_assert!(reach <= plan.rows);
            prop_assert_eq!(size_of::<Params>(), 240);
        }
    }
}
