//! Layout of a memory experiment's detectors: the check and the layer of time of each detector.

use std::ops::Range;

use super::check_order::{by_column, by_row};
use crate::code::{Basis, SurfaceCode};

/// The check and the layer of time of a detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetectorInfo {
    /// Basis of its check.
    pub basis: Basis,
    /// Index of its check in [`SurfaceCode::stabilizers`] of that basis.
    pub stabilizer: u32,
    /// Position `(x, y)` of its check.
    pub position: (u32, u32),
    /// Layer of time: 0 is the first round alone, `t` compares round `t` with round `t - 1` (counted from 0), and
    /// `rounds` compares the read-out of the data qubits with the last round.
    pub layer: u32,
}

/// All detectors of a memory experiment, split by basis and by layer of time.
///
/// The basis of the experiment has `rounds + 1` layers, `0..=rounds`; the other basis has `rounds - 1`, because its
/// checks are random in the first round and unknown at the read-out. Together they are `2 * rounds` slices of
/// `(d * d - 1) / 2` detectors.
///
/// ```
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// let noise = CircuitNoise::default();
/// let layout = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise }.detector_layout()?;
/// assert_eq!((layout.layers(Basis::Z), layout.layers(Basis::X)), (0..4, 1..3));
/// assert_eq!(layout.layer(Basis::X, 1), Some(&[4, 6, 9, 11][..]));
/// assert_eq!(layout.layer(Basis::X, 0), None);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectorLayout {
    basis: Basis,
    rounds: u32,
    /// Detectors of one slice.
    per_slice: usize,
    detectors: Vec<DetectorInfo>,
    /// The slices of the experiment's basis, layer by layer, each ordered by check.
    own: Vec<u32>,
    /// The same for the other basis.
    dual: Vec<u32>,
}

impl DetectorLayout {
    pub(super) fn new(code: &SurfaceCode, rounds: u32, basis: Basis) -> Self {
        let per_slice = code.num_stabilizers(basis) as usize;
        let info = |layer: u32| {
            move |(stabilizer, check): &(u32, &crate::code::Stabilizer)| DetectorInfo {
                basis: check.basis,
                stabilizer: *stabilizer,
                position: check.position,
                layer,
            }
        };
        let (ends, middle) = (by_column(code, basis), by_row(code));
        let mut detectors = Vec::with_capacity(2 * per_slice * rounds as usize);
        detectors.extend(ends.iter().map(info(0)));
        for layer in 1..rounds {
            detectors.extend(middle.iter().map(info(layer)));
        }
        detectors.extend(ends.iter().map(info(rounds)));
        let mut layout = Self {
            basis,
            rounds,
            per_slice,
            own: vec![0; per_slice * (rounds as usize + 1)],
            dual: vec![0; per_slice * (rounds as usize - 1)],
            detectors,
        };
        for (id, detector) in (0..).zip(&layout.detectors) {
            let (slices, layer) = if detector.basis == basis {
                (&mut layout.own, detector.layer)
            } else {
                (&mut layout.dual, detector.layer - 1)
            };
            slices[layer as usize * per_slice + detector.stabilizer as usize] = id;
        }
        layout
    }

    /// Every detector, in order.
    pub fn detectors(&self) -> &[DetectorInfo] {
        &self.detectors
    }

    /// The layers of time in which checks of this basis have detectors; empty for the other basis with one round.
    pub fn layers(&self, basis: Basis) -> Range<u32> {
        if basis == self.basis { 0..self.rounds + 1 } else { 1..self.rounds }
    }

    /// The detectors of one basis in one layer, where entry `i` belongs to check `i`; `None` if there are none.
    pub fn layer(&self, basis: Basis, layer: u32) -> Option<&[u32]> {
        let layers = self.layers(basis);
        let slices = if basis == self.basis { &self.own } else { &self.dual };
        layers.contains(&layer).then(|| {
            let start = (layer - layers.start) as usize * self.per_slice;
            &slices[start..start + self.per_slice]
        })
    }

    /// Every slice as basis, layer and detectors: all of X by layer, then all of Z by layer; `2 * rounds` slices.
    pub fn slices(&self) -> impl Iterator<Item = (Basis, u32, &[u32])> {
        Basis::BOTH.into_iter().flat_map(move |basis| {
            self.layers(basis).filter_map(move |layer| Some((basis, layer, self.layer(basis, layer)?)))
        })
    }
}
