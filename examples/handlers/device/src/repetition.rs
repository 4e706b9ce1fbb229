//! Exact decoding of the repetition code.

use crate::{CHECKS, QUBITS};
use ringcall::Bits;

/// The correction of qubit 0, where the logical value is read (0 or 1), and how many errors fewer it takes than the other
/// explanation: 1 to [`QUBITS`].
///
/// Two patterns of flips explain a syndrome, and each is the other's complement: this is the one of fewer flips, so the
/// correction is right whenever less than half of the qubits are flipped.
#[ringcall::handler]
pub fn decode_repetition(checks: Bits<'_, CHECKS>) -> (u8, i32) {
    // The pattern in which qubit 0 is not flipped: qubit i + 1 is, where the checks 0 to i have odd parity.
    let (mut flips, mut before) = (0, 0);
    for word in checks.words() {
        let parities = prefix_parities(word) ^ before;
        flips += parities.count_ones() as i32;
        before = if parities >> 63 == 1 { u64::MAX } else { 0 };
    }
    let others = QUBITS as i32 - flips;
    if flips < others { (0, others - flips) } else { (1, flips - others) }
}

/// Bit i is the parity of the bits 0 to i.
const fn prefix_parities(mut word: u64) -> u64 {
    let mut shift = 1;
    while shift < 64 {
        word ^= word << shift;
        shift *= 2;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::Status;

    /// The checks that see a difference, packed.
    fn syndrome(flipped: &[bool; QUBITS]) -> [u8; CHECKS / 8] {
        let mut checks = [0; CHECKS / 8];
        for (i, pair) in flipped.windows(2).enumerate() {
            checks[i / 8] |= u8::from(pair[0] != pair[1]) << (i % 8);
        }
        checks
    }

    fn decode(flipped: &[bool; QUBITS]) -> (u8, i32) {
        let checks = syndrome(flipped);
        decode_repetition(Bits::new(&checks).expect("256 bits"))
    }

    #[test]
    fn any_error_on_less_than_half_of_the_qubits_is_corrected() {
        // Steps that share no factor with 257, which is prime: the flipped qubits lie together, apart, and all over.
        for step in [1, 2, 16, 64, 100, 255] {
            for first in [0, 1, 63, 64, 65, 200, 256] {
                let mut flipped = [false; QUBITS];
                for weight in 0..=QUBITS {
                    let (correction, advantage) = decode(&flipped);
                    let likely = weight <= QUBITS / 2;
                    assert_eq!(correction == 1, flipped[0] == likely, "{weight} flips, {first} + {step} i");
                    assert_eq!(advantage, (QUBITS as i32 - 2 * weight as i32).abs(), "{weight} flips");
                    if weight < QUBITS {
                        flipped[(first + weight * step) % QUBITS] = true;
                    }
                }
            }
        }
    }

    #[test]
    fn the_result_is_a_byte_and_a_little_endian_number() {
        let mut flipped = [false; QUBITS];
        flipped[..3].fill(true);
        let mut result = [0xFF; 8];
        assert_eq!(decode_repetition::HANDLER.call(&syndrome(&flipped), &mut result), Ok(5));
        assert_eq!(result, [1, 251, 0, 0, 0, 0xFF, 0xFF, 0xFF]);
    }

    #[test]
    fn a_payload_of_another_length_is_refused() {
        let refused = decode_repetition::HANDLER.call(&[0; CHECKS / 8 + 1], &mut [0; 8]);
        assert_eq!(refused, Err(Status::SCHEMA_MISMATCH));
    }
}
