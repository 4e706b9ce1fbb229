//! Graphs from detector error models and from check matrices.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringcall_matching::MergeStrategy;
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::dem::text::{self, Limits};

use crate::graph::{CorrelatedError, Correlations, Edge, Graph, GraphError};

/// Limits as wide as the decoder allows.
fn limits() -> Limits {
    Limits { observables: ringcall_matching::MAX_OBSERVABLES, ..Limits::default() }
}

/// The model of a text.
pub(crate) fn parse(text: &str) -> PyResult<DetectorErrorModel> {
    text::parse_with_limits(text.as_bytes(), limits())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The model of a file.
pub(crate) fn read(path: &Path) -> PyResult<DetectorErrorModel> {
    let failed = |error: std::io::Error| {
        PyValueError::new_err(format!("opening '{}' failed: {error}", path.display()))
    };
    let file = BufReader::new(File::open(path).map_err(failed)?);
    text::read(file, limits()).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The graph of a model: an edge for each part of an error that flips one or two detectors.
pub(crate) fn from_model(model: &DetectorErrorModel, correlations: bool) -> Result<Graph, GraphError> {
    let mut graph = Graph::default();
    graph.ensure_nodes(model.num_detectors.into())?;
    graph.ensure_faults(model.num_observables.into())?;
    let mut errors = Vec::new();
    for error in &model.mechanisms {
        let probability = error.probability;
        if correlations && probability > 0.5 {
            return Err(GraphError::Likely(probability));
        }
        if probability == 0.0 {
            continue;
        }
        let weight = ((1.0 - probability) / probability).ln();
        let mut edges = Vec::new();
        for part in error.edges() {
            let (u, v) = match *part.detectors {
                [] if correlations && !error.components.is_empty() => return Err(GraphError::Undetectable),
                [] => continue,
                [u] => (u, None),
                [u, v] => (u, Some(v)),
                _ if correlations => return Err(GraphError::Hyperedge(part.detectors.len())),
                _ => continue,
            };
            let faults = part.observables.to_vec();
            let edge = Edge { u, v, weight, probability: Some(probability), faults };
            edges.push(graph.add(edge, MergeStrategy::Independent)?);
        }
        if correlations && !edges.is_empty() {
            errors.push(CorrelatedError { probability, edges });
        }
    }
    graph.correlations = if correlations { Correlations::Known(errors) } else { Correlations::Left };
    Ok(graph)
}

/// Compressed columns: column `j` has the rows `rows[starts[j]..starts[j + 1]]`.
pub(crate) struct Columns<'a> {
    pub(crate) starts: &'a [i64],
    pub(crate) rows: &'a [i64],
}

impl Columns<'_> {
    fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    fn rows_of(&self, column: usize) -> Result<&[i64], MatrixError> {
        let ends = self.starts.get(column).zip(self.starts.get(column + 1));
        ends.and_then(|(&start, &end)| {
            self.rows.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
        })
        .ok_or(MatrixError::Malformed)
    }
}

/// Why a check matrix does not make a graph.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MatrixError {
    #[error("the sparse matrix is malformed: its index arrays contradict each other")]
    Malformed,
    #[error("`check_matrix` must have at most two ones in a column, but column {column} has {ones}")]
    HeavyColumn { column: usize, ones: usize },
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A check matrix, repeated in time.
pub(crate) struct CheckMatrix<'a> {
    pub(crate) checks: u64,
    pub(crate) columns: Columns<'a>,
    pub(crate) num_faults: u64,
    /// `None`: column `j` is fault `j`.
    pub(crate) faults: Option<Columns<'a>>,
    pub(crate) weights: &'a [f64],
    pub(crate) probabilities: &'a [f64],
    pub(crate) repetitions: u64,
    pub(crate) timelike_weights: &'a [f64],
    pub(crate) timelike_probabilities: &'a [f64],
    pub(crate) merge: MergeStrategy,
    pub(crate) virtual_boundary: bool,
}

impl CheckMatrix<'_> {
    pub(crate) fn graph(&self) -> Result<Graph, MatrixError> {
        let mut graph = Graph::default();
        let nodes = self.checks.saturating_mul(self.repetitions);
        graph.ensure_nodes(nodes)?;
        graph.ensure_faults(self.num_faults)?;
        let mut on_boundary = false;
        for round in 0..self.repetitions {
            let node = |row: i64| {
                let row = u64::try_from(row).ok().filter(|&row| row < self.checks);
                row.map(|row| (round * self.checks + row) as u32).ok_or(MatrixError::Malformed)
            };
            for column in 0..self.columns.count() {
                let (u, v) = match *self.columns.rows_of(column)? {
                    [] => continue,
                    [u] if self.virtual_boundary => (node(u)?, None),
                    [u] => {
                        on_boundary = true;
                        graph.ensure_nodes(nodes + 1)?;
                        (node(u)?, Some(nodes as u32))
                    }
                    [u, v] => (node(u)?, Some(node(v)?)),
                    ref rows => return Err(MatrixError::HeavyColumn { column, ones: rows.len() }),
                };
                let faults = self.faults_of(column)?;
                let probability = probability(self.probabilities[column]);
                let weight = self.weights[column];
                graph.add(Edge { u, v, weight, probability, faults }, self.merge)?;
            }
        }
        for at in 0..nodes.saturating_sub(self.checks) {
            let check = (at % self.checks) as usize;
            let edge = Edge {
                u: at as u32,
                v: Some((at + self.checks) as u32),
                weight: self.timelike_weights[check],
                probability: probability(self.timelike_probabilities[check]),
                faults: Vec::new(),
            };
            graph.add(edge, self.merge)?;
        }
        if on_boundary {
            graph.set_boundary(&[nodes])?;
        }
        Ok(graph)
    }

    fn faults_of(&self, column: usize) -> Result<Vec<u32>, MatrixError> {
        let Some(faults) = &self.faults else { return Ok(vec![column as u32]) };
        let index = |&row: &i64| u32::try_from(row).map_err(|_| MatrixError::Malformed);
        let mut rows = faults.rows_of(column)?.iter().map(index).collect::<Result<Vec<_>, _>>()?;
        rows.sort_unstable();
        Ok(rows)
    }
}

/// A probability, or `None` if it is unknown.
pub(crate) fn probability(value: f64) -> Option<f64> {
    (0.0..=1.0).contains(&value).then_some(value)
}
