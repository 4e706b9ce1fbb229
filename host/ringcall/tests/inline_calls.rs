//! The host dispatcher's inline calls: answers, refusals, garbage.

use proptest::prelude::*;
use ringcall::client::Reply;
use ringcall::dispatcher::DispatchStep;
use ringcall::external::RingCompat;
use ringcall::wire::counter::Counter;
use ringcall::wire::flag;
use ringcall::wire::header::RequestHeader;
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::schema::HandlerSchema;
use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status, Wait};
use ringcall::{HostOptions, dispatcher::Running};
use ringcall_protocol::{Response, RingMemory, Vacant};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

fn start(ring: &Ring) -> HostDispatcher<Running> {
    let table = FunctionTable::builder()
        .host_call("increment", |request: &[u8], result: &mut [u8]| {
            for (out, byte) in result.iter_mut().zip(request) {
                *out = byte.wrapping_add(1);
            }
            Ok(request.len())
        })
        .host_call_with_schema(
            "typed",
            HandlerSchema::new().arg(TypeDesc::int32()).result(TypeDesc::uint8()),
            |request: &[u8], result: &mut [u8]| {
                result[0] = request[0];
                Ok(1)
            },
        )
        .host_call("own_error", |_: &[u8], _: &mut [u8]| Err(Status(7)))
        .host_call("panics", |_: &[u8], _: &mut [u8]| panic!("on purpose"))
        .host_call("too_much", |_: &[u8], result: &mut [u8]| Ok(result.len() + 1))
        .worker_call("nobody", HandlerSchema::new())
        .device_call("on_a_device", HandlerSchema::new())
        .build(ring)
        .expect("a table");
    let options = HostOptions { wait: Wait::Yield { spins: 16 }, ..HostOptions::default() };
    HostDispatcher::builder(ring, table).options(options).build().expect("wired").start().expect("started")
}

fn ring(slots: u32, slot_bytes: u32) -> Ring {
    Ring::allocate(RingConfig { slots, slot_bytes }).expect("a ring")
}

#[test]
fn every_refusal_has_a_status_and_a_counter_of_its_own() {
    let ring = ring(8, 128);
    let dispatcher = start(&ring);
    let mut client = Client::new(&ring);
    let mut call = |name: &str, payload: &[u8]| client.call(name, payload, LONG).expect("a reply").status;
    assert_eq!(call("increment", &[1, 2, 3]), Status::OK);
    assert_eq!(call("typed", &[0; 4]), Status::OK);
    assert_eq!(call("typed", &[0; 3]), Status::SCHEMA_MISMATCH);
    assert_eq!(call("unheard_of", &[]), Status::UNKNOWN_FUNCTION);
    assert_eq!(call("on_a_device", &[]), Status::WRONG_MODE);
    assert_eq!(call("nobody", &[]), Status::NO_WORKER);
    assert_eq!(call("own_error", &[]), Status(7));
    assert_eq!(call("panics", &[]), Status::HANDLER_PANIC);
    assert_eq!(call("too_much", &[]), Status::RESULT_TOO_LONG);

    // What no well-behaved producer writes.
    let increment = FunctionId::of("increment").0;
    let mut forge = |header: RequestHeader, flag: Option<u64>| -> Reply {
        let slot = client.next_slot();
        let address = ring.geometry().request_address(slot);
        ring.shared().forge_request(slot, &header.to_bytes(), flag.unwrap_or(address));
        let reply = client.wait(slot, LONG).expect("a reply");
        // Keep the client's cursor in step.
        let _ = client.send(FunctionId(increment), 0, 0, &[]).expect("room");
        let _ = client.wait(slot, LONG).expect("a reply");
        reply
    };
    let good = RequestHeader::new(increment, 8, 77, 99);
    let bad_magic = forge(RequestHeader { magic: 0x1234, ..good }, None);
    assert_eq!(
        (bad_magic.status, bad_magic.request_id, bad_magic.ptp_timestamp),
        (Status::BAD_MAGIC, 77, 99)
    );
    assert_eq!(forge(RequestHeader { arg_len: 105, ..good }, None).status, Status::ARG_TOO_LONG);
    assert_eq!(forge(RequestHeader { arg_len: u32::MAX, ..good }, None).status, Status::ARG_TOO_LONG);
    assert_eq!(forge(good, Some(0xDEAD_BEEF)).status, Status::BAD_FLAG);
    assert_eq!(forge(good, Some(flag::IN_FLIGHT)).status, Status::BAD_FLAG);

    let counters = dispatcher.counters();
    for (counter, n) in [
        (Counter::SchemaMismatch, 1),
        (Counter::UnknownFunction, 1),
        (Counter::WrongMode, 1),
        (Counter::NoWorker, 1),
        (Counter::HandlerErrors, 1),
        (Counter::HandlerPanics, 1),
        (Counter::ResultClamped, 1),
        (Counter::BadMagic, 1),
        (Counter::ArgTooLong, 2),
        (Counter::BadFlag, 2),
    ] {
        assert_eq!(counters.get(counter), n, "{}", counter.name());
    }
    assert_eq!(counters.get(Counter::Received), counters.answered());
    let stopped = dispatcher.stop(LONG);
    assert_eq!((stopped.report.dropped, stopped.report.stuck), (0, false));
}

#[test]
fn a_full_slot_of_result_is_sent_whole() {
    let ring = ring(1, 64);
    let dispatcher = start(&ring);
    let mut client = Client::new(&ring);
    let payload: Vec<u8> = (0..40).collect();
    let reply = client.call("increment", &payload, LONG).expect("a reply");
    assert_eq!(reply.status, Status::OK);
    assert_eq!(reply.result, (1..41).collect::<Vec<u8>>());
    assert!(client.call("increment", &[0; 41], LONG).is_err(), "41 bytes do not fit 64 - 24");
    drop(dispatcher.stop(LONG));
}

#[test]
fn a_ring_of_one_slot_takes_calls_back_to_back() {
    let ring = ring(1, 64);
    let dispatcher = start(&ring);
    let mut client = Client::new(&ring);
    for i in 0..5000_u32 {
        let byte = i as u8;
        assert_eq!(client.call("increment", &[byte], LONG).expect("a reply").result, [byte.wrapping_add(1)]);
    }
    drop(dispatcher.stop(LONG));
}

#[test]
fn an_unread_response_is_never_overwritten_and_stalls_no_other_slot() {
    let ring = ring(2, 64);
    let dispatcher = start(&ring);
    let mut client = Client::new(&ring);
    let first = client.send(FunctionId::of("increment"), 1, 0, &[10]).expect("room");
    let second = client.send(FunctionId::of("increment"), 2, 0, &[20]).expect("room");
    // The second is answered although the consumer does not take the first.
    let reply = client.wait(second, LONG).expect("a reply");
    assert_eq!((reply.request_id, reply.result), (2, vec![21]));
    // A producer that breaks the rule and writes into the first slot again: the old response stays until it is taken.
    let header = RequestHeader::new(FunctionId::of("increment").0, 1, 3, 0);
    let mut raw = header.to_bytes().to_vec();
    raw.push(30);
    // Wait until the first was answered, so that it is the response we protect.
    while ring.shared().tx(first) == 0 {
        std::thread::yield_now();
    }
    ring.shared().forge_request(first, &raw, ring.geometry().request_address(first));
    for id in 4..40 {
        let slot = client.next_slot();
        assert!(slot == first || client.send(FunctionId::of("increment"), id, 0, &[1]).is_ok());
        if slot == first {
            break;
        }
        let _ = client.wait(slot, LONG).expect("a reply");
    }
    let old = client.wait(first, LONG).expect("the old reply");
    assert_eq!((old.request_id, old.result), (1, vec![11]));
    let new = client.wait(first, LONG).expect("the new reply");
    assert_eq!((new.request_id, new.result), (3, vec![31]));
    drop(dispatcher.stop(LONG));
}

#[test]
fn stop_answers_what_is_in_the_ring_and_restart_goes_on() {
    let ring = ring(64, 64);
    let mut dispatcher = start(&ring);
    let mut client = Client::new(&ring);
    for round in 0..20_u32 {
        let slots: Vec<_> = (0..64)
            .map(|i| client.send(FunctionId::of("increment"), round * 64 + i, 0, &[i as u8]).expect("room"))
            .collect();
        let stopped = dispatcher.stop(LONG);
        assert_eq!((stopped.report.dropped, stopped.report.stuck), (0, false));
        assert!(stopped.report.unfinished.is_none());
        for (i, slot) in slots.into_iter().enumerate() {
            let reply = client.wait(slot, Duration::ZERO).expect("answered before the stop returned");
            assert_eq!(reply.result, [i as u8 + 1]);
        }
        dispatcher = stopped.dispatcher.expect("not stuck").start().expect("restarted");
    }
    assert_eq!(dispatcher.counters().get(Counter::Completed), 20 * 64);
    drop(dispatcher.stop(LONG));
}

#[test]
fn a_handler_that_never_returns_does_not_hang_the_stop() {
    let ring = ring(4, 64);
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let table = FunctionTable::builder()
        .host_call("hangs", move |_: &[u8], _: &mut [u8]| {
            let _ = gate.recv();
            Ok(0)
        })
        .build(&ring)
        .expect("a table");
    let dispatcher = HostDispatcher::builder(&ring, table).build().expect("wired").start().expect("started");
    let mut client = Client::new(&ring);
    let _ = client.send(FunctionId::of("hangs"), 5, 0, &[]).expect("room");
    while dispatcher.counters().get(Counter::Dispatched) == 0 {
        std::thread::yield_now();
    }
    let stopped = dispatcher.stop(Duration::from_millis(20));
    assert!(stopped.report.stuck);
    assert!(stopped.dispatcher.is_none());
    let dump = stopped.report.unfinished.expect("a dump");
    assert_eq!(dump.inline_function, Some(u64::from(FunctionId::of("hangs").0)));
    drop(release);
}

#[test]
fn names_with_one_id_and_schemas_too_long_are_refused() {
    let ring = ring(4, 64);
    let twice = FunctionTable::builder()
        .host_call("f", |_: &[u8], _: &mut [u8]| Ok(0))
        .host_call("f", |_: &[u8], _: &mut [u8]| Ok(0))
        .build(&ring);
    assert!(twice.unwrap_err().to_string().contains("same id"));
    let long = FunctionTable::builder()
        .worker_call("g", HandlerSchema::new().arg(TypeDesc::array_uint8(41)))
        .build(&ring);
    assert!(long.unwrap_err().to_string().contains("41 bytes do not fit a slot that takes 40"));
    assert!(Ring::allocate(RingConfig { slots: 0, slot_bytes: 64 }).is_err());
    assert!(Ring::allocate(RingConfig { slots: 4, slot_bytes: 23 }).is_err());
    assert!(Ring::allocate(RingConfig { slots: 4, slot_bytes: 68 }).is_err());
    assert!(Ring::allocate(RingConfig { slots: u32::MAX, slot_bytes: 64 }).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Random headers, lengths and flags between good requests: each is answered, the good ones rightly.
    #[test]
    fn garbage_is_answered_and_hurts_nobody(
        garbage in proptest::collection::vec((any::<[u8; 24]>(), prop_oneof![Just(None), any::<u64>().prop_map(Some)], any::<bool>()), 1..40)
    ) {
        let ring = ring(4, 64);
        let dispatcher = start(&ring);
        let mut client = Client::new(&ring);
        let n = garbage.len() as u64;
        for (i, (mut bytes, flag, keep_magic)) in garbage.into_iter().enumerate() {
            if keep_magic {
                bytes[..8].copy_from_slice(&RequestHeader::new(FunctionId::of("increment").0, 0, 0, 0).to_bytes()[..8]);
            }
            let slot = client.next_slot();
            let address = ring.geometry().request_address(slot);
            // Zero is no request at all.
            let flag = flag.filter(|&f| f != 0).unwrap_or(address);
            ring.shared().forge_request(slot, &bytes, flag);
            let reply = client.wait(slot, LONG).expect("answered");
            let header = RequestHeader::from_bytes(&bytes).expect("24 bytes");
            prop_assert_eq!(reply.request_id, header.request_id);
            if flag != address {
                prop_assert_eq!(reply.status, Status::BAD_FLAG);
            } else if header.magic != ringcall::wire::header::REQUEST_MAGIC {
                prop_assert_eq!(reply.status, Status::BAD_MAGIC);
            } else if header.arg_len > 40 {
                prop_assert_eq!(reply.status, Status::ARG_TOO_LONG);
            }
            let good = client.call("increment", &[i as u8; 5], LONG).expect("answered");
            prop_assert_eq!(good.result, vec![(i as u8).wrapping_add(1); 5]);
        }
        let counters = dispatcher.counters();
        prop_assert_eq!(counters.get(Counter::Received), 2 * n);
        prop_assert_eq!(counters.answered(), 2 * n);
        prop_assert_eq!(dispatcher.stop(LONG).report.dropped, 0);
    }
}

/// A caller that steps the dispatcher and knows where the next request is need not wait until the scan comes
/// by.
#[test]
fn an_expected_slot_is_served_by_the_next_step() {
    const SLOTS: u32 = 65_536;
    let ring = ring(SLOTS, 32);
    let shared = ring.shared();
    let table = FunctionTable::builder().host_call("count", |request: &[u8], result: &mut [u8]| {
        result[0] = request.len() as u8;
        Ok(1)
    });
    let table = table.build(&ring).expect("a table");
    let mut dispatcher = HostDispatcher::builder(&ring, table).build().expect("wired").into_stepper();
    let send = |number: u32| {
        let slot = shared.geometry().slot(number).expect("a slot");
        let vacant = Vacant::probe(shared, slot).expect("free");
        vacant.submit(shared, FunctionId::of("count").0, number, 0, &[7; 5]).expect("it fits");
        slot
    };
    for number in [40_000, 3, SLOTS - 1, 0, 40_000] {
        let slot = send(number);
        dispatcher.hint_next(slot);
        assert_eq!(dispatcher.step(), DispatchStep::Busy);
        let response = Response::probe(shared, slot).expect("answered at once");
        assert_eq!(response.header().request_id, number);
        response.release(shared);
    }
    // What nobody told of is found all the same, in as many steps as there are lines of flags.
    let slot = send(20_000);
    dispatcher.hint_next(shared.geometry().slot(9).expect("a slot"));
    let steps = (1..=SLOTS / 8).find(|_| dispatcher.step() == DispatchStep::Busy);
    assert!(steps.is_some_and(|steps| steps > 1), "{steps:?}");
    assert!(Response::probe(shared, slot).is_some());
}

/// On a ring with several dispatchers a request that was seen may have been answered by another one of them, and its slot be
/// filled again, when its turn comes. Here the handler of the request before it does both.
#[test]
fn a_request_that_another_dispatcher_has_answered_is_not_taken_for_the_next() {
    let ring = ring(8, 64);
    let shared = ring.shared().clone();
    let [first, second] = [0, 1].map(|slot| shared.geometry().slot(slot).expect("a slot"));
    let send = |slot, name: &str| {
        let vacant = Vacant::probe(ring.shared(), slot).expect("free");
        vacant.submit(ring.shared(), FunctionId::of(name).0, 7, 0, &[7; 4]).expect("it fits");
    };
    let others = shared.clone();
    let table = FunctionTable::builder()
        .host_call("plays", move |_: &[u8], _: &mut [u8]| {
            // The other dispatcher answers, the consumer takes the answer, the producer begins to write.
            others.publish_tx(second, others.geometry().response_address(second));
            others.clear_rx(second);
            Response::probe(&others, second).expect("there").release(&others);
            let next = RequestHeader::new(FunctionId::of("count").0, 4, 8, 0);
            others.forge_request(second, &next.to_bytes(), flag::FREE);
            Ok(0)
        })
        .host_call("count", |request: &[u8], result: &mut [u8]| {
            result[0] = request.len() as u8;
            Ok(1)
        })
        .build(&ring)
        .expect("a table");
    let compat = RingCompat { shared_ring: true, ..RingCompat::default() };
    let wired = HostDispatcher::builder(&ring, table).compat(compat).build().expect("wired");
    let mut dispatcher = wired.into_stepper();
    send(first, "plays");
    send(second, "somebody elses");
    assert_eq!(dispatcher.step(), DispatchStep::Busy);
    assert!(Response::probe(&shared, first).is_some_and(|response| response.header().status == 0));
    assert_eq!(shared.tx(second), flag::FREE, "what is only half there is left alone");
    send(second, "count");
    assert_eq!(dispatcher.step(), DispatchStep::Busy);
    assert!(Response::probe(&shared, second).is_some_and(|response| response.header().status == 0));
    assert_eq!(dispatcher.counters().get(Counter::Received), 2);
}
