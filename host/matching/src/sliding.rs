//! The overlapping recovery method for runs of any length: a window slides over the rounds and decides those that it leaves.

use std::sync::Arc;

use crate::bits::cancel_pairs;
use crate::decoder::{DecoderConfig, MwpmDecoder};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{End, Layers, Window, check};

/// The configuration of a [`SlidingDecoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingConfig {
    /// Rounds that are decoded together. Twice the code distance and more lose next to nothing against decoding a run as a whole.
    pub window: usize,
    /// The first rounds of the window, which are decided before the window moves on by as many: at least one, fewer than
    /// `window`.
    pub commit: usize,
}

/// A decoder for runs of any length: decodes a window of rounds, keeps the part of the correction that begins in the window's
/// first rounds, and moves on.
///
/// (Dennis, Kitaev, Landahl and Preskill, arXiv:quant-ph/0110143, call this the overlapping recovery method.) The last layer of a
/// window is open: an edge that leads out of the window counts as an edge to the boundary. A kept edge that ends after the kept
/// rounds flips its detector there for the next window. The result explains the whole syndrome; it has the least weight within
/// each window, not over the run.
///
/// The graph describes a short run of the same experiment, a few rounds longer than the run's beginning and end need, so that the
/// repeating round can be found. The graph has no negative weights. [`new`](Self::new) decodes each window in one pass,
/// [`with_correlations`](Self::with_correlations) in two, of which the first knows nothing of what earlier windows have decided: next to
/// that, [`EndlessDecoder`](crate::EndlessDecoder) finds more correlations. A round allocates nothing.
///
/// ```
/// use ringcall_matching::{GraphBuilder, SlidingConfig, SlidingDecoder};
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
/// let config = SlidingConfig { window: 4, commit: 2 };
/// let mut decoder = SlidingDecoder::new(&b.build()?, &rounds, config)?;
/// for t in 0..1_000_000u32 {
///     // Two wrong measurements, each seen by two detectors.
///     let fired = [500, 501, 900_000, 900_001].contains(&t);
///     decoder.push_round(if fired { &[0] } else { &[] })?;
/// }
/// let last: Vec<&[u32]> = vec![&[]; decoder.tail_rounds()];
/// assert_eq!(decoder.finish(&last)?, [0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SlidingDecoder {
    layers: Arc<Layers>,
    config: SlidingConfig,
    /// Decoders of the windows that hold a round of the head, then the decoder of all others.
    windows: Vec<Pane>,
    last: Pane,
    /// The number of rounds given, and of rounds decided.
    given: usize,
    decided: usize,
    /// Defects that are not decided yet, as round less `decided` and position, sorted.
    open: Vec<(u32, u32)>,
    scratch: Vec<(u32, u32)>,
    nodes: Vec<u32>,
    observables: Vec<u64>,
    answer: Vec<u64>,
    weight: f64,
}

/// A window's decoder.
#[derive(Debug, Clone)]
struct Pane {
    decoder: MwpmDecoder,
    bases: Vec<u32>,
    layer_of: Vec<u32>,
}

impl Pane {
    fn new(window: Window, correlations: bool) -> Self {
        let Window { graph, bases, layer_of } = window;
        let config = DecoderConfig { correlations, ..DecoderConfig::default() };
        Self { decoder: MwpmDecoder::with_config(graph, &config), bases, layer_of }
    }
}

impl SlidingDecoder {
    /// Makes a decoder for runs of the experiment of which `graph` is a short run; detector `i` of the graph belongs to round
    /// `rounds[i]`.
    ///
    /// # Errors
    /// [`SlidingError`] if no round repeats in the graph, or the window is impossible.
    pub fn new(graph: &MatchingGraph, rounds: &[u32], config: SlidingConfig) -> Result<Self, SlidingError> {
        Self::on(graph, rounds, config, false)
    }

    /// The same, matching each window twice, as [`DecoderConfig::correlations`]. On a graph without correlations nothing changes.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// ```
    /// use ringcall_matching::{ErrorPart, GraphBuilder, SlidingConfig, SlidingDecoder};
    ///
    /// // Two bits measured over and over, whose errors often come together.
    /// let mut b = GraphBuilder::new();
    /// for t in 0..6 {
    ///     let [one, two] = [[2 * t], [2 * t + 1]];
    ///     let flip = |detectors| ErrorPart { detectors, observables: &[0] };
    ///     b.error(0.02, &[flip(&one), flip(&two)])?.error(0.001, &[flip(&two)])?;
    ///     for u in [2 * t, 2 * t + 1].into_iter().filter(|_| t < 5) {
    ///         b.error(0.02, &[ErrorPart { detectors: &[u, u + 2], observables: &[] }])?;
    ///     }
    /// }
    /// let rounds: Vec<u32> = (0..12).map(|i| i / 2).collect();
    /// let config = SlidingConfig { window: 4, commit: 2 };
    /// let mut decoder = SlidingDecoder::with_correlations(&b.build()?, &rounds, config)?;
    /// for t in 0..1000 {
    ///     decoder.push_round(if t == 500 { &[0, 1] } else { &[] })?;
    /// }
    /// let last: Vec<&[u32]> = vec![&[]; decoder.tail_rounds()];
    /// assert_eq!(decoder.finish(&last)?, [0], "both flip the observable");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_correlations(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: SlidingConfig,
    ) -> Result<Self, SlidingError> {
        Self::on(graph, rounds, config, graph.num_correlations() > 0)
    }

    fn on(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: SlidingConfig,
        correlations: bool,
    ) -> Result<Self, SlidingError> {
        let SlidingConfig { window, commit } = config;
        if commit == 0 || commit >= window {
            return Err(SlidingError::Window { window, commit });
        }
        let layers = Layers::of(graph, rounds, correlations)?;
        let reach = layers.reach();
        if window - commit < reach {
            return Err(SlidingError::Reach { window, commit, reach });
        }
        let detectors = window.saturating_mul(layers.most_detectors());
        if detectors > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window, commit });
        }
        let mut windows = Vec::new();
        let mut start = 0;
        loop {
            windows.push(Pane::new(layers.window(start, window, End::Boundary)?, correlations));
            if start >= layers.head() {
                break;
            }
            start += commit;
        }
        let last = Pane::new(layers.last_window(window - 1)?, correlations);
        // At most every detector of a window fires and every edge flips one.
        let size = |pane: &Pane| pane.layer_of.len() + pane.decoder.graph().num_edges();
        let most = windows.iter().chain([&last]).map(size).max().unwrap_or(0);
        let words = graph.observable_words();
        Ok(Self {
            layers: Arc::new(layers),
            config,
            windows,
            last,
            given: 0,
            decided: 0,
            open: Vec::with_capacity(most),
            scratch: Vec::with_capacity(most),
            nodes: Vec::with_capacity(most),
            observables: vec![0; words],
            answer: vec![0; words],
            weight: 0.0,
        })
    }

    /// The number of rounds at the end of a run that [`finish`](Self::finish) takes.
    pub fn tail_rounds(&self) -> usize {
        self.layers.tail()
    }

    /// The fewest rounds of a run, including those of the tail.
    pub fn least_rounds(&self) -> usize {
        self.layers.head() + self.config.window - 1 + self.layers.tail()
    }

    /// The number of detectors of round `t` of a run, outside the tail.
    pub fn detectors(&self, t: usize) -> u32 {
        self.layers.detectors(t)
    }

    /// The number of rounds given in this run, and the first round that is not decided yet.
    pub fn progress(&self) -> (usize, usize) {
        (self.given, self.decided)
    }

    /// The observables flipped by the decisions so far: bit `o % 64` of word `o / 64`.
    pub fn observables(&self) -> &[u64] {
        &self.observables
    }

    /// The weight of the decisions so far; after [`finish`](Self::finish), the weight of the whole run, until
    /// the next begins.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Takes the defects of the next round, as strictly increasing positions among its detectors. Returns true if rounds were
    /// decided.
    ///
    /// # Errors
    /// [`SlidingError::Defect`], or [`SlidingError::Decode`] for a window that no correction explains; the decoder has then not
    /// taken the round.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        check(defects, self.layers.detectors(self.given), self.given)?;
        if self.given == 0 {
            self.weight = 0.0;
        }
        let layer = (self.given - self.decided) as u32;
        self.insert(layer, defects);
        self.given += 1;
        if self.given - self.decided < self.config.window {
            return Ok(false);
        }
        let pane = self.decided / self.config.commit;
        let pane = pane.min(self.windows.len() - 1);
        if let Err(error) = self.decide(Some(pane), 0, self.config.commit as u32) {
            // Nothing was decided: inserting the defects again removes them.
            self.insert(layer, defects);
            self.given -= 1;
            return Err(error);
        }
        self.decided += self.config.commit;
        Ok(true)
    }

    /// Ends the run with the defects of its last rounds. Returns the observables flipped by the correction of the whole run. The
    /// next round is the first of another run.
    ///
    /// # Errors
    /// [`SlidingError::Tail`] unless there are [`tail_rounds`](Self::tail_rounds) of them, [`SlidingError::TooShort`] for a run
    /// of fewer than [`least_rounds`](Self::least_rounds), [`SlidingError::Defect`], [`SlidingError::Decode`] for a window that
    /// no correction explains. The decoder has then taken nothing.
    pub fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        self.layers.check_tail(tail, self.given, self.least_rounds())?;
        self.insert_tail(tail);
        // The last window begins early enough to end with the run; the rounds decided already have no open defects.
        let shift = (self.config.window - 1) - (self.given - self.decided);
        if let Err(error) = self.decide(None, shift as u32, u32::MAX) {
            self.insert_tail(tail);
            return Err(error);
        }
        debug_assert!(self.open.is_empty(), "everything is explained");
        self.answer.copy_from_slice(&self.observables);
        let weight = self.weight;
        self.restart();
        self.weight = weight;
        Ok(&self.answer)
    }

    /// Adds the defects of the tail, or removes them if they are there.
    fn insert_tail(&mut self, tail: &[&[u32]]) {
        for (t, defects) in tail.iter().enumerate() {
            self.insert((self.given + t - self.decided) as u32, defects);
        }
    }

    /// Forgets an unfinished run.
    pub fn restart(&mut self) {
        (self.given, self.decided, self.weight) = (0, 0, 0.0);
        self.open.clear();
        self.observables.fill(0);
    }

    /// Adds the defects of a layer. A defect cancels a flip that an earlier window left at its detector.
    fn insert(&mut self, layer: u32, defects: &[u32]) {
        self.open.extend(defects.iter().map(|&position| (layer, position)));
        self.open.sort_unstable();
        cancel_pairs(&mut self.open);
    }

    /// Decodes the window `pane` (`None` is the last one), in which the open defects are `shift` layers later, and keeps the
    /// edges that begin in its first `commit` layers.
    fn decide(&mut self, pane: Option<usize>, shift: u32, commit: u32) -> Result<(), SlidingError> {
        let Self { windows, last, open, scratch, nodes, observables, weight, .. } = self;
        let Pane { decoder, bases, layer_of } = match pane.and_then(|pane| windows.get_mut(pane)) {
            Some(pane) => pane,
            None => last,
        };
        nodes.clear();
        nodes.extend(open.iter().map(|&(layer, position)| bases[(layer + shift) as usize] + position));
        decoder.decode(nodes)?;
        scratch.clear();
        scratch.extend(open.drain(..).filter(|&(layer, _)| layer + shift >= commit));
        let (layers, bases): (&[u32], &[u32]) = (layer_of, bases);
        let place = |node: u32| {
            let layer = layers[node as usize];
            (layer, node - bases[layer as usize])
        };
        let (correction, graph) = decoder.correction_on();
        for edge in correction.iter().map(|&edge| &graph.edges()[edge as usize]) {
            let (u, v) = (place(edge.u), edge.v.map(place));
            if v.map_or(u.0, |v| u.0.min(v.0)) >= commit {
                continue;
            }
            *weight += edge.weight;
            edge.flip(observables);
            scratch.extend([Some(u), v].into_iter().flatten().filter(|end| end.0 >= commit));
        }
        open.extend(scratch.iter().map(|&(layer, position)| (layer - commit.min(layer), position)));
        open.sort_unstable();
        cancel_pairs(open);
        Ok(())
    }
}
