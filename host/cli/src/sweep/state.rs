//! The state's file: one process's at a time, whole lines only.

use anyhow::{Context, Result, anyhow, bail};
use ringcall_service::study::{Setup, State};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;

/// Opens a state, or makes one, ready to be added to.
pub(super) fn open(path: &Path, setup: Setup) -> Result<(State, File)> {
    let open = || {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another process is working on it"),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let (state, whole) = State::read(&mut BufReader::new(&file), setup).map_err(|error| {
            anyhow!("{error} (give the options that it was made with, or another file for --state)")
        })?;
        // What a killed run was writing.
        let torn = file.metadata()?.len().saturating_sub(whole);
        if torn > 0 {
            eprintln!("ringcall: the last line of {} was cut short: {torn} bytes dropped", path.display());
            file.set_len(whole)?;
        }
        file.seek(SeekFrom::Start(whole))?;
        Ok((state, file))
    };
    open().with_context(|| format!("the state {}", path.display()))
}
