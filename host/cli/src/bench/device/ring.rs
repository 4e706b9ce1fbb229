//! Clients of a mapped ring: one request at a time, and as many as there are slots.

use super::super::measure::{Bench, Row, histogram};
use super::TIMEOUT_NS;
use crate::pinning;
use anyhow::{Result, anyhow};
use ringcall::{FunctionId, Ring};
use ringcall_gpu::{clock, hint};
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};

/// The requests: every byte of the answer must be one more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) function: FunctionId,
    pub(super) payload_bytes: usize,
}

/// Times `trips` round trips with one outstanding request.
pub(super) fn one_outstanding(bench: &Bench, ring: &Ring, work: Work) -> Result<Row> {
    let increments = |payload: &[u8], answer: &[u8]| {
        answer.len() == payload.len()
            && answer.iter().zip(payload).all(|(got, sent)| *got == sent.wrapping_add(1))
    };
    let count = |i: u64, payload: &mut [u8]| payload[0] = i as u8;
    round_trips(
        bench,
        ring,
        work.function,
        vec![7; work.payload_bytes],
        work.payload_bytes,
        count,
        increments,
    )
}

/// The same for any function: `prepare` gets the call's number and its payload, `is_right` gets payload and answer.
pub(in super::super) fn round_trips(
    bench: &Bench,
    ring: &Ring,
    function: FunctionId,
    mut payload: Vec<u8>,
    answer_bytes: usize,
    mut prepare: impl FnMut(u64, &mut [u8]) + Send,
    is_right: impl Fn(&[u8], &[u8]) -> bool + Sync,
) -> Result<Row> {
    bench.on_client_core(|| {
        let ring = ring.shared();
        let geometry = *ring.geometry();
        let mut out = vec![0; answer_bytes];
        let mut times = histogram()?;
        let (mut lost, mut wrong) = (0, 0);
        let mut trips = bench.all_trips();
        let mut pause = bench.pause();
        let mut slot = geometry.slot(0).ok_or_else(|| anyhow!("a ring without slots"))?;
        while let Some(trip) = trips.next(clock::now_ns()) {
            let i = trip.number;
            prepare(i, &mut payload);
            pause.wait();
            let before = clock::now_ns();
            let Some(vacant) = wait(before, || Vacant::probe(ring, slot)) else {
                lost += 1;
                break;
            };
            let begin = clock::now_ns();
            vacant.submit(ring, function.0, i as u32, 0, &payload)?;
            let Some(response) = wait(begin, || Response::probe(ring, slot)) else {
                lost += 1;
                break;
            };
            let now = clock::now_ns();
            let len = response.read(ring, &mut out);
            let header = *response.header();
            let good = header.status == 0 && header.request_id == i as u32 && is_right(&payload, &out[..len]);
            wrong += u64::from(!good);
            response.release(ring);
            if trip.is_timed {
                times.record((now - begin).max(1))?;
            }
            slot = geometry.next(slot);
        }
        // A lost request also ends the row, which then reports the loss.
        let cut_from = trips.cut_from().filter(|_| lost == 0);
        Ok(Row { lost, wrong, cut_from, ..Row::new(&times) })
    })
}

fn wait<T>(begin: u64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if clock::now_ns() - begin > TIMEOUT_NS {
            return None;
        }
        hint::spin();
    }
}

/// The result of a flood.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flood {
    pub(super) per_s: f64,
    pub(super) lost: u64,
    pub(super) wrong: u64,
}

/// Keeps every slot in flight until `requests` were answered: each slot is written again as soon as it is free. Two
/// clients share the slots if there are cores for them, so that the clients do not limit the throughput.
pub(super) fn all_outstanding(bench: &Bench, ring: &Ring, work: Work, requests: u64) -> Result<Flood> {
    let ring = ring.shared();
    let slots: Vec<SlotIndex> = ring.geometry().iter().collect();
    // For few requests one client on the calling thread: starting threads would take longer.
    let few = requests <= slots.len() as u64;
    let cores: Vec<usize> = std::iter::once(bench.cores.client()).chain(bench.cores.extra(0)).collect();
    let clients = if few { 1 } else { cores.len().min(slots.len()) };
    let begin = clock::now_ns();
    let end = begin.saturating_add(bench.limits.requests_ns);
    let counts = if few {
        vec![keep_in_flight(ring, &slots, work, requests, end)?]
    } else {
        let client = |slots, core, share| {
            move || {
                pinning::pin("client", core);
                keep_in_flight(ring, slots, work, share, end)
            }
        };
        std::thread::scope(|scope| {
            let parts = slots.chunks(slots.len().div_ceil(clients)).zip(cores);
            let running: Vec<_> = (0..)
                .zip(parts)
                .map(|(i, (slots, core))| {
                    let share = requests / clients as u64 + u64::from(i < requests % clients as u64);
                    scope.spawn(client(slots, core, share))
                })
                .collect();
            running
                .into_iter()
                .map(|client| client.join().map_err(|_| anyhow!("a client thread panicked"))?)
                .collect::<Result<Vec<Count>>>()
        })?
    };
    let seconds = (clock::now_ns() - begin) as f64 / 1e9;
    let sum = |of: fn(&Count) -> u64| counts.iter().map(of).sum::<u64>();
    let got = sum(|count| count.got);
    Ok(Flood {
        per_s: got as f64 / seconds,
        lost: sum(|count| count.sent) - got,
        wrong: sum(|count| count.wrong),
    })
}

/// Counters of one client.
#[derive(Debug, Default)]
struct Count {
    sent: u64,
    got: u64,
    wrong: u64,
}

/// One client's part of [`all_outstanding`]. It sends nothing after `end_ns`.
fn keep_in_flight(
    ring: &SharedRing,
    slots: &[SlotIndex],
    work: Work,
    mut requests: u64,
    end_ns: u64,
) -> Result<Count> {
    let mut ids: Vec<Option<u32>> = vec![None; slots.len()];
    let payload = vec![7; work.payload_bytes];
    let expected = vec![8; work.payload_bytes];
    let mut out = vec![0; work.payload_bytes];
    let mut count = Count::default();
    let mut last = clock::now_ns();
    while count.got < requests {
        let before = count.got;
        for (&slot, id) in slots.iter().zip(&mut ids) {
            if let Some(sent) = *id
                && let Some(response) = Response::probe(ring, slot)
            {
                let len = response.read(ring, &mut out);
                let header = response.header();
                let right = header.status == 0 && header.request_id == sent && out[..len] == expected;
                count.wrong += u64::from(!right);
                response.release(ring);
                *id = None;
                count.got += 1;
            }
            if id.is_none()
                && count.sent < requests
                && let Some(vacant) = Vacant::probe(ring, slot)
            {
                vacant.submit(ring, work.function.0, count.sent as u32, 0, &payload)?;
                *id = Some(count.sent as u32);
                count.sent += 1;
            }
        }
        let now = clock::now_ns();
        if now >= end_ns {
            requests = count.sent;
        }
        if count.got > before {
            last = now;
        } else if now - last > TIMEOUT_NS {
            break;
        }
    }
    Ok(count)
}
