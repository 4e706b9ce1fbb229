//! File of a sweep's state, and identity of the counting program.

use anyhow::{Context, Result, anyhow, bail};
use procfs::process::{MMapPath, Process};
use ringcall_decoder_service::study::{Opened, Setup, State, StateError, StateFile};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

/// The version of this program, and the checksum of its file, since another build may count differently.
///
/// # Errors
/// The program's own file cannot be read.
pub(super) fn program() -> Result<String> {
    let mut hasher = crc32fast::Hasher::new();
    let mut file = own_file().context("this program's own file")?;
    let mut bytes = vec![0; 64 << 10];
    loop {
        match file.read(&mut bytes).context("this program's own file")? {
            0 => break,
            n => hasher.update(&bytes[..n]),
        }
    }
    Ok(format!("ringcall {} (crc32 {:08x})", env!("CARGO_PKG_VERSION"), hasher.finalize()))
}

/// The file from which this code was loaded: the program's, or the library's in the Python package.
fn own_file() -> Result<File> {
    let here = own_file as fn() -> Result<File> as usize as u64;
    let maps = Process::myself()?.maps()?;
    let map = maps.into_iter().find(|map| (map.address.0..map.address.1).contains(&here));
    let Some(MMapPath::Path(path)) = map.map(|map| map.pathname) else { bail!("it is nowhere") };
    // The running file, even if another file has taken its name meanwhile.
    let program = Path::new("/proc/self/exe");
    Ok(File::open(if program.read_link()? == path { program } else { &path })?)
}

/// Opens or creates a state, ready for appending.
pub(super) fn open(path: &Path, setup: Setup) -> Result<(State, StateFile)> {
    let open = || -> Result<(State, StateFile)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let Opened { state, file, torn } = StateFile::open(file, setup).map_err(|error| match error {
            StateError::Line { .. } | StateError::OtherSetup { .. } => {
                anyhow!("{error} (give the options that it was made with, or another file for --state)")
            }
            error => error.into(),
        })?;
        if torn > 0 {
            crate::usage::tell(&format!(
                "the last line of {} was cut short: {torn} bytes dropped",
                path.display()
            ));
        }
        Ok((state, file))
    };
    open().with_context(|| format!("the state {}", path.display()))
}
