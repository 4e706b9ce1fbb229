//! Two handlers for a memory in a repetition code of [`QUBITS`] data qubits.
//!
//! | handler | kind | what it does |
//! |---|---|---|
//! | [`vote_checks`](fn@vote_checks) | warp | soft readout of all checks in [`ROUNDS`] rounds to one bit a check |
//! | [`decode_repetition`](fn@decode_repetition) | thread | these bits to a correction, and how sure it is |
//!
//! The same functions run on a GPU, in a host dispatcher, and in the tests of this crate:
//!
//! ```
//! use example_handlers::decode_repetition;
//!
//! // Bytes in, bytes out, as a dispatcher calls it. Check 0 fired: qubit 0 is flipped, which is one error against 256.
//! let mut checks = [0; 32];
//! checks[0] = 1;
//! let mut result = [0; 5];
//! assert_eq!(decode_repetition::HANDLER.call(&checks, &mut result), Ok(5));
//! assert_eq!(result[0], 1);
//! assert_eq!(result[1..], 255_i32.to_le_bytes());
//! ```

#![cfg_attr(not(test), no_std)]
// A panic on a device ends the whole kernel: nothing here may panic.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod repetition;
mod vote;

pub use repetition::decode_repetition;
pub use vote::vote_checks;

/// Parity checks of the code: check i compares the qubits i and i + 1.
pub const CHECKS: usize = 256;
/// Data qubits of the code, which is its distance. Odd, so that one of two explanations of a syndrome is the likelier.
pub const QUBITS: usize = CHECKS + 1;
/// How often every check is measured. Odd, so that no vote is a tie.
pub const ROUNDS: usize = 7;

/// Every handler of this crate: what a dispatcher's table is made of.
pub const HANDLERS: [ringcall::Handler; 2] = ringcall::handlers![vote_checks, decode_repetition];
