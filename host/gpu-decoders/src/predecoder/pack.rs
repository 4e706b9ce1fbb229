//! The weights as the kernels read them; the other side is `first.cuh`, `middle.cuh` and `last.cuh` in
//! `kernels-cu/predecoder`.

use crate::predecoder::layer::{DOUBLED, Layer};
use crate::predecoder::network::{INPUTS, OUTPUTS, TAPS, WIDTH};
use half::f16;
use zerocopy::IntoBytes;

/// Channels that lie side by side.
const GROUP: usize = 16;

/// The parts of a network in device memory, each aligned to 256 bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) first: usize,
    pub(crate) middle: usize,
    pub(crate) last: usize,
    /// Of each layer factors, then offsets.
    pub(crate) scales: [usize; 4],
}

impl Packed {
    /// Of the layers of a network that is [fused](crate::predecoder::Network::fused).
    pub(crate) fn new(layers: &[Layer; 4]) -> Self {
        let mut packed = Self { bytes: Vec::new(), first: 0, middle: 0, last: 0, scales: [0; 4] };
        packed.first = packed.push(first(&layers[0].weights));
        packed.middle = packed.push(layers[1..3].iter().flat_map(|layer| middle(&layer.weights)).collect());
        packed.last = packed.push(last(&layers[3].weights));
        for (index, layer) in layers.iter().enumerate() {
            packed.scales[index] = packed.push([layer.factors.as_bytes(), layer.offsets.as_bytes()].concat());
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

/// Exact, as all weights are, doubled or not.
fn half(value: i16) -> [u8; 2] {
    f16::from_f32(f32::from(value)).to_le_bytes()
}

/// Fragments of a matrix for `mma.m16n8k16`: `[blocks of 16 rows][steps of 16 columns][32 lanes][4 pairs]`.
fn fragments(blocks: usize, steps: usize, at: impl Fn(usize, usize) -> i16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks * steps * 512);
    for block in 0..blocks {
        for step in 0..steps {
            for stream in 0..32 {
                for register in 0..4 {
                    let row = block * 16 + stream / 4 + register % 2 * 8;
                    let column = step * 16 + stream % 4 * 2 + register / 2 * 8;
                    bytes.extend(half(at(row, column)));
                    bytes.extend(half(at(row, column + 1)));
                }
            }
        }
    }
    bytes
}

/// Twice the weights, for inputs that come in as they are. Row: channel out. Column: line of taps, then tap, then channel in;
/// there is no fourth tap.
fn first(weights: &[i16]) -> Vec<u8> {
    fragments(8, 9, |row, column| {
        let (line, dx, channel) = (column / 16, column / 4 % 4, column % 4);
        if dx < 3 { DOUBLED * weights[(row * INPUTS + channel) * TAPS + line * 3 + dx] } else { 0 }
    })
}

/// Row: tap, then channel out; 108 of 112. Column: channel in.
fn last(weights: &[i16]) -> Vec<u8> {
    fragments(7, WIDTH / 16, |row, column| {
        let (tap, channel) = (row / OUTPUTS, row % OUTPUTS);
        if tap < TAPS { weights[(channel * WIDTH + column) * TAPS + tap] } else { 0 }
    })
}

/// `[64 out][dz][32 in][dy][dx][16 in][out][in]`, a byte each: what the kernel's ring takes at once lies in one piece.
fn middle(weights: &[i16]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(weights.len());
    for (block, dz, quarter) in each(2, 3, 4) {
        for (tap, chunk, row) in each(9, 2, 64) {
            let at = |byte| {
                let (output, input) = (block * 64 + row, quarter * 32 + chunk * GROUP + in_group(byte));
                (output * WIDTH + input) * TAPS + dz * 9 + tap
            };
            // The network was checked: 8 bits with the sign.
            bytes.extend((0..GROUP).map(|byte| weights[at(byte)] as u8));
        }
    }
    bytes
}

/// Which of a group's 16 channels lies in a byte of it, of weights and activations alike: a thread that has two rows of a
/// product's fragment, eight apart, has two bytes side by side.
fn in_group(byte: usize) -> usize {
    byte / 2 + 8 * (byte % 2)
}

/// Three nested loops, outermost first.
fn each(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predecoder::Network;

    /// Weights whose value tells their index, modulo what they hold.
    fn told(count: usize, largest: i16) -> Vec<i16> {
        let values = 2 * largest as usize + 1;
        (0..count).map(|i| (i * 7 % values) as i16 - largest).collect()
    }

    fn halves(bytes: &[u8]) -> Vec<i16> {
        bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32() as i16).collect()
    }

    fn sorted(mut values: Vec<i16>) -> Vec<i16> {
        values.sort_unstable();
        values
    }

    #[test]
    fn every_weight_is_there_once() {
        let weights = told(WIDTH * WIDTH * TAPS, 127);
        let found = middle(&weights).iter().map(|&byte| i16::from(byte as i8)).collect();
        assert_eq!(sorted(found), sorted(weights));
        let weights = told(WIDTH * 4 * TAPS, 511);
        let packed = first(&weights);
        assert_eq!(packed.len(), 8 * 9 * 512);
        let mut expected: Vec<i16> = weights.iter().map(|weight| 2 * weight).collect();
        expected.resize(packed.len() / 2, 0);
        assert_eq!(sorted(halves(&packed)), sorted(expected));
        let packed = last(&weights);
        assert_eq!(packed.len(), 7 * 8 * 512);
        let mut expected = weights;
        expected.resize(packed.len() / 2, 0);
        assert_eq!(sorted(halves(&packed)), sorted(expected));
    }

    #[test]
    fn a_group_has_each_channel_once() {
        let mut channels = std::array::from_fn::<_, GROUP, _>(in_group);
        assert_eq!(channels[..6], [0, 8, 1, 9, 2, 10]);
        channels.sort_unstable();
        assert_eq!(channels, std::array::from_fn::<_, GROUP, _>(|channel| channel));
    }

    #[test]
    fn a_weight_lies_where_the_kernel_looks() {
        let (dz, dy, dx) = (2, 1, 0);
        let mut weights = vec![0; WIDTH * WIDTH * TAPS];
        // Channel 11 of its group, in byte 7.
        let (output, input) = (64 + 5, 32 + 16 + 11);
        weights[(output * WIDTH + input) * TAPS + dz * 9 + dy * 3 + dx] = -3;
        let packed = middle(&weights);
        let line = ((3 + dz) * 4 + 1) * 3 + dy;
        let at = line * 6144 + (dx * 2 + 1) * 1024 + 5 * 16 + 7;
        assert_eq!(packed[at], 253);
        assert_eq!(packed.iter().filter(|&&byte| byte != 0).count(), 1);

        // Row 5 of its 16, so stream 20 and the lanes after it; columns in pairs of halves, eight of them a register further.
        for (dx, stream, register) in [(0, 21, 0), (1, 23, 0), (2, 21, 2)] {
            let mut weights = vec![0; WIDTH * INPUTS * TAPS];
            weights[(output * INPUTS + 3) * TAPS + dz * 9 + dy * 3 + dx] = -511;
            let packed = halves(&first(&weights));
            let at = (4 * 9 + dz * 3 + dy) * 256 + stream * 8 + register * 2 + 1;
            assert_eq!(packed[at], -1022, "{dx}");
            assert_eq!(packed.iter().filter(|&&half| half != 0).count(), 1);
        }
    }

    #[test]
    fn parts_are_aligned_and_apart() {
        let layer = |i: usize, o: usize| Layer {
            weights: vec![1; i * o * TAPS],
            factors: vec![0.5; o],
            offsets: vec![2.0; o],
        };
        let network = Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)])
            .expect("a network");
        let packed = Packed::new(&network.fused().expect("of its shape"));
        let mut starts = vec![packed.first, packed.middle, packed.last];
        starts.extend(packed.scales);
        assert!(starts.is_sorted() && starts.iter().all(|at| at.is_multiple_of(256)));
        assert_eq!(packed.middle - packed.first, 8 * 9 * 512);
        assert_eq!(packed.last - packed.middle, 2 * WIDTH * WIDTH * TAPS);
        assert_eq!(packed.scales[3] - packed.scales[2], 2 * WIDTH * 4);
        let last = &packed.bytes[packed.scales[3]..];
        assert_eq!(
            last,
            [0.5_f32, 2.0].map(|value| [value.to_le_bytes(); 4].as_flattened().to_vec()).concat()
        );
    }
}
