//! Life cycle of an object that any thread may launch again and again, and that is ended once.

use crate::handles::lock;
use crate::status::Fault;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
enum State<R> {
    Idle,
    /// A thread is launching it.
    Launching,
    /// Launched, and its end not yet seen.
    Launched(R),
    /// Ended: it is not launched again.
    Gone,
}

/// Allows one launch or end at a time: an object is not ended during a launch, and not launched after its end.
#[derive(Debug)]
pub(super) struct Lifecycle<R> {
    what: &'static str,
    state: Mutex<State<R>>,
    /// Notified when a launch is over.
    changed: Condvar,
}

impl<R> Lifecycle<R> {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, state: Mutex::new(State::Idle), changed: Condvar::new() }
    }

    /// Launches the object, which must not run. `has_ended` says whether an earlier launch is over.
    ///
    /// # Errors
    /// It runs, is being launched, or has been ended; or `start` failed, after which it is as before.
    pub(super) fn launch(
        &self,
        has_ended: impl FnOnce(&R) -> bool,
        start: impl FnOnce() -> Result<R, Fault>,
    ) -> Result<(), Fault> {
        let what = self.what;
        {
            let mut state = lock(&self.state);
            match &*state {
                State::Idle => (),
                State::Launched(run) if has_ended(run) => (),
                State::Launched(_) => return Err(Fault::invalid(format!("the {what} runs already"))),
                State::Launching => return Err(Fault::invalid(format!("the {what} is being launched"))),
                State::Gone => return Err(Fault::invalid(format!("the {what} was destroyed before"))),
            }
            *state = State::Launching;
        }
        // The lock is not held during a launch, which may take long, since an end waits only for its own limit. A
        // guard restores the state after a panic.
        let mut turn = LaunchTurn { cycle: self, next: State::Idle };
        turn.next = State::Launched(start()?);
        Ok(())
    }

    /// Ends the object, which must not run, so that it is not launched again. Waits up to `limit` for a launch in
    /// progress.
    ///
    /// # Errors
    /// It runs, is still being launched, or was ended before: nothing has changed.
    pub(super) fn end(&self, limit: Duration, has_ended: impl FnOnce(&R) -> bool) -> Result<(), Fault> {
        let (what, begin) = (self.what, Instant::now());
        let mut state = lock(&self.state);
        while matches!(*state, State::Launching) {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(Fault::invalid(format!(
                    "the {what} is being launched, for {limit:?} and longer"
                )));
            }
            let woken = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
        }
        match &*state {
            State::Launched(run) if !has_ended(run) => {
                Err(Fault::invalid(format!("the {what} runs: set the shutdown flag and wait for its stream")))
            }
            State::Gone => Err(Fault::invalid(format!("the {what} was destroyed before"))),
            State::Idle | State::Launching | State::Launched(_) => {
                *state = State::Gone;
                Ok(())
            }
        }
    }
}

/// Guard of a launch in progress: its drop sets the state that follows.
struct LaunchTurn<'a, R> {
    cycle: &'a Lifecycle<R>,
    next: State<R>,
}

impl<R> Drop for LaunchTurn<'_, R> {
    fn drop(&mut self) {
        *lock(&self.cycle.state) = std::mem::replace(&mut self.next, State::Idle);
        self.cycle.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::sync::{Arc, mpsc};

    const LONG: Duration = Duration::from_secs(20);

    fn why<T>(outcome: Result<T, Fault>) -> String {
        outcome.err().map(|fault| fault.why).unwrap_or_default()
    }

    #[test]
    fn what_runs_is_neither_launched_nor_ended() {
        let cycle = Lifecycle::new("graph");
        cycle.launch(|&()| false, || Ok(())).expect("idle");
        assert!(why(cycle.launch(|()| false, || Ok(()))).contains("runs already"));
        assert!(why(cycle.end(LONG, |()| false)).contains("runs: set"));
        cycle.launch(|()| true, || Ok(())).expect("the first one is over");
        cycle.end(LONG, |()| true).expect("over");
        assert!(why(cycle.launch(|()| true, || Ok(()))).contains("destroyed"));
        assert!(why(cycle.end(LONG, |()| true)).contains("destroyed"));
    }

    #[test]
    fn a_launch_that_fails_leaves_it_as_it_was() {
        let cycle = Lifecycle::new("graph");
        assert_eq!(why(cycle.launch(|&()| true, || Err(Fault::internal("no")))), "no");
        let panics = AssertUnwindSafe(|| cycle.launch(|()| true, || panic!("a fault of the driver's")));
        assert!(catch_unwind(panics).is_err());
        cycle.launch(|()| true, || Ok(())).expect("idle still");
    }

    #[test]
    fn an_end_waits_for_a_launch_under_way_and_no_longer_than_it_may() {
        let cycle = Arc::new(Lifecycle::new("graph"));
        let (entered, has_entered) = mpsc::channel();
        let (leave, may_leave) = mpsc::channel::<()>();
        let launching = std::thread::spawn({
            let cycle = Arc::clone(&cycle);
            move || {
                cycle.launch(
                    |_: &Arc<AtomicBool>| true,
                    || {
                        entered.send(()).expect("the test waits");
                        let _ = may_leave.recv();
                        Ok(Arc::default())
                    },
                )
            }
        });
        has_entered.recv().expect("it launches");
        assert!(why(cycle.end(Duration::from_millis(1), |_| true)).contains("being launched"));
        assert!(why(cycle.launch(|_| true, || Ok(Arc::default()))).contains("being launched"));
        let ending = std::thread::spawn({
            let cycle = Arc::clone(&cycle);
            // What was launched meanwhile runs.
            move || cycle.end(LONG, |run| run.load(Ordering::Acquire))
        });
        drop(leave);
        launching.join().expect("no panic").expect("nothing ran before");
        assert!(why(ending.join().expect("no panic")).contains("runs: set"));
    }

    #[test]
    fn of_a_launch_and_an_end_at_once_one_is_refused() {
        for _ in 0..200 {
            let cycle = Lifecycle::new("graph");
            let destroyed = AtomicI32::new(0);
            let (launched, ended) = std::thread::scope(|scope| {
                let launch = scope.spawn(|| {
                    cycle.launch(
                        |_| true,
                        || {
                            assert_eq!(destroyed.load(Ordering::Acquire), 0, "launched after its end");
                            std::thread::yield_now();
                            assert_eq!(destroyed.load(Ordering::Acquire), 0, "ended while it is launched");
                            Ok(())
                        },
                    )
                });
                let end = scope.spawn(|| {
                    cycle.end(LONG, |()| false).inspect(|()| destroyed.store(1, Ordering::Release))
                });
                (launch.join().expect("no panic"), end.join().expect("no panic"))
            });
            assert_ne!(launched.is_ok(), ended.is_ok());
        }
    }
}
