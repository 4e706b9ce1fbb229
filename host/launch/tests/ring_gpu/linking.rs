//! Handlers in several modules and languages, linked into one dispatcher.

use crate::rig::{self, call, calls, flood, on_device, slot, slots, stop_clean};
use ringcall::Ring;
use ringcall_cuda::driver::{Context, MappedRegion, Stream};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, KernelKind, LinkedDispatcher, LinkedFunction, LinkedGraphs,
    LinkedRing, Modules,
};
use ringcall_protocol::SharedRing;
use ringcall_protocol::ring::RingWindows;
use ringcall_wire::Counter;
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::status::Status;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// A handler in CUDA C++.
const CPP: &str = include_str!("../../../../kernels-cu/ptx/increment.ptx");

/// A dispatcher of the samples and the handler in C++ answers calls of both.
fn both_answer(context: &Arc<Context>, modules: Modules) {
    let kernel = KernelKind::Regular { blocks: 1, warps: 8 };
    let ring = rig::ring(context, 16, 576);
    let functions = calls(576).symbol("in C++", "cpp_increment", HandlerKind::Thread, HandlerSchema::new());
    let running = DeviceDispatcher::wire(&ring, functions, modules, DispatcherOptions::new(kernel))
        .expect("both modules link")
        .start()
        .expect("started");
    let ring = ring.ring();
    for len in [0, 1, 8, 33, 512] {
        flood(ring.shared(), &slots(ring), &["in C++", "rpc_increment", "rpc_increment_warp"], len, 600);
    }
    assert_eq!(call(ring, slot(ring, 0), "cpp_increment", &[1]).status, Status::UNKNOWN_FUNCTION);
    stop_clean(running);
}

#[test]
fn a_handler_in_cpp_is_linked_as_ptx() {
    on_device("a_handler_in_cpp_is_linked_as_ptx", |context| {
        both_answer(context, rig::modules(context).ptx("increment.cu", CPP));
        // In either order.
        let first = Modules::new().ptx("increment.cu", CPP);
        both_answer(context, first.ptx_for("samples", rig::SAMPLES, context).expect("PTX for this device"));
    });
}

/// NVIDIA's assembler, from the path or a toolkit.
fn ptxas() -> Option<PathBuf> {
    let roots = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let toolkits = roots.chain([PathBuf::from("/usr/local/cuda")]).map(|root| root.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).chain(toolkits).collect();
    folders.into_iter().map(|folder| folder.join("ptxas")).find(|file| file.is_file())
}

#[test]
fn a_handler_in_cpp_is_linked_as_machine_code() {
    let Some(ptxas) = ptxas() else {
        eprintln!(
            "skipped: a_handler_in_cpp_is_linked_as_machine_code: no ptxas on the path or in CUDA_HOME"
        );
        return;
    };
    on_device("a_handler_in_cpp_is_linked_as_machine_code", |context| {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, cubin) = (folder.path().join("increment.ptx"), folder.path().join("increment.cubin"));
        std::fs::write(&text, CPP).expect("written");
        let (major, minor) = context.device().capability();
        let status = Command::new(&ptxas)
            .args(["-c", &format!("-arch=sm_{major}{minor}")])
            .arg(&text)
            .arg("-o")
            .arg(&cubin)
            .status()
            .expect("ptxas starts");
        assert!(status.success(), "{}: {status}", ptxas.display());
        let cubin = std::fs::read(&cubin).expect("machine code");
        both_answer(context, rig::modules(context).cubin("increment.cu", &cubin));
    });
}

#[test]
fn a_missing_symbol_is_named() {
    on_device("a_missing_symbol_is_named", |context| {
        let ring = rig::ring(context, 16, 64);
        let options = DispatcherOptions::new(KernelKind::regular());
        let missing =
            calls(64).symbol("missing", "no_such_handler", HandlerKind::Thread, HandlerSchema::new());
        let refused = DeviceDispatcher::wire(&ring, missing, rig::modules(context), options).err();
        let text = refused.expect("it does not link").to_string();
        assert!(text.contains("no_such_handler") && !text.contains('\n'), "{text}");

        // And so is a whole module that was forgotten.
        let refused = DeviceDispatcher::wire(&ring, calls(64), Modules::new(), options).err();
        let text = refused.expect("it does not link").to_string();
        assert!(text.contains("rpc_increment"), "{text}");
        eprintln!("{text}");

        let refused = DeviceDispatcher::wire(
            &ring,
            calls(64),
            rig::modules(context).ptx("broken", "this is no PTX"),
            options,
        );
        assert!(refused.expect_err("it does not link").to_string().contains("broken"));
    });
}

/// A ring of a program's own, as the host and as the device see it.
fn ring_of_a_program(
    context: &Arc<Context>,
    slots: u32,
    stride: u32,
) -> (Ring, LinkedRing, [MappedRegion; 4]) {
    let (flags, data) = (slots as usize * 8, slots as usize * stride as usize);
    let regions =
        [flags, flags, data, data].map(|bytes| MappedRegion::zeroed(context, bytes).expect("memory"));
    let [rx_flags, tx_flags, rx_data, tx_data] = &regions;
    let windows = RingWindows {
        rx_flags: rx_flags.words(0, slots as usize).expect("all of it"),
        tx_flags: tx_flags.words(0, slots as usize).expect("all of it"),
        rx_data: rx_data.bytes(0, data).expect("all of it"),
        tx_data: tx_data.bytes(0, data).expect("all of it"),
    };
    let address = |region: &MappedRegion| region.device_address(0).expect("mapped").0;
    let linked = LinkedRing {
        rx_flags: address(rx_flags),
        tx_flags: address(tx_flags),
        rx_data: address(rx_data),
        tx_data: address(tx_data),
        rx_peer: windows.rx_data.address(),
        slots,
        rx_stride: stride,
        tx_stride: stride,
    };
    let shared = SharedRing::new(slots, stride, stride, windows, Some(linked.rx_data)).expect("a ring");
    (Ring::external(shared), linked, regions)
}

/// A program's kernel that ends is launched again: all blocks of a grid take part in its calls as before.
#[test]
fn a_linked_kernel_is_launched_again() {
    on_device("a_linked_kernel_is_launched_again", |context| {
        let kinds = [
            KernelKind::Cooperative { blocks: 8, threads: 128 },
            KernelKind::Cooperative { blocks: 1, threads: 32 },
            KernelKind::Regular { blocks: 1, warps: 4 },
        ];
        for kind in kinds {
            let grid = matches!(kind, KernelKind::Cooperative { .. });
            let handler = if grid { HandlerKind::Grid } else { HandlerKind::Thread };
            let handlers = rig::samples(576, &[handler]);
            let name = if grid { "rpc_increment_grid" } else { "rpc_increment" };
            let sample = handlers.iter().find(|handler| handler.name == name).expect("a sample");
            let (kernel, addresses) =
                LinkedDispatcher::load(context, &rig::modules(context), kind, &[sample.symbol])
                    .expect("linked");
            let function = LinkedFunction {
                id: FunctionId::of(name).0,
                address: addresses[0],
                arg_bytes: None,
                kind: handler,
                routing_key: 0,
            };
            let (ring, linked, _memory) = ring_of_a_program(context, 16, 576);
            let stream = Stream::new(context).expect("a stream");
            // SAFETY: the ring is mapped, and there until the end of this; the function is the kernel's module's.
            #[allow(unsafe_code)]
            let dispatcher = unsafe {
                let (graphs, options) = (LinkedGraphs::default(), DispatcherOptions::new(kind));
                LinkedDispatcher::new(context, kernel, linked, &[function], graphs, options, &stream)
            }
            .expect("it fits");
            for _ in 0..4 {
                // SAFETY: the last one has ended: its stream was waited for.
                #[allow(unsafe_code)]
                let hold = unsafe { dispatcher.launch(&stream) }.expect("launched");
                for len in [0, 8, 512] {
                    flood(ring.shared(), &slots(&ring), &[name], len, 200);
                }
                dispatcher.drain();
                stream.wait(rig::TIMEOUT).expect("the whole grid ends");
                assert!(dispatcher.has_ended());
                // Each launch counts anew.
                assert_eq!(dispatcher.count(Counter::Completed), 600, "{kind:?}");
                drop(hold);
            }
        }
    });
}
