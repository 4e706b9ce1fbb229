//! TensorRT's runtimes: the full one, the one for RTX cards, and the two that only run finished engines.

use super::finding::{Finding, State};
use super::machine::Machine;
use ringcall_tensorrt::{INCLUDE_VARIABLE, LIBRARY_VARIABLE};
use serde_json::json;

pub(super) fn tensorrt(machine: &Machine) -> Finding {
    let mut folders = Vec::new();
    let mut headers = vec!["/usr/include".to_owned(), "/usr/local/include".to_owned()];
    headers.extend(machine.glob("/usr/include/*-linux-gnu"));
    for pattern in ["/usr/local/TensorRT*", "/opt/TensorRT*", "/opt/tensorrt*", "/usr/local/cuda*"] {
        for home in machine.glob(pattern) {
            add_home(machine, &home, &mut folders, &mut headers);
        }
    }
    for name in ["TENSORRT_HOME", "TENSORRT_ROOT", "TENSORRT_DIR", "TENSORRT_RTX_HOME"] {
        if let Some(home) = machine.variable(name) {
            add_home(machine, home.trim_end_matches('/'), &mut folders, &mut headers);
        }
    }
    // The variable that also tells the engine.
    if let Some(library) = machine.variable(LIBRARY_VARIABLE) {
        let parent =
            std::path::Path::new(library).parent().map(|folder| folder.to_string_lossy().into_owned());
        folders.extend([Some(library.trim_end_matches('/').to_owned()), parent].into_iter().flatten());
    }
    if let Some(include) = machine.variable(INCLUDE_VARIABLE) {
        headers.insert(0, include.trim_end_matches('/').to_owned());
    }
    for packages in machine.python_folders() {
        // `tensorrt_libs`, `tensorrt_lean_libs`, `tensorrt_rtx_libs` …
        folders.extend(machine.glob(&format!("{}/tensorrt*", glob::Pattern::escape(&packages))));
    }
    folders.extend(machine.library_folders());

    let full = machine.find(&folders, "libnvinfer.so*");
    let rtx = machine.find(&folders, "libtensorrt_rtx.so*");
    let lean = machine.find(&folders, "libnvinfer_lean.so*");
    let dispatch = machine.find(&folders, "libnvinfer_dispatch.so*");
    let headers = machine.find(&headers, "NvInfer.h");

    let kinds = [("full", &full), ("for RTX", &rtx), ("lean", &lean), ("dispatch", &dispatch)];
    let mut found: Vec<String> =
        kinds.iter().filter_map(|(kind, paths)| Some(format!("{kind}: {}", paths.first()?))).collect();
    let builds = !full.is_empty() || !rtx.is_empty();
    let finding = if found.is_empty() {
        Finding::ok("tensorrt", "TensorRT", "none", PURPOSE).but(
            State::Missing,
            format!("with a GPU: install TensorRT from NVIDIA's packages, and set {LIBRARY_VARIABLE} if it lies elsewhere"),
        )
    } else {
        found.push(if headers.is_empty() { "no headers" } else { "headers" }.to_owned());
        Finding::ok("tensorrt", "TensorRT", found.join(", "), PURPOSE)
            .limited_if(
                headers.is_empty(),
                format!("its headers are compiled against once: install them, or set {INCLUDE_VARIABLE} to their folder"),
            )
            .limited_if(
                !builds,
                "this runtime runs engines made elsewhere (version-compatible ones); install the full one to make them here",
            )
    };
    finding.with(json!({ "full": full, "rtx": rtx, "lean": lean, "dispatch": dispatch, "headers": headers }))
}

const PURPOSE: &str = "the fastest inference of a trained predecoder on an NVIDIA GPU";

fn add_home(machine: &Machine, home: &str, folders: &mut Vec<String>, headers: &mut Vec<String>) {
    let pattern = glob::Pattern::escape(home);
    folders.extend(
        ["lib", "lib64", "targets/*/lib"]
            .iter()
            .flat_map(|folder| machine.glob(&format!("{pattern}/{folder}"))),
    );
    headers.push(format!("{home}/include"));
}
