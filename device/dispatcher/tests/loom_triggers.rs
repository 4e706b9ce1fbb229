//! What the host reads of trigger launches while they go on: words of one launch.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatcher::ring::triggers::{Figures, tell, try_read};
use ringcall_gpu::shared::{Region, Words};
use ringcall_wire::launch::control;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

type Tell = fn(&Words, Figures);
type Read = fn(&Words) -> Option<Figures>;

fn figures(launch: u64) -> Figures {
    Figures { launches: launch, code: launch * 10, at_ns: launch * 100 }
}

/// Two launches are told of while the host looks twice.
fn told_and_read(tell: Tell, read: Read) {
    let block = Region::zeroed(control::WORDS * 8).expect("memory").words(0, control::WORDS).expect("inside");
    let block = Arc::new(block);
    let device = {
        let block = Arc::clone(&block);
        thread::spawn(move || (1..=2).for_each(|launch| tell(&block, figures(launch))))
    };
    let mut before = 0;
    for _ in 0..2 {
        if let Some(seen) = read(&block) {
            assert_eq!(seen, figures(seen.launches), "of two launches");
            assert!(seen.launches >= before, "the figures go back");
            before = seen.launches;
        }
    }
    device.join().expect("device");
    assert_eq!(read(&block), Some(figures(2)));
}

fn acquire(block: &Words) -> Option<Figures> {
    try_read(|word| block.load(word, Acquire))
}

#[test]
fn figures_are_of_one_launch() {
    model(|| told_and_read(tell, acquire));
}

#[test]
fn mutant_read_without_the_first_word() {
    let found = broken(|| {
        told_and_read(tell, |block| {
            let word = |word| block.load(word, Acquire);
            let launches = word(control::TRIGGERS);
            let (code, at_ns) = (word(control::TRIGGER_ERROR), word(control::TRIGGERED_AT));
            // The count before and after.
            let figures = Figures { launches, code, at_ns };
            (word(control::TRIGGERS) == launches).then_some(figures)
        });
    });
    assert!(found.contains("of two launches"), "{found}");
}

#[test]
fn mutant_read_relaxed() {
    let found = broken(|| told_and_read(tell, |block| try_read(|word| block.load(word, Relaxed))));
    assert!(found.contains("of two launches"), "{found}");
}

#[test]
fn mutant_told_relaxed() {
    let found = broken(|| {
        told_and_read(
            |control, Figures { launches, code, at_ns }| {
                for (word, value) in [
                    (control::TRIGGER_BEGUN, launches),
                    (control::TRIGGER_ERROR, code),
                    (control::TRIGGERED_AT, at_ns),
                    (control::TRIGGERS, launches),
                ] {
                    control.store(word, value, Relaxed);
                }
            },
            acquire,
        );
    });
    assert!(found.contains("of two launches"), "{found}");
}
