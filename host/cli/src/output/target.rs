//! Targets of output: standard output, a pipe, or a file that appears complete.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Unfinished files, each next to its final path.
static PARTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn parts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Attempts of [`discard`] to lock the list of files, and the pauses between them.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// Removes unfinished files before the process ends. A file that reaches its final path meanwhile is complete. The
/// attempts to lock the list are limited, because the thread that holds it may never run again.
pub(crate) fn discard() {
    let listed = (0..TRIES).find_map(|_| match PARTS.try_lock() {
        Ok(parts) => Some(parts),
        Err(TryLockError::Poisoned(parts)) => Some(parts.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(PAUSE);
            None
        }
    });
    for part in listed.iter().flat_map(|parts| parts.iter()) {
        // The process is ending: a failure cannot be reported.
        let _ = std::fs::remove_file(part);
    }
}

/// Standard output, a pipe or device written directly, or a regular file that appears complete or not at all.
///
/// A regular file is written next to its final path, and [`commit`](Self::commit) moves it there. If it is dropped
/// before that, the previous file stays.
#[derive(Debug)]
pub(crate) struct Target {
    output: Output,
}

#[derive(Debug)]
enum Output {
    Stdout(std::io::Stdout),
    Direct(File),
    Beside { file: File, part: PathBuf, place: PathBuf, committed: bool },
}

impl Target {
    /// Standard output if there is no path, or for `-`.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(Self { output: Output::Stdout(std::io::stdout()) });
        };
        let output = match path.metadata() {
            // A folder fails here, with the system's message.
            Ok(there) if !there.is_file() => Output::Direct(File::options().write(true).open(path)?),
            there => {
                // A link stays a link: the file that it points to is replaced.
                let place = if there.is_ok() { path.canonicalize()? } else { path.to_owned() };
                if there.is_ok() {
                    // Replacing a file needs no permission to write it, but its owner has protected it on purpose.
                    File::options().write(true).open(&place)?;
                }
                let mut name = place.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{}.part", std::process::id()));
                let part = place.with_file_name(name);
                let file = File::create(&part)?;
                parts().insert(part.clone());
                if let Ok(there) = there {
                    file.set_permissions(there.permissions())?;
                }
                Output::Beside { file, part, place, committed: false }
            }
        };
        Ok(Self { output })
    }

    /// Moves a regular file to its final path; the other targets are already complete.
    pub(crate) fn commit(mut self) -> Result<()> {
        if let Output::Beside { file, part, place, committed } = &mut self.output {
            file.sync_all()?;
            std::fs::rename(&*part, place)?;
            parts().remove(part);
            *committed = true;
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Output::Beside { part, committed: false, .. } = &self.output {
            let _ = std::fs::remove_file(part); // a failure is already being reported
            parts().remove(part);
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.output {
            Output::Stdout(stdout) => stdout.write(bytes),
            Output::Direct(file) | Output::Beside { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.output {
            Output::Stdout(stdout) => stdout.flush(),
            Output::Direct(file) | Output::Beside { file, .. } => file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let names = || std::fs::read_dir(folder.path()).unwrap().count();

        let mut target = Target::open(Some(&path)).unwrap();
        target.write_all(b"half").unwrap();
        drop(target);
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"old".to_vec(), 1));

        let mut target = Target::open(Some(&path)).unwrap();
        target.write_all(b"whole").unwrap();
        target.commit().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"whole".to_vec(), 1));
    }

    /// A thread that holds the list, and never runs again, does not keep the process from ending.
    #[test]
    fn a_list_that_is_held_is_not_waited_for() {
        let held = parts();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            discard();
            let _ = done.send(());
        });
        assert!(ended.recv_timeout(Duration::from_secs(60)).is_ok(), "it waits for the list");
        drop(held);
    }

    #[test]
    fn a_link_keeps_pointing_and_a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("out", &link).unwrap();
        let mut target = Target::open(Some(&link)).unwrap();
        target.write_all(b"new").unwrap();
        target.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());

        assert!(Target::open(Some(folder.path())).is_err());
        assert!(Target::open(Some(&folder.path().join("none/out"))).is_err());
    }
}
