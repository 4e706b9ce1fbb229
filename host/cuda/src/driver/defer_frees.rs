//! A hold on frees: while the hold lives, nothing in its context is freed.

use super::Context;
use super::frees::DeferredFree;
use std::sync::Arc;

impl Context {
    /// Postpones every free in this context while the returned hold lives, through any handle of the process.
    ///
    /// Freeing memory or unloading code can wait for running kernels. Take a hold before a persistent kernel starts
    /// and drop it after that has ended, and nothing dropped in between can hang.
    pub fn hold_frees(self: &Arc<Self>) -> DeferFrees {
        DeferFrees::take(Arc::clone(self))
    }

    /// Drops `what` now, with this context current, or when the last [hold](Self::hold_frees) ends: for handles of other
    /// libraries, whose dropping frees device memory or unloads code.
    pub fn discard_later<T: Send + 'static>(&self, what: T) {
        self.discard(DeferredFree::Owned(Box::new(what)));
    }

    /// Frees `garbage` now, or when the last hold ends.
    pub(super) fn discard(&self, garbage: DeferredFree) {
        if let Some(now) = self.frees().postpone(garbage) {
            self.free_all(vec![now]);
        }
    }

    fn free_all(&self, garbage: Vec<DeferredFree>) {
        if !garbage.is_empty() && self.make_current().is_ok() {
            garbage.into_iter().for_each(|one| one.free(self.api()));
        }
    }
}

/// While a hold lives, nothing in its context is freed: see [`Context::hold_frees`].
#[derive(Debug)]
#[must_use = "frees are postponed only while the hold lives"]
pub struct DeferFrees {
    context: Arc<Context>,
}

impl DeferFrees {
    pub(super) fn take(context: Arc<Context>) -> Self {
        context.frees().hold();
        Self { context }
    }
}

impl Drop for DeferFrees {
    fn drop(&mut self) {
        let garbage = self.context.frees().release();
        self.context.free_all(garbage);
    }
}
