//! Decoding layer by layer: a residual syndrome is cut into slices, and each is matched on the check graph alone.
//!
//! This suits what a predecoder leaves: few defects, mostly explained within their own layer. It ignores errors of
//! measurement, so it is not a decoder for raw syndromes; [`MatchingDecoder`] on the whole model is.

use super::{DecodeError, Decoder, MatchingDecoder, MatchingEngine, MatchingGraph, ParallelEdges};
use crate::shots::Bits;

/// The answer for one residual syndrome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeResponse {
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
    /// A decoder for `slices` slices of the checks in `rows`, each a list of data qubits below `columns`. All qubits
    /// weigh the same, and of parallel edges the first is kept.
    ///
    /// # Errors
    /// As [`MatchingGraph::from_check_matrix`], and [`DecodeError::Length`] when the residual would not fit 32 bits.
    pub fn new(
        rows: &[impl AsRef<[u32]>],
        columns: u32,
        slices: u32,
        engine: MatchingEngine,
    ) -> Result<Self, DecodeError> {
        let graph = MatchingGraph::from_check_matrix(rows, columns, None, ParallelEdges::SmallestWeight)?;
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
    pub fn decode(&mut self, residual: &[i32]) -> Result<DecodeResponse, DecodeError> {
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
    pub fn decode_bits(&mut self, residual: &Bits) -> Result<DecodeResponse, DecodeError> {
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
    fn run(&mut self, defects: impl Iterator<Item = u32>) -> Result<DecodeResponse, DecodeError> {
        let checks = self.decoder.num_detectors();
        let mut response = DecodeResponse { total_corrections: 0, converged: true };
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

    /// Decodes the defects gathered, if any, and forgets them.
    fn finish_slice(&mut self, response: &mut DecodeResponse) -> Result<(), DecodeError> {
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
