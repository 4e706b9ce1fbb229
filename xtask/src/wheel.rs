//! The Python wheel: its lints, and its tests in a virtual environment that it is installed into.

use crate::files::{emptied, entries, has_ending, read, write};
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// The package's folder.
const PACKAGE: &str = "bindings/python";

/// What is tested.
#[derive(Args)]
pub(crate) struct WheelOptions {
    /// How the wheel is built.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
}

/// How the wheel is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// As it is published.
    Release,
    /// In a third of the time, for tests: the profile `quick` of `bindings/python/Cargo.toml`. The package is linted as it is compiled.
    Quick,
}

impl Profile {
    /// What maturin is told: a published wheel's name says which C library it needs, which maturin finds out.
    const fn arguments(self) -> &'static str {
        match self {
            Self::Release => "--locked --profile release --compatibility pypi",
            Self::Quick => "--locked --profile quick",
        }
    }
}

/// The wheel of a quick build, its lints and tests: a step of CI.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    test(shell, &WheelOptions { profile: Profile::Quick })
}

/// Builds the wheel into the folder `out`, of which it is the only wheel; its path. Needs maturin from PyPI.
///
/// # Errors
/// A build that fails; no pip, or no maturin.
pub(crate) fn build(shell: &Shell, profile: Profile, out: &Path) -> Result<PathBuf> {
    let words = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir"];
    let mut pip = shell.command("python3", &words);
    pip.arg(out).arg(format!("./{PACKAGE}"));
    pip.env("CARGO_TARGET_DIR", shell.target("wheel")).env("MATURIN_PEP517_ARGS", profile.arguments());
    if matches!(profile, Profile::Quick) {
        // As `cargo clippy` has cargo run it. It compiles what it lints: one build does for both.
        pip.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
        pip.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
    run(&mut pip)?;
    let wheels: Vec<PathBuf> = entries(out)?.into_iter().filter(|path| has_ending(path, "whl")).collect();
    let [wheel] = &wheels[..] else { bail!("{} wheels in {}", wheels.len(), out.display()) };
    Ok(wheel.clone())
}

/// A virtual environment in `target/wheel-venv` with what the tests need from PyPI, installed once for each list of that; its Python.
///
/// # Errors
/// No virtual environments; a package that is not to be had.
pub(crate) fn install(shell: &Shell) -> Result<PathBuf> {
    let environment = shell.target("wheel-venv");
    let (python, done) = (environment.join("bin/python"), environment.join("installed.txt"));
    let needs = test_needs(&read(&shell.root().join(PACKAGE).join("pyproject.toml"))?)?;
    if std::fs::read_to_string(&done).is_ok_and(|installed| installed == needs.join("\n")) {
        return Ok(python);
    }
    if !python.exists() {
        run(shell.command("python3", &["-m", "venv"]).arg(&environment))?;
    }
    let words = ["-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"];
    run(shell.command(&python.to_string_lossy(), &words).args(&needs))?;
    write(&done, &needs.join("\n"))?;
    Ok(python)
}

/// What a `pyproject.toml` says that the package and its tests need.
fn test_needs(text: &str) -> Result<Vec<String>> {
    let project: toml::Table = toml::from_str(text).context("pyproject.toml")?;
    let project = project.get("project");
    let lists = [
        project.and_then(|project| project.get("dependencies")),
        project.and_then(|project| project.get("optional-dependencies")?.get("test")),
    ];
    let mut needs = Vec::new();
    for list in lists {
        let list = list.and_then(toml::Value::as_array).context("pyproject.toml lacks a list of packages")?;
        needs.extend(list.iter().filter_map(toml::Value::as_str).map(str::to_owned));
    }
    Ok(needs)
}

/// Lints the package, builds the wheel, installs it into `target/wheel-venv` and runs its tests there.
pub(crate) fn test(shell: &Shell, options: &WheelOptions) -> Result<Outcome> {
    let manifest = ["--manifest-path", &format!("{PACKAGE}/Cargo.toml")];
    run(shell.cargo(&["fmt", "--check"]).args(manifest))?;
    let installed = install(shell);
    // The quick build lints. No other build does, nor one that cannot be made.
    if matches!(options.profile, Profile::Release) || installed.is_err() {
        let mut clippy = shell.cargo(&["clippy", "--locked", "--all-targets"]);
        clippy.args(manifest).args(["--", "-D", "warnings"]);
        run(clippy.env("CARGO_TARGET_DIR", shell.target("wheel")))?;
    }
    let Ok(python) = installed else {
        return Ok(Outcome::Skipped(
            "no virtual environment (install python3-venv), or no packages from PyPI",
        ));
    };
    let wheel = build(shell, options.profile, &emptied(shell.target("wheels"))?)?;
    println!("{} ({} KiB)", wheel.display(), std::fs::metadata(&wheel)?.len() >> 10);
    let python = python.to_string_lossy();
    let words =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    run(shell.command(&python, &words).arg(&wheel))?;
    // Away from the sources, so that what is tested is what is installed.
    let tests = shell.root().join(PACKAGE).join("tests");
    run(shell
        .command(&python, &["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(&tests)
        .current_dir(shell.target("wheels")))?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tests_need_is_read() {
        let text = "[project]\ndependencies = [\"numpy>=1.23\"]\n[project.optional-dependencies]\ntest = [\"pytest\"]";
        assert_eq!(test_needs(text).expect("both lists"), ["numpy>=1.23", "pytest"]);
        assert!(test_needs("[project]").is_err());
    }
}
