//! Loads, votes and masks that polling is made of.

use super::slot_state::PUBLISHED;
use super::{Block, Machine, WarpContext};
use ringcall_gpu::barrier;
use ringcall_gpu::team::Warp;

/// Turns between rounds of maintenance where no warp does only that.
pub(super) const TURNS_A_ROUND: u64 = 64;

/// This lane's marks and flags of a window, the marks read first.
pub(super) type WindowWords = [[u64; 2]; 2];

impl<M: Machine> Block<'_, M> {
    /// This lane's request flags of a window; 0 where the partition has no such slots, which are not read: reads of one sector
    /// queue one after another, and another block polls those.
    #[inline(always)]
    pub(super) fn flags(&self, warp: Warp<'_>, window: u32, wanted: bool) -> [u64; 2] {
        let first = self.first_of(warp, window);
        if wanted && first < self.partition.first + self.partition.count {
            self.ring.rx_pair(first)
        } else {
            [0; 2]
        }
    }

    /// This lane's first slot of a window, as a slot of the ring.
    #[inline(always)]
    pub(super) fn first_of(&self, warp: Warp<'_>, window: u32) -> u32 {
        self.partition.first + (window * warp.lanes() + warp.lane()) * 2
    }

    #[inline(always)]
    pub(super) fn slot_at(&self, warp: Warp<'_>, window: u32, bit: u32) -> u32 {
        self.partition.first + window * warp.lanes() * 2 + bit
    }

    /// Clears the request flags of those slots of the first window that were answered when their marks were read. A producer that
    /// waits for an answer has no need of it, so the poll that follows one does not wait for the fence: that is made while the
    /// poll is under way. No handler runs while a slot that was answered looks taken.
    #[inline(always)]
    pub(super) fn clear_seen(&self, warp: Warp<'_>, states: [u64; 2]) {
        if !warp.any(states.contains(&PUBLISHED)) {
            return;
        }
        // Response flags before request flags are seen cleared.
        barrier::publish_to_peer();
        for (slot, state) in (self.first_of(warp, 0)..).zip(states) {
            if state == PUBLISHED {
                self.ring.clear_rx_relaxed(slot);
                self.change_state(slot, 0);
            }
        }
    }

    /// The same for every answered slot, where no maintenance warp does it.
    #[inline(always)]
    pub(super) fn clear_answered(&self, warp: Warp<'_>) {
        if self.is_alone() {
            self.publish(warp);
        }
    }

    /// The warps with nothing to do, the poller itself apart.
    #[inline(always)]
    pub(super) fn free_warps(&self, context: WarpContext<'_>) -> u32 {
        let WarpContext { warp, me, .. } = context;
        let mut free = 0;
        let mut base = 0;
        while base < self.workers {
            let index = base + warp.lane();
            let is_free = index < self.workers && index != me && self.block_state.is_free(index);
            free |= warp.ballot(is_free) << base;
            base += warp.lanes();
        }
        free
    }
}

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
