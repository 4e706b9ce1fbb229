//! Names in the tree that C programs install.

#[cfg(not(unix))]
use anyhow::bail;
use anyhow::{Context, Result};
use std::path::Path;

/// The headers, which are one tree when they are installed.
pub(crate) const HEADERS: [&str; 3] = ["host/c/include", "host/bridge/include", "host/rdma/include"];
/// What the shared library exports, one name a line.
pub(crate) const LISTING: &str = "host/c/abi/exports.txt";
/// The interface's generation: the soname's number and the symbols' version.
pub(crate) const SONAME: &str = "libringcall.so.0";

#[cfg(unix)]
pub(crate) fn symlink(to: &str, at: &Path) -> Result<()> {
    std::os::unix::fs::symlink(to, at).with_context(|| format!("cannot link {}", at.display()))
}

#[cfg(not(unix))]
pub(crate) fn symlink(_: &str, at: &Path) -> Result<()> {
    bail!("no links here: {}", at.display())
}
