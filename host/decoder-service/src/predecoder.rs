//! A fully convolutional predecoder as a model of one memory experiment.

use ringcall_infer::{ElementType, Engine, InferError, Model, TensorSpec, check_buffers, check_finite};
use ringcall_qec::QecError;
use ringcall_qec::circuit::MemoryExperiment;
use ringcall_qec::code::Basis;
use ringcall_qec::predecoder::{PredecoderVolume, Thresholds};
use std::sync::Arc;

/// Why a network cannot predecode an experiment.
#[derive(Debug, thiserror::Error)]
pub enum PredecoderError {
    /// The experiment does not exist.
    #[error(transparent)]
    Experiment(#[from] QecError),
    /// The network's tensors are not those of a predecoder of this size.
    #[error("`{model}` is no predecoder of this experiment: {reason}")]
    Shape {
        /// The model.
        model: String,
        /// The expected and the found tensors.
        reason: String,
    },
    /// The model's metadata has no threshold, and none was given.
    #[error("`{0}` holds no threshold (metadata `predecoder.threshold.d<distance>.p<noise>`): give one")]
    NoThreshold(String),
    /// The network was exported for another experiment.
    #[error("`{model}` was exported for {what} {its}, and the experiment has {what} {asked}")]
    OtherExperiment {
        /// The model.
        model: String,
        /// `basis`, `distance` or `rounds`.
        what: &'static str,
        /// The file's value.
        its: String,
        /// The experiment's value.
        asked: String,
    },
    /// The threshold is not finite.
    #[error("the threshold {0} is not a finite number")]
    Threshold(f32),
    /// The engine's own error.
    #[error(transparent)]
    Engine(#[from] InferError),
}

/// A [`Model`] from detectors (`u8[1, D]`, set if not 0) to residual detectors (`u8[1, D]`) and logical frame (`u8[1, 1]`). It
/// surrounds a network from `f32[1, 4, layers, d, d]` to logits of the same shape, as described in [`ringcall_qec::predecoder`],
/// on any engine.
pub struct Predecoder {
    network: Arc<dyn Model>,
    volume: Arc<PredecoderVolume>,
    threshold: f32,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
}

impl std::fmt::Debug for Predecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predecoder")
            .field("network", &self.network.name())
            .field("shape", &self.volume.shape())
            .field("threshold", &self.threshold)
            .finish_non_exhaustive()
    }
}

impl Predecoder {
    /// Sizes of the dimensions that a committed network leaves open, by their names in the file.
    #[must_use]
    pub fn sizes(experiment: &MemoryExperiment) -> [(&'static str, usize); 3] {
        let distance = experiment.distance as usize;
        [("layers", experiment.rounds as usize + 1), ("height", distance), ("width", distance)]
    }

    /// Binds a network to an experiment. Without a given threshold, the network's metadata supplies the one of the nearest noise
    /// (that of gates) and distance.
    ///
    /// # Errors
    /// The experiment is out of range, the network's tensors do not have its volume, or there is no threshold.
    pub fn new(
        network: Arc<dyn Model>,
        experiment: &MemoryExperiment,
        threshold: Option<f32>,
    ) -> Result<Self, PredecoderError> {
        let MemoryExperiment { distance, rounds, basis, .. } = *experiment;
        let volume = PredecoderVolume::new(distance, rounds, basis)?;
        let [channels, layers, rows, columns] = volume.shape();
        let expected = [1, channels, layers, rows, columns];
        let (ins, outs) = (network.inputs(), network.outputs());
        let fits = |spec: &TensorSpec| spec.element == ElementType::F32 && spec.shape == expected;
        if ins.len() != 1 || outs.len() != 1 || !ins.iter().chain(outs).all(fits) {
            let shown: Vec<_> = ins.iter().chain(outs).map(ToString::to_string).collect();
            return Err(PredecoderError::Shape {
                model: network.name().to_owned(),
                reason: format!("it has {}, where f32{expected:?} goes in and comes out", shown.join(", ")),
            });
        }
        let threshold = Self::threshold_of(network.name(), network.metadata(), experiment, threshold)?;
        let bits = |name, n| TensorSpec::new(name, ElementType::U8, [1, n]);
        let detectors = volume.detectors();
        Ok(Self {
            inputs: vec![bits("detectors", detectors)?],
            outputs: vec![bits("residual_detectors", detectors)?, bits("logical_frame", 1)?],
            network,
            volume: Arc::new(volume),
            threshold,
        })
    }

    /// The threshold of a network for an experiment: the given one, or that of the nearest noise (that of gates) and distance in
    /// the network's metadata.
    ///
    /// # Errors
    /// There is no threshold, or it is not finite.
    pub fn threshold_of(
        name: &str,
        metadata: &[(String, String)],
        experiment: &MemoryExperiment,
        given: Option<f32>,
    ) -> Result<f32, PredecoderError> {
        let entries = metadata.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let noise = experiment.noise.after_clifford_depolarization;
        let threshold = given
            .or_else(|| Thresholds::from_metadata(entries).nearest(experiment.distance, noise))
            .ok_or_else(|| PredecoderError::NoThreshold(name.to_owned()))?;
        if !threshold.is_finite() {
            return Err(PredecoderError::Threshold(threshold));
        }
        Ok(threshold)
    }

    /// Checks that a network exported for one experiment was exported for this one, as far as its metadata says:
    /// `predecoder.basis`, `predecoder.distance` and `predecoder.rounds`. Networks of both bases have the same tensors, and a
    /// network of the other basis would decide by detectors that do not exist.
    ///
    /// # Errors
    /// [`PredecoderError::OtherExperiment`].
    pub fn check_experiment(
        name: &str,
        metadata: &[(String, String)],
        experiment: &MemoryExperiment,
    ) -> Result<(), PredecoderError> {
        let MemoryExperiment { distance, rounds, basis, .. } = *experiment;
        let basis = match basis {
            Basis::X => "X",
            Basis::Z => "Z",
        };
        let known =
            [("basis", basis.to_owned()), ("distance", distance.to_string()), ("rounds", rounds.to_string())];
        for (what, asked) in known {
            let says = |(key, _): &&(String, String)| key.strip_prefix("predecoder.") == Some(what);
            match metadata.iter().find(says) {
                Some((_, its)) if !its.eq_ignore_ascii_case(&asked) => {
                    let (model, its) = (name.to_owned(), its.clone());
                    return Err(PredecoderError::OtherExperiment { model, what, its, asked });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The threshold in use.
    #[must_use]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }
}

impl Model for Predecoder {
    fn name(&self) -> &str {
        self.network.name()
    }

    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn metadata(&self) -> &[(String, String)] {
        self.network.metadata()
    }

    fn instantiate(&self) -> Result<Box<dyn Engine>, InferError> {
        let elements = self.volume.maps().len();
        Ok(Box::new(PredecoderEngine {
            engine: self.network.instantiate()?,
            volume: Arc::clone(&self.volume),
            threshold: self.threshold,
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            input: vec![0; 4 * elements],
            output: vec![0; 4 * elements],
            logits: vec![0.0; elements],
            packed: vec![0; self.volume.detectors().div_ceil(8)],
        }))
    }
}

struct PredecoderEngine {
    engine: Box<dyn Engine>,
    volume: Arc<PredecoderVolume>,
    threshold: f32,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    /// The network's tensors, as bytes.
    input: Vec<u8>,
    output: Vec<u8>,
    logits: Vec<f32>,
    packed: Vec<u8>,
}

impl Engine for PredecoderEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        check_buffers(&self.inputs, &self.outputs, inputs, outputs)?;
        let ([detectors], [residual, frame]) = (inputs, outputs) else {
            // Just checked; the lengths are the specs'.
            return Ok(());
        };
        for (bytes, map) in self.input.chunks_exact_mut(4).zip(self.volume.maps()) {
            bytes.copy_from_slice(&map.to_le_bytes());
        }
        self.packed.fill(0);
        for (index, _) in detectors.iter().enumerate().filter(|(_, set)| **set != 0) {
            let place = 4 * self.volume.place(index);
            self.input[place..place + 4].copy_from_slice(&1.0_f32.to_le_bytes());
            self.packed[index / 8] |= 1 << (index % 8);
        }
        self.engine.run(&[&self.input], &mut [&mut self.output])?;
        // A NaN logit is above no threshold, and would pass for "no error here".
        check_finite(self.engine.outputs(), [&self.output[..]])?;
        for (logit, bytes) in self.logits.iter_mut().zip(self.output.as_chunks::<4>().0) {
            *logit = f32::from_le_bytes(*bytes);
        }
        frame[0] = u8::from(self.volume.apply(&self.logits, self.threshold, &mut self.packed));
        for (index, left) in residual.iter_mut().enumerate() {
            *left = self.packed[index / 8] >> (index % 8) & 1;
        }
        Ok(())
    }
}
