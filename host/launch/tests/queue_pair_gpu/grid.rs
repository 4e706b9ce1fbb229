//! The unified dispatcher as a cooperative grid.

use crate::rig::{Pair, Peer, on_device, queues, samples, setting, stop_clean, try_wire, wire_with};
use ringcall_launch::ring::{DeviceError, Functions, KernelKind};
use ringcall_mlx5::Event;
use ringcall_wire::Counter;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;

const STRIDE: u32 = 576;

fn pair(depth: u32, [blocks, threads]: [u32; 2]) -> Pair {
    Pair { stride: STRIDE, kernel: KernelKind::Cooperative { blocks, threads }, ..Pair::of_depth(depth) }
}

fn functions() -> Functions {
    let kinds = [HandlerKind::Thread, HandlerKind::Warp, HandlerKind::Grid];
    Functions::new().handlers(&samples(&kinds, STRIDE))
}

const NAMES: [&str; 4] = ["rpc_increment_grid", "rpc_increment", "rpc_increment_grid", "rpc_increment_warp"];

#[test]
fn a_grid_serves_beside_the_others() {
    on_device("a_grid_serves_beside_the_others", |context| {
        let n = setting("RINGCALL_UNIFIED_GRID_REQUESTS", 10_000);
        for size in [[1, 32], [4, 64], [8, 128]] {
            let (wired, mut rig) = wire_with(context, pair(64, size), functions());
            let running = wired.start().expect("started");
            rig.peer.mix(n, 16, 200, |i| NAMES[(i % 4) as usize]);
            for i in 0..200_u32 {
                let input: Vec<u8> = (0..256_u32).map(|at| (at * 7 + i) as u8).collect();
                rig.peer.send(&Peer::frame("rpc_grid_mirror", 256, i, &input));
                let (header, result) = rig.peer.receive();
                let plus = |at: usize| input[at].wrapping_add(1);
                let owed: Vec<u8> = (0..256).map(|at| plus(at).wrapping_add(plus(255 - at))).collect();
                assert_eq!((header.status(), result), (Status::OK, owed), "{size:?}: {i}");
            }
            rig.peer.send(&Peer::frame("rpc_grid_mirror", 255, 1, &[0; 255]));
            assert_eq!(rig.peer.receive().0.status(), Status::SCHEMA_MISMATCH);
            rig.peer.send(&Peer::frame("nobody", 8, 2, &[0; 8]));
            assert_eq!(rig.peer.receive().0.status(), Status::UNKNOWN_FUNCTION);
            let wired = stop_clean(running);
            assert_eq!(wired.counters().get(Counter::Completed), n + 200);
            assert_eq!(wired.counters().answered(), n + 202);
            assert_eq!((wired.event(Event::RxLost), wired.event(Event::RxReordered)), (0, 0));
            rig.end();
        }
    });
}

#[test]
fn a_grid_that_is_stopped_in_a_burst_loses_nothing() {
    on_device("a_grid_that_is_stopped_in_a_burst_loses_nothing", |context| {
        let (mut wired, mut rig) = wire_with(context, pair(32, [4, 64]), functions());
        for turn in 0..20 {
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            for id in 0..16_u32 {
                rig.peer.send(&Peer::frame("rpc_increment_grid", 8, id, &[id as u8; 8]));
            }
            wired = stop_clean(running);
            let running = wired.start().unwrap_or_else(|why| panic!("start {turn}: {why}"));
            for id in 0..16_u32 {
                let (header, result) = rig.peer.receive();
                assert_eq!((header.request_id, result), (id, vec![id as u8 + 1; 8]), "turn {turn}");
            }
            wired = stop_clean(running);
        }
        assert_eq!(wired.counters().get(Counter::Completed), 20 * 16);
        rig.end();
    });
}

#[test]
fn what_no_grid_can_be_is_refused() {
    on_device("what_no_grid_can_be_is_refused", |context| {
        for (kernel, says) in [
            (KernelKind::Cooperative { blocks: 1_000_000, threads: 128 }, "at once"),
            (KernelKind::Cooperative { blocks: 2, threads: 40 }, "whole warps"),
            (KernelKind::Regular { blocks: 2, warps: 8 }, "one block"),
            (KernelKind::Regular { blocks: 1, warps: 33 }, "whole warps"),
        ] {
            let pair = Pair { stride: STRIDE, kernel, ..Pair::of_depth(8) };
            let (queues, rig) = queues(context, pair);
            let why = try_wire(context, &queues, pair, Functions::new()).expect_err("no such kernel");
            assert!(why.to_string().contains(says), "{kernel:?}: {why}");
            rig.end();
        }
        // A grid handler needs a grid.
        let pair = Pair { stride: STRIDE, ..Pair::of_depth(8) };
        let (queues, rig) = queues(context, pair);
        let why = try_wire(context, &queues, pair, functions()).expect_err("no grid");
        let wrong = matches!(why, DeviceError::WrongKernel { kernel: "ringcall_unified", .. });
        assert!(wrong, "{why}");
        rig.end();
    });
}
