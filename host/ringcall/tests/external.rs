//! Functions that an external executor answers in the slot, and rings with the rules of other libraries.

use ringcall::dispatcher::{DispatchStep, HostDispatcher, Stepped};
use ringcall::external::{BadRequests, ExecutorClaim, ExternalExecutor, LaunchError, Marks, RingCompat};
use ringcall::wire::counter::Counter;
use ringcall::wire::{HandlerSchema, RequestHeader, ResponseHeader, flag};
use ringcall::{Client, FunctionId, FunctionTable, Ring, RingConfig, Status};
use ringcall_protocol::slot::Response;
use ringcall_protocol::{RingMemory, SharedRing, ring::SlotIndex};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);
/// A routing key that the worker is not for.
const NOBODYS_KEY: u64 = 99;

/// What a test and its one worker share.
#[derive(Default)]
struct Bench {
    under_way: Option<SlotIndex>,
    /// The worker may finish.
    finish: bool,
    starts: Vec<(u32, u64)>,
    fail_with: Option<u16>,
    last_key: u64,
}

/// One worker that answers with an empty result and sets the flag itself, as a graph does.
struct OneWorker {
    ring: SharedRing,
    bench: Arc<Mutex<Bench>>,
    marks: bool,
}

impl ExternalExecutor for OneWorker {
    fn service(&mut self, ended: &mut dyn FnMut(Status)) {
        let mut bench = self.bench.lock().expect("nobody panics");
        if let (Some(slot), true) = (bench.under_way, bench.finish) {
            let request = RequestHeader::from_words(self.ring.request_header(slot));
            self.ring.write_response(slot, ResponseHeader::reply(&request, 0, 0).to_words(), &[]);
            self.ring.publish_tx(slot, self.ring.geometry().response_address(slot));
            if !self.marks {
                self.ring.clear_rx(slot);
            }
            bench.under_way = None;
            ended(Status::OK);
        }
    }

    fn claim(&mut self, slot: SlotIndex, _: &RequestHeader, key: u64) -> ExecutorClaim {
        let mut bench = self.bench.lock().expect("nobody panics");
        if key == NOBODYS_KEY {
            return ExecutorClaim::Never;
        }
        bench.last_key = key;
        assert!(self.marks || bench.under_way != Some(slot) || !bench.finish);
        if bench.under_way.is_none() { ExecutorClaim::Worker(0) } else { ExecutorClaim::Later }
    }

    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError> {
        let mut bench = self.bench.lock().expect("nobody panics");
        let key = bench.last_key;
        bench.starts.push((worker, key));
        match bench.fail_with {
            Some(code) => Err(LaunchError { code }),
            None => {
                bench.under_way = Some(slot);
                Ok(())
            }
        }
    }

    fn marks(&self) -> Marks {
        if self.marks { Marks::BeforeStart } else { Marks::Never }
    }

    fn serves(&self, slot: SlotIndex) -> bool {
        self.bench.lock().expect("nobody panics").under_way == Some(slot)
    }

    fn is_idle(&self) -> bool {
        self.bench.lock().expect("nobody panics").under_way.is_none()
    }
}

fn dispatcher(marks: bool, compat: RingCompat) -> (Ring, HostDispatcher<Stepped>, Arc<Mutex<Bench>>) {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 }).expect("a ring");
    let table = FunctionTable::builder()
        .external_call("graph", HandlerSchema::new())
        .host_call("inline", |_: &[u8], _: &mut [u8]| Ok(0))
        .build(&ring)
        .expect("a table");
    let bench = Arc::new(Mutex::new(Bench::default()));
    let worker = OneWorker { ring: ring.shared().clone(), bench: Arc::clone(&bench), marks };
    let dispatcher = HostDispatcher::builder(&ring, table)
        .compat(compat)
        .executor(Box::new(worker))
        .build()
        .expect("wired");
    (ring, dispatcher.into_stepper(), bench)
}

fn poll_until_idle(dispatcher: &mut HostDispatcher<Stepped>) {
    for _ in 0..16 {
        let _ = dispatcher.step();
    }
}

#[test]
fn a_busy_worker_holds_up_its_own_requests_alone() {
    let (ring, mut dispatcher, bench) = dispatcher(true, RingCompat::default());
    let mut client = Client::new(&ring);
    let graph = FunctionId::of("graph");
    let first = client.send(graph, 1, 0, &7_u64.to_le_bytes()).expect("sent");
    let second = client.send(graph, 2, 0, &[1, 2, 3]).expect("sent");
    let inline = client.send(FunctionId::of("inline"), 3, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    assert_eq!(client.wait(inline, LIMIT).expect("answered").status, Status::OK);
    // The first is marked and its request flag given back; the second stands where it was.
    let shared = ring.shared();
    assert_eq!((shared.rx(first), shared.tx(first)), (flag::FREE, flag::IN_FLIGHT));
    assert_ne!(shared.rx(second), flag::FREE);
    assert_eq!(shared.tx(second), flag::FREE);
    bench.lock().expect("nobody panics").finish = true;
    poll_until_idle(&mut dispatcher);
    for (slot, id) in [(first, 1), (second, 2)] {
        assert_eq!(client.wait(slot, LIMIT).expect("answered").request_id, id);
    }
    // The key is the first eight payload bytes, or 0.
    assert_eq!(bench.lock().expect("nobody panics").starts, [(0, 7), (0, 0)]);
    let report = dispatcher.finish(LIMIT).report;
    assert_eq!((report.dropped, report.unfinished), (0, None));
}

#[test]
fn what_nobody_is_for_is_refused_at_once() {
    for marks in [true, false] {
        let (ring, mut dispatcher, bench) = dispatcher(marks, RingCompat::default());
        let mut client = Client::new(&ring);
        let graph = FunctionId::of("graph");
        // Also while the worker is busy.
        let first = client.send(graph, 1, 0, &7_u64.to_le_bytes()).expect("sent");
        poll_until_idle(&mut dispatcher);
        let nobodys = client.send(graph, 2, 0, &NOBODYS_KEY.to_le_bytes()).expect("sent");
        poll_until_idle(&mut dispatcher);
        let reply = client.wait(nobodys, LIMIT).expect("answered");
        assert_eq!((reply.status, reply.error, reply.request_id), (Status::NO_WORKER, None, 2));
        bench.lock().expect("nobody panics").finish = true;
        poll_until_idle(&mut dispatcher);
        assert_eq!(client.wait(first, LIMIT).expect("answered").status, Status::OK);
        let count = |counter| dispatcher.counters().get(counter);
        assert_eq!([Counter::Received, Counter::Dispatched, Counter::NoWorker].map(count), [2, 1, 1]);
        assert_eq!(bench.lock().expect("nobody panics").starts, [(0, 7)]);
    }
}

#[test]
fn without_marks_the_slot_never_seems_free() {
    let (ring, mut dispatcher, bench) = dispatcher(false, RingCompat::default());
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("graph"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    assert_ne!(ring.shared().rx(slot), flag::FREE);
    assert_eq!(ring.shared().tx(slot), flag::FREE);
    bench.lock().expect("nobody panics").finish = true;
    poll_until_idle(&mut dispatcher);
    assert_eq!(client.wait(slot, LIMIT).expect("answered").status, Status::OK);
    assert_eq!(ring.shared().rx(slot), flag::FREE);
    assert_eq!(bench.lock().expect("nobody panics").starts.len(), 1);
}

#[test]
fn a_start_that_fails_leaves_the_error_mark() {
    let (ring, mut dispatcher, bench) = dispatcher(true, RingCompat::default());
    bench.lock().expect("nobody panics").fail_with = Some(700);
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("graph"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    let reply = client.wait(slot, LIMIT).expect("answered");
    assert_eq!((reply.error, reply.status), (Some(700), Status::LAUNCH_FAILED));
}

#[test]
fn a_stop_waits_for_what_is_outside() {
    let (ring, mut dispatcher, bench) = dispatcher(true, RingCompat::default());
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("graph"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    bench.lock().expect("nobody panics").finish = true;
    let report = dispatcher.finish(LIMIT).report;
    assert_eq!((report.drained, report.dropped), (1, 0));
    assert_eq!(client.wait(slot, LIMIT).expect("answered").status, Status::OK);
}

#[test]
fn a_halt_leaves_alone_what_is_outside() {
    for marks in [true, false] {
        let (ring, mut dispatcher, bench) = dispatcher(marks, RingCompat::default());
        let mut client = Client::new(&ring);
        let graph = FunctionId::of("graph");
        let first = client.send(graph, 1, 0, &[]).expect("sent");
        poll_until_idle(&mut dispatcher);
        let second = client.send(graph, 2, 0, &[]).expect("sent");
        dispatcher.drain();
        poll_until_idle(&mut dispatcher);
        assert_eq!(dispatcher.step(), DispatchStep::Idle, "not over yet");
        dispatcher.halt(Duration::ZERO);
        assert_eq!(client.wait(second, LIMIT).expect("answered").status, Status::SHUTTING_DOWN);
        assert_eq!(ring.shared().tx(first), if marks { flag::IN_FLIGHT } else { flag::FREE });
        // Its end is noticed by a later one, which starts nothing.
        let third = client.send(graph, 3, 0, &[]).expect("sent");
        bench.lock().expect("nobody panics").finish = true;
        dispatcher.halt(LIMIT);
        assert_eq!(client.wait(first, LIMIT).expect("answered").status, Status::OK);
        assert_eq!(client.wait(third, LIMIT).expect("answered").status, Status::SHUTTING_DOWN);
        assert_eq!(bench.lock().expect("nobody panics").starts.len(), 1);
    }
}

#[test]
fn a_drained_dispatcher_takes_what_comes_later() {
    let (ring, mut dispatcher, _) = dispatcher(true, RingCompat::default());
    let mut client = Client::new(&ring);
    dispatcher.drain();
    assert_eq!(dispatcher.step(), DispatchStep::Ended);
    let slot = client.send(FunctionId::of("inline"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    assert_eq!(client.wait(slot, LIMIT).expect("answered").status, Status::OK);
    assert_eq!(dispatcher.step(), DispatchStep::Ended);
}

#[test]
fn other_compat() {
    let all = RingCompat { any_flag: true, shared_ring: false, bad_requests: BadRequests::DropUnknown };
    let (ring, mut dispatcher, _) = dispatcher(true, all);
    let shared = ring.shared();
    let slot = |index| shared.geometry().slot(index).expect("a slot");
    let request = |name: &str| RequestHeader::new(FunctionId::of(name).0, 0, 9, 0).to_bytes();
    shared.forge_request(slot(0), &request("inline"), 1);
    shared.forge_request(slot(1), &request("nobody"), u64::MAX);
    poll_until_idle(&mut dispatcher);
    assert_eq!(Client::new(&ring).wait(slot(0), LIMIT).expect("answered").status, Status::OK);
    assert_eq!((shared.rx(slot(1)), shared.tx(slot(1))), (flag::FREE, flag::FREE));

    let drop = RingCompat { any_flag: true, shared_ring: false, bad_requests: BadRequests::Drop };
    let (ring, mut dispatcher, _) = self::dispatcher(true, drop);
    let shared = ring.shared();
    let mut bad = request("inline");
    bad[0] ^= 1;
    shared.forge_request(slot(0), &request("inline"), 1);
    shared.forge_request(slot(1), &request("nobody"), 1);
    shared.forge_request(slot(2), &bad, 1);
    poll_until_idle(&mut dispatcher);
    assert_eq!(Client::new(&ring).wait(slot(0), LIMIT).expect("answered").status, Status::OK);
    for dropped in [slot(1), slot(2)] {
        assert_eq!((shared.rx(dropped), shared.tx(dropped)), (flag::FREE, flag::FREE));
    }
    assert_eq!(dispatcher.counters().get(Counter::UnknownFunction), 1);
    assert_eq!(dispatcher.counters().get(Counter::BadMagic), 1);

    let (ring, mut dispatcher, _) =
        self::dispatcher(true, RingCompat { shared_ring: true, ..RingCompat::default() });
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("nobody"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    assert_ne!(ring.shared().rx(slot), flag::FREE);
    assert_eq!(dispatcher.step(), DispatchStep::Idle);
    // Left to the other dispatcher, also by a stop.
    let report = dispatcher.finish(LIMIT).report;
    assert_eq!((report.drained, report.dropped), (0, 0));
    assert_ne!(ring.shared().rx(slot), flag::FREE);
}

#[test]
fn a_slot_whose_end_was_not_noticed_is_left_whatever_is_in_it() {
    let (ring, mut dispatcher, bench) = dispatcher(true, RingCompat::default());
    let mut client = Client::new(&ring);
    let slot = client.send(FunctionId::of("graph"), 1, 0, &[]).expect("sent");
    poll_until_idle(&mut dispatcher);
    // Its answer came and was taken, and the slot is filled again.
    let shared = ring.shared();
    shared.publish_tx(slot, flag::FREE);
    let inline = RequestHeader::new(FunctionId::of("inline").0, 0, 2, 0).to_bytes();
    shared.forge_request(slot, &inline, ring.geometry().request_address(slot));
    poll_until_idle(&mut dispatcher);
    assert_ne!(shared.rx(slot), flag::FREE);
    bench.lock().expect("nobody panics").under_way = None;
    poll_until_idle(&mut dispatcher);
    let reply = client.wait(slot, LIMIT).expect("answered");
    assert_eq!((reply.status, reply.request_id), (Status::OK, 2));
}

/// A thread that rests when a round ends has looked at every slot before, however large the ring.
#[test]
fn a_round_polls_every_slot() {
    for slots in [1, 8, 9, 1024, 131_072] {
        let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
        let table = FunctionTable::builder().build(&ring).expect("a table");
        let mut dispatcher = HostDispatcher::builder(&ring, table).build().expect("built").into_stepper();
        let shared = ring.shared();
        let bytes = RequestHeader::new(1, 0, 9, 0).to_bytes();
        let end_round = |dispatcher: &mut HostDispatcher<Stepped>| {
            let steps = (0..slots).take_while(|_| {
                let _ = dispatcher.step();
                !dispatcher.ends_round()
            });
            1 + steps.count() as u32
        };
        end_round(&mut dispatcher);
        for index in [0, slots / 2, slots - 1] {
            let slot = shared.geometry().slot(index).expect("a slot");
            shared.forge_request(slot, &bytes, shared.geometry().request_address(slot));
            assert_eq!(end_round(&mut dispatcher), slots.div_ceil(8), "{slots} slots");
            let answer = Response::probe(shared, slot).expect("answered within the round");
            answer.release(shared);
        }
    }
}
