//! The workspace's packages, as cargo sees them.

use crate::shell::{Shell, read as read_command};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// A package of ours.
pub(super) struct Package {
    pub(super) name: String,
    /// Names of the packages it depends on, in any way.
    pub(super) dependencies: Vec<String>,
    /// Source files of its targets, from the repository's root, with `/`.
    pub(super) targets: Vec<String>,
}

/// The members of the workspace.
///
/// # Errors
/// A workspace that cargo cannot load.
pub(super) fn read(shell: &Shell) -> Result<Vec<Package>> {
    let text = read_command(&mut shell.cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    parse(&text, shell.root())
}

fn parse(text: &str, root: &Path) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(text).context("cargo metadata")?;
    let list = |value: &Value, key: &str| -> Result<Vec<Value>> {
        value[key].as_array().cloned().with_context(|| format!("cargo metadata has no `{key}`"))
    };
    let string = |value: &Value, key: &str| -> Result<String> {
        value[key].as_str().map(str::to_owned).with_context(|| format!("cargo metadata has no `{key}`"))
    };
    list(&metadata, "packages")?
        .iter()
        .map(|package| {
            let dependencies = list(package, "dependencies")?;
            let targets = list(package, "targets")?;
            let relative = |target: &Value| {
                let path = string(target, "src_path")?;
                let path = Path::new(&path);
                Ok(path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/"))
            };
            Ok(Package {
                name: string(package, "name")?,
                dependencies: dependencies.iter().map(|d| string(d, "name")).collect::<Result<_>>()?,
                targets: targets.iter().map(relative).collect::<Result<_>>()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_understood() {
        let text = r#"{ "packages": [ { "name": "a", "dependencies": [ { "name": "b", "kind": "dev" } ],
            "targets": [ { "src_path": "/r/host/a/src/lib.rs" } ] } ] }"#;
        let packages = parse(text, Path::new("/r")).expect("understood");
        assert_eq!(packages[0].name, "a");
        assert_eq!(packages[0].dependencies, ["b"]);
        assert_eq!(packages[0].targets, ["host/a/src/lib.rs"]);
        assert!(parse("{}", Path::new("/r")).is_err());
    }
}
