//! Decoding of runs without end, round by round, in constant memory: exactly in one pass, or with correlations.

mod correlated;
mod decided;
mod frontier;
mod pane;
mod plain;
mod run;
mod shared;

use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::Layers;
use crate::metric::{FAR, Metric};
use correlated::Correlated;
use plain::Plain;
pub use run::EndlessRun;
pub use shared::{SharedEndlessConfig, SharedEndlessDecoder};

/// The most rounds that a region is expected to span: it spans more only if weights differ by orders of magnitude.
const MOST_REACH: i64 = 64;

/// The configuration of an [`EndlessDecoder`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndlessConfig {
    /// Rounds after which a matched pair of defects is decided. 0 stands for three times (with correlations one and a half times)
    /// the most rounds that a shortest path to the boundary can span. A smaller margin makes windows smaller, and decisions are
    /// then sometimes [`forced`](EndlessDecoder::forced).
    pub margin: usize,
    /// In one pass: how many defects to gather before they are matched, over at most twice the rounds that the widest path to the
    /// boundary can span. Gathering makes the decoder attend less often to regions that wait for later rounds, and leaves the
    /// last defects to the end of the run. 0 matches round by round.
    pub batch: usize,
    /// The most near nodes to list per detector, as [`DecoderConfig::near_entries`](crate::DecoderConfig::near_entries).
    pub near_entries: usize,
    /// Whether to match twice, as [`DecoderConfig::correlations`](crate::DecoderConfig::correlations), window by window. On a graph
    /// without correlations nothing changes.
    pub correlations: bool,
    /// In one pass: whether only the observables are wanted, as
    /// [`DecoderConfig::observables_only`](crate::DecoderConfig::observables_only). The weight then counts only the parts that
    /// flip an observable. With correlations, windows leave nothing out.
    pub observables_only: bool,
}

impl Default for EndlessConfig {
    fn default() -> Self {
        Self { margin: 0, batch: 48, near_entries: 256, correlations: false, observables_only: false }
    }
}

/// The repeating layers of the graph, and how far its regions reach.
struct Shape {
    layers: Layers,
    /// The least grid weight of an edge per round that the edge spans.
    step: i64,
    /// The most rounds that the widest path to the boundary can span.
    context: usize,
}

impl Shape {
    fn new(graph: &MatchingGraph, rounds: &[u32], layers: Layers) -> Result<Self, SlidingError> {
        let metric = Metric::new(graph, 0);
        let widest = metric.nodes.iter().map(|node| node.boundary).max().unwrap_or(0);
        if widest >= FAR {
            return Err(SlidingError::NoBoundary {
                window: rounds.iter().max().map_or(0, |&r| r as usize + 1),
            });
        }
        // Without an edge between rounds, every round is independent.
        let step = layers.step().unwrap_or(widest.max(1));
        let reach = if step > 0 { (widest + step - 1) / step } else { MOST_REACH };
        let context = (reach.clamp(1, MOST_REACH) as usize).max(layers.reach());
        Ok(Self { layers, step, context })
    }
}

/// A decoder for runs of any length, which takes a run round by round and has little to do after the last round.
///
/// In one pass, the decoder matches the defects of the known rounds and resumes with each further round, as a
/// [`StreamingDecoder`](crate::StreamingDecoder) does, but in a window that moves with the run. Pairs of defects further back
/// than the margin are decided and leave the window; all others are carried along unchanged. The answer is the least-weight
/// correction of the whole run, unless [`forced`](Self::forced) has counted: the dual variables of the matching, which prove the
/// weight of the whole run, check each decision against all later rounds. Record 0022 has the argument.
///
/// With [`EndlessConfig::correlations`], each window is matched twice when it is full, and once more at the end of the run. Pairs
/// of the second pass that lie further back than the margin are decided. Their defects stay in the window as a context, for as
/// many rounds as a region can span, so that a later window lowers the weights near them as a whole run would. No proof covers
/// the whole run: `forced` counts windows that contradict a decision. Record 0026 has the measurements.
///
/// The graph describes a short run of the same experiment, a few rounds longer than the run's beginning and end need, so that the
/// repeating round can be found. The graph has no negative weights, and every part of it has a boundary. A round allocates
/// nothing.
///
/// ```
/// use ringcall_matching::{EndlessConfig, EndlessDecoder, GraphBuilder};
///
/// // A bit measured over and over: a detector compares two measurements. 6 rounds stand for any number of them.
/// let mut b = GraphBuilder::new();
/// for t in 0..6 {
///     b.boundary_edge(t, 3.0, &[0])?;
///     if t < 5 {
///         b.edge(t, t + 1, 2.0, &[])?;
///     }
/// }
/// let rounds: Vec<u32> = (0..6).collect();
/// let mut decoder = EndlessDecoder::new(&b.build()?, &rounds, &EndlessConfig::default())?;
/// for t in 0..1_000_000u32 {
///     // Two wrong measurements, each seen by two detectors.
///     let fired = [500, 501, 900_000, 900_001].contains(&t);
///     decoder.push_round(if fired { &[0] } else { &[] })?;
/// }
/// let last: Vec<&[u32]> = vec![&[]; decoder.tail_rounds()];
/// assert_eq!(decoder.finish(&last)?, [0]);
/// assert_eq!((decoder.weight(), decoder.forced()), (4.0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct EndlessDecoder {
    run: Run,
}

/// Clones share the tables and begin their own runs.
#[derive(Debug, Clone)]
enum Run {
    Plain(Box<Plain>),
    Correlated(Box<Correlated>),
}

/// Makes the same call on either kind of run.
macro_rules! on_run {
    ($run:expr, $name:ident => $call:expr) => {
        match $run {
            Run::Plain($name) => $call,
            Run::Correlated($name) => $call,
        }
    };
}

impl EndlessDecoder {
    /// Makes a decoder for runs of the experiment of which `graph` is a short run; detector `i` of the graph belongs to round
    /// `rounds[i]`.
    ///
    /// # Errors
    /// [`SlidingError`] if no round repeats in the graph, the window is too large, or a part of it has no boundary.
    pub fn new(graph: &MatchingGraph, rounds: &[u32], config: &EndlessConfig) -> Result<Self, SlidingError> {
        let run = if config.correlations && graph.num_correlations() > 0 {
            Run::Correlated(Box::new(Correlated::new(graph, rounds, config)?))
        } else {
            Run::Plain(Box::new(Plain::new(graph, rounds, config)?))
        };
        Ok(Self { run })
    }

    /// Whether the decoder matches twice: [`EndlessConfig::correlations`] was set, and the graph has correlations.
    pub fn makes_second_pass(&self) -> bool {
        matches!(self.run, Run::Correlated(_))
    }

    /// The number of rounds at the end of a run that [`finish`](Self::finish) takes.
    pub fn tail_rounds(&self) -> usize {
        on_run!(&self.run, run => run.tail_rounds())
    }

    /// The fewest rounds of a run, including those of the tail. For shorter runs use
    /// [`StreamingDecoder`](crate::StreamingDecoder) or [`MwpmDecoder`](crate::MwpmDecoder).
    pub fn least_rounds(&self) -> usize {
        on_run!(&self.run, run => run.least_rounds())
    }

    /// The number of detectors of round `t` of a run, outside the tail.
    pub fn detectors(&self, t: usize) -> u32 {
        on_run!(&self.run, run => run.detectors(t))
    }

    /// The rounds given so far in this run, and how many of them have left the window.
    pub fn progress(&self) -> (usize, usize) {
        on_run!(&self.run, run => run.progress())
    }

    /// Rounds after which a pair of defects is decided.
    pub fn margin(&self) -> usize {
        on_run!(&self.run, run => run.margin())
    }

    /// The observables flipped by the decisions so far: bit `o % 64` of word `o / 64`.
    pub fn observables(&self) -> &[u64] {
        on_run!(&self.run, run => run.observables())
    }

    /// The weight of the decisions so far; after [`finish`](Self::finish), the weight of the whole run, until the next run
    /// begins. After a second pass the weight is that of the lowered edges.
    pub fn weight(&self) -> f64 {
        on_run!(&self.run, run => run.weight())
    }

    /// How many decisions of this run later rounds might have changed; after [`finish`](Self::finish), of the whole run, until
    /// the next begins. If 0, the correction of one pass has the least weight for the whole run. With correlations: the number of
    /// windows in which an undecided defect would rather have been matched with a decided one, or was too old to stay undecided.
    pub fn forced(&self) -> u64 {
        on_run!(&self.run, run => run.forced())
    }

    /// Takes the defects of the next round, as strictly increasing positions among its detectors. Returns true if the window
    /// moved on.
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the decoder has then not taken the round.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        on_run!(&mut self.run, run => run.push_round(defects))
    }

    /// Ends the run with the defects of its last rounds. Returns the observables flipped by the correction of the whole run. The
    /// next round is the first of another run.
    ///
    /// # Errors
    /// [`SlidingError::Tail`] unless there are [`tail_rounds`](Self::tail_rounds) of them, [`SlidingError::TooShort`] for a run
    /// of fewer than [`least_rounds`](Self::least_rounds), [`SlidingError::Defect`]. The decoder has then taken nothing.
    pub fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        on_run!(&mut self.run, run => run.finish(tail))
    }

    /// Runs the end of a run, as if it came here with no defects in its last rounds, and undoes it, so that the caches hold what
    /// a real end needs. For callers with spare time between two rounds, once every so many rounds. Answers do not change.
    pub fn rehearse(&mut self) {
        on_run!(&mut self.run, run => run.rehearse());
    }

    /// Forgets an unfinished run.
    pub fn restart(&mut self) {
        on_run!(&mut self.run, run => run.restart());
    }
}
