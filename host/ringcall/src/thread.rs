//! Named, pinned threads that hand their state back within a deadline, and the flag that tells a thread to stop.

use crate::Wait;
use crate::pin::{PinReport, pin_current};
use ringcall_gpu::atomic::DeviceU64;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long after the deadline of a stop a thread may still take to notice the stop.
pub const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// The longest time that a thread sleeps or blocks between two checks for a stop.
pub const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A flag that tells threads to stop. Clones share the flag.
///
/// ```
/// use ringcall::thread::StopFlag;
///
/// let stop = StopFlag::default();
/// let seen = stop.clone();
/// assert!(!seen.is_set());
/// stop.set();
/// assert!(seen.is_set());
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<DeviceU64>);

impl StopFlag {
    /// Tells every thread that polls the flag to stop. What the caller wrote before is visible to a thread that sees the flag.
    pub fn set(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// Whether the flag is set.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Calls `poll` until the flag is set and a call that began after that finds nothing to do. `poll` returns whether it found
    /// anything; while it finds nothing, the thread waits as `wait` says.
    #[inline]
    pub fn poll_until_set(&self, wait: Wait, mut poll: impl FnMut() -> bool) {
        let mut waiter = wait.waiter();
        loop {
            // Read before the poll, which therefore sees everything that was there when the flag was set.
            let stopping = self.is_set();
            if poll() {
                waiter.reset();
            } else if stopping {
                return;
            } else {
                waiter.idle();
            }
        }
    }
}

/// Why [`Supervised::wait`] returned without the thread's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The thread still runs.
    #[error("the thread did not end in time")]
    Running,
    /// The thread panicked.
    #[error("the thread panicked")]
    Panicked,
    /// The thread has ended, and an earlier wait returned its state or its panic.
    #[error("the thread's state was taken before")]
    Taken,
}

/// A named, pinned thread whose end is awaited within a deadline. The thread hands back a `T`.
///
/// Dropping the handle neither stops the thread nor waits for it: the owner tells the thread to stop (by a [`StopFlag`], or in
/// its own way) and then [waits](Self::wait).
///
/// ```
/// use ringcall::thread::{StopFlag, Supervised, Unfinished};
/// use std::time::Duration;
///
/// let stop = StopFlag::default();
/// let mut counter = Supervised::start("counter", None, {
///     let stop = stop.clone();
///     move || {
///         let mut turns = 0_u64;
///         while !stop.is_set() {
///             turns += 1;
///         }
///         turns
///     }
/// })?;
/// assert_eq!(counter.wait(Duration::from_millis(1)), Err(Unfinished::Running));
/// stop.set();
/// assert!(counter.wait(Duration::from_secs(5))? > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Supervised<T> {
    state: Receiver<T>,
    thread: Option<JoinHandle<()>>,
    pin: PinReport,
}

impl<T: Send + 'static> Supervised<T> {
    /// Starts a thread that pins itself to `core`, if one is given, and then runs `body`. The operating system knows the thread
    /// as `ringcall-` and `name`.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        name: &str,
        core: Option<usize>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let builder = Builder::new().name(format!("ringcall-{}", name.replace(' ', "-")));
        Self::start_as(builder, name, core, body)
    }

    fn start_as(
        builder: Builder,
        name: &str,
        core: Option<usize>,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (hand_back, state) = channel();
        let (pinned, pin) = channel();
        let label = name.to_owned();
        let thread = builder.spawn(move || {
            let _ = pinned.send(pin_current(&label, core));
            let _ = hand_back.send(body());
        })?;
        let pin = pin.recv().map_err(io::Error::other)?;
        Ok(Self { state, thread: Some(thread), pin })
    }

    /// Waits for the thread's end. Returns what the thread hands back. May be called again after [`Unfinished::Running`].
    ///
    /// # Errors
    /// The thread does not end within `limit`, it panicked, or its state was returned before.
    pub fn wait(&mut self, limit: Duration) -> Result<T, Unfinished> {
        if self.thread.is_none() {
            return Err(Unfinished::Taken);
        }
        let state = match self.state.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => return Err(Unfinished::Running),
            ended => ended.map_err(|_| Unfinished::Panicked),
        };
        // The thread has nothing left to do.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        state
    }

    /// Waits until `until` for all of `threads`, and drops what they hand back. Returns the indices of the threads that still run.
    #[must_use]
    pub fn wait_all(threads: &mut [Self], until: Instant) -> Vec<usize> {
        let runs = |thread: &mut Self| {
            matches!(thread.wait(until.saturating_duration_since(Instant::now())), Err(Unfinished::Running))
        };
        (0..).zip(threads).filter_map(|(index, thread)| runs(thread).then_some(index)).collect()
    }
}

impl<T> Supervised<T> {
    /// The result of pinning the thread.
    #[must_use]
    pub const fn pin(&self) -> &PinReport {
        &self.pin
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_thread_hands_its_state_back_once() {
        let mut thread = Supervised::start("seven", None, || 7).expect("a thread");
        assert_eq!(thread.pin().thread, "seven");
        assert_eq!(thread.wait(LONG), Ok(7));
        assert!(thread.is_over());
        assert_eq!(thread.wait(LONG), Err(Unfinished::Taken));
    }

    #[test]
    fn what_was_there_when_the_flag_was_set_is_found() {
        let stop = StopFlag::default();
        let mut left = 3;
        stop.set();
        stop.poll_until_set(Wait::Spin, || {
            left -= 1;
            left > 0
        });
        assert_eq!(left, 0, "two that found something, and one that did not");
    }

    #[test]
    fn a_panic_is_an_end() {
        let mut thread =
            Supervised::<()>::start("panics", None, || panic!("as it should")).expect("a thread");
        assert_eq!(thread.wait(LONG), Err(Unfinished::Panicked));
        assert!(thread.is_over());
    }

    #[test]
    fn threads_that_still_run_are_named() {
        let stop = StopFlag::default();
        let start = |runs: bool| {
            let stop = stop.clone();
            let body = move || while runs && !stop.is_set() {};
            Supervised::start("one of several", None, body).expect("a thread")
        };
        let mut threads = [false, true, false, true].map(start);
        for index in [0, 2] {
            assert_eq!(threads[index].wait(LONG), Ok(()));
        }
        assert_eq!(Supervised::wait_all(&mut threads, Instant::now()), [1, 3]);
        stop.set();
        assert!(Supervised::wait_all(&mut threads, Instant::now() + LONG).is_empty());
    }

    #[test]
    fn a_thread_that_runs_is_awaited_again() {
        let stop = StopFlag::default();
        let seen = stop.clone();
        let mut thread = Supervised::start("until told", None, move || {
            while !seen.is_set() {
                std::thread::yield_now();
            }
        })
        .expect("a thread");
        assert_eq!(thread.wait(Duration::ZERO), Err(Unfinished::Running));
        assert!(!thread.is_over());
        stop.set();
        assert_eq!(thread.wait(LONG), Ok(()));
    }

    #[test]
    fn a_thread_that_the_system_refuses_is_an_error() {
        // More than any address space has.
        let builder = Builder::new().stack_size(1 << 62);
        assert!(Supervised::start_as(builder, "too large", None, || ()).is_err());
    }
}
