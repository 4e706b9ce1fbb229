//! Providers in C, compiled for a test.
#![allow(dead_code)] // each test binary uses some of it

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with libraries in it.
pub(crate) struct Shop {
    pub(crate) folder: TempDir,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Compiles a source file of the repository into a library.
    pub(crate) fn library(&self, source: &str, defines: &[&str]) -> String {
        let plain: String = defines.concat().chars().filter(char::is_ascii_alphanumeric).collect();
        let out = self.path(&format!("lib{plain}.so"));
        let status = Command::new("cc")
            .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"])
            .arg("-I")
            .arg(root().join("host/bridge/include"))
            .args(defines)
            .arg("-o")
            .arg(&out)
            .arg(root().join(source))
            .status()
            .expect("a C compiler");
        assert!(status.success(), "{source} {defines:?}");
        out
    }

    pub(crate) fn odd(&self, defines: &[&str]) -> String {
        self.library("host/bridge/tests/odd_provider.c", defines)
    }
}
