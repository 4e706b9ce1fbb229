//! The file of a study's state: locked by one process at a time, whole lines only, synchronised to disk every second.

use super::{Setup, State, StateError};
use ringcall_gpu::clock;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};

/// The longest time of work that a power failure may lose, ns.
const SYNC_INTERVAL_NS: u64 = 1_000_000_000;

/// Storage of a state: a file, or a simulated one.
pub trait Storage: Read + Write + Seek {
    /// Keeps other processes out until this is closed.
    ///
    /// # Errors
    /// Another process has locked it, or the file system has no locks.
    fn try_lock(&self) -> Result<(), TryLockError>;

    /// The size in bytes.
    ///
    /// # Errors
    /// The file system's error.
    fn size(&self) -> io::Result<u64>;

    /// Drops the contents after this many bytes.
    ///
    /// # Errors
    /// The file system's error.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Returns after all written bytes are on the disk.
    ///
    /// # Errors
    /// The file system's error: the bytes may not be on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Storage for File {
    fn try_lock(&self) -> Result<(), TryLockError> {
        Self::try_lock(self)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A state's file, open for appending lines: the log of [`Study::run`](super::Study::run).
#[derive(Debug)]
pub struct StateFile<F = File> {
    file: F,
    synced_ns: u64,
}

/// A state that was opened.
#[derive(Debug)]
pub struct Opened<F = File> {
    /// The batches that earlier runs finished.
    pub state: State,
    /// The file, positioned after them.
    pub file: StateFile<F>,
    /// Bytes of a partial last line, left by a killed run, which were dropped.
    pub torn: u64,
}

impl<F: Storage> StateFile<F> {
    /// Locks and reads a state, which may be empty, and prepares it for appending.
    ///
    /// # Errors
    /// Another process is working on it ([`StateError::Locked`]), or it belongs to another study ([`State::read`]): its bytes are
    /// then unchanged.
    pub fn open(mut file: F, setup: Setup) -> Result<Opened<F>, StateError> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::Locked),
            // A cluster's file system may have no locks; running two processes on one state is then the user's mistake.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let (state, whole) = State::read(&mut BufReader::new(&mut file), setup)?;
        let torn = file.size()?.saturating_sub(whole);
        if torn > 0 {
            file.cut(whole)?;
        }
        file.seek(SeekFrom::Start(whole))?;
        Ok(Opened { state, file: Self { file, synced_ns: clock::now_ns() }, torn })
    }

    /// Synchronises the lines of the last second.
    ///
    /// # Errors
    /// The file system's error: the lines may not be on the disk.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync()
    }
}

impl<F: Storage> Write for StateFile<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if clock::now_ns().saturating_sub(self.synced_ns) >= SYNC_INTERVAL_NS {
            self.file.sync()?;
            self.synced_ns = clock::now_ns();
        }
        Ok(())
    }
}
