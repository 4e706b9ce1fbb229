//! Calls on an engine that a loop drives: the ends are the loop's.

use super::*;
use crate::engine::Lease;
use crate::engine::api::{
    cudaq_graph_launch_engine_drain, cudaq_graph_launch_engine_publish_ready, cudaq_graph_launch_engine_sweep,
};
use crate::status::ringcall_last_error;
use core::ffi::CStr;
use std::sync::mpsc::channel;

/// What the last call on this thread failed for.
fn why() -> String {
    // SAFETY: terminated, and this thread's until its next call.
    unsafe { CStr::from_ptr(ringcall_last_error()) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn publishes_nothing(_: *mut c_void, _: u32) -> c_int {
    panic!("an end that is the loop's")
}

#[test]
fn the_ends_of_a_loops_requests_are_the_loops() {
    let bench = Bench::new(2, true);
    let public = enter(Arc::clone(&bench.engine));
    let (host_loop, shutdown) = host_loop(&bench);
    bench.ask(1, 5);
    // It has begun when it is built: between that and its first turn no other dispatcher may come, either.
    launch(&bench, 0, 1, false).expect("as the loop would");
    bench.answer(1);
    bench.streams[0].end();
    let nothing = core::ptr::null_mut();
    let refused = || why().contains("a loop drives the engine");
    // SAFETY: an engine that is there.
    unsafe { cudaq_graph_launch_engine_sweep(public) };
    assert!(refused(), "{}", why());
    // SAFETY: as above; the context is not looked at.
    unsafe { cudaq_graph_launch_engine_publish_ready(public, Some(publishes_nothing), nothing) };
    assert!(refused(), "{}", why());
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_launch(public, 1, nothing, 2) };
    assert!(refused(), "{}", why());
    assert!(!bench.engine.is_idle(), "its end was not found");
    assert_eq!((bench.tx(2), bench.streams[1].launches()), (flag::FREE, 0));
    // A drain is over when the loop has found the end; without marks that gives the request flag back.
    let thread = std::thread::spawn(move || host_loop.run(Duration::ZERO));
    // SAFETY: an engine that is there.
    unsafe { cudaq_graph_launch_engine_drain(public) };
    until(|| bench.rx(1) == flag::FREE);
    shutdown.store(1, Ordering::Release);
    thread.join().expect("no panic").expect("nothing runs");
    // It has returned: the engine is its user's again.
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_launch(public, 1, nothing, 2) };
    assert_eq!(bench.streams[1].launches(), 1);
    bench.answer(2);
    bench.streams[1].end();
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_sweep(public) };
    assert!(bench.engine.is_idle());
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
    assert_eq!(Arc::strong_count(&bench.engine), 1);
}

#[test]
fn one_loop_at_a_time_drives_an_engine() {
    let bench = Bench::new(1, false);
    let over = || host_loop_over(&bench, Source::Ring(bench.ring), COMPAT).0;
    let first = over().expect("nobody's");
    let fault = over().map(drop).expect_err("the first one's");
    assert_eq!(fault.status, CudaqStatus::InvalidArg);
    drop(first);
    drop(over().expect("nobody's again"));
}

#[test]
fn a_loop_begins_after_the_calls_under_way() {
    let bench = Bench::new(1, false);
    let call = bench.engine.lease.call().expect("nobody drives it");
    let (begun, has_begun) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lease = Lease::new(Arc::clone(&bench.engine)).expect("the call ends");
            begun.send(()).expect("the test waits");
            drop(lease);
        });
        // It has said what it wants: no other call begins, and it waits for this one.
        until(|| bench.engine.lease.call().is_err());
        assert!(has_begun.try_recv().is_err());
        drop(call);
        has_begun.recv().expect("begun");
    });
    drop(bench.engine.lease.call().expect("its end gives it back"));
    let _call = bench.engine.lease.call().expect("nobody drives it");
    let fault = Lease::new(Arc::clone(&bench.engine)).map(drop).expect_err("a call that goes on");
    assert!(fault.why.contains("in the middle"), "{}", fault.why);
    assert!(bench.engine.lease.call().is_ok(), "as it was");
}

#[test]
fn an_engine_that_is_driven_is_not_destroyed() {
    let bench = Bench::new(1, false);
    let public = enter(Arc::clone(&bench.engine));
    let lease = Lease::new(Arc::clone(&bench.engine)).expect("nobody's");
    // SAFETY: an engine that is there.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
    assert!(why().contains("a loop drives the engine"), "{}", why());
    assert_eq!(Arc::strong_count(&bench.engine), 3, "there still");
    drop(lease);
    // SAFETY: as above.
    unsafe { cudaq_graph_launch_engine_destroy(public) };
    assert_eq!(Arc::strong_count(&bench.engine), 1);
}
