//! Every wait of this crate: it ends by its event, by the stop word, or by its bound.

use core::sync::atomic::Ordering;
use ringcall_gpu::hint;
use ringcall_gpu::shared::Words;

/// The word by which a host stops a device: anything but 0 stops.
#[derive(Debug, Clone)]
pub struct Shutdown(Words);

impl Shutdown {
    /// The first word of `window`; a window without one never stops.
    #[must_use]
    pub fn new(window: Words) -> Self {
        Self(window)
    }

    /// Whether to stop. Relaxed: nothing else is read because of it.
    #[must_use]
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.get(0).is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}

/// How long to poll for something, and how often to poll the stop word meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Polls between two polls of the stop word, at least 1.
    pub between: u32,
    /// Turns of `between` polls before the wait gives up. A caller that wants to wait until it is stopped takes
    /// [`u64::MAX`].
    pub turns: u64,
}

impl Bound {
    /// Until stopped; the stop word is read every 1,024 polls, since that read crosses the bus.
    pub const UNTIL_STOPPED: Self = Self { between: 1024, turns: u64::MAX };
    /// One poll.
    pub const ONCE: Self = Self { between: 1, turns: 1 };
}

/// Why a wait ended without its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The stop word was set.
    Stopped,
    /// The bound was reached.
    Exhausted,
    /// The queue pair is in the error state: nothing will come.
    Dead,
}

/// Polls until there is something; `relax` is called between two turns (a CPU thread yields there, a device does nothing).
///
/// # Errors
/// Stopped, or the bound was reached. The stop word is polled first: a wait that begins stopped polls nothing else.
#[inline(always)]
pub fn wait<T>(
    shutdown: &Shutdown,
    bound: Bound,
    mut relax: impl FnMut(),
    mut poll: impl FnMut() -> Option<T>,
) -> Result<T, WaitEnd> {
    let mut turns = bound.turns;
    while turns > 0 {
        if shutdown.is_set() {
            return Err(WaitEnd::Stopped);
        }
        for _ in 0..bound.between.max(1) {
            if let Some(found) = poll() {
                return Ok(found);
            }
            hint::spin();
        }
        relax();
        turns -= 1;
    }
    Err(WaitEnd::Exhausted)
}
