//! The watcher thread of a kernel. Until the kernel's end the thread may access the caller's flag and counter.
//!
//! The thread starts before the kernel: if the system refuses a thread, nothing is launched.

use crate::status::Fault;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

/// Notified when a thread has ended, also by a panic.
#[derive(Debug)]
pub(super) struct Watcher(Receiver<()>);

impl Watcher {
    /// Starts the thread, then launches the kernel and hands it to the thread. If nothing was launched, the thread
    /// ends.
    ///
    /// # Errors
    /// The system refuses a thread, in which case nothing is launched; or the launch fails.
    pub(super) fn launch<T: Send + 'static>(
        thread: Builder,
        launch: impl FnOnce() -> Result<T, Fault>,
        watch: impl FnOnce(T) + Send + 'static,
    ) -> Result<Self, Fault> {
        let (hand_over, launched) = channel();
        let (end, ended): (Sender<()>, _) = channel();
        let spawned = thread.spawn(move || {
            // Dropped last, also after a panic: from then on the caller's memory is not accessed.
            let _end = end;
            if let Ok(launched) = launched.recv() {
                watch(launched);
            }
        });
        spawned.map_err(|error| {
            Fault::internal(format!("no thread to watch the kernel, which was not launched: {error}"))
        })?;
        // The thread waits for it, so it is there to take it.
        let _ = hand_over.send(launch()?);
        Ok(Self(ended))
    }

    /// Whether the thread has ended within `limit`.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        self.0.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_over_when_its_thread_is() {
        let (go, gone) = channel::<()>();
        let watcher = Watcher::launch(
            Builder::new(),
            || Ok(gone),
            |gone| {
                let _ = gone.recv();
                panic!("an end like another");
            },
        );
        let watcher = watcher.expect("a thread");
        assert!(!watcher.wait(Duration::from_millis(1)));
        drop(go);
        assert!(watcher.wait(Duration::from_secs(20)));
        assert!(watcher.wait(Duration::ZERO), "asked again");
    }

    #[test]
    fn without_a_thread_nothing_is_launched() {
        // More than any address space has.
        let thread = Builder::new().stack_size(1 << 62);
        let fault =
            Watcher::launch(thread, || -> Result<(), _> { panic!("launched") }, drop).expect_err("refused");
        assert!(fault.why.contains("no thread to watch the kernel"), "{}", fault.why);
    }

    #[test]
    fn without_a_launch_there_is_nothing_to_watch() {
        let (seen, end) = channel::<()>();
        let watch = move |()| drop(seen);
        let fault = Watcher::launch(Builder::new(), || Err(Fault::internal("refused")), watch);
        assert_eq!(fault.expect_err("the launch's").why, "refused");
        // The thread has let go of everything, and has sent nothing.
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Err(RecvTimeoutError::Disconnected));
    }
}
