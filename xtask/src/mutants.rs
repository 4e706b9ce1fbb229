//! Mutants: changes of the shipped sources, each of which the models have to notice.
//!
//! A model checks the interleavings of a protocol; a mutant checks the model. The list is `xtask/mutants.toml`: a weaker memory
//! order, a fence that is gone, two steps the other way round; defects of the past, which the simulator has to find. They are
//! made in a copy of the repository below the target folder.

use crate::files::{copy, emptied, read, write};
use crate::shell::{self, Shell};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The list.
const LIST: &str = "xtask/mutants.toml";
/// Processor time that each model of a mutant may take, or its worlds: they take a minute where nothing is changed. Other work on the same
/// machine makes it no longer.
const LIMIT: Duration = Duration::from_secs(600);
/// How long a mutant may take to build, and its models all together.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// The package that finds mutants by worlds that it simulates, and not by models.
const SIMULATOR: &str = "ringcall-simulator";
/// Within so many seeds.
const SEEDS: &str = "10000";
/// How `timeout` says that it was too long.
const TIMED_OUT: i32 = 124;
/// How a shell says that a program took too much processor time, and cargo of a test.
const OUT_OF_TIME: i32 = 128 + 24;
const SAYS_OUT_OF_TIME: &str = "SIGXCPU";

/// Which of them.
#[derive(clap::Args)]
pub(crate) struct MutantsOptions {
    /// Only mutants whose name or file contains this.
    filter: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    /// What is wrong then.
    name: String,
    file: String,
    /// A passage that the file has once.
    from: String,
    to: String,
    /// Other passages that change with it.
    #[serde(default)]
    also: Vec<Change>,
    /// The package whose models must fail.
    package: String,
    /// Why no model notices, and what proves the passage instead.
    survives: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    file: String,
    from: String,
    to: String,
}

/// How the models ended on a mutant.
enum End {
    /// They failed, as they should.
    Killed,
    /// A world broke a rule, and which.
    Broken(String),
    Survived,
    DidNotBuild,
    /// They did not end in time: a mutant that spins indefinitely is noticed, too.
    Endless,
}

/// Makes every mutant and runs the models on it.
pub(crate) fn run(shell: &Shell, options: &MutantsOptions) -> Result<()> {
    let list = list(shell.root())?;
    let tree = copy_of(shell)?;
    let filter = options.filter.as_deref().unwrap_or_default();
    let chosen: Vec<&Mutant> =
        list.iter().filter(|mutant| mutant.name.contains(filter) || mutant.file.contains(filter)).collect();
    ensure!(!chosen.is_empty(), "no mutant in {LIST} is about `{filter}`");
    let mut wrong = Vec::new();
    for (number, mutant) in chosen.iter().enumerate() {
        let begin = Instant::now();
        for (file, from, to) in mutant.changes() {
            let path = tree.join(file);
            write(&path, &mutant.changed(file, &read(&path)?, from, to)?)?;
        }
        let end = if mutant.package == SIMULATOR {
            worlds(shell, &tree)
        } else {
            models(shell, &tree, &mutant.package)
        };
        for (file, ..) in mutant.changes() {
            copy(&shell.root().join(file), &tree.join(file))?;
        }
        let (line, right) = match (end?, &mutant.survives) {
            (End::Killed, None) => ("noticed".to_owned(), true),
            (End::Broken(how), None) => (format!("found: {how}"), true),
            (End::Endless, None) => ("noticed: it spins for ever".to_owned(), true),
            (End::Survived, Some(why)) => (format!("not noticed, as said: {why}"), true),
            (End::Survived, None) => ("NOT NOTICED".to_owned(), false),
            (End::DidNotBuild, _) => ("DOES NOT BUILD".to_owned(), false),
            (_, Some(_)) => ("noticed, and the list says that it is not".to_owned(), false),
        };
        let seconds = begin.elapsed().as_secs();
        println!("[{}/{}] {} ({}): {line}, {seconds} s", number + 1, chosen.len(), mutant.name, mutant.file);
        if !right {
            wrong.push(mutant.name.as_str());
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!("{} of {} mutants are not as {LIST} says: {}", wrong.len(), chosen.len(), wrong.join("; "))
}

fn list(root: &Path) -> Result<Vec<Mutant>> {
    let list: List = toml::from_str(&read(&root.join(LIST))?).context(LIST)?;
    Ok(list.mutant)
}

impl Mutant {
    /// File, passage, and what takes its place.
    fn changes(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let also = self.also.iter().map(|change| (&*change.file, &*change.from, &*change.to));
        std::iter::once((&*self.file, &*self.from, &*self.to)).chain(also)
    }

    /// A file with one change.
    fn changed(&self, file: &str, whole: &str, from: &str, to: &str) -> Result<String> {
        let times = whole.matches(from).count();
        ensure!(times == 1, "{}: {file} has the passage {times} times, not once", self.name);
        Ok(whole.replace(from, to))
    }
}

/// The files that git knows, in a folder of their own.
fn copy_of(shell: &Shell) -> Result<std::path::PathBuf> {
    let tree = emptied(shell.target("mutants").join("tree"))?;
    for file in shell::read(&mut shell.command("git", &["ls-files"]))?.lines() {
        let to = tree.join(file);
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        copy(&shell.root().join(file), &to)?;
    }
    Ok(tree)
}

fn limit() -> String {
    LIMIT.as_secs().to_string()
}

/// What runs the arguments that follow, each of its processes with so many seconds of processor time.
fn bounded(shell: &Shell, limit: &str) -> Command {
    let timeout = TIMEOUT.as_secs().to_string();
    // `timeout` ends the children of what it runs, too.
    let mut command = shell.command("timeout", &[&timeout, "bash", "-c", "ulimit -S -t $0; \"$@\"", limit]);
    command.stdin(Stdio::null());
    command
}

/// Runs the models of a package in the copy.
fn models(shell: &Shell, tree: &Path, package: &str) -> Result<End> {
    let cargo = |limit: &str, arguments: &[&str]| {
        let mut command = bounded(shell, limit);
        command
            .args(["cargo", "test", "--release", "--quiet", "-p", package])
            .args(["--test", "loom_*"])
            .args(arguments)
            .current_dir(tree)
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", "2")
            .env("RUST_BACKTRACE", "0")
            .env("CARGO_TARGET_DIR", shell.target("mutants").join("build"));
        command
    };
    let log = shell.target("mutants").join("last.log");
    let output = || File::create(&log).with_context(|| log.display().to_string());
    let built =
        cargo("unlimited", &["--no-run"]).stdout(output()?).stderr(output()?).status().context("cargo")?;
    if !built.success() {
        return Ok(End::DidNotBuild);
    }
    let status = cargo(&limit(), &[]).stdout(output()?).stderr(output()?).status().context("cargo")?;
    Ok(match status.code() {
        Some(0) => End::Survived,
        Some(TIMED_OUT) => End::Endless,
        _ if read(&log)?.contains(SAYS_OUT_OF_TIME) => End::Endless,
        _ => End::Killed,
    })
}

/// Runs the simulator in the copy.
fn worlds(shell: &Shell, tree: &Path) -> Result<End> {
    let build = shell.target("mutants").join("build-simulator");
    let log = shell.target("mutants").join("last.log");
    let output = || File::create(&log).with_context(|| log.display().to_string());
    let cargo = &["build", "--release", "--quiet", "-p", SIMULATOR, "--example", "simulate"];
    let mut cargo = shell.cargo(cargo);
    cargo.current_dir(tree).env("CARGO_TARGET_DIR", &build).stdout(output()?).stderr(output()?);
    if !cargo.status().context("cargo")?.success() {
        return Ok(End::DidNotBuild);
    }
    let program = build.join("release/examples/simulate");
    let mut run = bounded(shell, &limit());
    run.arg(&program).args(["--seeds", SEEDS]);
    let status = run.stdout(output()?).stderr(output()?).status().context("the simulator")?;
    let said = read(&log)?;
    Ok(match status.code() {
        Some(0) => End::Survived,
        Some(TIMED_OUT | OUT_OF_TIME) => End::Endless,
        _ => End::Broken(said.lines().find(|line| line.starts_with("seed ")).unwrap_or("a panic").to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A passage that moved would make its mutant none.
    #[test]
    fn every_mutant_changes_a_passage_that_is_there_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
        let list = list(root).expect("a list");
        assert!(list.len() >= 22, "{}", list.len());
        for mutant in &list {
            for (file, from, to) in mutant.changes() {
                let whole = read(&root.join(file)).expect(&mutant.name);
                assert_ne!(
                    mutant.changed(file, &whole, from, to).expect(&mutant.name),
                    whole,
                    "{}",
                    mutant.name
                );
            }
        }
    }
}
