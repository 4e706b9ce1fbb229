//! Committed PTX: what the crates for devices compile to, in the tree, so that building the host needs no toolchain for
//! devices and a review sees what a change does to the machine code.

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
use ringcall_build::{Arch, Compiled, DeviceCrate, Toolchain, compile};
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
    /// Those of [`Arch::DEFAULT`] that it is compiled for: the oldest alone where a newer one would change nothing but the
    /// file's header.
    archs: &'static [Arch],
}

/// The oldest architecture alone.
const OLDEST: &[Arch] = &[Arch::SM_80];

/// The kernel of `ringcall-kernels` that is the feature `features`, alone in its file.
const fn kernel(name: &'static str, features: &'static [&'static str]) -> Program {
    Program { package: "ringcall-kernels", folder: "device/kernels", features, name, archs: &Arch::DEFAULT }
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
    Program { archs: OLDEST, ..kernel("floor", &["floor"]) },
    kernel("transport", &["transport"]),
    Program { archs: OLDEST, ..kernel("samples", &["samples"]) },
    Program { archs: OLDEST, ..kernel("inference", &["inference"]) },
    // One exported function for each primitive; a test reads what became of them.
    Program {
        package: "ringcall-gpu-probes",
        folder: "device/gpu/probes",
        features: &[],
        name: "probes",
        archs: &Arch::DEFAULT,
    },
    // The launches, which link only with libcudadevrt.a.
    Program {
        package: "ringcall-gpu-probes",
        folder: "device/gpu/probes",
        features: &["graph"],
        name: "graph-probes",
        archs: OLDEST,
    },
];

impl Program {
    fn path(&self, shell: &Shell, arch: Arch) -> PathBuf {
        shell.root().join(self.folder).join(format!("ptx/{}.{arch}.ptx", self.name))
    }

    /// The newest of its files that a device of this architecture takes, as a driver's program chooses.
    fn path_for(&self, shell: &Shell, arch: Arch) -> PathBuf {
        let newest = self.archs.iter().copied().filter(|one| *one <= arch).max();
        self.path(shell, newest.unwrap_or(arch))
    }
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
        program.archs.contains(&arch)
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
        archs.into_iter().try_fold(Record::new(shell, options.mode()), |all, thread| {
            let more = thread.join().map_err(|_| anyhow!("a build panicked"))??;
            anyhow::Ok(all.and(&more))
        })
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
        for arch in program.archs.iter().filter(|arch| options.wants(program, **arch)) {
            let path = program.path(shell, *arch);
            let object = format!("{revision}:{}", below(shell.root(), &path));
            let committed = shell::read(&mut shell.command("git", &["show", &object])).ok();
            record.compare(&path, committed, &read(&path)?, |_| true)?;
        }
    }
    record.end("cargo xtask ptx")
}

/// Those of one architecture.
fn run_for(shell: &Shell, options: &PtxOptions, arch: Arch, toolchain: &Toolchain) -> Result<Record> {
    let mut record = Record::new(shell, options.mode());
    for program in PROGRAMS.iter().filter(|program| options.wants(program, arch)) {
        let built = build(shell, program, arch, toolchain)?;
        if !built.warnings.is_empty() {
            println!("{}", built.warnings);
            ensure!(!options.check, "{} for {arch}: compiles with warnings", program.package);
        }
        record.take(&program.path(shell, arch), &built.ptx, |_| true)?;
    }
    Ok(record)
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
        assert_eq!(count(&[], &[]), PROGRAMS.iter().map(|program| program.archs.len()).sum::<usize>());
        assert_eq!(count(&["ringcall-gpu-probes"], &[]), 3);
        assert_eq!(count(&["ringcall-gpu-probes"], &["sm_90"]), 1);
        assert_eq!(count(&["ringcall-kernels"], &["sm_90"]), 9);
    }

    /// A file for another architecture earns its place by an instruction.
    #[test]
    fn no_architecture_differs_in_its_header_alone() {
        let shell = Shell::new().expect("a workspace");
        let body = |program: &Program, arch| {
            let text = std::fs::read_to_string(program.path(&shell, arch)).expect("committed");
            let lines = text
                .lines()
                .filter(|line| !["//", ".version", ".target"].iter().any(|head| line.starts_with(head)));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        for program in PROGRAMS {
            let bodies: Vec<_> = program.archs.iter().map(|arch| body(program, *arch)).collect();
            for pair in bodies.windows(2) {
                assert_ne!(pair[0], pair[1], "{}: one architecture is enough", program.name);
            }
        }
    }
}
