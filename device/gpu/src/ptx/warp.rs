//! Collectives of a warp and the barrier of a block. All lanes take part, converged.

use core::arch::asm;

/// Waits for all lanes of the warp; what they wrote before is visible to each of them after.
#[inline(always)]
pub fn warp_sync() {
    // SAFETY: a barrier over all 32 lanes, which the caller runs converged. It is a compiler barrier too: no `nomem`.
    unsafe { asm!("bar.warp.sync 0xffffffff;", options(nostack)) };
}

/// Waits for all threads of the block; what they wrote before is visible to each of them after.
#[inline(always)]
pub fn block_sync() {
    // SAFETY: barrier 0 of the block, used by nothing else.
    unsafe { asm!("barrier.sync 0;", options(nostack)) };
}

/// The value that lane `from` passed.
#[must_use]
#[inline(always)]
pub fn shuffle_idx_u32(value: u32, from: u32) -> u32 {
    let out: u32;
    // SAFETY: exchanges registers between all 32 lanes, which the caller runs converged.
    unsafe {
        asm!("shfl.sync.idx.b32 {}, {}, {}, 31, 0xffffffff;", out(reg32) out, in(reg32) value, in(reg32) from,
             options(nomem, nostack));
    }
    out
}

/// The value that the lane whose number differs by `mask` passed.
#[must_use]
#[inline(always)]
pub fn shuffle_xor_u32(value: u32, mask: u32) -> u32 {
    let out: u32;
    // SAFETY: as for `shuffle_idx_u32`.
    unsafe {
        asm!("shfl.sync.bfly.b32 {}, {}, {}, 31, 0xffffffff;", out(reg32) out, in(reg32) value, in(reg32) mask,
             options(nomem, nostack));
    }
    out
}

/// One bit a lane: whose condition holds.
#[must_use]
#[inline(always)]
pub fn ballot(condition: bool) -> u32 {
    let out: u32;
    let flag = u32::from(condition);
    // SAFETY: a vote of all 32 lanes, which the caller runs converged.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.u32 p, {}, 0; vote.sync.ballot.b32 {}, p, 0xffffffff; }}",
             in(reg32) flag, out(reg32) out, options(nomem, nostack));
    }
    out
}
