//! Microsoft's deq with our decoder plug-in: the package from PyPI, its server, the same shots by its own matching.

use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;

/// The package, in the versions that the test was written against.
const DEQ: &str = "deq==0.5.*";

/// Builds the plug-in, installs deq into `target/deq-venv` and runs `bindings/deq/tests/deq_server.py`: about a minute.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    run(&mut shell.cargo(&["build", "--package", "ringcall-deq"]))?;
    let environment = shell.target("deq-venv");
    let python = environment.join("bin/python");
    if !python.exists() && run(shell.command("python3", &["-m", "venv"]).arg(&environment)).is_err() {
        return Ok(Outcome::Skipped("no virtual environment: install python3-venv"));
    }
    let python = python.to_string_lossy();
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", DEQ];
    if run(&mut shell.command(&python, &install)).is_err() {
        return Ok(Outcome::Skipped("no package deq from PyPI"));
    }
    let library = shell.target("debug").join("libringcall_deq.so");
    run(shell
        .command(&python, &["bindings/deq/tests/deq_server.py"])
        .arg(library)
        .env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(Outcome::Done)
}
