//! Long runs, drawn from the error model of a short one: its beginning, a repeated middle round, and its end.

use anyhow::Result;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};

/// A run's defects by round, and the observables that flipped.
pub(crate) struct Run {
    /// Where each round's defects begin, followed by the end of the last ones.
    offsets: Vec<u32>,
    defects: Vec<u32>,
    observables: u64,
}

impl Run {
    /// The detectors of a round that fired, by their positions in the round.
    pub(crate) fn round(&self, t: usize) -> &[u32] {
        &self.defects[self.offsets[t] as usize..self.offsets[t + 1] as usize]
    }

    /// The number of defects in all rounds.
    pub(crate) fn num_defects(&self) -> usize {
        self.defects.len()
    }

    /// Whether one of the first 64 observables flipped.
    pub(crate) fn flips(&self, observable: u32) -> bool {
        self.observables >> observable & 1 != 0
    }
}

/// Errors of a short experiment, from which runs of any length are drawn.
pub(crate) struct RunSource {
    model: DetectorErrorModel,
    /// Per detector, its round and its position in the round.
    places: Vec<(u32, u32)>,
    layers: u32,
}

impl RunSource {
    /// The errors of an experiment.
    ///
    /// # Errors
    /// The experiment has no error model.
    pub(crate) fn of(experiment: &MemoryExperiment) -> Result<Self> {
        let layout = experiment.detector_layout()?;
        let rounds = layout.detectors().iter().map(|detector| detector.layer);
        Ok(Self::new(experiment.detector_error_model()?, rounds))
    }

    /// The errors of a model, with the round of each of its detectors. The rounds in the middle must be alike.
    pub(crate) fn new(model: DetectorErrorModel, rounds: impl Iterator<Item = u32>) -> Self {
        let mut sizes = Vec::new();
        let mut places = Vec::new();
        for round in rounds {
            let layer = round as usize;
            sizes.resize(sizes.len().max(layer + 1), 0);
            places.push((round, sizes[layer]));
            sizes[layer] += 1;
        }
        Self { model, places, layers: sizes.len() as u32 }
    }

    pub(crate) fn model(&self) -> &DetectorErrorModel {
        &self.model
    }

    /// Per detector of the short run, its round and its position in the round.
    pub(crate) fn places(&self) -> &[(u32, u32)] {
        &self.places
    }

    fn layer_of(&self, mechanism: &Mechanism) -> Option<u32> {
        mechanism.detectors.iter().map(|&detector| self.places[detector as usize].0).min()
    }

    /// Draws a run with `layers` rounds of detectors, at least as many as the short run has. Mechanisms of the middle
    /// round are drawn in every round that repeats it.
    pub(crate) fn draw(&self, layers: u32, rng: &mut Xoshiro256PlusPlus) -> Run {
        let longer = layers.saturating_sub(self.layers);
        let repeating = self.layers.saturating_sub(1) / 2;
        let mut fired = Vec::new();
        let mut observables = 0;
        for mechanism in &self.model.mechanisms {
            let Some(layer) = self.layer_of(mechanism) else { continue };
            let times = match layer {
                layer if layer == repeating => 0..=longer,
                layer if layer > repeating => longer..=longer,
                _ => 0..=0,
            };
            let mut at = u64::from(*times.start());
            loop {
                // The number of rounds without it before the next one with it.
                let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                let without = uniform.ln() / (1.0 - mechanism.probability).ln();
                at = at.saturating_add(without as u64);
                if at > u64::from(*times.end()) {
                    break;
                }
                fired.extend(mechanism.detectors.iter().map(|&detector| {
                    let (layer, position) = self.places[detector as usize];
                    (layer + at as u32, position)
                }));
                let low = mechanism.observables.iter().filter(|&&observable| observable < 64);
                low.for_each(|&observable| observables ^= 1 << observable);
                at += 1;
            }
        }
        fired.sort_unstable();
        let mut run = Run { offsets: vec![0], defects: Vec::new(), observables };
        for same in fired.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1) {
            let (layer, position) = same[0];
            run.offsets.resize(layer as usize + 1, run.defects.len() as u32);
            run.defects.push(position);
        }
        run.offsets.resize(layers as usize + 1, run.defects.len() as u32);
        run
    }
}
