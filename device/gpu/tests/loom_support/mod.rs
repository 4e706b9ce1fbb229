//! How a model is run, and how a mutant of it is shown to fail.
#![allow(dead_code, unreachable_pub)] // each model uses its part

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Explores every interleaving with up to `LOOM_MAX_PREEMPTIONS` preemptions (3 where the variable is not set), and
/// says how many there were.
pub fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    // A request is some 20 words written and read: longer than the default bound, which is for a few operations.
    builder.max_branches = builder.max_branches.max(20_000);
    let runs = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        *counted.lock().expect("one thread") += 1;
        body();
    });
    let runs: u32 = *runs.lock().expect("one thread");
    assert!(runs > 1, "nothing was explored");
    eprintln!("{runs} interleavings");
}

/// What the interleaving that breaks `body` says; empty if none does.
///
/// A model that cannot fail proves nothing: each rule of the protocol has a mutant in which only that rule is broken.
#[must_use]
pub fn broken(body: impl Fn() + Sync + Send + 'static) -> String {
    match catch_unwind(AssertUnwindSafe(|| model(body))) {
        Ok(()) => String::new(),
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "a panic without text".to_owned(),
        },
    }
}
