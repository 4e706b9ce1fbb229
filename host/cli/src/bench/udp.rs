//! Requests over UDP on loopback, client and service in turns on one thread, with and without tags; and the tags alone.

use super::measure::{Bench, Row, histogram};
use anyhow::{Result, bail};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_gpu::clock;
use ringcall_transport::{Caller, CallerOptions, Link, RequestOutcome, Tagged, UnifiedTransport, udp};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader};
use ringcall_wire::names;
use ringcall_wire::tag::{FrameKey, TAG_BYTES};
use std::hint::black_box;

/// Requests timed together, because reading the clock takes as long as a tag.
const BATCH: u64 = 64;

/// An arbitrary key, since the time of a tag does not depend on it.
fn key() -> FrameKey {
    FrameKey::new([0x5a; FrameKey::BYTES])
}

/// A service's work for a request's tag: it checks the request's and makes the answer's, with payloads of the same
/// length.
pub(super) fn tag(bench: &Bench, payload_bytes: usize) -> Result<Row> {
    let frame_bytes = HEADER_BYTES + payload_bytes;
    let mut request = vec![7; frame_bytes + TAG_BYTES];
    request[..HEADER_BYTES].copy_from_slice(&RequestHeader::new(1, payload_bytes as u32, 2, 3).to_bytes());
    let key = black_box(key());
    key.seal(&mut request, frame_bytes);
    let mut answer = request.clone();
    let mut wrong = 0;
    let mut times = histogram()?;
    let mut batches = bench.trips_after(0, bench.trips.div_ceil(BATCH));
    let mut begin = clock::now_ns();
    while batches.next(begin).is_some() {
        begin = clock::now_ns();
        for _ in 0..BATCH {
            wrong += u64::from(key.open(black_box(&request)).is_none());
            black_box(key.seal(black_box(&mut answer), frame_bytes));
        }
        times.record(((clock::now_ns() - begin) / BATCH).max(1))?;
    }
    Ok(Row { wrong, ratio_to_floor: f64::NAN, cut_from: batches.cut_from(), ..Row::new(&times) })
}

/// Round trips with one outstanding request.
pub(super) fn run(bench: &Bench, payload_bytes: usize, tagged: bool) -> Result<Row> {
    bench.on_client_core(|| round_trips(bench, payload_bytes, tagged.then(key)))
}

fn round_trips(bench: &Bench, payload_bytes: usize, key: Option<FrameKey>) -> Result<Row> {
    let slot_bytes = (HEADER_BYTES + payload_bytes).next_multiple_of(64) as u32;
    let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes })?;
    let table =
        FunctionTable::builder().host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            for (out, byte) in result.iter_mut().zip(request) {
                *out = byte.wrapping_add(1);
            }
            Ok(request.len())
        });
    let mut dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.into_stepper();
    let mut link = Link::attach(Tagged::new(udp::Udp::bind(&udp::UdpOptions::default())?, key), &ring)?;
    let to = link.endpoint().address;
    let options = CallerOptions { frame_bytes: slot_bytes as usize, ..CallerOptions::default() };
    let mut caller = Caller::new(Tagged::new(udp::Udp::to(to)?, key), to.into(), &options)?;
    let payload = vec![7; payload_bytes];
    let function = FunctionId::of(names::RPC_INCREMENT);
    let mut times = histogram()?;
    let (mut lost, mut wrong) = (0, 0);
    let mut trips = bench.all_trips();
    let mut begin = clock::now_ns();
    while let Some(trip) = trips.next(begin) {
        begin = clock::now_ns();
        caller.send(function, trip.number, &payload)?;
        while caller.waiting() > 0 {
            caller.flush();
            link.poll();
            dispatcher.step();
            link.publish();
            caller.poll(|ended| match ended.outcome {
                RequestOutcome::Answered(_, result) if result.iter().all(|&byte| byte == 8) => (),
                RequestOutcome::Answered(..) => wrong += 1,
                RequestOutcome::Lost | RequestOutcome::Unsent => lost += 1,
            });
        }
        if trip.is_timed {
            times.record((clock::now_ns() - begin).max(1))?;
        }
    }
    if link.watch().stats().balance() != (0, 0) {
        bail!("requests are unaccounted for: {}", link.watch().stats());
    }
    Ok(Row { lost, wrong, ratio_to_floor: f64::NAN, cut_from: trips.cut_from(), ..Row::new(&times) })
}
