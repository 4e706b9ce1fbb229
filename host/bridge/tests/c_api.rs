//! The C functions, called as C calls them: with null pointers, wild handles, in the wrong order; and a whole life.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // calls of C functions

mod support;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use ringcall_bridge::c_api::bridge::*;
use ringcall_bridge::layout::{CpuDataplane, CudaqFunctionTable, Handle, RingBuffer, UnifiedContext};
use std::ffi::CString;
use support::Shop;

const OK: c_int = 0;
const INVALID: c_int = 1;
const INTERNAL: c_int = 2;
const UNSUPPORTED: c_int = 4;

fn create(library: &str, args: &[&str]) -> (c_int, Handle) {
    let library = CString::new(library).unwrap();
    let args: Vec<CString> = args.iter().map(|&arg| CString::new(arg).unwrap()).collect();
    let mut argv: Vec<*mut c_char> = args.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    argv.push(null_mut());
    let mut handle: Handle = null_mut();
    // SAFETY: everything is there.
    let status = unsafe {
        cudaq_bridge_create_from_library(
            &raw mut handle,
            library.as_ptr(),
            args.len() as c_int,
            argv.as_mut_ptr(),
        )
    };
    (status, handle)
}

fn last_error() -> String {
    // SAFETY: never null, and no call comes between.
    unsafe { CStr::from_ptr(ringcall_bridge_last_error()) }.to_str().unwrap().to_owned()
}

#[test]
fn a_whole_life() {
    let shop = Shop::new();
    let (library, log) = (shop.odd(&[]), shop.path("log"));
    let (status, bridge) = create(&library, &[&format!("--log={log}")]);
    assert_eq!(status, OK);
    assert_eq!(last_error(), "");
    assert_eq!(cudaq_bridge_disconnect(bridge), INVALID);
    assert!(last_error().contains("in the wrong order: it is not connected yet"));
    let mut ring = RingBuffer::EMPTY;
    let mut plane = CpuDataplane::EMPTY;
    let (mut slots, mut bytes) = (0, 0);
    let mut line = [0_u8; 64];
    // SAFETY: each address can be written to.
    unsafe {
        assert_eq!(cudaq_bridge_get_transport_context(bridge, 0, (&raw mut ring).cast()), OK);
        assert_eq!(cudaq_bridge_get_cpu_dataplane(bridge, &raw mut plane), OK);
        assert_eq!(cudaq_bridge_get_ring_geometry(bridge, &raw mut slots, &raw mut bytes), OK);
        assert_eq!(cudaq_bridge_get_endpoint_info(bridge, line.as_mut_ptr().cast(), 64), OK);
        assert_eq!(cudaq_bridge_get_endpoint_info(bridge, line.as_mut_ptr().cast(), 20), INVALID);
    }
    assert_eq!((slots, bytes, ring.rx_stride_sz), (4, 64, 64));
    assert!(plane.rx_poll.is_some() && !ring.rx_flags_host.is_null());
    assert_eq!(CStr::from_bytes_until_nul(&line).unwrap(), c"transport=odd port=1");
    let calls = [cudaq_bridge_connect(bridge), cudaq_bridge_launch(bridge), cudaq_bridge_disconnect(bridge)];
    assert_eq!(calls, [OK; 3]);
    assert_eq!(cudaq_bridge_destroy(bridge), OK);
    // Twice, and after it.
    assert_eq!(cudaq_bridge_destroy(bridge), INVALID);
    assert_eq!(cudaq_bridge_connect(bridge), INVALID);
    assert_eq!(last_error(), "no such bridge, or one that was destroyed");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "cnlxd");
}

#[test]
fn two_instances_of_two_libraries_do_not_meet() {
    let shop = Shop::new();
    let (one, other) = (shop.odd(&[]), shop.odd(&["-DNULL_OTHERS", "-Wno-unused"]));
    let bridges = [create(&one, &[]), create(&one, &[]), create(&other, &[])];
    assert!(bridges.iter().all(|&(status, _)| status == OK));
    let [a, b, c] = bridges.map(|(_, handle)| handle);
    assert_eq!((cudaq_bridge_connect(a), cudaq_bridge_connect(c)), (OK, UNSUPPORTED));
    assert_eq!(cudaq_bridge_destroy(a), OK);
    // Its sibling continues, from its own beginning.
    assert_eq!(
        (cudaq_bridge_disconnect(b), cudaq_bridge_connect(b), cudaq_bridge_launch(b)),
        (INVALID, OK, OK)
    );
    assert_eq!((cudaq_bridge_destroy(c), cudaq_bridge_destroy(b)), (OK, OK));
}

#[test]
fn a_function_table_reaches_the_provider_that_takes_it() {
    let shop = Shop::new();
    let log = shop.path("log");
    let (status, takes) = create(&shop.odd(&[]), &[&format!("--log={log}")]);
    let (other, does_not) = create(&shop.odd(&["-DNULL_SET_TABLE", "-Wno-unused"]), &[]);
    assert_eq!((status, other), (OK, OK));
    let mut entries = [0_u64; 3 * 22];
    let table = |entries: *mut u64, count| CudaqFunctionTable { entries: entries.cast(), count };
    let set = |bridge, table: &CudaqFunctionTable| {
        // SAFETY: a table, whose entries are not read.
        unsafe { cudaq_bridge_set_function_table(bridge, table) }
    };
    let good = table(entries.as_mut_ptr(), 3);
    assert_eq!((set(takes, &good), set(does_not, &good)), (OK, OK));
    // What the provider says is passed on.
    assert_eq!(set(takes, &table(entries.as_mut_ptr(), 2)), 3);
    for bridge in [takes, does_not] {
        assert_eq!(set(bridge, &table(null_mut(), 3)), INVALID);
        assert_eq!(set(bridge, &table(entries.as_mut_ptr(), 0)), INVALID);
        // SAFETY: null.
        assert_eq!(unsafe { cudaq_bridge_set_function_table(bridge, null()) }, INVALID);
        assert_eq!(cudaq_bridge_destroy(bridge), OK);
        assert_eq!(set(bridge, &good), INVALID, "destroyed");
    }
    assert_eq!(std::fs::read_to_string(log).unwrap(), "cttd");
}

#[test]
fn nulls_and_wild_handles_are_refused() {
    let shop = Shop::new();
    let library = shop.odd(&[]);
    let name = CString::new(library.clone()).unwrap();
    let mut handle: Handle = null_mut();
    // SAFETY: null or there, for each call.
    unsafe {
        assert_eq!(cudaq_bridge_create_from_library(null_mut(), name.as_ptr(), 0, null_mut()), INVALID);
        assert_eq!(cudaq_bridge_create_from_library(&raw mut handle, null(), 0, null_mut()), INVALID);
        assert_eq!(cudaq_bridge_create_from_library(&raw mut handle, name.as_ptr(), -1, null_mut()), INVALID);
        assert_eq!(cudaq_bridge_create_from_library(&raw mut handle, name.as_ptr(), 1, null_mut()), INVALID);
        assert_eq!(cudaq_bridge_create(&raw mut handle, 2, 0, null_mut()), INVALID);
        assert!(handle.is_null());
        // The variable is not set, and the other library is not here.
        assert_eq!(cudaq_bridge_create(&raw mut handle, 1, 0, null_mut()), INVALID);
        assert!(last_error().contains("CUDAQ_REALTIME_BRIDGE_LIB"));
        assert_eq!(cudaq_bridge_create(&raw mut handle, 0, 0, null_mut()), INTERNAL);
        assert_eq!(cudaq_bridge_create_from_library(&raw mut handle, name.as_ptr(), 0, null_mut()), OK);
        assert_eq!(cudaq_bridge_get_transport_context(handle, 0, null_mut()), INVALID);
        let mut ring = RingBuffer::EMPTY;
        assert_eq!(cudaq_bridge_get_transport_context(handle, 7, (&raw mut ring).cast()), INVALID);
        let mut unified = UnifiedContext { launch_fn: None, transport_ctx: (&raw mut ring).cast() };
        // Yes, and nothing: the loop is the caller's.
        assert_eq!(cudaq_bridge_get_transport_context(handle, 1, (&raw mut unified).cast()), OK);
        assert!(unified.launch_fn.is_none() && unified.transport_ctx.is_null());
        assert_eq!(cudaq_bridge_get_cpu_dataplane(handle, null_mut()), INVALID);
        assert_eq!(cudaq_bridge_get_endpoint_info(handle, null_mut(), 100), INVALID);
        assert_eq!(cudaq_bridge_get_ring_geometry(handle, null_mut(), null_mut()), INVALID);
    }
    for wild in [0_usize, 1, 8, 0x7FFF_0000_0000, usize::MAX] {
        let wild = std::ptr::without_provenance_mut::<c_void>(wild);
        for call in [cudaq_bridge_connect, cudaq_bridge_launch, cudaq_bridge_disconnect, cudaq_bridge_destroy]
        {
            assert_eq!(call(wild), INVALID);
        }
    }
    // A create that fails leaves the handle as it is.
    let before = handle;
    // SAFETY: as above.
    unsafe {
        let nowhere = c"./nowhere.so".as_ptr();
        assert_eq!(cudaq_bridge_create_from_library(&raw mut handle, nowhere, 0, null_mut()), INTERNAL);
    }
    assert_eq!((handle, cudaq_bridge_destroy(handle)), (before, OK));
    assert_eq!(create(&shop.path("nowhere.so"), &[]).0, INTERNAL);
    assert_eq!(create(&library, &["--odd=status3"]).0, 3);
    assert_eq!(create(&library, &["--odd=null-handle"]).0, INTERNAL);
}

#[test]
fn destroying_ends_a_connect_that_waits() {
    let shop = Shop::new();
    let log = shop.path("log");
    let (status, bridge) = create(&shop.odd(&[]), &[&format!("--log={log}"), "--odd=waits"]);
    assert_eq!(status, OK);
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let handle = bridge.addr();
    let waits = std::thread::spawn(move || cudaq_bridge_connect(std::ptr::without_provenance_mut(handle)));
    while !waits.is_finished() && said() != "cn" {
        std::thread::yield_now();
    }
    assert_eq!(cudaq_bridge_destroy(bridge), OK);
    assert_eq!(waits.join().unwrap(), INTERNAL);
    assert_eq!(said(), "cnxd");
    assert_eq!(cudaq_bridge_connect(bridge), INVALID);
}
