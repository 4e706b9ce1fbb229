//! Steps: the commands of each task.

use crate::advisories;
use crate::files::{self, entries, has_ending, text};
use crate::parallel::each;
use crate::ptx;
use crate::rooms;
use crate::shell::{Shell, run};
use crate::training;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long a check fuzzes each target unless told otherwise: long enough to meet the seeds and their neighbours again,
/// short enough to run before every merge. Finding something new takes hours: `cargo xtask fuzz --seconds 3600`.
pub(crate) const FUZZ_SECONDS: u32 = 4;

/// Version of cargo-deny, since its configuration changes between versions.
const CARGO_DENY: &str = "0.20.2";
/// Version of cargo-fuzz.
const CARGO_FUZZ: &str = "0.13.2";

/// The crates that hold memory shared between threads: what sanitizers are for.
const SHARED_MEMORY_CRATES: &[&str] = &[
    "ringcall-gpu",
    "ringcall-protocol",
    "ringcall-mlx5",
    "ringcall-dispatcher",
    "ringcall-sim",
    "ringcall",
    "ringcall-pipeline",
];

/// How a step that did not fail ended.
#[derive(Clone, Copy)]
pub(crate) enum Outcome {
    /// It ran and found nothing.
    Done,
    /// It could not run on this machine, and why.
    Skipped(&'static str),
}

const NO_NIGHTLY: Outcome = Outcome::Skipped("no nightly toolchain (`rustup toolchain install nightly`)");

/// Runs the commands in order.
fn all<const N: usize>(commands: [&mut Command; N]) -> Result<Outcome> {
    for command in commands {
        run(command)?;
    }
    Ok(Outcome::Done)
}

/// The README's command, as it stands there. Builds every example and runs every doctest too.
pub(crate) fn test(shell: &Shell) -> Result<Outcome> {
    all([&mut shell.cargo(&["test", "--workspace"])])
}

pub(crate) fn fmt(shell: &Shell) -> Result<Outcome> {
    all([&mut shell.cargo(&["fmt", "--all", "--check"])])
}

pub(crate) fn clippy(shell: &Shell) -> Result<Outcome> {
    all([&mut shell.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])])
}

pub(crate) fn docs(shell: &Shell) -> Result<Outcome> {
    all([shell
        .cargo(&["doc", "--workspace", "--no-deps", "--features", "ringcall-cli/onnx"])
        .env("RUSTDOCFLAGS", "-D warnings")])
}

pub(crate) fn rooms(shell: &Shell) -> Result<Outcome> {
    rooms::check(shell)?;
    Ok(Outcome::Done)
}

/// The committed PTX is what the sources compile to, and NVIDIA's tools take it. Never skipped: a change to device code
/// is not checked without.
pub(crate) fn ptx(shell: &Shell) -> Result<Outcome> {
    ptx::run(shell, &ptx::PtxOptions::checked())?;
    ptx::assemble(shell)?;
    Ok(Outcome::Done)
}

/// The Python package that has ONNX Runtime's library.
const ONNXRUNTIME: &str = "onnxruntime==1.31.*";

/// Names another library than PyPI's.
const ORT_VARIABLE: &str = "ORT_DYLIB_PATH";

/// ONNX Runtime's library: the one that `ORT_DYLIB_PATH` names, or PyPI's, which is installed once.
///
/// # Errors
/// Neither.
pub(crate) fn onnxruntime_library(shell: &Shell) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(ORT_VARIABLE) {
        return Ok(path.into());
    }
    let folder = shell.target("tools").join("onnxruntime");
    let capi = folder.join("onnxruntime/capi");
    if library_in(&capi).is_none() {
        shell.pip(&folder, &["--no-deps", ONNXRUNTIME])?;
    }
    library_in(&capi).with_context(|| format!("no libonnxruntime.so in {}", capi.display()))
}

/// The engine over ONNX Runtime, with its library: the library that `ORT_DYLIB_PATH` names, or PyPI's, which
/// is installed below the target folder. Then the tests of the networks' files, which run them in it from
/// Python.
pub(crate) fn onnxruntime(shell: &Shell) -> Result<Outcome> {
    let Ok(library) = onnxruntime_library(shell) else {
        return Ok(Outcome::Skipped(
            "no ONNX Runtime from PyPI (needs python3 with pip), none in ORT_DYLIB_PATH",
        ));
    };
    // Of the whole workspace, so that nothing is built again with fewer features.
    const TESTS: &[&str] = &["--test", "onnxruntime_*"];
    let command = [&["test", "--workspace"], TESTS, &["--", "--nocapture"]].concat();
    run(shell.cargo(&command).env(ORT_VARIABLE, library))?;
    if training::test(shell)? {
        return Ok(Outcome::Done);
    }
    Ok(Outcome::Skipped("the second half: no packages from PyPI for the tests of the networks' files"))
}

/// ONNX Runtime's library in a folder; its name ends in its version.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let named = |path: &PathBuf| path.file_name()?.to_str()?.starts_with("libonnxruntime.so").then_some(());
    entries(folder).ok()?.into_iter().find(|path| named(path).is_some())
}

/// RustSec's database, which `advisories` clones.
const ADVISORIES: &str = "https://github.com/rustsec/advisory-db";

/// Bans, licences, sources and advisories: those of the database where it can be cloned, which a machine with package registries alone
/// cannot, else those of a dated copy.
pub(crate) fn deny(shell: &Shell) -> Result<Outcome> {
    let deny = shell.tool("cargo-deny", CARGO_DENY)?;
    let deny = deny.to_string_lossy();
    let mut checks = vec!["bans", "licenses", "sources"];
    // `git` by itself waits for minutes where packets are dropped.
    let mut probe = shell.command("timeout", &["20", "git", "ls-remote", "--exit-code", ADVISORIES, "HEAD"]);
    let probed = probe.env("GIT_TERMINAL_PROMPT", "0").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if probed.is_ok_and(|status| status.success()) {
        checks.push("advisories");
    } else {
        println!("{ADVISORIES} is not reached: advisories are those of a dated copy");
        advisories::check(shell)?;
    }
    let common = ["--locked", "--all-features", "check", "--hide-inclusion-graph"];
    all([&mut shell.command(&deny, &[&common[..], &checks].concat())])
}

/// The chaos test with four times the requests that `cargo test` has.
pub(crate) fn chaos(shell: &Shell) -> Result<Outcome> {
    // Of the whole workspace, so that nothing is built again with fewer features.
    all([shell.cargo(&["test", "--workspace", "--test", "chaos"]).env("RINGCALL_CHAOS_REQUESTS", "4000000")])
}

/// The simulator's test over more seeds than `cargo test` runs.
pub(crate) fn worlds(shell: &Shell) -> Result<Outcome> {
    // Of the whole workspace, so that nothing is built again with fewer features.
    all([shell.cargo(&["test", "--workspace", "--test", "worlds"]).env("RINGCALL_SIMULATOR_SEEDS", "10000")])
}

/// The simulator, with arguments of its own.
pub(crate) fn simulate(shell: &Shell, arguments: &[String]) -> Result<Outcome> {
    const PROGRAM: &[&str] = &["run", "--release", "-p", "ringcall-simulator", "--example", "simulate", "--"];
    all([shell.cargo(PROGRAM).args(arguments)])
}

/// Release, since loom explores millions of interleavings; two preemptions find almost everything that any number
/// would, in seconds instead of hours.
pub(crate) fn loom(shell: &Shell) -> Result<Outcome> {
    all([shell
        .cargo(&[
            "test",
            "-p",
            "ringcall-gpu",
            "-p",
            "ringcall-protocol",
            "-p",
            "ringcall-mlx5",
            "-p",
            "ringcall-dispatcher",
            "-p",
            "ringcall-sim",
            "-p",
            "ringcall-pipeline",
        ])
        .args(["--release", "--test", "loom_*"])
        // Of all dependencies, models spend time in loom and its coroutines alone.
        .args(["--config", "profile.release.package.'*'.opt-level=0"])
        .args(["--config", "profile.release.package.loom.opt-level=3"])
        .args(["--config", "profile.release.package.generator.opt-level=3"])
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .env("CARGO_TARGET_DIR", shell.target("loom"))])
}

/// Tests that take too long when they are instrumented. The sanitizers get other tests of the same code: with fewer threads than the
/// tests of the persistent dispatcher that play many warps in lock step, and with threads, where an adapter does a thousand laps on one.
const TOO_LONG: &[&str] = &[
    "a_thousand_laps",
    "garbage::",
    "graphs::",
    "grid::",
    "park::",
    "serve::as_many",
    "serve::several",
    "serve::two_blocks",
    "serve::warps_of",
    "share::",
    "slots::",
];

/// The C programs with their compiler's sanitizers.
pub(crate) fn sanitize_c(shell: &Shell) -> Result<Outcome> {
    // Of the whole workspace, so that nothing is built again with fewer features.
    run(shell
        .cargo(&["test", "--workspace", "--test", "c_programs"])
        .env("RINGCALL_C_SANITIZE", "address,undefined"))?;
    run(shell
        .cargo(&["test", "--workspace", "--test", "c_programs", "a_pipeline"])
        .env("RINGCALL_C_SANITIZE", "thread"))?;
    Ok(Outcome::Done)
}

/// Both sanitizers of Rust over the tests of the crates that share memory. The standard library is not instrumented (that takes
/// its sources); what the crates themselves do is.
pub(crate) fn sanitize(shell: &Shell) -> Result<Outcome> {
    if !shell.has_nightly() {
        return Ok(NO_NIGHTLY);
    }
    let host = shell.host()?;
    let tsan = format!(
        "halt_on_error=1 suppressions={}",
        shell.root().join("xtask/tsan-suppressions.txt").display()
    );
    for flags in [
        "-Zsanitizer=address",
        // The standard library was built without: the mismatch is known and harmless.
        "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer",
    ] {
        // `--target` keeps the flags away from build scripts and macros. No doctests: rustdoc has its own
        // flags.
        let mut command = shell.nightly_cargo(&["test", "--target", &host, "--lib", "--tests"]);
        for package in SHARED_MEMORY_CRATES {
            command.args(["-p", package]);
        }
        // Nor captured output: tests that panic on several threads at once write it into one buffer, under a lock of the
        // standard library's that a sanitizer does not see.
        command.args(["--", "--no-capture"]);
        for tests in TOO_LONG {
            command.args(["--skip", tests]);
        }
        run(command
            .env("RUSTFLAGS", flags)
            // A report names lines.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("TSAN_OPTIONS", &tsan)
            // Instrumented code is slow, and what a sanitizer finds needs no long search of inputs.
            .env("PROPTEST_CASES", "32")
            // Printing one takes locks of the standard library's that a sanitizer does not see.
            .env("RUST_BACKTRACE", "0")
            .env("RINGCALL_CHAOS_REQUESTS", "50000")
            // One for both: what runs on the host alone, build scripts and macros, has no flags and is built once.
            .env("CARGO_TARGET_DIR", shell.target("sanitize")))?;
    }
    Ok(Outcome::Done)
}

/// Every target in `fuzz/`, or `one` of them, for `seconds` each, from the inputs in `fuzz/seeds/TARGET` where there are any.
pub(crate) fn fuzz(shell: &Shell, seconds: u32, one: Option<&str>) -> Result<Outcome> {
    if !shell.has_nightly() {
        return Ok(NO_NIGHTLY);
    }
    let folder = shell.root().join("fuzz/fuzz_targets");
    let sources = entries(&folder)?.into_iter().filter(|path| has_ending(path, "rs"));
    let mut targets: Vec<String> =
        sources.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    ensure!(!targets.is_empty(), "no fuzz target in {}", folder.display());
    if let Some(one) = one {
        let there = targets.join(", ");
        targets.retain(|target| target == one);
        ensure!(!targets.is_empty(), "no fuzz target `{one}`; there are: {there}");
    }

    let built = shell.target("fuzz");
    let mut build = shell.command("rustup", &["run", "nightly"]);
    build.arg(shell.tool("cargo-fuzz", CARGO_FUZZ)?).args(["fuzz", "build"]).args(one);
    if seconds <= FUZZ_SECONDS {
        // A short run is worth a short build. What it finds is run again with a long one, which names lines. The profile does not
        // decide on lines here: cargo-fuzz does.
        build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("RUSTFLAGS", "-Cdebuginfo=0");
    }
    run(build.env("CARGO_TARGET_DIR", &built))?;
    let programs = built.join(shell.host()?).join("release");
    let time = format!("-max_total_time={seconds}");
    let fuzz_one = |target: &str| {
        // The first folder grows as inputs are found and is not committed; the second is committed and only
        // read.
        let corpus = files::folder(shell.root().join("fuzz/corpus").join(target))?;
        let seeds = shell.root().join("fuzz/seeds").join(target);
        let found = files::folder(shell.root().join("fuzz/artifacts").join(target))?;
        let mut command = shell.command(&text(&programs.join(target)), &[&time, "-print_final_stats=1"]);
        command.arg(format!("-artifact_prefix={}/", found.display())).arg(&corpus);
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        run(&mut command)
    };
    // Each takes one core.
    each(&targets, |target| fuzz_one(target))?;
    Ok(Outcome::Done)
}
