//! The watcher thread of a kernel. Until the kernel's end the thread may access the caller's flag and counter.
//!
//! The thread starts before the kernel: if the system refuses a thread, nothing is launched.

use crate::handles::lock;
use crate::status::Fault;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::Duration;

/// Notified when a thread has ended, also by a panic; keeps the fault that the thread returned.
#[derive(Debug)]
pub(crate) struct Watcher {
    ended: Receiver<()>,
    fault: Arc<Mutex<Option<Fault>>>,
}

impl Watcher {
    /// Starts the thread, then launches the kernel and hands it to the thread. If nothing was launched, the thread
    /// ends.
    ///
    /// # Errors
    /// The system refuses a thread, in which case nothing is launched; or the launch fails.
    pub(crate) fn launch<T: Send + 'static>(
        thread: Builder,
        launch: impl FnOnce() -> Result<T, Fault>,
        watch: impl FnOnce(T) -> Result<(), Fault> + Send + 'static,
    ) -> Result<Self, Fault> {
        let (hand_over, launched) = channel();
        let (end, ended): (Sender<()>, _) = channel();
        let fault = Arc::new(Mutex::new(None));
        let left = Arc::clone(&fault);
        let spawned = thread.spawn(move || {
            // Dropped last, also after a panic: from then on the caller's memory is not accessed.
            let _end = end;
            if let Ok(launched) = launched.recv()
                && let Err(fault) = watch(launched)
            {
                *lock(&left) = Some(fault);
            }
        });
        spawned.map_err(|error| {
            Fault::internal(format!("no thread to watch the kernel, which was not launched: {error}"))
        })?;
        // The thread waits for it, so it is there to take it.
        let _ = hand_over.send(launch()?);
        Ok(Self { ended, fault })
    }

    /// Whether the thread has ended within `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected)
    }

    /// What went wrong, as far as the thread has said so: it may still run.
    pub(crate) fn fault(&self) -> Option<Fault> {
        lock(&self.fault).clone()
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
        assert_eq!(watcher.fault(), None);
    }

    #[test]
    fn a_watcher_keeps_what_its_thread_has_left() {
        let left = || Err(Fault::internal("the kernel has failed"));
        let watcher = Watcher::launch(Builder::new(), || Ok(()), move |()| left()).expect("a thread");
        assert!(watcher.wait(Duration::from_secs(20)));
        assert_eq!(watcher.fault().expect("left").why, "the kernel has failed");
    }

    #[test]
    fn without_a_thread_nothing_is_launched() {
        // More than any address space has.
        let thread = Builder::new().stack_size(1 << 62);
        let fault =
            Watcher::launch(thread, || -> Result<(), _> { panic!("launched") }, Ok).expect_err("refused");
        assert!(fault.why.contains("no thread to watch the kernel"), "{}", fault.why);
    }

    #[test]
    fn without_a_launch_there_is_nothing_to_watch() {
        let (seen, end) = channel::<()>();
        let watch = move |()| {
            drop(seen);
            Ok(())
        };
        let fault = Watcher::launch(Builder::new(), || Err(Fault::internal("refused")), watch);
        assert_eq!(fault.expect_err("the launch's").why, "refused");
        // The thread has let go of everything, and has sent nothing.
        assert_eq!(end.recv_timeout(Duration::from_secs(20)), Err(RecvTimeoutError::Disconnected));
    }
}
