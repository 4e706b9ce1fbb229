//! The record of the last launch of a program's trigger graph, which the host reads: three words of one launch.
//!
//! The host may read them at any time, and beside it only loads and stores are seen. So two words hold the
//! launch's number: one is written before the rest and one after it, and a reader loads them in the opposite
//! order: if both say the same, what was read in between is that launch's. `tests/loom_triggers.rs` has the
//! orders that matter.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::{barrier, hint};
use ringcall_wire::launch::control;

/// Tries of a [`read`]: launches are microseconds apart, and a try takes a fraction of one.
const TRIES: u32 = 1024;

/// The record of the last launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TriggerRecord {
    /// Launches so far, this one too.
    pub launches: u64,
    /// Its CUDA code.
    pub code: u64,
    /// When it was, ns of the device's global timer.
    pub at_ns: u64,
}

/// Publishes the record of a launch to the host. `control` is a whole control block; by one thread at a time, in the order of launches.
pub fn publish(control: &Words, record: TriggerRecord) {
    let TriggerRecord { launches, code, at_ns } = record;
    control.store(control::TRIGGER_BEGUN, launches, Ordering::Relaxed);
    // A reader that sees one of the next two stores sees that the record has begun to change.
    barrier::publish_to_peer();
    control.store(control::TRIGGER_ERROR, code, Ordering::Relaxed);
    control.store(control::TRIGGERED_AT, at_ns, Ordering::Relaxed);
    // Release: pairs with `try_read`.
    control.store(control::TRIGGERS, launches, Ordering::Release);
}

/// One poll, by words of the control block that are loaded with acquire; `None` while a record is being published.
pub fn try_read(word: impl Fn(usize) -> u64) -> Option<TriggerRecord> {
    read_once(word).ok()
}

/// The record of one launch. Does not wait: if each of some thousand polls finds a record being published, the device has died
/// while it published, and the words that it had stored are returned.
pub fn read(word: impl Fn(usize) -> u64) -> TriggerRecord {
    let mut tries = 0;
    loop {
        match read_once(&word) {
            Ok(record) => return record,
            Err(record) if tries == TRIES => return record,
            Err(_) => tries += 1,
        }
        hint::spin();
    }
}

/// `Err`: they may be of two launches.
fn read_once(word: impl Fn(usize) -> u64) -> Result<TriggerRecord, TriggerRecord> {
    let launches = word(control::TRIGGERS);
    let (code, at_ns) = (word(control::TRIGGER_ERROR), word(control::TRIGGERED_AT));
    let record = TriggerRecord { launches, code, at_ns };
    // Last: what was read of a later launch shows that it had begun.
    if word(control::TRIGGER_BEGUN) == launches { Ok(record) } else { Err(record) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use proptest::prelude::*;
    use ringcall_gpu::shared::Region;

    fn block() -> Words {
        Region::zeroed(control::WORDS * 8).expect("memory").words(0, control::WORDS).expect("inside")
    }

    fn record(launch: u64) -> TriggerRecord {
        TriggerRecord { launches: launch, code: launch * 10, at_ns: launch * 100 }
    }

    /// The stores of [`publish`], one at a time.
    fn step(block: &Words, step: u64) {
        let launch = step / 4 + 1;
        let TriggerRecord { launches, code, at_ns } = record(launch);
        let (word, value) = [
            (control::TRIGGER_BEGUN, launches),
            (control::TRIGGER_ERROR, code),
            (control::TRIGGERED_AT, at_ns),
            (control::TRIGGERS, launches),
        ][(step % 4) as usize];
        block.store(word, value, Ordering::Relaxed);
    }

    #[test]
    fn the_steps_are_those_of_publish() {
        let (one, other) = (block(), block());
        for launch in 1..=3 {
            publish(&one, record(launch));
            (0..4).for_each(|at| step(&other, 4 * (launch - 1) + at));
            for word in 0..control::WORDS {
                assert_eq!(one.load(word, Ordering::Relaxed), other.load(word, Ordering::Relaxed), "{word}");
            }
            assert_eq!(read(|word| one.load(word, Ordering::Acquire)), record(launch));
        }
    }

    proptest! {
        /// However many stores come between two loads, a reader gets the values of one launch.
        #[test]
        fn a_record_is_of_one_launch(between in proptest::collection::vec(0..6_u64, 1..40)) {
            let (block, stores, loads) = (block(), Cell::new(0), Cell::new(0));
            let word = |word| {
                let more = match between.get(loads.get()) {
                    Some(&more) => more,
                    // What has begun is published to its end.
                    None => (4 - stores.get() % 4) % 4,
                };
                (0..more).for_each(|_| {
                    step(&block, stores.get());
                    stores.set(stores.get() + 1);
                });
                loads.set(loads.get() + 1);
                block.load(word, Ordering::Acquire)
            };
            let read = read(word);
            prop_assert_eq!(read, record(read.launches));
        }
    }

    #[test]
    fn a_record_that_is_never_published_to_its_end_is_not_waited_for() {
        let block = block();
        (0..6).for_each(|at| step(&block, at));
        let word = |word| block.load(word, Ordering::Acquire);
        assert_eq!(try_read(word), None);
        assert_eq!(read(word), TriggerRecord { launches: 1, code: 20, at_ns: 100 });
    }
}
