//! Files that a command writes for others to read: whole, or a clear error.

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Writes `value` as JSON to `path`, or to standard output for `-`.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context("JSON")?;
    write_text(path, &(text + "\n"))
}

/// Writes `text` to `path`, or to standard output for `-`.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    if path.as_os_str() == "-" {
        let mut out = std::io::stdout();
        return out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output");
    }
    // Through a handle, so that a full disk is noticed here and not at exit.
    let write = || {
        let mut file = std::fs::File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all().or_else(|e| match e.kind() {
            // Pipes and terminals cannot be synchronised, and need not be.
            std::io::ErrorKind::InvalidInput | std::io::ErrorKind::Unsupported => Ok(()),
            _ => Err(e),
        })
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
