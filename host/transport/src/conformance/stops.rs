//! Cases of stops and restarts.

use super::foreign::Act;
use super::{
    CallerReply, CaseResult, Subject, bare, call, ensure, equal, incrementer, left_out, reply, request, stop,
    text, until,
};
use ringcall_wire::Status;
use std::collections::BTreeMap;
use std::time::Duration;

const SLOT_BYTES: u32 = 64;
const GRACE: Duration = Duration::from_secs(5);

/// Some requests are answered, some in flight, some unread: each sender gets one answer, and the report says how many
/// of each.
pub(super) fn a_stop_in_a_burst_adds_up(subject: &dyn Subject) -> CaseResult {
    if subject.overwrites_pages() {
        return left_out("its client overwrites a page in use");
    }
    let ring = subject.ring(4, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    for id in 0..60_u32 {
        client.send(&request(id, &[]));
    }
    foreign.serve(if subject.names_slots() { 4 } else { 9 }, |header, _| {
        // Two of the four slots keep serving, two are stuck.
        if header.request_id < 2 { Act::Hold } else { Act::Answer(Vec::new()) }
    })?;
    // The answered requests have left: the stop finds the stuck ones, and perhaps new ones not yet polled.
    let answered = (foreign.served - foreign.held.len()) as u64;
    until("answers are sent", || service.stats().answered >= answered)?;
    let report = stop(service, Duration::ZERO)?;
    let counts = report.stats;
    equal("received", &counts.received, &60)?;
    equal("sum", &(counts.answered + counts.dropped + counts.refused() + counts.unsent), &60)?;
    equal("answered", &(counts.answered, counts.dropped >= 2), &(answered, true))?;
    let mut answers: BTreeMap<Status, u64> = BTreeMap::new();
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..60 {
        let CallerReply { id, status, .. } = reply(&mut *client)?;
        *answers.entry(status).or_default() += 1;
        ids.push(id);
    }
    ids.sort_unstable();
    ensure!(ids.iter().copied().eq(0..60), "told: {ids:?}");
    equal("answered OK", &answers.get(&Status::OK).copied().unwrap_or(0), &counts.answered)?;
    let stopping = answers.get(&Status::SHUTTING_DOWN).copied().unwrap_or(0);
    equal("told SHUTTING_DOWN", &stopping, &(counts.dropped + counts.stopping))
}

/// With enough time every request in flight is answered.
pub(super) fn a_stop_drains(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(8, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    for id in 0..5 {
        client.send(&request(id, &[]));
    }
    foreign.serve(5, |_, _| Act::Hold)?;
    let report = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| stop(service, GRACE));
        foreign.answer_held();
        stopping.join().map_err(|_| "the stop panicked".to_owned())?
    })?;
    equal("answered and dropped", &(report.stats.answered, report.dropped), &(5, 0))?;
    (0..5).try_for_each(|_| equal("status", &reply(&mut *client)?.status, &Status::OK))
}

/// The next service at the same address and on the same ring serves the same client, and answers only its own requests.
pub(super) fn the_service_restarts(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(4, SLOT_BYTES)?;
    let (service, mut foreign) = bare(subject, &ring)?;
    let endpoint = service.endpoint().clone();
    let mut client = subject.client(&endpoint);
    for id in 0..2 {
        client.send(&request(id, &[]));
    }
    foreign.serve(2, |_, _| Act::Hold)?;
    stop(service, Duration::ZERO)?;
    for _ in 0..2 {
        equal("status", &reply(&mut *client)?.status, &Status::SHUTTING_DOWN)?;
    }
    // One answer comes while no client listens, another after the next service has begun.
    let late = foreign.held.pop();
    foreign.answer_held();
    let service = subject.start(&ring, Some(&endpoint), Some(incrementer(&ring)?)).map_err(text)?;
    if subject.takes_one_client() {
        // The queue pair may be another.
        equal("address", &service.endpoint().address, &endpoint.address)?;
    } else {
        equal("endpoint", service.endpoint(), &endpoint)?;
    }
    foreign.held.extend(late);
    foreign.answer_held();
    if subject.takes_one_client() {
        drop(client);
        client = subject.client(service.endpoint());
    }
    for id in 10..30 {
        call(&mut *client, id, b"again")?;
    }
    until("old answers are thrown away", || service.stats().unasked == 2)?;
    stop(service, GRACE).map(drop)
}
