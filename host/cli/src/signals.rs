//! Interrupt and terminate end a command early, in order: what is under way is answered and reported.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Listens for signals.
pub(crate) struct Signals {
    #[allow(clippy::disallowed_types)]
    // the library's interface: set from a signal handler, no protocol of ours
    received: Arc<std::sync::atomic::AtomicUsize>,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self> {
        let received = Arc::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&received), signal as usize)
                .context("cannot listen for signals")?;
        }
        Ok(Self { received })
    }

    /// The signal's number, once one came.
    pub(crate) fn received(&self) -> Option<usize> {
        Some(self.received.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}
