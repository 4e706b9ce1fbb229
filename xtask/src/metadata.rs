//! Cargo's metadata of packages.

use crate::shell::{Shell, read};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::PathBuf;

/// `cargo metadata`, as far as it is read here.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

/// A package.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    /// What it depends on, in any way.
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
    /// Registries to which it may be published: `None` for any, an empty list for none.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) readme: Option<String>,
    #[serde(default)]
    pub(crate) documentation: Option<String>,
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
}

/// What a package depends on.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
}

/// A target of a package.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) src_path: PathBuf,
}

impl Metadata {
    /// `cargo metadata ARGS`.
    ///
    /// # Errors
    /// Packages that cargo cannot load.
    pub(crate) fn read(shell: &Shell, args: &[&str]) -> Result<Self> {
        let command = [&["metadata", "--format-version", "1"], args].concat();
        Self::parse(&read(&mut shell.cargo(&command))?)
    }

    fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("cargo metadata")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_understood() {
        let text = r#"{ "version": 1, "packages": [ { "name": "a", "manifest_path": "/r/a/Cargo.toml",
            "dependencies": [ { "name": "b", "kind": "dev" } ],
            "targets": [ { "name": "a", "src_path": "/r/a/src/lib.rs" } ] } ] }"#;
        let package = Metadata::parse(text).expect("understood").packages.remove(0);
        assert_eq!((package.name.as_str(), package.dependencies[0].name.as_str()), ("a", "b"));
        assert_eq!(
            package.targets[0].src_path.parent(),
            package.manifest_path.with_file_name("src").to_str().map(AsRef::as_ref)
        );
        assert!(Metadata::parse("{}").is_err() && Metadata::parse("words").is_err());
    }
}
