//! Published crates: their metadata, and their packages.

use crate::metadata::{Metadata, Package};
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Result, ensure};

/// Packages every crate that is published, in the order in which they need each other, without building them. Cargo refuses a crate
/// that needs one which is not published.
///
/// # Errors
/// A crate without what a registry shows, and what cargo finds.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let metadata = Metadata::read(shell, &["--no-deps"])?;
    let published: Vec<&Package> =
        metadata.packages.iter().filter(|package| package.publish.is_none()).collect();
    ensure!(!published.is_empty(), "no crate is published");
    for package in &published {
        let missing = missing(package);
        ensure!(missing.is_empty(), "{} has no {}", package.name, missing.join(", no "));
    }
    let mut command = shell.cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for package in &published {
        command.args(["--package", &package.name]);
    }
    run(command.env("CARGO_TARGET_DIR", shell.target("package")))?;
    println!("{} crates can be published", published.len());
    Ok(Outcome::Done)
}

/// The fields that a published crate has to have and this one has not.
fn missing(package: &Package) -> Vec<&'static str> {
    [
        ("description", package.description.is_some()),
        ("readme", package.readme.is_some()),
        ("documentation", package.documentation.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
    ]
    .into_iter()
    .filter_map(|(field, there)| (!there).then_some(field))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_published_crate_lacks_is_named() {
        let text = r#"{"packages": [{"name": "a", "manifest_path": "/a", "dependencies": [], "targets": [], "publish": null,
            "description": "d", "readme": "README.md", "documentation": null, "keywords": [], "categories": ["c"]}]}"#;
        let metadata: Metadata = serde_json::from_str(text).expect("understood");
        assert!(metadata.packages[0].publish.is_none());
        assert_eq!(missing(&metadata.packages[0]), ["documentation", "keywords"]);
    }
}
