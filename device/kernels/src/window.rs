//! Memory windows from raw addresses.

use ringcall_gpu::shared::Words;

/// # Safety
/// `words` words of memory at `address` that outlive the kernel.
pub(crate) unsafe fn words(address: u64, words: usize) -> Option<Words> {
    // SAFETY: the caller's promise.
    unsafe { Words::from_raw(address as usize as *mut u64, words) }.ok()
}
