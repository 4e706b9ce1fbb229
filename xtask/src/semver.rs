//! Semantic versions: changes in the interfaces of the published crates since the last tag or another revision,
//! compared with their version.

use crate::metadata::{Metadata, Package};
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Result, bail, ensure};
use clap::Args;

/// Version of cargo-semver-checks, which knows the forms of documentation that compilers of its time write.
const CARGO_SEMVER_CHECKS: &str = "0.51.0";

/// What is compared with what.
#[derive(Args)]
pub(crate) struct SemverOptions {
    /// A revision to compare with instead of the last tag: a commit, a branch, another tag.
    #[arg(long, value_name = "REVISION")]
    baseline: Option<String>,
    /// The published crates to compare instead of all.
    #[arg(long = "package", value_name = "CRATE")]
    packages: Vec<String>,
    /// Check for a release of this kind, whatever the versions say. Without it a breaking release, such as from 0.1 to 0.2, is not checked at
    /// all, since it may change anything; `minor` lists what such a release breaks.
    #[arg(long, value_parser = ["major", "minor", "patch"])]
    release_type: Option<String>,
}

/// Compares published crates with themselves at a revision.
///
/// # Errors
/// A change that the version in `Cargo.toml` does not allow; no such revision; a crate that is not published.
pub(crate) fn step(shell: &Shell, options: &SemverOptions) -> Result<Outcome> {
    let Some(baseline) = options.baseline.clone().or_else(|| last_tag(shell)) else {
        return Ok(Outcome::Skipped("no version is tagged: name a revision by --baseline"));
    };
    let metadata = Metadata::read(shell, &["--no-deps"])?;
    let chosen = chosen(&metadata.packages, &options.packages)?;
    let (old, new): (Vec<&Package>, Vec<&Package>) =
        chosen.into_iter().partition(|package| there_at(shell, &baseline, package));
    ensure!(!old.is_empty(), "{baseline} has none of these crates, or is no revision");
    for package in new {
        println!("{} is newer than {baseline}", package.name);
    }
    let tool = shell.tool("cargo-semver-checks", CARGO_SEMVER_CHECKS)?;
    let mut checks = shell.command(&tool.to_string_lossy(), &["semver-checks", "--baseline-rev", &baseline]);
    for package in old {
        checks.args(["--package", &package.name]);
    }
    if let Some(kind) = &options.release_type {
        checks.args(["--release-type", kind]);
    }
    run(checks.env("CARGO_TARGET_DIR", shell.target("semver")))?;
    Ok(Outcome::Done)
}

/// The last tag of a version, if there is one.
fn last_tag(shell: &Shell) -> Option<String> {
    let mut describe = shell.command("git", &["describe", "--tags", "--abbrev=0", "--match", "v*"]);
    let output = describe.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The published packages of these names; all of them where no name is given.
fn chosen<'a>(packages: &'a [Package], names: &[String]) -> Result<Vec<&'a Package>> {
    let published: Vec<&Package> = packages.iter().filter(|package| package.publish.is_none()).collect();
    let known = |name: &String| published.iter().any(|package| package.name == *name);
    if let Some(name) = names.iter().find(|&name| !known(name)) {
        bail!("{name} is no published crate");
    }
    let asked = |package: &&Package| names.is_empty() || names.contains(&package.name);
    Ok(published.into_iter().filter(asked).collect())
}

/// Whether a package's folder was there at a revision.
fn there_at(shell: &Shell, revision: &str, package: &Package) -> bool {
    let manifest = package.manifest_path.strip_prefix(shell.root()).unwrap_or(&package.manifest_path);
    let object = format!("{revision}:{}", manifest.display());
    shell.command("git", &["cat-file", "-e", &object]).output().is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_crates_are_chosen_by_name() {
        let text = r#"{ "packages": [
            { "name": "a", "manifest_path": "/r/a/Cargo.toml", "dependencies": [], "targets": [] },
            { "name": "b", "manifest_path": "/r/b/Cargo.toml", "dependencies": [], "targets": [] },
            { "name": "c", "manifest_path": "/r/c/Cargo.toml", "dependencies": [], "targets": [], "publish": [] } ] }"#;
        let metadata: Metadata = serde_json::from_str(text).expect("metadata");
        let names = |names: &[&str]| -> Result<Vec<String>> {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            Ok(chosen(&metadata.packages, &names)?.into_iter().map(|package| package.name.clone()).collect())
        };
        assert_eq!(names(&[]).expect("all"), ["a", "b"]);
        assert_eq!(names(&["b"]).expect("one"), ["b"]);
        assert!(names(&["c"]).is_err() && names(&["b", "d"]).is_err());
    }
}
