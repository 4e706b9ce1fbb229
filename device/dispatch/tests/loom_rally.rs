//! How a grid's blocks are called, every interleaving: the rally that ships, with blocks of one thread.
//!
//! The leader stages a request, calls, and reads what the other block made of it. The second call is for another handler than
//! the first, the third for the same one.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatch::persistent::cooperative::{GridCall, Rally, Told};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::{Block, Warp};
use std::sync::atomic::Ordering::Relaxed;

/// What is called.
const CALLS: [GridCall; 3] = [call(1, 8), call(2, 8), call(2, 16)];

const fn call(handler: u64, arg_len: u32) -> GridCall {
    GridCall { handler, arg_len, capacity: 24 }
}

#[derive(Default)]
struct Model {
    rally: Rally,
    /// Number of the request that is staged, from 1.
    input: DeviceU64,
    /// What the follower made of it.
    output: DeviceU64,
}

/// How the leader makes one call, of number `i`; its result.
type Lead = fn(&Model, &Told, u64, GridCall) -> u64;

impl Model {
    /// The life of a follower in a block of its own: what it was called for, and the request that was there.
    fn follow(&self) -> Vec<(GridCall, u64)> {
        let (told, mut seen) = (Told::default(), Vec::new());
        self.rally.seat(Block::single(), &told).follow(false, |call| {
            let request = self.input.load(Relaxed);
            seen.push((call, request));
            self.output.store(10 * request, Relaxed);
        });
        seen
    }
}

fn calls(lead: Lead) {
    let model = Arc::new(Model::default());
    let follower = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.follow())
    };
    let (told, mut results) = (Told::default(), Vec::new());
    for (i, call) in (1..).zip(CALLS) {
        results.push(lead(&model, &told, i, call));
    }
    model.rally.seat(Block::single(), &told).dismiss(Warp::single());
    let seen = follower.join().expect("the follower");
    assert_eq!(seen, (1..).zip(CALLS).map(|(i, call)| (call, i)).collect::<Vec<_>>(), "calls");
    assert_eq!(results, [10, 20, 30], "results");
}

#[test]
fn each_block_runs_each_call_and_the_leader_has_its_results() {
    model(|| {
        calls(|model, told, i, call| {
            model.input.store(i, Relaxed);
            model.rally.seat(Block::single(), told).lead(Warp::single(), 1, call, || (), |_| ());
            model.output.load(Relaxed)
        });
    });
}

#[test]
fn mutant_staged_behind_the_call() {
    let body = || {
        calls(|model, told, i, call| {
            model.rally.call(told, call);
            model.input.store(i, Relaxed);
            model.rally.gather(1);
            model.output.load(Relaxed)
        });
    };
    assert!(broken(body).contains("calls"));
}

#[test]
fn mutant_results_read_before_they_are_gathered() {
    let body = || {
        calls(|model, told, i, call| {
            model.input.store(i, Relaxed);
            model.rally.call(told, call);
            let result = model.output.load(Relaxed);
            model.rally.gather(1);
            result
        });
    };
    assert!(broken(body).contains("results"));
}
