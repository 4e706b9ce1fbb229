//! A ring whose producer and consumer are outside the pipeline: here, a thread of the test.

mod support;

use ringcall::client::{CallError, Client};
use ringcall::wire::header::RequestHeader;
use ringcall::{Ring, RingConfig, Status};
use ringcall_pipeline::{ExternalIds, StageConfig};
use ringcall_protocol::RingMemory;
use std::time::{Duration, Instant};
use support::*;

fn ring(slots: u32) -> (Ring, Ring) {
    let ours = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
    let theirs = Ring::external(ours.shared().clone());
    (ours, theirs)
}

/// Sends `n` requests with ids that count up from `first`, taking responses meanwhile; checks each.
fn drive(client: &mut Client, first: u32, n: u32) {
    let begin = Instant::now();
    let (mut sent, mut got) = (0, 0);
    while got < n {
        assert!(begin.elapsed() < LONG, "{got} of {n} responses");
        while sent < n {
            let id = first.wrapping_add(sent);
            match client.send(ECHO, id, u64::from(sent), &[act::DONE, sent as u8]) {
                Ok(_) => sent += 1,
                Err(CallError::Full) => break,
                Err(other) => panic!("{other}"),
            }
        }
        got += client.take_all(|response, ring| {
            let header = response.header();
            let i = header.request_id.wrapping_sub(first);
            assert_eq!((Status(header.status), header.ptp_timestamp), (Status::OK, u64::from(i)));
            let mut result = [0; 2];
            assert_eq!(response.read(ring, &mut result), 2);
            assert_eq!(result.to_vec(), answer(&[act::DONE, i as u8]));
        }) as u32;
        std::thread::yield_now();
    }
}

#[test]
fn every_answer_is_taken_by_the_transport_and_completed_here() {
    for slots in [1, 2, 64] {
        let (ours, theirs) = ring(slots);
        let log = Log::default();
        let (builder, _deferrals) = builder(config(2, 1), &log);
        let pipeline = builder.ring(theirs).build().expect("built");
        assert_eq!(pipeline.ring_bases(), ours.bases());
        let mut pipeline = pipeline.start().expect("started");
        assert!(pipeline.injector().is_none(), "the producer is somebody else");
        let mut client = Client::new(&ours);
        // Over the end of 32 bits, in two runs.
        let first = u32::MAX - 700;
        for run in 0..2 {
            drive(&mut client, first.wrapping_add(run * 1000), 1000);
            let stopped = pipeline.stop(LONG);
            assert!(stopped.report.is_clean(), "{:?}", stopped.report);
            let stats = stopped.report.stats;
            let n = u64::from(run + 1) * 1000;
            assert_eq!((stats.submitted, stats.completed, stats.succeeded, stats.dispatched), (n, n, n, n));
            pipeline = stopped.pipeline.expect("nothing is stuck").start().expect("started");
        }
        assert!(pipeline.stop(LONG).report.is_clean());
        let mut done = log.wait(2000);
        assert!(done.iter().all(|d| d.status.is_ok() && d.result.is_none()));
        done.sort_by_key(|d| d.id);
        let ids: Vec<u64> = done.iter().map(|d| d.id).collect();
        assert_eq!(ids, (0..2000).map(|i| u64::from(first) + i).collect::<Vec<_>>(), "64 bits, none twice");
    }
}

#[test]
fn opaque_ids_stay_as_they_are() {
    let (ours, theirs) = ring(4);
    let log = Log::default();
    let config = StageConfig { external_ids: ExternalIds::Opaque, ..config(1, 1) };
    let (builder, _deferrals) = builder(config, &log);
    let pipeline = builder.ring(theirs).build().expect("built").start().expect("started");
    let mut client = Client::new(&ours);
    let ids = [u32::MAX, 0, 1 << 31, 7];
    for id in ids {
        drive(&mut client, id, 1);
    }
    let done = log.wait(4);
    assert_eq!(done.iter().map(|d| d.id).collect::<Vec<_>>(), ids.map(u64::from));
    assert!(pipeline.stop(LONG).report.is_clean());
}

#[test]
fn garbage_is_answered_and_completed() {
    let (ours, theirs) = ring(2);
    let log = Log::default();
    let (builder, _deferrals) = builder(config(1, 1), &log);
    let pipeline = builder.ring(theirs).build().expect("built").start().expect("started");
    let client = Client::new(&ours);
    let good = RequestHeader::new(ECHO.0, 0, 5, 6);
    let cases = [
        (RequestHeader { magic: 1, ..good }, 0, Status::BAD_MAGIC),
        (RequestHeader { arg_len: 41, ..good }, 0, Status::ARG_TOO_LONG),
        (RequestHeader { function_id: 9, ..good }, 0, Status::UNKNOWN_FUNCTION),
        (good, 8, Status::BAD_FLAG),
    ];
    for (n, (header, offset, status)) in cases.into_iter().enumerate() {
        let slot = client.next_slot();
        let flag = ours.geometry().request_address(slot) + offset;
        ours.shared().forge_request(slot, &header.to_bytes(), flag);
        let reply = client.wait(slot, LONG).expect("answered");
        assert_eq!((reply.status, reply.request_id, reply.ptp_timestamp), (status, 5, 6));
        let done = log.wait(n + 1);
        assert_eq!((done[n].id, done[n].status), (5, status));
    }
    let stopped = pipeline.stop(LONG);
    assert!(stopped.report.is_clean());
    assert_eq!(stopped.report.stats.refused, 4);
}

/// A slot whose last answer was not reported yet takes no new request: neither while the pipeline runs, nor in a drain, nor at
/// the deadline of a stop.
#[test]
fn no_notice_is_ever_overwritten() {
    for deadline in [LONG, Duration::ZERO] {
        let (ours, theirs) = ring(1);
        let log = Log::default();
        let gate = Gate::default();
        let (builder, _deferrals) = builder(config(1, 1), &log);
        let (seen, shut) = (log.clone(), gate.clone());
        let pipeline = builder
            .on_completion(move |completion| {
                shut.pass();
                seen.push(completion);
            })
            .ring(theirs)
            .build()
            .expect("built")
            .start()
            .expect("started");
        let mut client = Client::new(&ours);
        // The handler holds the first request, the second is answered and not reported, the third waits in the ring.
        for id in 0..2 {
            let slot = client.send(ECHO, id, 0, &[act::DONE]).expect("room");
            assert!(client.wait(slot, LONG).expect("answered").status.is_ok());
        }
        let slot = client.send(ECHO, 2, 0, &[act::DONE]).expect("room");
        let monitor = pipeline.monitor();
        assert_eq!(monitor.stats().submitted, 2);
        let stopping = std::thread::spawn(move || pipeline.stop(deadline));
        if deadline > Duration::ZERO {
            // The stop waits for the handler, and then drains the third request.
            assert_eq!(monitor.stats().submitted, 2);
            gate.open();
        }
        let stopped = stopping.join().expect("no panic");
        gate.open();
        if deadline > Duration::ZERO {
            assert!(stopped.report.is_clean(), "{:?}", stopped.report);
            assert_eq!(log.wait(3).iter().map(|d| d.id).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(client.wait(slot, LONG).expect("answered").status.is_ok());
        } else {
            // The handler was held past the stop's deadline: both of its requests are still reported.
            assert!(stopped.report.stuck_consumer);
            if stopped.report.stuck_dispatcher {
                continue; // on a machine so busy that its thread did not run for half a second
            }
            assert_eq!(log.wait(2).iter().map(|d| d.id).collect::<Vec<_>>(), [0, 1]);
            assert_ne!(ours.shared().rx(slot), 0, "the third is still in the ring: not taken, not lost");
            assert_eq!(ours.shared().tx(slot), 0);
        }
    }
}
