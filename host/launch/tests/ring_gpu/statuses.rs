//! Every refusal has its own status, and its own counter.

use crate::rig::{self, call, calls, counted, on_device, slot, stop_clean, take, vacant};
use ringcall::Ring;
use ringcall_launch::ring::{DeviceDispatcher, DeviceError, DispatcherOptions, Functions, KernelKind};
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;

const KERNELS: [KernelKind; 4] = [
    KernelKind::Regular { blocks: 1, warps: 1 },
    KernelKind::Regular { blocks: 1, warps: 8 },
    KernelKind::Regular { blocks: 4, warps: 2 },
    KernelKind::Cooperative { blocks: 4, threads: 64 },
];

/// Writes a request as a broken producer would, and takes its answer.
fn forge(ring: &Ring, header: RequestHeader, flag: Option<u64>) -> rig::Answer {
    let slot = vacant(ring, slot(ring, 5)).slot();
    let valid = ring.geometry().request_address(slot);
    ring.shared().forge_request(slot, &header.to_bytes(), flag.unwrap_or(valid));
    let answer = take(ring, slot);
    assert_eq!((answer.request_id, answer.ptp_timestamp), (header.request_id, header.ptp_timestamp));
    answer
}

#[test]
fn every_refusal_has_its_status_and_counter() {
    on_device("every_refusal_has_its_status_and_counter", |context| {
        for kernel in KERNELS {
            let (ring, running) = rig::start(context, (16, 64), kernel);
            let shared = ring.ring();
            let good = RequestHeader::new(FunctionId::of("rpc_increment").0, 8, 9, 10);
            let typed = RequestHeader::new(FunctionId::of("rpc_mock_decode").0, 15, 9, 10);
            let next = shared.geometry().request_address(slot(shared, 6));
            let cases = [
                (RequestHeader { magic: 0, ..good }, None, Status::BAD_MAGIC),
                (RequestHeader { magic: good.magic + 1, ..good }, None, Status::BAD_MAGIC),
                (good, Some(1), Status::BAD_FLAG),
                (good, Some(next), Status::BAD_FLAG),
                (good, Some(ringcall_wire::flag::IN_FLIGHT), Status::BAD_FLAG),
                (good, Some(u64::MAX), Status::BAD_FLAG),
                (RequestHeader { arg_len: 41, ..good }, None, Status::ARG_TOO_LONG),
                (RequestHeader { arg_len: u32::MAX, ..good }, None, Status::ARG_TOO_LONG),
                (RequestHeader { function_id: 0, ..good }, None, Status::UNKNOWN_FUNCTION),
                (RequestHeader { function_id: u32::MAX, ..good }, None, Status::UNKNOWN_FUNCTION),
                (typed, None, Status::SCHEMA_MISMATCH),
                (RequestHeader { arg_len: 17, ..typed }, None, Status::SCHEMA_MISMATCH),
                (RequestHeader { arg_len: 0, ..typed }, None, Status::SCHEMA_MISMATCH),
            ];
            for (n, &(header, flag, status)) in cases.iter().enumerate() {
                let answer = forge(shared, header, flag);
                assert_eq!((answer.status, answer.result), (status, Vec::new()), "{kernel:?} {n}");
                let of_this_status = cases[..=n].iter().filter(|(.., other)| *other == status).count() as u64;
                let counter = Counter::of_status(status);
                counted(&running, counter.name(), |c| {
                    c.get(counter) == of_this_status
                        && (c.rejected(), c.get(Counter::Dispatched)) == (n as u64 + 1, n as u64)
                });
                // And the slot is as good as before.
                assert_eq!(forge(shared, good, None).status, Status::OK, "{kernel:?} {n}");
                counted(&running, "the good one", |c| {
                    c.get(Counter::Completed) == n as u64 + 1 && c.get(Counter::Dispatched) == n as u64 + 1
                });
            }
            stop_clean(running);
        }
    });
}

#[test]
fn bad_requests_are_dropped_where_that_is_asked_for() {
    on_device("bad_requests_are_dropped_where_that_is_asked_for", |context| {
        for kernel in KERNELS.into_iter().chain([KernelKind::graph()]) {
            let mapped = rig::ring(context, 16, 64);
            let options = DispatcherOptions { drop_bad_requests: true, ..DispatcherOptions::new(kernel) };
            let running = rig::wire(&mapped, calls(64), options).start().expect("it starts");
            let shared = mapped.ring();
            let good = RequestHeader::new(FunctionId::of("rpc_increment").0, 8, 9, 10);
            for n in 0..100_u64 {
                for bad in [RequestHeader { magic: 0, ..good }, RequestHeader { function_id: 0, ..good }] {
                    // Several at once: flags of requests that come together are written by another warp than the one that
                    // looked at the request.
                    let slots = (4..8).map(|at| vacant(shared, slot(shared, at)).slot());
                    for at in slots.collect::<Vec<_>>() {
                        let valid = shared.geometry().request_address(at);
                        shared.shared().forge_request(at, &bad.to_bytes(), valid);
                    }
                    // Both flags are free again: nothing was answered.
                    for at in 4..8 {
                        drop(vacant(shared, slot(shared, at)));
                    }
                }
                let answer = forge(shared, RequestHeader { arg_len: 41, ..good }, None);
                assert_eq!(answer.status, Status::ARG_TOO_LONG, "{kernel:?}");
                assert_eq!(forge(shared, good, None).status, Status::OK, "{kernel:?}");
                counted(&running, "all four", |c| {
                    c.get(Counter::BadMagic) == 4 * (n + 1)
                        && c.get(Counter::UnknownFunction) == 4 * (n + 1)
                        && (c.rejected(), c.get(Counter::Completed)) == (9 * (n + 1), n + 1)
                });
            }
            stop_clean(running);
        }
    });
}

#[test]
fn handlers_statuses_are_their_own() {
    on_device("handlers_statuses_are_their_own", |context| {
        for kernel in KERNELS {
            let (ring, running) = rig::start(context, (16, 64), kernel);
            let (ring, at) = (ring.ring(), slot(ring.ring(), 0));
            for (n, status) in [1, 7, i32::MAX].into_iter().enumerate() {
                let answer = call(ring, at, "rpc_refuse", &status.to_le_bytes());
                assert_eq!(answer.status, Status(status), "{kernel:?}");
                counted(&running, "handler_errors", |c| c.get(Counter::HandlerErrors) == n as u64 + 1);
            }
            let answer = call(ring, at, "rpc_refuse", &Status::ENGINE_FAILED.0.to_le_bytes());
            assert_eq!(answer.status, Status::ENGINE_FAILED);
            counted(&running, "engine_failed", |c| c.get(Counter::EngineFailed) == 1);

            let answer = call(ring, at, "rpc_overclaim", b"some");
            // The exported function itself refuses its claim, and sends nothing.
            assert_eq!((answer.status, answer.result.len()), (Status::RESULT_TOO_LONG, 0), "{kernel:?}");
            counted(&running, "result_clamped", |c| c.get(Counter::ResultClamped) == 1);

            // No follow-up graph is in this table.
            assert_eq!(call(ring, at, "rpc_trigger", b"").status, Status::LAUNCH_FAILED, "{kernel:?}");
            counted(&running, "launch_failed", |c| c.get(Counter::LaunchFailed) == 1);
            counted(&running, "six dispatched", |c| c.get(Counter::Dispatched) == 6 && c.answered() == 6);
            stop_clean(running);
        }
    });
}

#[test]
fn what_a_kernel_does_not_run_is_refused_before_it_runs() {
    on_device("what_a_kernel_does_not_run_is_refused_before_it_runs", |context| {
        let ring = rig::ring(context, 16, 576);
        let grid = || calls(576).handlers(&rig::samples(576, &[HandlerKind::Grid]));
        let wire = |functions, kernel| {
            DeviceDispatcher::wire(&ring, functions, rig::modules(context), DispatcherOptions::new(kernel))
                .err()
        };
        for kernel in [KERNELS[0], KERNELS[1], KernelKind::graph()] {
            let refused = wire(grid(), kernel);
            assert!(matches!(refused, Some(DeviceError::WrongKernel { .. })), "{kernel:?}: {refused:?}");
        }
        let twice = wire(calls(576).handlers(&rig::samples(576, &[HandlerKind::Warp])), KERNELS[1]);
        assert!(matches!(twice, Some(DeviceError::Collision { .. })), "{twice:?}");
        for kernel in [
            KernelKind::Regular { blocks: 0, warps: 8 },
            KernelKind::Regular { blocks: 1, warps: 0 },
            KernelKind::Regular { blocks: 1, warps: 33 },
            KernelKind::Cooperative { blocks: 1, threads: 40 },
        ] {
            let shape = wire(Functions::new(), kernel);
            assert!(matches!(shape, Some(DeviceError::Shape(_))), "{kernel:?}: {shape:?}");
        }
        let crowd = KernelKind::Cooperative { blocks: 4096, threads: 128 };
        assert!(matches!(wire(grid(), crowd), Some(DeviceError::NotResident { .. })));
    });
}
