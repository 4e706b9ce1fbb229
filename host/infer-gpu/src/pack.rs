//! The weights as the kernels read them; the other side is `kernels-cu/predecoder/net.cuh`.

use crate::Network;
use crate::network::{INPUTS, OUTPUTS, TAPS, WIDTH};
use half::f16;

/// The parts of a network in device memory, each aligned to 256 bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: usize,
    pub(crate) middle: usize,
    pub(crate) last: usize,
    pub(crate) biases: [usize; 4],
}

impl Packed {
    pub(crate) fn new(network: &Network) -> Self {
        let layers = network.layers();
        let mut packed = Self { bytes: Vec::new(), first: 0, middle: 0, last: 0, biases: [0; 4] };
        packed.first = packed.push(first(&layers[0].weights));
        packed.middle = packed.push(layers[1..3].iter().flat_map(|layer| middle(&layer.weights)).collect());
        packed.last = packed.push(last(&layers[3].weights));
        for (place, layer) in layers.iter().enumerate() {
            packed.biases[place] = packed.push(layer.biases.iter().flat_map(|b| b.to_le_bytes()).collect());
        }
        packed
    }

    fn push(&mut self, part: Vec<u8>) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(256), 0);
        let at = self.bytes.len();
        self.bytes.extend(part);
        at
    }
}

fn half(value: f32) -> [u8; 2] {
    f16::from_f32(value).to_le_bytes()
}

/// Fragments of a matrix for `mma.m16n8k16`: `[blocks of 16 rows][steps of 16 columns][32 lanes][4 pairs]`.
fn fragments(blocks: usize, steps: usize, at: impl Fn(usize, usize) -> f32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks * steps * 512);
    for block in 0..blocks {
        for step in 0..steps {
            for lane in 0..32 {
                for register in 0..4 {
                    let row = block * 16 + lane / 4 + register % 2 * 8;
                    let column = step * 16 + lane % 4 * 2 + register / 2 * 8;
                    bytes.extend(half(at(row, column)));
                    bytes.extend(half(at(row, column + 1)));
                }
            }
        }
    }
    bytes
}

/// Column: tap, then channel; 108 of 112.
fn first(weights: &[f32]) -> Vec<u8> {
    fragments(WIDTH / 16, 7, |row, column| {
        let (tap, channel) = (column / INPUTS, column % INPUTS);
        if tap < TAPS { weights[(row * INPUTS + channel) * TAPS + tap] } else { 0.0 }
    })
}

/// Row: tap, then channel out; 108 of 112. Column: channel in.
fn last(weights: &[f32]) -> Vec<u8> {
    fragments(7, WIDTH / 16, |row, column| {
        let (tap, channel) = (row / OUTPUTS, row % OUTPUTS);
        if tap < TAPS { weights[(channel * WIDTH + column) * TAPS + tap] } else { 0.0 }
    })
}

/// `[dz][32 in][dy][64 out][dx][16 in][8 in][out][in]`: what one stage of the kernel's ring takes lies in one piece.
fn middle(weights: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(weights.len() * 2);
    for (dz, quarter, dy) in each(3, 4, 3) {
        for (block, dx, half_quarter) in each(2, 3, 2) {
            for (group, row, element) in each(2, 64, 8) {
                let output = block * 64 + row;
                let input = quarter * 32 + half_quarter * 16 + group * 8 + element;
                bytes.extend(half(weights[(output * WIDTH + input) * TAPS + dz * 9 + dy * 3 + dx]));
            }
        }
    }
    bytes
}

/// Three nested loops, outermost first.
fn each(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;

    /// Weights whose value tells their place, modulo what 11 bits hold.
    fn told(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i * 7 % 2039) as f32).collect()
    }

    #[test]
    fn every_weight_is_there_once() {
        let sorted = |bytes: &[u8]| {
            let mut values: Vec<_> =
                bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect();
            values.sort_by(f32::total_cmp);
            values
        };
        let weights = told(WIDTH * WIDTH * TAPS);
        let mut expected = weights.clone();
        expected.sort_by(f32::total_cmp);
        assert_eq!(sorted(&middle(&weights)), expected);
        for (packed, count) in
            [(first(&told(WIDTH * 4 * TAPS)), 8 * 7), (last(&told(WIDTH * 4 * TAPS)), 7 * 8)]
        {
            assert_eq!(packed.len(), count * 512);
            let mut expected = told(WIDTH * 4 * TAPS);
            expected.resize(packed.len() / 2, 0.0);
            expected.sort_by(f32::total_cmp);
            assert_eq!(sorted(&packed), expected);
        }
    }

    #[test]
    fn a_weight_lies_where_the_kernel_looks() {
        let mut weights = vec![0.0; WIDTH * WIDTH * TAPS];
        let (output, input, dz, dy, dx) = (64 + 5, 32 + 16 + 8 + 3, 2, 1, 0);
        weights[(output * WIDTH + input) * TAPS + dz * 9 + dy * 3 + dx] = 1.0;
        let packed = middle(&weights);
        let stage = ((dz * 4 + 1) * 3 + dy) * 2 + 1;
        let at = stage * 12_288 + (dx * 2 + 1) * 2048 + 1024 + 5 * 16 + 3 * 2;
        assert_eq!(packed[at..at + 2], half(1.0));
    }

    #[test]
    fn parts_are_aligned_and_apart() {
        let layer = |i: usize, o: usize| Layer { weights: vec![0.5; i * o * TAPS], biases: vec![2.0; o] };
        let network = Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)])
            .expect("a network");
        let packed = Packed::new(&network);
        let mut starts = vec![packed.first, packed.middle, packed.last];
        starts.extend(packed.biases);
        assert!(starts.is_sorted() && starts.iter().all(|at| at.is_multiple_of(256)));
        assert_eq!(packed.bytes.len(), packed.biases[3] + 16);
    }
}
