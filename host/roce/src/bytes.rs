//! Fields of a packet by their offsets.

use crate::error::PacketError;

/// Bytes of the base transport header.
pub const BTH_BYTES: usize = 12;

/// Bytes of the iCRC.
pub const ICRC_BYTES: usize = 4;

pub(crate) fn get<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], PacketError> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or(PacketError::Truncated { needed: at + N, available: bytes.len() })
}

/// Writes `value` at offset `at`. The caller has checked that it fits.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
