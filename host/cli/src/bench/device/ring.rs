//! Clients of a mapped ring: one request at a time, and as many as there are slots.

use super::super::measure::{Bench, Row, histogram};
use super::PATIENCE_NS;
use anyhow::{Result, anyhow};
use ringcall::{FunctionId, Ring};
use ringcall_dispatch::slot::{Response, Vacant};
use ringcall_dispatch::{RingMemory, SharedRing, SlotIndex};
use ringcall_gpu::{clock, hint};

/// What is sent: every byte of the answer must be one more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) function: FunctionId,
    pub(super) payload_bytes: usize,
}

/// Whether the response is the right one.
fn is_right(response: &Response, ring: &SharedRing, id: u32, payload: &[u8], out: &mut [u8]) -> bool {
    let len = response.read(ring, out);
    response.header().status == 0
        && response.header().request_id == id
        && len == payload.len()
        && out[..len].iter().zip(payload).all(|(got, sent)| *got == sent.wrapping_add(1))
}

/// Times `trips` round trips, one outstanding.
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

/// The same for any function: `prepare` has the number of the call and its payload, `is_right` payload and answer.
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
        let warm_up = bench.trips / 10;
        let mut slot = geometry.slot(0).ok_or_else(|| anyhow!("a ring without slots"))?;
        for i in 0..warm_up + bench.trips {
            prepare(i, &mut payload);
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
            if i >= warm_up {
                times.record((now - begin).max(1))?;
            }
            slot = geometry.next(slot);
        }
        Ok(Row { lost, wrong, ..Row::new(&times) })
    })
}

fn wait<T>(begin: u64, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if clock::now_ns() - begin > PATIENCE_NS {
            return None;
        }
        hint::spin();
    }
}

/// What a flood brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flood {
    pub(super) per_s: f64,
    pub(super) lost: u64,
    pub(super) wrong: u64,
}

/// Keeps every slot in flight until `requests` were answered: each is written again as soon as it is free.
pub(super) fn all_outstanding(bench: &Bench, ring: &Ring, work: Work, requests: u64) -> Result<Flood> {
    bench.on_client_core(|| {
        let ring = ring.shared();
        let slots: Vec<SlotIndex> = ring.geometry().iter().collect();
        let mut ids: Vec<Option<u32>> = vec![None; slots.len()];
        let payload = vec![7; work.payload_bytes];
        let mut out = vec![0; work.payload_bytes];
        let (mut sent, mut got, mut wrong) = (0_u64, 0_u64, 0);
        let begin = clock::now_ns();
        let mut last = begin;
        while got < requests {
            let before = got;
            for (&slot, id) in slots.iter().zip(&mut ids) {
                if let Some(sent_id) = *id
                    && let Some(response) = Response::probe(ring, slot)
                {
                    wrong += u64::from(!is_right(&response, ring, sent_id, &payload, &mut out));
                    response.release(ring);
                    *id = None;
                    got += 1;
                }
                if id.is_none()
                    && sent < requests
                    && let Some(vacant) = Vacant::probe(ring, slot)
                {
                    vacant.submit(ring, work.function.0, sent as u32, 0, &payload)?;
                    *id = Some(sent as u32);
                    sent += 1;
                }
            }
            let now = clock::now_ns();
            if got > before {
                last = now;
            } else if now - last > PATIENCE_NS {
                break;
            }
        }
        let seconds = (clock::now_ns() - begin) as f64 / 1e9;
        Ok(Flood { per_s: got as f64 / seconds, lost: sent - got, wrong })
    })
}
