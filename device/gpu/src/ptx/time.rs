//! Clocks and sleeping.

use core::arch::asm;

/// Nanoseconds of the device's global timer: the same for all its multiprocessors, updated about every 32 ns (Hopper).
#[must_use]
#[inline(always)]
pub fn global_timer_ns() -> u64 {
    let value: u64;
    // SAFETY: reads a special register. It changes, so not `pure`.
    unsafe { asm!("mov.u64 {}, %globaltimer;", out(reg64) value, options(nomem, nostack)) };
    value
}

/// Cycles of this multiprocessor's clock.
#[must_use]
#[inline(always)]
pub fn clock_cycles() -> u64 {
    let value: u64;
    // SAFETY: reads a special register. It changes, so not `pure`.
    unsafe { asm!("mov.u64 {}, %clock64;", out(reg64) value, options(nomem, nostack)) };
    value
}

/// Sleeps up to about twice `ns`; at most 1 ms.
#[inline(always)]
pub fn nanosleep(ns: u32) {
    // SAFETY: suspends this thread for a while and touches nothing.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) ns, options(nomem, nostack)) };
}
