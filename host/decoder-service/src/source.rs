//! Sources of shots: sampled from the model, or read from the user's file.

use crate::Problem;
use ringcall_qec::QecError;
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotError, ShotFormat, ShotLayout, ShotReader};
use std::io::Read;

/// Why there is no next shot.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The model cannot be sampled.
    #[error("the model cannot be sampled: {0}")]
    Model(#[from] QecError),
    /// The file is damaged, or of another shape.
    #[error("shots: {0}")]
    Shots(#[from] ShotError),
}

enum Origin {
    Sampled(Box<Sampler>),
    Read(Box<ShotReader<Box<dyn Read + Send>>>),
}

/// A stream of shots.
pub struct ShotSource {
    origin: Origin,
    shot: Shot,
    truth: bool,
    seed: u64,
}

impl ShotSource {
    /// Endless shots of the problem's model, equal for equal seeds.
    ///
    /// # Errors
    /// A model that is not a probability distribution.
    pub fn sampled(problem: &Problem, seed: u64) -> Result<Self, SourceError> {
        let sampler = Sampler::new(problem.model(), seed)?;
        let shot = sampler.new_shot();
        Ok(Self { origin: Origin::Sampled(Box::new(sampler)), shot, truth: true, seed })
    }

    /// The shots of a file, once. With `observables` each shot's true observables follow its detectors, so that answers can be
    /// checked.
    ///
    /// # Errors
    /// A layout that the format cannot hold.
    pub fn read(
        problem: &Problem,
        input: impl Read + Send + 'static,
        format: ShotFormat,
        observables: bool,
    ) -> Result<Self, SourceError> {
        let layout = if observables {
            ShotLayout::with_observables(problem.detectors(), problem.observables())
        } else {
            ShotLayout::detectors(problem.detectors())
        };
        let input: Box<dyn Read + Send> = Box::new(input);
        let reader = ShotReader::new(input, format, layout)?;
        Ok(Self {
            origin: Origin::Read(Box::new(reader)),
            shot: Shot::new(layout),
            truth: observables,
            seed: 0,
        })
    }

    /// Whether shots come with their true observables.
    #[must_use]
    pub fn has_truth(&self) -> bool {
        self.truth
    }

    /// A seed for measurements that detectors do not determine.
    pub(crate) fn coin_seed(&self) -> u64 {
        self.seed
    }

    /// The next shot, or `None` at the end of a file.
    ///
    /// # Errors
    /// A damaged file.
    pub(crate) fn next_shot(&mut self) -> Result<Option<&Shot>, SourceError> {
        let more = match &mut self.origin {
            Origin::Sampled(sampler) => {
                sampler.sample_into(&mut self.shot)?;
                true
            }
            Origin::Read(reader) => reader.read(&mut self.shot)?,
        };
        Ok(more.then_some(&self.shot))
    }
}
