//! One warp that does everything: when request flags are cleared, and in which order it serves.

use crate::client::{Ask, Client};
use crate::device::{Device, increment};
use crate::harness::{Setup, Warps, entry, ring, slot_of, start};
use ringcall_dispatcher::ring::{Call, Returned, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::Warp;
use ringcall_protocol::{Response, SharedRing, Vacant};
use ringcall_wire::Counter;
use ringcall_wire::launch::HandlerKind;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

const FUNCTION: u32 = 11;
const LONE: Warps = Warps { workers: 1, lanes: 2, maintenance_warp: false };

/// A slot is vacant again although nothing else comes.
#[test]
fn a_slot_that_was_answered_becomes_vacant() {
    for slots in [1, 2, 3, 16] {
        let parts = ring([slots, 64, 64]);
        let device = Arc::new(Device::<false>::new(vec![Box::new(increment)], None));
        let entries = vec![entry(FUNCTION, HandlerKind::Warp, 0)];
        let running = start(Setup::new(&parts, entries, LONE, RingOptions::default()), &device);
        let mut client = Client::new(&running.setup);
        for i in 0..40 {
            client.send(slots - 1, &Ask::increment(FUNCTION, vec![i]));
            client.take(slots - 1);
        }
        running.drain();
    }
}

/// Every poll that follows an answer finds a request, since the handler puts the next one into the ring; the slots become
/// vacant in time all the same.
#[test]
fn slots_become_vacant_where_no_poll_finds_nothing() {
    const CALLS: u64 = 100;
    const STUCK: u64 = 1 << 32;
    for slots in [2, 3, 4, 8] {
        let parts = ring([slots, 64, 64]);
        let (memory, calls) = (parts.ring.clone(), Arc::new(DeviceU64::new(0)));
        let counted = Arc::clone(&calls);
        let handler = move |warp: Warp<'_>, call: &Call<'_>| {
            if warp.lane() == 0 {
                let i = counted.fetch_add(1, Relaxed);
                let at = |i: u64| slot_of(&memory, (i % u64::from(slots)) as u32);
                if i > 0 {
                    Response::probe(&memory, at(i - 1)).expect("the answer before").release(&memory);
                }
                match Vacant::probe(&memory, at(i + 1)) {
                    Some(next) if i + 1 < CALLS => {
                        next.submit(&memory, FUNCTION, i as u32 + 1, 0, &[0; 8]).expect("8 bytes");
                    }
                    Some(_) => (),
                    // Nobody but this warp could clear it.
                    None => counted.store(STUCK, Relaxed),
                }
            }
            Returned { status: 0, len: call.arg_len }
        };
        let device = Arc::new(Device::<false>::new(vec![Box::new(handler)], None));
        let entries = vec![entry(FUNCTION, HandlerKind::Warp, 0)];
        let running = start(Setup::new(&parts, entries, LONE, RingOptions::default()), &device);
        let first = Vacant::probe(&parts.ring, slot_of(&parts.ring, 0)).expect("nothing was asked yet");
        first.submit(&parts.ring, FUNCTION, 0, 0, &[0; 8]).expect("8 bytes");
        let last = slot_of(&parts.ring, ((CALLS - 1) % u64::from(slots)) as u32);
        running.setup.wait("all calls", || calls.load(Relaxed) >= CALLS);
        assert_eq!(calls.load(Relaxed), CALLS, "of {slots} slots none became vacant");
        running.setup.wait("the last answer", || match Response::probe(&parts.ring, last) {
            Some(response) => {
                response.release(&parts.ring);
                true
            }
            None => false,
        });
        assert_eq!(running.drain().counters.get(Counter::Completed), CALLS);
    }
}

/// Requests that are there together are served around the ring, so that one that comes after the last one served waits for
/// those that were there.
#[test]
fn what_comes_together_is_served_around_the_ring() {
    let parts = ring([4, 64, 64]);
    let memory = parts.ring.clone();
    let order = Arc::new(Mutex::new(Vec::new()));
    let served = Arc::clone(&order);
    let submit = |memory: &SharedRing, slot: u32| {
        let vacant = Vacant::probe(memory, slot_of(memory, slot)).expect("nobody asked there yet");
        vacant.submit(memory, FUNCTION, slot, 0, &[slot as u8; 8]).expect("8 bytes");
    };
    let handler = move |warp: Warp<'_>, call: &Call<'_>| {
        if warp.lane() == 0 {
            let slot = call.input.word(3) as u8;
            let mut served = served.lock().expect("no panic");
            if served.is_empty() {
                submit(&memory, 0);
            }
            served.push(slot);
        }
        Returned { status: 0, len: call.arg_len }
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(handler)], None));
    for slot in [3, 1, 2] {
        submit(&parts.ring, slot);
    }
    let entries = vec![entry(FUNCTION, HandlerKind::Warp, 0)];
    let running = start(Setup::new(&parts, entries, LONE, RingOptions::default()), &device);
    for slot in 0..4 {
        running.setup.wait("an answer", || match Response::probe(&parts.ring, slot_of(&parts.ring, slot)) {
            Some(response) => {
                response.release(&parts.ring);
                true
            }
            None => false,
        });
    }
    assert_eq!(running.drain().counters.get(Counter::Completed), 4);
    assert_eq!(*order.lock().expect("no panic"), [1, 2, 3, 0]);
}

/// What was answered is no longer its dispatcher's when the next handler runs, however long that takes.
#[test]
fn an_answered_slot_is_vacant_while_the_next_handler_runs() {
    let parts = ring([16, 64, 64]);
    let memory = parts.ring.clone();
    let (calls, vacant) = (Arc::new(DeviceU64::new(0)), Arc::new(DeviceU64::new(0)));
    let (counted, found) = (Arc::clone(&calls), Arc::clone(&vacant));
    let handler = move |warp: Warp<'_>, call: &Call<'_>| {
        if warp.lane() == 0 && counted.fetch_add(1, Relaxed) == 1 {
            let first = slot_of(&memory, 0);
            Response::probe(&memory, first).expect("the answer before").release(&memory);
            found.store(u64::from(Vacant::probe(&memory, first).is_some()), Relaxed);
        }
        Returned { status: 0, len: call.arg_len }
    };
    let device = Arc::new(Device::<false>::new(vec![Box::new(handler)], None));
    for slot in [0, 1] {
        let vacant = Vacant::probe(&parts.ring, slot_of(&parts.ring, slot)).expect("nothing was asked yet");
        vacant.submit(&parts.ring, FUNCTION, slot, 0, &[0; 8]).expect("8 bytes");
    }
    let entries = vec![entry(FUNCTION, HandlerKind::Warp, 0)];
    let setup = Setup::new(&parts, entries, LONE, RingOptions::default()).without_batches();
    let running = start(setup, &device);
    running.setup.wait("the second answer", || match Response::probe(&parts.ring, slot_of(&parts.ring, 1)) {
        Some(response) => {
            response.release(&parts.ring);
            true
        }
        None => false,
    });
    assert_eq!(running.drain().counters.get(Counter::Completed), 2);
    assert_eq!((calls.load(Relaxed), vacant.load(Relaxed)), (2, 1));
}
