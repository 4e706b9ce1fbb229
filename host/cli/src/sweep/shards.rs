//! Folder of a study in shards: a state for each shard, which the shards read from one another and `ringcall merge`
//! joins.

use super::state;
use crate::usage::Misuse;
use anyhow::{Context, Result, anyhow, bail};
use ringcall_decoder_service::study::{Merged, Part, Setup, Shard, State, StateError, StateFile, merge};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a shard polls the others' states: file systems of clusters suffer from more frequent polls.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn file(folder: &Path, shard: Shard) -> PathBuf {
    folder.join(format!("shard-{}-of-{}.jsonl", shard.index(), shard.of()))
}

/// Opens a shard's state in a folder, and creates both if necessary.
///
/// # Errors
/// Those of [`state::open`], or another file of the folder is the state of another study, so that a merge would be
/// refused.
pub(super) fn open(folder: &Path, setup: &Setup, part: &Part) -> Result<(State, StateFile, Others)> {
    if let Err(error) = std::fs::create_dir(folder)
        && error.kind() != ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| format!("the folder {}", folder.display()));
    }
    let mut known = Vec::new();
    for path in states(folder)? {
        // A shard without a finished batch has not written its setup.
        if path == file(folder, part.shard) || path.metadata().is_ok_and(|file| file.len() == 0) {
            continue;
        }
        let read = || {
            let found = State::setup_of(&mut BufReader::new(File::open(&path)?))?;
            let shard = found.part.as_ref().map_or(part.shard, |part| part.shard);
            if found == setup.of_shard(shard) && shard.of() == part.shard.of() && path == file(folder, shard)
            {
                return Ok(shard);
            }
            let (found, expected) = (found.to_string(), setup.to_string());
            Err(StateError::OtherSetup { found, expected })
        };
        known.push(read().with_context(|| format!("the state {}", path.display()))?);
    }
    let (state, log) = state::open(&file(folder, part.shard), setup.clone())?;
    let state = state.begun_on(crate::machine::describe());
    let shards = (1..=part.shard.of()).filter_map(|index| Shard::new(index, part.shard.of()));
    let others = shards
        .filter(|&shard| shard != part.shard)
        .map(|shard| Other { path: file(folder, shard), state: State::new(setup.of_shard(shard)), read: 0 })
        .collect();
    Ok((state, log, Others { others, polled: None }))
}

/// All states in a folder in the order of their names.
fn states(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || {
        let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<std::io::Result<Vec<PathBuf>>>()?;
        paths.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
        paths.sort();
        Ok::<_, std::io::Error>(paths)
    };
    list().with_context(|| format!("the folder {}", folder.display()))
}

/// The other shards' states in a folder.
pub(super) struct Others {
    others: Vec<Other>,
    polled: Option<Instant>,
}

struct Other {
    path: PathBuf,
    state: State,
    /// The bytes read so far.
    read: u64,
}

impl Others {
    /// Adds batches that the others have finished since the last poll. Unreadable states are skipped: reading them only
    /// saves work, and a merge reports the fault.
    pub(super) fn poll(&mut self, state: &mut State) {
        if self.polled.is_some_and(|polled| polled.elapsed() < POLL_INTERVAL) {
            return;
        }
        self.polled = Some(Instant::now());
        for other in &mut self.others {
            let read = |other: &mut Other| -> Result<u64, StateError> {
                let mut file = File::open(&other.path)?;
                file.seek(SeekFrom::Start(other.read))?;
                other.state.extend(&mut BufReader::new(file))
            };
            if let Ok(bytes) = read(other) {
                other.read += bytes;
                state.absorb(&mut other.state);
            }
        }
    }
}

/// Joins the states of a folder.
///
/// # Errors
/// A state cannot be read, or [`Misuse`]: the states do not form one whole study.
pub(super) fn join(folder: &Path) -> Result<Merged> {
    let mut shards = Vec::new();
    for path in states(folder)? {
        // A shard killed before its first batch counts as missing.
        if path.metadata().is_ok_and(|file| file.len() == 0) {
            continue;
        }
        let name = path.display().to_string();
        let read = || {
            let mut file = BufReader::new(File::open(&path)?);
            let setup = State::setup_of(&mut file)?;
            file.rewind()?;
            Ok(State::read(&mut file, setup)?.0)
        };
        let state = read().map_err(|error: StateError| match error {
            StateError::Io(error) => anyhow!(error).context(name.clone()),
            error => Misuse(format!("{name}: {error}")).into(),
        })?;
        shards.push((name, state));
    }
    match merge(shards) {
        Ok(merged) => Ok(merged),
        Err(error) => bail!(Misuse(format!("{}: {error}", folder.display()))),
    }
}
