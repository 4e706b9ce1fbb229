//! A pause between an answer and the next poll.
//!
//! A client that waited for the answer cannot have asked again yet: the answer has to cross the bus, and the
//! next request to come back. Across PCIe a poll that just misses that costs a whole trip more, and a pause
//! costs the rest of the pause.

use ringcall_gpu::team::Warp;
use ringcall_gpu::{clock, hint};

/// Waits until `ticks` of [`clock::ticks`] have passed since `since`, for all lanes. The clock is the bound.
#[inline(always)]
pub(super) fn wait_ticks_since(warp: Warp<'_>, since: u64, ticks: u64) {
    while warp.any(clock::ticks().wrapping_sub(since) < ticks) {
        hint::spin();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_not_waited_for() {
        let begin = clock::ticks();
        wait_ticks_since(Warp::single(), begin, 20_000);
        let end = clock::ticks();
        assert!(end.wrapping_sub(begin) >= 20_000);
        // As long ago as it takes; and a moment that never was.
        wait_ticks_since(Warp::single(), end.wrapping_sub(u64::MAX / 2), u64::MAX / 4);
        wait_ticks_since(Warp::single(), end.wrapping_add(1 << 40), 1 << 20);
    }
}
