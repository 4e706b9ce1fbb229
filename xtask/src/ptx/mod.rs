//! Committed PTX: what the crates for devices compile to, in the tree, so that building the host needs no toolchain for
//! devices and a review sees what a change does to the machine code. One file a kernel: see [`Files`].

mod assemble;
mod cpp;
mod cuda;
pub(crate) use cuda::Cuda;
mod diff;
mod normalise;
mod record;

pub(crate) use assemble::check as assemble;

use crate::files::{below, read};
use crate::shell::{self, Shell};
use anyhow::{Context, Result, anyhow, ensure};
use record::{Mode, Record};
use ringcall_build::{Arch, Compiled, DeviceCrate, Toolchain, compile, for_sm_80};
use std::path::PathBuf;
use std::thread;

/// A committed PTX file: a package with some of its features.
struct Program {
    package: &'static str,
    /// Where the package is, from the repository's root.
    folder: &'static str,
    features: &'static [&'static str],
    /// `folder/ptx/NAME.sm_90.ptx`.
    name: &'static str,
    files: Files,
}

/// The architectures that a program has files for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// The oldest of [`Arch::DEFAULT`] alone: a newer one would change nothing but the file's header.
    Oldest,
    /// [`Arch::SM_90`] alone. The text for [`Arch::SM_80`] is [made of it](for_sm_80) at load time, and is compared with what
    /// the compiler writes.
    Newest,
    /// Each of [`Arch::DEFAULT`].
    Each,
}

/// The kernel of `ringcall-kernels` that is the feature `features`, alone in its file.
const fn kernel(name: &'static str, features: &'static [&'static str]) -> Program {
    Program { package: "ringcall-kernels", folder: "device/kernels", features, name, files: Files::Newest }
}

const PROGRAMS: &[Program] = &[
    kernel("dispatch", &["dispatch"]),
    kernel("grid", &["grid"]),
    kernel("ahead", &["ahead"]),
    kernel("graph", &["graph"]),
    kernel("unified", &["unified"]),
    kernel("unified-grid", &["unified-grid"]),
    kernel("unified-graph", &["unified-graph"]),
    kernel("hooks", &["hooks"]),
    kernel("relay", &["relay"]),
    Program { files: Files::Oldest, ..kernel("floor", &["floor"]) },
    kernel("transport", &["transport"]),
    Program { files: Files::Oldest, ..kernel("samples", &["samples"]) },
    Program { files: Files::Oldest, ..kernel("inference", &["inference"]) },
    // One exported function for each primitive; a test reads what became of them.
    Program { files: Files::Each, ..kernel("probes", &["probes"]) },
    // The launches, which link only with libcudadevrt.a.
    Program { files: Files::Oldest, ..kernel("graph-probes", &["graph-probes"]) },
];

impl Program {
    fn path(&self, shell: &Shell, arch: Arch) -> PathBuf {
        shell.root().join(self.folder).join(format!("ptx/{}.{arch}.ptx", self.name))
    }

    /// The architectures that it is compiled for.
    fn compiled_for(&self) -> &'static [Arch] {
        match self.files {
            Files::Oldest => &[Arch::SM_80],
            Files::Newest | Files::Each => &Arch::DEFAULT,
        }
    }

    /// The architectures that it has files for.
    fn committed_for(&self) -> &'static [Arch] {
        match self.files {
            Files::Oldest => &[Arch::SM_80],
            Files::Newest => &[Arch::SM_90],
            Files::Each => &Arch::DEFAULT,
        }
    }

    /// The text that a device of this architecture, one of [`Arch::DEFAULT`], takes.
    fn text(&self, shell: &Shell, arch: Arch) -> Result<String> {
        match self.files {
            Files::Oldest => read(&self.path(shell, Arch::SM_80)),
            Files::Newest if arch < Arch::SM_90 => Ok(for_sm_80(&read(&self.path(shell, Arch::SM_90))?)),
            Files::Newest | Files::Each => read(&self.path(shell, arch)),
        }
    }
}

/// The committed text of a kernel of `ringcall-kernels` for an architecture of [`Arch::DEFAULT`].
///
/// # Errors
/// No such kernel; no such file.
pub(crate) fn committed(shell: &Shell, kernel: &str, arch: Arch) -> Result<String> {
    let program = PROGRAMS.iter().find(|program| program.name == kernel);
    program.with_context(|| format!("there is no kernel `{kernel}`"))?.text(shell, arch)
}

/// What to build, and whether to write it.
#[derive(clap::Args)]
pub(crate) struct PtxOptions {
    /// Compare with the committed files and write nothing.
    #[arg(long)]
    check: bool,
    /// Compare each entry without mangled names, labels and register numbers, and name the first instruction that differs.
    #[arg(long, requires = "check", conflicts_with = "cuda")]
    normalised: bool,
    /// Compare the files in the working tree with those of this revision, and build nothing.
    #[arg(long, value_name = "REVISION", requires = "normalised")]
    against: Option<String>,
    /// Only this package; may be given several times.
    #[arg(long, value_name = "NAME", value_parser = packages())]
    package: Vec<String>,
    /// Only this architecture; may be given several times.
    #[arg(long, value_name = "SM", value_parser = ARCHS)]
    arch: Vec<String>,
    /// Instead of all that, the texts that NVIDIA's compiler makes of CUDA C++.
    #[arg(long, conflicts_with_all = ["package", "arch"])]
    cuda: bool,
}

impl PtxOptions {
    /// Everything, compared.
    pub(crate) fn checked() -> Self {
        Self {
            check: true,
            normalised: false,
            against: None,
            package: Vec::new(),
            arch: Vec::new(),
            cuda: false,
        }
    }

    fn mode(&self) -> Mode {
        match (self.check, self.normalised) {
            (_, true) => Mode::Normalised,
            (true, false) => Mode::Check,
            (false, false) => Mode::Write,
        }
    }

    fn wants(&self, program: &Program, arch: Arch) -> bool {
        let all = |chosen: &[String], name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);
        program.compiled_for().contains(&arch)
            && all(&self.package, program.package)
            && all(&self.arch, &arch.to_string())
    }
}

fn packages() -> Vec<&'static str> {
    let mut names: Vec<_> = PROGRAMS.iter().map(|program| program.package).collect();
    names.dedup();
    names
}

/// [`Arch::DEFAULT`], by name.
const ARCHS: [&str; 2] = ["sm_80", "sm_90"];

/// Builds the PTX files and writes them, or compares them with the committed texts.
///
/// # Errors
/// No toolchain for devices; device code that does not compile, or that compiles with warnings when it is to be
/// checked; a text that is not the committed one.
pub(crate) fn run(shell: &Shell, options: &PtxOptions) -> Result<()> {
    if options.cuda {
        return cpp::run(shell, &cuda::Cuda::find(shell)?, options.check);
    }
    if let Some(revision) = &options.against {
        return compare_with(shell, options, revision);
    }
    let toolchain = Toolchain::find()?;
    println!("{} ({})", toolchain.version(), toolchain.rustc().display());
    // At once: each is one long chain of compilations, the core library's first.
    thread::scope(|scope| {
        let archs = Arch::DEFAULT.map(|arch| {
            let toolchain = &toolchain;
            scope.spawn(move || run_for(shell, options, arch, toolchain))
        });
        let mut all = Record::new(shell, options.mode());
        let mut older = Vec::new();
        for thread in archs {
            let (more, built) = thread.join().map_err(|_| anyhow!("a build panicked"))??;
            all = all.and(&more);
            older.extend(built);
        }
        // Now that the newer texts are written.
        for (program, built) in older {
            all.made(&program.path(shell, Arch::SM_80), &program.text(shell, Arch::SM_80)?, &built)?;
        }
        anyhow::Ok(all)
    })?
    .end("cargo xtask ptx")
}

/// The files of the working tree with those of a revision.
fn compare_with(shell: &Shell, options: &PtxOptions, revision: &str) -> Result<()> {
    let commit = format!("{revision}^{{commit}}");
    shell::read(&mut shell.command("git", &["rev-parse", "--verify", "--quiet", &commit]))
        .with_context(|| format!("`{revision}` is no revision"))?;
    let mut record = Record::new(shell, options.mode());
    for program in PROGRAMS {
        for arch in program.committed_for().iter().filter(|arch| options.wants(program, **arch)) {
            let path = program.path(shell, *arch);
            let object = format!("{revision}:{}", below(shell.root(), &path));
            let committed = shell::read(&mut shell.command("git", &["show", &object])).ok();
            record.compare(&path, committed, &read(&path)?, |_| true)?;
        }
    }
    record.end("cargo xtask ptx")
}

/// The texts of one architecture. Those without a file are given back.
fn run_for(
    shell: &Shell,
    options: &PtxOptions,
    arch: Arch,
    toolchain: &Toolchain,
) -> Result<(Record, Vec<(&'static Program, String)>)> {
    let mut older = Vec::new();
    let mut record = Record::new(shell, options.mode());
    for program in PROGRAMS.iter().filter(|program| options.wants(program, arch)) {
        let built = build(shell, program, arch, toolchain)?;
        if !built.warnings.is_empty() {
            println!("{}", built.warnings);
            ensure!(!options.check, "{} for {arch}: compiles with warnings", program.package);
        }
        if program.committed_for().contains(&arch) {
            record.take(&program.path(shell, arch), &built.ptx, |_| true)?;
        } else {
            older.push((program, built.ptx));
        }
    }
    Ok((record, older))
}

fn build(shell: &Shell, program: &Program, arch: Arch, toolchain: &Toolchain) -> Result<Compiled> {
    let device_crate = DeviceCrate {
        manifest_dir: shell.root().join(program.folder),
        features: program.features.iter().map(|&feature| feature.to_owned()).collect(),
        arch,
        // One each: cargo lets one build at a time into a folder.
        target_dir: shell.target("device").join(arch.to_string()),
    };
    Ok(compile(&device_crate, toolchain)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_a_file_of_its_own() {
        let mut files: Vec<_> = PROGRAMS.iter().map(|program| (program.folder, program.name)).collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), PROGRAMS.len());
    }

    #[test]
    fn the_names_are_those_of_the_architectures() {
        assert_eq!(Arch::DEFAULT.map(|arch| arch.to_string()), ARCHS);
    }

    #[test]
    fn filters_choose() {
        let count = |package: &[&str], arch: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let options = PtxOptions { package: own(package), arch: own(arch), ..PtxOptions::checked() };
            let all = PROGRAMS.iter().flat_map(|program| Arch::DEFAULT.map(|arch| (program, arch)));
            all.filter(|(program, arch)| options.wants(program, *arch)).count()
        };
        assert_eq!(
            count(&[], &[]),
            PROGRAMS.iter().map(|program| program.compiled_for().len()).sum::<usize>()
        );
        assert_eq!(count(&["ringcall-kernels"], &["sm_90"]), 11);
        assert_eq!(count(&["ringcall-kernels"], &["sm_80"]), PROGRAMS.len());
    }

    #[test]
    fn a_text_has_a_file_or_is_made_of_one() {
        let shell = Shell::new().expect("a workspace");
        for program in PROGRAMS {
            for arch in Arch::DEFAULT {
                assert_eq!(
                    program.path(&shell, arch).is_file(),
                    program.committed_for().contains(&arch),
                    "{} {arch}",
                    program.name
                );
                let target = program.compiled_for().iter().rfind(|one| **one <= arch).expect("the oldest");
                let text = program.text(&shell, arch).expect("there is a text");
                assert!(text.contains(&format!("\n.target {target}\n")), "{} {arch}", program.name);
            }
        }
        assert!(committed(&shell, "dispatch", Arch::SM_80).is_ok());
        assert!(committed(&shell, "despatch", Arch::SM_80).is_err());
    }

    /// A file for another architecture earns its place by an instruction.
    #[test]
    fn no_architecture_differs_in_its_header_alone() {
        let shell = Shell::new().expect("a workspace");
        let body = |program: &Program, arch| {
            let text = program.text(&shell, arch).expect("committed");
            let lines = text
                .lines()
                .filter(|line| !["//", ".version", ".target"].iter().any(|head| line.starts_with(head)));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        for program in PROGRAMS {
            let bodies: Vec<_> = program.compiled_for().iter().map(|arch| body(program, *arch)).collect();
            for pair in bodies.windows(2) {
                assert_ne!(pair[0], pair[1], "{}: one architecture is enough", program.name);
            }
        }
    }
}
