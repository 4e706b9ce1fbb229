//! GPU bundle: the tests of the device, the command line, and a script that runs them, for a machine that has a GPU
//! and no toolchain.

use crate::dist;
use crate::dist_names::SONAME;
use crate::files::{copy, emptied, entries, text, write};
use crate::ptx::Cuda;
use crate::shell::{PACKAGED, Shell, read, run};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Tests that need a device, by package.
const TESTS: &[(&str, &[&str])] = &[
    ("ringcall-cuda", &["driver_gpu"]),
    ("ringcall-launch", &["ring_gpu", "litmus_gpu", "queue_pair_gpu"]),
    ("ringcall-gpu-decoders", &["engine_gpu", "grid_gpu", "networks_gpu", "relay_gpu"]),
    ("ringcall-decoder-service", &["pipeline_gpu", "decisions_gpu", "shapes_gpu", "handoff_gpu"]),
    // They find TensorRT where the machine has it; the libraries are not ours to carry.
    ("ringcall-tensorrt", &["tensorrt_gpu", "lean"]),
    ("ringcall-inference-service", &["service_gpu"]),
];
/// Programs in C and CUDA C++ that need a device, and what they read: made of the examples.
const C_PROGRAMS: [&str; 7] =
    ["device_call", "graph_launch", "hsb_device", "hsb_three", "load_module", "pipeline_graph", "udp_device"];
/// The provider that `udp_device` loads.
const PROVIDER: &str = "libcudaq-realtime-bridge-udp.so";
const C_MODULES: [&str; 3] = ["handlers.ptx", "handlers.cubin", "handlers.fatbin"];
/// What the benchmark in CUDA C++ is compiled for: that architecture, and every device that takes its PTX.
const GRAPH_ARCH: &str = "-arch=sm_90";
/// For the network's, whose instructions only this one has.
const NETWORK_ARCH: &str = "-gencode=arch=compute_90a,code=sm_90a";
/// The predecoder that measurements run.
const MODEL: &str = "training/models/predecoder_3x128_int8.onnx";
/// The networks that tests compare on the CPU and the device; the script tells them the folder.
const MODELS: [&str; 3] = ["predecoder_3x64.onnx", "predecoder_3x128.onnx", "predecoder_3x128_int8.onnx"];
/// So that a bundle can be carried anywhere.
const MOST_BYTES: u64 = 60 << 20;
/// The programs and what they read, which the script unpacks beside itself.
const PACKED: &str = "programs.tar.xz";
/// The script: it knows only the files beside it, and the packed programs.
const SCRIPT: &str = include_str!("../../tests/gpu.sh");

/// What to put in.
#[derive(clap::Args)]
pub(crate) struct BundleOptions {
    /// Leave out the command line, whose build takes longest; the script then makes no measurements.
    #[arg(long)]
    no_cli: bool,
    /// Leave out the C library and its programs, which need NVIDIA's compiler (taken from PyPI if there is none).
    #[arg(long)]
    no_c: bool,
}

/// Builds the bundle in `target/gpu-bundle`.
pub(crate) fn make(shell: &Shell, options: &BundleOptions) -> Result<()> {
    let bundle = emptied(shell.target("gpu-bundle"))?;
    let folder = emptied(shell.target("gpu-bundle-programs"))?;
    // Figures and results name the commit that they are of, as far as there is one.
    let commit = read(&mut shell.command("git", &["describe", "--always", "--dirty"])).unwrap_or_default();
    write(&folder.join("commit"), commit.trim())?;

    for (package, tests) in TESTS {
        let mut args = vec!["test", "--release", "--no-run", "--message-format=json", "-p", package];
        args.extend(tests.iter().flat_map(|test| ["--test", test]));
        let messages = read(&mut shell.cargo(&args))?;
        for test in *tests {
            take(shell, &executable(&messages, "test", test)?, &folder.join(test))?;
        }
    }
    let models = emptied(folder.join("models"))?;
    for model in MODELS {
        copy(&shell.root().join("training/models").join(model), &models.join(model))?;
    }
    if !options.no_cli {
        // The network's answers are held to those of the CPU's engine.
        let mut build = shell.cargo(&["build", "--profile", PACKAGED, "--message-format=json"]);
        build.args(["-p", "ringcall-cli", "--features", "onnx"]).env("RINGCALL_COMMIT", commit.trim());
        let messages = read(&mut build)?;
        take(shell, &executable(&messages, "bin", "ringcall")?, &folder.join("ringcall"))?;
        copy(&shell.root().join(MODEL), &folder.join("predecoder.onnx"))?;
    }
    if !options.no_c {
        c_programs(shell, &folder)?;
    }
    let script = bundle.join("run");
    write(&script, SCRIPT)?;
    make_executable(&script)?;
    // A light compression: it halves the time that the best one takes, for a third more.
    let packed = text(&bundle.join(PACKED));
    let mut tar = shell.command("tar", &["-cJf", &packed, "-C", &text(&folder), "."]);
    run(tar.env("XZ_OPT", "-9 -T0"))?;

    let mut bytes = 0;
    for file in entries(&bundle)? {
        bytes += file.metadata()?.len();
    }
    println!("{}: {:.1} MiB", bundle.display(), bytes as f64 / f64::from(1 << 20));
    ensure!(bytes < MOST_BYTES, "the bundle is larger than {} MiB: leave something out", MOST_BYTES >> 20);
    Ok(())
}

/// The C library with programs against it, and the program that compares the network's kernel with plain
/// convolutions.
fn c_programs(shell: &Shell, folder: &Path) -> Result<()> {
    let (tree, work) = (shell.target("gpu-bundle-tree"), shell.target("gpu-bundle-examples"));
    dist::tree(shell, &tree, true, dist::Profile::Release)?;
    dist::make_examples(shell, &tree, &work, true, &[&C_PROGRAMS[..], &C_MODULES].concat())?;
    for program in C_PROGRAMS {
        take(shell, &work.join(program), &folder.join(program))?;
    }
    for module in C_MODULES {
        copy(&work.join(module), &folder.join(module))?;
    }
    for library in [SONAME, PROVIDER] {
        copy(&tree.join("lib").join(library), &folder.join(library))?;
    }
    let benches = shell.root().join("host/c/benches");
    let [include, lib] =
        [("-I", "include"), ("-L", "lib")].map(|(flag, part)| format!("{flag}{}", tree.join(part).display()));
    let mut compile = shell.command("cc", &["-std=c11", "-O2", "-o", &text(&folder.join("host_call"))]);
    compile.arg(benches.join("host_call.c")).args([&include, &lib, "-lringcall"]);
    run(&mut compile)?;
    let cuda = Cuda::find(shell)?;
    let runtime = cuda.device_runtime.parent().context("a library is in a folder")?;
    let mut compile = cuda.tool(shell, "nvcc");
    compile.args(["-std=c++17", "-O2", GRAPH_ARCH, "-o"]).arg(folder.join("host_graph"));
    compile.arg(benches.join("host_graph.cu")).args([&include, &lib, "-lringcall"]);
    run(compile.arg(format!("-L{}", runtime.display())))?;
    for (name, source, bytes) in [
        ("device_call_32", "device_call.cu", 32),
        ("device_call_512", "device_call.cu", 512),
        ("dispatch_graph", "dispatch_graph.cu", 32),
    ] {
        let mut compile = cuda.tool(shell, "nvcc");
        compile.args(["-std=c++17", "-O2", GRAPH_ARCH, "-rdc=true", "-o"]).arg(folder.join(name));
        compile.arg(format!("-DBENCH_PAYLOAD={bytes}")).arg(benches.join(source));
        // The archive before the library: its launch helpers are the ones to take.
        compile.args([&include, &lib, "-lringcall_device", "-lringcall"]);
        run(compile.arg(format!("-L{}", runtime.display())))?;
    }
    let mut compile = cuda.tool(shell, "nvcc");
    compile.args(["-std=c++17", "-O3", NETWORK_ARCH, "-o"]).arg(folder.join("network_bench"));
    compile.arg(shell.root().join("kernels-cu/predecoder/bench.cu"));
    run(compile.arg(format!("-L{}", runtime.display())))
}

/// The program that cargo says it built for a target.
fn executable(messages: &str, kind: &str, name: &str) -> Result<PathBuf> {
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        let target = &message["target"];
        let kinds = target["kind"].as_array().into_iter().flatten();
        if message["reason"] == "compiler-artifact"
            && target["name"] == name
            && kinds.filter_map(Value::as_str).any(|other| other == kind)
            && let Some(path) = message["executable"].as_str()
        {
            return Ok(path.into());
        }
    }
    bail!("cargo built no {kind} `{name}`")
}

/// Copies a program without its symbols.
fn take(shell: &Shell, from: &Path, to: &Path) -> Result<()> {
    run(shell.command("strip", &["-o"]).args([to, from]))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_target_is_found() {
        let messages = [
            r#"{"reason":"compiler-artifact","target":{"name":"x","kind":["lib"]},"executable":null}"#,
            r#"{"reason":"compiler-artifact","target":{"name":"x","kind":["test"]},"executable":"/a/x-1"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]
        .join("\n");
        assert_eq!(executable(&messages, "test", "x").expect("there"), Path::new("/a/x-1"));
        assert!(executable(&messages, "bin", "x").is_err() && executable(&messages, "test", "y").is_err());
        assert!(executable("words", "test", "x").is_err());
    }
}
