//! Hints to the processor: nothing here changes what a program computes.

#[cfg(not(any(loom, target_arch = "nvptx64")))]
std::thread_local! {
    static YIELDS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Has [`spin`] give up the calling thread's time slices: the thread plays one of a team, of which there may be more than cores.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn yield_in_spins() {
    #[cfg(not(loom))]
    YIELDS.set(true);
}

/// Tells the processor that this thread polls; nothing on a device, where a poll takes a microsecond. Under loom, lets another thread of the model run.
#[inline(always)]
pub fn spin() {
    #[cfg(not(any(loom, target_arch = "nvptx64")))]
    if YIELDS.get() {
        std::thread::yield_now();
    } else {
        core::hint::spin_loop();
    }
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Asks for the cache line at `address`, to be read soon.
#[inline(always)]
pub(crate) fn prefetch_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, for any address, and changes no memory.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    let _ = address;
}

/// Asks for the cache line at `address` with ownership, to be written soon.
#[inline(always)]
pub(crate) fn prefetch_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        // The intrinsic becomes a prefetch for reading, unless the compiler may assume this instruction.
        // Every 64-bit processor executes it, old ones as a no-op. SAFETY: a prefetch never faults, for any
        // address, and changes no memory.
        unsafe {
            core::arch::asm!("prefetchw byte ptr [{}]", in(reg) address.addr(), options(nomem, nostack, preserves_flags));
        }
    }
    let _ = address;
}
