//! The barrier of a team, in every order: everybody passes, no thread passes early, and who left is noticed.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::hint;
use ringcall_gpu::team::{Broken, SpinBarrier};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(body);
}

trait Barrier: Send + Sync + 'static {
    fn wait(&self) -> Result<(), Broken>;
    fn leave(&self);
}

impl Barrier for SpinBarrier {
    fn wait(&self) -> Result<(), Broken> {
        SpinBarrier::wait(self)
    }
    fn leave(&self) {
        SpinBarrier::leave(self, false);
    }
}

/// Two threads, each with a word that both read between two barriers, as a shuffle does; then they leave.
fn exchange(barrier: impl Barrier) {
    let barrier = Arc::new(barrier);
    let words = Arc::new([DeviceU64::new(0), DeviceU64::new(0)]);
    let lane = move |lane: usize, barrier: &dyn Barrier, words: &[DeviceU64; 2]| {
        for round in 1..=2 {
            words[lane].store(round, Relaxed);
            barrier.wait().expect("nobody left");
            assert_eq!(words[1 - lane].load(Relaxed), round, "an exchange of another round");
            barrier.wait().expect("nobody left");
        }
        barrier.leave();
    };
    let (others, theirs) = (Arc::clone(&barrier), Arc::clone(&words));
    let other = thread::spawn(move || lane(1, &*others, &theirs));
    lane(0, &*barrier, &words);
    other.join().expect("the other lane");
}

#[test]
fn exchanges_do_not_mix_and_leaving_breaks_nothing() {
    model(|| exchange(SpinBarrier::new(2)));
}

#[test]
fn a_wait_for_a_thread_that_is_gone_ends() {
    for panicked in [false, true] {
        model(move || {
            let barrier = Arc::new(SpinBarrier::new(2));
            let theirs = Arc::clone(&barrier);
            let other = thread::spawn(move || {
                let first = theirs.wait();
                theirs.leave(panicked);
                first
            });
            assert_eq!(barrier.wait(), Ok(()));
            let expected = if panicked { Broken::Panicked } else { Broken::Left };
            assert_eq!(barrier.wait(), Err(expected));
            assert_eq!(other.join().expect("the other lane"), Ok(()));
        });
    }
}

/// The barrier with one of its rules broken.
struct Mutant {
    arrived: DeviceU64,
    generation: DeviceU64,
    gone: DeviceU64,
    /// Opens before it resets the count.
    opens_first: bool,
    /// Does not load the generation again after it saw a thread gone.
    loads_once: bool,
    /// Opens without handing on what was written.
    relaxed: bool,
}

impl Mutant {
    fn new(opens_first: bool, loads_once: bool, relaxed: bool) -> Self {
        let [arrived, generation, gone] = [(); 3].map(|()| DeviceU64::new(0));
        Self { arrived, generation, gone, opens_first, loads_once, relaxed }
    }
}

impl Barrier for Mutant {
    fn wait(&self) -> Result<(), Broken> {
        let (open, load) = if self.relaxed { (Relaxed, Relaxed) } else { (Release, Acquire) };
        let generation = self.generation.load(Relaxed);
        if self.arrived.fetch_add(1, if self.relaxed { Relaxed } else { AcqRel }) == 1 {
            if self.opens_first {
                self.generation.store(generation + 1, open);
                self.arrived.store(0, Relaxed);
            } else {
                self.arrived.store(0, Relaxed);
                self.generation.store(generation + 1, open);
            }
            return Ok(());
        }
        for _ in 0..50 {
            if self.generation.load(load) != generation {
                return Ok(());
            }
            if self.gone.load(Acquire) != 0 && (self.loads_once || self.generation.load(load) == generation) {
                return Err(Broken::Left);
            }
            hint::spin();
        }
        panic!("waits for ever");
    }

    fn leave(&self) {
        self.gone.store(1, Release);
    }
}

#[test]
fn the_model_sees_each_broken_rule() {
    model(|| exchange(Mutant::new(false, false, false)));
    let rules = [(true, false, false), (false, true, false), (false, false, true)];
    for (opens_first, loads_once, relaxed) in rules {
        let run = || model(move || exchange(Mutant::new(opens_first, loads_once, relaxed)));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "{opens_first} {loads_once} {relaxed}: unseen");
    }
}
