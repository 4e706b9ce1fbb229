//! A loop on a thread of its own.

use super::{HostLoop, Shutdown};
use crate::status::Fault;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct HostThread {
    ended: mpsc::Receiver<()>,
    thread: Option<JoinHandle<()>>,
    shutdown: Shutdown,
    stop: Duration,
}

impl HostThread {
    pub(crate) fn start(host_loop: HostLoop) -> Result<Self, Fault> {
        let (end, ended) = mpsc::channel::<()>();
        let (shutdown, stop) = (host_loop.shutdown, host_loop.stop);
        let thread = std::thread::Builder::new()
            .name("ringcall-dispatch".to_owned())
            .spawn(move || {
                // Dropped at the end, also by a panic: that is what the receiver hears.
                let _end = end;
                host_loop.run();
            })
            .map_err(|error| Fault::internal(format!("no thread for the dispatcher: {error}")))?;
        Ok(Self { ended, thread: Some(thread), shutdown, stop })
    }

    /// Sets the shutdown flag and waits, within the stop time. May be called again after an error.
    pub(crate) fn stop(&mut self) -> Result<(), Fault> {
        self.shutdown.set();
        if self.ended.recv_timeout(self.stop) == Err(mpsc::RecvTimeoutError::Timeout) {
            return Err(Fault::internal(format!(
                "the dispatcher did not end within {:?}: a handler does not return",
                self.stop
            )));
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Fault::internal("the dispatcher's thread panicked")),
            Some(Ok(())) | None => Ok(()),
        }
    }
}
