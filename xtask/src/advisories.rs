//! Advisories from a dated copy, where their database is not reached.

use crate::files::read;
use crate::shell::Shell;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The copy.
const COPY: &str = "xtask/advisories.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Copy {
    /// When the database was read.
    date: String,
    looked_at: Vec<String>,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    name: String,
    /// The first version of the newest line without the fault.
    patched: String,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// Refuses a locked version that an advisory of the copy is about, and says how old the copy is and how far it goes.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let copy: Copy = toml::from_str(&read(&shell.root().join(COPY))?).context(COPY)?;
    let lock: Lock = toml::from_str(&read(&shell.root().join("Cargo.lock"))?).context("Cargo.lock")?;
    println!(
        "advisories as of {} for {} crates of {} ({COPY})",
        copy.date,
        copy.looked_at.len(),
        lock.package.len()
    );
    let found = affected(&copy.advisory, &lock.package)?;
    ensure!(found.is_empty(), "{}", found.join("; "));
    Ok(())
}

fn affected(advisories: &[Advisory], packages: &[Package]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for Advisory { id, name, patched } in advisories {
        for package in packages.iter().filter(|package| package.name == *name) {
            if numbers(&package.version)? < numbers(patched)? {
                found.push(format!("{name} {} has {id}: take {patched} or later", package.version));
            }
        }
    }
    Ok(found)
}

/// The three numbers of a version, without what follows them.
fn numbers(version: &str) -> Result<Vec<u64>> {
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let numbers: Vec<u64> = version[..end]
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("the version {version}"))?;
    ensure!(numbers.len() == 3, "the version {version}");
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_the_mend_are_refused() {
        let advisory = Advisory { id: "A".to_owned(), name: "tar".to_owned(), patched: "0.4.45".to_owned() };
        let package =
            |name: &str, version: &str| Package { name: name.to_owned(), version: version.to_owned() };
        let packages =
            ["0.4.9", "0.4.44", "0.4.45", "0.5.0-rc.1", "1.0.0+x"].map(|version| package("tar", version));
        let found = affected(&[advisory], &packages).expect("versions");
        assert_eq!(found, ["0.4.9", "0.4.44"].map(|old| format!("tar {old} has A: take 0.4.45 or later")));
        assert!(numbers("1.2").is_err() && numbers("one").is_err());
    }
}
