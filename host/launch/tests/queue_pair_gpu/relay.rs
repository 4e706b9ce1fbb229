//! Three kernels on a queue pair, or on two: one fills a ring, a dispatcher serves it, one sends its answers.
//!
//! `RINGCALL_STOPS` says how often they are stopped.

use super::rig::{Pair, Peer, Rig, TIMEOUT, calls, on_device, queues, setting, two_queues};
use ringcall_cuda::driver::Context;
use ringcall_launch::queue_pair::MappedQueues;
use ringcall_launch::relay::{RelayDispatcher, RelayOptions, Running, Wired};
use ringcall_launch::ring::{DeviceError, DispatcherOptions, KernelKind, Modules};
use ringcall_mlx5::Event;
use ringcall_mlx5::endpoint::Config;
use ringcall_mlx5::layout::cqe::{Syndrome, opcode};
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Fault, Queue};
use ringcall_wire::Counter;
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::unified::UnifiedParams;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Three kernels on these queues, or why there are none.
fn try_wire(
    context: &Arc<Context>,
    receive: &MappedQueues,
    send: Option<&MappedQueues>,
    pair: Pair,
) -> Result<RelayDispatcher<Wired>, DeviceError> {
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, context).expect("PTX");
    let options = RelayOptions { dispatcher: DispatcherOptions::new(pair.kernel), ..RelayOptions::default() };
    let send = send.map(MappedQueues::pair);
    RelayDispatcher::wire(receive.pair(), send, calls(pair.stride), modules, options)
}

/// Three kernels on one queue pair, wired, and what is on the NIC's other side.
fn wire(context: &Arc<Context>, pair: Pair) -> (RelayDispatcher<Wired>, Rig) {
    let (queues, rig) = queues(context, pair);
    (try_wire(context, &queues, None, pair).unwrap_or_else(|why| panic!("{pair:?}: {why}")), rig)
}

fn shared(depth: u32) -> Pair {
    Pair::for_relay(depth, RecordMode::NotWritten)
}

/// Stops them, and checks that nothing was left over.
fn stop_clean(running: RelayDispatcher<Running>) -> RelayDispatcher<Wired> {
    stop_within(running, TIMEOUT)
}

fn stop_within(running: RelayDispatcher<Running>, deadline: Duration) -> RelayDispatcher<Wired> {
    let stopped = running.stop(deadline);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    stopped.dispatcher.expect("they are given back")
}

#[test]
fn three_kernels_give_every_status() {
    on_device("three_kernels_give_every_status", |context| {
        for (stride, len) in [(64, 32), (576, 512), (4096, 4000)] {
            let (wired, mut rig) = wire(context, Pair { stride, ..shared(8) });
            let running = wired.start().expect("started");
            let cases = Peer::cases(stride, len);
            for (frame, status, owed) in &cases {
                rig.peer.send(frame);
                let (header, result) = rig.peer.receive();
                // What is shorter than it says is refused by the length that it is made to say.
                assert_eq!((header.status(), header.result_len), (*status, *owed), "{frame:x?}");
                if status.is_ok() {
                    assert!(result.iter().zip(&frame[HEADER_BYTES..]).all(|(a, b)| *a == b.wrapping_add(1)));
                }
            }
            let wired = stop_clean(running);
            for (_, status, _) in &cases {
                let n = cases.iter().filter(|(_, other, _)| other == status).count() as u64;
                assert_eq!(wired.counters().get(Counter::of_status(*status)), n, "{status}");
            }
            assert_eq!(wired.counters().answered(), cases.len() as u64);
            rig.end();
        }
    });
}

#[test]
fn three_kernels_work_queues_of_any_depth() {
    on_device("three_kernels_work_queues_of_any_depth", |context| {
        let laps = setting("RINGCALL_UNIFIED_LAPS", 1000).min(200);
        for depth in [1, 2, 3, 33, 64, 100, 1000] {
            for record in [RecordMode::NotWritten, RecordMode::Written] {
                let pair = Pair::for_relay(depth, record);
                let (wired, mut rig) = match record {
                    RecordMode::NotWritten => wire(context, pair),
                    RecordMode::Written => {
                        let ([receive, send], rig) = two_queues(context, pair);
                        let wired = try_wire(context, &receive, Some(&send), pair);
                        (wired.unwrap_or_else(|why| panic!("{pair:?}: {why}")), rig)
                    }
                };
                let running = wired.start().expect("started");
                let n = laps * u64::from(depth);
                rig.peer.mix(n, u64::from(depth).div_ceil(2), 32, |i| {
                    ["rpc_increment", "rpc_increment_warp"][i as usize % 2]
                });
                let wired = stop_clean(running);
                assert_eq!(wired.event(Event::RxRequests), n, "{pair:?}");
                assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
                assert_eq!(wired.event(Event::RxUnanswered), 0, "{pair:?}");
                assert_eq!(wired.counters().get(Counter::Completed), n);
                rig.end();
            }
        }
    });
}

#[test]
fn three_kernels_are_refused_queues_that_they_cannot_share() {
    on_device("three_kernels_are_refused_queues_that_they_cannot_share", |context| {
        let refused = |pair: Pair| {
            let (queues, rig) = queues(context, pair);
            let why = try_wire(context, &queues, None, pair).expect_err("refused").to_string();
            rig.end();
            why
        };
        let written = refused(Pair::for_relay(8, RecordMode::Written));
        assert!(written.contains("has one writer"), "{written}");
        let few = refused(Pair { record: RecordMode::NotWritten, ..Pair::of_depth(8) });
        assert!(few.contains("8 receive requests for 8 slots"), "{few}");
        let (queues, rig) = queues(context, shared(8));
        let wired = try_wire(context, &queues, None, shared(8)).expect("what can be shared");
        let again = try_wire(context, &queues, None, shared(8)).err();
        assert!(matches!(again, Some(DeviceError::Claimed(_))), "{again:?}");
        drop(wired);
        rig.end();
    });
}

#[test]
fn a_slow_request_holds_up_no_other() {
    on_device("a_slow_request_holds_up_no_other", |context| {
        let (wired, mut rig) = wire(context, shared(40));
        let running = wired.start().expect("started");
        // The device's clock has some 2 GHz: longer than 200 answers take, and the answers' order is what is looked at.
        rig.peer.send(&Peer::frame("rpc_spin", 8, 7, &200_000_000_i64.to_le_bytes()));
        let begin = Instant::now();
        while running.event(Event::RxRequests) == 0 {
            assert!(begin.elapsed() < TIMEOUT, "the slow request does not arrive");
        }
        std::thread::sleep(Duration::from_millis(5));
        for id in 100..120 {
            rig.peer.send(&Peer::frame("rpc_increment", 1, id, &[id as u8]));
        }
        let ids: Vec<u32> = (0..21).map(|_| rig.peer.receive().0.request_id).collect();
        assert_eq!(ids.last(), Some(&7), "{ids:?}");
        let mut others = ids[..20].to_vec();
        others.sort_unstable();
        assert_eq!(others, (100..120).collect::<Vec<_>>());
        let _ = stop_clean(running);
        rig.end();
    });
}

#[test]
fn three_kernels_count_wrong_completions() {
    on_device("three_kernels_count_wrong_completions", |context| {
        let pair = Pair { consumer_records: true, completions: 512, ..shared(64) };
        let (wired, mut rig) = wire(context, pair);
        let running = wired.start().expect("started");
        let (mut stray, mut failed, mut stray_sends) = (0, 0, 0);
        let nic = &rig.nic;
        rig.peer.mix(3000, 16, 32, |i| {
            let wqe_counter = 0x7FF0;
            let fault = match i % 3 {
                0 => Fault::Stray { queue: Queue::Receive, opcode: opcode::SIGNATURE_ERROR, wqe_counter },
                1 => Fault::FailReceive(Syndrome::LOCAL_ACCESS),
                _ if i % 2 == 0 => Fault::Stray { queue: Queue::Send, opcode: opcode::SEND, wqe_counter },
                _ => return "rpc_increment",
            };
            match fault {
                Fault::FailReceive(_) => failed += 1,
                Fault::Stray { queue: Queue::Receive, .. } => stray += 1,
                _ => stray_sends += 1,
            }
            assert!(nic.plant(fault));
            "rpc_increment"
        });
        // The last ones come after the last answer.
        let begin = Instant::now();
        while running.event(Event::RxStray) < stray || running.event(Event::RxErrors) < failed {
            assert!(begin.elapsed() < TIMEOUT, "a completion is not counted");
        }
        let wired = stop_clean(running);
        let count = |event| wired.event(event);
        assert_eq!((count(Event::RxStray), count(Event::RxErrors)), (stray, failed));
        assert_eq!(count(Event::TxStray), stray_sends);
        assert_eq!(wired.counters().get(Counter::Completed), 3000);
        rig.end();
    });
}

/// Each kind of message that brings no request, and a peer that writes into a slot that is being served.
#[test]
fn three_kernels_count_garbage_of_every_kind() {
    on_device("three_kernels_count_garbage_of_every_kind", |context| {
        let (wired, mut rig) = wire(context, shared(8));
        let running = wired.start().expect("started");
        let frame = |id| Peer::frame("rpc_increment", 1, id, &[3]);
        let wait = |event, n| {
            let begin = Instant::now();
            while running.event(event) < n {
                assert!(begin.elapsed() < TIMEOUT, "{event:?} is not counted");
            }
        };
        rig.peer.send_to(9, &frame(1));
        wait(Event::RxBadSlot, 1);
        rig.peer.send_to(2, &Peer::frame("rpc_spin", 8, 2, &200_000_000_i64.to_le_bytes()));
        wait(Event::RxRequests, 1);
        std::thread::sleep(Duration::from_millis(5));
        rig.peer.send_to(2, &frame(3));
        wait(Event::RxUnanswered, 1);
        let (header, _) = rig.peer.receive();
        assert_eq!(header.request_id, 2, "the request that was there has its answer");
        rig.peer.send(&frame(4));
        assert_eq!(rig.peer.receive().0.request_id, 4);
        let wired = stop_clean(running);
        let count = |event| wired.event(event);
        assert_eq!(
            (count(Event::RxBadSlot), count(Event::RxUnanswered), count(Event::RxRequests)),
            (1, 1, 3)
        );
        rig.end();
    });
}

#[test]
fn three_kernels_stop_and_start_again() {
    on_device("three_kernels_stop_and_start_again", |context| {
        let (mut wired, mut rig) = wire(context, shared(64));
        let stops = setting("RINGCALL_STOPS", 20);
        let mut slowest = Duration::ZERO;
        // The deadline of each.
        let within = Duration::from_millis(50);
        for turn in 0..stops {
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            wired = stop_within(running, within);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            rig.peer.mix(100, 16, 32, |_| "rpc_increment");
            // What has arrived is answered before the end, what is underway on the wire at the next start.
            for id in 0..16 {
                rig.peer.send(&Peer::frame("rpc_increment", 1, id, &[id as u8]));
            }
            let begin = Instant::now();
            wired = stop_within(running, within);
            slowest = slowest.max(begin.elapsed());
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            let mut ids: Vec<u32> = (0..16).map(|_| rig.peer.receive().0.request_id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..16).collect::<Vec<_>>(), "turn {turn}");
            wired = stop_within(running, within);
        }
        eprintln!("{stops} stops of three kernels at work: the slowest took {slowest:.1?}");
        assert_eq!(wired.counters().get(Counter::Completed), stops * 116);
        assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
        rig.end();
    });
}

#[test]
fn three_kernels_report_a_dead_queue_pair() {
    on_device("three_kernels_report_a_dead_queue_pair", |context| {
        let (wired, mut rig) = wire(context, shared(16));
        let running = wired.start().expect("started");
        rig.peer.mix(100, 8, 32, |_| "rpc_increment");
        assert!(rig.nic.plant(Fault::Break));
        let begin = Instant::now();
        while running.event(Event::RxFlushed) == 0 {
            assert!(begin.elapsed() < TIMEOUT, "nobody notices");
        }
        let stopped = running.stop(TIMEOUT);
        assert_eq!(stopped.report.dead, Some(Syndrome::FLUSHED));
        assert!(stopped.dispatcher.expect("they ended").start().is_err());
        rig.end();
    });
}

#[test]
fn a_handler_that_does_not_return_is_named_by_three_kernels() {
    on_device("a_handler_that_does_not_return_is_named_by_three_kernels", |context| {
        let (wired, mut rig) = wire(context, shared(16));
        let running = wired.start().expect("started");
        rig.peer.send(&Peer::frame("rpc_spin", 8, 1, &3_000_000_000_i64.to_le_bytes()));
        std::thread::sleep(Duration::from_millis(50));
        let stopped = running.stop(Duration::from_millis(200));
        assert!(stopped.dispatcher.is_none(), "{:?}", stopped.report);
        let stuck = &stopped.report.dispatcher.stuck;
        assert_eq!(stuck.len(), 1, "{:?}", stopped.report);
        assert_eq!(stuck[0].name.as_deref(), Some("rpc_spin"));
        rig.end();
    });
}

#[test]
fn three_kernels_lose_none_of_many_requests() {
    on_device("three_kernels_lose_none_of_many_requests", |context| {
        let n = setting("RINGCALL_UNIFIED_REQUESTS", 200_000);
        for kernel in [KernelKind::regular(), KernelKind::broad()] {
            let (wired, mut rig) = wire(context, Pair { kernel, ..shared(128) });
            let running = wired.start().expect("started");
            let begin = Instant::now();
            rig.peer.mix(n, 64, 32, |_| "rpc_increment");
            eprintln!("{n} requests, {kernel:?}: {:.2} M/s", n as f64 / begin.elapsed().as_secs_f64() / 1e6);
            let wired = stop_clean(running);
            let count = |event| wired.event(event);
            assert_eq!((count(Event::RxRequests), count(Event::TxPosted) >= n), (n, true));
            assert_eq!(count(Event::RxLost) + count(Event::RxReordered) + count(Event::RxUnanswered), 0);
            assert_eq!(wired.counters().get(Counter::Completed), n);
            rig.end();
        }
    });
}

/// What an adapter hands out is taken if it is the adapter's, and named if it is not.
#[test]
fn a_queue_pair_by_its_addresses_is_the_adapters_own_or_refused() {
    on_device("a_queue_pair_by_its_addresses_is_the_adapters_own_or_refused", |context| {
        let (queues, mut rig) = queues(context, shared(8));
        let (config, addresses) = (*queues.pair().config(), *queues.pair().addresses());
        for (what, other) in [
            ("the receive queue", UnifiedParams { receive: addresses.send, ..addresses }),
            ("the send completions", UnifiedParams { tx_completion_entries: 4096, ..addresses }),
            ("the doorbell register", UnifiedParams { uar: 0, ..addresses }),
            ("the request slots", UnifiedParams { rx_data: addresses.rx_data + 64, ..addresses }),
        ] {
            let why = queues.pair_of(config, &other).expect_err("another's").to_string();
            assert!(why.contains(what), "{why}");
        }
        let longer = Config { slots: config.slots * 2, ..config };
        assert!(queues.pair_of(longer, &addresses).is_err());
        let pair = queues.pair_of(config, &addresses).expect("its own");
        let modules =
            Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, context).expect("PTX");
        let wired =
            RelayDispatcher::wire(&pair, None, calls(64), modules, RelayOptions::default()).expect("wired");
        let running = wired.start().expect("started");
        rig.peer.mix(100, 4, 32, |_| "rpc_increment");
        let _ = stop_clean(running);
        rig.end();
    });
}
