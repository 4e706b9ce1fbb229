//! The graph as edited from Python: nodes, some of which are boundary nodes, and edges in the order given.

use std::collections::{BTreeSet, HashMap};

use ringcall_matching::{MAX_OBSERVABLES, MAX_WEIGHT, MergeStrategy, merge_independent};
use ringcall_qec::dem::MAX_DETECTORS;
use thiserror::Error;

/// Why a graph refuses an edge or a model.
#[derive(Debug, Error)]
pub(crate) enum GraphError {
    #[error("node {0} is out of range: there can be at most {MAX_DETECTORS} nodes")]
    Node(u64),
    #[error("fault id {0} is out of range: there can be at most {MAX_OBSERVABLES} fault ids")]
    Fault(u64),
    #[error("the weight of edge {0} is not a number")]
    WeightNan(Ends),
    #[error(
        "edge {0} already exists in the graph, and the merge strategy `disallow` permits no parallel edges: choose \
         another `merge_strategy`"
    )]
    Parallel(Ends),
    #[error(
        "an error has the probability {0}, and correlations take none above 0.5: load the model without \
         `enable_correlations`"
    )]
    Likely(f64),
    #[error(
        "an error flips {0} detectors in one part, and correlations take at most 2: decompose the model's errors \
         (`decompose_errors=True` in Stim)"
    )]
    Hyperedge(usize),
    #[error("a part of a decomposed error flips no detector, which correlations do not take")]
    Undetectable,
}

/// The name of an edge in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends(pub(crate) u32, pub(crate) Option<u32>);

impl std::fmt::Display for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(v) => write!(f, "({}, {v})", self.0),
            None => write!(f, "({}, None)", self.0),
        }
    }
}

/// An edge, with its ends in the order in which they were first given.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) u: u32,
    /// `None` is the virtual boundary.
    pub(crate) v: Option<u32>,
    pub(crate) weight: f64,
    pub(crate) probability: Option<f64>,
    /// Sorted and unique.
    pub(crate) faults: Vec<u32>,
}

/// An error of a model, as the edges of its parts.
#[derive(Debug, Clone)]
pub(crate) struct CorrelatedError {
    pub(crate) probability: f64,
    pub(crate) edges: Vec<u32>,
}

/// Errors that cross several edges.
#[derive(Debug, Clone, Default)]
pub(crate) enum Correlations {
    /// The graph comes from no model, so there are none.
    #[default]
    None,
    /// The model was loaded without correlations.
    Left,
    Known(Vec<CorrelatedError>),
}

/// Nodes and edges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    edges: Vec<Edge>,
    index: HashMap<(u32, Option<u32>), u32>,
    nodes: usize,
    faults: usize,
    boundary: BTreeSet<u32>,
    pub(crate) correlations: Correlations,
}

impl Graph {
    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    pub(crate) fn num_nodes(&self) -> usize {
        self.nodes
    }

    pub(crate) fn num_detectors(&self) -> usize {
        self.nodes - self.boundary.len()
    }

    pub(crate) fn num_faults(&self) -> usize {
        self.faults
    }

    pub(crate) fn boundary(&self) -> &BTreeSet<u32> {
        &self.boundary
    }

    pub(crate) fn find(&self, u: u32, v: Option<u32>) -> Option<&Edge> {
        self.index.get(&key(u, v)).map(|&at| &self.edges[at as usize])
    }

    pub(crate) fn ensure_nodes(&mut self, nodes: u64) -> Result<(), GraphError> {
        if nodes > u64::from(MAX_DETECTORS) {
            return Err(GraphError::Node(nodes - 1));
        }
        self.nodes = self.nodes.max(nodes as usize);
        Ok(())
    }

    pub(crate) fn ensure_faults(&mut self, faults: u64) -> Result<(), GraphError> {
        if faults > u64::from(MAX_OBSERVABLES) {
            return Err(GraphError::Fault(faults - 1));
        }
        self.faults = self.faults.max(faults as usize);
        Ok(())
    }

    /// Makes nodes boundary nodes. Nodes that do not exist are created.
    pub(crate) fn set_boundary(&mut self, nodes: &[u64]) -> Result<(), GraphError> {
        if let Some(&last) = nodes.iter().max() {
            self.ensure_nodes(last.saturating_add(1))?;
        }
        self.boundary = nodes.iter().map(|&node| node as u32).collect();
        Ok(())
    }

    /// Adds an edge or merges it with the existing edge. Returns the edge's index.
    ///
    /// Decoding, not this function, checks the magnitude of a weight.
    pub(crate) fn add(&mut self, edge: Edge, merge: MergeStrategy) -> Result<u32, GraphError> {
        let ends = Ends(edge.u, edge.v);
        let last = edge.v.unwrap_or(edge.u).max(edge.u);
        if edge.weight.is_nan() {
            return Err(GraphError::WeightNan(ends));
        }
        if let Some(&fault) = edge.faults.last().filter(|&&fault| fault >= MAX_OBSERVABLES) {
            return Err(GraphError::Fault(fault.into()));
        }
        let Some(&at) = self.index.get(&key(edge.u, edge.v)) else {
            self.ensure_nodes(u64::from(last) + 1)?;
            let at = self.edges.len() as u32;
            self.index.insert(key(edge.u, edge.v), at);
            self.note_faults(&edge);
            self.edges.push(edge);
            return Ok(at);
        };
        let old = &mut self.edges[at as usize];
        match merge {
            MergeStrategy::Disallow => return Err(GraphError::Parallel(ends)),
            MergeStrategy::KeepOriginal => {}
            MergeStrategy::SmallestWeight if edge.weight >= old.weight => {}
            MergeStrategy::SmallestWeight | MergeStrategy::Replace => {
                let Edge { weight, probability, .. } = edge;
                (old.weight, old.probability) = (weight, probability);
                old.faults.clone_from(&edge.faults);
                self.note_faults(&edge);
            }
            MergeStrategy::Independent => {
                old.weight = merge_independent(old.weight, edge.weight);
                old.probability = match (old.probability, edge.probability) {
                    (Some(p), Some(q)) => Some(p * (1.0 - q) + q * (1.0 - p)),
                    _ => None,
                };
            }
        }
        Ok(at)
    }

    fn note_faults(&mut self, edge: &Edge) {
        self.faults = self.faults.max(edge.faults.last().map_or(0, |&fault| fault as usize + 1));
    }
}

/// Whether a weight is small enough to be decoded with.
pub(crate) fn fits(weight: f64) -> bool {
    weight.abs() <= MAX_WEIGHT
}

fn key(u: u32, v: Option<u32>) -> (u32, Option<u32>) {
    match v {
        Some(v) => (u.min(v), Some(u.max(v))),
        None => (u, None),
    }
}
