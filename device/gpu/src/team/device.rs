//! Teams on a device: tokens of no size over the thread's own special registers.

use super::{OutBytes, WARP_LANES};
use crate::ptx;
use core::ffi::c_void;
use core::marker::PhantomData;

/// Stays with its thread: what it says is read from the thread's registers.
type Token<'a> = PhantomData<(&'a (), *const ())>;

/// A lane of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a>(Token<'a>);

impl Lane<'_> {
    #[inline(always)]
    pub(super) fn current() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(super) fn index(&self) -> u32 {
        ptx::lane_id()
    }

    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        WARP_LANES
    }

    #[inline(always)]
    pub(super) fn sync(&self) {
        ptx::warp_sync();
    }

    #[inline(always)]
    pub(super) fn shuffle(&self, value: u32, from: u32) -> u32 {
        ptx::shuffle_idx_u32(value, from % WARP_LANES)
    }

    #[inline(always)]
    pub(super) fn shuffle_u64(&self, value: u64, from: u32) -> u64 {
        self.by_halves(value, |half| self.shuffle(half, from))
    }

    #[inline(always)]
    pub(super) fn shuffle_xor(&self, value: u32, mask: u32) -> u32 {
        ptx::shuffle_xor_u32(value, mask % WARP_LANES)
    }

    #[inline(always)]
    pub(super) fn ballot(&self, vote: bool) -> u32 {
        ptx::ballot(vote)
    }

    #[inline(always)]
    pub(super) fn sum(&self, value: u32) -> u32 {
        self.butterfly(value, |value, mask| value.wrapping_add(self.shuffle_xor(value, mask)))
    }

    #[inline(always)]
    pub(super) fn sum_u64(&self, value: u64) -> u64 {
        self.butterfly(value, |value, mask| {
            value.wrapping_add(self.by_halves(value, |half| self.shuffle_xor(half, mask)))
        })
    }

    #[inline(always)]
    pub(super) fn max(&self, value: u32) -> u32 {
        self.butterfly(value, |value, mask| value.max(self.shuffle_xor(value, mask)))
    }

    #[inline(always)]
    fn by_halves(&self, value: u64, shuffle: impl Fn(u32) -> u32) -> u64 {
        let (low, high) = (shuffle(value as u32), shuffle((value >> 32) as u32));
        u64::from(high) << 32 | u64::from(low)
    }

    /// Five exchanges after which every lane has combined all 32 values.
    #[inline(always)]
    fn butterfly<T>(&self, value: T, combine: impl Fn(T, u32) -> T) -> T {
        let value = combine(value, 16);
        let value = combine(value, 8);
        let value = combine(value, 4);
        let value = combine(value, 2);
        combine(value, 1)
    }
}

/// A thread of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread<'a>(Token<'a>);

impl<'a> Thread<'a> {
    #[inline(always)]
    pub(super) fn current() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(super) fn index(&self) -> u32 {
        ptx::thread_id()
    }

    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        ptx::block_threads()
    }

    #[inline(always)]
    pub(super) fn lane(&self) -> Lane<'a> {
        Lane(PhantomData)
    }

    #[inline(always)]
    pub(super) fn sync(&self) {
        ptx::block_sync();
    }
}

/// A thread of a grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a>(Token<'a>);

impl<'a> Position<'a> {
    #[inline(always)]
    pub(super) fn current() -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(super) fn block(&self) -> u32 {
        ptx::block_id()
    }

    #[inline(always)]
    pub(super) fn blocks(&self) -> u32 {
        ptx::grid_blocks()
    }

    #[inline(always)]
    pub(super) fn thread(&self) -> Thread<'a> {
        Thread(PhantomData)
    }

    #[inline(always)]
    pub(super) fn sync(&self) {
        ptx::grid_sync();
    }
}

/// A warp or grid handler's result.
///
/// # Safety
/// `output` is 8-byte aligned, and `len` bytes from it are the team's alone for `'a`, reached by it in this way only.
#[must_use]
#[inline(always)]
pub unsafe fn result_out<'a>(output: *mut c_void, len: u32) -> OutBytes<'a> {
    // SAFETY: the caller's promise; the hint lets wide stores be used.
    unsafe { core::hint::assert_unchecked(output.addr().is_multiple_of(8)) };
    // SAFETY: the caller's promise.
    unsafe { OutBytes::from_raw(output.cast(), len as usize) }
}
