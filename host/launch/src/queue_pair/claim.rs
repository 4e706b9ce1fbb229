//! Exclusive use of a queue pair by one dispatcher, however many handles of the queue pair exist.

use crate::ring::DeviceError;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether a dispatcher has claimed the queue pair. Clones share the claim.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim(Arc<AtomicBool>);

/// A claim that is held until the guard is dropped.
#[derive(Debug)]
pub(crate) struct Claimed(Option<Arc<AtomicBool>>);

impl Claim {
    /// Takes the claim. `what` names the claimed thing in the error.
    pub(super) fn take(&self, what: &'static str) -> Result<Claimed, DeviceError> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Err(DeviceError::Claimed(what));
        }
        Ok(Claimed(Some(Arc::clone(&self.0))))
    }
}

impl Claimed {
    /// Keeps the claim until the process ends.
    pub(crate) fn for_ever(mut self) {
        self.0 = None;
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(taken) = self.0.take() {
            taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_of_all_who_hold_a_clone() {
        let claim = Claim::default();
        let other = claim.clone();
        let taken = claim.take("it").expect("free");
        assert_eq!(other.take("it").err(), Some(DeviceError::Claimed("it")));
        drop(taken);
        let again = other.take("it").expect("given back");
        assert!(claim.take("it").is_err());
        drop(again);
    }

    #[test]
    fn for_ever_is_for_ever() {
        let claim = Claim::default();
        claim.take("it").expect("free").for_ever();
        assert!(claim.clone().take("it").is_err());
    }
}
