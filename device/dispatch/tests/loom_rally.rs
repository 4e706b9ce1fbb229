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

/// How the leader makes one call, of number `i`.
type Lead = fn(&Model, &Told, u64, GridCall);

impl Model {
    /// The life of a follower in a block of its own: all calls, in turn, each with its request.
    fn follow(&self) {
        let (told, mut seen) = (Told::default(), 0);
        self.rally.seat(Block::single(), &told).follow(false, |call| {
            assert_eq!(call, CALLS[seen as usize], "another call");
            seen += 1;
            assert_eq!(self.input.load(Relaxed), seen, "another request");
            self.output.store(10 * seen, Relaxed);
        });
        assert_eq!(seen, CALLS.len() as u64, "each call once");
    }
}

fn calls(lead: Lead) {
    let model = Arc::new(Model::default());
    let follower = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.follow())
    };
    let told = Told::default();
    for (i, call) in (1..).zip(CALLS) {
        lead(&model, &told, i, call);
        assert_eq!(model.output.load(Relaxed), 10 * i, "no result");
    }
    model.rally.seat(Block::single(), &told).dismiss(Warp::single());
    follower.join().expect("the follower");
}

#[test]
fn each_block_runs_each_call_and_the_leader_has_its_results() {
    model(|| {
        calls(|model, told, i, call| {
            model.input.store(i, Relaxed);
            model.rally.seat(Block::single(), told).lead(Warp::single(), 1, call, || (), |_| ());
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
        });
    };
    assert!(broken(body).contains("another request"));
}

#[test]
fn mutant_results_read_before_they_are_gathered() {
    let body = || {
        calls(|model, told, i, call| {
            model.input.store(i, Relaxed);
            model.rally.call(told, call);
            model.rally.gather(0);
        });
    };
    let text = broken(body);
    assert!(text.contains("no result"), "{text}");
}

/// The words say what was called last; a block that was told of other calls takes them for its own.
#[test]
fn mutant_told_is_forgotten() {
    let body = || {
        calls(|model, _, i, call| {
            model.input.store(i, Relaxed);
            model.rally.call(&Told::default(), call);
            model.rally.gather(1);
        });
    };
    assert!(!broken(body).is_empty());
}
