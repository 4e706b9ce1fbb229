//! Programs and libraries other than drivers: ONNX Runtime, and the compilers of device code.

use super::finding::{Finding, State};
use super::machine::Machine;
use ringcall_infer::onnxruntime::LIBRARY_VARIABLE;
use serde_json::json;

pub(super) fn onnxruntime(machine: &Machine) -> Finding {
    let purpose = "networks of any kind on the CPU, and on a GPU without TensorRT: --engine onnxruntime";
    let mut folders = machine.library_folders();
    for packages in machine.python_folders() {
        folders.extend(machine.glob(&format!("{}/onnxruntime/capi", glob::Pattern::escape(&packages))));
    }
    let told = machine.variable(LIBRARY_VARIABLE);
    let mut paths: Vec<String> =
        told.into_iter().filter(|path| machine.exists(path)).map(str::to_owned).collect();
    paths.extend(machine.find(&folders, "libonnxruntime.so*"));
    let named = |found: &str| Finding::ok("onnxruntime", "ONNX Runtime", found, purpose);
    let finding = match paths.first() {
        None => named("none").but(
            State::Missing,
            format!("pip install onnxruntime, and set {LIBRARY_VARIABLE} to its capi/libonnxruntime.so.*"),
        ),
        Some(path) => named(path).limited_if(
            told.is_none() && !path.ends_with("libonnxruntime.so"),
            format!("export {LIBRARY_VARIABLE}={path}"),
        ),
    };
    finding.with(json!({ "paths": paths }))
}

pub(super) fn device_toolchain(machine: &Machine) -> Finding {
    let purpose = "handlers of your own for the GPU, in Rust: the kernels that are built in need none";
    let rustup = machine.variable("RUSTUP_HOME").map(str::to_owned);
    let rustup = rustup.or_else(|| machine.variable("HOME").map(|home| format!("{home}/.rustup")));
    let mut sources: Vec<String> = rustup
        .iter()
        .flat_map(|home| machine.glob(&format!("{}/toolchains/nightly*", glob::Pattern::escape(home))))
        .filter(|toolchain| machine.exists(&format!("{toolchain}/lib/rustlib/src/rust/library")))
        .collect();
    sources.extend(
        ["/usr/lib/rustlib/src/rust/library", "/usr/src/rustc-*/library"]
            .iter()
            .flat_map(|pattern| machine.glob(pattern)),
    );
    let linkers: Vec<String> = machine.programs(&["llvm-bitcode-linker", "rust-lld", "ptxas", "nvcc"]);
    let finding = match sources.first() {
        None => Finding::ok("device_toolchain", "device toolchain", "none", purpose).but(
            State::Missing,
            "rustup toolchain install nightly --component rust-src --component llvm-bitcode-linker",
        ),
        Some(path) => Finding::ok("device_toolchain", "device toolchain", path, purpose),
    };
    finding.with(json!({ "sources": sources, "programs": linkers }))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn a_wheels_library_must_be_named_to_be_loaded() {
        let wheel = "/opt/venv/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.20.0";
        let (_root, machine) = made_up(&[(wheel, "")], &[("PATH", "/opt/venv/bin")]);
        let finding = onnxruntime(&machine);
        assert_eq!((finding.state, &*finding.found), (State::Limited, wheel));
        let variables = [("PATH", "/opt/venv/bin"), (LIBRARY_VARIABLE, wheel)];
        let (_root, machine) = made_up(&[(wheel, "")], &variables);
        assert_eq!(onnxruntime(&machine).state, State::Ok);
        assert_eq!(onnxruntime(&made_up(&[], &[]).1).state, State::Missing);
    }

    #[test]
    fn a_nightly_with_its_sources_compiles_for_a_device() {
        let sources = "/home/u/.rustup/toolchains/nightly-x86_64/lib/rustlib/src/rust/library/";
        let (_root, machine) = made_up(&[(sources, "")], &[("HOME", "/home/u")]);
        assert_eq!(device_toolchain(&machine).state, State::Ok);
        let (_root, machine) =
            made_up(&[("/home/u/.rustup/toolchains/nightly-x86_64/", "")], &[("HOME", "/home/u")]);
        assert_eq!(device_toolchain(&machine).state, State::Missing);
    }
}
