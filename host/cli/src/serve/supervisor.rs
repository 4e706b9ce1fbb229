//! Messages to a service manager (systemd's `sd_notify`): ready, alive, stopping. Without a manager nothing is sent.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

/// The service manager that `NOTIFY_SOCKET` names, if there is one.
pub(super) struct Supervisor {
    /// The interval of signs of life: half of the time after which the manager would end the service.
    alive_every: Option<Duration>,
    told: Instant,
}

impl Supervisor {
    pub(super) fn ready(line: &str) -> Self {
        let told = tell(&[NotifyState::Ready, NotifyState::Status(line)]);
        let alive_every = sd_notify::watchdog_enabled().filter(|_| told).map(|limit| limit / 2);
        Self { alive_every, told: Instant::now() }
    }

    /// Reports that the service is alive, at the requested interval. This covers the calling thread; a dispatcher's own
    /// watchdog counts and reports a hanging dispatcher.
    pub(super) fn alive(&mut self) {
        if self.alive_every.is_some_and(|every| self.told.elapsed() >= every) {
            if !tell(&[NotifyState::Watchdog]) {
                self.alive_every = None;
            }
            self.told = Instant::now();
        }
    }

    pub(super) fn stopping(self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// Whether the manager received the message. A service does not end because its manager does not listen.
fn tell(states: &[NotifyState<'_>]) -> bool {
    let told = sd_notify::notify(states);
    if let Err(error) = &told {
        eprintln!("ringcall: the service manager was not told: {error}");
    }
    told.is_ok()
}
