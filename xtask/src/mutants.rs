//! Mutants of the shipped sources, each of which the models have to notice.
//!
//! A model checks the interleavings of a protocol; a mutant checks the model. The list is `xtask/mutants.toml`: a weaker memory
//! order, a fence that is gone, two steps the other way round. They are made in a copy of the repository below the target
//! folder.

use crate::files::{copy, emptied, read, write};
use crate::shell::{self, Shell};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// The list.
const LIST: &str = "xtask/mutants.toml";
/// How long the models of one mutant may take: they take a minute where nothing is changed.
const LIMIT: Duration = Duration::from_secs(600);
/// How `timeout` says that it was too long.
const TIMED_OUT: i32 = 124;

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
    /// The package whose models must fail.
    package: String,
    /// Why no model notices, and what proves the passage instead.
    survives: Option<String>,
}

/// How the models ended on a mutant.
enum End {
    /// They failed, as they should.
    Killed,
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
        let path = tree.join(&mutant.file);
        let whole = read(&path)?;
        write(&path, &mutant.of(&whole)?)?;
        let end = models(shell, &tree, &mutant.package);
        write(&path, &whole)?;
        let (line, right) = match (end?, &mutant.survives) {
            (End::Killed, None) => ("noticed".to_owned(), true),
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
    /// The file with the change.
    fn of(&self, whole: &str) -> Result<String> {
        let times = whole.matches(&self.from).count();
        ensure!(times == 1, "{}: {} has the passage {times} times, not once", self.name, self.file);
        Ok(whole.replace(&self.from, &self.to))
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

/// Runs the models of a package in the copy.
fn models(shell: &Shell, tree: &Path, package: &str) -> Result<End> {
    // `timeout` ends cargo's children with it.
    let limit = LIMIT.as_secs().to_string();
    let cargo = |arguments: &[&str]| {
        let mut command =
            shell.command("timeout", &[&limit, "cargo", "test", "--release", "--quiet", "-p", package]);
        command
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
    let built = cargo(&["--no-run"]).stdout(output()?).stderr(output()?).status().context("cargo")?;
    if !built.success() {
        return Ok(End::DidNotBuild);
    }
    let status = cargo(&[]).stdout(output()?).stderr(output()?).status().context("cargo")?;
    Ok(match status.code() {
        Some(0) => End::Survived,
        Some(TIMED_OUT) => End::Endless,
        _ => End::Killed,
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
            let whole = read(&root.join(&mutant.file)).expect(&mutant.name);
            assert_ne!(mutant.of(&whole).expect(&mutant.name), whole, "{}", mutant.name);
        }
    }
}
