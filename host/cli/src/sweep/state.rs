//! The file of a sweep's state: locked by one process at a time, whole lines only, synchronised to disk every second.

use anyhow::{Context, Result, anyhow, bail};
use procfs::process::{MMapPath, Process};
use ringcall_decoder_service::study::{Setup, State};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The most that a power failure may cost.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The version of this program, and the checksum of its file: another build may count otherwise.
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

/// The file that this code is loaded from: the program's, or that of the library in the Python package.
fn own_file() -> Result<File> {
    let here = own_file as fn() -> Result<File> as usize as u64;
    let maps = Process::myself()?.maps()?;
    let map = maps.into_iter().find(|map| (map.address.0..map.address.1).contains(&here));
    let Some(MMapPath::Path(path)) = map.map(|map| map.pathname) else { bail!("it is nowhere") };
    // The running file, even if another took its name meanwhile.
    let program = Path::new("/proc/self/exe");
    Ok(File::open(if program.read_link()? == path { program } else { &path })?)
}

/// The file, as lines are added.
pub(super) struct Log {
    file: File,
    synced: Instant,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.synced.elapsed() >= SYNC_INTERVAL {
            self.file.sync_data()?;
            self.synced = Instant::now();
        }
        Ok(())
    }
}

impl Log {
    /// Synchronises what the last second added.
    ///
    /// # Errors
    /// What the file system says: the lines may not be on the disk.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Opens a state, or makes one, ready to be added to.
pub(super) fn open(path: &Path, setup: Setup) -> Result<(State, Log)> {
    let open = || {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another process is working on it"),
            // A file system of a cluster may have no locks; two processes of one state are then the user's mistake.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let (state, whole) = State::read(&mut BufReader::new(&file), setup).map_err(|error| {
            anyhow!("{error} (give the options that it was made with, or another file for --state)")
        })?;
        // What a killed run was writing.
        let torn = file.metadata()?.len().saturating_sub(whole);
        if torn > 0 {
            crate::usage::tell(&format!(
                "the last line of {} was cut short: {torn} bytes dropped",
                path.display()
            ));
            file.set_len(whole)?;
        }
        file.seek(SeekFrom::Start(whole))?;
        Ok((state, Log { file, synced: Instant::now() }))
    };
    open().with_context(|| format!("the state {}", path.display()))
}
