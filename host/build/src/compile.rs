//! One crate, one architecture, one text of PTX.

use crate::package::Package;
use crate::{Arch, DeviceBuildError, Toolchain, ptx};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Set in the cargo that builds the device crate: a build script of that crate sees it, and builds nothing again.
pub(crate) const INNER_VARIABLE: &str = "RINGCALL_DEVICE_BUILD";
const TARGET: &str = "nvptx64-nvidia-cuda";

/// What `release` means for device code, even if the workspace says otherwise: one merged module with no
/// debug information.
const PROFILE: &[&str] = &[
    "opt-level=3",
    "lto='fat'",
    "codegen-units=1",
    "panic='abort'",
    "debug=false",
    "debug-assertions=false",
    "overflow-checks=false",
    "incremental=false",
];

/// A crate to compile for the device.
#[derive(Clone, Debug)]
pub struct DeviceCrate {
    /// The folder with its Cargo.toml.
    pub manifest_dir: PathBuf,
    /// Features to switch on, besides the default ones.
    pub features: Vec<String>,
    /// For which architecture.
    pub arch: Arch,
    /// Where to build. Shared between crates of one workspace, `core` is built once for each architecture (about half
    /// a minute). Never the target folder of a cargo that is running: that one is locked.
    pub target_dir: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The whole program with everything it uses. Depends on the sources, the features, the architecture and the
    /// compiler only; the first line names the last three.
    pub ptx: String,
    /// What the compiler had to say nevertheless; empty if nothing.
    pub warnings: String,
    /// The files it was made from: the crate's, and those of the packages it depends on by path.
    pub sources: Vec<PathBuf>,
}

/// Compiles a crate to PTX.
///
/// The crate is built as a static library, so that no linker is needed: fat link-time optimisation merges all of it,
/// `core` included, before the code generator writes its one text.
///
/// # Errors
/// [`DeviceBuildError::Compile`] with what cargo printed; [`DeviceBuildError::Undefined`] if the code calls what a GPU does not
/// have; [`DeviceBuildError::Package`] if there is no package with a library.
pub fn compile(device_crate: &DeviceCrate, toolchain: &Toolchain) -> Result<Compiled, DeviceBuildError> {
    let package = Package::read(&device_crate.manifest_dir)?;
    let text_file = text_file(device_crate, &package, toolchain);
    let folder = text_file.parent().unwrap_or(&device_crate.target_dir);
    std::fs::create_dir_all(folder)
        .map_err(|source| DeviceBuildError::File { path: folder.to_owned(), source })?;
    if !text_file.exists() {
        // Cargo does not know of this file: a library that it finds fresh, it would not write again.
        start(command(device_crate, toolchain, "clean").args([
            "--quiet",
            "--release",
            "--target",
            TARGET,
            "--package",
            &package.name,
        ]))?;
    }
    let mut build = command(device_crate, toolchain, "rustc");
    build.args(["--quiet", "--release", "--lib", "--crate-type=staticlib", "-Zbuild-std=core"]);
    build.args(["--target", TARGET]);
    for setting in PROFILE {
        build.arg("--config").arg(format!("profile.release.{setting}"));
    }
    if !device_crate.features.is_empty() {
        build.arg("--features").arg(device_crate.features.join(","));
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", flags(device_crate, &package, toolchain));
    build.env(INNER_VARIABLE, "1");
    let mut emit = OsString::from("--emit=asm=");
    emit.push(&text_file);
    // Beside a remapping, cargo keeps arguments out of the names of symbols: so the path above leaves no trace.
    build.arg("--").arg(emit).arg("--remap-path-prefix=/ringcall=/ringcall");

    let output = start(&mut build)?;
    let messages = messages(&String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let hint = hint(&messages);
        return Err(DeviceBuildError::Compile {
            package: package.name,
            arch: device_crate.arch,
            output: messages,
            hint,
        });
    }
    let text = std::fs::read_to_string(&text_file)
        .map_err(|source| DeviceBuildError::File { path: text_file.clone(), source })?;
    let undefined = ptx::undefined(&text);
    if !undefined.is_empty() {
        return Err(DeviceBuildError::Undefined {
            package: package.name,
            arch: device_crate.arch,
            symbols: undefined.join(", "),
        });
    }
    Ok(Compiled {
        ptx: ptx::with_header(&text, &header(device_crate, &package, toolchain)),
        warnings: messages,
        sources: sources(device_crate, &package)?,
    })
}

/// The line that says what the text is, without its comment mark.
fn header(device_crate: &DeviceCrate, package: &Package, toolchain: &Toolchain) -> String {
    let features = match device_crate.features.as_slice() {
        [] => String::new(),
        features => format!(" [{}]", features.join(", ")),
    };
    format!("{}{features} for {}, by {}", package.name, device_crate.arch, toolchain.version())
}

/// The version of the compiler that wrote this PTX, from its first line: `rustc 1.96.0 (ac68faa20 2026-05-25)`.
#[must_use]
pub fn compiler_of(ptx: &str) -> Option<&str> {
    let line = ptx.lines().next()?.strip_prefix("// ")?;
    line.rsplit_once(", by ").map(|(_, compiler)| compiler)
}

/// Where the code generator writes: its own name for everything that changes the text, so that what lies
/// there belongs to the build that cargo may find fresh.
fn text_file(device_crate: &DeviceCrate, package: &Package, toolchain: &Toolchain) -> PathBuf {
    let mut hash = DefaultHasher::new();
    (&device_crate.manifest_dir, &device_crate.features, device_crate.arch).hash(&mut hash);
    (toolchain.rustc(), toolchain.version(), PROFILE).hash(&mut hash);
    let name = format!("{}.{}.{:016x}.ptx", package.name, device_crate.arch, hash.finish());
    let file = device_crate.target_dir.join("ptx").join(name);
    // Cargo runs the compiler elsewhere.
    std::path::absolute(&file).unwrap_or(file)
}

/// For the whole build, `core` included, separated as cargo wants them.
fn flags(device_crate: &DeviceCrate, package: &Package, toolchain: &Toolchain) -> OsString {
    let arch = device_crate.arch;
    let mut flags =
        OsString::from(format!("-Ctarget-cpu={arch}\x1f-Ctarget-feature=+ptx{}", arch.ptx_version()));
    // No path of this machine gets into the text. Of two that match, the later one counts.
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let prefixes = [
        (home, "/cargo"),
        (Some(package.root.clone()), "/workspace"),
        (toolchain.sources().canonicalize().ok(), "/rust"),
        (Some(toolchain.sources().to_owned()), "/rust"),
    ];
    for (path, name) in prefixes {
        let Some(path) = path else { continue };
        flags.push("\x1f--remap-path-prefix=");
        flags.push(path);
        flags.push(format!("={name}"));
    }
    flags
}

fn command(device_crate: &DeviceCrate, toolchain: &Toolchain, task: &str) -> Command {
    let mut command = toolchain.cargo();
    command.arg(task).arg("--manifest-path").arg(device_crate.manifest_dir.join("Cargo.toml"));
    command.arg("--target-dir").arg(&device_crate.target_dir);
    command
}

fn start(command: &mut Command) -> Result<Output, DeviceBuildError> {
    command
        .output()
        .map_err(|source| DeviceBuildError::Start { program: command.get_program().into(), source })
}

/// What cargo printed, without its counts of warnings and without the one warning that every build gets: versions of
/// PTX are switched on by flags that may change one day.
fn messages(printed: &str) -> String {
    let blocks = printed.split("\n\n").map(|block| {
        let lines =
            block.lines().filter(|line| !(line.starts_with("warning: `") && line.contains("generated")));
        lines.collect::<Vec<_>>().join("\n")
    });
    let telling = blocks.filter(|block| {
        let expected = block.starts_with("warning: unstable feature specified for `-Ctarget-feature`");
        !expected && !block.trim().is_empty()
    });
    telling.collect::<Vec<_>>().join("\n\n")
}

/// The code generator names neither the operation nor its line.
fn hint(messages: &str) -> &'static str {
    if messages.contains("unsupported library call operation") {
        "\nThe code uses an operation that a GPU has no instruction for and that no library provides, \
         such as converting 128-bit integers to or from floating point."
    } else {
        ""
    }
}

/// From cargo's dependency file: the sources of the crate and of packages on disk, and their manifests.
fn sources(device_crate: &DeviceCrate, package: &Package) -> Result<Vec<PathBuf>, DeviceBuildError> {
    let file = device_crate.target_dir.join(TARGET).join("release").join(format!("lib{}.d", package.library));
    let text =
        std::fs::read_to_string(&file).map_err(|source| DeviceBuildError::File { path: file, source })?;
    let mut found = BTreeSet::new();
    for source in parse_dependencies(&text) {
        let manifest = source.ancestors().skip(1).map(|folder| folder.join("Cargo.toml"));
        found.extend(manifest.into_iter().find(|manifest| manifest.is_file()));
        found.insert(source);
    }
    for name in ["Cargo.toml", "Cargo.lock"] {
        found.extend(Some(package.root.join(name)).filter(|path| path.is_file()));
    }
    Ok(found.into_iter().collect())
}

/// `target: file file`, with a backslash before a space that belongs to a name.
fn parse_dependencies(text: &str) -> Vec<PathBuf> {
    let names = text.lines().next().and_then(|line| line.split_once(": ")).map_or("", |(_, names)| names);
    let names = names.replace("\\ ", "\0");
    names.split_whitespace().map(|name| Path::new(&name.replace('\0', " ")).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tells_something_is_shown() {
        let noise = "warning: unstable feature specified for `-Ctarget-feature`: `ptx80`\n  |\n  = note: may change\n";
        let count = "warning: `x` (lib) generated 1 warning\n";
        assert_eq!(messages(&format!("{noise}\n{count}")), "");
        let real = "warning: unused variable: `f`\n --> src/lib.rs:7:74\n";
        assert_eq!(messages(&format!("{noise}\n{real}\n{count}")), real.trim_end());
        assert_eq!(messages("error: a\n\nerror: b\n"), "error: a\n\nerror: b");
    }

    #[test]
    fn an_error_of_the_code_generator_is_explained() {
        assert!(hint("rustc-LLVM ERROR: unsupported library call operation").contains("128-bit"));
        assert_eq!(hint("error[E0308]: mismatched types"), "");
    }

    #[test]
    fn the_first_line_names_the_compiler() {
        let line = "// a [graph] for sm_90, by rustc 1.96.0 (ac68faa20 2026-05-25)\n\n.version 8.0\n";
        assert_eq!(compiler_of(line), Some("rustc 1.96.0 (ac68faa20 2026-05-25)"));
        assert_eq!(compiler_of(".version 8.0\n"), None);
    }

    #[test]
    fn file_names_may_have_spaces() {
        let files = parse_dependencies("/t/libx.a: /a/src/lib.rs /b\\ c/src/lib.rs\n");
        assert_eq!(files, [Path::new("/a/src/lib.rs"), Path::new("/b c/src/lib.rs")]);
        assert!(parse_dependencies("").is_empty());
    }
}
