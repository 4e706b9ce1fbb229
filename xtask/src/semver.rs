//! Semantic versions: changes in the interfaces of the published crates since the last tag, compared with their
//! version.

use crate::metadata::{Metadata, Package};
use crate::shell::{Shell, read, run};
use crate::steps::Outcome;
use anyhow::{Result, ensure};

/// Version of cargo-semver-checks, which knows the forms of documentation that compilers of its time write.
const CARGO_SEMVER_CHECKS: &str = "0.51.0";

/// Compares every published crate with itself at the last tag.
///
/// # Errors
/// A change that the version in `Cargo.toml` does not allow.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let Ok(tag) = read(&mut shell.command("git", &["describe", "--tags", "--abbrev=0", "--match", "v*"]))
    else {
        return Ok(Outcome::Skipped("no version is tagged"));
    };
    let tag = tag.trim();
    let metadata = Metadata::read(shell, &["--no-deps"])?;
    let published = metadata.packages.iter().filter(|package| package.publish.is_none());
    let (old, new): (Vec<&Package>, Vec<&Package>) =
        published.partition(|package| there_at(shell, tag, package));
    ensure!(!old.is_empty(), "{tag} has none of the published crates");
    for package in new {
        println!("{} is newer than {tag}", package.name);
    }
    let tool = shell.tool("cargo-semver-checks", CARGO_SEMVER_CHECKS)?;
    let mut checks = shell.command(&tool.to_string_lossy(), &["semver-checks", "--baseline-rev", tag]);
    for package in old {
        checks.args(["--package", &package.name]);
    }
    run(checks.env("CARGO_TARGET_DIR", shell.target("semver")))?;
    Ok(Outcome::Done)
}

/// Whether a package's folder was there at a tag.
fn there_at(shell: &Shell, tag: &str, package: &Package) -> bool {
    let manifest = package.manifest_path.strip_prefix(shell.root()).unwrap_or(&package.manifest_path);
    let object = format!("{tag}:{}", manifest.display());
    shell.command("git", &["cat-file", "-e", &object]).output().is_ok_and(|output| output.status.success())
}
