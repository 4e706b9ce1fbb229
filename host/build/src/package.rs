//! Cargo's metadata of the crate to build.

use crate::DeviceBuildError;
use crate::toolchain::plain_cargo;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A package with a library.
#[derive(Debug)]
pub(crate) struct Package {
    /// As in its Cargo.toml.
    pub(crate) name: String,
    /// Its library, as in file names.
    pub(crate) library: String,
    /// The root of its workspace.
    pub(crate) root: PathBuf,
}

impl Package {
    /// Asks cargo about the package in a folder.
    pub(crate) fn read(manifest_dir: &Path) -> Result<Self, DeviceBuildError> {
        let fail = |why: String| DeviceBuildError::Package { manifest_dir: manifest_dir.to_owned(), why };
        let manifest = manifest_dir.join("Cargo.toml");
        let manifest = manifest.canonicalize().map_err(|_| fail("no Cargo.toml there".to_owned()))?;
        let mut command = plain_cargo();
        command.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(&manifest);
        let output = command
            .output()
            .map_err(|source| DeviceBuildError::Start { program: command.get_program().into(), source })?;
        if !output.status.success() {
            return Err(fail(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Self::parse(&output.stdout, &manifest).map_err(fail)
    }

    fn parse(json: &[u8], manifest: &Path) -> Result<Self, String> {
        let metadata: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let package = list(&metadata["packages"])
            .into_iter()
            .find(|package| Path::new(&text(&package["manifest_path"])) == manifest)
            .ok_or("cargo finds no package there")?;
        let library = list(&package["targets"])
            .into_iter()
            .find(|target| {
                list(&target["kind"]).iter().any(|kind| {
                    matches!(kind.as_str(), Some("lib" | "rlib" | "dylib" | "cdylib" | "staticlib"))
                })
            })
            .ok_or("the package has no library (src/lib.rs): device code is built from one")?;
        Ok(Self {
            name: text(&package["name"]),
            library: text(&library["name"]).replace('-', "_"),
            root: PathBuf::from(text(&metadata["workspace_root"])),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_understood() {
        let json = br#"{ "workspace_root": "/w", "packages": [
            { "name": "a", "manifest_path": "/w/a/Cargo.toml", "targets": [ { "kind": ["bin"], "name": "a" } ] },
            { "name": "b-c", "manifest_path": "/w/b/Cargo.toml", "targets": [
                { "kind": ["custom-build"], "name": "build-script-build" }, { "kind": ["lib"], "name": "b_c" } ] } ] }"#;
        let package = Package::parse(json, Path::new("/w/b/Cargo.toml")).expect("understood");
        assert_eq!((package.name.as_str(), package.library.as_str()), ("b-c", "b_c"));
        assert_eq!(package.root, Path::new("/w"));
        let no_library = Package::parse(json, Path::new("/w/a/Cargo.toml")).expect_err("a program");
        assert!(no_library.contains("no library"), "{no_library}");
        assert!(Package::parse(json, Path::new("/w/c/Cargo.toml")).is_err());
        assert!(Package::parse(b"not JSON", Path::new("/w")).is_err());
    }

    #[test]
    fn a_folder_without_a_package_is_named() {
        let error = Package::read(Path::new("/no/such/folder")).expect_err("nothing there").to_string();
        assert!(error.contains("/no/such/folder") && error.contains("Cargo.toml"), "{error}");
    }
}
