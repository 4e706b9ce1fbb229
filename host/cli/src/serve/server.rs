//! Thread of a small server, which serves connections until it is told to end.

use anyhow::Result;
use ringcall::thread::{GRACE_PERIOD, STOP_CHECK_INTERVAL, StopFlag, Supervised};
use std::net::SocketAddr;
use std::time::Duration;

/// The pause between two polls of the open connections.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(super) struct Server {
    address: SocketAddr,
    stop: StopFlag,
    thread: Supervised<()>,
}

impl Server {
    /// Calls `turn` repeatedly. `turn` does not block, and returns the number of open connections.
    pub(super) fn start(
        name: &str,
        address: SocketAddr,
        mut turn: impl FnMut() -> usize + Send + 'static,
    ) -> Result<Self> {
        let stop = StopFlag::default();
        let seen = stop.clone();
        let thread = Supervised::start(name, None, move || {
            while !seen.is_set() {
                let connections = turn();
                std::thread::sleep(if connections == 0 { STOP_CHECK_INTERVAL } else { POLL_INTERVAL });
            }
        })?;
        Ok(Self { address, stop, thread })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the thread, which closes open connections.
    pub(super) fn stop(mut self) {
        self.stop.set();
        let _ = self.thread.wait(GRACE_PERIOD);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.set();
    }
}
