//! Matching with other weights for some edges of each shot, and such weights from read-outs.

use std::sync::Arc;

use ringcall_matching::{WeightedDecoder, WeightsError, merge_independent};

use super::matching::{matched, refusal};
use super::{DecodeError, DecodingGraph, Matched, MatchingFactory};
use crate::circuit::Circuit;
use crate::dem::Component;

/// Minimum-weight perfect matching on a shot's own weights: those listed, and the graph's for all other edges.
///
/// [`MatchingFactory::weighted`](super::MatchingFactory::weighted) makes it on the tables of the factory's decoders. It makes one
/// pass, and allocates nothing per decode.
///
/// ```
/// use ringcall_qec::decode::{MatchingEngine, MatchingFactory, DecodingGraph, ParallelEdges};
///
/// let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.05) D1 L0")?;
/// let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
/// let mut decoder = MatchingFactory::new(&graph, MatchingEngine::SparseBlossom)?.weighted();
/// let mut observables = [0];
/// decoder.decode(&[0], &[], &mut observables)?;
/// assert_eq!(observables, [0]);
/// // In this shot two errors are about as likely as not.
/// let matched = decoder.decode(&[0], &[(1, 0.25), (2, 0.0)], &mut observables)?;
/// assert_eq!(observables, [1]);
/// assert!((matched.weight - 0.25).abs() < 1e-6);
/// assert!(decoder.decode(&[0], &[(3, 0.25)], &mut observables).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WeightedMatching {
    decoder: WeightedDecoder,
}

impl MatchingFactory {
    /// A decoder that takes weights with each shot, in one pass on the same tables.
    #[must_use]
    pub fn weighted(&self) -> WeightedMatching {
        WeightedMatching { decoder: WeightedDecoder::new(self.prototype().engine()) }
    }
}

impl WeightedMatching {
    /// Detectors are `0..num_detectors`.
    #[must_use]
    pub fn num_detectors(&self) -> u32 {
        self.decoder.graph().num_detectors() as u32
    }

    /// Observables are `0..num_observables`.
    #[must_use]
    pub fn num_observables(&self) -> u32 {
        self.decoder.graph().num_observables() as u32
    }

    /// Edges are `0..num_edges`, numbered as by [`DecodingGraph::edges`].
    #[must_use]
    pub fn num_edges(&self) -> u32 {
        self.decoder.graph().num_edges() as u32
    }

    /// As [`Decoder::decode`](super::Decoder::decode), with weights of edges, each edge once, in any order.
    ///
    /// # Errors
    /// [`DecodeError::Weights`] for a list that [`WeightedDecoder::decode`] refuses, and the errors of
    /// [`Decoder::decode`](super::Decoder::decode). The next decode is unaffected.
    pub fn decode(
        &mut self,
        defects: &[u32],
        weights: &[(u32, f64)],
        observables: &mut [u8],
    ) -> Result<Matched, DecodeError> {
        let (expected, found) = ((self.num_observables() as usize).div_ceil(8), observables.len());
        if found != expected {
            return Err(DecodeError::Length { what: "bytes for observables", expected, found });
        }
        let count = self.num_detectors();
        match self.decoder.decode(defects, weights) {
            Ok(solution) => Ok(matched(solution, None, observables)),
            Err(WeightsError::Decode(error)) => Err(refusal(error, count)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Turns the read-out's confidence in measurements into weights of a shot.
///
/// An edge's weight in the graph covers every other error that crosses it. A measurement that was read wrong crosses one edge,
/// independently of those: with the read-out's log-likelihood ratio, the edge gets the weight of an odd number of them. So a
/// model must give measurements only the noise that a perfect read-out would leave.
///
/// ```
/// use ringcall_qec::circuit::MemoryExperiment;
/// # use ringcall_qec::circuit::CircuitNoise;
/// # use ringcall_qec::code::Basis;
/// use ringcall_qec::decode::{DecodingGraph, ParallelEdges, ReadoutWeights};
///
/// # let noise = CircuitNoise::uniform(0.003);
/// # let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
/// let graph = DecodingGraph::from_dem(&experiment.detector_error_model()?, ParallelEdges::Independent)?;
/// let mut readout = ReadoutWeights::new(&experiment.circuit()?, &graph)?;
/// assert_eq!(readout.measurements(), 3 * 8 + 9);
/// // The qubit of measurement 3 had left its two states, measurement 7 is sure to 1 in e^4.
/// readout.clear();
/// readout.doubt(3, 0.0);
/// readout.doubt(7, 4.0);
/// assert_eq!(readout.weights().len(), 2);
/// assert_eq!(readout.weights()[0].1, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ReadoutWeights {
    shared: Arc<Shared>,
    weights: Vec<(u32, f64)>,
    /// Per edge, its index in the list plus one; 0 if it is not listed.
    places: Vec<u32>,
}

/// Tables of the circuit and its graph.
#[derive(Debug)]
struct Shared {
    /// Per measurement its edge, or `NONE` if no detector depends on it.
    edges: Vec<u32>,
    /// Per edge its weight in the graph.
    own: Vec<f64>,
    flips: Vec<Component>,
}

const NONE: u32 = u32::MAX;

/// A ratio larger than an edge's own weight by this much changes the weight by less than a grid step.
const NOTHING: f64 = 18.0;

impl ReadoutWeights {
    /// Finds the edge of each measurement. The graph must be that of the circuit's error model.
    ///
    /// # Errors
    /// [`DecodeError::Measurement`] if a wrong outcome is not an edge of the graph, or is an edge of negative weight.
    pub fn new(circuit: &Circuit, graph: &DecodingGraph) -> Result<Self, DecodeError> {
        let flips = circuit.measurement_flips();
        let edges = (0..).zip(&flips).map(|(measurement, flips)| edge(measurement, flips, graph));
        let edges = edges.collect::<Result<Vec<_>, _>>()?;
        let own = graph.edges().iter().map(|edge| edge.weight).collect::<Vec<_>>();
        let count = own.len();
        let shared = Arc::new(Shared { edges, own, flips });
        Ok(Self { shared, weights: Vec::with_capacity(count), places: vec![0; count] })
    }

    /// The number of measurements.
    #[must_use]
    pub fn measurements(&self) -> u32 {
        self.shared.edges.len() as u32
    }

    /// The detectors and observables that a wrong outcome of each measurement flips.
    #[must_use]
    pub fn flips(&self) -> &[Component] {
        &self.shared.flips
    }

    /// The edge that a wrong outcome of this measurement crosses; `None` if no detector depends on it.
    #[must_use]
    pub fn edge(&self, measurement: u32) -> Option<u32> {
        self.shared.edges.get(measurement as usize).copied().filter(|&edge| edge != NONE)
    }

    /// Begins a shot without doubted measurements.
    pub fn clear(&mut self) {
        for (edge, _) in self.weights.drain(..) {
            self.places[edge as usize] = 0;
        }
    }

    /// Doubts a measurement: its outcome is wrong with the log-likelihood ratio `ln((1 - e) / e)`, at least 0; at 0 the outcome
    /// says nothing. A measurement that does not exist is ignored.
    pub fn doubt(&mut self, measurement: u32, ratio: f64) {
        let Some(edge) = self.edge(measurement) else { return };
        let place = &mut self.places[edge as usize];
        let own = self.shared.own[edge as usize];
        // Written so that NaN counts as no doubt.
        if !(0.0..own + NOTHING).contains(&ratio) {
            return;
        }
        let merged = |weight: f64| merge_independent(weight, ratio).max(0.0);
        match place.checked_sub(1) {
            Some(at) => {
                let weight = &mut self.weights[at as usize].1;
                *weight = merged(*weight);
            }
            None => {
                self.weights.push((edge, merged(own)));
                *place = self.weights.len() as u32;
            }
        }
    }

    /// The weights of the shot: each edge once.
    #[must_use]
    pub fn weights(&self) -> &[(u32, f64)] {
        &self.weights
    }
}

/// The edge that a wrong outcome crosses.
fn edge(measurement: u32, flips: &Component, graph: &DecodingGraph) -> Result<u32, DecodeError> {
    let refuse = |reason: &str| Err(DecodeError::Measurement { measurement, reason: reason.to_owned() });
    let (node, other) = match *flips.detectors {
        [] => return Ok(NONE),
        [node] => (node, None),
        [node, other] => (node, Some(other)),
        _ => return refuse("is a part of more than two detectors"),
    };
    let Some(index) = graph.edge_between(node, other) else {
        return refuse("has no edge: the model has no error that flips the same detectors");
    };
    let edge = &graph.edges()[index as usize];
    if edge.observables != flips.observables {
        return refuse("flips other observables than the edge between its detectors");
    }
    if edge.weight < 0.0 {
        return refuse("is wrong more often than not by the model");
    }
    Ok(index)
}
