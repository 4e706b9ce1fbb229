//! Decoding layer by layer: a residual syndrome is cut into slices, each matched on the check graph alone.
//!
//! Slices suit the residual of a predecoder: few defects, mostly explained within their own layer. Decoding by slices ignores
//! errors of measurement, so it is not for raw syndromes; [`MatchingDecoder`] on the whole model is.
//!
//! [`SliceDecoder`] takes a residual that is one slice after another; [`SliceFactory`] makes decoders of a memory experiment,
//! whose detectors it sorts into slices by basis and layer of time.

use super::{
    DecodeError, Decoder, DecoderFactory, DecodingGraph, Matched, MatchingDecoder, MatchingEngine,
    MatchingFactory, ParallelEdges,
};
use crate::circuit::MemoryExperiment;
use crate::code::{Basis, SurfaceCode};
use crate::shots::BitRow;
use std::sync::Arc;

/// The answer for one residual syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlicesResponse {
    /// The data qubits corrected, over all slices.
    pub total_corrections: i32,
    /// Whether every slice converged.
    pub converged: bool,
}

/// Decodes each slice of a residual syndrome on the check graph of one error type.
///
/// Detector `i` of the residual is check `i % checks` of slice `i / checks`, where `checks` is the number of rows.
///
/// ```
/// use ringcall_qec::decode::{MatchingEngine, SliceDecoder};
/// // The distance-3 repetition code, two slices.
/// let rows = [vec![0, 1], vec![1, 2]];
/// let mut decoder = SliceDecoder::new(&rows, 3, 2, MatchingEngine::default())?;
/// let answer = decoder.decode(&[1, 1, 0, 1])?; // the middle qubit, then the last
/// assert_eq!((answer.total_corrections, answer.converged), (2, true));
/// # Ok::<(), ringcall_qec::decode::DecodeError>(())
/// ```
#[derive(Debug)]
pub struct SliceDecoder {
    decoder: MatchingDecoder,
    slices: u32,
    defects: Vec<u32>,
}

impl SliceDecoder {
    /// Makes a decoder for `slices` slices of the checks in `rows`, each a list of data qubits below `columns`. All qubits weigh
    /// the same, and the first of parallel edges is kept.
    ///
    /// # Errors
    /// As [`DecodingGraph::from_check_matrix`], and [`DecodeError::Length`] when the residual would not fit 32 bits.
    pub fn new(
        rows: &[impl AsRef<[u32]>],
        columns: u32,
        slices: u32,
        engine: MatchingEngine,
    ) -> Result<Self, DecodeError> {
        let graph = DecodingGraph::from_check_matrix(rows, columns, None, ParallelEdges::SmallestWeight)?;
        let checks = graph.num_detectors();
        if checks.checked_mul(slices).is_none() {
            let found = (u64::from(checks) * u64::from(slices)) as usize;
            return Err(DecodeError::Length {
                what: "residual detectors",
                expected: u32::MAX as usize,
                found,
            });
        }
        let decoder = MatchingDecoder::new(&graph, engine)?;
        Ok(Self { decoder, slices, defects: Vec::with_capacity(checks as usize) })
    }

    /// The number of residual detectors: checks times slices.
    pub fn num_detectors(&self) -> u32 {
        self.decoder.num_detectors() * self.slices
    }

    /// Decodes a residual of one integer, 0 or 1, per detector.
    ///
    /// # Errors
    /// [`DecodeError::Length`], [`DecodeError::Residual`], and as [`Decoder::decode`] for each slice.
    pub fn decode(&mut self, residual: &[i32]) -> Result<SlicesResponse, DecodeError> {
        self.expect(residual.len())?;
        if let Some(index) = residual.iter().position(|value| !matches!(value, 0 | 1)) {
            return Err(DecodeError::Residual { index, value: residual[index] });
        }
        self.run((0..).zip(residual).filter(|&(_, &value)| value == 1).map(|(index, _)| index))
    }

    /// Decodes a residual in packed bits.
    ///
    /// # Errors
    /// [`DecodeError::Length`], and as [`Decoder::decode`] for each slice.
    pub fn decode_bits(&mut self, residual: &BitRow) -> Result<SlicesResponse, DecodeError> {
        self.expect(residual.len() as usize)?;
        self.run(residual.iter_ones())
    }

    fn expect(&self, found: usize) -> Result<(), DecodeError> {
        let expected = self.num_detectors() as usize;
        if found == expected {
            return Ok(());
        }
        Err(DecodeError::Length { what: "residual detectors", expected, found })
    }

    /// Decodes ascending defects of the whole residual.
    fn run(&mut self, defects: impl Iterator<Item = u32>) -> Result<SlicesResponse, DecodeError> {
        let checks = self.decoder.num_detectors();
        let mut response = SlicesResponse { total_corrections: 0, converged: true };
        let mut start = 0;
        self.defects.clear();
        for defect in defects {
            if defect - start >= checks {
                self.finish_slice(&mut response)?;
                start = defect - defect % checks;
            }
            self.defects.push(defect - start);
        }
        self.finish_slice(&mut response)?;
        Ok(response)
    }

    /// Decodes the gathered defects, if any, and clears them.
    fn finish_slice(&mut self, response: &mut SlicesResponse) -> Result<(), DecodeError> {
        if self.defects.is_empty() {
            return Ok(());
        }
        let matched = self.decoder.decode(&self.defects, &mut [])?;
        self.defects.clear();
        let corrections = i32::try_from(matched.corrections).unwrap_or(i32::MAX);
        response.total_corrections = response.total_corrections.saturating_add(corrections);
        response.converged &= matched.converged;
        Ok(())
    }
}

/// Makes decoders of a memory experiment's detectors by slices: the checks of each basis in each layer of time are matched
/// separately, on the check graph of that basis.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// use ringcall_qec::decode::{Decoder, DecoderFactory, SliceFactory};
///
/// let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise: CircuitNoise::default() };
/// let factory = SliceFactory::new(&experiment, true)?;
/// assert_eq!(factory.slices(), 6);
/// let mut decoder = factory.build()?;
/// assert_eq!((decoder.num_detectors(), decoder.num_observables()), (24, 1));
/// // A detector of the first layer and one of the last: each belongs to its own slice.
/// let matched = decoder.decode(&[0, 23], &mut [0])?;
/// assert_eq!((matched.corrections, matched.converged), (2, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SliceFactory {
    /// For the X checks and the Z checks.
    decoders: [MatchingFactory; 2],
    places: Arc<Places>,
    observables: u32,
}

/// The positions of detectors.
#[derive(Debug)]
struct Places {
    /// Slice and check of each detector.
    of: Vec<[u32; 2]>,
    /// Basis of each slice, as an index: X before Z.
    bases: Vec<usize>,
}

impl std::fmt::Debug for SliceFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SliceFactory")
            .field("slices", &self.slices())
            .field("observables", &self.observables)
            .finish_non_exhaustive()
    }
}

impl SliceFactory {
    /// Decoders of `experiment`, whose noise does not matter: all qubits weigh the same. With `predict` they predict the logical
    /// observable, which corrections on its qubits flip; without it they have no observables, and only count corrections.
    ///
    /// # Errors
    /// [`DecodeError::Model`] for an experiment that does not exist.
    pub fn new(experiment: &MemoryExperiment, predict: bool) -> Result<Self, DecodeError> {
        let layout = experiment.detector_layout()?;
        let code = SurfaceCode::new(experiment.distance)?;
        let observables = u32::from(predict);
        let logical = code.logical(experiment.basis);
        let factory = |basis: Basis| {
            let checks_on = code.checks_on_data(basis);
            let mut graph =
                DecodingGraph::new(code.num_stabilizers(basis), observables, ParallelEdges::SmallestWeight);
            for (data, checks) in (0..).zip(&checks_on) {
                let flips: &[u32] =
                    if predict && basis == experiment.basis && logical.contains(&data) { &[0] } else { &[] };
                match **checks {
                    [check] => graph.add_edge(check, None, 1.0, flips)?,
                    [check, other] => graph.add_edge(check, Some(other), 1.0, flips)?,
                    // Each qubit of a surface code is on one or two checks of each basis.
                    _ => {}
                }
            }
            MatchingFactory::new(&graph, MatchingEngine::SparseBlossom)
        };
        let mut places = Places {
            of: vec![[0; 2]; layout.detectors().len()],
            bases: Vec::with_capacity(2 * layout.detectors().len()),
        };
        for (slice, (basis, _, detectors)) in (0..).zip(layout.slices()) {
            places.bases.push(usize::from(basis == Basis::Z));
            for (check, &detector) in (0..).zip(detectors) {
                places.of[detector as usize] = [slice, check];
            }
        }
        let decoders = [factory(Basis::X)?, factory(Basis::Z)?];
        Ok(Self { decoders, places: Arc::new(places), observables })
    }

    /// The number of slices: twice the rounds.
    #[must_use]
    pub fn slices(&self) -> usize {
        self.places.bases.len()
    }
}

impl DecoderFactory for SliceFactory {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        let [x, z] = &self.decoders;
        let detectors = self.places.of.len();
        Ok(Box::new(ExperimentSlices {
            decoders: [x.build()?, z.build()?],
            places: Arc::clone(&self.places),
            observables: self.observables,
            sorted: Vec::with_capacity(detectors),
            defects: Vec::with_capacity(detectors),
            flips: vec![0; self.observables.div_ceil(8) as usize],
        }))
    }
}

/// A decoder of a memory experiment by slices.
struct ExperimentSlices {
    decoders: [Box<dyn Decoder>; 2],
    places: Arc<Places>,
    observables: u32,
    /// Slice and check of the defects of a syndrome.
    sorted: Vec<[u32; 2]>,
    /// The defects of one slice.
    defects: Vec<u32>,
    flips: Vec<u8>,
}

impl Decoder for ExperimentSlices {
    fn num_detectors(&self) -> u32 {
        // A layout has at most 2^24.
        self.places.of.len() as u32
    }

    fn num_observables(&self) -> u32 {
        self.observables
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        if observables.len() != self.flips.len() {
            let (expected, found) = (self.flips.len(), observables.len());
            return Err(DecodeError::Length { what: "bytes for observables", expected, found });
        }
        self.sorted.clear();
        for &detector in defects {
            let place = self.places.of.get(detector as usize);
            let count = self.num_detectors();
            self.sorted.push(*place.ok_or(DecodeError::Detector { detector, count })?);
        }
        self.sorted.sort_unstable();
        observables.fill(0);
        let mut whole =
            Matched { weight: 0.0, corrections: 0, converged: true, late: false, confidence: None };
        for slice in self.sorted.chunk_by(|a, b| a[0] == b[0]) {
            self.defects.clear();
            self.defects.extend(slice.iter().map(|[_, check]| check));
            let basis = self.places.bases[slice[0][0] as usize];
            let matched = self.decoders[basis].decode(&self.defects, &mut self.flips)?;
            for (bits, flips) in observables.iter_mut().zip(&self.flips) {
                *bits ^= flips;
            }
            whole.weight += matched.weight;
            whole.corrections = whole.corrections.saturating_add(matched.corrections);
            whole.converged &= matched.converged;
        }
        Ok(whole)
    }
}
