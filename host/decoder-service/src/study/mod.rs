//! Studies of logical error rates over a grid of memory experiments or given error models. Each point is decoded by matching
//! alone and, if there is one, by a predecoder and matching, on the same shots. Matching is plain, correlated or both. Relay-BP
//! takes its place if asked for, or if a code's errors need it.
//!
//! Shots come in batches. A batch's shots follow from the seed, the point and the batch's number ([`Point::seed`]), so that
//! counts depend neither on threads nor on interruptions. Each finished batch is a line in the caller's log; a [`State`] read
//! from the log continues where it ended. Only the leading run of finished batches counts, up to the first batch that satisfies
//! the stop rule ([`State::outcome`]).
//!
//! A study may be counted in shards ([`Study::shard`]), each by a process with its own log; [`merge`] joins them. A shard counts
//! every n-th batch of a point until its own batches satisfy the stop rule. The whole study's batches up to the same batch then
//! satisfy it as well, so the shards have every batch that counts, and a merge gives the counts of the whole study. A shard that
//! sees the others' batches ([`Study::run_beside`]) ends a point as soon as all of them together satisfy the rule.
//!
//! Times of matching are processor time of the decoding thread, regardless of other work on its core. Times of inference are
//! wall-clock time, since a network may run on a device: with more threads than cores they are too long.
//!
//! ```
//! use ringcall_qec::code::Basis;
//! use ringcall_decoder_service::study::{Matching, Point, Relay, State, Stop, Study};
//!
//! let point = |distance, p| Point::surface(distance, distance, Basis::Z, p);
//! let study = Study {
//!     program: String::new(),
//!     seed: 1,
//!     batch_shots: 500,
//!     matching: Matching::Correlated,
//!     relay: Relay::default(),
//!     predecoder: None,
//!     deadline: None,
//!     points: vec![point(3, 0.01), point(5, 0.01)],
//!     models: std::collections::BTreeMap::new(),
//!     stop: Stop { shots: 2000, errors: Some(50) },
//!     threads: 2,
//!     shard: None,
//! };
//! let (mut state, mut log) = (State::new(study.setup()), Vec::new());
//! study.run(&mut state, &mut log, &mut |_| true)?;
//! for point in &study.points {
//!     let found = state.outcome(point, &study.stop);
//!     assert!(found.complete);
//!     println!("{point}: {:?}", found.counts.alone().clopper_pearson(0.95)?);
//! }
//! // The log has every result.
//! let (again, whole) = State::read(&mut &log[..], study.setup())?;
//! assert_eq!(again.outcome(&point(5, 0.01), &study.stop), state.outcome(&point(5, 0.01), &study.stop));
//! assert_eq!(whole, log.len() as u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counts;
mod file;
mod merge;
mod plain;
mod point;
mod shard;
mod state;
mod worker;

pub use counts::{ArmCounts, PredecoderCounts, ShotCounts, Stop};
pub use file::{Opened, StateFile, Storage};
pub use merge::{MergeError, Merged, merge};
pub use plain::{PlainCounts, PlainPredecoderCounts};
pub use point::{GivenModel, Point};
pub use shard::{Part, Shard};
pub use state::{Outcome, Setup, State, StateError};

use crate::Inference;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_qec::decode::{BpConfig, DecoderFamily, DecoderOptions, MatchingEngine, OrderedStatistics};
use ringcall_qec::dem::DetectorErrorModel;
use serde::{Deserialize, Serialize};
use state::Counted;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use worker::{Prepared, Worker};

/// Any error of a point.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The kind of matching of a study's arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// In one pass.
    Plain,
    /// In two passes, the second on weights that the first one's solution has lowered, at each point whose model has correlations
    /// to use; [`ShotCounts::correlated`] says which points these are.
    Correlated,
    /// By an ensemble of correlated matchings ([`MatchingEngine::Ensemble`]). Points whose models have no correlations to use are
    /// refused.
    Ensemble,
    /// Plain and correlated, on the same shots: each arm runs twice.
    Both,
    /// Relay-BP instead of matching. The other kinds fall back to it at points whose model matching cannot decode;
    /// [`ShotCounts::relay`] says which points these are.
    Relay,
    /// Each basis and layer of time of a surface code separately, after a predecoder: see
    /// [`Problem::by_slices`](crate::Problem::by_slices).
    Slices,
}

impl Matching {
    /// The decoder options for a point's model; `matchable` says whether matching can decode it.
    fn options(self, matchable: bool, settings: Relay) -> DecoderOptions {
        let relay = self == Self::Relay || !matchable;
        DecoderOptions {
            family: Some(if relay { DecoderFamily::Relay } else { DecoderFamily::Matching }),
            matching: match self {
                Self::Plain if !relay => Some(MatchingEngine::SparseBlossom),
                Self::Ensemble if !relay => Some(MatchingEngine::Ensemble),
                _ => None,
            },
            relay: settings.config(),
        }
    }

    /// The name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => MatchingEngine::SparseBlossom.name(),
            Self::Correlated => MatchingEngine::CorrelatedBlossom.name(),
            Self::Ensemble => MatchingEngine::Ensemble.name(),
            Self::Both => "both",
            Self::Relay => DecoderFamily::Relay.name(),
            Self::Slices => DecoderFamily::Slices.name(),
        }
    }
}

/// The settings of Relay-BP; all others are as published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relay {
    /// The number of solutions to look for; the lightest wins.
    pub solutions: u32,
    /// The most iterations of a shot.
    pub iterations: u32,
    /// Ordered statistics, for shots that did not converge.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub ordered: Option<OrderedStatistics>,
}

/// An option of ordered statistics, serialised as text.
mod as_text {
    use ringcall_qec::decode::OrderedStatistics;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "as serde calls it")]
    pub(super) fn serialize<S: Serializer>(
        order: &Option<OrderedStatistics>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match order {
            Some(order) => serializer.collect_str(order),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<OrderedStatistics>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

impl Default for Relay {
    /// As published: the first solution.
    fn default() -> Self {
        let BpConfig { solutions, max_iterations, ordered_statistics, .. } = BpConfig::relay();
        Self { solutions, iterations: max_iterations, ordered: ordered_statistics }
    }
}

impl Relay {
    fn config(self) -> BpConfig {
        BpConfig {
            solutions: self.solutions,
            max_iterations: self.iterations,
            ordered_statistics: self.ordered,
            ..BpConfig::relay()
        }
    }
}

/// Makes a predecoder for a point: detectors in, residual and frame out. Each thread gets its own engine of the predecoder.
pub type Bind<'a> = dyn Fn(&Point) -> Result<Inference, Cause> + 'a;

/// The arm with a predecoder.
pub struct Arm<'a> {
    /// The arm's identity in a state: [`Setup::predecoder`].
    pub label: String,
    /// Makes the predecoder.
    pub bind: &'a Bind<'a>,
}

impl std::fmt::Debug for Arm<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arm").field("label", &self.label).finish_non_exhaustive()
    }
}

/// A study: its settings and its points. See the [module](self).
#[derive(Debug)]
pub struct Study<'a> {
    /// The program that counts, by version and digest; states of another program are refused. May be empty.
    pub program: String,
    /// The seed of all shots.
    pub seed: u64,
    /// Shots of a batch, at least 1. An interruption costs each thread at most one batch.
    pub batch_shots: u32,
    /// The matching of both arms.
    pub matching: Matching,
    /// The settings of Relay-BP where it takes the place of matching.
    pub relay: Relay,
    /// The second arm.
    pub predecoder: Option<Arm<'a>>,
    /// The processor time after which a decode counts as late. Decodes are not cut off: counts of errors depend on no clock.
    pub deadline: Option<Duration>,
    /// The grid, in working order.
    pub points: Vec<Point>,
    /// The models of given points, by [`GivenModel::digest`].
    pub models: BTreeMap<u64, DetectorErrorModel>,
    /// The stop rule of a point.
    pub stop: Stop,
    /// Threads, at least 1.
    pub threads: usize,
    /// The part that this process counts; `None` for the whole study.
    pub shard: Option<Shard>,
}

/// Progress of a study.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The current point.
    pub point: Point,
    /// The point's index, from 0.
    pub index: usize,
    /// The point's results so far; a shard reports its own batches.
    pub outcome: Outcome,
}

/// Why a study ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A point that cannot be prepared or decoded.
    #[error("{point}: {source}")]
    Point {
        /// The point.
        point: Point,
        /// The error.
        source: Cause,
    },
    /// The log cannot be written.
    #[error("the study's state: {0}")]
    State(#[from] StateError),
    /// The state has another setup.
    #[error("a state of {0}, which is not this study's")]
    OtherState(Box<Setup>),
}

/// How long the loop waits for news before it reports progress.
const PROGRESS: Duration = Duration::from_millis(100);

impl Study<'_> {
    /// The setup of the study's states.
    #[must_use]
    pub fn setup(&self) -> Setup {
        let predecoder = self.predecoder.as_ref().map(|arm| arm.label.clone());
        let &Self { seed, batch_shots, matching, relay, .. } = self;
        let part = self.shard.map(|shard| Part {
            shard,
            points: self.points.iter().map(ToString::to_string).collect(),
            shots: self.stop.shots,
            max_errors: self.stop.errors,
        });
        let deadline_ns =
            self.deadline.map(|deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
        Setup {
            program: self.program.clone(),
            seed,
            batch_shots,
            matching,
            relay,
            predecoder,
            deadline_ns,
            part,
        }
    }

    /// Works until every point has enough, or `progress` says `false`: it is asked about ten times a second, and after each
    /// batch. Finished batches go to `log`, one line each, and into `state`. Returns whether every point has enough.
    ///
    /// # Errors
    /// A point that does not exist or cannot be decoded, and a log that cannot be written; what was finished before is in
    /// the log.
    pub fn run(
        &self,
        state: &mut State,
        log: &mut dyn Write,
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<bool, StudyError> {
        self.run_beside(state, log, &mut |_| {}, progress)
    }

    /// As [`run`](Self::run); `others` may add batches of other shards to the state before each check of the stop rule
    /// ([`State::absorb`]). It is called as often as `progress`.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_beside(
        &self,
        state: &mut State,
        log: &mut dyn Write,
        others: &mut dyn FnMut(&mut State),
        progress: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<bool, StudyError> {
        if *state.setup() != self.setup() {
            return Err(StudyError::OtherState(Box::new(state.setup().clone())));
        }
        if self.shard.is_some() {
            state.begin(log)?;
        }
        for (index, &point) in self.points.iter().enumerate() {
            let mut counted = PointCounts::new(self, state.setup());
            let mut look = |state: &mut State, counted: &mut PointCounts| {
                others(state);
                counted.update(self, state, &point);
                progress(&Progress { point, index, outcome: counted.outcome() })
            };
            if !look(state, &mut counted) {
                return Ok(false);
            }
            if !counted.complete {
                self.point(&point, state, &mut counted, log, &mut look)?;
                if !counted.complete {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Counts one point, on all threads. `look` updates the counts, and returns whether to go on.
    fn point(
        &self,
        point: &Point,
        state: &mut State,
        counted: &mut PointCounts,
        log: &mut dyn Write,
        look: &mut dyn FnMut(&mut State, &mut PointCounts) -> bool,
    ) -> Result<(), StudyError> {
        let mut prepared = Prepared::new(*point, self)?;
        prepared.deadline_ns = state.setup().deadline_ns;
        let (batches, done) = (self.stop.batches(self.batch_shots), state.finished(point));
        let (first, step) = self.shard.map_or((0, 1), |shard| (u64::from(shard.index() - 1), shard.of()));
        let left = (batches - (done.len() as u64).min(batches)).min(batches.div_ceil(step.into()));
        let threads = self.threads.clamp(1, usize::try_from(left.max(1)).unwrap_or(usize::MAX));
        let missing =
            Mutex::new((first..batches).step_by(step as usize).filter(|batch| !done.contains(batch)));
        let quit = DeviceU64::new(0);
        let (sender, finished) = mpsc::channel();
        let (seed, shots) = (self.seed, self.batch_shots);
        let work = |sender: mpsc::Sender<Result<(u64, ShotCounts), StudyError>>| -> Result<(), StudyError> {
            let mut worker = Worker::new(&prepared)?;
            while quit.load(Ordering::Relaxed) == 0 {
                let next = missing.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(batch) = next else { break };
                let Some(counts) = worker.batch(point.seed(seed, batch), shots, &quit)? else { break };
                // The caller has enough batches.
                let _ = sender.send(Ok((batch, counts)));
            }
            Ok(())
        };
        let mut failed = None;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (work, sender) = (&work, sender.clone());
                scope.spawn(move || {
                    if let Err(error) = work(sender.clone()) {
                        let _ = sender.send(Err(error));
                    }
                });
            }
            drop(sender);
            loop {
                let recorded = match finished.recv_timeout(PROGRESS) {
                    // After an error the log may end within a line.
                    Ok(Ok(_)) if failed.is_some() => Ok(()),
                    Ok(Ok((batch, counts))) => state.record(point, batch, counts, log).map_err(Into::into),
                    Ok(Err(error)) => Err(error),
                    Err(RecvTimeoutError::Timeout) => Ok(()),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if let Err(error) = recorded {
                    failed.get_or_insert(error);
                }
                let go_on = look(state, counted);
                if failed.is_some() || counted.complete || !go_on {
                    quit.store(1, Ordering::Relaxed);
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }
}

/// The counts of a point.
struct PointCounts {
    /// All known batches.
    whole: Counted,
    /// The batches of this shard.
    own: Option<Counted>,
    /// Whether this process is done with the point.
    complete: bool,
}

impl PointCounts {
    fn new(study: &Study<'_>, setup: &Setup) -> Self {
        let own = study.shard.map(|shard| Counted::of_shard(setup, shard));
        Self { whole: Counted::new(setup), own, complete: false }
    }

    fn update(&mut self, study: &Study<'_>, state: &State, point: &Point) {
        state.count(point, &study.stop, &mut self.whole);
        let batches = study.stop.batches(study.batch_shots);
        let own = self.own.as_mut().is_some_and(|own| {
            state.count(point, &study.stop, own);
            own.outcome.complete || own.next >= batches
        });
        self.complete = own || self.whole.outcome.complete;
    }

    /// The public part of the counts.
    fn outcome(&self) -> Outcome {
        Outcome { complete: self.complete, ..self.own.as_ref().unwrap_or(&self.whole).outcome }
    }
}
