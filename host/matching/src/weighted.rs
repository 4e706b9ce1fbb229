//! Weights of a shot: decoding one shot at a time with weights other than the graph's.
//!
//! Soft read-out, erasures and leakage flags say more about some errors of a shot than the graph does. If no weight exceeds the
//! graph's, the shot is solved on the graph's weights first, from its tables, and then again where lighter edges matter
//! ([`crate::correlated`]). If a weight exceeds the graph's, the tables give no bounds, and every defect searches the graph.

use std::sync::Arc;

use crate::blossom::Blossom;
use crate::correlated::SecondPass;
use crate::decoder::{MwpmDecoder, Shared};
use crate::error::WeightsError;
use crate::graph::MatchingGraph;
use crate::input::Intake;
use crate::readout::Answer;
use crate::solution::{CertificateError, Solution};

/// The largest weight of a shot on the grid, halved: 32 times the largest of the graph if that is not whole.
const MOST: f64 = ((1u32 << 29) - 1) as f64;

/// A decoder that takes weights with each shot.
///
/// It shares the tables of a [`MwpmDecoder`], makes one pass, and allocates nothing per decode. Its answers have minimum weight on
/// the weights of the shot: those listed, and the graph's for all other edges.
///
/// ```
/// use ringcall_matching::{GraphBuilder, MwpmDecoder, WeightedDecoder};
///
/// let mut b = GraphBuilder::new();
/// b.boundary_edge(0, 3.0, &[0])?.edge(0, 1, 2.0, &[])?.boundary_edge(1, 4.5, &[])?;
/// let mut decoder = WeightedDecoder::new(&MwpmDecoder::new(b.build()?));
///
/// assert!(decoder.decode(&[0], &[])?.flips(0));
/// // This shot's read-out says that the right boundary has most likely been crossed.
/// let solution = decoder.decode(&[0], &[(2, 0.5)])?;
/// assert!(!solution.flips(0));
/// assert!((solution.weight() - 2.5).abs() < 1e-6);
/// assert_eq!(decoder.correction(), [1, 2]);
/// // And the next one is decoded with the graph's weights again.
/// assert!(decoder.decode(&[0], &[])?.flips(0));
/// assert!(decoder.decode(&[0], &[(3, 0.5)]).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WeightedDecoder {
    shared: Arc<Shared>,
    blossom: Blossom,
    intake: Intake,
    answer: Answer,
    second: SecondPass,
    /// Per edge, whether a weight was given for it; all `false` between decodes.
    given: Vec<bool>,
}

impl WeightedDecoder {
    /// Makes a decoder on the tables of `decoder`.
    #[must_use]
    pub fn new(decoder: &MwpmDecoder) -> Self {
        let shared = Arc::clone(decoder.shared());
        let tables = shared.tables();
        Self {
            blossom: Blossom::new(tables),
            intake: Intake::new(tables.graph, false),
            answer: Answer::new(tables.graph),
            second: SecondPass::new(tables.graph),
            given: vec![false; tables.graph.num_edges()],
            shared,
        }
    }

    /// The graph that the decoder decodes on.
    #[must_use]
    pub fn graph(&self) -> &MatchingGraph {
        self.shared.tables().graph
    }

    /// The largest weight that a shot may give an edge.
    #[must_use]
    pub fn most_weight(&self) -> f64 {
        MOST / self.graph().scale()
    }

    /// As [`MwpmDecoder::decode`], with weights of edges, by their index among [`MatchingGraph::edges`], each once and in any order.
    /// The weights hold for this shot alone. They are log-likelihood ratios like the graph's, from 0 to
    /// [`most_weight`](Self::most_weight), and are rounded on the same grid.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub fn decode(&mut self, defects: &[u32], weights: &[(u32, f64)]) -> Result<&Solution, WeightsError> {
        self.answer.clear();
        self.check(weights)?;
        let Self { shared, blossom, intake, answer, second, .. } = self;
        let tables = shared.tables();
        intake.take(tables.graph, defects)?;
        let scale = tables.graph.scale();
        let on_grid = |&(edge, weight): &(u32, f64)| (edge, 2 * (weight * scale).round() as u32);
        answer.solve_with(tables, blossom, second, &intake.defects, weights.iter().map(on_grid));
        Ok(&answer.solution)
    }

    fn check(&mut self, weights: &[(u32, f64)]) -> Result<(), WeightsError> {
        let (edges, most) = (self.given.len(), self.most_weight());
        let graph = self.shared.tables().graph;
        let mut fault = None;
        let mut seen = 0;
        for &(edge, weight) in weights {
            let Some(own) = graph.edges().get(edge as usize) else {
                fault = Some(WeightsError::NoSuchEdge { edge, edges });
                break;
            };
            fault = if !(0.0..=most).contains(&weight) {
                Some(WeightsError::OutOfRange { edge, weight, most })
            } else if own.weight < 0.0 {
                Some(WeightsError::Negative { edge })
            } else if std::mem::replace(&mut self.given[edge as usize], true) {
                Some(WeightsError::Twice { edge })
            } else {
                None
            };
            if fault.is_some() {
                break;
            }
            seen += 1;
        }
        weights[..seen].iter().for_each(|&(edge, _)| self.given[edge as usize] = false);
        fault.map_or(Ok(()), Err)
    }

    /// The edges of the last solution, as [`MwpmDecoder::correction`].
    pub fn correction(&mut self) -> &[u32] {
        let second = Some(&self.second).filter(|second| second.applied());
        self.answer.correction(self.shared.tables(), second)
    }

    /// Proves that the last solution is of minimum weight, from the state that it was read from.
    ///
    /// This is for tests: it searches the whole graph from every defect, and allocates.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify(&self) -> Result<(), CertificateError> {
        self.answer.verify_pass(self.shared.tables(), &self.blossom, Some(&self.second))
    }
}
