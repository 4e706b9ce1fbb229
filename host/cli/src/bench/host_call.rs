//! An inline call through the host dispatcher: the handler increments every byte of the payload, and every answer is
//! checked.

use super::measure::{Bench, Row, histogram};
use crate::pinning;
use anyhow::{Result, anyhow, bail};
use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Wait};
use ringcall_gpu::{clock, hint};
use ringcall_protocol::SharedRing;
use ringcall_protocol::slot::Response;
use std::time::Duration;

/// Slots in flight in the throughput measurement.
const SLOTS: u32 = 64;
/// Turns of the throughput measurement between readings of the clock, which take longer than a turn.
const CHECK_EVERY: u32 = 1 << 10;
/// A request without an answer after this time counts as lost.
const TIMEOUT_NS: u64 = 5_000_000_000;

pub(super) fn run(bench: &Bench, payload_bytes: usize) -> Result<Row> {
    // Header and payload, rounded up to whole cache lines.
    let slot_bytes = (24 + payload_bytes).next_multiple_of(64) as u32;
    let ring = Ring::allocate(RingConfig { slots: SLOTS, slot_bytes })?;
    let table = FunctionTable::builder()
        .host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
            for (out, byte) in result.iter_mut().zip(request) {
                *out = byte.wrapping_add(1);
            }
            Ok(request.len())
        })
        .build(&ring)?;
    let options = HostOptions { wait: Wait::Spin, core: Some(bench.cores.server()), request_timeout: None };
    let dispatcher = HostDispatcher::builder(&ring, table).options(options).build()?.start()?;
    pinning::tell(dispatcher.pin());
    let measured = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                pinning::pin("client", bench.cores.client());
                let mut client = Client::new(&ring);
                let mut row = one_outstanding(bench, &mut client, payload_bytes)?;
                let lost_before = row.lost;
                let flood = many_outstanding(bench, &mut client, payload_bytes)?;
                row.per_s = Some(flood.per_s);
                row.lost = lost_before + flood.lost;
                row.wrong += flood.wrong;
                Ok(row)
            })
            .join()
            .map_err(|_| anyhow!("the client thread panicked"))?
    });
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if stopped.report.stuck || stopped.report.dropped > 0 {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    measured
}

/// Checks the answer to request `id` with this payload.
fn is_right(response: &Response, ring: &SharedRing, id: u32, payload: &[u8], out: &mut [u8]) -> bool {
    let len = response.read(ring, out);
    response.header().status == 0
        && response.header().request_id == id
        && len == payload.len()
        && out[..len].iter().zip(payload).all(|(got, sent)| *got == sent.wrapping_add(1))
}

fn one_outstanding(bench: &Bench, client: &mut Client, payload_bytes: usize) -> Result<Row> {
    let function = FunctionId::of("rpc_increment");
    let mut payload = vec![7; payload_bytes];
    let mut out = vec![0; payload_bytes];
    let mut times = histogram()?;
    let (mut lost, mut wrong) = (0, 0);
    let mut trips = bench.all_trips();
    let mut before = clock::now_ns();
    while let Some(trip) = trips.next(before) {
        let i = trip.number;
        payload[0] = i as u8;
        let slot = client.send(function, i as u32, 0, &payload)?;
        let right = loop {
            let taken =
                client.take(slot, |response, ring| is_right(response, ring, i as u32, &payload, &mut out));
            match taken {
                Some(right) => break Some(right),
                None if clock::now_ns() - before > TIMEOUT_NS => break None,
                None => hint::spin(),
            }
        };
        let now = clock::now_ns();
        if trip.is_timed {
            times.record((now - before).max(1))?;
        }
        before = now;
        match right {
            Some(true) => (),
            Some(false) => wrong += 1,
            None => lost += 1,
        }
    }
    Ok(Row { lost, wrong, cut_from: trips.cut_from(), ..Row::new(&times) })
}

struct Flood {
    per_s: f64,
    lost: u64,
    wrong: u64,
}

fn many_outstanding(bench: &Bench, client: &mut Client, payload_bytes: usize) -> Result<Flood> {
    let function = FunctionId::of("rpc_increment");
    let payload = vec![7; payload_bytes];
    let mut out = vec![0; payload_bytes];
    let (mut sent, mut got, mut wrong) = (0_u64, 0_u64, 0_u64);
    // Ids by slot, since answers may come in any order.
    let mut ids = [0_u32; SLOTS as usize];
    let begin = clock::now_ns();
    let mut last = begin;
    let (mut requests, mut turns) = (bench.requests, 0_u32);
    while got < requests {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(CHECK_EVERY) && clock::now_ns() - begin >= bench.limits.requests_ns {
            // Requests in flight are still answered.
            requests = sent;
        }
        while sent < requests {
            let Ok(slot) = client.send(function, sent as u32, 0, &payload) else { break };
            ids[slot.as_usize()] = sent as u32;
            sent += 1;
        }
        let taken = client.take_all(|response, ring| {
            let id = ids[response.slot().as_usize()];
            wrong += u64::from(!is_right(response, ring, id, &payload, &mut out));
        }) as u64;
        got += taken;
        if taken > 0 {
            last = 0;
        } else {
            let now = clock::now_ns();
            if last == 0 {
                last = now;
            } else if now - last > TIMEOUT_NS {
                break;
            }
        }
    }
    let seconds = (clock::now_ns() - begin) as f64 / 1e9;
    Ok(Flood { per_s: got as f64 / seconds, lost: sent - got, wrong })
}
