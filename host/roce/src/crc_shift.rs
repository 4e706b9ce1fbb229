//! The difference of two Ethernet CRC-32s, traced back over bytes that both messages share.
//!
//! The difference of two CRCs behaves as the CRC of zeros does: each bit multiplies it by `x` modulo the polynomial.
//! Tracing it back divides by `x`, which is a multiplication by a power of `1 / x`. A table holds the powers for
//! lengths of 1, 2, 4, ... bytes, so the work grows with the logarithm of the length.

/// The polynomial of Ethernet's CRC-32, the coefficient of `x^0` in the highest bit.
const POLYNOMIAL: u32 = 0xEDB8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;
/// The table covers lengths of up to `2^LENGTHS - 1` bytes, more than an IP packet has.
const LENGTHS: usize = 17;

/// `x^(-8 * 2^k)`, by `k`.
const BACK: [u32; LENGTHS] = {
    let mut byte = ONE;
    let mut bit = 0;
    while bit < 8 {
        // Division by x: only a reduction sets the highest bit.
        byte = if byte & ONE != 0 { (byte ^ POLYNOMIAL) << 1 | 1 } else { byte << 1 };
        bit += 1;
    }
    let mut powers = [byte; LENGTHS];
    let mut k = 1;
    while k < LENGTHS {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// The product of two polynomials, modulo [`POLYNOMIAL`].
const fn multiply(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        if a & ONE != 0 {
            product ^= b;
        }
        b = if b & 1 != 0 { b >> 1 ^ POLYNOMIAL } else { b >> 1 };
        a <<= 1;
    }
    product
}

/// The difference of two CRCs before `bytes` equal bytes, from their `difference` after these bytes.
pub(crate) fn back(difference: u32, bytes: usize) -> u32 {
    debug_assert!(bytes >> LENGTHS == 0, "no IP packet is as long");
    let powers = BACK.iter().enumerate().filter(|(k, _)| bytes >> k & 1 != 0);
    powers.fold(difference, |difference, (_, &power)| multiply(difference, power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn differences_are_traced_back(
            a in any::<[u8; 4]>(), b in any::<[u8; 4]>(), tail in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let crc = |head: [u8; 4]| {
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(&head);
                hasher.update(&tail);
                hasher.finalize()
            };
            let before = back(crc(a) ^ crc(b), tail.len() + 4);
            prop_assert_eq!(before, u32::from_le_bytes(a) ^ u32::from_le_bytes(b));
        }
    }
}
