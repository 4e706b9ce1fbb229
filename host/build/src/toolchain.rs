//! Finding a compiler for the device.
//!
//! Every upstream rustc has the code generator for NVIDIA GPUs. What most installations lack is the source of `core`,
//! which has to be compiled for the device.

use crate::DeviceBuildError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable that names the compiler to take, before any other.
pub const RUSTC_VARIABLE: &str = "RINGCALL_DEVICE_RUSTC";
/// Where Debian's packages put theirs, beside rustup's toolchains.
const SYSTEM_RUSTC: &str = "/usr/bin/rustc";

/// A rustc with the sources of its `core`, and a cargo to drive it.
#[derive(Clone, Debug)]
pub struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    version: String,
    sources: PathBuf,
}

impl Toolchain {
    /// The first of these that will do: what `RINGCALL_DEVICE_RUSTC` names (and then no other), `/usr/bin/rustc`,
    /// rustup's nightly.
    ///
    /// # Errors
    /// [`DeviceBuildError::NoToolchain`], which says how to get one; [`DeviceBuildError::Unusable`] if the variable names something
    /// that will not do.
    pub fn find() -> Result<Self, DeviceBuildError> {
        Self::choose(std::env::var_os(RUSTC_VARIABLE), Path::new(SYSTEM_RUSTC), nightly)
    }

    fn choose(
        asked: Option<OsString>,
        system: &Path,
        nightly: impl FnOnce() -> Result<PathBuf, String>,
    ) -> Result<Self, DeviceBuildError> {
        if let Some(rustc) = asked.filter(|asked| !asked.is_empty()) {
            let rustc = PathBuf::from(rustc);
            return Self::inspect(&rustc, driver()).map_err(|why| DeviceBuildError::Unusable { rustc, why });
        }
        let system_says = match Self::inspect(system, driver()) {
            Ok(toolchain) => return Ok(toolchain),
            Err(why) => why,
        };
        // A nightly's sources may need the nightly's cargo.
        let nightly_says = match nightly()
            .and_then(|sysroot| Self::inspect(&sysroot.join("bin/rustc"), sysroot.join("bin/cargo")))
        {
            Ok(toolchain) => return Ok(toolchain),
            Err(why) => why,
        };
        Err(DeviceBuildError::NoToolchain {
            tried: format!("{}: {system_says}; rustup's nightly: {nightly_says}", system.display()),
        })
    }

    /// Asks a rustc who it is, and looks for its sources.
    fn inspect(rustc: &Path, cargo: PathBuf) -> Result<Self, String> {
        if rustc.is_absolute() && !rustc.exists() {
            return Err("not there".to_owned());
        }
        let version = ask(rustc, "--version")?;
        let release = release(&version).ok_or_else(|| format!("`{version}` is no version of rustc"))?;
        let needed = release_of(env!("CARGO_PKG_RUST_VERSION"));
        if Some(release) < needed {
            return Err(format!("`{version}` is older than {}", env!("CARGO_PKG_RUST_VERSION")));
        }
        let sysroot = PathBuf::from(ask(rustc, "--print=sysroot")?);
        let sources = sysroot.join("lib/rustlib/src/rust");
        if !sources.join("library/core/Cargo.toml").is_file() {
            return Err(format!("`{version}` has no sources in {}", sources.display()));
        }
        Ok(Self { rustc: rustc.to_owned(), cargo, version, sources })
    }

    /// What `rustc --version` says, without remarks on how it was built: `rustc 1.96.0 (ac68faa20 2026-05-25)`.
    #[must_use]
    pub fn version(&self) -> &str {
        self.version.find(')').map_or(self.version.as_str(), |end| &self.version[..=end])
    }

    /// The compiler.
    #[must_use]
    pub fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The folder with the sources of the standard library.
    #[must_use]
    pub fn sources(&self) -> &Path {
        &self.sources
    }

    /// A cargo that compiles with this compiler and with no setting of the cargo around it: inside a build script, or
    /// under `cargo clippy`, the environment is full of those.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = clean_cargo(&self.cargo);
        // Unstable flags (`-Zbuild-std`) are what the bootstrap variable unlocks in a stable rustc.
        command.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1");
        command
    }
}

/// The cargo around us, or the one on the path.
fn driver() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

/// A cargo of the toolchain around us, for questions that need no device toolchain.
pub(crate) fn plain_cargo() -> Command {
    clean_cargo(&driver())
}

/// Begins of names that describe another package or another build.
const FOREIGN: &[&str] = &[
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_FEATURE_",
    "CARGO_CFG_",
    "CARGO_BIN_",
    "CARGO_PROFILE_",
    "CARGO_BUILD_",
    "CARGO_TARGET_NVPTX64_",
    "DEP_",
];
/// Such names in full.
const FOREIGN_NAMES: &[&str] = &[
    "CARGO",
    "CARGO_CRATE_NAME",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_TARGET_DIR",
    "CARGO_TARGET_TMPDIR",
    "DEBUG",
    "HOST",
    "NUM_JOBS",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC",
    "RUSTC_LINKER",
    "RUSTDOC",
    "RUSTFLAGS",
    "TARGET",
];

fn clean_cargo(cargo: &Path) -> Command {
    let mut command = Command::new(cargo);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|begin| text.starts_with(begin)) || FOREIGN_NAMES.contains(&&*text) {
            command.env_remove(&name);
        }
    }
    // `cargo clippy` sets the second; empty means none, also where a configuration file has one.
    command.env("RUSTC_WRAPPER", "").env("RUSTC_WORKSPACE_WRAPPER", "").env("CARGO_INCREMENTAL", "0");
    command
}

/// The nightly's sysroot. Asks for the list first, since asking the toolchain itself might start a download.
fn nightly() -> Result<PathBuf, String> {
    let list = ask(Path::new("rustup"), "toolchain list")?;
    if !list.lines().any(|line| line.starts_with("nightly")) {
        return Err("not installed".to_owned());
    }
    ask(Path::new("rustup"), "run nightly rustc --print=sysroot").map(PathBuf::from)
}

/// The output of a program.
fn ask(program: &Path, arguments: &str) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .env("RUSTUP_AUTO_INSTALL", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("`{} {arguments}` fails", program.display()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Major and minor number in `rustc 1.96.0 (…)`.
fn release(version: &str) -> Option<(u32, u32)> {
    release_of(version.strip_prefix("rustc ")?)
}

fn release_of(numbers: &str) -> Option<(u32, u32)> {
    let mut parts = numbers.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)";

    /// A program that answers as a rustc does, with or without sources.
    fn pretend(folder: &Path, version: &str, sources: bool) -> PathBuf {
        let rustc = folder.join("bin/rustc");
        std::fs::create_dir_all(folder.join("bin")).expect("a folder");
        let root = folder.display();
        std::fs::write(
            &rustc,
            format!("#!/bin/sh\ncase $1 in --version) echo '{version}';; *) echo '{root}';; esac\n"),
        )
        .expect("a script");
        std::fs::set_permissions(&rustc, std::fs::Permissions::from_mode(0o755)).expect("executable");
        if sources {
            let core = folder.join("lib/rustlib/src/rust/library/core");
            std::fs::create_dir_all(&core).expect("a folder");
            std::fs::write(core.join("Cargo.toml"), "").expect("a file");
        }
        rustc
    }

    fn none() -> Result<PathBuf, String> {
        Err("not installed".to_owned())
    }

    #[test]
    fn the_first_that_will_do_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let system = pretend(&at("system"), GOOD, true);
        let bare = pretend(&at("bare"), GOOD, false);
        let asked = pretend(&at("asked"), GOOD, true);
        pretend(&at("nightly"), "rustc 1.99.0-nightly (0123456 2026-09-01)", true);

        let chosen = |asked: Option<&Path>, system: &Path| {
            Toolchain::choose(asked.map(OsString::from), system, || Ok(at("nightly"))).expect("one of them")
        };
        assert_eq!(chosen(Some(&asked), &system).rustc(), asked);
        assert_eq!(chosen(None, &system).rustc(), system);
        assert_eq!(chosen(None, &system).version(), "rustc 1.96.0 (ac68faa20 2026-05-25)");
        assert_eq!(chosen(Some(Path::new("")), &system).rustc(), system, "set to nothing is not set");
        let fallback = chosen(None, &bare);
        assert_eq!(fallback.rustc(), at("nightly/bin/rustc"));
        assert_eq!(fallback.cargo, at("nightly/bin/cargo"));
    }

    #[test]
    fn without_one_the_error_says_what_was_tried_and_both_ways_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let bare = pretend(folder.path(), GOOD, false);
        let error = Toolchain::choose(None, &bare, none).expect_err("no sources").to_string();
        for part in [
            "rustc-web rust-web-src",
            "rustup toolchain install nightly --component rust-src",
            RUSTC_VARIABLE,
            "has no sources in",
            "rustup's nightly: not installed",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains('\n'), "{error}");
        let error =
            Toolchain::choose(None, Path::new("/no/such/rustc"), none).expect_err("nothing").to_string();
        assert!(error.contains("/no/such/rustc: not there"), "{error}");
    }

    #[test]
    fn what_was_asked_for_is_not_replaced_in_silence() {
        let folder = tempfile::tempdir().expect("a folder");
        let good = pretend(&folder.path().join("good"), GOOD, true);
        let old = pretend(&folder.path().join("old"), "rustc 1.63.0 (4b91a6ea7 2022-08-08)", true);
        let other = pretend(&folder.path().join("other"), "gcc 12.2", true);
        for (asked, why) in [
            (old.as_path(), "older than"),
            (other.as_path(), "no version of rustc"),
            (Path::new("/no/such/rustc"), "not there"),
            (Path::new("/bin/false"), "fails"),
        ] {
            let error = Toolchain::choose(Some(asked.into()), &good, none).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains(&*asked.to_string_lossy()), "{error}");
        }
    }
}
