//! Software RoCE against a real verbs stack: Linux's rdma_rxe in a small virtual machine (`tests/rdma`).

use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// How long the cases may take inside the machine, in seconds; some 60 on two cores.
const SECONDS: &str = "400";

/// Makes the machine if there is none, of Debian's packages.
///
/// # Errors
/// No such packages.
pub(crate) fn make(shell: &Shell) -> Result<()> {
    let script = shell.root().join("tests/rdma/build.sh");
    run(shell.command("bash", &[]).args([script, shell.target("rdma")]))
}

/// The folder of libibverbs' headers, once the machine is made.
pub(crate) fn headers(shell: &Shell) -> Option<PathBuf> {
    Some(shell.target("rdma").join("headers/usr/include")).filter(|folder| folder.is_dir())
}

/// Makes the machine if there is none, and runs the cases in it with the `ringcall` that the tests were built with.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let sources = shell.root().join("tests/rdma");
    let machine = shell.target("rdma");
    let start = sources.join("run.sh").display().to_string();
    let folder = machine.display().to_string();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Outcome::Skipped("the machine is one of x86_64 Linux"));
    }
    if !machine.starts_with(shell.root()) {
        return Ok(Outcome::Skipped(
            "CARGO_TARGET_DIR is outside of the repository, and the machine sees one folder",
        ));
    }
    if make(shell).is_err() {
        return Ok(Outcome::Skipped("no Debian packages of a kernel, QEMU and RDMA tools"));
    }
    // Of the whole workspace, so that nothing is built again with fewer features.
    run(&mut shell.cargo(&[
        "test",
        "--workspace",
        "--no-run",
        "--test",
        "two_processes",
        "--test",
        "c_programs",
    ]))?;
    run(&mut shell.cargo(&["build", "--workspace", "--example", "verbs_suite"]))?;
    let built = shell.target("debug");
    let libraries = built.join("deps");
    transceivers(shell, &machine, &libraries)?;
    let command = format!(
        "bash {} {} {} {} {}",
        sources.join("cases.sh").display(),
        built.join("ringcall").display(),
        built.join("examples/verbs_suite").display(),
        machine.display(),
        libraries.display()
    );
    // The machine sees one folder: the one that has both the sources and what was built.
    let share = shell.root().display().to_string();
    run(&mut shell.command("bash", &[&start, &folder, &share, SECONDS, &command]))?;
    Ok(Outcome::Done)
}

/// The C program over `cpu_roce_*`, linked with the library that the tests were built with.
fn transceivers(shell: &Shell, machine: &Path, libraries: &Path) -> Result<()> {
    let mut compile =
        shell.command("cc", &["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    for include in ["host/c/include", "host/bridge/include"] {
        compile.arg(format!("-I{}", shell.root().join(include).display()));
    }
    compile.arg(shell.root().join("tests/c_programs/roce.c")).arg("-o").arg(machine.join("roce"));
    compile.arg(format!("-L{}", libraries.display())).args(["-lringcall_c", "-ldl", "-lm"]);
    run(compile.arg(format!("-Wl,-rpath,{}", libraries.display())))
}
