//! A soak of the ring and the host dispatcher on one thread: as many requests as are asked for, one in eight faulty, each answered
//! with the one status that it must have, and memory at every tenth.
//!
//! `cargo run --release -p ringcall --example soak -- 1000000000`

use ringcall::wire::counter::Counter;
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::schema::HandlerSchema;
use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
use std::time::Instant;

const SLOTS: u32 = 64;

/// A request: its function, payload bytes, and the status that answers it.
const KINDS: [(&str, usize, Status); 8] = [
    ("increment", 16, Status::OK),
    ("increment", 40, Status::OK),
    ("typed", 4, Status::OK),
    ("increment", 0, Status::OK),
    ("typed", 3, Status::SCHEMA_MISMATCH),
    ("unheard_of", 8, Status::UNKNOWN_FUNCTION),
    ("own_error", 8, Status(7)),
    ("too_much", 8, Status::RESULT_TOO_LONG),
];

/// Which kind a request is: one in eight is faulty, the faults in turn.
fn kind(id: u64) -> (&'static str, usize, Status) {
    let index = if id.is_multiple_of(8) { 4 + id / 8 % 4 } else { id % 4 };
    KINDS[index as usize]
}

/// Memory that this process has now, MiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    (pages * 4096) >> 20
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    let ring = Ring::allocate(RingConfig { slots: SLOTS, slot_bytes: 128 })?;
    let table = FunctionTable::builder()
        .host_call("increment", |request: &[u8], result: &mut [u8]| {
            for (out, byte) in result.iter_mut().zip(request) {
                *out = byte.wrapping_add(1);
            }
            Ok(request.len())
        })
        .host_call_with_schema(
            "typed",
            HandlerSchema::new().arg(TypeDesc::int32()).result(TypeDesc::uint8()),
            |request: &[u8], result: &mut [u8]| {
                result[0] = request[0];
                Ok(1)
            },
        )
        .host_call("own_error", |_: &[u8], _: &mut [u8]| Err(Status(7)))
        .host_call("too_much", |_: &[u8], result: &mut [u8]| Ok(result.len() + 1))
        .build(&ring)?;
    let mut dispatcher = HostDispatcher::builder(&ring, table).build()?.into_stepper();
    let mut client = Client::new(&ring);
    let mut ids = [0_u64; SLOTS as usize];
    let mut out = [0; 128];
    let (mut sent, mut answered, mut wrong) = (0_u64, 0_u64, 0_u64);
    let begin = Instant::now();
    while answered < requests {
        while sent < requests {
            let (name, bytes, _) = kind(sent);
            let payload = [sent as u8; 64];
            let Ok(slot) = client.send(FunctionId::of(name), sent as u32, sent, &payload[..bytes]) else {
                break;
            };
            ids[slot.as_usize()] = sent;
            sent += 1;
        }
        dispatcher.step();
        client.take_all(|response, ring| {
            let id = ids[response.slot().as_usize()];
            let (name, bytes, status) = kind(id);
            let header = response.header();
            let len = response.read(ring, &mut out);
            let is_right = header.status == status.0
                && (header.request_id, header.ptp_timestamp) == (id as u32, id)
                && (name != "increment"
                    || len == bytes && out[..len].iter().all(|&byte| byte == (id as u8).wrapping_add(1)));
            wrong += u64::from(!is_right);
            answered += 1;
            if answered.is_multiple_of((requests / 10).max(1)) {
                eprintln!("{answered} answered, {wrong} wrong, {} MiB, {:.0?}", resident(), begin.elapsed());
            }
        });
    }
    let counters = dispatcher.counters();
    eprintln!(
        "{sent} sent, {answered} answered, {wrong} wrong; received {}, answered by the dispatcher {}",
        counters.get(Counter::Received),
        counters.answered()
    );
    if wrong > 0 || counters.get(Counter::Received) != requests || counters.answered() != requests {
        return Err("requests are unaccounted for".into());
    }
    Ok(())
}
