//! A detector error model decoded by a plug-in.

use super::PluginError;
use super::library::{Handle, Library, Lists};
use ringcall_qec::decode::{DecodeError, Decoder, DecoderFactory, Matched};
use ringcall_qec::dem::DetectorErrorModel;
use std::ffi::CString;
use std::sync::Arc;

/// Makes decoders of one model by a plug-in, a handle each.
///
/// Each error of the model is one hyperedge, with its observables if the plug-in takes them; how the model splits an error into
/// parts is not handed over. Errors of probability 0 and errors that flip no detector are left out.
#[derive(Debug, Clone)]
pub struct PluginFactory {
    library: Library,
    lists: Arc<Lists>,
    effects: Arc<Effects>,
}

/// What the errors that were handed over come to.
#[derive(Debug)]
struct Effects {
    num_observables: u32,
    /// `ln((1 - p) / p)` of each.
    weights: Vec<f64>,
}

impl PluginFactory {
    /// Decoders of `model` by the plug-in, which gets `config`, a JSON text, as it is. One decoder is made and ended at once, so that
    /// a plug-in that refuses does so here.
    ///
    /// # Errors
    /// [`PluginError::Model`] for a model that contradicts itself or has an error of probability 1, and for options with a NUL;
    /// [`PluginError::Refused`].
    pub fn new(library: Library, model: &DetectorErrorModel, config: &str) -> Result<Self, PluginError> {
        let unfit = |reason: String| PluginError::Model { reason };
        model.validate().map_err(|error| unfit(error.to_string()))?;
        let config = CString::new(config).map_err(|_| unfit("the options have a NUL in them".to_owned()))?;
        let mut lists =
            Lists { vertices: model.num_detectors.into(), offsets: vec![0], config, ..Lists::default() };
        for (index, error) in model.mechanisms.iter().enumerate() {
            let p = error.probability;
            if p == 0.0 || error.detectors.is_empty() {
                continue;
            }
            if p >= 1.0 {
                return Err(unfit(format!("mechanism {index} has probability {p}, and must be below 1")));
            }
            lists.probabilities.push(p);
            lists.members.extend(error.detectors.iter().map(|&detector| u64::from(detector)));
            lists.offsets.push(lists.members.len() as u64);
            lists.flips.extend(error.observables.iter().map(|&observable| u64::from(observable)));
            lists.flip_ends.push(lists.flips.len());
        }
        let weights = lists.probabilities.iter().map(|p| ((1.0 - p) / p).ln()).collect();
        let effects = Effects { num_observables: model.num_observables, weights };
        Handle::create(&library, &lists)?;
        Ok(Self { library, lists: Arc::new(lists), effects: Arc::new(effects) })
    }

    /// The plug-in.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }
}

impl DecoderFactory for PluginFactory {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        let handle = Handle::create(&self.library, &self.lists)
            .map_err(|error| DecodeError::Plugin { reason: error.to_string() })?;
        let bytes = (self.lists.vertices as usize).div_ceil(8);
        Ok(Box::new(PluginDecoder {
            name: self.library.name().to_owned(),
            handle,
            lists: Arc::clone(&self.lists),
            effects: Arc::clone(&self.effects),
            syndrome: vec![0; bytes],
            left: vec![0; bytes],
        }))
    }
}

/// A decoder that a plug-in made.
#[derive(Debug)]
struct PluginDecoder {
    name: String,
    handle: Handle,
    lists: Arc<Lists>,
    effects: Arc<Effects>,
    /// Most significant bit first.
    syndrome: Vec<u8>,
    /// What an answer leaves of the syndrome.
    left: Vec<u8>,
}

impl Decoder for PluginDecoder {
    fn num_detectors(&self) -> u32 {
        self.lists.vertices as u32
    }

    fn num_observables(&self) -> u32 {
        self.effects.num_observables
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        let (count, expected) = (self.num_detectors(), (self.num_observables() as usize).div_ceil(8));
        if observables.len() != expected {
            let found = observables.len();
            return Err(DecodeError::Length { what: "bytes for observables", expected, found });
        }
        self.syndrome.fill(0);
        for &detector in defects {
            if detector >= count {
                return Err(DecodeError::Detector { detector, count });
            }
            let (byte, bit) = place(detector.into());
            if self.syndrome[byte] & bit != 0 {
                return Err(DecodeError::Duplicate { detector });
            }
            self.syndrome[byte] |= bit;
        }
        let Self { name, handle, lists, effects, syndrome, left } = self;
        let refused = |said: &str| DecodeError::Plugin { reason: format!("decoder plug-in {name}: {said}") };
        let errors = handle.decode(syndrome).map_err(|said| refused(&said))?;
        left.copy_from_slice(syndrome);
        observables.fill(0);
        let mut weight = 0.0;
        for &error in errors {
            let Some(own) = effects.weights.get(error as usize) else {
                let edges = effects.weights.len();
                return Err(refused(&format!("its answer names error {error}, and the model has {edges}")));
            };
            weight += own;
            let error = error as usize;
            for &detector in &lists.members[lists.offsets[error] as usize..lists.offsets[error + 1] as usize]
            {
                let (byte, bit) = place(detector);
                left[byte] ^= bit;
            }
            let begin = error.checked_sub(1).map_or(0, |before| lists.flip_ends[before]);
            for &observable in &lists.flips[begin..lists.flip_ends[error]] {
                observables[observable as usize / 8] ^= 1 << (observable % 8);
            }
        }
        let converged = left.iter().all(|byte| *byte == 0);
        Ok(Matched { weight, corrections: errors.len() as u32, converged, late: false, confidence: None })
    }
}

/// Byte and bit of a detector.
fn place(detector: u64) -> (usize, u8) {
    (detector as usize / 8, 0x80 >> (detector % 8))
}
