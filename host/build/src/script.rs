//! Entry points for a build script.

use crate::compile::INNER_VARIABLE;
use crate::package::Package;
use crate::toolchain::RUSTC_VARIABLE;
use crate::{Arch, DeviceBuildError, DeviceCrate, Toolchain, compile};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where device code is built, if several programs are to share the work; `OUT_DIR` otherwise.
const TARGET_VARIABLE: &str = "RINGCALL_DEVICE_TARGET_DIR";
/// Architectures, separated by commas, instead of those that the build script names.
const ARCHS_VARIABLE: &str = "RINGCALL_DEVICE_ARCHS";

/// A crate of handlers to be built for the device; see [`handlers`](crate::handlers).
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build`"]
pub struct HandlerCrate {
    path: PathBuf,
    archs: Vec<String>,
    features: Vec<String>,
    required: bool,
}

impl HandlerCrate {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), archs: Vec::new(), features: Vec::new(), required: false }
    }

    /// Builds for this architecture: `sm_90`. Called several times, for each of them; never called, for
    /// [`Arch::DEFAULT`]. PTX of an architecture runs on later ones too.
    pub fn arch(mut self, arch: &str) -> Self {
        self.archs.push(arch.to_owned());
        self
    }

    /// Switches on a feature of the crate.
    pub fn feature(mut self, feature: &str) -> Self {
        self.features.push(feature.to_owned());
        self
    }

    /// Makes it an error that the machine has no toolchain for devices. Without this it is a warning, and the program
    /// runs its handlers on the CPU.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Builds, and tells cargo about it. Ends the build script with a message if something is wrong.
    pub fn build(self) {
        let done = Script::of_cargo()
            .and_then(|script| self.run(&script, Toolchain::find, &mut std::io::stdout().lock()));
        if let Err(error) = done {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }

    fn run(
        &self,
        script: &Script,
        find: impl FnOnce() -> Result<Toolchain, DeviceBuildError>,
        cargo: &mut dyn Write,
    ) -> Result<(), DeviceBuildError> {
        let manifest_dir = script.manifest_dir.join(&self.path);
        let package = Package::read(&manifest_dir)?;
        let mut directives = String::new();
        for name in [RUSTC_VARIABLE, TARGET_VARIABLE, ARCHS_VARIABLE] {
            directive(&mut directives, "rerun-if-env-changed", name);
        }
        directive(&mut directives, "rerun-if-changed", "build.rs");
        directive(&mut directives, "rerun-if-changed", manifest_dir.join("Cargo.toml").display());
        directive(&mut directives, "rerun-if-changed", manifest_dir.join("src").display());

        let mut table = Vec::new();
        if !script.inner {
            match find() {
                Ok(toolchain) => {
                    table = self.compile_all(script, &manifest_dir, &toolchain, &mut directives)?;
                }
                Err(error @ DeviceBuildError::NoToolchain { .. }) if !self.required => {
                    let warning = format!("handlers of `{}` run on the CPU only: {error}", package.name);
                    directive(&mut directives, "warning", warning);
                }
                Err(error) => return Err(error),
            }
        }
        write_table(&script.out_dir, &package, &table)?;
        cargo
            .write_all(directives.as_bytes())
            .map_err(|source| DeviceBuildError::File { path: "standard output".into(), source })
    }

    fn compile_all(
        &self,
        script: &Script,
        manifest_dir: &Path,
        toolchain: &Toolchain,
        directives: &mut String,
    ) -> Result<Vec<(Arch, String)>, DeviceBuildError> {
        let mut table = Vec::new();
        for arch in self.archs(script.archs.as_deref())? {
            let device_crate = DeviceCrate {
                manifest_dir: manifest_dir.to_owned(),
                features: self.features.clone(),
                arch,
                target_dir: script.target_dir.clone(),
            };
            let compiled = compile(&device_crate, toolchain)?;
            for line in compiled.warnings.lines() {
                directive(directives, "warning", line);
            }
            for source in &compiled.sources {
                directive(directives, "rerun-if-changed", source.display());
            }
            table.push((arch, compiled.ptx));
        }
        Ok(table)
    }

    /// In ascending order, each once.
    fn archs(&self, instead: Option<&str>) -> Result<Vec<Arch>, DeviceBuildError> {
        let mut archs = match instead {
            Some(list) => list.split(',').map(|name| name.trim().parse()).collect::<Result<Vec<_>, _>>()?,
            None => self.archs.iter().map(|name| name.parse()).collect::<Result<Vec<_>, _>>()?,
        };
        if archs.is_empty() {
            archs = Arch::DEFAULT.to_vec();
        }
        archs.sort_unstable();
        archs.dedup();
        Ok(archs)
    }
}

/// What cargo tells a build script.
struct Script {
    manifest_dir: PathBuf,
    out_dir: PathBuf,
    target_dir: PathBuf,
    archs: Option<String>,
    /// This is the build script of the device crate itself, in the build that another build script began.
    inner: bool,
}

impl Script {
    fn of_cargo() -> Result<Self, DeviceBuildError> {
        let folder =
            |name| std::env::var_os(name).map(PathBuf::from).ok_or(DeviceBuildError::NotABuildScript(name));
        let out_dir = folder("OUT_DIR")?;
        let set = |value: &OsString| !value.is_empty();
        Ok(Self {
            manifest_dir: folder("CARGO_MANIFEST_DIR")?,
            target_dir: std::env::var_os(TARGET_VARIABLE)
                .filter(set)
                .map_or_else(|| out_dir.join("device"), PathBuf::from),
            out_dir,
            archs: std::env::var(ARCHS_VARIABLE).ok().filter(|list| !list.is_empty()),
            inner: std::env::var_os(INNER_VARIABLE).is_some(),
        })
    }
}

fn directive(directives: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(directives, "cargo::{name}={value}");
}

/// The PTX files, and the Rust file that has them in a table.
fn write_table(out_dir: &Path, package: &Package, table: &[(Arch, String)]) -> Result<(), DeviceBuildError> {
    let write = |name: String, text: &str| {
        let path = out_dir.join(name);
        std::fs::write(&path, text).map_err(|source| DeviceBuildError::File { path, source })
    };
    let mut rows = String::new();
    for (arch, ptx) in table {
        let name = format!("{}.{arch}.ptx", package.library);
        // Beside this file.
        let _ = writeln!(rows, "    ({}, include_str!({name:?})),", arch.capability());
        write(name, ptx)?;
    }
    let text = format!(
        "/// PTX of `{}`: compute capability times ten, and the text. Empty if the machine that built this program \
         has no\n/// toolchain for devices.\npub static PTX: &[(u32, &str)] = &[\n{rows}];\n",
        package.name
    );
    write(format!("{}_ptx.rs", package.library), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture")
    }

    fn script(out_dir: &Path, inner: bool) -> Script {
        Script {
            manifest_dir: fixture(),
            out_dir: out_dir.to_owned(),
            target_dir: out_dir.join("device"),
            archs: None,
            inner,
        }
    }

    fn none() -> Result<Toolchain, DeviceBuildError> {
        Err(DeviceBuildError::NoToolchain { tried: "nothing".to_owned() })
    }

    fn run(handlers: &HandlerCrate, inner: bool) -> Result<(String, String), DeviceBuildError> {
        let out = tempfile::tempdir().expect("a folder");
        let mut told = Vec::new();
        handlers.run(&script(out.path(), inner), none, &mut told)?;
        let table = std::fs::read_to_string(out.path().join("fixture_ptx.rs")).expect("a table");
        Ok((table, String::from_utf8(told).expect("text")))
    }

    #[test]
    fn without_a_toolchain_the_table_is_empty_and_one_line_says_why() {
        let (table, told) = run(&HandlerCrate::at(Path::new(".")), false).expect("a warning");
        assert!(table.contains("pub static PTX: &[(u32, &str)] = &[\n];"), "{table}");
        let warnings: Vec<_> = told.lines().filter(|line| line.starts_with("cargo::warning=")).collect();
        assert!(matches!(warnings.as_slice(), [one] if one.contains("on the CPU only")), "{told}");
        assert!(told.contains("cargo::rerun-if-env-changed=RINGCALL_DEVICE_RUSTC\n"), "{told}");
    }

    #[test]
    fn without_a_toolchain_required_is_an_error() {
        let error = run(&HandlerCrate::at(Path::new(".")).required(), false).expect_err("required");
        assert!(matches!(error, DeviceBuildError::NoToolchain { .. }), "{error}");
    }

    #[test]
    fn in_its_own_device_build_a_crate_builds_nothing_again() {
        let (table, told) = run(&HandlerCrate::at(Path::new(".")).required(), true).expect("nothing to do");
        assert!(table.contains("&[\n];"), "{table}");
        assert!(!told.contains("warning"), "{told}");
    }

    #[test]
    fn each_architecture_once_and_the_oldest_first() {
        let handlers = HandlerCrate::at(Path::new(".")).arch("sm_90").arch("sm_80").arch("sm_90");
        assert_eq!(handlers.archs(None).expect("known"), [Arch::SM_80, Arch::SM_90]);
        assert_eq!(handlers.archs(Some("sm_100")).expect("known"), [Arch::SM_100]);
        assert_eq!(HandlerCrate::at(Path::new(".")).archs(None).expect("known"), Arch::DEFAULT);
        assert!(HandlerCrate::at(Path::new(".")).arch("h100").archs(None).is_err());
    }
}
