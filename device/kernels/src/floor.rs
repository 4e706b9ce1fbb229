//! The floor of a device: one thread polls one flag in mapped memory and sends it back. No dispatcher can be faster.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;

/// The value that ends it.
const STOP: u64 = u64::MAX;

/// Echoes every change of the word at `there` to the word at `back`.
///
/// # Safety
/// Both are 8-byte aligned words of mapped memory that outlive the kernel; launched with one thread.
#[unsafe(no_mangle)]
pub unsafe extern "ptx-kernel" fn ringcall_floor(there: *mut u64, back: *mut u64) {
    // SAFETY: the caller's promise.
    let there = unsafe { Words::from_raw(there, 1) };
    // SAFETY: the caller's promise.
    let back = unsafe { Words::from_raw(back, 1) };
    let (Ok(there), Ok(back)) = (there, back) else { return };
    let mut last = 0;
    loop {
        let seen = there.load(0, Ordering::Relaxed);
        if seen == STOP {
            return;
        }
        if seen != last {
            last = seen;
            back.store(0, seen, Ordering::Relaxed);
        }
    }
}
