//! Runs without end, round by round, in memory that does not grow with the run: in one pass, which is exact, or correlated.

mod correlated;
mod frontier;
mod plain;

use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::Layers;
use crate::metric::{FAR, Metric};
use correlated::Correlated;
use plain::Plain;

/// Most rounds that a region is expected to reach over: more only for weights that differ by orders of magnitude.
const MOST_REACH: i64 = 64;

/// The shape of a stream without end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndlessConfig {
    /// Rounds after which a matched pair of defects is decided; 0 takes three times as many as the widest way to the boundary can
    /// lead over, or one and a half times with correlations. Fewer make windows that are smaller and decisions that are sometimes
    /// [`forced`](EndlessDecoder::forced).
    pub margin: usize,
    /// In one pass: how many defects to gather, over at most twice as many rounds as the widest way to the boundary can lead over, before
    /// they are matched. Regions that wait for what comes later are then looked at less often, and the last of the defects are matched
    /// at the end of the run. 0 matches round by round.
    pub batch: usize,
    /// How many near nodes to list per detector, as [`DecoderConfig::near_entries`](crate::DecoderConfig::near_entries).
    pub near_entries: usize,
    /// Whether to match twice, as [`DecoderConfig::correlations`](crate::DecoderConfig::correlations), window by window. On a graph
    /// without correlations nothing changes.
    pub correlations: bool,
    /// In one pass: whether only the observables are wanted, as [`DecoderConfig::observables_only`](crate::DecoderConfig::observables_only).
    /// The weight then counts the parts that flip some. Windows that are matched twice leave nothing out.
    pub observables_only: bool,
}

impl Default for EndlessConfig {
    fn default() -> Self {
        Self { margin: 0, batch: 48, near_entries: 256, correlations: false, observables_only: false }
    }
}

/// What repeats in the graph, and how far its regions reach.
struct Shape {
    layers: Layers,
    /// Least weight, on the grid, for each round that an edge leads on.
    step: i64,
    /// Most rounds that the widest way to the boundary can lead over.
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
        // Without an edge in time, every round is on its own.
        let step = layers.step().unwrap_or(widest.max(1));
        let reach = if step > 0 { (widest + step - 1) / step } else { MOST_REACH };
        let context = (reach.clamp(1, MOST_REACH) as usize).max(layers.reach());
        Ok(Self { layers, step, context })
    }
}

/// A decoder for runs of any length, which are decoded round by round as they come in, with little to do after the last round.
///
/// In one pass, the decoder matches the defects of the rounds that are known and goes on with each further round, as a
/// [`StreamingDecoder`](crate::StreamingDecoder) does, but in a window that moves with the run. Pairs of defects that lie further
/// back than the margin are decided and leave the window; all others are taken along as they are. The answer is the least-weight
/// correction of the whole run, unless [`forced`](Self::forced) has counted: each decision is checked against everything that
/// comes later, by the dual variables of the matching, which prove the weight of the whole. Record 0022 has the argument.
///
/// With [`EndlessConfig::correlations`], each window is matched twice when it is full, and once more at the end of the run. Pairs of the
/// second pass that lie further back than the margin are decided. Their defects stay in the window, as a context, for as many rounds as
/// a region can reach over, so that a later window lowers the weights beside them as a whole run would. There is no proof of the whole:
/// `forced` counts where a later window contradicts a decision. Record 0026 has what was measured.
///
/// The graph describes a short run of the same experiment: a few rounds more than the run's beginning and end need, so that the
/// repeating round can be found. The graph's weights are not negative, and every part of the graph has a boundary. A round allocates
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

/// Clones share the tables, and begin a run of their own.
#[derive(Debug, Clone)]
enum Run {
    Plain(Box<Plain>),
    Correlated(Box<Correlated>),
}

/// The same call on either kind of run.
macro_rules! on_run {
    ($run:expr, $name:ident => $call:expr) => {
        match $run {
            Run::Plain($name) => $call,
            Run::Correlated($name) => $call,
        }
    };
}

impl EndlessDecoder {
    /// A decoder for runs of the experiment that `graph` is a short run of; its detector `i` belongs to round `rounds[i]`.
    ///
    /// # Errors
    /// [`SlidingError`] if nothing repeats in the graph, the window is too large, or a part of it has no boundary.
    pub fn new(graph: &MatchingGraph, rounds: &[u32], config: &EndlessConfig) -> Result<Self, SlidingError> {
        let run = if config.correlations && graph.num_correlations() > 0 {
            Run::Correlated(Box::new(Correlated::new(graph, rounds, config)?))
        } else {
            Run::Plain(Box::new(Plain::new(graph, rounds, config)?))
        };
        Ok(Self { run })
    }

    /// Whether it matches twice: [`EndlessConfig::correlations`] was set, and the graph has correlations.
    pub fn makes_second_pass(&self) -> bool {
        matches!(self.run, Run::Correlated(_))
    }

    /// The rounds at the end of a run that [`finish`](Self::finish) takes.
    pub fn tail_rounds(&self) -> usize {
        on_run!(&self.run, run => run.tail_rounds())
    }

    /// The fewest rounds that a run can have, those of the tail included; for shorter ones there are
    /// [`StreamingDecoder`](crate::StreamingDecoder) and [`Decoder`](crate::Decoder).
    pub fn least_rounds(&self) -> usize {
        on_run!(&self.run, run => run.least_rounds())
    }

    /// How many detectors round `t` of a run has (not one of the tail).
    pub fn detectors(&self, t: usize) -> u32 {
        on_run!(&self.run, run => run.detectors(t))
    }

    /// The rounds given so far in this run, and those of them that have left the window.
    pub fn progress(&self) -> (usize, usize) {
        on_run!(&self.run, run => run.progress())
    }

    /// Rounds after which a pair of defects is decided.
    pub fn margin(&self) -> usize {
        on_run!(&self.run, run => run.margin())
    }

    /// The observables flipped by what was decided so far: bit `o % 64` of word `o / 64`.
    pub fn observables(&self) -> &[u64] {
        on_run!(&self.run, run => run.observables())
    }

    /// The weight of the decisions so far; after [`finish`](Self::finish), the weight of the whole run, until the next run begins. Of
    /// a second pass, it is that of the lowered edges.
    pub fn weight(&self) -> f64 {
        on_run!(&self.run, run => run.weight())
    }

    /// How often in this run something was decided that later rounds might have changed; after [`finish`](Self::finish), in the
    /// whole run, until the next begins. If never, the correction of one pass is one of least weight for the whole run. Of two passes,
    /// windows are counted in which a defect would rather have been matched with a decided one, or was too old to be left undecided.
    pub fn forced(&self) -> u64 {
        on_run!(&self.run, run => run.forced())
    }

    /// Takes in the defects of the next round, as positions among its detectors, strictly increasing; `true` if the window moved
    /// on by it.
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the round has not been taken in then.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        on_run!(&mut self.run, run => run.push_round(defects))
    }

    /// Ends the run with the defects of its last rounds; the observables flipped by the correction of the whole run. The next
    /// round is the first of another run.
    ///
    /// # Errors
    /// [`SlidingError::Tail`] if these are not [`tail_rounds`](Self::tail_rounds), [`SlidingError::TooShort`] for a run of
    /// fewer than [`least_rounds`](Self::least_rounds), [`SlidingError::Defect`]. Nothing has been taken in then.
    pub fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        on_run!(&mut self.run, run => run.finish(tail))
    }

    /// Goes through a run's end as if the run ended here with nothing in its last rounds, and takes it back: what an end needs once a run is
    /// then in the caches. For callers who have the time of an end to spare between two rounds, every so many of them. It changes no
    /// answer.
    pub fn rehearse(&mut self) {
        on_run!(&mut self.run, run => run.rehearse());
    }

    /// Forgets an unfinished run.
    pub fn restart(&mut self) {
        on_run!(&mut self.run, run => run.restart());
    }
}
