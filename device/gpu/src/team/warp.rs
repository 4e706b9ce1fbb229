//! A warp.

use super::{Stride, machine};

/// One lane's view of its warp: up to 32 threads that exchange values without memory.
///
/// A token: it holds no separate data, copies freely, and stays with its thread.
#[derive(Clone, Copy, Debug)]
pub struct Warp<'a> {
    pub(super) lane: machine::Lane<'a>,
}

impl Warp<'_> {
    /// The calling thread's warp. All 32 lanes have to call it together (converged), and every collective after it.
    #[cfg(target_arch = "nvptx64")]
    #[must_use]
    #[inline(always)]
    pub fn current() -> Self {
        Self { lane: machine::Lane::current() }
    }

    /// A warp of the calling thread alone.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub fn single() -> Self {
        Self { lane: machine::Lane::single() }
    }

    /// This thread's index in the warp, from 0.
    #[must_use]
    #[inline(always)]
    pub fn lane(&self) -> u32 {
        self.lane.index()
    }

    /// How many lanes the warp has: 32 on a device, the team's size on a CPU.
    #[must_use]
    #[inline(always)]
    pub fn lanes(&self) -> u32 {
        self.lane.count()
    }

    /// Waits for all lanes. What a lane wrote before is visible to all of them after.
    #[inline(always)]
    pub fn sync(&self) {
        self.lane.sync();
    }

    /// The `value` of lane `from` (modulo [`Self::lanes`]); each lane may ask for another one.
    #[must_use]
    #[inline(always)]
    pub fn shuffle(&self, value: u32, from: u32) -> u32 {
        self.lane.shuffle(value, from)
    }

    /// As [`Self::shuffle`], for 64 bits.
    #[must_use]
    #[inline(always)]
    pub fn shuffle_u64(&self, value: u64, from: u32) -> u64 {
        self.lane.shuffle_u64(value, from)
    }

    /// The `value` of lane `lane ^ mask` (of `mask` the low 5 bits); this lane's own where there is no such lane.
    #[must_use]
    #[inline(always)]
    pub fn shuffle_xor(&self, value: u32, mask: u32) -> u32 {
        self.lane.shuffle_xor(value, mask)
    }

    /// Bit `i` is set when lane `i` said true. The same word on all lanes.
    #[must_use]
    #[inline(always)]
    pub fn ballot(&self, vote: bool) -> u32 {
        self.lane.ballot(vote)
    }

    /// Whether any lane said true.
    #[must_use]
    #[inline(always)]
    pub fn any(&self, vote: bool) -> bool {
        self.ballot(vote) != 0
    }

    /// Whether all lanes said true.
    #[must_use]
    #[inline(always)]
    pub fn all(&self, vote: bool) -> bool {
        self.ballot(!vote) == 0
    }

    /// The sum of all lanes' values, wrapping. The same on all lanes.
    #[must_use]
    #[inline(always)]
    pub fn sum(&self, value: u32) -> u32 {
        self.lane.sum(value)
    }

    /// As [`Self::sum`], for 64 bits.
    #[must_use]
    #[inline(always)]
    pub fn sum_u64(&self, value: u64) -> u64 {
        self.lane.sum_u64(value)
    }

    /// The largest of all lanes' values. The same on all lanes.
    #[must_use]
    #[inline(always)]
    pub fn max(&self, value: u32) -> u32 {
        self.lane.max(value)
    }

    /// This lane's share of `0..len`: lane, lane + lanes, and so on, so that neighbouring lanes touch neighbouring
    /// elements.
    #[must_use]
    #[inline(always)]
    pub fn stride(&self, len: usize) -> Stride {
        Stride::new(self.lane(), self.lanes(), len)
    }
}
