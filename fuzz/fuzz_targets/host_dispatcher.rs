//! The host dispatcher itself, on its own thread: any bytes and any flag in any slot are answered, with the right
//! status, and a good request after each garbage one still works.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall::dispatcher::Running;
use ringcall::wire::header::{REQUEST_MAGIC, RequestHeader};
use ringcall::wire::payload::TypeDesc;
use ringcall::wire::schema::HandlerSchema;
use ringcall::{
    Client, FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait,
};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const FUNCTIONS: [&str; 5] = ["increment", "four", "own_error", "nobody", "on_a_device"];

#[derive(Arbitrary, Debug)]
struct Forged {
    raw: [u8; 64],
    flag: Option<u64>,
    /// Makes the header a good one up to here: 1 magic, 2 a known function, 3 a length that fits.
    good: u8,
    function: u8,
}

struct Bench {
    ring: Ring,
    client: Client,
    dispatcher: HostDispatcher<Running>,
}

fn bench() -> &'static Mutex<Bench> {
    static BENCH: OnceLock<Mutex<Bench>> = OnceLock::new();
    BENCH.get_or_init(|| {
        let ring = Ring::allocate(RingConfig { slots: 3, slot_bytes: 64 }).unwrap();
        let four = HandlerSchema::new().arg(TypeDesc::array_uint8(4));
        let table = FunctionTable::builder()
            .host_call("increment", |request: &[u8], result: &mut [u8]| {
                for (out, byte) in result.iter_mut().zip(request) {
                    *out = byte.wrapping_add(1);
                }
                Ok(request.len())
            })
            .host_call_with_schema("four", four, |request: &[u8], _: &mut [u8]| {
                assert_eq!(request.len(), 4);
                Ok(0)
            })
            .host_call("own_error", |_: &[u8], _: &mut [u8]| Err(Status(7)))
            .worker_call("nobody", HandlerSchema::new())
            .device_call("on_a_device", HandlerSchema::new())
            .build(&ring)
            .unwrap();
        let options = HostOptions { wait: Wait::Yield { spins: 64 }, ..HostOptions::default() };
        let dispatcher =
            HostDispatcher::builder(&ring, table).options(options).build().unwrap().start().unwrap();
        let client = Client::new(&ring);
        Mutex::new(Bench { ring, client, dispatcher })
    })
}

fn expected(header: &RequestHeader, flag_is_right: bool) -> Status {
    let is = |name: &str| header.function_id == FunctionId::of(name).0;
    match header {
        _ if !flag_is_right => Status::BAD_FLAG,
        _ if header.magic != REQUEST_MAGIC => Status::BAD_MAGIC,
        _ if header.arg_len > 40 => Status::ARG_TOO_LONG,
        _ if is("increment") => Status::OK,
        _ if is("four") && header.arg_len == 4 => Status::OK,
        _ if is("four") => Status::SCHEMA_MISMATCH,
        _ if is("own_error") => Status(7),
        _ if is("nobody") => Status::NO_WORKER,
        _ if is("on_a_device") => Status::WRONG_MODE,
        _ => Status::UNKNOWN_FUNCTION,
    }
}

fuzz_target!(|input: Vec<Forged>| {
    let mut bench = bench().lock().unwrap();
    let Bench { ring, client, dispatcher } = &mut *bench;
    let before = dispatcher.counters().answered();
    let n = input.len() as u64;
    for Forged { mut raw, flag, good, function } in input {
        let slot = client.next_slot();
        let mut header = RequestHeader::from_bytes(&raw).unwrap();
        if good >= 1 {
            header.magic = REQUEST_MAGIC;
        }
        if good >= 2 {
            header.function_id = FunctionId::of(FUNCTIONS[function as usize % FUNCTIONS.len()]).0;
        }
        if good >= 3 {
            header.arg_len %= 41;
        }
        raw[..24].copy_from_slice(&header.to_bytes());
        let address = ring.geometry().request_address(slot);
        let flag = flag.filter(|&flag| flag != 0).unwrap_or(address);
        ring.shared().forge_request(slot, &raw, flag);
        let reply = client.wait(slot, LONG).expect("answered");
        let status = expected(&header, flag == address);
        assert_eq!((reply.status, reply.error), (status, None));
        assert_eq!((reply.request_id, reply.ptp_timestamp), (header.request_id, header.ptp_timestamp));
        if status.is_ok() && header.function_id == FunctionId::of("increment").0 {
            let sent = &raw[24..24 + header.arg_len as usize];
            assert!(reply.result.iter().zip(sent).all(|(got, sent)| *got == sent.wrapping_add(1)));
            assert_eq!(reply.result.len(), sent.len());
        } else {
            assert_eq!(reply.result, []);
        }
        let fine = client.call("increment", &[1, 2, 3], LONG).expect("answered");
        assert_eq!(fine.result, [2, 3, 4]);
    }
    assert_eq!(dispatcher.counters().answered(), before + 2 * n);
});
