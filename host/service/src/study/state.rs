//! What a study has found so far, as lines of JSON: one that says what it is, then one for each finished batch. Lines are
//! only ever added, each by one write, so that whoever is killed leaves whole lines and at most a part of a last one.

use super::{Point, Stop, Tally};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read, Write};

/// The format of a state.
const VERSION: u32 = 1;
/// No line of ours is as long.
const MAX_LINE: u64 = 64 << 10;

/// What decides the counts of a batch, besides its point and its number. States of different setups do not mix; points
/// may be added, and [`Stop`] may change from one run to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The seed of all shots.
    pub seed: u64,
    /// Shots of a batch.
    pub batch_shots: u32,
    /// What says which predecoder it is: its file, a sum of its bytes, its threshold. `None` without one.
    pub predecoder: Option<String>,
}

/// Why a state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is not of this format.
    #[error("line {line}: {reason}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// It is of another study.
    #[error("it is the state of another study, of {found}; this one is of {expected}")]
    OtherSetup {
        /// What it is of.
        found: String,
        /// What it should be of.
        expected: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    ringcall_sweep: u32,
    setup: Setup,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    point: String,
    batch: u64,
    tally: Tally,
}

/// A point's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Of the batches that count.
    pub tally: Tally,
    /// Whether they are enough.
    pub complete: bool,
}

/// A point's counts so far, and the batch that would be counted next.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    next: u64,
    pub(super) outcome: Outcome,
}

impl Counted {
    pub(super) fn new(setup: &Setup) -> Self {
        let tally = Tally::new(setup.predecoder.is_some());
        Self { next: 0, outcome: Outcome { tally, complete: false } }
    }
}

/// Finished batches by point.
#[derive(Debug, Clone)]
pub struct State {
    setup: Setup,
    /// Whether the first line is written.
    begun: bool,
    batches: BTreeMap<String, BTreeMap<u64, Tally>>,
}

impl State {
    /// Nothing found yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { setup, begun: false, batches: BTreeMap::new() }
    }

    /// Reads what an earlier run has left, and how many of its bytes are whole lines: anything behind them is the part of
    /// a line that was being written when the run ended, and must be cut off before more is added.
    ///
    /// # Errors
    /// Another setup's state; a line that is none of a state's; one batch twice, with different counts.
    pub fn read(input: &mut impl BufRead, setup: Setup) -> Result<(Self, u64), StateError> {
        let mut state = Self::new(setup);
        let (mut whole, mut number, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let bytes = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            number += 1;
            if line.last() != Some(&b'\n') {
                if bytes == MAX_LINE {
                    let reason = format!("longer than {MAX_LINE} bytes: no state of `ringcall sweep`");
                    return Err(StateError::Line { line: number, reason });
                }
                return Ok((state, whole));
            }
            state.take(&line).map_err(|error| match error {
                Refused::Setup(error) => error,
                Refused::Line(reason) => StateError::Line { line: number, reason },
            })?;
            whole += bytes;
        }
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Refused> {
        if !self.begun {
            let head: Head = serde_json::from_slice(line)
                .map_err(|e| Refused::Line(format!("no state of `ringcall sweep`: {e}")))?;
            if head.ringcall_sweep != VERSION {
                return Err(Refused::Line(format!("version {}, not {VERSION}", head.ringcall_sweep)));
            }
            if head.setup != self.setup {
                return Err(Refused::Setup(StateError::OtherSetup {
                    found: head.setup.to_string(),
                    expected: self.setup.to_string(),
                }));
            }
            self.begun = true;
            return Ok(());
        }
        let record: Record = serde_json::from_slice(line).map_err(|e| Refused::Line(e.to_string()))?;
        let Record { point, batch, tally } = record;
        tally.check(self.setup.batch_shots, self.setup.predecoder.is_some()).map_err(Refused::Line)?;
        let known = self.batches.entry(point.clone()).or_default().entry(batch).or_insert(tally);
        if known.same_counts(&tally) {
            Ok(())
        } else {
            Err(Refused::Line(format!("batch {batch} of {point} is here twice, with different counts")))
        }
    }

    /// Adds a batch, here and to `log`.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(super) fn record(
        &mut self,
        point: &Point,
        batch: u64,
        tally: Tally,
        log: &mut dyn Write,
    ) -> Result<(), StateError> {
        let mut text = String::new();
        if !self.begun {
            text += &line(&Head { ringcall_sweep: VERSION, setup: self.setup.clone() })?;
        }
        text += &line(&Record { point: point.to_string(), batch, tally })?;
        log.write_all(text.as_bytes())?;
        log.flush()?;
        self.begun = true;
        self.batches.entry(point.to_string()).or_default().insert(batch, tally);
        Ok(())
    }

    /// What is known of a point: its batches in order up to the first at which it has enough, so that the counts are the
    /// same whoever finished first.
    #[must_use]
    pub fn outcome(&self, point: &Point, stop: &Stop) -> Outcome {
        let mut counted = Counted::new(&self.setup);
        self.count(point, stop, &mut counted);
        counted.outcome
    }

    /// Goes on from what was counted of the same point before.
    pub(super) fn count(&self, point: &Point, stop: &Stop, counted: &mut Counted) {
        let known = self.batches.get(&point.to_string());
        let Counted { next, outcome } = counted;
        loop {
            outcome.complete = stop.met(&outcome.tally);
            if outcome.complete {
                return;
            }
            let Some(tally) = known.and_then(|known| known.get(next)) else { return };
            outcome.tally.add(tally);
            *next += 1;
        }
    }

    /// The batches of a point that are finished.
    pub(super) fn finished(&self, point: &Point) -> BTreeSet<u64> {
        self.batches.get(&point.to_string()).into_iter().flat_map(|known| known.keys().copied()).collect()
    }

    /// What it is of.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

enum Refused {
    Setup(StateError),
    Line(String),
}

fn line(value: &impl Serialize) -> Result<String, StateError> {
    let text = serde_json::to_string(value).map_err(std::io::Error::from)?;
    Ok(text + "\n")
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}, {} shots a batch, ", self.seed, self.batch_shots)?;
        match &self.predecoder {
            Some(label) => write!(f, "predecoder {label}"),
            None => f.write_str("no predecoder"),
        }
    }
}
