//! Random requests, as from a broken or hostile producer, among good ones.

use crate::rig::{self, drive, on_device, setting, stop_clean};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_launch::ring::KernelKind;
use ringcall_protocol::ring::SlotIndex;
use ringcall_protocol::validate;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::collections::BTreeMap;

const PRODUCERS: usize = 4;
const SLOT_BYTES: usize = 64;
const CAPACITY: u32 = SLOT_BYTES as u32 - 24;

/// A whole slot, its flag, and the answer that it must get.
struct Request {
    bytes: [u8; SLOT_BYTES],
    flag: u64,
    header: RequestHeader,
    status: Status,
}

/// Functions that requests name, each with the only length that it takes, if there is one.
fn functions() -> [(u32, Option<u32>); 4] {
    let id = |name| FunctionId::of(name).0;
    [
        (id("rpc_increment"), None),
        (id("rpc_increment_warp"), None),
        (id("rpc_increment_bytes"), None),
        (id("rpc_mock_decode"), Some(16)),
    ]
}

fn request(ring: &SharedRing, slot: SlotIndex, i: u64, rng: &mut Xoshiro256PlusPlus) -> Request {
    let functions = functions();
    let mut bytes = [0; SLOT_BYTES];
    rng.fill_bytes(&mut bytes);
    let (id, demanded) = functions[rng.random_range(0..functions.len())];
    let len = demanded.unwrap_or_else(|| rng.random_range(0..=CAPACITY));
    let mut header = RequestHeader::new(id, len, i as u32, rng.random());
    let mut flag = ring.geometry().request_address(slot);
    match rng.random_range(0..8) {
        0 => header.magic = rng.random(),
        1 => header.magic ^= 1 << rng.random_range(0..32),
        2 => header.function_id = rng.random(),
        3 => header.arg_len = rng.random(),
        4 => header.arg_len = rng.random_range(0..2 * CAPACITY),
        5 => flag = rng.random_range(1..=u64::MAX),
        6 => (header.magic, header.function_id, header.arg_len) = (rng.random(), rng.random(), rng.random()),
        _ => {}
    }
    bytes[..24].copy_from_slice(&header.to_bytes());
    let known = functions.iter().find(|(id, _)| *id == header.function_id);
    let geometry = ring.geometry();
    let status = match (validate::flag(geometry, slot, flag), validate::header(&header, CAPACITY), known) {
        (Err(status), ..) | (_, Err(status), _) => status,
        (.., None) => Status::UNKNOWN_FUNCTION,
        (.., Some((_, Some(only)))) if *only != header.arg_len => Status::SCHEMA_MISMATCH,
        _ => Status::OK,
    };
    Request { bytes, flag, header, status }
}

/// The result that a good request must get.
fn result(request: &Request) -> Vec<u8> {
    let payload = &request.bytes[24..24 + request.header.arg_len as usize];
    if request.header.function_id == FunctionId::of("rpc_mock_decode").0 {
        vec![(payload.iter().map(|byte| byte.count_ones()).sum::<u32>() & 1) as u8]
    } else {
        payload.iter().map(|byte| byte.wrapping_add(1)).collect()
    }
}

/// One producer's requests; how many got which status.
fn produce(ring: &SharedRing, slots: &[SlotIndex], n: u64, seed: u64) -> BTreeMap<Status, u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    // The answer to request `i` comes through the slot that it went into.
    let open = std::cell::RefCell::new(BTreeMap::new());
    let mut counts = BTreeMap::new();
    let mut bytes = [0; SLOT_BYTES];
    drive(
        ring,
        slots,
        n,
        |i, vacant| {
            let request = request(ring, vacant.slot(), i, &mut rng);
            ring.forge_request(vacant.slot(), &request.bytes, request.flag);
            open.borrow_mut().insert(i, request);
        },
        |i, response| {
            let request = open.borrow_mut().remove(&i).expect("it was sent");
            let header = response.header();
            let said = (Status(header.status), header.request_id, header.ptp_timestamp);
            let owed = (request.status, request.header.request_id, request.header.ptp_timestamp);
            assert_eq!(
                said, owed,
                "seed {seed}, request {i}: {:?}, flag {:#x}",
                request.header, request.flag
            );
            let len = response.read(ring, &mut bytes);
            let result = if request.status.is_ok() { result(&request) } else { Vec::new() };
            assert_eq!(&bytes[..len], result, "seed {seed}, request {i}: {:?}", request.header);
            *counts.entry(request.status).or_default() += 1;
        },
    );
    counts
}

fn garbage(name: &str, kernel: KernelKind, share: u64) {
    on_device(name, |context| {
        let each = setting("RINGCALL_GARBAGE_REQUESTS", 200_000_u64) / share / PRODUCERS as u64;
        let (ring, running) = rig::start(context, (64, SLOT_BYTES as u32), kernel);
        let shared = ring.ring().shared();
        let mut all: BTreeMap<Status, u64> = BTreeMap::new();
        std::thread::scope(|scope| {
            let producers: Vec<_> = rig::parts(ring.ring(), PRODUCERS)
                .into_iter()
                .zip(0..)
                .map(|(part, seed)| scope.spawn(move || produce(shared, &part, each, seed)))
                .collect();
            for producer in producers {
                for (status, n) in producer.join().expect("every answer is right") {
                    *all.entry(status).or_default() += n;
                }
            }
        });
        for status in [
            Status::OK,
            Status::BAD_FLAG,
            Status::BAD_MAGIC,
            Status::ARG_TOO_LONG,
            Status::UNKNOWN_FUNCTION,
            Status::SCHEMA_MISMATCH,
        ] {
            let n = all.get(&status).copied().unwrap_or(0);
            assert!(n > 0, "{status} never came up");
            let counter = Counter::of_status(status);
            rig::counted(&running, counter.name(), |c| c.get(counter) == n);
        }
        rig::counted(&running, "all", |c| c.answered() == each * PRODUCERS as u64);
        stop_clean(running);
    });
}

#[test]
fn garbage_is_refused_by_many_warps() {
    garbage("garbage_is_refused_by_many_warps", KernelKind::regular(), 1);
}

#[test]
fn garbage_is_refused_by_several_blocks() {
    garbage("garbage_is_refused_by_several_blocks", KernelKind::Regular { blocks: 4, warps: 8 }, 4);
}

#[test]
fn garbage_is_refused_by_one_warp() {
    garbage("garbage_is_refused_by_one_warp", KernelKind::Regular { blocks: 1, warps: 1 }, 10);
}
