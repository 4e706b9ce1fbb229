//! Counting and choosing bits of a window.

/// Bit `i` moves to bit `2 i`.
#[inline(always)]
pub(super) const fn spread(bits: u32) -> u64 {
    let mut x = bits as u64;
    x = (x | x << 16) & 0x0000_FFFF_0000_FFFF;
    x = (x | x << 8) & 0x00FF_00FF_00FF_00FF;
    x = (x | x << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & 0x5555_5555_5555_5555
}

/// The `n`th set bit, from 0. By halves: a warp has few instructions to spare.
#[inline(always)]
pub(super) const fn nth(bits: u64, mut n: u32) -> Option<u32> {
    if n >= bits.count_ones() {
        return None;
    }
    let mut position = 0;
    let mut half = 32;
    while half != 0 {
        let low = (bits >> position & ((1 << half) - 1)).count_ones();
        if n >= low {
            n -= low;
            position += half;
        }
        half /= 2;
    }
    Some(position)
}

/// The lowest `n` set bits.
#[inline(always)]
pub(super) const fn lowest(bits: u64, n: u32) -> u64 {
    match nth(bits, n) {
        Some(position) => bits & ((1 << position) - 1),
        None => bits,
    }
}

/// All but the lowest `n` set bits.
#[inline(always)]
pub(super) const fn without(bits: u64, n: u32) -> u64 {
    bits & !lowest(bits, n)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_counted_from_the_lowest(bits: u64, sparse: u64, n in 0_u32..70) {
            for bits in [bits, bits & sparse, 0, u64::MAX] {
                let positions: Vec<u32> = (0..64).filter(|&i| bits >> i & 1 == 1).collect();
                prop_assert_eq!(nth(bits, n), positions.get(n as usize).copied());
                let low: u64 = positions.iter().take(n as usize).map(|&i| 1_u64 << i).sum();
                prop_assert_eq!(lowest(bits, n), low);
                prop_assert_eq!(without(bits, n), bits - low);
            }
        }
    }
}
