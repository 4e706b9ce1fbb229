//! The unified dispatcher on a real device, over an emulated NIC. Without a device, each test is skipped with one line that
//! says why.
//!
//! `RINGCALL_UNIFIED_REQUESTS` says how many requests the longest test makes, `RINGCALL_UNIFIED_LAPS` how often the queues go
//! round.

#[path = "../device/mod.rs"]
mod device;
mod graphs;
mod grid;
mod hooks;
mod relay;
mod rig;

use rig::{Pair, Peer, TIMEOUT, calls, on_device, queues, setting, stop_clean, try_wire, wire};
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_launch::ring::{DeviceError, KernelKind};
use ringcall_mlx5::Event;
use ringcall_mlx5::layout::cqe::{Syndrome, opcode};
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Fault, Queue};
use ringcall_wire::Counter;
use ringcall_wire::header::HEADER_BYTES;
use std::time::Instant;

#[test]
fn every_status() {
    on_device("every_status", |context| {
        for (stride, len) in [(64, 32), (576, 512)] {
            for warps in [1, 8] {
                let kernel = KernelKind::Regular { blocks: 1, warps };
                let pair = Pair { stride, kernel, ..Pair::of_depth(8) };
                let (wired, mut rig) = wire(context, pair);
                let running = wired.start().expect("started");
                let cases = Peer::cases(stride, len);
                for (frame, status, owed) in &cases {
                    rig.peer.send(frame);
                    let (header, result) = rig.peer.receive();
                    assert_eq!((header.status(), header.result_len), (*status, *owed), "{frame:x?}");
                    if status.is_ok() {
                        assert!(
                            result.iter().zip(&frame[HEADER_BYTES..]).all(|(a, b)| *a == b.wrapping_add(1))
                        );
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
        }
    });
}

/// A second dispatcher would serve what the first has answered again.
#[test]
fn a_queue_pair_is_wired_once() {
    on_device("a_queue_pair_is_wired_once", |context| {
        let pair = Pair::of_depth(16);
        let (queues, mut rig) = queues(context, pair);
        let broken = Pair { kernel: KernelKind::Regular { blocks: 2, warps: 8 }, ..pair };
        assert!(try_wire(context, &queues, broken, calls(pair.stride)).is_err());
        let wired =
            try_wire(context, &queues, pair, calls(pair.stride)).expect("what failed has claimed nothing");
        let running = wired.start().expect("started");
        rig.peer.flood(100, 8, 32, |_| ());
        let wired = stop_clean(running);
        let second = try_wire(context, &queues, pair, calls(pair.stride)).err();
        assert!(matches!(second, Some(DeviceError::Claimed(_))), "{second:?}");
        drop(wired);
        let second = try_wire(context, &queues, pair, calls(pair.stride)).err();
        assert!(matches!(second, Some(DeviceError::Claimed(_))), "{second:?}");
        rig.end();
    });
}

#[test]
fn queues_go_round_a_thousand_times() {
    on_device("queues_go_round_a_thousand_times", |context| {
        let laps = setting("RINGCALL_UNIFIED_LAPS", 1000);
        for depth in [1, 2, 64, 1024] {
            for (copying, record) in [
                (Copying::FirstWordLast, RecordMode::Written),
                (Copying::Not, RecordMode::Written),
                (Copying::Not, RecordMode::NotWritten),
            ] {
                let pair = Pair { copying, record, ..Pair::of_depth(depth) };
                let (wired, mut rig) = wire(context, pair);
                let running = wired.start().expect("started");
                let (n, window) = (laps * u64::from(depth), u64::from(depth).div_ceil(2));
                // With one receive request, the credit has to come back before the next message.
                if depth == 1 {
                    for i in 0..n {
                        let credit = Instant::now();
                        while running.event(Event::RxReposted) < i {
                            assert!(credit.elapsed() < TIMEOUT, "the credit does not come back");
                        }
                        rig.peer.flood(1, 1, 32, |_| ());
                    }
                } else {
                    rig.peer.flood(n, window, 32, |_| ());
                }
                let wired = stop_clean(running);
                assert_eq!(wired.event(Event::RxRequests), n, "{pair:?}");
                assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
                assert_eq!(wired.counters().get(Counter::Completed), n);
                rig.end();
            }
        }
    });
}

#[test]
fn wrong_completions_in_between_change_nothing() {
    on_device("wrong_completions_in_between_change_nothing", |context| {
        let pair = Pair { consumer_records: true, completions: 256, ..Pair::of_depth(64) };
        let (wired, mut rig) = wire(context, pair);
        let running = wired.start().expect("started");
        let (mut stray, mut failed) = (0, 0);
        let nic = &rig.nic;
        rig.peer.flood(3000, 16, 32, |i| {
            let wqe_counter = 0x7FF0;
            let fault = match i % 3 {
                0 => Fault::Stray { queue: Queue::Receive, opcode: opcode::SIGNATURE_ERROR, wqe_counter },
                1 => Fault::FailReceive(Syndrome::LOCAL_ACCESS),
                _ if i % 2 == 0 => Fault::Stray { queue: Queue::Send, opcode: opcode::SEND, wqe_counter },
                _ => return,
            };
            match fault {
                Fault::FailReceive(_) => failed += 1,
                Fault::Stray { queue: Queue::Receive, .. } => stray += 1,
                _ => (),
            }
            assert!(nic.plant(fault));
        });
        // The last ones come after the last answer.
        let begin = Instant::now();
        while running.event(Event::RxStray) < stray || running.event(Event::RxErrors) < failed {
            assert!(begin.elapsed() < TIMEOUT, "a completion is not counted");
        }
        let wired = stop_clean(running);
        assert!(stray + failed >= 1000);
        assert_eq!((wired.event(Event::RxStray), wired.event(Event::RxErrors)), (stray, failed));
        assert_eq!(wired.counters().get(Counter::Completed), 3000);
        rig.end();
    });
}

#[test]
fn stops_idle_and_busy_and_starts_again() {
    on_device("stops_idle_and_busy_and_starts_again", |context| {
        let (mut wired, mut rig) = wire(context, Pair::of_depth(64));
        for turn in 0..20_u64 {
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            wired = stop_clean(running);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            rig.peer.flood(100, 16, 32, |_| ());
            // What has arrived is answered before the end, what is underway on the wire at the next start.
            for id in 0..16 {
                rig.peer.send(&Peer::frame("rpc_increment", 1, id, &[id as u8]));
            }
            wired = stop_clean(running);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            for id in 0..16 {
                let (header, result) = rig.peer.receive();
                assert_eq!((header.request_id, result), (id, vec![id as u8 + 1]), "turn {turn}");
            }
            wired = stop_clean(running);
        }
        assert_eq!(wired.counters().get(Counter::Completed), 20 * 116);
        assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
        rig.end();
    });
}

#[test]
fn a_dead_queue_pair_is_reported() {
    on_device("a_dead_queue_pair_is_reported", |context| {
        let (wired, mut rig) = wire(context, Pair::of_depth(16));
        let running = wired.start().expect("started");
        rig.peer.flood(100, 8, 32, |_| ());
        assert!(rig.nic.plant(Fault::Break));
        let begin = Instant::now();
        while running.event(Event::RxFlushed) == 0 {
            assert!(begin.elapsed() < TIMEOUT, "nobody notices");
        }
        let stopped = running.stop(TIMEOUT);
        assert_eq!(stopped.report.dead, Some(Syndrome::FLUSHED));
        assert!(stopped.dispatcher.expect("it ended").start().is_err());
        rig.end();
    });
}

#[test]
fn a_handler_that_does_not_return_is_named() {
    on_device("a_handler_that_does_not_return_is_named", |context| {
        let (wired, mut rig) = wire(context, Pair::of_depth(16));
        let running = wired.start().expect("started");
        rig.peer.send(&Peer::frame("rpc_spin", 8, 1, &3_000_000_000_i64.to_le_bytes()));
        std::thread::sleep(std::time::Duration::from_millis(50));
        let stopped = running.stop(std::time::Duration::from_millis(200));
        assert!(stopped.dispatcher.is_none(), "{:?}", stopped.report);
        assert_eq!(stopped.report.stuck.len(), 1, "{:?}", stopped.report);
        assert_eq!(stopped.report.stuck[0].function, "rpc_spin");
        // It returns after all, and so the test's process can end.
        rig.peer.receive();
        rig.end();
    });
}

#[test]
fn none_of_many_requests_is_lost() {
    on_device("none_of_many_requests_is_lost", |context| {
        let n = setting("RINGCALL_UNIFIED_REQUESTS", 200_000);
        let (wired, mut rig) = wire(context, Pair::of_depth(128));
        let running = wired.start().expect("started");
        let begin = Instant::now();
        rig.peer.flood(n, 64, 32, |_| ());
        eprintln!("{n} requests: {:.2} M/s", n as f64 / begin.elapsed().as_secs_f64() / 1e6);
        let wired = stop_clean(running);
        let count = |event| wired.event(event);
        assert_eq!((count(Event::RxRequests), count(Event::TxPosted) >= n), (n, true));
        assert_eq!(count(Event::RxLost) + count(Event::RxReordered), 0);
        assert_eq!(wired.counters().get(Counter::Completed), n);
        rig.end();
    });
}
