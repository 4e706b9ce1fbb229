//! No slot waits for another.

use crate::client::{Ask, Client, increments};
use crate::device::{Device, Door, Handler, increment};
use crate::harness::{Setup, Warps, entry, ring, slot_of, start};
use ringcall_dispatcher::ring::{Call, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::Warp;
use ringcall_protocol::{Response, RingMemory, SharedRing};
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::{HandlerKind, control};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;

const INCREMENT: u32 = 1;
const SLOW: u32 = 2;

/// Handler 0 adds one, handler 1 does so behind a door.
fn handlers(door: &Arc<Door>) -> Vec<Handler> {
    let door = Arc::clone(door);
    let slow = move |warp: Warp<'_>, call: &Call<'_>| {
        if warp.lane() == 0 {
            door.pass();
        }
        warp.sync();
        increment(warp, call)
    };
    vec![Box::new(increment), Box::new(slow)]
}

fn entries() -> Vec<ringcall_wire::launch::DeviceEntry> {
    vec![entry(INCREMENT, HandlerKind::Warp, 0), entry(SLOW, HandlerKind::Warp, 1)]
}

/// A response that the consumer does not take holds back its own slot, even where the producer does not mind,
/// and no other.
#[test]
fn an_untaken_response_holds_back_its_slot_alone() {
    for warps in [
        Warps { workers: 1, lanes: 1, maintenance_warp: false },
        Warps { workers: 3, lanes: 1, maintenance_warp: true },
        Warps { workers: 2, lanes: 2, maintenance_warp: true },
    ] {
        let parts = ring([16, 64, 64]);
        let door = Arc::new(Door::default());
        let device = Arc::new(Device::<false>::new(handlers(&door), None));
        let running = start(Setup::new(&parts, entries(), warps, RingOptions::default()), &device);
        let setup = &running.setup;
        let mut held = Client::new(setup);
        held.send(0, &Ask::increment(INCREMENT, vec![7; 9]));
        let slot = slot_of(&parts.ring, 0);
        setup.wait("the first answer, and the slot back", || {
            parts.ring.tx(slot) != flag::FREE && parts.ring.rx(slot) == flag::FREE
        });
        // A producer that does not look at the response flag.
        let second = RequestHeader::new(INCREMENT, 2, 77, 78);
        let raw = [&second.to_bytes()[..], &[1, 2]].concat();
        parts.ring.forge_request(slot, &raw, parts.ring.geometry().request_address(slot));
        let mut others = Client::of(setup, 1..16);
        others.drive(increments(&parts.ring, INCREMENT, 500));
        assert_ne!(parts.ring.rx(slot), flag::FREE, "served over a response that nobody took");
        held.take(0);
        // And now it is served.
        let mut answer = None;
        setup.wait("the second answer", || {
            answer = Response::probe(&parts.ring, slot);
            answer.is_some()
        });
        let answer = answer.expect("waited for");
        assert_eq!((answer.header().request_id, answer.header().result_len), (77, 2));
        answer.release(&parts.ring);
        running.drain();
    }
}

/// Two handlers that do not come back leave two of four warps: everybody else is answered meanwhile.
#[test]
fn a_slow_handler_holds_up_no_other_slot() {
    for lanes in [1, 2] {
        let parts = ring([16, 64, 64]);
        let door = Arc::new(Door::default());
        let device = Arc::new(Device::<false>::new(handlers(&door), None));
        let warps = Warps { workers: 4, lanes, maintenance_warp: true };
        let running = start(Setup::new(&parts, entries(), warps, RingOptions::default()), &device);
        let setup = &running.setup;
        let mut slow = Client::of(setup, 0..2);
        slow.send(0, &Ask::increment(SLOW, vec![1]));
        slow.send(1, &Ask::increment(SLOW, vec![2]));
        setup.wait("both slow calls", || door.reached() == 2);
        let mut others = Client::of(setup, 2..16);
        others.drive(increments(&parts.ring, INCREMENT, if lanes == 1 { 1000 } else { 200 }));
        assert!(!slow.is_answered(0) && !slow.is_answered(1));
        // The watchdog sees who is at work, and on what.
        setup.wait_rounds(2);
        let mut busy: Vec<u64> = (0..4)
            .map(|warp| setup.control.load(control::BUSY + warp * control::BUSY_WORDS, Relaxed))
            .filter(|&word| word != 0)
            .collect();
        busy.sort_unstable();
        assert_eq!(busy, [u64::from(SLOW) << 32 | 1, u64::from(SLOW) << 32 | 2]);
        door.open();
        slow.take(0);
        slow.take(1);
        running.drain();
    }
}

/// One warp that does everything says itself what it is about to call.
#[test]
fn a_lone_warp_reports_what_it_calls() {
    let parts = ring([4, 64, 64]);
    let door = Arc::new(Door::default());
    let device = Arc::new(Device::<false>::new(handlers(&door), None));
    let warps = Warps { workers: 1, lanes: 1, maintenance_warp: false };
    let running = start(Setup::new(&parts, entries(), warps, RingOptions::default()), &device);
    let mut client = Client::new(&running.setup);
    client.send(3, &Ask::increment(SLOW, vec![1]));
    running.setup.wait("the slow call", || door.reached() == 1);
    assert_eq!(running.setup.control.load(control::BUSY, Relaxed), u64::from(SLOW) << 32 | 4);
    door.open();
    client.take(3);
    running.drain();
}

/// Requests that come in pairs of slots faster than they are served: each call waits until the other slot is filled again.
pub(crate) struct Pump {
    calls: DeviceU64,
    stop: DeviceU64,
}

impl Pump {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { calls: DeviceU64::new(0), stop: DeviceU64::new(0) })
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Acquire)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(1, Relaxed);
    }

    /// A handler that comes back when slot 0 and slot 1 both hold a request: the poller always finds one there.
    pub(crate) fn handler(self: &Arc<Self>, ring: &SharedRing) -> Handler {
        let (pump, ring) = (Arc::clone(self), ring.clone());
        Box::new(move |warp, call| {
            if warp.lane() == 0 {
                let full = || (0..2).all(|slot| ring.rx(slot_of(&ring, slot)) != flag::FREE);
                while pump.stop.load(Relaxed) == 0 && !full() {
                    thread::yield_now();
                }
                pump.calls.fetch_add(1, Relaxed);
            }
            warp.sync();
            increment(warp, call)
        })
    }

    /// Keeps the two slots filled until `stop`.
    pub(crate) fn feed(self: &Arc<Self>, mut client: Client) -> thread::JoinHandle<Client> {
        let pump = Arc::clone(self);
        thread::spawn(move || {
            while pump.stop.load(Relaxed) == 0 {
                for slot in 0..2 {
                    client.try_take(slot);
                    client.try_send(slot, &Ask::increment(SLOW, vec![slot as u8]));
                }
                thread::yield_now();
            }
            client
        })
    }
}

/// Two slots that are always full do not keep the others from being served.
fn busy_slots_starve_nobody(maintenance_warp: bool) {
    let parts = ring([16, 64, 64]);
    let pump = Pump::new();
    let device = Arc::new(Device::<false>::new(vec![Box::new(increment), pump.handler(&parts.ring)], None));
    // Windows of four slots.
    let warps = Warps { workers: 1, lanes: 2, maintenance_warp };
    let running = start(Setup::new(&parts, entries(), warps, RingOptions::default()), &device);
    let feeder = pump.feed(Client::of(&running.setup, 0..2));
    running.setup.wait("the pump", || pump.calls() > 10);
    let mut other = Client::of(&running.setup, 9..10);
    other.send(9, &Ask::increment(INCREMENT, vec![5]));
    let before = pump.calls();
    running.setup.wait("an answer, or 1000 others", || other.is_answered(9) || pump.calls() > before + 1000);
    let starved = !other.is_answered(9);
    pump.stop();
    let mut client = feeder.join().expect("the feeder");
    client.drive([]);
    other.take(9);
    running.drain();
    assert!(!starved, "slots 0 and 1 were served 1000 times while slot 9 waited");
}

#[test]
fn busy_slots_do_not_starve_the_rest() {
    busy_slots_starve_nobody(true);
}

#[test]
fn busy_slots_do_not_starve_the_rest_of_a_lone_warp() {
    busy_slots_starve_nobody(false);
}
