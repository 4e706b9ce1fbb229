//! What requests, slots and dispatchers do not do to each other.

use crate::rig::{self, TIMEOUT, call, counted, flood, on_device, send, slot, slots, stop_clean, take};
use ringcall_launch::ring::{DispatcherOptions, Functions, KernelKind, Watch};
use ringcall_protocol::slot::Response;
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn an_untaken_response_holds_its_slot_only() {
    on_device("an_untaken_response_holds_its_slot_only", |context| {
        for warps in [1, 8] {
            let kernel = KernelKind::Regular { blocks: 1, warps };
            let (mapped, running) = rig::start(context, (16, 64), kernel);
            let (ring, shared) = (mapped.ring(), mapped.ring().shared());
            let held = slot(ring, 3);
            send(ring, held, "rpc_increment", 1, &[10, 20, 30]);
            rig::await_answer(ring, held);

            // A producer that breaks the rules: a second request after the response that the consumer did
            // not take.
            let mut second =
                RequestHeader::new(FunctionId::of("rpc_increment").0, 2, 2, 0).to_bytes().to_vec();
            second.extend([50, 60]);
            shared.forge_request(held, &second, ring.geometry().request_address(held));
            let others: Vec<_> = slots(ring).into_iter().filter(|other| *other != held).collect();
            flood(shared, &others, &["rpc_increment", "rpc_increment_warp"], 40, 20_000);
            counted(&running, "the others", |c| c.answered() == 20_001);
            assert_ne!(shared.rx(held), 0, "the second request waits");

            let first = take(ring, held);
            assert_eq!((first.status, first.request_id, first.result), (Status::OK, 1, vec![11, 21, 31]));
            let second = take(ring, held);
            assert_eq!((second.status, second.request_id, second.result), (Status::OK, 2, vec![51, 61]));
            assert_eq!(call(ring, held, "rpc_increment", &[1]).result, [2]);
            stop_clean(running);
        }
    });
}

/// Waits until the watchdog names one.
fn hung(watch: &Watch) -> ringcall_launch::ring::Hung {
    let begin = Instant::now();
    loop {
        if let Some(hung) = watch.hung(Duration::from_millis(50)).pop() {
            return hung;
        }
        assert!(begin.elapsed() < TIMEOUT, "nobody hangs");
    }
}

#[test]
fn a_long_handler_is_named_and_holds_up_nobody() {
    on_device("a_long_handler_is_named_and_holds_up_nobody", |context| {
        for (blocks, warps) in [(1, 1), (1, 2), (1, 8), (4, 8)] {
            let kernel = KernelKind::Regular { blocks, warps };
            let (mapped, running) = rig::start(context, (64, 64), kernel);
            let ring = mapped.ring();
            let held = slot(ring, 41);
            let watch = running.watch();
            assert_eq!(watch.hung(Duration::from_millis(5)), [], "idle");
            send(ring, held, "rpc_spin", 1, &200_000_000_i64.to_le_bytes());
            if warps > 2 {
                let others: Vec<_> = slots(ring).into_iter().filter(|other| *other != held).collect();
                flood(ring.shared(), &others, &["rpc_increment", "rpc_increment_warp"], 32, 5_000);
                let answered = Response::probe(ring.shared(), held).is_some();
                assert!(!answered, "{kernel:?}: the others were answered after the long one");
            }
            let hung = hung(&watch);
            assert_eq!((hung.slot, hung.name.as_deref()), (41, Some("rpc_spin")), "{kernel:?}");
            assert_eq!(hung.function, FunctionId::of("rpc_spin"));
            assert!(hung.since >= Duration::from_millis(50), "{hung:?}");
            let answer = take(ring, held);
            assert_eq!((answer.status, answer.result.len()), (Status::OK, 8));
            let begin = Instant::now();
            while !watch.busy().is_empty() {
                assert!(begin.elapsed() < TIMEOUT, "still busy: {:?}", watch.busy());
            }
            stop_clean(running);
        }
    });
}

#[test]
fn two_dispatchers_share_a_ring() {
    on_device("two_dispatchers_share_a_ring", |context| {
        const CALLS: u64 = 100_000;
        for warps in [2, 8] {
            let ring = rig::ring(context, 64, 64);
            let options = DispatcherOptions::new(KernelKind::Regular { blocks: 1, warps }).shared_ring();
            let only = |kind| Functions::new().handlers(&rig::samples(64, &[kind]));
            // Each has the functions of one kind.
            let threads = rig::wire(&ring, only(HandlerKind::Thread), options);
            let by_warps = rig::wire(&ring, only(HandlerKind::Warp), options);
            let threads = threads.start().expect("started");
            let by_warps = by_warps.start().expect("started");
            let functions = ["rpc_increment", "rpc_increment_warp", "rpc_increment_bytes"];
            flood(ring.ring().shared(), &slots(ring.ring()), &functions, 40, CALLS);
            let first = counted(&threads, "thread handlers", |c| c.answered() == CALLS.div_ceil(3));
            let second = counted(&by_warps, "warp handlers", |c| c.answered() == CALLS - CALLS.div_ceil(3));
            assert_eq!(first.get(Counter::Completed) + second.get(Counter::Completed), CALLS);
            assert_eq!((first.rejected(), second.rejected()), (0, 0));
            stop_clean(by_warps);
            stop_clean(threads);
        }
    });
}

/// The one that is told of the other's functions leaves these alone, and answers requests for unknown
/// functions.
#[test]
fn of_two_dispatchers_one_answers_what_is_nobodys() {
    on_device("of_two_dispatchers_one_answers_what_is_nobodys", |context| {
        const CALLS: u64 = 100_000;
        for warps in [1, 2, 8] {
            let ring = rig::ring(context, 64, 64);
            let options = DispatcherOptions::new(KernelKind::Regular { blocks: 1, warps });
            let (threads, by_warps) =
                (rig::samples(64, &[HandlerKind::Thread]), rig::samples(64, &[HandlerKind::Warp]));
            let listed = by_warps
                .iter()
                .fold(Functions::new().handlers(&threads), |all, handler| all.elsewhere(handler.name));
            let keeper = rig::wire(&ring, listed, options);
            let sharing = rig::wire(&ring, Functions::new().handlers(&by_warps), options.shared_ring());
            let keeper = keeper.start().expect("started");
            let sharing = sharing.start().expect("started");
            let functions = ["rpc_increment", "rpc_increment_warp", "rpc_increment_bytes"];
            flood(ring.ring().shared(), &slots(ring.ring()), &functions, 40, CALLS);
            for at in slots(ring.ring()) {
                assert_eq!(call(ring.ring(), at, "rpc_nobodys", &[1]).status, Status::UNKNOWN_FUNCTION);
            }
            let first = counted(&keeper, "thread handlers and what is nobody's", |c| {
                c.get(Counter::Completed) == CALLS.div_ceil(3) && c.get(Counter::UnknownFunction) == 64
            });
            let second = counted(&sharing, "warp handlers", |c| c.answered() == CALLS - CALLS.div_ceil(3));
            assert_eq!((first.rejected(), second.rejected()), (64, 0));
            stop_clean(sharing);
            stop_clean(keeper);
        }
    });
}

/// Requests of the one that runs on are not touched by the end of the other.
#[test]
fn of_two_dispatchers_one_stops() {
    on_device("of_two_dispatchers_one_stops", |context| {
        let ring = rig::ring(context, 16, 64);
        let options = DispatcherOptions::new(KernelKind::Regular { blocks: 1, warps: 4 }).shared_ring();
        let only = |kind| Functions::new().handlers(&rig::samples(64, &[kind]));
        let stays = rig::wire(&ring, only(HandlerKind::Thread), options);
        let mut comes_and_goes = rig::wire(&ring, only(HandlerKind::Warp), options);
        let stays = stays.start().expect("started");
        let shared = ring.ring().shared();
        let enough = AtomicBool::new(false);
        let calls = std::thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let mut calls = 0;
                while !enough.load(Ordering::Acquire) {
                    flood(shared, &slots(ring.ring()), &["rpc_increment"], 40, 500);
                    calls += 500;
                }
                calls
            });
            for _ in 0..20 {
                let running = comes_and_goes.start().expect("started");
                std::thread::sleep(Duration::from_millis(5));
                let stopped = running.stop(Duration::from_millis(500));
                let mine = (stopped.report.drained, stopped.report.refused);
                if mine != (0, 0) || stopped.dispatcher.is_none() {
                    enough.store(true, Ordering::Release);
                    panic!("it has no requests of its own: {:?}", stopped.report);
                }
                comes_and_goes = stopped.dispatcher.expect("it is given back");
            }
            enough.store(true, Ordering::Release);
            producer.join().expect("every answer is right")
        });
        counted(&stays, "every call", |c| c.get(Counter::Completed) == calls && c.answered() == calls);
        stop_clean(stays);
    });
}

/// The driver would wait for the kernel that runs, which has not been told to end.
#[test]
fn nothing_is_loaded_beside_a_running_dispatcher() {
    on_device("nothing_is_loaded_beside_a_running_dispatcher", |context| {
        let (ring, running) = rig::start(context, (16, 64), KernelKind::regular());
        let refused = rig::modules(context).load_alone(context).err().map(|why| why.to_string());
        assert!(refused.as_ref().is_some_and(|why| why.contains("wire every dispatcher")), "{refused:?}");
        assert_eq!(call(ring.ring(), slot(ring.ring(), 3), "rpc_increment", &[1]).result, [2]);
        stop_clean(running);
        rig::modules(context).load_alone(context).expect("nothing runs now");
    });
}
