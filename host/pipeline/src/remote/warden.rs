//! The thread that nothing waits on for ever: it answers what takes too long, and asks whether the dispatcher still works.

use super::Health;
use super::desks::{Phase, UNDER_WAY};
use crate::state::State;
use ringcall::Status;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between looks, unless requests may take less.
const LOOK: Duration = Duration::from_millis(20);
/// Without a limit for requests: after so long without an answer the dispatcher is asked how it is.
const SUSPICIOUS: Duration = Duration::from_secs(1);

/// Why the dispatcher answers no more.
pub(super) type Failure = Arc<Mutex<Option<String>>>;

pub(super) struct Warden {
    pub(super) state: Arc<State>,
    pub(super) health: Health,
    pub(super) timeout: Option<Duration>,
    pub(super) quit: Arc<DeviceU64>,
    pub(super) consumer_quit: Arc<DeviceU64>,
    pub(super) failure: Failure,
}

impl Warden {
    /// Until told to quit; then answers what is left, and tells the consumer to go when it has harvested that.
    pub(super) fn run(mut self) {
        let pause =
            self.timeout.map_or(LOOK, |timeout| (timeout / 8).clamp(Duration::from_micros(100), LOOK));
        while self.quit.load(Ordering::Acquire) == 0 {
            self.look();
            std::thread::park_timeout(pause);
        }
        if let Some(desks) = &self.state.remote {
            desks.expire(UNDER_WAY, u64::MAX, Status::SHUTTING_DOWN, self.state.ring.shared());
        }
        self.consumer_quit.store(1, Ordering::Release);
    }

    fn look(&mut self) {
        let state = Arc::clone(&self.state);
        let Some(desks) = &state.remote else { return };
        let before = |span: Duration| {
            clock::now_ns().saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
        };
        if let Some(timeout) = self.timeout {
            desks.expire(UNDER_WAY, before(timeout), Status::TIMED_OUT, state.ring.shared());
        }
        if state.is_lost() {
            return;
        }
        let owed = desks.count(&[Phase::Expired]);
        if owed == 0 && !desks.any_older(before(SUSPICIOUS)) {
            return;
        }
        let why = match (self.health)() {
            Err(why) => Some(why),
            Ok(()) if owed == state.requests().geometry().slots() => {
                Some("no slot of its ring was answered within the time allowed".to_owned())
            }
            Ok(()) => None,
        };
        if let Some(why) = why {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            state.lose();
            desks.expire(&[Phase::Sent], u64::MAX, Status::ENGINE_FAILED, state.ring.shared());
        }
    }
}
