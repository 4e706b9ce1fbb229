//! Code that includes a DOCA SDK's headers: sends in CUDA C++, and the offsets of a queue pair. Without an SDK, against a stand-in of
//! ours (`kernels-cu/doca/stand-in`); `RINGCALL_DOCA_INCLUDE` names a real one's folder.

use crate::files::folder;
use crate::ptx::Cuda;
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// The variable that names a real SDK's folder, which the build script of `ringcall-rdma` reads, too.
const INCLUDE: &str = "RINGCALL_DOCA_INCLUDE";
/// What the test says once it has seen offsets of the headers.
const SEEN: &str = "ran: the installed SDK's queue pair";

/// Compiles both.
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
    let mut test = shell.cargo(&["test", "-p", "ringcall-rdma", "--features", "doca", "--lib", "doca::"]);
    let output = test.args(["--", "--nocapture"]).env(INCLUDE, &include).output().context("cargo")?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    ensure!(output.status.success(), "{}\n{printed}", output.status);
    match (printed.contains(SEEN), compiled) {
        (true, true) => Ok(Outcome::Done),
        (true, false) => Ok(Outcome::Skipped("no nvcc: the layouts alone were compared")),
        (false, _) => Ok(Outcome::Skipped("no libclang for bindgen")),
    }
}
