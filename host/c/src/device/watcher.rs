//! The end of the thread that watches a kernel: until then it may touch the caller's flag and count.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What the thread keeps to its end.
#[derive(Debug)]
pub(super) struct WatcherEnd {
    _sender: Sender<()>,
}

/// Hears when a thread has ended, however it did.
#[derive(Debug)]
pub(super) struct Watcher(Receiver<()>);

impl Watcher {
    pub(super) fn new() -> (WatcherEnd, Self) {
        let (sender, receiver) = channel();
        (WatcherEnd { _sender: sender }, Self(receiver))
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
        let (end, watcher) = Watcher::new();
        assert!(!watcher.wait(Duration::from_millis(1)));
        let (go, gone) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let _end = end;
            let _ = gone.recv();
            panic!("an end like another");
        });
        assert!(!watcher.wait(Duration::from_millis(1)));
        drop(go);
        assert!(watcher.wait(Duration::from_secs(20)));
        assert!(watcher.wait(Duration::ZERO), "asked again");
        assert!(thread.join().is_err());
    }
}
