//! Joining the states of a study's shards.

use super::state::Counted;
use super::{Part, Point, Relay, Setup, Shard, State, Stop};
use std::collections::BTreeMap;

/// Shards of one study, joined.
#[derive(Debug)]
pub struct Merged {
    /// The batches of all shards; its setup is the whole study's.
    pub state: State,
    /// The grid.
    pub points: Vec<Point>,
    /// The stop rule.
    pub stop: Stop,
    /// The machines that counted, each once, in the order of the shards.
    pub machines: Vec<String>,
}

/// Why states do not merge into one whole study.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum MergeError {
    /// There is no state.
    #[error("no shard's state")]
    Nothing,
    /// A state of a whole study.
    #[error("{0} is the state of a whole study, not of a shard")]
    Whole(String),
    /// Two states differ in a setting that decides their counts.
    #[error("{second} does not belong with {first}: {what} is {found}, not {expected}")]
    Other {
        /// A state.
        first: String,
        /// The other one.
        second: String,
        /// The setting.
        what: &'static str,
        /// The second state's value.
        found: String,
        /// The first state's value.
        expected: String,
    },
    /// Two states have the same batches.
    #[error("shard {shard} is there twice: {first} and {second}")]
    Twice {
        /// The shard.
        shard: Shard,
        /// A state.
        first: String,
        /// The other one.
        second: String,
    },
    /// A shard has no state.
    #[error("shard {0} is missing")]
    Missing(Shard),
    /// A batch that counts is missing.
    #[error(
        "shard {shard} is not finished: batch {batch} of {point} is missing; the command of the shard, given again, goes on"
    )]
    Gap {
        /// The shard.
        shard: Shard,
        /// The batch that would be counted next.
        batch: u64,
        /// Its point.
        point: Point,
    },
    /// A point's name is unknown to this version.
    #[error("{0}")]
    Point(String),
}

/// Merges the states of all shards of a study, each with a name for errors. Every point then has enough shots, and
/// [`State::outcome`] gives the counts that one process would have for the whole study: batches in order, up to the first batch
/// that satisfies the stop rule. Later batches do not count.
///
/// # Errors
/// States of different programs, models, studies or settings; overlaps and gaps: [`MergeError`].
pub fn merge(shards: Vec<(String, State)>) -> Result<Merged, MergeError> {
    let mut named = BTreeMap::new();
    let mut common: Option<(String, Setup, Part)> = None;
    for (name, state) in shards {
        let setup = state.setup().clone();
        let Some(part) = setup.part.clone() else { return Err(MergeError::Whole(name)) };
        let (first, expected, expected_part) =
            common.get_or_insert_with(|| (name.clone(), setup.clone(), part.clone()));
        if let Some((what, found, expected)) = difference((&setup, &part), (expected, expected_part)) {
            return Err(MergeError::Other { first: first.clone(), second: name, what, found, expected });
        }
        if let Some((first, _)) = named.get(&part.shard) {
            return Err(MergeError::Twice { shard: part.shard, first: String::clone(first), second: name });
        }
        named.insert(part.shard, (name, state));
    }
    let (_, setup, part) = common.ok_or(MergeError::Nothing)?;
    let all = (1..=part.shard.of()).filter_map(|index| Shard::new(index, part.shard.of()));
    if let Some(missing) = all.into_iter().find(|shard| !named.contains_key(shard)) {
        return Err(MergeError::Missing(missing));
    }
    let points: Vec<Point> =
        part.points.iter().map(|name| name.parse()).collect::<Result<_, _>>().map_err(MergeError::Point)?;
    let stop = Stop { shots: part.shots, errors: part.max_errors };
    let mut state = State::new(Setup { part: None, ..setup });
    let mut machines: Vec<String> = Vec::new();
    for (_, mut shard) in named.into_values() {
        machines.extend(
            shard.machine().filter(|name| !machines.iter().any(|known| known == name)).map(str::to_owned),
        );
        state.absorb(&mut shard);
    }
    for &point in &points {
        let mut counted = Counted::new(state.setup());
        state.count(&point, &stop, &mut counted);
        if !counted.outcome.complete {
            return Err(MergeError::Gap {
                shard: part.shard.holder(counted.next),
                batch: counted.next,
                point,
            });
        }
    }
    Ok(Merged { state, points, stop, machines })
}

/// The first setting in which two shards' studies differ, with the first one's value and the second one's.
fn difference(
    (found, found_part): (&Setup, &Part),
    (expected, expected_part): (&Setup, &Part),
) -> Option<(&'static str, String, String)> {
    let none = || "none".to_owned();
    let predecoder = |setup: &Setup| setup.predecoder.clone().unwrap_or_else(none);
    let relay = |Relay { solutions, iterations, ordered }: Relay| {
        let ordered = ordered.map_or_else(String::new, |order| format!(", ordered statistics {order}"));
        format!("{solutions} solutions, {iterations} iterations{ordered}")
    };
    let errors = |part: &Part| part.max_errors.map_or_else(none, |errors| errors.to_string());
    [
        ("the program", found.program.clone(), expected.program.clone()),
        ("the predecoder", predecoder(found), predecoder(expected)),
        ("the seed", found.seed.to_string(), expected.seed.to_string()),
        ("the number of shards", found_part.shard.of().to_string(), expected_part.shard.of().to_string()),
        ("the matching", found.matching.name().to_owned(), expected.matching.name().to_owned()),
        ("the setting of relay", relay(found.relay), relay(expected.relay)),
        ("the batch", format!("{} shots", found.batch_shots), format!("{} shots", expected.batch_shots)),
        ("the list of points", found_part.points.join(" "), expected_part.points.join(" ")),
        ("the most shots of a point", found_part.shots.to_string(), expected_part.shots.to_string()),
        ("the number of errors that end a point", errors(found_part), errors(expected_part)),
    ]
    .into_iter()
    .find(|(_, found, expected)| found != expected)
}
