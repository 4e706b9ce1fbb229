//! A thread beside the service that turns connections until it is told to end.

use anyhow::Result;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks for a connection, which is also how fast a stop is noticed.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Between two looks at connections that there are.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(super) struct Server {
    address: SocketAddr,
    /// Dropped to end the thread.
    alive: Sender<()>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Calls `turn` again and again. It waits for no connection, and says how many there are.
    pub(super) fn start(
        name: &str,
        address: SocketAddr,
        mut turn: impl FnMut() -> usize + Send + 'static,
    ) -> Result<Self> {
        let (alive, until): (_, Receiver<()>) = channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            while until.try_recv() != Err(TryRecvError::Disconnected) {
                let connections = turn();
                std::thread::sleep(if connections == 0 { POLL_INTERVAL } else { LOOK_AGAIN });
            }
        })?;
        Ok(Self { address, alive, thread })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it; connections under way are closed as they are.
    pub(super) fn stop(self) {
        let Self { alive, thread, .. } = self;
        drop(alive);
        let _ = thread.join();
    }
}
