//! Rule about targets: every program in `examples/` and `tests/` is built.
//!
//! Cargo finds these folders inside a package by itself, but not at the workspace's root: a file there that
//! no package names is never compiled, and rots. `cargo test --workspace` compiles every named file.

use super::{Package, Rule, Tree};
use crate::files::{below, entries, has_ending};
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(super) const RULE: Rule = Rule {
    name: "everything-builds",
    says: "each program in examples/ and each test in tests/ belongs to a package: an `[[example]]` or `[[test]]` \
           with its path, or a Cargo.toml of its own that is a member of the workspace",
    check,
    planted: || Tree {
        loose: vec!["examples/forgotten.rs".to_owned()],
        packages: vec![Package {
            name: "ringcall".to_owned(),
            targets: vec!["examples/built.rs".to_owned()],
            ..Package::default()
        }],
        ..Tree::default()
    },
};

fn check(tree: &Tree) -> Vec<String> {
    let built = |path: &str| {
        tree.packages.iter().flat_map(|package| &package.targets).any(|target| {
            // A folder is built when one of its files is a target.
            target == path || target.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        })
    };
    tree.loose
        .iter()
        .filter(|path| !built(path))
        .map(|path| format!("{path}: no package builds it"))
        .collect()
}

/// Programs and tests at the root: Rust files, and folders with a `main.rs` or a `Cargo.toml`. (Other folders hold
/// data or shared modules.)
///
/// # Errors
/// A folder that cannot be read.
pub(super) fn loose(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["examples", "tests"] {
        let path = root.join(folder);
        if !path.is_dir() {
            continue;
        }
        let program = |path: &PathBuf| {
            let whole = || path.join("main.rs").is_file() || path.join("Cargo.toml").is_file();
            if path.is_dir() { whole() } else { has_ending(path, "rs") }
        };
        found.extend(entries(&path)?.iter().filter(|path| program(path)).map(|path| below(root, path)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders() {
        let tree = |loose: &str, target: &str| Tree {
            loose: vec![loose.to_owned()],
            packages: vec![Package {
                name: "a".to_owned(),
                targets: vec![target.to_owned()],
                ..Package::default()
            }],
            ..Tree::default()
        };
        assert!(check(&tree("examples/a.rs", "examples/a.rs")).is_empty());
        assert!(check(&tree("examples/a", "examples/a/src/main.rs")).is_empty());
        assert_eq!(check(&tree("examples/a", "examples/ab/main.rs")).len(), 1);
    }
}
