//! The tests of `training` that need no PyTorch, whose wheel is too large for every change: what the networks' files are and
//! mean.

use crate::shell::{Shell, run};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// The versions of everything that training takes.
const PINNED: &str = include_str!("../../training/requirements.txt");
/// What these tests take of it.
const PACKAGES: &[&str] = &["numpy", "onnx", "onnxruntime", "stim"];
const PYTEST: &str = "pytest==9.*";
const TESTS: &str = "training/test_forms.py";

/// Installs the packages, once; gives their folder.
///
/// # Errors
/// No such packages from PyPI.
pub(crate) fn install(shell: &Shell) -> Result<PathBuf> {
    let folder = shell.target("tools").join("training");
    let mut packages = pinned(PINNED)?;
    packages.push(PYTEST);
    shell.pip_once(&folder, &packages)?;
    Ok(folder)
}

/// Runs them, with packages from PyPI below the target folder. False where those cannot be had.
///
/// # Errors
/// A test fails.
pub(crate) fn test(shell: &Shell) -> Result<bool> {
    let Ok(folder) = install(shell) else { return Ok(false) };
    let mut tests = shell.command("python3", &["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]);
    run(tests.env("PYTHONPATH", &folder).env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(true)
}

/// The packages with their versions.
fn pinned(requirements: &str) -> Result<Vec<&str>> {
    let line = |name: &&str| {
        let found = requirements.lines().find(|line| line.split("==").next() == Some(*name));
        found.with_context(|| format!("training/requirements.txt has no version of {name}"))
    };
    PACKAGES.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_has_its_version() {
        let found = pinned(PINNED).expect("all of them");
        assert!(found.iter().all(|package| package.contains("==")), "{found:?}");
        assert!(pinned("numpy==1\nonnx==2\nonnxruntime-gpu==3\nstim==4\n").is_err());
    }
}
