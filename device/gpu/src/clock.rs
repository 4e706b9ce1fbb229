//! Monotonic nanoseconds.

#[cfg(not(target_arch = "nvptx64"))]
use std::sync::OnceLock;
#[cfg(not(target_arch = "nvptx64"))]
use std::time::Instant;

#[cfg(not(target_arch = "nvptx64"))]
static EPOCH: OnceLock<Instant> = OnceLock::new();

#[cfg(all(feature = "simulation", not(target_arch = "nvptx64")))]
thread_local! {
    static SIMULATED: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

/// From now on it is `now` on this thread, in nanoseconds; `None` gives the machine's clock back. For simulations: feature
/// `simulation`.
#[cfg(all(feature = "simulation", not(target_arch = "nvptx64")))]
pub fn simulate(now: Option<u64>) {
    SIMULATED.set(now);
}

/// Nanoseconds since the process first asked. Monotonic, the same for all threads; about 20 ns a call on Linux.
///
/// On a device: its global timer, whose zero is another.
#[inline]
pub fn now_ns() -> u64 {
    #[cfg(not(target_arch = "nvptx64"))]
    {
        #[cfg(feature = "simulation")]
        if let Some(now) = SIMULATED.get() {
            return now;
        }
        let epoch = EPOCH.get_or_init(Instant::now);
        u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
    #[cfg(target_arch = "nvptx64")]
    crate::ptx::global_timer_ns()
}

/// The cheapest clock there is: cycles of this multiprocessor on a device (20 cycles to read, where the global timer takes
/// 200), nanoseconds on a CPU. Good for differences within one block, as long as it runs.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(not(target_arch = "nvptx64"))]
    return now_ns();
    #[cfg(target_arch = "nvptx64")]
    crate::ptx::clock_cycles()
}
