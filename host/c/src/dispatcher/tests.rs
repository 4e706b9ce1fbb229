//! Life cycles that a C program can only meet by chance.

use super::*;
use crate::manager::{cudaq_dispatch_manager_create, cudaq_dispatch_manager_destroy};
use crate::ring_helpers::{cudaq_host_ringbuffer_signal_slot, cudaq_host_ringbuffer_write_rpc_request};
use ringcall_bridge::layout::{RX_EMPTY, RX_READY};
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::header::{HEADER_WORDS, ResponseHeader};
use ringcall_wire::status::{DispatchMode, Status};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

const OK: c_int = 0;
const INVALID: c_int = 1;
const INTERNAL: c_int = 2;
const SLOT: usize = 64;
const FUNCTION: u32 = 5;

static ENTERED: AtomicBool = AtomicBool::new(false);
static LEAVE: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn stays(_: *const c_void, _: *mut c_void, _: usize) {
    ENTERED.store(true, Ordering::Release);
    while !LEAVE.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A call of C's.
macro_rules! c {
    ($call:expr) => {{
        // SAFETY: handles that are live or were, and wiring that is there until the bench is gone.
        unsafe { $call }
    }};
}

/// A dispatcher that could start, one slot, and all that it is given.
struct Bench {
    manager: *mut c_void,
    dispatcher: *mut c_void,
    _flags: Vec<u64>,
    ring: cudaq_ringbuffer_t,
    _data: Vec<u64>,
    _entry: Box<FunctionEntry>,
    _control: Box<(u64, c_int)>,
}

impl Bench {
    fn new() -> Self {
        Self::of(|_| ())
    }

    fn of(choose: impl FnOnce(&mut crate::layout::cudaq_dispatcher_config_t)) -> Self {
        let (mut manager, mut dispatcher) = (core::ptr::null_mut(), core::ptr::null_mut());
        let mut config = crate::layout::cudaq_dispatcher_config_t {
            device_id: 0,
            num_blocks: 0,
            threads_per_block: 0,
            num_slots: 1,
            slot_size: SLOT as u32,
            vp_id: 0,
            kernel_type: 0,
            dispatch_mode: DispatchMode::HostCall.raw(),
            dispatch_path: DispatchPath::Host.raw(),
            skip_tx_markers: 0,
            shared_ring_mode: 0,
        };
        choose(&mut config);
        let (mut flags, mut data) = (vec![0_u64; 2], vec![0_u64; 2 * SLOT / 8]);
        let (rx, tx) = (data.as_mut_ptr().cast::<u8>(), flags.as_mut_ptr());
        let ring = cudaq_ringbuffer_t {
            rx_flags: core::ptr::null_mut(),
            tx_flags: core::ptr::null_mut(),
            rx_data: core::ptr::null_mut(),
            tx_data: core::ptr::null_mut(),
            rx_stride_sz: SLOT,
            tx_stride_sz: SLOT,
            rx_flags_host: tx,
            tx_flags_host: tx.wrapping_add(1),
            rx_data_host: rx,
            tx_data_host: rx.wrapping_add(SLOT),
        };
        let mut entry = Box::new(<FunctionEntry as zerocopy::FromZeros>::new_zeroed());
        entry.handler = stays as *const () as usize as u64;
        entry.function_id = FUNCTION;
        entry.dispatch_mode = DispatchMode::HostCall.raw() as u8;
        let table = cudaq_function_table_t { entries: &raw mut *entry, count: 1 };
        let mut control = Box::new((77_u64, 0));
        assert_eq!(c!(cudaq_dispatch_manager_create(&raw mut manager)), OK);
        assert_eq!(c!(cudaq_dispatcher_create(manager, &raw const config, &raw mut dispatcher)), OK);
        assert_eq!(c!(cudaq_dispatcher_set_ringbuffer(dispatcher, &raw const ring)), OK);
        assert_eq!(c!(cudaq_dispatcher_set_function_table(dispatcher, &raw const table)), OK);
        let (stats, shutdown) = (&raw mut control.0, &raw mut control.1);
        assert_eq!(c!(cudaq_dispatcher_set_control(dispatcher, shutdown, stats)), OK);
        Self { manager, dispatcher, _flags: flags, ring, _data: data, _entry: entry, _control: control }
    }
}

/// Slot 0 once, and then nothing.
unsafe extern "C" fn one_request(asked: *mut c_void, slot: *mut u32) -> c_int {
    // SAFETY: the test's transport, which outlives the dispatcher.
    let transport = unsafe { &*asked.cast::<Transport>() };
    if transport.asked.swap(true, Ordering::AcqRel) {
        return RX_EMPTY;
    }
    // SAFETY: the dispatcher's own number.
    unsafe { slot.write(0) };
    RX_READY
}

/// Notes the status that is sent.
unsafe extern "C" fn notes(transport: *mut c_void, _: u32) -> c_int {
    // SAFETY: as above.
    let transport = unsafe { &*transport.cast::<Transport>() };
    // SAFETY: the response slot of the bench's ring, which has been answered.
    let words = unsafe { transport.response.cast::<[u64; HEADER_WORDS]>().read_unaligned() };
    transport.sent.store(ResponseHeader::from_words(words).status, Ordering::Release);
    OK
}

struct Transport {
    asked: AtomicBool,
    response: *const u8,
    sent: AtomicI32,
}

#[test]
fn over_a_transport_no_request_is_left_to_others() {
    let bench = Bench::of(|config| {
        config.kernel_type = KernelType::Unified.raw();
        config.shared_ring_mode = 1;
    });
    let (ring, nothing) = (&raw const bench.ring, core::ptr::null());
    let response = bench.ring.tx_data_host.cast_const();
    let transport = Transport { asked: AtomicBool::new(false), response, sent: AtomicI32::new(i32::MIN) };
    let mut plane = cudaq_cpu_dataplane_t {
        ctx: (&raw const transport).cast_mut().cast(),
        ring: bench.ring,
        rx_poll: Some(one_request),
        tx_publish: Some(notes),
    };
    // No function of the table's.
    assert_eq!(c!(cudaq_host_ringbuffer_write_rpc_request(ring, 0, FUNCTION + 1, nothing, 0, 1, 0)), OK);
    assert_eq!(c!(cudaq_dispatcher_set_cpu_dataplane(bench.dispatcher, (&raw mut plane).cast())), OK);
    assert_eq!(c!(cudaq_dispatcher_start(bench.dispatcher)), OK);
    let begin = Instant::now();
    while transport.sent.load(Ordering::Acquire) == i32::MIN {
        assert!(begin.elapsed() < Duration::from_secs(20), "left in its slot");
        std::thread::yield_now();
    }
    assert_eq!(Status(transport.sent.load(Ordering::Acquire)), Status::UNKNOWN_FUNCTION);
    assert_eq!(c!(cudaq_dispatcher_destroy(bench.dispatcher)), OK);
    assert_eq!(c!(cudaq_dispatch_manager_destroy(bench.manager)), OK);
}

#[test]
fn a_start_that_comes_after_a_destroy_starts_nothing() {
    let bench = Bench::new();
    // A call on another thread that has looked its handle up already.
    let known = DISPATCHERS.get(bench.dispatcher).expect("there");
    assert_eq!(c!(cudaq_dispatcher_destroy(bench.dispatcher)), OK);
    let fault = c!(known.start()).expect_err("gone");
    assert_eq!(fault.status.raw() as c_int, INVALID);
    assert!(known.wire(|_, _| Ok(())).is_err());
    assert!(lock(&known.state).running.is_none());
    assert_eq!(c!(cudaq_dispatch_manager_destroy(bench.manager)), OK, "while the other call goes on");
}

#[test]
fn a_manager_outlives_no_dispatcher_that_was_destroyed() {
    let bench = Bench::new();
    assert_eq!(c!(ringcall_dispatcher_set_stop_ms(bench.dispatcher, 500)), OK);
    assert_eq!(c!(cudaq_dispatcher_start(bench.dispatcher)), OK);
    let (ring, nothing) = (&raw const bench.ring, core::ptr::null());
    assert_eq!(c!(cudaq_host_ringbuffer_write_rpc_request(ring, 0, FUNCTION, nothing, 0, 1, 0)), OK);
    c!(cudaq_host_ringbuffer_signal_slot(ring, 0));
    let begin = Instant::now();
    while !ENTERED.load(Ordering::Acquire) {
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    assert_eq!(c!(cudaq_dispatcher_destroy(bench.dispatcher)), INTERNAL, "its handler does not return");
    assert_eq!(c!(cudaq_dispatch_manager_destroy(bench.manager)), OK);
    LEAVE.store(true, Ordering::Release);
    // The thread is left to itself: what it uses must stay.
    std::mem::forget(bench);
}
