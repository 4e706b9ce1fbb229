//! Cases of dispatchers and clients that misbehave.

use super::foreign::Act;
use super::{
    CallerReply, CaseResult, Subject, bare, ensure, equal, left_out, refused, reply, request, stop, until,
};
use ringcall_wire::Status;
use ringcall_wire::header::RequestHeader;
use std::collections::BTreeSet;
use std::time::Duration;

const SLOT_BYTES: u32 = 64;
const AT_ONCE: Duration = Duration::ZERO;
const GRACE: Duration = Duration::from_secs(5);

fn echo(_: &RequestHeader, payload: &[u8]) -> Act {
    Act::Answer(payload.to_vec())
}

fn echoed(id: u32, payload: &[u8]) -> CallerReply {
    CallerReply { id, status: Status::OK, result: payload.to_vec() }
}

/// Three of four slots are never answered; requests in the fourth are.
pub(super) fn no_answer_stalls_no_other(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(4, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut silent = subject.client(service.endpoint());
    for id in 0..3 {
        silent.send(&request(id, &[]));
        foreign.serve(1, |_, _| Act::Hold)?;
    }
    // The remaining slot; if clients name slots, their requests rotate over the slots.
    if !subject.names_slots() {
        let mut other = subject.client(service.endpoint());
        for id in 100..160_u32 {
            other.send(&request(id, &id.to_le_bytes()));
            foreign.serve(1, echo)?;
            equal("answer", &reply(&mut *other)?, &echoed(id, &id.to_le_bytes()))?;
        }
    }
    until("three are left under way", || service.stats().under_way == 3)?;
    let report = stop(service, AT_ONCE)?;
    equal("dropped", &report.dropped, &3)?;
    let reported: BTreeSet<u32> = (0..3)
        .map(|_| match reply(&mut *silent)? {
            CallerReply { id, status: Status::SHUTTING_DOWN, .. } => Ok(id),
            got => Err(format!("{got:?}")),
        })
        .collect::<Result<_, _>>()?;
    equal("reported", &reported, &(0..3).collect())
}

/// Answers are sent as they become ready.
pub(super) fn answers_in_any_order(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(16, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    for round in 0..4_u32 {
        for id in 0..16 {
            client.send(&request(round * 16 + id, &[]));
        }
        foreign.serve(16, |_, _| Act::Hold)?;
        // One at a time, the latest first: each answer is sent before the next request is answered.
        let held: Vec<_> = foreign.held.drain(..).collect();
        for in_flight in held.into_iter().rev() {
            let id = in_flight.header().request_id;
            foreign.held.push(in_flight);
            foreign.answer_held();
            equal("answer", &reply(&mut *client)?, &echoed(id, &id.to_le_bytes()))?;
        }
    }
    stop(service, GRACE).map(drop)
}

/// Error marks become errors, and an answer to another request is not passed on.
pub(super) fn bad_answers_are_reported(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(1, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    let mut ask = |id: u32, act: fn() -> Act, expected: CallerReply| {
        client.send(&request(id, b"abc"));
        foreign.serve(1, |_, _| act())?;
        equal("answer", &reply(&mut *client)?, &expected)
    };
    // The slot holds the right answer before each attempt.
    ask(1, || Act::Answer(b"right".to_vec()), echoed(1, b"right"))?;
    ask(2, || Act::Mark(700), refused(2, Status::LAUNCH_FAILED))?;
    ask(3, || Act::Fail(9), refused(3, Status::ENGINE_FAILED))?;
    ask(4, || Act::Confuse, refused(4, Status::ABANDONED))?;
    ask(5, || Act::Answer(Vec::new()), echoed(5, b""))?;
    let counts = stop(service, GRACE)?.stats;
    equal("counts", &(counts.error_marks, counts.bad_answers, counts.answered), &(2, 1, 5))
}

/// A full ring takes no more requests than it has slots; the rest waits, and is answered later.
pub(super) fn a_full_ring_holds_back(subject: &dyn Subject) -> CaseResult {
    if subject.overwrites_pages() {
        return left_out("its client overwrites a page in use");
    }
    let ring = subject.ring(4, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    for id in 0..40_u32 {
        client.send(&request(id, &id.to_le_bytes()));
    }
    if subject.names_slots() {
        until("the rest is refused", || service.stats().slot_taken >= 36)?;
    } else {
        until("the ring is full", || service.stats().full > 0)?;
        equal("received by a full ring", &service.stats().received, &4)?;
    }
    let answered = if subject.names_slots() { 4 } else { 40 };
    foreign.serve(answered, echo)?;
    let mut got = BTreeSet::new();
    for _ in 0..40 {
        let reply = reply(&mut *client)?;
        ensure!(got.insert(reply.id), "{reply:?} came twice");
        if reply.status.is_ok() {
            equal("answer", &reply, &echoed(reply.id, &reply.id.to_le_bytes()))?;
        }
    }
    let counts = stop(service, GRACE)?.stats;
    equal("counts", &(counts.received, counts.answered), &(40, answered as u64))
}

/// A client goes away with requests in flight; the next client does not see their answers.
pub(super) fn a_client_restarts(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(8, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut first = subject.client(service.endpoint());
    for id in 0..3 {
        first.send(&request(id, b"first"));
    }
    foreign.serve(3, |_, _| Act::Hold)?;
    // The next client has another address, since the first one's is still in use, unless the service has room for one
    // client only.
    let first = (!subject.takes_one_client()).then_some(first);
    let mut second = subject.client(service.endpoint());
    drop(first);
    second.send(&request(0, b"second"));
    foreign.serve(1, |_, _| Act::Hold)?;
    let newest = foreign.held.pop().ok_or("nothing is held")?;
    foreign.answer_held();
    until("the first one's answers are gone", || {
        let counts = service.stats();
        counts.answered + counts.unsent == 3
    })?;
    foreign.held.push(newest);
    foreign.answer_held();
    equal("answer", &reply(&mut *second)?, &echoed(0, &0_u32.to_le_bytes()))?;
    stop(service, GRACE).map(drop)
}
