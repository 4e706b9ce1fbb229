//! The Python wheel: its lints, and its tests in a virtual environment.

use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;

/// Builds the wheel into `target/wheel-venv`, with what its tests need from PyPI, and runs them: about four minutes.
pub(crate) fn test(shell: &Shell) -> Result<Outcome> {
    let built = shell.target("wheel");
    let manifest = ["--manifest-path", "bindings/python/Cargo.toml"];
    run(shell.cargo(&["fmt", "--check"]).args(manifest))?;
    let lints = ["--", "-D", "warnings"];
    run(shell
        .cargo(&["clippy", "--all-targets"])
        .args(manifest)
        .args(lints)
        .env("CARGO_TARGET_DIR", &built))?;
    let environment = shell.target("wheel-venv");
    let python = environment.join("bin/python");
    if !python.exists() && run(shell.command("python3", &["-m", "venv"]).arg(&environment)).is_err() {
        return Ok(Outcome::Skipped("no virtual environment: install python3-venv"));
    }
    let python = python.to_string_lossy();
    run(shell
        .command(&python, &["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .arg("./bindings/python[test]")
        .env("CARGO_TARGET_DIR", &built))?;
    run(&mut shell
        .command(&python, &["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests"]))?;
    Ok(Outcome::Done)
}
