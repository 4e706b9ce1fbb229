//! Files and folders, with errors that name them.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder, which is made if need be.
pub(crate) fn folder(path: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// The folder, with nothing in it.
pub(crate) fn emptied(path: PathBuf) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
    }
    folder(path)
}

/// The contents of a folder, in the order of the names.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Whether a file's name ends so, after the last dot.
pub(crate) fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension == ending)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, and makes its folder if need be.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        folder(parent.to_owned())?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    folder(to.to_owned())?;
    for from in entries(from)? {
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() { copy_tree(&from, &to)? } else { copy(&from, &to)? }
    }
    Ok(())
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A path below `root`, relative to it, with `/`.
pub(crate) fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
