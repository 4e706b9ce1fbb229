//! What the NIC reads and writes: completion entries, work requests, doorbells.
//!
//! Everything a mlx5 NIC shares is **big-endian** and is reached here as native 64-bit words of little-endian machines, so
//! that one aligned store writes two fields: [`pair`] makes such a word, [`first`] and [`second`] read it.
//!
//! Offsets and values are those of the public rdma-core headers (`providers/mlx5/mlx5dv.h`).

pub mod cqe;
pub mod wqe;

pub use cqe::{Cqe, Syndrome};
pub use wqe::Wqe;

/// The key that ends a list of data segments: a receive request with it takes no data, it is a credit alone.
pub const TERMINATE_LKEY: u32 = 0x100;

/// Bytes of a receive request: one data segment.
pub const RECEIVE_WQE_BYTES: usize = 16;
/// 64-bit words of a receive request.
pub const RECEIVE_WQE_WORDS: usize = RECEIVE_WQE_BYTES / 8;

/// Bytes of a queue pair's doorbell record.
pub const RECORD_BYTES: usize = 8;
/// The receive counter's offset in the doorbell record.
pub const RECORD_RECEIVE: usize = 0;
/// The send counter's offset in the doorbell record.
pub const RECORD_SEND: usize = 4;

/// Offset of the doorbell register in a UAR page, at which the BlueFlame buffer begins, too.
pub const UAR_DOORBELL: usize = 0x800;
/// Bytes of a BlueFlame buffer that a work request is copied to.
pub const BLUE_FLAME_BYTES: usize = 64;

/// Two big-endian 32-bit fields, the one at the lower address first.
#[must_use]
#[inline(always)]
pub const fn pair(first: u32, second: u32) -> u64 {
    first.to_be() as u64 | (second.to_be() as u64) << 32
}

/// The field at the lower address.
#[must_use]
#[inline(always)]
pub const fn first(word: u64) -> u32 {
    u32::from_be(word as u32)
}

/// The field at the higher address.
#[must_use]
#[inline(always)]
pub const fn second(word: u64) -> u32 {
    u32::from_be((word >> 32) as u32)
}

/// A data segment: `{byte_count, lkey, address}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Bytes. In a send request 0 would mean 2³¹, and is refused.
    pub bytes: u32,
    /// Key of the memory region, as a number (not yet byte-swapped).
    pub lkey: u32,
    /// Address, in the region's own terms: an offset where the region was registered with address 0.
    pub address: u64,
}

impl Segment {
    /// A receive request that takes no data: what a peer's write with immediate uses up.
    pub const CREDIT: Self = Self { bytes: 0, lkey: TERMINATE_LKEY, address: 0 };

    /// As two words.
    #[must_use]
    #[inline(always)]
    pub const fn to_words(self) -> [u64; 2] {
        [pair(self.bytes, self.lkey), self.address.to_be()]
    }

    /// From two words.
    #[must_use]
    #[inline(always)]
    pub const fn from_words([head, address]: [u64; 2]) -> Self {
        Self { bytes: first(head), lkey: second(head), address: u64::from_be(address) }
    }
}

/// The doorbell register's value for a queue pair whose next work request will be `producer`.
///
/// It has the form of a control segment's first half, with no size: a copied work request never has that.
#[must_use]
#[inline(always)]
pub const fn doorbell(qpn: u32, producer: u16) -> u64 {
    pair((producer as u32) << 8, qpn << 8)
}

/// A queue's counter as the doorbell record has it: the low 16 bits.
#[must_use]
#[inline(always)]
pub const fn record(receive: u16, send: u16) -> u64 {
    pair(receive as u32, send as u32)
}
