//! The experiments on which the decoder is compared with PyMatching: shared by the tests and by the examples that
//! write the inputs of the comparison and time it.
#![allow(dead_code)]

use ringcall_qec::QecError;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};

/// Shots per memory experiment.
pub(crate) const SHOTS: usize = 2000;

/// Residuals per check matrix.
pub(crate) const RESIDUALS: usize = 500;

/// As many rounds as the distance, under uniform circuit noise.
pub(crate) struct Memory {
    pub(crate) distance: u32,
    pub(crate) per_mille: u32,
    pub(crate) basis: Basis,
}

const fn memory(distance: u32, per_mille: u32, basis: Basis) -> Memory {
    Memory { distance, per_mille, basis }
}

/// Both bases, at either rate.
pub(crate) const MEMORY: [Memory; 8] = [
    memory(5, 1, Basis::Z),
    memory(5, 3, Basis::X),
    memory(7, 1, Basis::X),
    memory(7, 3, Basis::Z),
    memory(13, 1, Basis::Z),
    memory(13, 3, Basis::X),
    memory(21, 1, Basis::X),
    memory(21, 3, Basis::Z),
];

impl Memory {
    pub(crate) fn name(&self) -> String {
        format!("d{:02}_p0.00{}", self.distance, self.per_mille)
    }

    pub(crate) fn seed(&self) -> u64 {
        u64::from(1000 * self.distance + self.per_mille)
    }

    pub(crate) fn model(&self) -> Result<DetectorErrorModel, QecError> {
        let noise = CircuitNoise::uniform(f64::from(self.per_mille) / 1000.0);
        let &Self { distance, basis, .. } = self;
        MemoryExperiment { distance, rounds: distance, basis, noise }.detector_error_model()
    }
}

/// Residuals of independent detectors, cut into two slices per round of one check type.
pub(crate) struct Slices {
    pub(crate) distance: u32,
    pub(crate) percent: u32,
}

pub(crate) const SLICES: [Slices; 6] = [
    Slices { distance: 7, percent: 1 },
    Slices { distance: 7, percent: 5 },
    Slices { distance: 13, percent: 1 },
    Slices { distance: 13, percent: 5 },
    Slices { distance: 21, percent: 1 },
    Slices { distance: 21, percent: 5 },
];

impl Slices {
    pub(crate) fn name(&self) -> String {
        format!("d{:02}_density0.0{}", self.distance, self.percent)
    }

    pub(crate) fn seed(&self) -> u64 {
        u64::from(1000 * self.distance + 100 * self.percent)
    }

    pub(crate) fn slices(&self) -> u32 {
        2 * self.distance
    }

    /// Fires each residual detector by itself.
    pub(crate) fn model(&self) -> DetectorErrorModel {
        let num_detectors = (self.distance * self.distance - 1) / 2 * self.slices();
        let mechanisms = (0..num_detectors).map(|detector| Mechanism {
            probability: f64::from(self.percent) / 100.0,
            detectors: vec![detector],
            observables: Vec::new(),
            components: Vec::new(),
        });
        DetectorErrorModel {
            num_detectors,
            num_observables: 0,
            mechanisms: mechanisms.collect(),
            coordinates: Vec::new(),
        }
    }
}

/// The digest of shot files in the data of the comparison.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, &byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
