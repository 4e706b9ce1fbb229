//! Dispatchers that are dropped while they run, or wait to run.

use crate::rig::{self, TIMEOUT, await_answer, call, on_device, send, slot, take};
use ringcall_cuda::driver::DeviceBuffer;
use ringcall_launch::ring::{DeviceError, DispatcherOptions, KernelKind};
use ringcall_wire::status::Status;
use std::time::Instant;

/// What was dropped meanwhile is freed after the kernel's end, and the context can be used again.
#[test]
fn a_dropped_dispatcher_ends_and_gives_the_context_back() {
    on_device("a_dropped_dispatcher_ends_and_gives_the_context_back", |context| {
        let kernels = [KernelKind::regular(), KernelKind::broad(), KernelKind::graph()];
        for kernel in kernels {
            if matches!(kernel, KernelKind::Graph { .. }) && !crate::graphs::can_link() {
                eprintln!("left out: the graph kernel (no libcudadevrt.a)");
                continue;
            }
            for turn in 0..5 {
                let buffer = DeviceBuffer::zeroed(context, 1 << 20).expect("memory");
                let (ring, running) = rig::start(context, (16, 64), kernel);
                assert_eq!(call(ring.ring(), slot(ring.ring(), turn), "rpc_increment", &[1]).result, [2]);
                // To free it now would be to wait for the kernel's end.
                drop(buffer);
                drop(running);
                rig::modules(context).load_alone(context).expect("nothing runs now");
            }
        }
    });
}

/// Its memory is there until the handler returns after all, and answers.
#[test]
fn a_dropped_dispatcher_with_a_busy_handler_keeps_its_memory() {
    on_device("a_dropped_dispatcher_with_a_busy_handler_keeps_its_memory", |context| {
        let buffer = DeviceBuffer::zeroed(context, 1 << 20).expect("memory");
        let (ring, running) = rig::start(context, (16, 64), KernelKind::regular());
        let (ring, at) = (ring.ring(), slot(ring.ring(), 0));
        send(ring, at, "rpc_spin", 7, &1_000_000_000_i64.to_le_bytes());
        let begin = Instant::now();
        while running.busy().is_empty() {
            assert!(begin.elapsed() < TIMEOUT, "the handler does not begin");
        }
        drop(buffer);
        drop(running);
        assert!(rig::modules(context).load_alone(context).is_err(), "the hold on frees stays");
        await_answer(ring, at);
        let answer = take(ring, at);
        assert_eq!((answer.request_id, answer.status), (7, Status::OK));
    });
}

/// A kernel that finds no room waits for the one that has it, with all that it will look at when it begins.
#[test]
fn a_start_that_finds_no_room_keeps_its_memory() {
    on_device("a_start_that_finds_no_room_keeps_its_memory", |context| {
        let ring = rig::ring(context, 16, 64);
        let multiprocessors = context.device().multiprocessors().expect("readable");
        let wire = |blocks| {
            let kernel = KernelKind::Cooperative { blocks, threads: 1024 };
            rig::wire(&ring, rig::calls(64), DispatcherOptions::new(kernel))
        };
        let fits = wire(multiprocessors).footprint().blocks_per_multiprocessor;
        let [first, second] = [0; 2].map(|_| wire(multiprocessors * fits));
        let first = first.start().expect("an empty device");
        let why = second.start().err();
        assert!(matches!(why, Some(DeviceError::DidNotBegin(_))), "{why:?}");
        assert_eq!(call(ring.ring(), slot(ring.ring(), 3), "rpc_increment", &[1]).result, [2]);
        // The second begins now, and is told to end.
        rig::stop_clean(first);
    });
}
