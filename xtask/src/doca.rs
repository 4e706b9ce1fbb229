//! Code that includes a DOCA SDK's headers: sends in CUDA C++, and the offsets of a queue pair. Without an SDK, against a stand-in of
//! ours (`kernels-cu/doca/stand-in`); `RINGCALL_DOCA_INCLUDE` names a real one's folder. With it, as it takes bindgen too: the committed
//! bindings of libibverbs are compared with the headers that the step `rdma` has downloaded.

use crate::files::folder;
use crate::ptx::Cuda;
use crate::rdma;
use crate::shell::{Shell, read, run};
use crate::steps::Outcome;
use crate::tensorrt;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// The variable that names a real SDK's folder, which the build script of `ringcall-rdma` reads, too.
const INCLUDE: &str = "RINGCALL_DOCA_INCLUDE";
/// The variable that names the folder of libibverbs' headers.
const VERBS_INCLUDE: &str = "RINGCALL_VERBS_INCLUDE";
/// The variable that names the folder of bindgen's libclang.
const LIBCLANG: &str = "LIBCLANG_PATH";
/// What the test says once it has seen offsets of the headers.
const SEEN: &str = "ran: the installed SDK's queue pair";

/// Compiles both, and compares the bindings.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let sources = shell.root().join("kernels-cu/doca");
    let include = std::env::var_os(INCLUDE).map_or_else(|| sources.join("stand-in"), PathBuf::from);
    println!("headers of {}", include.display());
    let mut compiled = true;
    match Cuda::find(shell) {
        Ok(cuda) => {
            let out = folder(shell.target("device").join("doca"))?;
            let mut nvcc = cuda.tool(shell, "nvcc");
            nvcc.args([
                "-std=c++17",
                "-rdc=true",
                "-ptx",
                "-arch=compute_90",
                "-Werror",
                "all-warnings",
                "-I",
            ]);
            run(nvcc.args([&include, &sources.join("send.cu")]).arg("-o").arg(out.join("send.ptx")))?;
        }
        Err(error) => {
            println!("without the sends in CUDA C++: {error:#}");
            compiled = false;
        }
    }
    // Before anything is built: bindgen takes longer to build than all the rest, and gives nothing without it.
    let Some(libclang) = std::env::var_os(LIBCLANG).map(PathBuf::from).or_else(|| tensorrt::libclang(shell))
    else {
        return Ok(Outcome::Skipped(
            "no libclang for bindgen (LIBCLANG_PATH): the layouts were not compared",
        ));
    };
    // Of the whole workspace, so that what the crate needs is not built again, nor the bindgen of the step `tensorrt`.
    let mut test =
        shell.cargo(&["test", "--workspace", "--features", "ringcall-rdma/doca,ringcall-rdma/bindings"]);
    test.args(["--test", "doca_headers", "--test", "verbs_bindings", "--", "--nocapture"]);
    if let Some(headers) = rdma::headers(shell) {
        // A libclang alone lacks the headers of a compiler, which `infiniband/verbs.h` includes.
        let compiler = read(&mut shell.command("cc", &["-print-file-name=include"]))?;
        test.env(VERBS_INCLUDE, headers)
            .env("BINDGEN_EXTRA_CLANG_ARGS", format!("-isystem {}", compiler.trim()));
    }
    let output = test.env(INCLUDE, &include).env(LIBCLANG, libclang).output().context("cargo")?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    ensure!(output.status.success(), "{}\n{printed}", output.status);
    match (printed.contains(SEEN), compiled) {
        (true, true) => Ok(Outcome::Done),
        (true, false) => Ok(Outcome::Skipped("no nvcc: the layouts alone were compared")),
        (false, _) => Ok(Outcome::Skipped("bindgen found no libclang")),
    }
}
