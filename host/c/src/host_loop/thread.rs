//! A loop on its own thread.

use super::{HostLoop, Shutdown};
use crate::cpu_loop::TransportFaults;
use crate::engine::Engine;
use crate::status::Fault;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread stays for graphs that outlast a stop, so that a later stop may succeed.
const LINGER: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct HostThread {
    ended: mpsc::Receiver<()>,
    thread: Option<JoinHandle<Result<(), Fault>>>,
    engine: Option<Arc<Engine>>,
    faults: Option<TransportFaults>,
    shutdown: Shutdown,
    stop: Duration,
}

impl HostThread {
    pub(crate) fn start(host_loop: HostLoop) -> Result<Self, Fault> {
        let (end, ended) = mpsc::channel::<()>();
        let (shutdown, stop) = (host_loop.shutdown, host_loop.stop);
        let (engine, faults) = (host_loop.engine.as_deref().cloned(), host_loop.faults());
        let thread = std::thread::Builder::new()
            .name("ringcall-protocol".to_owned())
            .spawn(move || {
                // Dropped at the end, also by a panic: that is what the receiver hears.
                let _end = end;
                host_loop.run(LINGER)
            })
            .map_err(|error| Fault::internal(format!("no thread for the dispatcher: {error}")))?;
        Ok(Self { ended, thread: Some(thread), engine, faults, shutdown, stop })
    }

    /// The graphs that it launches.
    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    /// What its transport did wrong, if it has one.
    pub(crate) fn faults(&self) -> Option<&TransportFaults> {
        self.faults.as_ref()
    }

    /// Sets the shutdown flag and waits, within the stop time. May be called again after an error.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.shutdown.set();
        if self.ended.recv_timeout(self.stop) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.settled()?;
            return Err(Fault::internal(format!(
                "the dispatcher did not end within {:?}: a handler does not return",
                self.stop
            )));
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Fault::internal("the dispatcher's thread panicked")),
            Some(Ok(ended)) => ended,
            // It has ended before, but perhaps not well.
            None => self.settled(),
        }
    }

    /// # Errors
    /// A graph still runs.
    fn settled(&self) -> Result<(), Fault> {
        let Some(engine) = &self.engine else { return Ok(()) };
        if self.thread.is_none() {
            engine.sweep(|_| ());
        }
        engine.ended()
    }
}
