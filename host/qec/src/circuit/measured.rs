//! The measurements of a memory experiment as a control system sends them: a 32-bit integer for each check and round.

use super::check_order::by_row;
use super::{DetectorLayout, MemoryExperiment};
use crate::QecError;
use crate::code::{Basis, SurfaceCode};

/// Marks a detector that is one measurement alone.
const NONE: u32 = u32::MAX;

/// The measurements that each detector of a memory experiment compares.
///
/// Measurements are a tensor `[rows, rounds]`, row-major, of `3 (d * d - 1) / 2` rows: all checks row by row, in the order of
/// measurement within a round, then the checks of the experiment's basis once more. The latter rows have a value in the last
/// round alone, the parity of the read-out of the check's data qubits. This is the input of predecoders of the form
/// `*.measurements.onnx`.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, MeasurementLayout, MemoryExperiment};
/// use ringcall_qec::code::Basis;
///
/// let experiment = MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise: CircuitNoise::default() };
/// let layout = MeasurementLayout::new(&experiment)?;
/// assert_eq!((layout.shape(), layout.detectors()), ([72, 7], 336));
///
/// // What detectors say of measurements that were drawn for them.
/// let fired = [5, 100, 335];
/// let mut measurements = vec![0; layout.measurements()];
/// let mut coin = 0_u32;
/// layout.measure(fired, || { coin += 1; coin % 3 == 0 }, &mut measurements);
/// assert!((0..336).filter(|&i| layout.detector(i, |at| measurements[at] != 0)).eq(fired.map(|i| i as usize)));
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasurementLayout {
    rows: usize,
    rounds: usize,
    /// The one or two measurements whose parity the detector is, the later one first.
    of: Vec<[u32; 2]>,
    /// The first measurements of the checks of the other basis, which are random.
    random: Vec<u32>,
}

impl MeasurementLayout {
    /// The layout of `experiment`.
    ///
    /// # Errors
    /// [`QecError::Distance`] or [`QecError::Rounds`] names the parameter out of range.
    pub fn new(experiment: &MemoryExperiment) -> Result<Self, QecError> {
        let layout: DetectorLayout = experiment.detector_layout()?;
        let code = SurfaceCode::new(experiment.distance)?;
        let rounds = experiment.rounds;
        let checks = by_row(&code);
        let mut row_of = [Basis::X, Basis::Z].map(|basis| vec![0; code.num_stabilizers(basis) as usize]);
        let side = |basis: Basis| usize::from(basis == Basis::Z);
        let mut random = Vec::new();
        for (row, (stabilizer, check)) in (0_u32..).zip(&checks) {
            row_of[side(check.basis)][*stabilizer as usize] = row;
            if check.basis != experiment.basis {
                random.push(row * rounds);
            }
        }
        // Stabilizers of a basis are in the order of rows, too, so the read-out's rows are theirs.
        let first_read = checks.len() as u32;
        let of = layout.detectors().iter().map(|detector| {
            let row = row_of[side(detector.basis)][detector.stabilizer as usize];
            let at = |layer: u32| row * rounds + layer;
            let before = detector.layer.checked_sub(1).map_or(NONE, at);
            if detector.layer == rounds {
                [(first_read + detector.stabilizer) * rounds + rounds - 1, before]
            } else {
                [at(detector.layer), before]
            }
        });
        Ok(Self {
            rows: checks.len() + code.num_stabilizers(experiment.basis) as usize,
            rounds: rounds as usize,
            of: of.collect(),
            random,
        })
    }

    /// Rows and rounds.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.rounds]
    }

    /// The number of measurements: rows times rounds.
    #[must_use]
    pub fn measurements(&self) -> usize {
        self.rows * self.rounds
    }

    /// The number of detectors.
    #[must_use]
    pub fn detectors(&self) -> usize {
        self.of.len()
    }

    /// The value of detector `index`, where `is_set` gives the measurement at an index of the tensor; false past the last
    /// detector.
    #[must_use]
    pub fn detector(&self, index: usize, is_set: impl Fn(usize) -> bool) -> bool {
        let Some(&[last, before]) = self.of.get(index) else { return false };
        is_set(last as usize) ^ (before != NONE && is_set(before as usize))
    }

    /// Draws measurements for the detectors that fired, given in ascending order. `coin` gives the first measurement of each
    /// check of the other basis, which is random; all others follow. Every set of measurements with these detectors is as likely
    /// as in the experiment.
    ///
    /// # Panics
    /// If `out` is shorter than [`measurements`](Self::measurements).
    pub fn measure(
        &self,
        fired: impl IntoIterator<Item = u32>,
        mut coin: impl FnMut() -> bool,
        out: &mut [i32],
    ) {
        out[..self.measurements()].fill(0);
        for &at in &self.random {
            out[at as usize] = i32::from(coin());
        }
        // Detectors are ordered by layer, so the measurement that one is compared with is set already.
        let mut fired = fired.into_iter().peekable();
        for (index, &[last, before]) in (0..).zip(&self.of) {
            let fires = fired.next_if_eq(&index).is_some();
            let previous = if before == NONE { 0 } else { out[before as usize] };
            out[last as usize] = previous ^ i32::from(fires);
        }
    }
}
