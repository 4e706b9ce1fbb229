//! Memory that a team writes its result to.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes that the threads of a team write at the same time, at different offsets.
///
/// Write-only, so that nothing depends on who was first, and shared, so that there is no `&mut` to it: every
/// store is one of relaxed atomic bytes. When two threads write the same bytes, each byte is one
/// thread's or the other's. The team's barrier orders the stores before threads that read the bytes
/// afterwards.
///
/// Each store says whether it lay inside; outside, it does nothing.
///
/// ```
/// use ringcall_gpu::team::{self, OutBytes};
///
/// let mut result = [0; 8];
/// let out = OutBytes::new(&mut result);
/// team::run_warp(4, |warp| out.store(warp.lane() as usize * 2, [warp.lane() as u8, 0xFF]));
/// assert_eq!(result, [0, 0xFF, 1, 0xFF, 2, 0xFF, 3, 0xFF]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OutBytes<'a> {
    bytes: &'a [AtomicU8],
    /// As if it were the exclusive borrow that it was made of.
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> OutBytes<'a> {
    /// Over bytes that no other agent reaches while it lives.
    #[must_use]
    #[inline(always)]
    pub fn new(bytes: &'a mut [u8]) -> Self {
        let shared = core::ptr::from_mut(bytes) as *const [AtomicU8];
        // SAFETY: an `AtomicU8` is laid out as a `u8`, and the exclusive borrow, which lasts for `'a`, has become this
        // shared one: every access to the bytes until then is atomic.
        let bytes = unsafe { &*shared };
        Self { bytes, borrow: PhantomData }
    }

    /// Over `len` bytes of memory that other threads reach in the same way: each thread of a device makes its own.
    ///
    /// # Safety
    /// `base .. base + len` is readable and writable for `'a`, and no agent accesses it other than through an
    /// `OutBytes` while one lives.
    #[must_use]
    #[inline(always)]
    pub unsafe fn from_raw(base: *mut u8, len: usize) -> Self {
        // SAFETY: the caller's promise; an `AtomicU8` has the layout of a `u8` and may be shared.
        let bytes = unsafe { core::slice::from_raw_parts(base.cast::<AtomicU8>(), len) };
        Self { bytes, borrow: PhantomData }
    }

    /// How many bytes.
    #[must_use]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Splits in two at `len` bytes; `None` when there are fewer.
    #[must_use]
    #[inline(always)]
    pub fn split_at(&self, len: usize) -> Option<(Self, Self)> {
        let (left, right) = self.bytes.split_at_checked(len)?;
        let over = |bytes| Self { bytes, borrow: PhantomData };
        Some((over(left), over(right)))
    }

    /// Stores `value` from byte `offset` on. On a device 4 or 8 aligned bytes are one store.
    #[inline(always)]
    pub fn store<const N: usize>(&self, offset: usize, value: [u8; N]) -> bool {
        let Some(targets) = self.bytes.get(offset..).and_then(<[AtomicU8]>::first_chunk::<N>) else {
            return false;
        };
        #[cfg(target_arch = "nvptx64")]
        if crate::ptx::wide::store_word(targets, value) {
            return true;
        }
        for (target, byte) in targets.iter().zip(value) {
            target.store(byte, Relaxed);
        }
        true
    }
}
