//! What the host reads of trigger launches while they go on: words of one launch.
#![cfg(loom)]

#[path = "../../protocol/tests/loom_support/mod.rs"]
mod loom_support;

use loom::sync::Arc;
use loom::thread;
use loom_support::*;
use ringcall_dispatcher::ring::triggers::{TriggerRecord, publish, try_read};
use ringcall_gpu::shared::{Region, Words};
use ringcall_wire::launch::control;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

type Publish = fn(&Words, TriggerRecord);
type Read = fn(&Words) -> Option<TriggerRecord>;

fn record(launch: u64) -> TriggerRecord {
    TriggerRecord { launches: launch, code: launch * 10, at_ns: launch * 100 }
}

/// Two launches are published while the host reads twice.
fn published_and_read(publish: Publish, read: Read) {
    let block = Region::zeroed(control::WORDS * 8).expect("memory").words(0, control::WORDS).expect("inside");
    let block = Arc::new(block);
    let device = {
        let block = Arc::clone(&block);
        thread::spawn(move || (1..=2).for_each(|launch| publish(&block, record(launch))))
    };
    let mut before = 0;
    for _ in 0..2 {
        if let Some(seen) = read(&block) {
            assert_eq!(seen, record(seen.launches), "of two launches");
            assert!(seen.launches >= before, "the record go back");
            before = seen.launches;
        }
    }
    device.join().expect("device");
    assert_eq!(read(&block), Some(record(2)));
}

fn acquire(block: &Words) -> Option<TriggerRecord> {
    try_read(|word| block.load(word, Acquire))
}

#[test]
fn a_record_is_of_one_launch() {
    model(|| published_and_read(publish, acquire));
}

#[test]
fn mutant_read_without_the_first_word() {
    let found = broken(|| {
        published_and_read(publish, |block| {
            let word = |word| block.load(word, Acquire);
            let launches = word(control::TRIGGERS);
            let (code, at_ns) = (word(control::TRIGGER_ERROR), word(control::TRIGGERED_AT));
            // The count before and after.
            let record = TriggerRecord { launches, code, at_ns };
            (word(control::TRIGGERS) == launches).then_some(record)
        });
    });
    assert!(found.contains("of two launches"), "{found}");
}

#[test]
fn mutant_read_relaxed() {
    let found = broken(|| published_and_read(publish, |block| try_read(|word| block.load(word, Relaxed))));
    assert!(found.contains("of two launches"), "{found}");
}

#[test]
fn mutant_published_relaxed() {
    let found = broken(|| {
        published_and_read(
            |control, TriggerRecord { launches, code, at_ns }| {
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
