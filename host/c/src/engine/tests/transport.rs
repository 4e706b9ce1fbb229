//! Graphs for requests that come over a transport, which the loop drives.

use super::*;
use crate::cpu_loop::Dataplane;
use crate::handles::lock;
use crate::layout::cudaq_cpu_dataplane_t;
use ringcall_bridge::layout::{RX_EMPTY, RX_READY};
use std::collections::VecDeque;
use std::sync::Mutex;

/// A transport that has requests in the bench's slots, and notes what is sent.
struct Wire<'a> {
    bench: &'a Bench,
    asked: Mutex<VecDeque<u32>>,
    /// Slot, status and request id of each.
    sent: Mutex<Vec<(u32, Status, u32)>>,
}

unsafe extern "C" fn rx_poll(wire: *mut c_void, slot: *mut u32) -> c_int {
    // SAFETY: the test's transport, which outlives the loop.
    let wire = unsafe { &*wire.cast::<Wire<'_>>() };
    let Some(asked) = lock(&wire.asked).pop_front() else { return RX_EMPTY };
    // SAFETY: the loop's own number.
    unsafe { slot.write(asked) };
    RX_READY
}

unsafe extern "C" fn tx_publish(wire: *mut c_void, slot: u32) -> c_int {
    // SAFETY: as above.
    let wire = unsafe { &*wire.cast::<Wire<'_>>() };
    let response = wire.bench.response(slot);
    lock(&wire.sent).push((slot, response.status(), response.request_id));
    0
}

impl<'a> Wire<'a> {
    fn new(bench: &'a Bench) -> Self {
        Self { bench, asked: Mutex::default(), sent: Mutex::default() }
    }

    fn source(&self) -> Source {
        let plane = cudaq_cpu_dataplane_t {
            ctx: core::ptr::from_ref(self).cast_mut().cast(),
            ring: self.bench.ring,
            rx_poll: Some(rx_poll),
            tx_publish: Some(tx_publish),
        };
        // SAFETY: the bench's ring; the functions are those above.
        Source::Transport(Box::new(unsafe { Dataplane::new(&plane, SLOTS) }.expect("a data plane")))
    }

    /// A request that came in.
    fn ask(&self, slot: u32, id: u32) {
        self.bench.ask(slot, id);
        lock(&self.asked).push_back(slot);
    }

    fn sent(&self) -> Vec<(u32, Status, u32)> {
        lock(&self.sent).clone()
    }
}

#[test]
fn a_graph_that_fails_is_answered_over_a_transport() {
    for answer_last in [false, true] {
        let bench = Bench::of(1, Manner { answer_last, ..Manner::default() });
        let wire = Wire::new(&bench);
        let (host_loop, _flag) = host_loop_over(&bench, wire.source(), COMPAT);
        let mut thread = HostThread::start(host_loop.expect("a loop")).expect("a thread");
        // One that answers.
        wire.ask(1, 5);
        until(|| bench.streams[0].launches() == 1);
        bench.answer(1);
        bench.streams[0].end();
        until(|| wire.sent() == [(1, Status::OK, 5)]);
        // One that ends and has not answered.
        wire.ask(2, 6);
        until(|| bench.streams[0].launches() == 2);
        bench.streams[0].end();
        until(|| wire.sent().len() == 2);
        assert_eq!(wire.sent()[1], (2, Status::LAUNCH_FAILED, 6));
        // One whose stream fails under it, in a slot that had another answer.
        wire.ask(1, 7);
        until(|| bench.streams[0].launches() == 3);
        bench.streams[0].fail(700);
        until(|| wire.sent().len() == 3);
        assert_eq!(wire.sent()[2], (1, Status::LAUNCH_FAILED, 7));
        assert!(bench.engine.is_idle());
        thread.stop().expect("nothing runs");
        assert_eq!((bench.tx(1), bench.tx(2)), (flag::FREE, flag::FREE));
    }
}
