//! TensorRT-RTX and the lean runtime from package registries, and the tests that run with them. Nothing of NVIDIA's is kept
//! in the repository: it lies below the target folder.

use crate::shell::{Shell, read, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Library and headers of one version: NVIDIA's wheel, its folder, and the folder in the crate that has the headers.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("RTX", "tensorrt-rtx-cu13-libs==1.7.1.116", "tensorrt_rtx_libs", "TRT-RTX-1.7"),
    ("LEAN", "tensorrt-lean-cu13-libs==11.4.0.106", "tensorrt_lean_libs", "TRT-Enterprise-11.4"),
];
/// Has Apache-2.0 copies of the headers. It is unpacked, and not built.
const HEADERS: (&str, &str) = ("trtx-sys", "=0.9.1");
/// For the bindings.
const LIBCLANG: &str = "libclang==18.1.1";

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write the bindings of the shim anew, after a change of `shim.h`.
    #[arg(long)]
    bindings: bool,
}

pub(crate) fn run_with(shell: &Shell, options: &Options) -> Result<()> {
    test(shell, options.bindings)
}

/// The step of `ci`.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    test(shell, false)?;
    Ok(Outcome::Done)
}

fn test(shell: &Shell, bless: bool) -> Result<()> {
    let tools = shell.target("tools").join("tensorrt");
    let headers = headers(shell, &tools)?;
    let mut wheels: Vec<&str> = KINDS.iter().map(|(_, wheel, ..)| *wheel).collect();
    wheels.push(LIBCLANG);
    let packages = installed(shell, &tools.join("python"), &wheels)?;

    let mut command = shell.cargo(&["test", "-p", "ringcall-tensorrt", "--features", "bindings"]);
    command.env("RINGCALL_TENSORRT_REQUIRED", "1").env("LIBCLANG_PATH", packages.join("clang/native"));
    for (kind, _, libraries, include) in KINDS {
        let include = headers.join(include);
        ensure!(include.is_dir(), "{} has no {}", HEADERS.0, include.display());
        command.env(format!("RINGCALL_TENSORRT_{kind}_LIB"), packages.join(libraries));
        command.env(format!("RINGCALL_TENSORRT_{kind}_INCLUDE"), include);
    }
    if bless {
        command.env("RINGCALL_BLESS", "1").args(["--test", "bindings"]);
    }
    run(&mut command)
}

/// A folder with Python packages, installed once for each list of them.
fn installed(shell: &Shell, folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let (list, done) = (packages.join("\n"), folder.join("installed.txt"));
    if fs::read_to_string(&done).is_ok_and(|text| text == list) {
        return Ok(folder.to_owned());
    }
    let target = folder.to_string_lossy();
    let mut install =
        shell.command("python3", &["-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]);
    install.args(["--disable-pip-version-check", "--target", &target]).args(packages);
    run(&mut install).context("PyPI's packages of TensorRT: install python3 with pip")?;
    fs::write(&done, list).with_context(|| format!("cannot write {}", done.display()))?;
    Ok(folder.to_owned())
}

/// The folder of headers in the crate that has them. A package that depends on it is described to cargo, which fetches and
/// unpacks for that.
fn headers(shell: &Shell, tools: &Path) -> Result<PathBuf> {
    let (name, version) = HEADERS;
    let folder = tools.join("headers");
    fs::create_dir_all(folder.join("src")).with_context(|| format!("cannot make {}", folder.display()))?;
    let manifest = format!(
        "[package]\nname = \"headers\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{name} = \"{version}\"\n\n\
         [workspace]\n"
    );
    for (path, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
        let path = folder.join(path);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let path = folder.join("Cargo.toml");
    let path = path.to_string_lossy();
    let text =
        read(&mut shell.cargo(&["metadata", "--quiet", "--format-version", "1", "--manifest-path", &path]))?;
    manifest_of(&text, name)?
        .parent()
        .map(|folder| folder.join("TensorRT-Headers"))
        .with_context(|| format!("{name} lies nowhere"))
}

/// Where cargo unpacked a package.
fn manifest_of(metadata: &str, name: &str) -> Result<PathBuf> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo metadata has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_package_is_found() {
        let text = r#"{ "packages": [ { "name": "a", "manifest_path": "/r/a/Cargo.toml" },
            { "name": "b", "manifest_path": "/r/b/Cargo.toml" } ] }"#;
        assert_eq!(manifest_of(text, "b").expect("there"), Path::new("/r/b/Cargo.toml"));
        assert!(manifest_of(text, "c").is_err() && manifest_of("words", "b").is_err());
    }
}
