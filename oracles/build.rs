//! Compiles PyMatching's C++ core from the sources that the crate `pymatching-cxx` carries, with our few lines that call it.
//!
//! The crate itself is not built: its build script also compiles the whole simulator, of which the core uses only headers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The parts of the driver that the core is called through; they are not in the crate's list of sources.
const DRIVER: &[&str] = &[
    "src/pymatching/sparse_blossom/driver/user_graph.cc",
    "src/pymatching/sparse_blossom/driver/mwpm_decoding.cc",
];

fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.lock");
    println!("cargo:rerun-if-changed=src/core/core.cpp");
    let packages = packages()?;
    let (pymatching, version) = find(&packages, "pymatching-cxx")?;
    let (stim, _) = find(&packages, "stim-cxx")?;
    let vendor = pymatching.join("vendor/pymatching");
    let list = pymatching.join("vendor/pymatching_source_files.txt");
    let list = std::fs::read_to_string(&list).with_context(|| format!("{}", list.display()))?;
    let sources = list.lines().map(str::trim).filter(|line| !line.is_empty());
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .opt_level(3)
        .define("NDEBUG", None)
        .warnings(false)
        .include(vendor.join("src"))
        .include(stim.join("vendor/stim/src"))
        .files(sources.chain(DRIVER.iter().copied()).map(|file| vendor.join(file)))
        .file("src/core/core.cpp")
        .try_compile("matching-core")?;
    println!("cargo:rustc-env=CORE_VERSION=pymatching-cxx {version}");
    Ok(())
}

/// All packages of the lock file, fetched.
fn packages() -> Result<Value> {
    let cargo = std::env::var("CARGO")?;
    let output = Command::new(cargo).args(["metadata", "--format-version", "1", "--locked"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice::<Value>(&output.stdout)?["packages"].take())
}

/// Where a package's files are, and its version.
fn find(packages: &Value, name: &str) -> Result<(PathBuf, String)> {
    let all = packages.as_array().context("cargo metadata names no packages")?;
    let package = all.iter().find(|p| p["name"] == name).with_context(|| format!("no package {name}"))?;
    let text = |key: &str| package[key].as_str().with_context(|| format!("{name} has no {key}"));
    let folder = Path::new(text("manifest_path")?).parent().context("a manifest lies in a folder")?;
    Ok((folder.to_owned(), text("version")?.to_owned()))
}
