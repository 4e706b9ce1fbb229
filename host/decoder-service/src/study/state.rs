//! The state of a study, as lines of JSON: a head that describes the study, then one line for each finished batch.
//!
//! Each line begins with a checksum (CRC-32) of the head and of the rest of the line, so a line that was edited, damaged or
//! taken from another study is refused. Lines are only added, each by one write, so a killed process leaves whole lines and
//! at most a part of the last one.

use super::{Matching, Part, Point, Relay, Shard, ShotCounts, Stop};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{BufRead, Read, Write};

/// The format of a state. Version 1 had no checksums and did not name the program; version 2 did not name the matching; version 3
/// did not count observables and had no Relay-BP.
const VERSION: u32 = 4;
/// Our lines are shorter.
const MAX_LINE: u64 = 64 << 10;

/// All settings that decide the counts of a batch, besides its point and its number. States of different setups do not mix;
/// points may be added, and [`Stop`] may change, from one run to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The program that counts: its version, and a digest if it has one.
    pub program: String,
    /// The seed of all shots.
    pub seed: u64,
    /// Shots of a batch.
    pub batch_shots: u32,
    /// The matching of both arms.
    pub matching: Matching,
    /// The settings of Relay-BP where it takes the place of matching.
    pub relay: Relay,
    /// The predecoder: its file, a digest of its bytes, its threshold. `None` without one.
    pub predecoder: Option<String>,
    /// The processor time after which a decode counts as late, ns; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// The shard and its study; `None` for a whole study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

impl Setup {
    /// The setup of another shard.
    #[must_use]
    pub fn of_shard(&self, shard: Shard) -> Self {
        Self { part: self.part.clone().map(|part| Part { shard, ..part }), ..self.clone() }
    }
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
        /// The line's number, from 1.
        line: u64,
        /// The fault that was found.
        reason: String,
    },
    /// Another process has locked the state.
    #[error("another process is working on it")]
    Locked,
    /// The state belongs to another study.
    #[error("it is the state of another study, of {found}; this one is of {expected}")]
    OtherSetup {
        /// The study found.
        found: String,
        /// The study expected.
        expected: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    ringcall_sweep: u32,
    setup: Setup,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
}

/// The version in a head of any version.
#[derive(Deserialize)]
struct AnyHead {
    ringcall_sweep: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    point: String,
    batch: u64,
    #[serde(rename = "tally")]
    counts: ShotCounts,
}

/// A point's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Counts of the batches that count.
    pub counts: ShotCounts,
    /// Whether they satisfy the stop rule.
    pub complete: bool,
}

/// A point's counts so far, and the next batch to count.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) next: u64,
    step: u64,
    pub(super) outcome: Outcome,
}

impl Counted {
    /// For all batches.
    pub(super) fn new(setup: &Setup) -> Self {
        let counts = ShotCounts::new(setup.predecoder.is_some());
        Self { next: 0, step: 1, outcome: Outcome { counts, complete: false } }
    }

    /// For the batches of one shard.
    pub(super) fn of_shard(setup: &Setup, shard: Shard) -> Self {
        Self { next: u64::from(shard.index() - 1), step: u64::from(shard.of()), ..Self::new(setup) }
    }
}

/// Finished batches by point.
#[derive(Debug, Clone)]
pub struct State {
    setup: Setup,
    machine: Option<String>,
    /// The first line's checksum, once the line is written: the other lines' checksums continue from it.
    head_sum: Option<u32>,
    batches: BTreeMap<String, BTreeMap<u64, ShotCounts>>,
}

impl State {
    /// A state without batches.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        Self { setup, machine: None, head_sum: None, batches: BTreeMap::new() }
    }

    /// Names the machine, for the first line. It is not a part of the setup, since another machine may continue.
    #[must_use]
    pub fn begun_on(self, machine: String) -> Self {
        Self { machine: self.machine.or(Some(machine)), ..self }
    }

    /// The machine that counted the first batch, if named.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// The study of a state, from its first line.
    ///
    /// # Errors
    /// The line is not a state's first line, or is incomplete.
    pub fn setup_of(input: &mut impl BufRead) -> Result<Setup, StateError> {
        let mut line = Vec::new();
        input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        let (head, _) = head_of(&line).map_err(|reason| StateError::Line { line: 1, reason })?;
        Ok(head.setup)
    }

    /// Reads a state that an earlier run left. Returns the state and the number of bytes of whole lines: anything after them is a
    /// partial line from the end of that run, and must be cut off before more is added.
    ///
    /// # Errors
    /// Another setup's state; a line that is not a state's; an incomplete last line that no line of this state begins with; one
    /// batch twice, with different counts.
    pub fn read(input: &mut impl BufRead, setup: Setup) -> Result<(Self, u64), StateError> {
        let mut state = Self::new(setup);
        let whole = state.extend(input)?;
        Ok((state, whole))
    }

    /// Reads the whole lines that were added since the last call, where `input` begins. Returns their length in bytes.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read); line numbers count from where this call begins.
    pub fn extend(&mut self, input: &mut impl BufRead) -> Result<u64, StateError> {
        let (mut whole, mut number, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let bytes = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            number += 1;
            if line.last() != Some(&b'\n') {
                let refuse = |reason| Err(StateError::Line { line: number, reason });
                if bytes == MAX_LINE {
                    return refuse(format!("longer than {MAX_LINE} bytes: no state of `ringcall sweep`"));
                }
                // The caller drops a partial last line. That is only right for a part of a line that this study writes: anything
                // else comes from another program, or from a user.
                if !self.may_begin(&line)? {
                    return refuse(
                        "no line of this state of `ringcall sweep`, and without an end".to_owned(),
                    );
                }
                return Ok(whole);
            }
            self.take(&line).map_err(|error| match error {
                Refused::Setup(error) => error,
                Refused::Line(reason) => StateError::Line { line: number, reason },
            })?;
            whole += bytes;
        }
    }

    /// Moves the batches of another state of the same study into this one; batches that both have stay unchanged.
    pub fn absorb(&mut self, other: &mut Self) {
        for (point, batches) in std::mem::take(&mut other.batches) {
            let known = self.batches.entry(point).or_default();
            for (batch, counts) in batches {
                known.entry(batch).or_insert(counts);
            }
        }
    }

    /// The first line and its checksum.
    fn head(&self) -> Result<(String, u32), StateError> {
        let (setup, machine) = (self.setup.clone(), self.machine.clone());
        line(&Head { ringcall_sweep: VERSION, setup, machine }, 0)
    }

    /// Whether a killed process may have left this part of a line.
    fn may_begin(&self, part: &[u8]) -> Result<bool, StateError> {
        let begins = part.starts_with(CHECKSUM.as_bytes()) || CHECKSUM.as_bytes().starts_with(part);
        Ok(match self.head_sum {
            // A shard's first line may name another machine.
            None if self.setup.part.is_some() => begins,
            None => self.head()?.0.as_bytes().starts_with(part),
            Some(_) => begins,
        })
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Refused> {
        let Some(head_sum) = self.head_sum else {
            let (head, sum) = head_of(line).map_err(Refused::Line)?;
            if head.setup != self.setup {
                return Err(Refused::Setup(StateError::OtherSetup {
                    found: head.setup.to_string(),
                    expected: self.setup.to_string(),
                }));
            }
            self.head_sum = Some(sum);
            self.machine = head.machine;
            return Ok(());
        };
        let (line, _) = checked(line, head_sum).map_err(Refused::Line)?;
        let record: Record = serde_json::from_slice(&line).map_err(|e| Refused::Line(e.to_string()))?;
        let Record { point, batch, counts } = record;
        let Setup { batch_shots, matching, predecoder, .. } = &self.setup;
        counts.check(*batch_shots, *matching, predecoder.is_some()).map_err(Refused::Line)?;
        if let Some(part) = &self.setup.part
            && !part.shard.holds(batch)
        {
            let (holder, shard) = (part.shard.holder(batch), part.shard);
            return Err(Refused::Line(format!(
                "batch {batch} of {point} is shard {holder}'s, not {shard}'s"
            )));
        }
        let known = self.batches.entry(point.clone()).or_default().entry(batch).or_insert(counts);
        if known.same_counts(&counts) {
            Ok(())
        } else {
            Err(Refused::Line(format!("batch {batch} of {point} is here twice, with different counts")))
        }
    }

    /// Writes the first line to `log` unless it is written already: a shard may have nothing to add to the others' batches.
    ///
    /// # Errors
    /// The log cannot be written.
    pub(super) fn begin(&mut self, log: &mut dyn Write) -> Result<(), StateError> {
        if self.head_sum.is_none() {
            let (text, sum) = self.head()?;
            log.write_all(text.as_bytes())?;
            log.flush()?;
            self.head_sum = Some(sum);
        }
        Ok(())
    }

    /// Adds a batch to the state and to `log`.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn record(
        &mut self,
        point: &Point,
        batch: u64,
        counts: ShotCounts,
        log: &mut dyn Write,
    ) -> Result<(), StateError> {
        let (mut text, head_sum) = match self.head_sum {
            Some(sum) => (String::new(), sum),
            None => self.head()?,
        };
        text += &line(&Record { point: point.to_string(), batch, counts }, head_sum)?.0;
        log.write_all(text.as_bytes())?;
        log.flush()?;
        self.head_sum = Some(head_sum);
        self.batches.entry(point.to_string()).or_default().insert(batch, counts);
        Ok(())
    }

    /// The results of a point: its batches in order up to the first that satisfies the stop rule, so that the counts do not
    /// depend on the order of finishing.
    #[must_use]
    pub fn outcome(&self, point: &Point, stop: &Stop) -> Outcome {
        let mut counted = Counted::new(&self.setup);
        self.count(point, stop, &mut counted);
        counted.outcome
    }

    /// Continues from earlier counts of the same point.
    pub(super) fn count(&self, point: &Point, stop: &Stop, counted: &mut Counted) {
        let known = self.batches.get(&point.to_string());
        let Counted { next, step, outcome } = counted;
        loop {
            outcome.complete = stop.met(&outcome.counts);
            if outcome.complete {
                return;
            }
            let Some(counts) = known.and_then(|known| known.get(next)) else { return };
            outcome.counts.add(counts);
            *next = next.saturating_add(*step);
        }
    }

    /// The finished batches of a point.
    #[must_use]
    pub fn finished(&self, point: &Point) -> BTreeSet<u64> {
        self.batches.get(&point.to_string()).into_iter().flat_map(|known| known.keys().copied()).collect()
    }

    /// The setup of the state.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// The head in a line, and the line's checksum.
fn head_of(line: &[u8]) -> Result<(Head, u32), String> {
    let none = |e: &dyn Display| format!("no state of `ringcall sweep`: {e}");
    let old = serde_json::from_slice::<AnyHead>(line).map(|head| head.ringcall_sweep);
    if let Ok(version) = old
        && version != VERSION
    {
        return Err(format!("version {version}, not {VERSION}: begin a new state"));
    }
    let (head, sum) = checked(line, 0).map_err(|why| none(&why))?;
    Ok((serde_json::from_slice(&head).map_err(|e| none(&e))?, sum))
}

enum Refused {
    Setup(StateError),
    Line(String),
}

/// The beginning of every line, before the eight digits of its checksum.
const CHECKSUM: &str = "{\"crc32\":\"";

/// A line with its checksum before its other keys, and the checksum, which continues from `before`.
fn line(value: &impl Serialize, before: u32) -> Result<(String, u32), StateError> {
    let text = serde_json::to_string(value).map_err(std::io::Error::from)?;
    let sum = checksum(text.as_bytes(), before);
    let rest = text.strip_prefix('{').unwrap_or(&text);
    Ok((format!("{CHECKSUM}{sum:08x}\",{rest}\n"), sum))
}

/// A line without its checksum, and the checksum, after a check.
fn checked(line: &[u8], before: u32) -> Result<(Vec<u8>, u32), String> {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let rest = text.strip_prefix(CHECKSUM.as_bytes()).and_then(|rest| rest.split_at_checked(8));
    let Some((digits, rest)) = rest else { return Err("no checksum".to_owned()) };
    let written = std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let rest = rest.strip_prefix(b"\",").ok_or("no checksum")?;
    let object = [b"{", rest].concat();
    let sum = checksum(&object, before);
    if written == Some(sum) { Ok((object, sum)) } else { Err("its checksum is wrong".to_owned()) }
}

fn checksum(text: &[u8], before: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(text);
    hasher.finalize()
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.program.is_empty() {
            write!(f, "{}, ", self.program)?;
        }
        let Self { seed, batch_shots, matching, .. } = self;
        write!(f, "seed {seed}, {batch_shots} shots a batch, matching {}, ", matching.name())?;
        if self.relay != Relay::default() {
            let Relay { solutions, iterations, ordered } = self.relay;
            write!(f, "relay with {solutions} solutions and {iterations} iterations at most, ")?;
            ordered.map_or(Ok(()), |order| write!(f, "ordered statistics {order}, "))?;
        }
        match &self.predecoder {
            Some(label) => write!(f, "predecoder {label}")?,
            None => f.write_str("no predecoder")?,
        }
        if let Some(ns) = self.deadline_ns {
            write!(f, ", late after {ns} ns")?;
        }
        let Some(Part { shard, points, shots, max_errors }) = &self.part else { return Ok(()) };
        write!(f, ", shard {shard} of {} points ({}), {shots} shots", points.len(), points.join(" "))?;
        max_errors.map_or(Ok(()), |errors| write!(f, ", {errors} errors"))
    }
}
