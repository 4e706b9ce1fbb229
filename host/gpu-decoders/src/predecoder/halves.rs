//! 32-bit floats on their way to the device as 16-bit ones.

use half::f16;
use half::slice::HalfFloatSliceExt;
use zerocopy::IntoBytes;

/// Values rounded at once: a few kilobytes of stack, which stay in the first cache.
const BLOCK: usize = 512;

/// Rounds little-endian floats of any alignment to halves, to the nearest and ties to even; as many as both have.
pub(crate) fn round(floats: &[u8], halves: &mut [u8]) {
    let (mut from, mut to) = ([0.0_f32; BLOCK], [f16::ZERO; BLOCK]);
    for (floats, halves) in floats.chunks(BLOCK * 4).zip(halves.chunks_mut(BLOCK * 2)) {
        let n = (floats.len() / 4).min(halves.len() / 2);
        let (from, to) = (&mut from[..n], &mut to[..n]);
        from.as_mut_bytes().copy_from_slice(&floats[..n * 4]);
        // Whole vectors at a time, where the processor has the instructions.
        to.convert_from_f32_slice(from);
        halves[..n * 2].copy_from_slice(to.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_many_as_both_have() {
        let floats: Vec<u8> = [1.0_f32, -2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut halves = [0xAA; 8];
        round(&floats, &mut halves);
        assert_eq!(halves, [0x00, 0x3C, 0x00, 0xC0, 0x00, 0x38, 0xAA, 0xAA]);
        let mut one = [0xAA; 3];
        round(&floats, &mut one);
        assert_eq!(one, [0x00, 0x3C, 0xAA]);
    }

    proptest! {
        /// Every length around a block's, every alignment, every value but the payloads of NaNs.
        #[test]
        fn each_is_rounded_as_by_itself(
            bits in prop::collection::vec(any::<u32>(), 0..2 * BLOCK + 20),
            shift in 0_usize..4,
        ) {
            let mut floats = vec![0; shift];
            floats.extend(bits.iter().flat_map(|v| v.to_le_bytes()));
            let mut halves = vec![0xFF; shift + bits.len() * 2];
            round(&floats[shift..], &mut halves[shift..]);
            for (bits, half) in bits.iter().zip(halves[shift..].as_chunks().0) {
                let (expected, found) = (f16::from_f32(f32::from_bits(*bits)), f16::from_le_bytes(*half));
                prop_assert!(expected.to_bits() == found.to_bits() || expected.is_nan() && found.is_nan());
            }
        }
    }
}
