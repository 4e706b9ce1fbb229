//! TensorRT-RTX and the lean runtime from package registries, and the tests that run with them. Nothing of NVIDIA's is kept
//! in the repository: it lies below the target folder.

use crate::files::write;
use crate::metadata::Metadata;
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
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
pub(crate) struct TensorRtOptions {
    /// Write the bindings of the shim anew, after a change of `shim.h`.
    #[arg(long)]
    bindings: bool,
}

pub(crate) fn run_with(shell: &Shell, options: &TensorRtOptions) -> Result<()> {
    test(shell, options.bindings)
}

/// The step of `ci`.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    test(shell, false)?;
    Ok(Outcome::Done)
}

/// Installs NVIDIA's libraries and libclang, once; gives their folder.
///
/// # Errors
/// No such packages from PyPI.
pub(crate) fn install(shell: &Shell) -> Result<PathBuf> {
    let mut wheels = vec!["--no-deps", LIBCLANG];
    wheels.extend(KINDS.iter().map(|(_, wheel, ..)| *wheel));
    let packages = packages(shell);
    shell.pip_once(&packages, &wheels).context("PyPI's packages of TensorRT: install python3 with pip")?;
    Ok(packages)
}

fn packages(shell: &Shell) -> PathBuf {
    shell.target("tools").join("tensorrt/python")
}

/// Where libclang is in the packages.
const CLANG: &str = "clang/native";

/// The folder of the installed libclang, if it is installed.
pub(crate) fn libclang(shell: &Shell) -> Option<PathBuf> {
    Some(packages(shell).join(CLANG)).filter(|folder| folder.is_dir())
}

/// The tests that take libraries and headers from the environment.
const TESTS: &[&str] = &[BINDINGS, "lean", "predecoders", "rtx", "tensorrt_gpu"];
/// The one of them that compares the bindings, or writes them.
const BINDINGS: &str = "shim_bindings";

fn test(shell: &Shell, bless: bool) -> Result<()> {
    let tools = shell.target("tools").join("tensorrt");
    let headers = headers(shell, &tools)?;
    let packages = install(shell)?;

    // Of the whole workspace, so that nothing is built again with fewer features.
    let mut command = shell.cargo(&["test", "--workspace", "--features", "ringcall-tensorrt/bindings"]);
    for test in if bless { &[BINDINGS] } else { TESTS } {
        command.args(["--test", test]);
    }
    command.env("RINGCALL_TENSORRT_REQUIRED", "1").env("LIBCLANG_PATH", packages.join(CLANG));
    for (kind, _, libraries, include) in KINDS {
        let include = headers.join(include);
        ensure!(include.is_dir(), "{} has no {}", HEADERS.0, include.display());
        command.env(format!("RINGCALL_TENSORRT_{kind}_LIB"), packages.join(libraries));
        command.env(format!("RINGCALL_TENSORRT_{kind}_INCLUDE"), include);
    }
    if bless {
        command.env("RINGCALL_BLESS", "1");
    }
    run(&mut command)
}

/// The folder of headers in the crate that has them. A package that depends on it is described to cargo, which fetches and
/// unpacks for that.
fn headers(shell: &Shell, tools: &Path) -> Result<PathBuf> {
    let (name, version) = HEADERS;
    let folder = tools.join("headers");
    let manifest = folder.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"headers\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{name} = \"{version}\"\n\n\
         [workspace]\n"
    );
    write(&manifest, &text)?;
    write(&folder.join("src/lib.rs"), "")?;
    let packages =
        Metadata::read(shell, &["--quiet", "--manifest-path", &manifest.to_string_lossy()])?.packages;
    let package = packages.iter().find(|package| package.name == name);
    let lies = package.and_then(|package| package.manifest_path.parent());
    lies.map(|folder| folder.join("TensorRT-Headers")).with_context(|| format!("{name} lies nowhere"))
}
