//! Files that a command writes for others to read: whole, or not at all and a clear error.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes `value` as JSON to `path`, or to standard output for `-`.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context("JSON")?;
    write_text(path, &(text + "\n"))
}

/// Writes `text` to `path`, or to standard output for `-`.
///
/// A regular file appears whole or keeps its old content: the text goes to a neighbour first, which is synchronised
/// and then takes the name.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    if path.as_os_str() == "-" {
        let mut out = std::io::stdout();
        return out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output");
    }
    // Pipes and devices are written as they are.
    let write = || match path.metadata() {
        Ok(there) if !there.is_file() => File::create(path)?.write_all(text.as_bytes()),
        _ => {
            let neighbour = neighbour(path);
            let written = File::create(&neighbour)
                .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
                .and_then(|()| std::fs::rename(&neighbour, path));
            if written.is_err() {
                let _ = std::fs::remove_file(&neighbour); // it may not even be there
            }
            written
        }
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn neighbour(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Whether `path` can be written later, as far as can be told now.
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
