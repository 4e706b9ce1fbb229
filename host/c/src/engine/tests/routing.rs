//! Requests whose routing key no worker has.

use super::*;
use ringcall_wire::counter::Counter;

#[test]
fn a_key_that_no_worker_has_is_refused_at_once() {
    for skip_marks in [false, true] {
        let bench = Bench::of(2, Manner { skip_marks, keys: &[5, 6], ..Manner::default() });
        let (host_loop, _flag) = host_loop(&bench);
        let mut thread = HostThread::start(host_loop).expect("a thread");
        bench.ask_for(0, 1, Some(6));
        until(|| bench.streams[1].launches() == 1);
        let refused = |slot, key| {
            bench.ask_for(slot, 2, key);
            until(|| matches!(TxState::decode(bench.tx(slot)), TxState::Ready(_)));
            assert_eq!(
                (bench.response(slot).status(), bench.response(slot).request_id),
                (Status::NO_WORKER, 2)
            );
        };
        // While a worker is idle, and while none is; with no key at all.
        refused(1, Some(7));
        bench.ask_for(3, 3, Some(5));
        until(|| bench.streams[0].launches() == 1);
        refused(2, None);
        for (slot, worker) in [(0, 1), (3, 0)] {
            bench.answer(slot);
            bench.streams[worker].end();
        }
        thread.stop().expect("nothing waits");
        assert_eq!([0, 1].map(|worker| bench.streams[worker].launches()), [1, 1]);
        assert_eq!(bench.rx(1), flag::FREE);
    }
}

#[test]
fn what_is_refused_is_counted_and_what_is_busy_waits() {
    let bench = Bench::of(2, Manner { keys: &[5, 6], ..Manner::default() });
    let mut dispatcher = dispatcher(&bench);
    for (slot, key) in [(0, 5), (1, 5), (2, 7), (3, 8)] {
        bench.ask_for(slot, slot, Some(key));
    }
    while dispatcher.step() != DispatchStep::Idle {}
    assert_eq!([2, 3].map(|slot| bench.response(slot).status()), [Status::NO_WORKER; 2]);
    assert_eq!((bench.tx(0), bench.tx(1)), (flag::IN_FLIGHT, flag::FREE));
    let count = |counter| dispatcher.counters().get(counter);
    assert_eq!([Counter::Received, Counter::Dispatched, Counter::NoWorker].map(count), [3, 1, 2]);
    bench.answer(0);
    bench.streams[0].end();
    while dispatcher.step() != DispatchStep::Idle {}
    assert_eq!((bench.tx(1), bench.streams[0].launches()), (flag::IN_FLIGHT, 2));
    bench.answer(1);
    bench.streams[0].end();
    while dispatcher.step() != DispatchStep::Idle {}
    assert!(bench.engine.is_idle());
}
