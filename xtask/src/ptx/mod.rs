//! PTX of record: what the crates for devices compile to, committed, so that building the host needs no toolchain for
//! devices and a review sees what a change does to the machine code.

mod assemble;
mod cpp;
mod cuda;
pub(crate) use cuda::Cuda;
mod diff;
mod record;

pub(crate) use assemble::check as assemble;

use crate::shell::Shell;
use anyhow::{Result, anyhow, ensure};
use record::Record;
use ringcall_build::{Arch, Compiled, DeviceCrate, Toolchain, compile};
use std::path::PathBuf;
use std::thread;

/// A text of record: a package with some of its features.
struct Program {
    package: &'static str,
    /// Where the package is, from the repository's root.
    folder: &'static str,
    features: &'static [&'static str],
    /// `folder/ptx/NAME.sm_90.ptx`.
    name: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program { package: "ringcall-kernels", folder: "device/kernels", features: &[], name: "dispatch" },
    Program { package: "ringcall-kernels", folder: "device/kernels", features: &["graph"], name: "graph" },
    Program {
        package: "ringcall-kernels",
        folder: "device/kernels",
        features: &["unified"],
        name: "unified",
    },
    Program {
        package: "ringcall-kernels",
        folder: "device/kernels",
        features: &["unified-grid"],
        name: "unified-grid",
    },
    // The launches, which link only with libcudadevrt.a.
    Program {
        package: "ringcall-kernels",
        folder: "device/kernels",
        features: &["unified-graph"],
        name: "unified-graph",
    },
    Program { package: "ringcall-kernels", folder: "device/kernels", features: &["hooks"], name: "hooks" },
    Program {
        package: "ringcall-kernels",
        folder: "device/kernels",
        features: &["transport"],
        name: "transport",
    },
    Program { package: "ringcall-samples", folder: "device/samples", features: &[], name: "samples" },
    Program { package: "ringcall-service-kernels", folder: "device/service", features: &[], name: "service" },
    // One exported function for each primitive; a test reads what became of them.
    Program { package: "ringcall-gpu-probes", folder: "device/gpu/probes", features: &[], name: "probes" },
    // The launches, which link only with libcudadevrt.a.
    Program {
        package: "ringcall-gpu-probes",
        folder: "device/gpu/probes",
        features: &["graph"],
        name: "graph-probes",
    },
];

impl Program {
    fn path(&self, shell: &Shell, arch: Arch) -> PathBuf {
        shell.root().join(self.folder).join(format!("ptx/{}.{arch}.ptx", self.name))
    }
}

/// What to build, and whether to write it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Compare with the committed files and write nothing.
    #[arg(long)]
    check: bool,
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

impl Options {
    /// Everything, compared.
    pub(crate) fn checked() -> Self {
        Self { check: true, package: Vec::new(), arch: Vec::new(), cuda: false }
    }

    fn wants(&self, program: &Program, arch: Arch) -> bool {
        let all = |chosen: &[String], name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);
        all(&self.package, program.package) && all(&self.arch, &arch.to_string())
    }
}

fn packages() -> Vec<&'static str> {
    let mut names: Vec<_> = PROGRAMS.iter().map(|program| program.package).collect();
    names.dedup();
    names
}

/// [`Arch::DEFAULT`], by name.
const ARCHS: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// Builds the texts of record and writes them, or compares them with what is committed.
///
/// # Errors
/// No toolchain for devices; device code that does not compile, or that compiles with warnings when it is to be
/// checked; a text that is not the committed one.
pub(crate) fn run(shell: &Shell, options: &Options) -> Result<()> {
    if options.cuda {
        return cpp::run(shell, &cuda::Cuda::find(shell)?, options.check);
    }
    let toolchain = Toolchain::find()?;
    println!("{} ({})", toolchain.version(), toolchain.rustc().display());
    // At once: each is one long chain of compilations, the core library's first.
    thread::scope(|scope| {
        let archs = Arch::DEFAULT.map(|arch| {
            let toolchain = &toolchain;
            scope.spawn(move || run_for(shell, options, arch, toolchain))
        });
        archs.into_iter().try_fold(Record::new(shell, options.check), |all, thread| {
            let more = thread.join().map_err(|_| anyhow!("a build panicked"))??;
            anyhow::Ok(all.and(&more))
        })
    })?
    .end("cargo xtask ptx")
}

/// Those of one architecture.
fn run_for(shell: &Shell, options: &Options, arch: Arch, toolchain: &Toolchain) -> Result<Record> {
    let mut record = Record::new(shell, options.check);
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
            let options = Options { check: true, package: own(package), arch: own(arch), cuda: false };
            let all = PROGRAMS.iter().flat_map(|program| Arch::DEFAULT.map(|arch| (program, arch)));
            all.filter(|(program, arch)| options.wants(program, *arch)).count()
        };
        assert_eq!(count(&[], &[]), PROGRAMS.len() * 3);
        assert_eq!(count(&["ringcall-samples"], &[]), 3);
        assert_eq!(count(&["ringcall-kernels"], &["sm_90"]), 7);
    }
}
