//! Lease of an engine: either a loop of this library or the calls of the engine's user collect the ends of its
//! launches.
//!
//! An end is reported once, to the caller that finds it. A loop counts and publishes the ends of its requests, so
//! while the loop holds the lease, no call of the user collects ends.

use super::Engine;
use crate::handles::lock;
use crate::status::Fault;
use core::ops::Deref;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How long a new loop waits for calls in progress, and how long the end of an engine waits for its loop.
const LEASE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct LeaseLock {
    state: Mutex<LeaseState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// A loop drives the engine.
    driven: bool,
    /// Calls in progress that may collect ends.
    calls: usize,
}

impl LeaseLock {
    /// Begins a call of the user, which ends when the returned value is dropped.
    ///
    /// # Errors
    /// A loop drives the engine.
    pub(super) fn call(&self) -> Result<Call<'_>, Fault> {
        let mut state = lock(&self.state);
        if state.driven {
            return Err(driven());
        }
        state.calls += 1;
        Ok(Call(self))
    }

    /// Waits until no loop drives the engine.
    pub(super) fn wait_for_loop(&self) -> Result<(), Fault> {
        if self.becomes(|state| !state.driven) { Ok(()) } else { Err(driven()) }
    }

    /// Takes the lease for a loop, after the calls in progress.
    fn take(&self) -> Result<(), Fault> {
        {
            let mut state = lock(&self.state);
            if state.driven {
                return Err(driven());
            }
            // From here on no call begins.
            state.driven = true;
        }
        if self.becomes(|state| state.calls == 0) {
            return Ok(());
        }
        self.release();
        Err(Fault::invalid("another thread is in the middle of a call on the engine"))
    }

    fn release(&self) {
        lock(&self.state).driven = false;
        self.changed.notify_all();
    }

    /// Whether the condition holds within [`LEASE_TIMEOUT`].
    fn becomes(&self, so: impl Fn(&LeaseState) -> bool) -> bool {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, LEASE_TIMEOUT, |state| !so(state));
        so(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

fn driven() -> Fault {
    Fault::invalid("a loop drives the engine: launches and ends are its own until it has returned")
}

/// A call of the user.
#[derive(Debug)]
#[must_use]
pub(super) struct Call<'a>(&'a LeaseLock);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
        self.0.changed.notify_all();
    }
}

/// An engine that a loop drives until the lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Engine>);

impl Lease {
    /// # Errors
    /// Another loop drives it, or a thread is in the middle of a call that may find ends.
    pub(crate) fn new(engine: Arc<Engine>) -> Result<Self, Fault> {
        engine.lease.take()?;
        Ok(Self(engine))
    }
}

impl Deref for Lease {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.lease.release();
    }
}
