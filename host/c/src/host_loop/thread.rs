//! A loop on its own thread.

use super::{HostLoop, Shutdown};
use crate::cpu_loop::TransportFaults;
use crate::engine::Engine;
use crate::status::Fault;
use ringcall::thread::{Supervised, Unfinished};
use std::sync::Arc;
use std::time::Duration;

/// How long the thread stays for graphs that outlast a stop, so that a later stop may succeed.
const LINGER: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct HostThread {
    thread: Supervised<Result<(), Fault>>,
    engine: Option<Arc<Engine>>,
    faults: Option<TransportFaults>,
    shutdown: Shutdown,
    stop: Duration,
}

impl HostThread {
    pub(crate) fn start(host_loop: HostLoop) -> Result<Self, Fault> {
        let (shutdown, stop) = (host_loop.shutdown, host_loop.stop);
        let (engine, faults) = (host_loop.engine.as_deref().cloned(), host_loop.faults());
        let thread = Supervised::start("dispatcher", None, move || host_loop.run(LINGER))
            .map_err(|error| Fault::internal(format!("no thread for the dispatcher: {error}")))?;
        Ok(Self { thread, engine, faults, shutdown, stop })
    }

    /// The graphs that it launches.
    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    /// Errors of its transport, if it has one.
    pub(crate) fn faults(&self) -> Option<&TransportFaults> {
        self.faults.as_ref()
    }

    /// Sets the shutdown flag and waits, within the stop time. May be called again after an error.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.shutdown.set();
        match self.thread.wait(self.stop) {
            Ok(ended) => ended,
            Err(Unfinished::Running) => {
                self.engine_ended()?;
                Err(Fault::internal(format!(
                    "the dispatcher did not end within {:?}: a handler does not return",
                    self.stop
                )))
            }
            // The thread has ended before, perhaps with an error.
            Err(Unfinished::Taken) => self.engine_ended(),
            Err(Unfinished::Panicked) => Err(Fault::internal("the dispatcher's thread panicked")),
        }
    }

    /// # Errors
    /// A graph still runs.
    fn engine_ended(&self) -> Result<(), Fault> {
        let Some(engine) = &self.engine else { return Ok(()) };
        if self.thread.is_over() {
            engine.sweep(|_| ());
        }
        engine.ended()
    }
}
