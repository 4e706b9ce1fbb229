//! `host-call/32` on one thread, without anything else running in between: the Rust API stepped by its caller, and the C
//! interface's loop over a transport, which has one more ring of flags to serve. What `host_call.c` measures across two
//! threads needs two free cores; this does not.

#![allow(unsafe_code, clippy::print_stdout)] // C callbacks; a program that prints

use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_c::layout::{cudaq_cpu_dataplane_t, cudaq_function_table_t, cudaq_ringbuffer_t};
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::status::DispatchMode;
use ringcall_wire::{HandlerSchema, RequestHeader, ResponseHeader};
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

const PAYLOAD: usize = 32;
const SLOT: usize = 64;
const REQUESTS: usize = 1_000_000;

fn report(name: &str, times: &mut [u32]) {
    times.sort_unstable();
    let at = |part: f64| times[(times.len() as f64 * part) as usize];
    println!("{name}: p50 {} ns, p99 {} ns, {} requests", at(0.5), at(0.99), times.len());
}

fn rust() -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: SLOT as u32 })?;
    let table = FunctionTable::builder().host_call("inc", |request: &[u8], result: &mut [u8]| {
        for (out, byte) in result.iter_mut().zip(request) {
            *out = byte.wrapping_add(1);
        }
        Ok(request.len())
    });
    let mut dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.into_stepper();
    let mut client = Client::new(&ring);
    let id = FunctionId::of("inc");
    let mut times = Vec::with_capacity(REQUESTS);
    for number in 0..REQUESTS {
        let begin = Instant::now();
        let slot = client.send(id, number as u32, 0, &[7; PAYLOAD])?;
        loop {
            let _ = dispatcher.step();
            let mut out = [0; PAYLOAD];
            if client.take(slot, |response, ring| response.read(ring, &mut out)).is_some() {
                break;
            }
        }
        times.push(begin.elapsed().as_nanos() as u32);
    }
    let _ = dispatcher.finish(Duration::from_secs(1));
    Ok(times)
}

struct Transport {
    ring: cudaq_ringbuffer_t,
    sent: usize,
    begin: Instant,
    busy: bool,
    times: Vec<u32>,
    shutdown: c_int,
}

unsafe extern "C" fn increment(rx: *const c_void, tx: *mut c_void, _: usize) {
    // SAFETY: the contract of a handler: a slot of 64 bytes.
    let rx = unsafe { &*rx.cast::<[u8; SLOT]>() };
    // SAFETY: likewise.
    let tx = unsafe { &mut *tx.cast::<[u8; SLOT]>() };
    let Ok(request) = RequestHeader::from_bytes(rx) else { return };
    let len = (request.arg_len as usize).min(SLOT - 24);
    for (out, byte) in tx[24..24 + len].iter_mut().zip(&rx[24..]) {
        *out = byte.wrapping_add(1);
    }
    tx[..24].copy_from_slice(&ResponseHeader::reply(&request, 0, len as u32).to_bytes());
}

unsafe extern "C" fn poll(ctx: *mut c_void, slot: *mut u32) -> c_int {
    // SAFETY: the context given below, on this thread alone.
    let transport = unsafe { &mut *ctx.cast::<Transport>() };
    if transport.busy {
        return 1;
    }
    if transport.sent == REQUESTS {
        transport.shutdown = 1;
        return 1;
    }
    let index = (transport.sent % 64) as u32;
    transport.begin = Instant::now();
    let payload = [7_u8; PAYLOAD];
    // SAFETY: a ring of 64 slots.
    let written = unsafe {
        ringcall_c::cudaq_host_ringbuffer_write_rpc_request(
            &raw const transport.ring,
            index,
            1,
            payload.as_ptr().cast(),
            PAYLOAD as u32,
            transport.sent as u32,
            0,
        )
    };
    assert_eq!(written, 0);
    transport.sent += 1;
    transport.busy = true;
    // SAFETY: the loop's word.
    unsafe { slot.write(index) };
    0
}

unsafe extern "C" fn publish(ctx: *mut c_void, _: u32) -> c_int {
    // SAFETY: as in `poll`.
    let transport = unsafe { &mut *ctx.cast::<Transport>() };
    transport.times.push(transport.begin.elapsed().as_nanos() as u32);
    transport.busy = false;
    0
}

fn c() -> Vec<u32> {
    let mut memory = [vec![0_u64; 64], vec![0; 64], vec![0; 64 * SLOT / 8], vec![0; 64 * SLOT / 8]];
    let [rx_flags, tx_flags, rx_data, tx_data] = &mut memory;
    let ring = cudaq_ringbuffer_t {
        rx_flags: std::ptr::null_mut(),
        tx_flags: std::ptr::null_mut(),
        rx_data: std::ptr::null_mut(),
        tx_data: std::ptr::null_mut(),
        rx_stride_sz: SLOT,
        tx_stride_sz: SLOT,
        rx_flags_host: rx_flags.as_mut_ptr(),
        tx_flags_host: tx_flags.as_mut_ptr(),
        rx_data_host: rx_data.as_mut_ptr().cast(),
        tx_data_host: tx_data.as_mut_ptr().cast(),
    };
    let times = Vec::with_capacity(REQUESTS);
    let transport = Box::into_raw(Box::new(Transport {
        ring,
        sent: 0,
        begin: Instant::now(),
        busy: false,
        times,
        shutdown: 0,
    }));
    let mut plane =
        cudaq_cpu_dataplane_t { ctx: transport.cast(), ring, rx_poll: Some(poll), tx_publish: Some(publish) };
    let handler = increment as unsafe extern "C" fn(*const c_void, *mut c_void, usize) as usize as u64;
    let mut entry = FunctionEntry::new(FunctionId(1), DispatchMode::HostCall, HandlerSchema::new(), handler);
    let table = cudaq_function_table_t { entries: &raw mut entry, count: 1 };
    // SAFETY: the transport lives until it is taken back below.
    let shutdown = unsafe { &raw mut (*transport).shutdown };
    // SAFETY: everything is there until the loop returns, which it does when the transport is done.
    unsafe {
        ringcall_c::cudaq_host_unified_loop(
            (&raw mut plane).cast(),
            &raw const table,
            std::ptr::null_mut(),
            shutdown,
            std::ptr::null_mut(),
        );
    }
    // SAFETY: made above; the loop has ended.
    unsafe { Box::from_raw(transport) }.times
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..2 {
        report("host-call/32 Rust API, one thread", &mut rust()?);
        report("host-call/32 C interface, one thread", &mut c());
    }
    Ok(())
}
