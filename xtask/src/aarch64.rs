//! The libraries for C programs as AArch64 Linux sees them: checked, not run.

use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// What a program on such a machine links, with all that it is made of. Of the other crates `ringcall-cli` alone asks for an architecture, in its sandbox.
const PACKAGES: [&str; 3] = ["ringcall-c", "ringcall-bridge-roce", "ringcall-bridge-udp"];
/// Debian's compiler with the sources of its standard library (`rustc-web`, `rust-web-src`), as devices' code is compiled by.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";
const SYSTEM_SOURCES: &str = "/usr/lib/rustlib/src/rust/library/std";

/// With the installed target, or else with a standard library that is checked along.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let mut check = shell.cargo(&["check", "--target", TARGET]);
    if !is_installed(shell) {
        if !Path::new(SYSTEM_RUSTC).is_file() || !Path::new(SYSTEM_SOURCES).is_dir() {
            return Ok(Outcome::Skipped(
                "neither the target aarch64-unknown-linux-gnu nor the packages rustc-web and rust-web-src",
            ));
        }
        check.arg("-Zbuild-std").env("RUSTC", SYSTEM_RUSTC).env("RUSTC_BOOTSTRAP", "1");
        // Apart: another compiler's build scripts.
        check.env("CARGO_TARGET_DIR", shell.target("aarch64"));
    }
    for package in PACKAGES {
        check.args(["-p", package]);
    }
    run(check.env("RUSTFLAGS", "-Dwarnings"))?;
    Ok(Outcome::Done)
}

fn is_installed(shell: &Shell) -> bool {
    let mut rustc: Command = shell.command("rustc", &["--print", "target-libdir", "--target", TARGET]);
    let folder = rustc.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    folder.is_some_and(|folder| Path::new(folder.trim()).is_dir())
}
