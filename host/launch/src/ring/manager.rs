//! Manager of several dispatchers, on one device or several, which are started and stopped together.

use super::{DeviceDispatcher, DeviceError, Running, StopReport, Wired};
use std::time::{Duration, Instant};

/// A dispatcher that did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("dispatcher `{name}`: {error}")]
pub struct NotStarted {
    /// Its name.
    pub name: String,
    /// Why.
    pub error: Box<DeviceError>,
}

/// Owns dispatchers by name. Each has its own stream, linked module and barrier, so that dispatchers are independent:
/// rings, kernels and devices may all differ, and several dispatchers may share one ring
/// ([`DispatcherOptions::shared_ring`](super::DispatcherOptions::shared_ring)).
#[derive(Debug, Default)]
pub struct Manager {
    wired: Vec<(String, DeviceDispatcher<Wired>)>,
    running: Vec<(String, DeviceDispatcher<Running>)>,
}

impl Manager {
    /// An empty manager.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a dispatcher.
    #[must_use]
    pub fn with(mut self, name: &str, dispatcher: DeviceDispatcher<Wired>) -> Self {
        self.wired.push((name.to_owned(), dispatcher));
        self
    }

    /// Starts every stopped dispatcher, in the order in which they were added. If one fails, the dispatchers before
    /// it keep running.
    ///
    /// # Errors
    /// The dispatcher that failed, and why.
    pub fn start(&mut self) -> Result<(), NotStarted> {
        while !self.wired.is_empty() {
            let (name, dispatcher) = self.wired.remove(0);
            match dispatcher.start() {
                Ok(running) => self.running.push((name, running)),
                Err(error) => return Err(NotStarted { name, error: Box::new(error) }),
            }
        }
        Ok(())
    }

    /// The running dispatcher of this name.
    #[must_use]
    pub fn running(&self, name: &str) -> Option<&DeviceDispatcher<Running>> {
        self.running.iter().find(|(known, _)| known == name).map(|(_, dispatcher)| dispatcher)
    }

    /// Stops every running dispatcher in the reverse order of their start, within `deadline` for all of them
    /// together. Returns the report of each.
    pub fn stop(&mut self, deadline: Duration) -> Vec<(String, StopReport)> {
        let begin = Instant::now();
        let mut reports = Vec::new();
        while let Some((name, dispatcher)) = self.running.pop() {
            let stopped = dispatcher.stop(deadline.saturating_sub(begin.elapsed()));
            if let Some(dispatcher) = stopped.dispatcher {
                self.wired.insert(0, (name.clone(), dispatcher));
            }
            reports.push((name, stopped.report));
        }
        reports
    }
}
