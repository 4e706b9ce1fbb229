//! The digest of a detector error model that the Python scripts of `data` compute from Stim's.
#![allow(dead_code)]

use ringcall_qec::dem::{DetectorErrorModel, MechanismPart};

/// The digest that `data/dem/make.py` defines.
pub(crate) struct Digest {
    pub(crate) count: usize,
    pub(crate) hashes: u64,
    pub(crate) sums: [f64; 5],
}

pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Digest {
    pub(crate) fn of(model: &DetectorErrorModel) -> Self {
        let mut digest = Self { count: 0, hashes: 0, sums: [0.0; 5] };
        for mechanism in &model.mechanisms {
            let part = |edge: MechanismPart<'_>| {
                let detectors = edge.detectors.iter().map(|id| format!("D{id}"));
                detectors
                    .chain(edge.observables.iter().map(|id| format!("L{id}")))
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let hash = fnv1a(&mechanism.edges().map(part).collect::<Vec<_>>().join(" ^ "));
            digest.count += 1;
            digest.hashes = digest.hashes.wrapping_add(hash);
            digest.sums[0] += mechanism.probability;
            for k in 0..4 {
                let weight = (hash >> (16 * k) & 0xffff) as f64 / 65536.0;
                digest.sums[k + 1] += mechanism.probability * weight;
            }
        }
        digest
    }
}
