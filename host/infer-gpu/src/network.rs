//! The network's numbers.

use crate::onnx;

/// Channels between the layers.
pub const WIDTH: usize = 128;
/// Channels in: two kinds of detectors, and two maps of where they are.
pub const INPUTS: usize = 4;
/// Channels out: two kinds of data errors, two kinds of flips.
pub const OUTPUTS: usize = 4;
/// Taps of a 3x3x3 convolution.
pub(crate) const TAPS: usize = 27;

/// Inputs and outputs of each layer.
const LAYERS: [(usize, usize); 4] = [(INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, OUTPUTS)];

/// Why a network cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// The file is not ONNX, or not a plain chain of convolutions.
    #[error("the network cannot be read: {0}")]
    Unreadable(String),
    /// Another network than the kernels are made for.
    #[error(
        "layer {layer}: {found}; the kernels are made for 3x3x3 convolutions of 4, 128, 128, 128 and 4 channels"
    )]
    OtherShape {
        /// From 0.
        layer: usize,
        /// What it is.
        found: String,
    },
    /// A weight that is no finite number in 16 bits.
    #[error("layer {layer}: weight {index} is {value}, which is no finite number in 16 bits")]
    NotFinite {
        /// From 0.
        layer: usize,
        /// Its place.
        index: usize,
        /// Its value, in words.
        value: String,
    },
}

/// One layer: weights `[out][in][3][3][3]`, layers of time outermost, and biases.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// `out * in * 27` weights.
    pub weights: Vec<f32>,
    /// One for each output.
    pub biases: Vec<f32>,
}

/// Four convolutions of 3x3x3 with ReLU between: 4, 128, 128, 128, 4 channels.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    layers: [Layer; 4],
    metadata: Vec<(String, String)>,
}

impl Network {
    /// From layers, checked.
    ///
    /// # Errors
    /// Sizes that are not the network's, or a weight beyond what 16 bits hold.
    ///
    /// ```
    /// use ringcall_infer_gpu::{Layer, Network};
    /// let layer = |i: usize, o: usize| Layer { weights: vec![0.01; i * o * 27], biases: vec![0.0; o] };
    /// assert!(Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)]).is_ok());
    /// assert!(Network::new([layer(4, 64), layer(64, 64), layer(64, 64), layer(64, 4)]).is_err());
    /// ```
    pub fn new(layers: [Layer; 4]) -> Result<Self, NetworkError> {
        for (place, (layer, (inputs, outputs))) in layers.iter().zip(LAYERS).enumerate() {
            if layer.weights.len() != inputs * outputs * TAPS || layer.biases.len() != outputs {
                let found = format!("{} weights and {} biases", layer.weights.len(), layer.biases.len());
                return Err(NetworkError::OtherShape { layer: place, found });
            }
            let bad = |v: &f32| !half::f16::from_f32(*v).is_finite();
            if let Some(index) = layer.weights.iter().chain(&layer.biases).position(bad) {
                let value = layer.weights.iter().chain(&layer.biases).nth(index).map(f32::to_string);
                let value = value.unwrap_or_default();
                return Err(NetworkError::NotFinite { layer: place, index, value });
            }
        }
        Ok(Self { layers, metadata: Vec::new() })
    }

    /// From the bytes of an ONNX file: a chain of four `Conv` with `Relu` between, weights in f32 or f16.
    ///
    /// # Errors
    /// Anything else.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, NetworkError> {
        let (chain, metadata) = onnx::convolutions(bytes)?;
        let other = |layer, found| NetworkError::OtherShape { layer, found };
        if chain.len() != LAYERS.len() {
            return Err(other(chain.len(), format!("{} layers", chain.len())));
        }
        for (place, (layer, (inputs, outputs))) in chain.iter().zip(LAYERS).enumerate() {
            if layer.dims != [outputs, inputs, 3, 3, 3] {
                return Err(other(place, format!("weights of {:?}", layer.dims)));
            }
        }
        let mut layers = chain.into_iter().map(|c| Layer { weights: c.weights, biases: c.biases });
        let mut next = || layers.next().unwrap_or(Layer { weights: Vec::new(), biases: Vec::new() });
        let network = Self::new([next(), next(), next(), next()])?;
        Ok(Self { metadata, ..network })
    }

    /// The layers, first to last.
    #[must_use]
    pub fn layers(&self) -> &[Layer; 4] {
        &self.layers
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }
}
