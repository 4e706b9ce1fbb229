//! The architecture's invariants, checked on the source: who depends on whom, where `unsafe` lives, what device code
//! never does, where the protocol's numbers stand.
//!
//! Each rule carries a small tree that breaks it. Every run checks first that the rule finds the planted breach: a rule
//! that has gone blind fails the check as loudly as a breach would.

mod circles;
mod dependencies;
mod device;
mod fences;
mod literals;
mod names;
mod prose;
mod records;
mod retired;
mod scan;
mod size;
mod specification;
mod targets;
mod unsafety;

use crate::files::{self, below, entries, has_ending};
use crate::metadata::Metadata;
use crate::shell::Shell;
use anyhow::{Result, bail, ensure};
use scan::SourceFile;
use std::path::Path;

/// What the rules look at.
#[derive(Default)]
struct Tree {
    files: Vec<SourceFile>,
    packages: Vec<Package>,
    /// Programs and tests at the root, relative to it, which no package finds by itself.
    loose: Vec<String>,
    /// The text of the specification's table.
    specification: String,
    /// Documents at the root, by name.
    documents: Vec<String>,
}

/// A package of ours.
#[derive(Default)]
struct Package {
    name: String,
    /// Names of the packages it depends on, in any way.
    dependencies: Vec<String>,
    /// Source files of its targets, from the repository's root, with `/`.
    targets: Vec<String>,
    /// Whether it goes to a registry.
    published: bool,
}

impl Package {
    /// The members of the workspace.
    fn all(shell: &Shell) -> Result<Vec<Self>> {
        let packages = Metadata::read(shell, &["--no-deps"])?.packages;
        let of = |package: crate::metadata::Package| Self {
            published: package.publish.is_none(),
            name: package.name,
            dependencies: package.dependencies.into_iter().map(|dependency| dependency.name).collect(),
            targets: package
                .targets
                .iter()
                // The path of a target outside of its package has `..` in it.
                .map(|target| target.src_path.canonicalize().unwrap_or_else(|_| target.src_path.clone()))
                .map(|path| below(shell.root(), &path))
                .collect(),
        };
        Ok(packages.into_iter().map(of).collect())
    }
}

/// One invariant.
struct Rule {
    /// Short, for review comments.
    name: &'static str,
    /// What holds, and why.
    says: &'static str,
    /// Where it does not hold: `path:line: what`.
    check: fn(&Tree) -> Vec<String>,
    /// A tree in which it does not.
    planted: fn() -> Tree,
}

const RULES: &[Rule] = &[
    circles::RULE,
    dependencies::RULE,
    unsafety::RULE,
    device::RULE,
    fences::RULE,
    literals::RULE,
    names::RULE,
    prose::RULE,
    records::RULE,
    retired::RULE,
    size::RULE,
    specification::RULE,
    targets::RULE,
];

/// Checks the repository against every rule.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    for rule in RULES {
        ensure!(
            !(rule.check)(&(rule.planted)()).is_empty(),
            "the rule `{}` no longer finds its own planted breach",
            rule.name
        );
    }
    let tree = Tree {
        files: scan::read(shell.root())?,
        packages: Package::all(shell)?,
        loose: targets::loose(shell.root())?,
        specification: files::read(&shell.root().join(specification::TABLE))?,
        documents: documents(shell.root())?,
    };
    let mut breaches = 0;
    for rule in RULES {
        let found = (rule.check)(&tree);
        if !found.is_empty() {
            println!("{}: {}", rule.name, rule.says);
            for line in &found {
                println!("  {line}");
            }
        }
        breaches += found.len();
    }
    println!("{} rules over {} files of {} packages", RULES.len(), tree.files.len(), tree.packages.len());
    if breaches > 0 {
        bail!("{breaches} breaches of the architecture's invariants");
    }
    Ok(())
}

/// The names of the documents at the root.
fn documents(root: &Path) -> Result<Vec<String>> {
    let paths = entries(root)?;
    Ok(paths.iter().filter(|path| has_ending(path, "md")).map(|path| below(root, path)).collect())
}

#[cfg(test)]
impl Tree {
    fn of(path: &str, text: &str) -> Self {
        Self::default().with(path, text)
    }

    fn with(mut self, path: &str, text: &str) -> Self {
        self.files.push(SourceFile::new(path, text).expect("it parses"));
        self
    }
}

/// A tree of one file, for the breaches that rules plant. (A planted text that does not parse leaves the tree empty,
/// and the rule is then reported blind.)
fn planted(path: &str, text: &str) -> Tree {
    Tree { files: SourceFile::new(path, text).into_iter().collect(), ..Tree::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_sees_what_was_planted_and_nothing_in_an_empty_tree() {
        for rule in RULES {
            assert_eq!((rule.check)(&(rule.planted)()).len(), 1, "{}", rule.name);
            assert!((rule.check)(&Tree::default()).is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn rules_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
