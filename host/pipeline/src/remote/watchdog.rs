//! The watchdog thread: answers requests that take too long, and declares a dispatcher lost that has failed.

use super::Health;
use super::in_flight::{Phase, UNDER_WAY};
use crate::state::State;
use ringcall::Status;
use ringcall::thread::{STOP_CHECK_INTERVAL, StopFlag};
use ringcall_gpu::clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Age of a request in flight from which the dispatcher's health is checked.
const HEALTH_CHECK_AGE: Duration = Duration::from_secs(1);

/// Why the dispatcher was lost.
pub(super) type Failure = Arc<Mutex<Option<String>>>;

pub(super) struct Watchdog {
    pub(super) state: Arc<State>,
    pub(super) health: Health,
    pub(super) timeout: Option<Duration>,
    pub(super) stop: StopFlag,
    pub(super) stop_consumer: StopFlag,
    pub(super) failure: Failure,
}

impl Watchdog {
    /// Runs until `stop` is set, then answers the remaining requests and tells the consumer to end once it has harvested them.
    pub(super) fn run(mut self) {
        let pause = self.timeout.map_or(STOP_CHECK_INTERVAL, |timeout| {
            (timeout / 8).clamp(Duration::from_micros(100), STOP_CHECK_INTERVAL)
        });
        while !self.stop.is_set() {
            self.check();
            std::thread::sleep(pause);
        }
        if let Some(in_flight) = &self.state.remote {
            in_flight.expire(UNDER_WAY, u64::MAX, Status::SHUTTING_DOWN, self.state.ring.shared());
        }
        self.stop_consumer.set();
    }

    /// Times requests out, and checks the dispatcher's health if a request is old or a response outstanding.
    fn check(&mut self) {
        let state = Arc::clone(&self.state);
        let Some(in_flight) = &state.remote else { return };
        let before = |span: Duration| {
            clock::now_ns().saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
        };
        if let Some(timeout) = self.timeout {
            in_flight.expire(UNDER_WAY, before(timeout), Status::TIMED_OUT, state.ring.shared());
        }
        if state.is_lost() {
            return;
        }
        let outstanding = in_flight.count(&[Phase::Expired]);
        if outstanding == 0 && !in_flight.any_older(before(HEALTH_CHECK_AGE)) {
            return;
        }
        let why = match (self.health)() {
            Err(why) => Some(why),
            Ok(()) if outstanding == state.requests().geometry().slots() => {
                Some("no slot of its ring was answered within the time allowed".to_owned())
            }
            Ok(()) => None,
        };
        if let Some(why) = why {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            state.lose();
            in_flight.expire(&[Phase::Sent], u64::MAX, Status::ENGINE_FAILED, state.ring.shared());
        }
    }
}
