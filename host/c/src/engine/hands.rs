//! In whose hands an engine is: a loop's of this library, or its user's.
//!
//! Whoever finds an end is the only one who does. A loop counts and publishes the ends of its requests, so while it drives the
//! engine nobody else may look for them.

use super::Engine;
use crate::handles::lock;
use crate::status::Fault;
use core::ops::Deref;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How long calls under way are waited for by a loop that begins, and a loop by whoever ends the engine.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Hands {
    holders: Mutex<Holders>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Holders {
    /// A loop drives the engine.
    driven: bool,
    /// Calls under way that may find ends.
    calls: usize,
}

impl Hands {
    /// A call of the user's begins, which ends when this is dropped.
    ///
    /// # Errors
    /// A loop drives the engine.
    pub(super) fn call(&self) -> Result<Call<'_>, Fault> {
        let mut holders = lock(&self.holders);
        if holders.driven {
            return Err(driven());
        }
        holders.calls += 1;
        Ok(Call(self))
    }

    /// Whether no loop drives the engine, which is waited for.
    pub(super) fn wait_for_loop(&self) -> Result<(), Fault> {
        if self.settles(|holders| !holders.driven) { Ok(()) } else { Err(driven()) }
    }

    /// A loop begins, behind the calls under way.
    fn take(&self) -> Result<(), Fault> {
        {
            let mut holders = lock(&self.holders);
            if holders.driven {
                return Err(driven());
            }
            // From here on no call begins.
            holders.driven = true;
        }
        if self.settles(|holders| holders.calls == 0) {
            return Ok(());
        }
        self.release();
        Err(Fault::invalid("another thread is in the middle of a call on the engine"))
    }

    fn release(&self) {
        lock(&self.holders).driven = false;
        self.changed.notify_all();
    }

    /// Whether it is so within [`PATIENCE`].
    fn settles(&self, so: impl Fn(&Holders) -> bool) -> bool {
        let holders = lock(&self.holders);
        let waited = self.changed.wait_timeout_while(holders, PATIENCE, |holders| !so(holders));
        so(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

fn driven() -> Fault {
    Fault::invalid("a loop drives the engine: launches and ends are its own until it has returned")
}

/// A call of the user's.
#[derive(Debug)]
#[must_use]
pub(super) struct Call<'a>(&'a Hands);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.0.holders).calls -= 1;
        self.0.changed.notify_all();
    }
}

/// An engine in a loop's hands, until this is dropped.
#[derive(Debug)]
pub(crate) struct Driven(Arc<Engine>);

impl Driven {
    /// # Errors
    /// Another loop drives it, or somebody is in the middle of a call that may find ends.
    pub(crate) fn new(engine: Arc<Engine>) -> Result<Self, Fault> {
        engine.hands.take()?;
        Ok(Self(engine))
    }
}

impl Deref for Driven {
    type Target = Arc<Engine>;

    fn deref(&self) -> &Arc<Engine> {
        &self.0
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.hands.release();
    }
}
