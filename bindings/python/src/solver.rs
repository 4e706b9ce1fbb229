//! Solvers: a graph prepared for decoding, and its decoders.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ringcall_matching::{
    DecoderConfig, GraphBuilder, MatchingError, MatchingGraphError, MergeStrategy, MwpmDecoder, Solution,
    WeightedDecoder, WeightsError,
};

use crate::graph::{Correlations, Ends, Graph, fits};

/// Why a graph or a syndrome cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SolveError {
    #[error(
        "the weight {weight} of edge {edge} exceeds the largest that can be decoded, 16777215 in magnitude"
    )]
    Weight { edge: Ends, weight: f64 },
    #[error(
        "the graph was loaded without correlations: pass `enable_correlations=True` where the circuit or detector \
         error model is loaded, too"
    )]
    Uncorrelated,
    #[error("detection event {0} is at no node of the graph, which has {1}")]
    OutOfRange(usize, usize),
    #[error("pairs of detection events cannot be had of a graph with negative weights")]
    NegativeWeights,
    #[error(
        "no set of edges explains the syndrome: an odd number of detection events lies in a part of the graph that \
         has no boundary"
    )]
    OddParity,
    #[error("`edge_reweights` and `enable_correlations` cannot be had together")]
    ReweightedTwice,
    #[error("`edge_reweights` names the edge ({0}, {1}), which is not in the graph")]
    NoSuchEdge(i64, i64),
    #[error(
        "`edge_reweights` names the edge {0}, which another edge of the graph lies beside: its weight alone cannot be changed"
    )]
    Beside(Ends),
    #[error("`edge_reweights` gives the edge {0} the weight {1}, which is not a number from 0 to {2:.0}")]
    Reweight(Ends, f64, f64),
    #[error("`edge_reweights` names the edge {0} twice")]
    ReweightedAgain(Ends),
    #[error("`edge_reweights` names the edge {0}, whose weight is negative")]
    ReweightedNegative(Ends),
    #[error(transparent)]
    Build(#[from] MatchingGraphError),
    #[error(transparent)]
    Weights(WeightsError),
    #[error(transparent)]
    Decode(MatchingError),
}

impl From<MatchingError> for SolveError {
    fn from(error: MatchingError) -> Self {
        match error {
            MatchingError::OddParity { .. } => Self::OddParity,
            other => Self::Decode(other),
        }
    }
}

/// The answers that a caller wants of a syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The faults alone, so that parts of the graph without faults may be left out.
    Faults,
    /// Weights, edges and pairs as well.
    All,
}

impl Wanted {
    pub(crate) fn faults_unless(all: bool) -> Self {
        if all { Self::All } else { Self::Faults }
    }
}

/// The tables to decode a graph. Made once after the graph's last change.
#[derive(Debug)]
pub(crate) struct Solver {
    prototype: MwpmDecoder,
    /// Idle decoders: those of one pass, and those of two.
    idle: Mutex<[Vec<Worker>; 2]>,
    nodes: usize,
    detectors: usize,
    faults: usize,
    /// Marks boundary nodes, which never fire; empty if there are none.
    is_boundary: Vec<bool>,
    correlations_left: bool,
    negative: bool,
}

/// The edges of a graph in a builder, the index of each in the builder, and whether a weight is negative.
fn collect(graph: &Graph) -> Result<(GraphBuilder, Places, bool), SolveError> {
    let mut builder = GraphBuilder::new();
    builder.ensure_detectors(graph.num_nodes()).ensure_observables(graph.num_faults());
    let boundary = graph.boundary();
    let mut places = Places::default();
    let mut negative = false;
    for edge in graph.edges() {
        let weight = edge.weight;
        if !fits(weight) {
            return Err(SolveError::Weight { edge: Ends(edge.u, edge.v), weight });
        }
        let at_boundary = |node: u32| boundary.contains(&node);
        let inner = edge.v.filter(|&v| !at_boundary(v));
        let ends = match (at_boundary(edge.u), inner) {
            (false, v) => Some((edge.u, v)),
            (true, Some(v)) => Some((v, None)),
            (true, None) => None,
        };
        places.add(&mut builder, ends, weight, &edge.faults)?;
        negative |= ends.is_some() && weight < 0.0;
    }
    Ok((builder, places, negative))
}

/// Marks the nodes that never fire; empty if there are none.
fn boundary_nodes(graph: &Graph) -> Vec<bool> {
    let boundary = graph.boundary();
    if boundary.is_empty() {
        return Vec::new();
    }
    (0..graph.num_nodes() as u32).map(|node| boundary.contains(&node)).collect()
}

impl Solver {
    pub(crate) fn new(graph: &Graph, wanted: Wanted) -> Result<Self, SolveError> {
        let (mut builder, places, negative) = collect(graph)?;
        places.keep_scale(&mut builder, graph.num_nodes() as u32)?;
        let mut config = DecoderConfig::default();
        config.observables_only = wanted == Wanted::Faults;
        if let Correlations::Known(errors) = &graph.correlations {
            config.correlations = true;
            for error in errors {
                let edges: Vec<u32> =
                    error.edges.iter().filter_map(|&edge| places.of_edges[edge as usize]).collect();
                builder.correlate(error.probability, &edges)?;
            }
        }
        Ok(Self {
            prototype: MwpmDecoder::with_config(builder.build()?, &config),
            idle: Mutex::default(),
            nodes: graph.num_nodes(),
            detectors: graph.num_detectors(),
            faults: graph.num_faults(),
            is_boundary: boundary_nodes(graph),
            correlations_left: matches!(graph.correlations, Correlations::Left),
            negative,
        })
    }

    pub(crate) fn num_nodes(&self) -> usize {
        self.nodes
    }

    pub(crate) fn num_detectors(&self) -> usize {
        self.detectors
    }

    pub(crate) fn num_faults(&self) -> usize {
        self.faults
    }

    fn passes_twice(&self, correlations: bool) -> Result<bool, SolveError> {
        if correlations && self.correlations_left {
            return Err(SolveError::Uncorrelated);
        }
        Ok(correlations && self.prototype.makes_second_pass())
    }

    /// A decoder for the caller alone. A caller that returns it saves the next caller from making one.
    pub(crate) fn worker(&self, correlations: bool) -> Result<Worker, SolveError> {
        let twice = self.passes_twice(correlations)?;
        let found = self.idle.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(twice)].pop();
        let new = || if twice { self.prototype.clone() } else { self.prototype.single_pass() };
        Ok(found.unwrap_or_else(|| Worker::new(new(), twice, self)))
    }

    /// A decoder to make another kind of decoder of.
    pub(crate) fn with_decoder<T>(
        &self,
        correlations: bool,
        make: impl FnOnce(&MwpmDecoder) -> T,
    ) -> Result<T, SolveError> {
        let twice = self.passes_twice(correlations)?;
        Ok(if twice { make(&self.prototype) } else { make(&self.prototype.single_pass()) })
    }

    /// Whether a node is a boundary node.
    pub(crate) fn never_fires(&self, node: u32) -> bool {
        self.is_boundary.get(node as usize).is_some_and(|&never| never)
    }

    pub(crate) fn give_back(&self, worker: Worker) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(worker.twice)].push(worker);
    }

    /// Pairs of detection events are meaningful only if no edge is used from the start.
    pub(crate) fn check_pairs(&self) -> Result<(), SolveError> {
        if self.negative { Err(SolveError::NegativeWeights) } else { Ok(()) }
    }
}

/// A decoder and the detection events that it decodes.
#[derive(Debug)]
pub(crate) struct Worker {
    decoder: MwpmDecoder,
    twice: bool,
    defects: Vec<u32>,
    /// A bit for each node that can affect an answer, in whole words. The bits beyond the nodes are set, too: such a number is an
    /// error.
    matters: Vec<u64>,
}

impl Worker {
    fn new(decoder: MwpmDecoder, twice: bool, solver: &Solver) -> Self {
        let mut matters = vec![!0; solver.nodes.div_ceil(64)];
        for node in
            (0..solver.nodes as u32).filter(|&node| solver.never_fires(node) || decoder.leaves_out(node))
        {
            matters[node as usize / 64] &= !(1 << (node % 64));
        }
        Self { decoder, twice, defects: Vec::new(), matters }
    }

    /// Whether a node of the graph affects no answer and no error of this worker.
    pub(crate) fn leaves_out(&self, node: u32) -> bool {
        self.matters[node as usize / 64] >> (node % 64) & 1 == 0
    }

    /// Decodes a syndrome of a byte for each node, 0 for one that did not fire.
    pub(crate) fn decode_bytes(&mut self, solver: &Solver, row: &[u8]) -> Result<&Solution, SolveError> {
        let Self { defects, .. } = self;
        let mut fired = |bytes: &[u8], at: u32| {
            defects.extend(bytes.iter().zip(at..).filter(|(byte, _)| **byte != 0).map(|(_, at)| at));
        };
        let (words, tail) = row.as_chunks::<8>();
        for (word, at) in words.iter().zip((0u32..).step_by(8)) {
            if u64::from_ne_bytes(*word) != 0 {
                fired(word, at);
            }
        }
        fired(tail, (row.len() - tail.len()) as u32);
        self.decode(solver)
    }

    /// Decodes a syndrome of a bit for each node, the least significant of a byte first.
    pub(crate) fn decode_bits(&mut self, solver: &Solver, row: &[u8]) -> Result<&Solution, SolveError> {
        let (words, tail) = row.as_chunks::<8>();
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        self.collect(words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word)));
        self.decode(solver)
    }

    /// The same, with 64 nodes in a word.
    pub(crate) fn decode_words(&mut self, solver: &Solver, row: &[u64]) -> Result<&Solution, SolveError> {
        self.collect(row.iter().copied());
        self.decode(solver)
    }

    #[inline]
    fn collect(&mut self, words: impl Iterator<Item = u64>) {
        let Self { defects, matters, .. } = self;
        let matters = matters.iter().copied().chain(std::iter::repeat(!0));
        for ((word, matters), base) in words.zip(matters).zip((0u32..).step_by(64)) {
            let mut rest = word & matters;
            while rest != 0 {
                defects.push(base + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
    }

    /// Decodes the collected detection events, which are sorted, and begins a new collection.
    fn decode(&mut self, solver: &Solver) -> Result<&Solution, SolveError> {
        let Self { decoder, defects, .. } = self;
        let last = defects.last().map(|&last| last as usize).filter(|&last| last >= solver.nodes);
        if !solver.is_boundary.is_empty() && last.is_none() {
            defects.retain(|&node| !solver.is_boundary[node as usize]);
        }
        let result = match last {
            Some(last) => Err(SolveError::OutOfRange(last, solver.nodes)),
            None => decoder.decode(defects).map_err(SolveError::from),
        };
        defects.clear();
        result
    }

    /// The edges of the last solution, with -1 for the boundary. Loops are left out.
    pub(crate) fn edges(&mut self) -> Vec<i64> {
        let used = self.decoder.correction().to_vec();
        let edges = self.decoder.graph().edges();
        let ends = used.into_iter().map(|edge| &edges[edge as usize]).filter(|edge| edge.v != Some(edge.u));
        ends.flat_map(|edge| [edge.u.into(), edge.v.map_or(-1, i64::from)]).collect()
    }
}

/// A graph prepared for decoding with weights of a syndrome. Its grid of weights is fine, even if the graph's weights are whole.
#[derive(Debug)]
pub(crate) struct Reweighted {
    prototype: MwpmDecoder,
    idle: Mutex<Vec<WeightedDecoder>>,
    /// The edges by their ends, sorted; `None` if the decoder merges several into one edge, or leaves the edge out.
    edges: HashMap<(u32, Option<u32>), Option<u32>>,
    /// Marks boundary nodes, which never fire; empty if there are none.
    is_boundary: Vec<bool>,
    faults: usize,
}

impl Reweighted {
    pub(crate) fn new(graph: &Graph) -> Result<Self, SolveError> {
        let (mut builder, places, _) = collect(graph)?;
        builder.room_for(places.largest.max(1.0))?;
        let mut shared = vec![0u32; places.index.len()];
        places.of_edges.iter().flatten().for_each(|&at| shared[at as usize] += 1);
        let in_order = |u: u32, v: Option<u32>| v.map_or((u, None), |v| (u.min(v), Some(u.max(v))));
        let alone = |at: &Option<u32>| at.filter(|&at| shared[at as usize] == 1);
        let built = builder.build()?;
        let named = graph.edges().iter().zip(&places.of_edges);
        let mut edges: HashMap<_, _> =
            named.map(|(edge, at)| (in_order(edge.u, edge.v), alone(at))).collect();
        // An edge to a boundary node may also be named as an edge to the boundary.
        for at in places.of_edges.iter().flatten() {
            let edge = &built.edges()[*at as usize];
            if edge.v.is_none() {
                edges.entry((edge.u, None)).or_insert(alone(&Some(*at)));
            }
        }
        Ok(Self {
            prototype: MwpmDecoder::new(built),
            idle: Mutex::default(),
            edges,
            is_boundary: boundary_nodes(graph),
            faults: graph.num_faults(),
        })
    }

    pub(crate) fn num_faults(&self) -> usize {
        self.faults
    }

    /// Decodes a syndrome of a byte for each node with these weights of edges: two ends, -1 for the boundary, and the weight.
    pub(crate) fn decode<T>(
        &self,
        row: &[u8],
        weights: &[(i64, i64, f64)],
        read: impl FnOnce(&Solution) -> T,
    ) -> Result<T, SolveError> {
        let weights = weights.iter().map(|row| self.weight(*row)).collect::<Result<Vec<_>, _>>()?;
        let fires = |&(node, byte): &(u32, &u8)| {
            *byte != 0 && !self.is_boundary.get(node as usize).is_some_and(|&never| never)
        };
        let defects: Vec<u32> = (0..).zip(row).filter(fires).map(|(node, _)| node).collect();
        let found = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut decoder = found.unwrap_or_else(|| WeightedDecoder::new(&self.prototype));
        let most = decoder.most_weight();
        let result = match decoder.decode(&defects, &weights) {
            Ok(solution) => Ok(read(solution)),
            Err(WeightsError::OutOfRange { edge, weight, .. }) => {
                Err(SolveError::Reweight(self.ends(edge), weight, most))
            }
            Err(WeightsError::Twice { edge }) => Err(SolveError::ReweightedAgain(self.ends(edge))),
            Err(WeightsError::Negative { edge }) => Err(SolveError::ReweightedNegative(self.ends(edge))),
            Err(WeightsError::Decode(error)) => Err(error.into()),
            Err(other) => Err(SolveError::Weights(other)),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(decoder);
        result
    }

    fn weight(&self, (a, b, weight): (i64, i64, f64)) -> Result<(u32, f64), SolveError> {
        // The larger number is a node, the smaller one a node or -1.
        let node = |number: i64| u32::try_from(number).ok();
        let (low, high) = (a.min(b), a.max(b));
        let ends = match (node(low), node(high)) {
            (Some(low), Some(high)) => (low, Some(high)),
            (None, Some(high)) if low == -1 => (high, None),
            _ => return Err(SolveError::NoSuchEdge(a, b)),
        };
        match self.edges.get(&ends) {
            Some(&Some(edge)) => Ok((edge, weight)),
            Some(None) => Err(SolveError::Beside(Ends(ends.0, ends.1))),
            None => Err(SolveError::NoSuchEdge(a, b)),
        }
    }

    /// The ends of an edge of the decoder.
    fn ends(&self, edge: u32) -> Ends {
        let edge = &self.prototype.graph().edges()[edge as usize];
        Ends(edge.u, edge.v)
    }
}

/// The index of each of the graph's edges in the builder, in which all boundary nodes are one.
#[derive(Default)]
struct Places {
    /// For each edge; `None` for an edge between boundary nodes.
    of_edges: Vec<Option<u32>>,
    index: HashMap<(u32, Option<u32>), u32>,
    left_out: bool,
    largest: f64,
    /// A weight that is not whole.
    broken: Option<f64>,
}

impl Places {
    fn add(
        &mut self,
        builder: &mut GraphBuilder,
        ends: Option<(u32, Option<u32>)>,
        weight: f64,
        faults: &[u32],
    ) -> Result<(), MatchingGraphError> {
        self.largest = self.largest.max(weight.abs());
        self.broken = self.broken.or(Some(weight.abs()).filter(|weight| weight.fract() != 0.0));
        let next = self.index.len() as u32;
        let at = match ends {
            None => None,
            Some((u, v)) => {
                builder.merge_edge(u, v, weight, faults, None, MergeStrategy::SmallestWeight)?;
                let key = v.map_or((u, None), |v| (u.min(v), Some(u.max(v))));
                Some(*self.index.entry(key).or_insert(next))
            }
        };
        self.left_out |= at != Some(next);
        self.of_edges.push(at);
        Ok(())
    }

    /// Weights are put on a grid that depends on all of them. Weights that are left out affect it as loops, which no solution
    /// uses, at nodes of their own.
    fn keep_scale(&self, builder: &mut GraphBuilder, node: u32) -> Result<(), MatchingGraphError> {
        let loops = [Some(self.largest), self.broken];
        for (weight, node) in loops.into_iter().flatten().zip(node..).filter(|_| self.left_out) {
            builder.edge(node, node, weight, &[])?;
        }
        Ok(())
    }
}
