//! A launched kernel and everything that it uses, until its end is known.

use super::launch::Launcher;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{DeferFrees, Stream};
use std::sync::Arc;
use std::time::Duration;

/// How long a drop waits for the end of a kernel that was not stopped.
const GRACE_PERIOD: Duration = Duration::from_millis(100);

/// The host's side of a dispatcher's memory.
pub(crate) trait Halt {
    /// Tells the kernel to end at once.
    fn halt(&self);
}

/// A running kernel and everything that it uses.
pub(crate) trait UnderWay: Halt {
    /// Waits at most this long until no part of the kernel runs or is queued. Returns whether that is so.
    fn ends_within(&self, limit: Duration) -> bool;
}

/// Memory, code, stream, and the hold on frees.
#[derive(Debug)]
pub(crate) struct Kept<R> {
    resources: Arc<R>,
    _launcher: Arc<Launcher>,
    stream: Arc<Stream>,
    /// Nothing of this context is freed while the kernel polls.
    _hold: DeferFrees,
}

impl<R: Halt> Halt for Kept<R> {
    fn halt(&self) {
        self.resources.halt();
    }
}

impl<R: Halt> UnderWay for Kept<R> {
    fn ends_within(&self, limit: Duration) -> bool {
        // A kernel that failed has ended, too.
        !matches!(self.stream.wait(limit), Err(CudaError::TimedOut(_)))
    }
}

/// A kernel that was launched.
///
/// A drop tells the kernel to end and waits briefly for that. If the kernel has not ended by then, everything that it
/// uses is kept until the process ends, because freeing or unloading would either wait for a kernel that may never
/// end, or remove memory that the kernel still reads.
#[derive(Debug)]
pub(crate) struct ActiveLaunch<K: UnderWay>(Option<K>);

impl<R: Halt> ActiveLaunch<Kept<R>> {
    /// The kernel that was launched last.
    pub(crate) fn new(
        resources: &Arc<R>,
        launcher: &Arc<Launcher>,
        stream: &Arc<Stream>,
        hold: DeferFrees,
    ) -> Self {
        let (resources, launcher, stream) = (Arc::clone(resources), Arc::clone(launcher), Arc::clone(stream));
        Self(Some(Kept { resources, _launcher: launcher, stream, _hold: hold }))
    }
}

impl<K: UnderWay> ActiveLaunch<K> {
    /// The kernel has ended: its resources go back to their owners.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }

    /// The kernel was told to end and has not: everything that it uses is kept until the process ends.
    pub(crate) fn abandon(mut self) {
        std::mem::forget(self.0.take());
    }
}

impl<K: UnderWay> Drop for ActiveLaunch<K> {
    fn drop(&mut self) {
        if let Some(kernel) = self.0.take() {
            kernel.halt();
            if !kernel.ends_within(GRACE_PERIOD) {
                std::mem::forget(kernel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Records how the kernel was handled.
    struct Noted {
        ends: bool,
        notes: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Noted {
        fn note(&self, what: &'static str) {
            self.notes.lock().expect("a list").push(what);
        }
    }

    impl Halt for Noted {
        fn halt(&self) {
            self.note("halt");
        }
    }

    impl UnderWay for Noted {
        fn ends_within(&self, _: Duration) -> bool {
            self.note("wait");
            self.ends
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            self.note("free");
        }
    }

    fn notes_of(ends: bool, act: impl FnOnce(ActiveLaunch<Noted>)) -> Vec<&'static str> {
        let notes = Arc::default();
        act(ActiveLaunch(Some(Noted { ends, notes: Arc::clone(&notes) })));
        let notes = notes.lock().expect("a list");
        notes.clone()
    }

    #[test]
    fn nothing_is_freed_before_the_kernel_was_stopped_and_has_ended() {
        assert_eq!(notes_of(true, drop), ["halt", "wait", "free"]);
    }

    #[test]
    fn nothing_is_freed_under_a_kernel_that_goes_on() {
        assert_eq!(notes_of(false, drop), ["halt", "wait"]);
        assert!(notes_of(false, ActiveLaunch::abandon).is_empty());
    }

    #[test]
    fn everything_is_freed_after_an_orderly_end() {
        assert_eq!(notes_of(false, ActiveLaunch::ended), ["free"]);
    }
}
