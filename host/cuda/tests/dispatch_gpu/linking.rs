//! Handlers in several modules and languages, linked into one dispatcher.

use crate::rig::{self, call, calls, flood, on_device, slot, slots, stop_clean};
use ringcall_cuda::dispatcher::{DeviceDispatcher, KernelKind, Modules, Options};
use ringcall_cuda::driver::Context;
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
    let running = DeviceDispatcher::wire(&ring, functions, modules, Options::new(kernel))
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
        let options = Options::new(KernelKind::regular());
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
