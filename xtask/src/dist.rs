//! The tree that C programs install: libraries, headers, and the files that `pkg-config` and CMake look for.
//!
//! The shared library is linked from the static one by the machine's C compiler, since rustc's own linking of a C library
//! leaves no room for a version script. What it exports is the committed listing, no more and no less.

use crate::dist_compat;
use crate::dist_names::{HEADERS, LISTING, SONAME, symlink};
use crate::files::{copy, copy_tree, emptied, folder, text, write};
use crate::ptx::Cuda;
use crate::shell::{NOT_OPTIMISED, PACKAGED, Shell, read, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

const SYMBOL_VERSION: &str = "RINGCALL_0";
/// Transports as shared libraries: the package, what cargo calls its library, and the name that loaders know: the
/// reference's where the arguments are the reference's.
const PROVIDERS: [(&str, &str, &str); 2] = [
    ("ringcall-bridge-udp", "libcudaq_realtime_bridge_udp.so", "libcudaq-realtime-bridge-udp.so"),
    ("ringcall-bridge-roce", "libringcall_bridge_roce.so", "libringcall-bridge-roce.so"),
];
/// What such a library exports.
const PROVIDER_EXPORTS: [&str; 2] = ["cudaq_realtime_get_bridge_interface", "ringcall_bridge_get_extension"];
/// What a Rust library needs of the system.
const SYSTEM: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// How cargo builds the installed files.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// Not optimised, and in a target folder of its own: the C library's file has the same name whatever the library's features are, so
    /// that in the tests' folder cargo would overwrite the library that tests link with.
    Dev,
    /// The profile of what users install.
    Release,
}

impl Profile {
    /// Builds a package alone, and returns the folder that cargo leaves it in.
    fn build(self, shell: &Shell, package: &str) -> Result<PathBuf> {
        let mut build = shell.cargo(&["build", "-p", package, "--profile"]);
        let folder = match self {
            Self::Dev => {
                let target = shell.target("dist-build");
                build.arg("dev").args(NOT_OPTIMISED).env("CARGO_TARGET_DIR", &target);
                target.join("debug")
            }
            Self::Release => {
                build.arg(PACKAGED);
                shell.target(PACKAGED)
            }
        };
        run(&mut build)?;
        Ok(folder)
    }
}

/// Where to.
#[derive(clap::Args)]
pub(crate) struct DistOptions {
    /// The folder; it is emptied first. By default `target/dist`.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// With the device archive too; needs NVIDIA's compiler, which is taken from PyPI if there is none.
    #[arg(long)]
    device: bool,
    /// Also builds and runs the examples against the tree, through `pkg-config` and, where it is installed, CMake.
    #[arg(long)]
    check: bool,
}

/// Makes the tree.
pub(crate) fn make(shell: &Shell, options: &DistOptions, profile: Profile) -> Result<()> {
    let out = match &options.out {
        Some(out) => std::path::absolute(out).with_context(|| format!("{}", out.display()))?,
        None => shell.target("dist"),
    };
    tree(shell, &out, options.device, profile)?;
    if options.check { check(shell, &out, options.device) } else { Ok(()) }
}

/// The tree, with or without the device archive.
pub(crate) fn tree(shell: &Shell, out: &Path, device: bool, profile: Profile) -> Result<()> {
    build(shell, out, profile)?;
    if device { crate::dist_device::make(shell, out) } else { Ok(()) }
}

/// As a step of the continuous integration.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    if shell.command("cc", &["--version"]).output().is_err() {
        return Ok(Outcome::Skipped("no C compiler `cc`"));
    }
    // The compiler that the step `ptx` has found or installed. Nothing of it needs a GPU: programs are built, and say so when run.
    let device = match Cuda::find(shell) {
        Ok(_) => true,
        Err(error) => {
            println!("without the device archive and the examples in CUDA C++: {error:#}");
            false
        }
    };
    make(shell, &DistOptions { out: None, device, check: true }, Profile::Dev)?;
    Ok(Outcome::Done)
}

fn build(shell: &Shell, out: &Path, profile: Profile) -> Result<()> {
    let archive = profile.build(shell, "ringcall-c")?.join("libringcall_c.a");
    let lib = folder(emptied(out.to_owned())?.join("lib"))?;
    for headers in HEADERS {
        copy_tree(&shell.root().join(headers), &out.join("include"))?;
    }
    let share = folder(out.join("share/ringcall"))?;
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&shell.root().join(licence), &share.join(licence))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    copy(&archive, &lib.join("libringcall.a"))?;
    run(&mut shell.command("strip", &["--strip-debug", &text(&lib.join("libringcall.a"))]))?;
    link_shared(shell, out, &archive, version)?;
    providers(shell, &lib, profile)?;
    dist_compat::make(shell, out, &archive)?;
    write(&lib.join("pkgconfig/ringcall.pc"), &pkg_config(version))?;
    write(&lib.join("cmake/ringcall/ringcall-config.cmake"), CMAKE)?;
    write(&lib.join("cmake/ringcall/ringcall-config-version.cmake"), &cmake_version(version))?;
    println!("{}", out.display());
    Ok(())
}

fn link_shared(shell: &Shell, out: &Path, archive: &Path, version: &str) -> Result<()> {
    let listing = listing(shell)?;
    let script = shell.target("ringcall.map");
    let globals: String = listing.iter().map(|name| format!("    {name};\n")).collect();
    write(&script, &format!("{SYMBOL_VERSION} {{\n  global:\n{globals}  local: *;\n}};\n"))?;
    let lib = out.join("lib");
    let file = format!("libringcall.so.{version}");
    let shared = lib.join(&file);
    let mut link = shell.command("cc", &["-shared", "-o", &text(&shared)]);
    link.arg(format!("-Wl,-soname,{SONAME}"))
        .arg(format!("-Wl,--version-script={}", script.display()))
        .args(["-Wl,--whole-archive", &text(archive), "-Wl,--no-whole-archive"])
        .args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-z,relro,-z,now", "-Wl,--strip-debug"])
        .args(SYSTEM);
    run(&mut link)?;
    symlink(&file, &lib.join(SONAME))?;
    symlink(SONAME, &lib.join("libringcall.so"))?;
    let exported = exports(shell, &shared)?;
    ensure!(
        exported == listing,
        "{} exports other names than {LISTING}: {:?}",
        shared.display(),
        differing(&exported, &listing)
    );
    Ok(())
}

/// Builds the providers, each alone: built together with the C library they would export its functions, too.
fn providers(shell: &Shell, lib: &Path, profile: Profile) -> Result<()> {
    for (package, built, installed) in PROVIDERS {
        let library = lib.join(installed);
        copy(&profile.build(shell, package)?.join(built), &library)?;
        run(&mut shell.command("strip", &["--strip-debug", &text(&library)]))?;
        let exported = exports(shell, &library)?;
        ensure!(exported == PROVIDER_EXPORTS, "{installed} exports {exported:?}");
    }
    Ok(())
}

/// The committed names.
fn listing(shell: &Shell) -> Result<Vec<String>> {
    Ok(crate::files::read(&shell.root().join(LISTING))?.lines().map(str::to_owned).collect())
}

/// The names that a shared library exports, sorted, without versions.
fn exports(shell: &Shell, library: &Path) -> Result<Vec<String>> {
    let symbols = read(&mut shell.command("nm", &["-D", "--defined-only", &text(library)]))?;
    let mut names: Vec<String> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .filter(|name| name != SYMBOL_VERSION)
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn differing(a: &[String], b: &[String]) -> Vec<String> {
    let only = |here: &[String], there: &[String], sign| {
        let missing = here.iter().filter(|name| !there.contains(name));
        missing.map(|name| format!("{sign}{name}")).collect::<Vec<_>>()
    };
    [only(a, b, '+'), only(b, a, '-')].concat()
}

/// Builds and runs the examples as a user would who has installed the tree.
fn check(shell: &Shell, out: &Path, device: bool) -> Result<()> {
    let work = shell.target("dist-check");
    make_examples(shell, out, &work, device, &["run"])?;
    dist_compat::check(shell, out, &work)?;
    if device {
        dist_compat::check_device(shell, out, &work)?;
    }
    if dist_compat::check_cmake(
        shell,
        &work,
        out,
        &["host_path", "decoder", "relay", "decoding_client", "udp_echo", "hsb"],
    )? {
        dist_compat::check_cmake(
            shell,
            &work.join("compat"),
            &out.join("compat"),
            &["host_path", "udp_echo"],
        )?;
        dist_compat::check_cudaq_qec(shell, &work, out)?;
    }
    Ok(())
}

/// Makes something of the examples, in a copy of theirs in `work`, against the tree in `out`.
pub(crate) fn make_examples(
    shell: &Shell,
    out: &Path,
    work: &Path,
    device: bool,
    what: &[&str],
) -> Result<()> {
    copy_tree(&shell.root().join("examples/c"), &emptied(work.to_owned())?)?;
    let mut make = shell.command("make", &["-C", &text(work)]);
    make.args(what);
    if !device {
        make.arg("NVCC=");
    }
    run(make.env("PKG_CONFIG_PATH", out.join("lib/pkgconfig")).env("LD_LIBRARY_PATH", out.join("lib")))
}

fn pkg_config(version: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\n\
         Name: ringcall\nDescription: Real-time RPC over ring buffers: the CUDA-Q Realtime host API\n\
         Version: {version}\nLibs: -L${{libdir}} -lringcall\nLibs.private: {}\nCflags: -I${{includedir}}\n",
        SYSTEM.join(" ")
    )
}

const CMAKE: &str = r#"get_filename_component(_ringcall_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET ringcall::ringcall)
  add_library(ringcall::ringcall SHARED IMPORTED)
  set_target_properties(ringcall::ringcall PROPERTIES
    IMPORTED_LOCATION "${_ringcall_prefix}/lib/libringcall.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_ringcall_prefix}/include")
endif()

if(NOT TARGET ringcall::static)
  add_library(ringcall::static STATIC IMPORTED)
  set_target_properties(ringcall::static PROPERTIES
    IMPORTED_LOCATION "${_ringcall_prefix}/lib/libringcall.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_ringcall_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl")
endif()

# The device archive is there where the tree was made with CUDA's compiler.
if(NOT TARGET ringcall::device AND EXISTS "${_ringcall_prefix}/lib/libringcall_device.a")
  add_library(ringcall::device STATIC IMPORTED)
  set_target_properties(ringcall::device PROPERTIES
    IMPORTED_LOCATION "${_ringcall_prefix}/lib/libringcall_device.a"
    INTERFACE_LINK_LIBRARIES ringcall::ringcall)
endif()

unset(_ringcall_prefix)
"#;

fn cmake_version(version: &str) -> String {
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    format!(
        "set(PACKAGE_VERSION \"{version}\")\n\
         if(PACKAGE_FIND_VERSION STREQUAL \"\" OR \"${{PACKAGE_FIND_VERSION_MAJOR}}.${{PACKAGE_FIND_VERSION_MINOR}}\" \
         STREQUAL \"{minor}\")\n  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nelse()\n  \
         set(PACKAGE_VERSION_COMPATIBLE FALSE)\nendif()\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(differing(&names(&["a", "b"]), &names(&["b", "c"])), ["+a", "-c"]);
    }

    #[test]
    fn a_minor_version_is_compatible_with_itself() {
        assert!(cmake_version("0.1.0").contains("\"0.1\""));
        assert!(pkg_config("0.1.0").contains("Version: 0.1.0\n"));
    }
}
