//! Microsoft's deq with our decoder plug-in: the package from PyPI, its server, the same shots by its own matching.

use crate::files::write;
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::Result;
use std::path::PathBuf;

/// The package, in the versions that the test was written against.
const DEQ: &str = "deq==0.5.*";

/// Installs deq in a virtual environment, once; gives its Python.
///
/// # Errors
/// No virtual environments; no such package.
pub(crate) fn install(shell: &Shell) -> Result<PathBuf> {
    let environment = shell.target("deq-venv");
    let python = environment.join("bin/python");
    let done = environment.join("installed.txt");
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == DEQ) {
        return Ok(python);
    }
    if !python.exists() {
        run(shell.command("python3", &["-m", "venv"]).arg(&environment))?;
    }
    let words = ["-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", DEQ];
    run(&mut shell.command(&python.to_string_lossy(), &words))?;
    write(&done, DEQ)?;
    Ok(python)
}

/// Builds the plug-in, installs deq into `target/deq-venv` and runs `bindings/deq/tests/deq_server.py`: about a minute.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    // Of the whole workspace, so that nothing is built again with fewer features.
    run(&mut shell.cargo(&["test", "--workspace", "--no-run", "--test", "library"]))?;
    let Ok(python) = install(shell) else {
        return Ok(Outcome::Skipped(
            "no virtual environment (install python3-venv), or no package deq from PyPI",
        ));
    };
    let library = shell.target("debug/deps").join("libringcall_deq.so");
    run(shell
        .command(&python.to_string_lossy(), &["bindings/deq/tests/deq_server.py"])
        .arg(library)
        .env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(Outcome::Done)
}
