//! A ring that another dispatcher serves, too: its marks are not taken for the engine's own.

use super::*;
use ringcall_wire::header::RequestHeader;

/// All the ways in which an engine learns of ends, with marks.
const ENDS: [(bool, bool); 3] = [(false, false), (true, false), (false, true)];

#[test]
fn another_dispatchers_mark_is_left_alone() {
    for (answer_last, in_place) in ENDS {
        let bench = Bench::of(1, Manner { answer_last, in_place, shared: true, ..Manner::default() });
        bench.ask(3, 1);
        launch(&bench, 0, 3, true).expect("idle");
        if !in_place {
            bench.answer(3);
        }
        bench.streams[0].end();
        bench.take(3);
        // The slot is filled again, and another dispatcher takes the request, all before a sweep.
        bench.ask(3, 2);
        bench.tx_flags.store(3, flag::IN_FLIGHT, Ordering::Release);
        assert_eq!(
            ends_after_a_query(&bench),
            [Ended { slot: 3, failed: false }],
            "{answer_last} {in_place}"
        );
        assert_eq!(bench.tx(3), flag::IN_FLIGHT, "the other's: {answer_last} {in_place}");
        assert!(bench.engine.is_idle());
    }
}

#[test]
fn another_engines_launch_is_not_taken_for_ones_own() {
    let [one, two] = [0, 1].map(|_| Bench::of(1, Manner { shared: true, ..Manner::default() }));
    // Both write into one ring's slots, as far as the first of them is concerned.
    let same = |two: &Bench| {
        one.tx_flags.store(3, two.tx(3), Ordering::Release);
        one.tx_data.store(
            3 * SLOT as usize / 8,
            two.tx_data.load(3 * SLOT as usize / 8, Ordering::Relaxed),
            Ordering::Relaxed,
        );
    };
    launch(&one, 0, 3, true).expect("idle");
    one.answer(3);
    one.take(3);
    launch(&two, 0, 3, true).expect("idle");
    same(&two);
    one.streams[0].end();
    assert_eq!(ends(&one), [Ended { slot: 3, failed: false }]);
    assert_eq!(one.tx(3), flag::IN_FLIGHT);
    // Its own it knows.
    launch(&one, 0, 3, true).expect("idle");
    one.streams[0].end();
    assert_eq!(ends(&one), [Ended { slot: 3, failed: true }]);
    assert_eq!(one.tx(3), UNKNOWN);
}

#[test]
fn on_a_shared_ring_a_graph_that_does_not_answer_is_found_out() {
    for (answer_last, in_place) in ENDS {
        let manner = Manner { answer_last, in_place, shared: true, ..Manner::default() };
        let failed = [Ended { slot: 2, failed: true }];
        let bench = Bench::of(1, manner);
        launch(&bench, 0, 2, true).expect("idle");
        bench.streams[0].fail(700);
        assert_eq!(ends_after_a_query(&bench), failed, "{answer_last} {in_place}");
        assert_eq!(bench.tx(2), flag::error(700));
        let bench = Bench::of(1, manner);
        // In place a graph cannot but answer, if its stream takes the flag.
        bench.streams[0].lose_writes();
        launch(&bench, 0, 2, true).expect("idle");
        bench.streams[0].end();
        assert_eq!(ends_after_a_query(&bench), failed, "{answer_last} {in_place}");
        assert_eq!(bench.tx(2), UNKNOWN);
    }
}

#[test]
fn a_loop_sets_its_engine_to_a_shared_ring() {
    let bench = Bench::new(1, false);
    let _dispatcher = dispatcher_of(&bench, RingCompat { shared_ring: true, ..COMPAT });
    launch(&bench, 0, 1, true).expect("idle");
    bench.answer(1);
    bench.take(1);
    bench.tx_flags.store(1, flag::IN_FLIGHT, Ordering::Release);
    bench.streams[0].end();
    assert_eq!(ends(&bench), [Ended { slot: 1, failed: false }]);
    assert_eq!(bench.tx(1), flag::IN_FLIGHT);
}

#[test]
fn a_wait_for_a_worker_of_a_shared_ring_ends_without_one() {
    let bench = Bench::of(1, Manner { shared: true, ..Manner::default() });
    let compat = RingCompat { shared_ring: true, ..COMPAT };
    let (host_loop, _flag) = host_loop_over(&bench, Source::Ring(bench.ring), compat);
    let mut thread = HostThread::start(host_loop.expect("a loop")).expect("a thread");
    bench.ask(1, 5);
    until(|| bench.streams[0].launches() == 1);
    bench.ask(2, 6);
    // Another dispatcher's function, in the last slot.
    let header = RequestHeader::new(FUNCTION + 1, 0, 7, 0).to_words();
    for (offset, word) in header.into_iter().enumerate() {
        bench.rx_data.store(3 * SLOT as usize / 8 + offset, word, Ordering::Relaxed);
    }
    bench.rx_flags.store(3, bench.rx_data.address() + u64::from(3 * SLOT), Ordering::Release);
    let fault = thread.stop().expect_err("the graph runs");
    assert!(fault.why.contains("graph"), "{}", fault.why);
    until(|| matches!(TxState::decode(bench.tx(2)), TxState::Ready(_)));
    assert_eq!((bench.response(2).status(), bench.response(2).request_id), (Status::SHUTTING_DOWN, 6));
    assert_eq!(bench.tx(1), flag::IN_FLIGHT, "its graph answers");
    assert!(bench.rx(3) != flag::FREE && bench.tx(3) == flag::FREE, "the other's");
    bench.answer(1);
    bench.streams[0].end();
    thread.stop().expect("now");
}
