//! Output files of a command: written completely, or not at all with a clear error.

mod target;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
pub(crate) use target::{Target, discard};

/// Writes `value` as JSON to `path`, or to standard output for `-`.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context("JSON")?;
    write_text(path, &(text + "\n"))
}

/// Writes `text` to `path`, or to standard output for `-`; a regular file completely or not at all.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    write_bytes(path, text.as_bytes())
}

pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let mut target = Target::open(Some(path))?;
        target.write_all(bytes)?;
        target.flush()?;
        target.commit()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Checks, as far as possible in advance, that `path` can be written.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    if path.is_dir() {
        bail!("cannot write {}: it is a directory", path.display());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            bail!("cannot write {}: there is no folder {}", path.display(), folder.display())
        }
        _ => Ok(()),
    }
}
