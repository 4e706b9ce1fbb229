//! The decoder: checks defects, matches them, and reads out the solution.

use std::sync::Arc;

use crate::blossom::{Blossom, Tables};
use crate::correlated::SecondPass;
use crate::error::{BatchError, MatchingError};
use crate::graph::MatchingGraph;
use crate::input::Intake;
use crate::metric::{Metric, near};
use crate::readout::Answer;
use crate::small::PairTable;
use crate::solution::{CertificateError, MatchedPair, Solution};

/// Trade-offs of memory and build time against speed. Answers are of minimum weight with every choice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecoderConfig {
    /// The most near nodes to list per detector (16 bytes each, in chunks of 16; 0 lists none). Large graphs get shorter lists:
    /// more than 256 nodes while all lists take at most 40 MiB, 256 while they take at most 256 MiB, then as many as fit into
    /// that, or 16. Detectors of rounds that look the same share their lists, so the lists seldom take as much. Longer lists save
    /// searches when defects are far apart, as a predecoder leaves them; they cost memory and time to build.
    pub near_entries: usize,
    /// Whether to solve few defects on a small graph (up to 512 detectors) from a table of all pairs. Decoders with a second pass
    /// do not use the table.
    pub pair_table: bool,
    /// Whether to match twice (correlated matching, after Fowler, arXiv:1310.0863). The second pass lowers the weight of every
    /// edge that shares an error with an edge of the first solution. Results are those of PyMatching's
    /// `enable_correlations=True`, up to ties. On a graph without correlations ([`MatchingGraph::num_correlations`]) nothing
    /// changes.
    ///
    /// The solution, its weight and its proof then refer to the lowered weights.
    pub correlations: bool,
    /// Whether only the observables are wanted. Parts of the graph that flip no observable, such as the checks of the other basis
    /// in a memory experiment, are then left out, or matched once if a second pass needs the edges crossed in them. The
    /// observables are as likely right as without this option; pairs, corrections and weights are those of the other parts.
    ///
    /// ```
    /// use ringcall_matching::{DecoderConfig, GraphBuilder, MwpmDecoder};
    /// let mut b = GraphBuilder::new();
    /// b.boundary_edge(0, 1.0, &[0])?.edge(0, 1, 1.0, &[])?.boundary_edge(1, 1.0, &[])?;
    /// b.boundary_edge(2, 1.0, &[])?.edge(2, 3, 1.5, &[])?.boundary_edge(3, 1.0, &[])?;
    /// let mut config = DecoderConfig::default();
    /// config.observables_only = true;
    /// let mut decoder = MwpmDecoder::with_config(b.build()?, &config);
    /// let solution = decoder.decode(&[0, 2, 3])?;
    /// assert_eq!((solution.observables(), solution.weight()), (&[1][..], 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub observables_only: bool,
}

impl DecoderConfig {
    /// The most near nodes in a detector's list, in a graph of this many detectors.
    #[must_use]
    pub fn most_near_entries(&self, detectors: usize) -> usize {
        near::most_entries(detectors, self.near_entries)
    }

    /// Bytes of the near lists of this many detectors, each with `entries` nodes on average: an estimate before a decoder is
    /// made.
    ///
    /// ```
    /// use ringcall_matching::DecoderConfig;
    /// let config = DecoderConfig::default();
    /// let entries = config.most_near_entries(100_000) as f64;
    /// assert_eq!(config.near_list_bytes(100_000, entries), 256_000_000.0);
    /// ```
    #[must_use]
    pub fn near_list_bytes(&self, detectors: usize, entries: f64) -> f64 {
        near::list_bytes(detectors, entries.min(self.most_near_entries(detectors) as f64))
    }
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self { near_entries: 1024, pair_table: true, correlations: false, observables_only: false }
    }
}

/// How far a decode came before its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// To the end.
    Done,
    /// To the end of the first pass: the solution is that of one pass.
    FirstPass,
    /// To the end of the second of more passes ([`EnsembleDecoder`](crate::EnsembleDecoder)).
    SecondPass,
    /// Not to the end of the first pass.
    Part {
        /// Whether the solution explains the syndrome: without a boundary, some defects may be left unmatched.
        explained: bool,
    },
}

/// The tables that decoders of one graph share.
#[derive(Debug)]
pub(crate) struct Shared {
    graph: MatchingGraph,
    metric: Metric,
    table: Option<PairTable>,
}

impl Shared {
    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables { graph: &self.graph, metric: &self.metric }
    }

    /// The state of second passes, for one decoder.
    pub(crate) fn second_pass(&self) -> Box<SecondPass> {
        Box::new(SecondPass::new(&self.graph))
    }
}

/// An exact minimum-weight perfect matching decoder.
///
/// It is built once per graph and decodes any number of syndromes without allocating. Clones share the tables of the graph, so
/// each thread can have one; a clone begins without a solution.
///
/// ```
/// use ringcall_matching::{GraphBuilder, MwpmDecoder};
///
/// // Three detectors in a row between two boundaries; an error at the left boundary flips observable 0.
/// let mut b = GraphBuilder::new();
/// b.boundary_edge(0, 3.0, &[0])?.edge(0, 1, 2.0, &[])?.edge(1, 2, 2.0, &[])?.boundary_edge(2, 4.5, &[])?;
/// let mut decoder = MwpmDecoder::new(b.build()?);
///
/// let solution = decoder.decode(&[1])?;
/// assert_eq!(solution.observables(), [1]);
/// assert!((solution.weight() - 5.0).abs() < 1e-6);
/// let mut edges = decoder.correction().to_vec();
/// assert_eq!(edges, [0, 1]);
///
/// assert!(decoder.decode(&[9]).is_err());
/// assert_eq!(decoder.decode(&[0, 1])?.observables(), [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MwpmDecoder {
    shared: Arc<Shared>,
    blossom: Blossom,
    intake: Intake,
    /// The defects that the pair table does not match.
    remainder: Vec<u32>,
    answer: Answer,
    second: Option<Box<SecondPass>>,
}

/// Not derived: a derived copy of a list has no spare capacity, and decoding must not allocate.
impl Clone for MwpmDecoder {
    fn clone(&self) -> Self {
        Self::on(Arc::clone(&self.shared), self.second.is_some())
    }
}

impl MwpmDecoder {
    /// Makes a decoder for a graph. This computes the distance tables, which takes time.
    pub fn new(graph: MatchingGraph) -> Self {
        Self::with_config(graph, &DecoderConfig::default())
    }

    /// Makes a decoder with other than the default trade-offs.
    pub fn with_config(graph: MatchingGraph, config: &DecoderConfig) -> Self {
        let graph = if config.observables_only { graph.for_observables(config.correlations) } else { graph };
        let metric = Metric::new(&graph, config.near_entries);
        let table = if config.pair_table { PairTable::new(&metric) } else { None };
        let twice = config.correlations && graph.num_correlations() > 0;
        Self::on(Arc::new(Shared { graph, metric, table }), twice)
    }

    /// A decoder on these tables, with memory of its own.
    fn on(shared: Arc<Shared>, twice: bool) -> Self {
        let tables @ Tables { graph, .. } = shared.tables();
        Self {
            blossom: Blossom::new(tables),
            intake: Intake::new(graph, twice),
            remainder: Vec::with_capacity(graph.num_detectors()),
            answer: Answer::new(graph),
            second: twice.then(|| shared.second_pass()),
            shared,
        }
    }

    /// A decoder that makes a single pass, on the same tables.
    pub fn single_pass(&self) -> Self {
        Self::on(Arc::clone(&self.shared), false)
    }

    /// The tables, for a decoder that splits the work.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether the decoder matches twice: [`DecoderConfig::correlations`] was set, and the graph has correlations.
    pub fn makes_second_pass(&self) -> bool {
        self.second.is_some()
    }

    /// The graph that the decoder decodes on.
    pub fn graph(&self) -> &MatchingGraph {
        &self.shared.graph
    }

    /// Whether nothing depends on a detector, neither an answer nor an error: the detector lies in a part of the graph that has a
    /// boundary and that [`DecoderConfig::observables_only`] leaves out. Nobody needs to sample or send it.
    ///
    /// ```
    /// use ringcall_matching::{DecoderConfig, GraphBuilder, MwpmDecoder};
    /// let mut b = GraphBuilder::new();
    /// b.boundary_edge(0, 1.0, &[0])?.boundary_edge(1, 1.0, &[])?;
    /// let mut config = DecoderConfig::default();
    /// assert!(!MwpmDecoder::with_config(b.build()?, &config).leaves_out(1));
    /// config.observables_only = true;
    /// let decoder = MwpmDecoder::with_config(b.build()?, &config);
    /// assert_eq!([0, 1].map(|detector| decoder.leaves_out(detector)), [false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such detector.
    pub fn leaves_out(&self, detector: u32) -> bool {
        let graph = &self.shared.graph;
        let unmatched =
            if self.makes_second_pass() { graph.leaves_out(detector) } else { graph.is_silent(detector) };
        graph.parts()[graph.part_of(detector) as usize] && unmatched
    }

    /// Finds a correction of minimum weight for the detectors that fired, each given once, in any order.
    pub fn decode(&mut self, defects: &[u32]) -> Result<&Solution, MatchingError> {
        self.answer.clear();
        self.intake.take(&self.shared.graph, defects)?;
        self.solve();
        Ok(&self.answer.solution)
    }

    /// As [`decode`](Self::decode), from a bit-packed syndrome: detector `i` is bit `i % 64` of word `i / 64`.
    pub fn decode_bits(&mut self, words: &[u64]) -> Result<&Solution, MatchingError> {
        let n = self.shared.graph.num_detectors();
        let stray = words.get(n / 64).is_some_and(|w| w >> (n % 64) != 0)
            || words.iter().skip(n / 64 + 1).any(|&w| w != 0);
        if words.len() < n.div_ceil(64) || stray {
            self.answer.clear();
            return Err(MatchingError::SyndromeLength { words: words.len(), detectors: n });
        }
        let mut list = std::mem::take(&mut self.intake.sorted);
        list.clear();
        crate::set_bits(words, &mut list);
        // The list is strictly increasing, so `decode` does not need the buffer that the list is borrowed from.
        let result = self.decode(&list).map(|_| ());
        self.intake.sorted = list;
        result.map(|()| &self.answer.solution)
    }

    /// Decodes many shots in one call: shot `i` has the defects `defects[offsets[i]..offsets[i + 1]]`.
    ///
    /// This is for syndromes that are decoded slice by slice. `each` gets every shot's number and solution. The first invalid
    /// shot ends the batch.
    ///
    /// ```
    /// # let mut b = ringcall_matching::GraphBuilder::new();
    /// # b.boundary_edge(0, 1.0, &[0])?.edge(0, 1, 1.0, &[])?.boundary_edge(1, 1.0, &[])?;
    /// # let mut decoder = ringcall_matching::MwpmDecoder::new(b.build()?);
    /// let mut flips = 0;
    /// // Three slices: detector 0; nothing; detectors 0 and 1.
    /// decoder.decode_batch(&[0, 1, 1, 3], &[0, 0, 1], |_, solution| flips ^= solution.observables()[0])?;
    /// assert_eq!(flips, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decode_batch(
        &mut self,
        offsets: &[usize],
        defects: &[u32],
        mut each: impl FnMut(usize, &Solution),
    ) -> Result<(), BatchError> {
        for (shot, ends) in offsets.windows(2).enumerate() {
            let (start, end) = (ends[0], ends[1]);
            let source = MatchingError::Offsets { start, end, defects: defects.len() };
            let list = defects.get(start..end).ok_or(BatchError { shot, source })?;
            each(shot, self.decode(list).map_err(|source| BatchError { shot, source })?);
        }
        Ok(())
    }

    /// As [`decode`](Self::decode), until `expired` returns true; then the best answer so far. The decoder calls `expired` every
    /// few steps of the algorithm, so the graph bounds the work between two calls.
    ///
    /// If the second pass does not finish, the answer is that of the first. If the first does not finish either, unmatched
    /// regions are matched with the boundary: the answer explains the syndrome, but not with the least weight
    /// ([`verify`](Self::verify) then fails).
    ///
    /// ```
    /// # use ringcall_matching::{GraphBuilder, MwpmDecoder, Progress};
    /// # let mut b = GraphBuilder::new();
    /// # b.boundary_edge(0, 3.0, &[0])?.edge(0, 1, 2.0, &[])?.boundary_edge(1, 4.5, &[])?;
    /// # let mut decoder = MwpmDecoder::new(b.build()?);
    /// let begin = std::time::Instant::now();
    /// let deadline = std::time::Duration::from_secs(1);
    /// let (solution, progress) = decoder.decode_until(&[0, 1], || begin.elapsed() > deadline)?;
    /// assert_eq!((solution.weight(), progress), (2.0, Progress::Done));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_until(
        &mut self,
        defects: &[u32],
        mut expired: impl FnMut() -> bool,
    ) -> Result<(&Solution, Progress), MatchingError> {
        self.answer.clear();
        self.intake.take(&self.shared.graph, defects)?;
        let progress = self.solve_until(&mut expired);
        Ok((&self.answer.solution, progress))
    }

    fn solve_until(&mut self, expired: &mut impl FnMut() -> bool) -> Progress {
        let Self { shared, blossom, intake, answer, second, .. } = self;
        let tables = shared.tables();
        if blossom.solve_until(tables, &intake.defects, expired) {
            let done = match second {
                Some(second) => answer.read_until(tables, blossom, second, expired),
                None => {
                    answer.compose(tables, |out| out.regions(blossom));
                    true
                }
            };
            return if done { Progress::Done } else { Progress::FirstPass };
        }
        if let Some(second) = second {
            second.skip();
        }
        let explained = blossom.match_with_boundary();
        answer.compose(tables, |out| out.regions(blossom));
        Progress::Part { explained }
    }

    fn solve(&mut self) {
        let Self { shared, blossom, intake, remainder, answer, second } = self;
        let defects = &intake.defects;
        let Shared { metric, table, .. } = &**shared;
        let tables = shared.tables();
        if second.is_some() {
            // The second pass starts from the regions of the first, and the table has no regions.
            blossom.solve(tables, defects);
            return answer.read(tables, blossom, second.as_deref_mut());
        }
        answer.compose(tables, |out| {
            let mut rest = defects;
            if let Some((table, small)) = table.as_ref().and_then(|t| Some((t, t.solve(metric, defects)?))) {
                for (i, j) in small.pairs() {
                    let (a, b) = (defects[i], defects[j]);
                    if i == j {
                        out.boundary(a);
                    } else {
                        out.pair(a, b, table.dist(a, b).into(), table.place(a, b));
                    }
                }
                remainder.clear();
                remainder.extend(small.left().map(|i| defects[i]));
                rest = remainder;
            }
            if !rest.is_empty() {
                blossom.solve(tables, rest);
                out.regions(blossom);
            }
        });
    }

    /// The edges of the last solution, as sorted indices into [`MatchingGraph::edges`]; empty after an error.
    ///
    /// The edges explain the defects. This call looks them up; decoding does not.
    pub fn correction(&mut self) -> &[u32] {
        self.correction_on().0
    }

    /// The last solution.
    pub(crate) fn solution(&self) -> &Solution {
        &self.answer.solution
    }

    /// Whether the last solution is that of a second pass: whether the first pass changed any weight.
    pub(crate) fn second_pass_applied(&self) -> bool {
        self.second.as_ref().is_some_and(|second| second.applied())
    }

    /// Writes the edges of the first of two passes of the last decode, sorted, to `list`; none if there was one pass.
    pub(crate) fn first_correction(&self, list: &mut Vec<u32>) {
        list.clear();
        if let Some(second) = &self.second {
            list.extend_from_slice(second.first_edges());
            list.sort_unstable();
            crate::bits::cancel_pairs(list);
        }
    }

    /// As [`correction`](Self::correction), with the graph of the edges.
    pub(crate) fn correction_on(&mut self) -> (&[u32], &MatchingGraph) {
        let second = self.second.as_deref().filter(|second| second.applied());
        (self.answer.correction(self.shared.tables(), second), &self.shared.graph)
    }

    /// Flips the observables of the last solution's `wanted` pairs in `observables`, and returns the pairs' grid weight.
    pub(crate) fn part(&mut self, wanted: impl Fn(MatchedPair) -> bool, observables: &mut [u64]) -> i64 {
        let second = self.second.as_deref().filter(|second| second.applied());
        self.answer.part(self.shared.tables(), second, wanted, observables)
    }

    /// The pairs of the last solution.
    pub(crate) fn pairs(&self) -> &[MatchedPair] {
        self.answer.solution.pairs()
    }

    /// Proves that the last solution is of minimum weight, by the regions that grow around its defects.
    ///
    /// For tests: the proof searches the whole graph from every defect, and allocates.
    pub fn verify(&mut self) -> Result<(), CertificateError> {
        if !self.answer.is_solved() {
            return Err(CertificateError::NothingSolved);
        }
        let tables = self.shared.tables();
        if self.second.as_ref().is_some_and(|second| second.applied()) {
            return self.answer.verify_pass(tables, &self.blossom, self.second.as_deref());
        }
        // A solution from the pair table has no regions; the proof is about its weight and needs regions alone.
        self.blossom.solve(tables, &self.intake.defects);
        self.answer.verify(tables, &self.blossom)
    }
}
