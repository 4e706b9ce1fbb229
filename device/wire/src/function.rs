//! Function ids: the 32-bit FNV-1a hash of a handler's name.
//!
//! FNV-1a: start at `0x811c9dc5`; for each byte, exclusive-or, then multiply by `0x01000193`. Thirty-two bits
//! collide by chance among some tens of thousands of names; the builder of a function table refuses a
//! duplicate id.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// 32-bit FNV-1a of `bytes`.
///
/// ```
/// assert_eq!(ringcall_wire::fnv1a(b"rpc_increment"), 0x191b_6322);
/// ```
#[must_use]
pub const fn fnv1a(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    let mut left = bytes;
    while let Some((byte, rest)) = left.split_first() {
        hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
        left = rest;
    }
    hash
}

/// Which handler a request is for.
///
/// ```
/// use ringcall_wire::{FunctionId, names};
/// const ID: FunctionId = FunctionId::of(names::MOCK_DECODE);
/// assert_eq!(ID.0, 0x6c45_a6d6);
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// The id of a handler's name: [`fnv1a`] of its UTF-8 bytes, no terminator.
    #[must_use]
    pub const fn of(name: &str) -> Self {
        Self(fnv1a(name.as_bytes()))
    }
}

impl From<FunctionId> for u32 {
    fn from(id: FunctionId) -> Self {
        id.0
    }
}

/// Names of the functions that caller and service both know.
pub mod names {
    /// Adds one to every payload byte: the smallest complete round trip.
    pub const RPC_INCREMENT: &str = "rpc_increment";
    /// Answers with prepared corrections; tests transports without a decoder.
    pub const MOCK_DECODE: &str = "mock_decode";
    /// Adds syndromes to a decoder's buffer.
    pub const ENQUEUE_SYNDROMES: &str = "enqueue_syndromes";
    /// Reads a decoder's corrections.
    pub const GET_CORRECTIONS: &str = "get_corrections";
    /// Clears a decoder's buffer and corrections.
    pub const RESET_DECODER: &str = "reset_decoder";
    /// One whole decode in one call: see [`crate::qec::decode_syndrome_schema`].
    pub const DECODE_SYNDROME: &str = "decode_syndrome";
    /// The same with weights of the shot's own: see [`crate::weighted::decode_weighted_schema`].
    pub const DECODE_WEIGHTED: &str = "decode_weighted";
    /// The same with confidences or levels of the measurements: see [`crate::weighted::decode_readout_schema`].
    pub const DECODE_READOUT: &str = "decode_readout";

    /// Every name above.
    pub const ALL: &[&str] = &[
        RPC_INCREMENT,
        MOCK_DECODE,
        ENQUEUE_SYNDROMES,
        GET_CORRECTIONS,
        RESET_DECODER,
        DECODE_SYNDROME,
        DECODE_WEIGHTED,
        DECODE_READOUT,
    ];
}
