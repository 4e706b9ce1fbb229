//! Folders for things kept between runs: the compiled shim, plans.
//!
//! What lies there is loaded into the process or handed to the GPU, so a folder that others may write is refused. Files
//! appear whole or not at all: they are written beside their path and renamed, so that two processes can do so at once
//! and a full disk leaves nothing behind.

use crate::TensorRtError;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Names the folder, in place of `$XDG_CACHE_HOME/ringcall` or `$HOME/.cache/ringcall`.
pub(crate) const VARIABLE: &str = "RINGCALL_CACHE";

/// The user's folder for one kind of thing.
pub(crate) fn user(kind: &str) -> Result<PathBuf, TensorRtError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = set(VARIABLE)
        .or_else(|| set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("ringcall")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/ringcall")));
    root.map(|root| root.join(kind)).ok_or_else(|| TensorRtError::Folder {
        path: PathBuf::from(kind),
        why: "there is no HOME to put it in".to_owned(),
    })
}

/// Makes the folder, if need be, for this user alone; refuses one that another user may write.
pub(crate) fn prepare(path: &Path) -> Result<(), TensorRtError> {
    let unusable = |why: String| TensorRtError::Folder { path: path.to_owned(), why };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|why| unusable(why.to_string()))?;
    let about = fs::metadata(path).map_err(|why| unusable(why.to_string()))?;
    let (me, owner) = (rustix::process::geteuid().as_raw(), about.uid());
    if owner != me {
        return Err(unusable(format!("it belongs to user {owner}, and this is user {me}")));
    }
    if about.mode() & 0o022 != 0 {
        return Err(unusable("others may write it (chmod go-w)".to_owned()));
    }
    Ok(())
}

/// Puts a whole file at `path`, over what may be there.
pub(crate) fn write(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// SHA-256 of named parts, each with its length, so that no two lists of parts run together.
#[derive(Default)]
pub(crate) struct Key(Sha256);

impl Key {
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        for part in [name.as_bytes(), bytes] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// SHA-256 of bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn parts_do_not_run_together() {
        let key = |parts: &[(&str, &str)]| {
            let mut key = Key::default();
            for (name, bytes) in parts {
                key.add(name, bytes.as_bytes());
            }
            key.finish()
        };
        assert_ne!(key(&[("a", "bc")]), key(&[("ab", "c")]));
        assert_ne!(key(&[("a", "b"), ("c", "d")]), key(&[("a", "bcd")]));
        assert_eq!(key(&[("a", "b")]), key(&[("a", "b")]));
        assert_eq!(key(&[]).len(), 64);
        // FIPS 180-2, "abc".
        assert!(hex(&digest(b"abc")).starts_with("ba7816bf8f01cfea414140de5dae2223"));
    }

    #[test]
    fn a_folder_that_others_may_write_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a/b");
        prepare(&folder).expect("made");
        assert_eq!(fs::metadata(&folder).expect("there").mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("changed");
        let why = prepare(&folder).expect_err("refused").to_string();
        assert!(why.contains("others may write it"), "{why}");
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("plan");
        write(&path, &[b"one ", b"two"]).expect("written");
        write(&path, &[b"three"]).expect("over it");
        assert_eq!(fs::read(&path).expect("read"), b"three");
        assert!(write(&home.path().join("missing/plan"), &[b"x"]).is_err());
        assert_eq!(fs::read_dir(home.path()).expect("listed").count(), 1, "nothing is left behind");
    }
}
