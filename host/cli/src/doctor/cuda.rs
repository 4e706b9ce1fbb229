//! CUDA's device runtime library, without which device code cannot launch graphs.

use super::finding::{Finding, State};
use super::machine::Machine;
use serde_json::json;

pub(super) fn libcudadevrt(machine: &Machine) -> Finding {
    let mut folders = Vec::new();
    for home in ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(|name| machine.variable(name)) {
        folders.extend(in_toolkit(machine, &glob::Pattern::escape(home)));
    }
    for home in ["/usr/local/cuda*", "/opt/cuda*", "/opt/nvidia/hpc_sdk/Linux_*/*/cuda"] {
        folders.extend(in_toolkit(machine, home));
    }
    if let Some(prefix) = machine.variable("CONDA_PREFIX") {
        folders.extend(in_toolkit(machine, &glob::Pattern::escape(prefix)));
    }
    for packages in machine.python_folders() {
        // `cu13` for CUDA 13, `cuda_runtime` for earlier versions.
        folders.extend(machine.glob(&format!("{}/nvidia/cu*/lib", glob::Pattern::escape(&packages))));
    }
    folders.extend(machine.library_folders());
    let paths = machine.find(&folders, "libcudadevrt.a");
    let found = paths.first().map_or("none", String::as_str);
    let finding = Finding::ok(
        "libcudadevrt",
        "libcudadevrt.a",
        found,
        "the dispatcher on the GPU launches graphs without the host: this is linked to it",
    );
    let finding = if paths.is_empty() {
        finding.but(
            State::Missing,
            "with a GPU: pip install nvidia-cuda-runtime, or a CUDA toolkit; set CUDA_HOME if it lies \
             elsewhere",
        )
    } else {
        finding
    };
    finding.with(json!({ "paths": paths }))
}

/// The folders of a toolkit's libraries; `home` is a pattern.
fn in_toolkit(machine: &Machine, home: &str) -> Vec<String> {
    let home = home.trim_end_matches('/');
    ["lib64", "lib", "targets/*/lib"]
        .iter()
        .flat_map(|folder| machine.glob(&format!("{home}/{folder}")))
        .collect()
}
