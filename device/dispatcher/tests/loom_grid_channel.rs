//! How a grid's blocks are called, every interleaving: the grid channel that ships, with blocks of one thread.
//!
//! The poller writes a request to its staging buffer, calls, and reads what the other block made of it. The second call is for another handler than
//! the first, the third for the same one.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatcher::ring::Returned;
use ringcall_dispatcher::ring::grid::{CachedCall, CallTickets, GridCall, GridChannel, Participant};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::{Block, Warp};
use std::sync::atomic::Ordering::Relaxed;

/// What is called.
const CALLS: [GridCall; 3] = [call(1, 8), call(2, 8), call(2, 16)];

const fn call(handler: u64, arg_len: u32) -> GridCall {
    GridCall { handler, arg_len, capacity: 24, staging: 0 }
}

#[derive(Default)]
struct Model {
    channel: GridChannel,
    /// Number of the request in the staging buffer, from 1.
    input: DeviceU64,
    /// What the participant made of it.
    output: DeviceU64,
}

/// How the poller makes one call, of number `i`; its result.
type Caller = fn(&Model, &CachedCall, u64, GridCall) -> u64;

impl Model {
    /// The life of a participant in its own block: what it was called for, and the request that was there.
    fn follow(&self) -> Vec<(GridCall, u64)> {
        let (cached, mut seen) = (CachedCall::default(), Vec::new());
        self.channel.port(Block::single(), &cached).participate(Participant::Reporter, |call| {
            let request = self.input.load(Relaxed);
            seen.push((call, request));
            self.output.store(10 * request, Relaxed);
            Returned { status: 0, len: request as u32 }
        });
        seen
    }
}

fn calls(caller: Caller) {
    let model = Arc::new(Model::default());
    let participant = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.follow())
    };
    let (cached, mut results) = (CachedCall::default(), Vec::new());
    for (i, call) in (1..).zip(CALLS) {
        results.push(caller(&model, &cached, i, call));
    }
    model.channel.port(Block::single(), &cached).dismiss(Warp::single());
    let seen = participant.join().expect("the participant");
    assert_eq!(seen, (1..).zip(CALLS).map(|(i, call)| (call, i)).collect::<Vec<_>>(), "calls");
    assert_eq!(results, [10, 20, 30], "results");
}

#[test]
fn each_block_runs_each_call_and_the_poller_has_its_results() {
    model(|| {
        calls(|model, cached, i, call| {
            model.input.store(i, Relaxed);
            model.channel.port(Block::single(), cached).call_grid(Warp::single(), 1, call, || (), |_| ());
            model.output.load(Relaxed)
        });
    });
}

#[test]
fn mutant_copied_after_the_call() {
    let body = || {
        calls(|model, cached, i, call| {
            let number = model.channel.call(cached, call);
            model.input.store(i, Relaxed);
            model.channel.gather(number, 1);
            model.output.load(Relaxed)
        });
    };
    assert!(broken(body).contains("calls"));
}

#[test]
fn mutant_results_read_before_they_are_gathered() {
    let body = || {
        calls(|model, cached, i, call| {
            model.input.store(i, Relaxed);
            let number = model.channel.call(cached, call);
            let result = model.output.load(Relaxed);
            model.channel.gather(number, 1);
            result
        });
    };
    assert!(broken(body).contains("results"));
}

/// Requests and results of a poller that publishes a call before the last one is over: each has its own staging buffers.
#[derive(Default)]
struct Ahead {
    channel: GridChannel,
    inputs: [DeviceU64; 2],
    outputs: [DeviceU64; 2],
}

const fn call_with(staging: u32) -> GridCall {
    GridCall { handler: 1, arg_len: 8, capacity: 24, staging }
}

impl Ahead {
    fn follow(&self) -> usize {
        let (cached, mut calls) = (CachedCall::default(), 0);
        self.channel.port(Block::single(), &cached).participate(Participant::Reporter, |call| {
            let staging = call.staging as usize;
            self.outputs[staging].store(10 * self.inputs[staging].load(Relaxed), Relaxed);
            calls += 1;
            Returned::default()
        });
        calls
    }
}

/// A third call takes the first one's cell; `gathers` says whether it waits for that cell.
fn three_calls(gathers: bool) {
    let ahead = Arc::new(Ahead::default());
    let participant = {
        let ahead = Arc::clone(&ahead);
        thread::spawn(move || ahead.follow())
    };
    let cached = CachedCall::default();
    let call = |staging: u32, request: u64| {
        ahead.inputs[staging as usize].store(request, Relaxed);
        ahead.channel.call(&cached, call_with(staging))
    };
    let [first, second] = [call(0, 1), call(1, 2)];
    if gathers {
        ahead.channel.gather(first, 1);
        assert_eq!(ahead.outputs[0].load(Relaxed), 10, "results");
    }
    let third = call(0, 3);
    ahead.channel.gather(second, 1);
    assert_eq!(ahead.outputs[1].load(Relaxed), 20, "results");
    ahead.channel.gather(third, 1);
    assert_eq!(ahead.outputs[0].load(Relaxed), 30, "results");
    ahead.channel.end();
    assert_eq!(participant.join().expect("the participant"), 3, "calls");
}

#[test]
fn a_call_is_published_before_the_last_one_is_over() {
    model(|| three_calls(true));
}

#[test]
fn mutant_published_two_calls_before() {
    // The participant never sees the first one's word, and waits indefinitely: the model ends with that.
    assert!(!broken(|| three_calls(false)).is_empty());
}

/// Warps that call take turns: each call is published once, one after the other. Of a grid of no blocks, which is always through.
#[test]
fn warps_that_call_take_turns() {
    model(|| {
        let shared = Arc::new((GridChannel::default(), CachedCall::default(), CallTickets::default()));
        let ask = |shared: &(GridChannel, CachedCall, CallTickets), staging| {
            let (channel, cached, queue) = shared;
            channel.port(Block::single(), cached).call(Warp::single(), queue, 0, call_with(staging))
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || ask(&shared, 1))
        };
        ask(&shared, 0);
        other.join().expect("the other warp");
        assert_eq!(shared.0.call(&shared.1, call_with(0)), 2, "calls");
    });
}
