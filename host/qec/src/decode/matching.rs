//! The matching decoder: checks its input, hands it to an engine, reads the answer.

use std::sync::Arc;

use super::integer::{IntegerGraph, OPEN};
use super::sparse::SparseBlossom;
use super::{
    DecodeError, Decoder, DecoderFactory, Engine, Matched, MatchingEngine, MatchingGraph, ParallelEdges,
};
use crate::dem::DetectorErrorModel;

/// Minimum-weight perfect matching on a [`MatchingGraph`].
///
/// Weights are rounded to whole steps as PyMatching does: the largest in magnitude becomes `2^24 - 1` steps, and
/// whole weights are kept as they are. At most 64 observables.
pub struct MatchingDecoder {
    graph: Arc<IntegerGraph>,
    engine: Box<dyn Engine>,
    /// Per detector, the decode in which it was last seen.
    seen: Vec<u32>,
    decode: u32,
    /// Per part without boundary, whether an odd number of its detectors fired; all false between decodes.
    odd: Vec<bool>,
    /// The defects after flipping those of negative edges.
    effective: Vec<u32>,
}

impl MatchingDecoder {
    /// A decoder with the default engine on the graph of `model`, as PyMatching would load it.
    ///
    /// # Errors
    /// As [`MatchingGraph::from_dem`] and [`new`](Self::new).
    pub fn from_dem(model: &DetectorErrorModel) -> Result<Self, DecodeError> {
        let graph = MatchingGraph::from_dem(model, ParallelEdges::Independent)?;
        Self::new(&graph, MatchingEngine::default())
    }

    /// A decoder with this engine on this graph.
    ///
    /// # Errors
    /// [`DecodeError::TooManyObservables`] past 64, [`DecodeError::WeightRange`] for weights too far apart.
    pub fn new(graph: &MatchingGraph, engine: MatchingEngine) -> Result<Self, DecodeError> {
        let graph = Arc::new(IntegerGraph::new(graph)?);
        let engine = make(engine, &graph)?;
        Ok(Self::on(&graph, engine))
    }

    fn on(graph: &Arc<IntegerGraph>, engine: Box<dyn Engine>) -> Self {
        let detectors = graph.num_detectors as usize;
        Self {
            engine,
            seen: vec![0; detectors],
            decode: 0,
            odd: vec![false; graph.num_closed],
            effective: Vec::with_capacity(detectors),
            graph: Arc::clone(graph),
        }
    }

    /// The step to which weights are rounded: the weight of every matching is a whole multiple of it.
    pub fn weight_step(&self) -> f64 {
        1.0 / self.graph.scale
    }

    /// Refuses what no engine may see.
    fn check(&mut self, defects: &[u32]) -> Result<(), DecodeError> {
        let Self { graph, seen, decode, odd, .. } = self;
        *decode = decode.wrapping_add(1);
        if *decode == 0 {
            seen.fill(0);
            *decode = 1;
        }
        for &detector in defects {
            match seen.get_mut(detector as usize) {
                None => return Err(DecodeError::Detector { detector, count: graph.num_detectors }),
                Some(seen) if *seen == *decode => return Err(DecodeError::Duplicate { detector }),
                Some(seen) => *seen = *decode,
            }
        }
        if graph.num_closed == 0 {
            return Ok(());
        }
        let part = |detector: u32| Some(graph.closed[detector as usize]).filter(|&part| part != OPEN);
        for part in defects.iter().copied().filter_map(part) {
            odd[part as usize] ^= true;
        }
        let mut unexplained = None;
        for &detector in defects {
            if let Some(part) = part(detector)
                && std::mem::take(&mut odd[part as usize])
            {
                unexplained = unexplained.or(Some(detector));
            }
        }
        unexplained.map_or(Ok(()), |detector| Err(DecodeError::OddParity { detector }))
    }
}

impl Decoder for MatchingDecoder {
    fn num_detectors(&self) -> u32 {
        self.graph.num_detectors
    }

    fn num_observables(&self) -> u32 {
        self.graph.num_observables
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        let (expected, found) = ((self.graph.num_observables as usize).div_ceil(8), observables.len());
        if found != expected {
            return Err(DecodeError::Length { what: "bytes for observables", expected, found });
        }
        self.check(defects)?;
        let mut effective = defects;
        if !self.graph.flipped.is_empty() {
            // What both lists name cancels. `seen` tells the first list; a search in the second is short enough for
            // this rare kind of graph.
            let flipped = &self.graph.flipped;
            self.effective.clear();
            self.effective
                .extend(defects.iter().copied().filter(|defect| flipped.binary_search(defect).is_err()));
            let (seen, decode) = (&self.seen, self.decode);
            self.effective.extend(flipped.iter().copied().filter(|&node| seen[node as usize] != decode));
            effective = &self.effective;
        }
        let solution = self.engine.solve(effective)?;
        let mask = (solution.observables ^ self.graph.flipped_observables).to_le_bytes();
        observables.copy_from_slice(&mask[..expected]);
        let weight = solution.weight + self.graph.negative_weight;
        let corrections = match self.graph.uniform {
            Some(step) => u32::try_from(solution.weight / step).unwrap_or(u32::MAX),
            None => solution.pairs,
        };
        Ok(Matched { weight: weight as f64 / self.graph.scale, corrections, converged: true })
    }
}

impl std::fmt::Debug for MatchingDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MatchingDecoder")
            .field("num_detectors", &self.graph.num_detectors)
            .field("num_observables", &self.graph.num_observables)
            .field("edges", &self.graph.edges.len())
            .finish_non_exhaustive()
    }
}

fn make(engine: MatchingEngine, graph: &IntegerGraph) -> Result<Box<dyn Engine>, DecodeError> {
    match engine {
        MatchingEngine::SparseBlossom => Ok(Box::new(SparseBlossom::new(graph)?)),
    }
}

/// Makes [`MatchingDecoder`]s on one graph. The graph's tables are made once, with the factory, and shared.
pub struct MatchingFactory {
    graph: Arc<IntegerGraph>,
    prototype: Box<dyn Engine>,
}

impl std::fmt::Debug for MatchingFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MatchingFactory").field("graph", &self.graph).finish_non_exhaustive()
    }
}

impl MatchingFactory {
    /// Decoders with the default engine on the graph of `model`, as PyMatching would load it.
    ///
    /// # Errors
    /// As [`MatchingDecoder::from_dem`].
    pub fn from_dem(model: &DetectorErrorModel) -> Result<Self, DecodeError> {
        Self::new(&MatchingGraph::from_dem(model, ParallelEdges::Independent)?, MatchingEngine::default())
    }

    /// Decoders with this engine on this graph.
    ///
    /// # Errors
    /// As [`MatchingDecoder::new`].
    pub fn new(graph: &MatchingGraph, engine: MatchingEngine) -> Result<Self, DecodeError> {
        let graph = Arc::new(IntegerGraph::new(graph)?);
        let prototype = make(engine, &graph)?;
        Ok(Self { graph, prototype })
    }
}

impl DecoderFactory for MatchingFactory {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(Box::new(MatchingDecoder::on(&self.graph, self.prototype.clone_box())))
    }
}
