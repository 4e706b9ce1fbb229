//! Cases of frames: received, answered, refused.

use super::{
    CaseResult, FUNCTION, Faults, Faulty, Subject, call, ensure, equal, incremented, left_out, refused,
    reply, request, service, stop, text,
};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::{FunctionId, Status};
use std::collections::BTreeMap;
use std::time::Duration;

const SLOT_BYTES: u32 = 128;
const GRACE: Duration = Duration::from_secs(5);

/// Payloads of any length up to a whole slot are served, padding is ignored, and unknown functions are left to the
/// dispatcher to refuse.
pub(super) fn answers_are_exact(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(8, SLOT_BYTES)?;
    let service = service(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    let client = &mut *client;
    let capacity = SLOT_BYTES as usize - HEADER_BYTES;
    for len in 0..=capacity {
        let payload: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        call(client, len as u32, &payload)?;
    }
    let mut padded = request(500, &[9; 5]);
    padded.resize(SLOT_BYTES as usize, 0xAA);
    client.send(&padded);
    equal("answer to a padded request", &reply(client)?, &incremented(500, &[9; 5]))?;
    let header = RequestHeader::new(FunctionId::of("nobody").0, 0, 501, 0x0123_4567_89AB_CDEF);
    client.send(&header.to_bytes());
    let frame = client.receive(GRACE).ok_or("no answer came")?;
    let answer = ResponseHeader::from_bytes(&frame).map_err(text)?;
    equal("answer", &answer, &ResponseHeader::reply(&header, Status::UNKNOWN_FUNCTION.0, 0))?;
    let report = stop(service, GRACE)?;
    let sent = capacity as u64 + 3;
    equal("requests", &(report.stats.requests, report.stats.answered), &(sent, sent))
}

/// Three clients use the same ids at once.
pub(super) fn each_client_gets_its_own_answers(subject: &dyn Subject) -> CaseResult {
    if subject.takes_one_client() {
        return left_out("it has several clients at once");
    }
    let ring = subject.ring(16, SLOT_BYTES)?;
    let service = service(subject, &ring)?;
    let mut clients: Vec<_> = (0..3).map(|_| subject.client(service.endpoint())).collect();
    let payload = |client: usize, id: u32| vec![(client as u8) << 6 | id as u8; 1 + client];
    for round in 0..20 {
        // At most 12 in flight, for wires whose clients name slots.
        let ids = round * 4..round * 4 + 4;
        for id in ids.clone() {
            for (c, client) in clients.iter_mut().enumerate() {
                client.send(&request(id, &payload(c, id)));
            }
        }
        for (c, client) in clients.iter_mut().enumerate() {
            let mut expected: BTreeMap<u32, _> =
                ids.clone().map(|id| (id, incremented(id, &payload(c, id)))).collect();
            while !expected.is_empty() {
                let got = reply(&mut **client)?;
                ensure!(expected.remove(&got.id).as_ref() == Some(&got), "client {c} got {got:?}");
            }
        }
    }
    stop(service, GRACE).map(drop)
}

/// Each frame that gets through is answered, and no other is.
pub(super) fn faults_are_survived(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(32, SLOT_BYTES)?;
    let service = service(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    let (mut arrived, mut lost) = (0_u64, 0);
    for burst in 0..60_u32 {
        let mut way = Faulty::new(&mut *client, Faults::BAD, u64::from(burst));
        let mut passed = Vec::new();
        for n in 0..8 {
            let id = burst * 8 + n;
            passed.extend(way.send(&request(id, &id.to_le_bytes())));
        }
        passed.extend(way.rest());
        let mut outstanding: BTreeMap<u32, u32> = BTreeMap::new();
        for frame in &passed {
            *outstanding.entry(RequestHeader::from_bytes(frame).map_err(text)?.request_id).or_default() += 1;
        }
        lost += 8 - outstanding.len();
        arrived += passed.len() as u64;
        for _ in &passed {
            let got = reply(&mut *client)?;
            equal("answer", &got, &incremented(got.id, &got.id.to_le_bytes()))?;
            match outstanding.get_mut(&got.id) {
                Some(left) if *left > 0 => *left -= 1,
                _ => return Err(format!("an answer too many: {got:?}")),
            }
        }
    }
    ensure!(lost > 0, "the network was too good");
    let report = stop(service, GRACE)?;
    equal(
        "frames received and answered",
        &(report.stats.received, report.stats.answered),
        &(arrived, arrived),
    )
}

/// Runts and responses are ignored, wrong magics refused, and other frames do no harm.
pub(super) fn garbage_is_counted_and_hurts_nobody(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(8, SLOT_BYTES)?;
    let service = service(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    let client = &mut *client;
    for len in 0..HEADER_BYTES {
        client.send(&request(1, &[])[..len]);
    }
    call(client, 2, b"still there")?;
    let response = ResponseHeader::reply(&RequestHeader::new(0, 0, 3, 0), 0, 0);
    client.send(&response.to_bytes());
    call(client, 4, b"and again")?;
    let mut wrong = request(5, b"payload");
    wrong[0] ^= 0xFF;
    client.send(&wrong);
    equal("answer to a wrong magic", &reply(client)?, &refused(5, Status::BAD_MAGIC))?;
    let mut noise = 0x9E37_79B9_u32;
    for len in 0..64_usize {
        // Never a valid magic, whose first byte differs.
        let bytes: Vec<u8> = std::iter::once(0)
            .chain((1..len).map(|_| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (noise >> 24) as u8
            }))
            .collect();
        client.send_raw(&bytes);
        // The reply, if any, comes before that of the call.
        client.send(&request(1000, &[len as u8]));
        while reply(client)?.id != 1000 {}
    }
    let report = stop(service, GRACE)?;
    let counts = report.stats;
    ensure!(counts.runts >= HEADER_BYTES as u64, "{counts}");
    equal("strays", &counts.strays, &1)?;
    ensure!(counts.bad_magic + counts.malformed >= 1, "{counts}");
    equal("requests", &counts.requests, &66)
}

/// Frames longer than a slot, or shorter than they say.
pub(super) fn frames_that_do_not_fit_are_refused(subject: &dyn Subject) -> CaseResult {
    let ring = subject.ring(8, SLOT_BYTES)?;
    let service = service(subject, &ring)?;
    let mut client = subject.client(service.endpoint());
    let client = &mut *client;
    let too_long = SLOT_BYTES as usize - HEADER_BYTES + 1;
    for len in [too_long, too_long + 1, 4 * too_long] {
        client.send(&request(len as u32, &vec![1; len]));
        equal("too long", &reply(client)?, &refused(len as u32, Status::ARG_TOO_LONG))?;
    }
    for alleged in [6, 104, 105, u32::MAX] {
        let header = RequestHeader::new(FunctionId::of(FUNCTION).0, alleged, alleged, 0);
        client.send(&[&header.to_bytes()[..], b"hello"].concat());
        equal("too short", &reply(client)?, &refused(alleged, Status::ARG_TOO_LONG))?;
    }
    call(client, 1, b"hello")?;
    let report = stop(service, GRACE)?;
    let counts = report.stats;
    equal("refusals", &(counts.oversize, counts.truncated, counts.requests), &(3, 4, 1))
}
