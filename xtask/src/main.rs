//! Developer tasks: `cargo xtask <task>`. What runs before every merge is `cargo xtask ci`.
//! `cargo xtask --help` lists the rest.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // a command-line tool: standard output is its user interface

mod aarch64;
mod advisories;
mod book;
mod browser;
mod bundle;
mod charts;
mod ci;
mod deq;
mod dist;
mod dist_compat;
mod dist_device;
mod dist_names;
mod doca;
mod files;
mod metadata;
mod mutants;
mod package;
mod pages;
mod parallel;
mod ptx;
mod publish;
mod rdma;
mod rooms;
mod semver;
mod shell;
mod steps;
mod tensorrt;
mod training;
mod wheel;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

use crate::shell::Shell;
use crate::steps::Outcome;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of Ringcall.")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Every check, in order, stopping at the first that fails.
    Ci {
        /// Only this step; may be given several times.
        #[arg(long, value_name = "STEP", value_parser = ci::names())]
        only: Vec<String>,
    },
    /// Formatting and clippy, warnings as errors.
    Lint,
    /// The architecture's invariants.
    Rooms,
    /// The committed PTX: what the crates for devices compile to. Needs a toolchain for devices.
    Ptx(ptx::PtxOptions),
    /// Assembles and links the committed PTX with NVIDIA's tools; needs no GPU.
    PtxCheck,
    /// The documentation, warnings as errors.
    Docs,
    /// Licences, sources and bans of the dependencies.
    Deny,
    /// The model-checked protocols.
    Loom,
    /// Mutants of the shipped sources, each of which the model-checked protocols have to notice: about a quarter of an hour.
    Mutants(mutants::MutantsOptions),
    /// Peers, networks, clocks and faults from a seed, over the code that ships: `--seeds N --from S`, or `--seed N`; `--help`.
    Simulate {
        /// For the simulator.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// AddressSanitizer and ThreadSanitizer on the C programs and on the crates under the rings. Needs a nightly toolchain.
    Sanitize,
    /// Every fuzz target, or one, for a bounded time. Needs a nightly toolchain.
    Fuzz {
        /// Seconds for each target.
        #[arg(long, default_value_t = steps::FUZZ_SECONDS)]
        seconds: u32,
        /// This one alone: a file's name in `fuzz/fuzz_targets`.
        #[arg(long)]
        target: Option<String>,
    },
    /// The tests of the engine over ONNX Runtime, with the library that ORT_DYLIB_PATH names, or PyPI's.
    Onnxruntime,
    /// The tree that C programs install, in `target/dist`.
    Dist(dist::DistOptions),
    /// The TensorRT engine's tests, with libraries and headers from package registries; needs no GPU.
    Tensorrt(tensorrt::TensorRtOptions),
    /// The book's chapters, links and quoted code; its pages in `target/book`, by an mdBook from crates.io.
    Book,
    /// The charts of the pages on performance, from their committed JSON.
    Charts,
    /// The reports in Chromium, which is installed from Debian where it can be; pictures of the pages in `target/screenshots`.
    Browser,
    /// Asks `ringcall serve` from a verbs program on Linux's software RoCE, in a small virtual machine.
    Rdma,
    /// Compiles the code that includes a DOCA SDK's headers: those of `RINGCALL_DOCA_INCLUDE`, or a stand-in of ours.
    Doca,
    /// Lints the crates with code of an architecture for aarch64 Linux; needs that target of the toolchain.
    Aarch64,
    /// The Python wheel's lints and tests, in a virtual environment: about four minutes. Needs python3 with venv, and PyPI.
    Wheel(wheel::WheelOptions),
    /// The command as a static program in a tarball and as a Debian package, and the wheel, in `target/packages`; each is installed and run.
    Package(package::PackageOptions),
    /// The packages of the crates that are published, without building them. Needs the index of crates.io.
    Publishable,
    /// What changed in the interfaces of the published crates since the last tag, or another revision, against their version. Needs
    /// crates.io, for cargo-semver-checks and for what the crates depend on.
    Semver(semver::SemverOptions),
    /// What a machine with a GPU needs to test and measure: programs and a script, in `target/gpu-bundle`.
    GpuBundle(bundle::BundleOptions),
}

fn main() -> ExitCode {
    match run(Args::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let shell = Shell::new()?;
    match task {
        Task::Ci { only } => ci::run(&shell, &only),
        Task::Lint => steps::fmt(&shell).and_then(|_| steps::clippy(&shell)).map(drop),
        Task::Rooms => steps::rooms(&shell).map(drop),
        Task::Ptx(options) => ptx::run(&shell, &options),
        Task::PtxCheck => ptx::assemble(&shell),
        Task::Docs => steps::docs(&shell).map(drop),
        Task::Deny => steps::deny(&shell).map(drop),
        Task::Loom => steps::loom(&shell).map(drop),
        Task::Mutants(options) => mutants::run(&shell, &options),
        Task::Simulate { arguments } => steps::simulate(&shell, &arguments).map(drop),
        Task::Sanitize => steps::sanitize_c(&shell).and_then(|_| steps::sanitize(&shell)).and_then(asked_for),
        Task::Fuzz { seconds, target } => steps::fuzz(&shell, seconds, target.as_deref()).and_then(asked_for),
        Task::Onnxruntime => steps::onnxruntime(&shell).and_then(asked_for),
        Task::Dist(options) => dist::make(&shell, &options, dist::Profile::Release),
        Task::Book => book::step(&shell).and_then(|_| pages::step(&shell)).and_then(asked_for),
        Task::Charts => charts::write(shell.root()),
        Task::Browser => browser::step(&shell).and_then(asked_for),
        Task::Rdma => rdma::step(&shell).and_then(asked_for),
        Task::Doca => doca::step(&shell).and_then(asked_for),
        Task::Aarch64 => aarch64::step(&shell).and_then(asked_for),
        Task::Tensorrt(options) => tensorrt::run_with(&shell, &options),
        Task::Wheel(options) => wheel::test(&shell, &options).and_then(asked_for),
        Task::Package(options) => package::make(&shell, &options).and_then(asked_for),
        Task::Publishable => publish::step(&shell).and_then(asked_for),
        Task::Semver(options) => semver::step(&shell, &options).and_then(asked_for),
        Task::GpuBundle(options) => bundle::make(&shell, &options),
    }
}

/// A step that was asked for by name must not be skipped in silence.
fn asked_for(outcome: Outcome) -> Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Skipped(why) => anyhow::bail!("{why}"),
    }
}
