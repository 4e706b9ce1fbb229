//! Messages to a service manager (systemd's `sd_notify`): ready, alive, stopping. Without a manager no message is
//! sent.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

/// The service manager that `NOTIFY_SOCKET` names, if there is one.
pub(super) struct Supervisor {
    /// How often it hears that the service is alive: at half of the time after which it would end the service.
    alive_every: Option<Duration>,
    told: Instant,
}

impl Supervisor {
    /// Says that set-up is over.
    pub(super) fn ready(line: &str) -> Self {
        let told = tell(&[NotifyState::Ready, NotifyState::Status(line)]);
        let alive_every = sd_notify::watchdog_enabled().filter(|_| told).map(|limit| limit / 2);
        Self { alive_every, told: Instant::now() }
    }

    /// Says that the service is alive, as often as it was asked for. It says so of the thread that calls; a dispatcher that
    /// hangs is counted and reported by its own watchdog.
    pub(super) fn alive(&mut self) {
        if self.alive_every.is_some_and(|every| self.told.elapsed() >= every) {
            if !tell(&[NotifyState::Watchdog]) {
                self.alive_every = None;
            }
            self.told = Instant::now();
        }
    }

    /// Says that the service ends.
    pub(super) fn stopping(self) {
        tell(&[NotifyState::Stopping]);
    }
}

/// Whether the manager was told. A service that works is not ended because its manager does not listen.
fn tell(states: &[NotifyState<'_>]) -> bool {
    let told = sd_notify::notify(states);
    if let Err(error) = &told {
        eprintln!("ringcall: the service manager was not told: {error}");
    }
    told.is_ok()
}
