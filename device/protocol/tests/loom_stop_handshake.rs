//! The handshake between a submission and a stop, as the pipeline's `State` has it.
//!
//! The submission announces itself, then looks whether the pipeline runs. The stop says that it does not, then looks
//! whether a submission is under way. Either the submission sees the stop and writes nothing, or the stop sees the
//! submission and waits for it: never is a request written into a ring that was found drained.
//!
//! That is a store followed by a load on both sides, the one pattern that acquire and release do not order. Both sides
//! touch the announcement with a read-modify-write, which always finds the latest value: whichever comes second has
//! seen everything before the first.
#![cfg(loom)]

mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

#[derive(Default)]
struct State {
    stopped: DeviceU64,
    submitting: DeviceU64,
    /// Stands for the ring: requests written.
    written: DeviceU64,
}

struct Handshake {
    announce: fn(&DeviceU64),
    is_submitting: fn(&DeviceU64) -> bool,
}

impl Handshake {
    fn run(&'static self) {
        let state = Arc::new(State::default());
        let injector = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                for i in 1..3 {
                    (self.announce)(&state.submitting);
                    let running = state.stopped.load(SeqCst) == 0;
                    if running {
                        state.written.store(i, Relaxed);
                    }
                    state.submitting.store(0, Release);
                    if !running {
                        break;
                    }
                }
            })
        };
        state.stopped.store(1, SeqCst);
        // The stop waits here for as long as this is true; the model gives up after two looks.
        let drained =
            (0..2).find(|_| !(self.is_submitting)(&state.submitting)).map(|_| state.written.load(Relaxed));
        injector.join().expect("injector");
        if let Some(drained) = drained {
            assert_eq!(state.written.load(Relaxed), drained, "written after the ring was found drained");
        }
    }
}

#[test]
fn a_stop_lets_a_submission_finish_or_refuses_it() {
    static RIGHT: Handshake = Handshake {
        announce: |word| {
            word.swap(1, SeqCst);
        },
        is_submitting: |word| word.fetch_or(0, SeqCst) != 0,
    };
    model(|| RIGHT.run());
}

/// The stop looks with a plain load: it may find the value from before the announcement although the submission did not
/// see the stop. (Sequentially consistent loads would do on real machines. Loom has them as acquire loads, so that form
/// could not be checked.)
#[test]
fn mutant_stop_polls_with_a_load() {
    static WRONG: Handshake = Handshake {
        announce: |word| {
            word.swap(1, SeqCst);
        },
        is_submitting: |word| word.load(SeqCst) != 0,
    };
    assert!(broken(|| WRONG.run()).contains("found drained"));
}

/// The submission announces itself with a store.
#[test]
fn mutant_announced_with_a_store() {
    static WRONG: Handshake = Handshake {
        announce: |word| word.store(1, Release),
        is_submitting: |word| word.fetch_or(0, SeqCst) != 0,
    };
    assert!(broken(|| WRONG.run()).contains("found drained"));
}
