//! Crates with code of an architecture as AArch64 Linux (Grace) sees them: linted, not linked and not run.

use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;
use std::path::Path;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Crates that ask for an architecture, and crates that speak to C, whose `char` has another sign there. `ringcall-cli` asks for one, too,
/// in its sandbox, and is left out: its dependencies take minutes.
const PACKAGES: [&str; 6] = [
    "ringcall-gpu",
    "ringcall-cuda",
    "ringcall-rdma",
    "ringcall-bridge",
    "ringcall-bridge-udp",
    "ringcall-bridge-roce",
];

/// Has rustup bring the target's standard library, where there is a rustup.
///
/// # Errors
/// There is none, or no network.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    if is_installed(shell) {
        return Ok(());
    }
    // Bounded: rustup waits long where packets are dropped.
    run(&mut shell.command("timeout", &["100", "rustup", "target", "add", TARGET]))
}

/// Lints them with the installed target.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    if !is_installed(shell) {
        return Ok(Outcome::Skipped(
            "the toolchain lacks the target (`rustup target add aarch64-unknown-linux-gnu`)",
        ));
    }
    let mut clippy = shell.cargo(&["clippy", "--locked", "--target", TARGET]);
    for package in PACKAGES {
        clippy.args(["-p", package]);
    }
    run(clippy.args(["--", "-D", "warnings"]))?;
    Ok(Outcome::Done)
}

fn is_installed(shell: &Shell) -> bool {
    let mut rustc = shell.command("rustc", &["--print", "target-libdir", "--target", TARGET]);
    rustc.output().is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
