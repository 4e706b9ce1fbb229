//! One layer of the network, and why a network is refused.

use half::f16;

/// What the volume's values are multiplied by, so that halves become integers.
pub(crate) const DOUBLED: i16 = 2;

/// The largest value of a hidden layer; the smallest is 0.
pub(crate) const TOP: i16 = 255;

/// Integers below are exact in single precision, in every order of addition.
pub(crate) const EXACT: i64 = 1 << 24;

/// The most channels between the layers of a network that one kernel has all of.
pub const WIDTH: usize = 128;
/// The most convolutions of a network.
pub(crate) const MAX_LAYERS: usize = 16;
/// The most channels between two of them.
pub(crate) const MAX_WIDTH: usize = 512;

/// Why a network cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// The file is not ONNX, or not a network in integers as its exporter writes it.
    #[error("the network cannot be read: {0}")]
    Unreadable(String),
    /// A network of plain convolutions with ReLU between, where one in integers is needed.
    #[error(
        "the network is in floating point, and this runs networks in integers: `train.py --integers` makes one of it; the host's \
         dispatcher and the CPU's engine run it as it is"
    )]
    InFloatingPoint,
    /// Another network than the one kernel that has all layers is made for.
    #[error(
        "the network has {found}, and this runs networks of 4 convolutions with at most {} channels between, in integers; the host's \
         dispatcher runs 2 to {MAX_LAYERS} of at most {MAX_WIDTH}",
        WIDTH
    )]
    NotFused {
        /// What it is.
        found: String,
    },
    /// Another network than the kernels are made for.
    #[error(
        "layer {layer}: {found}; the kernels are made for 2 to {MAX_LAYERS} 3x3x3 convolutions from 4 channels to 4, with at most \
         {MAX_WIDTH} channels between"
    )]
    OtherShape {
        /// From 0.
        layer: usize,
        /// What it is.
        found: String,
    },
    /// A weight of more bits than its layer has.
    #[error("layer {layer}: weight {index} is {value}, where -{largest} to {largest} are possible")]
    Weight {
        /// From 0.
        layer: usize,
        /// Its index.
        index: usize,
        /// Its value.
        value: i16,
        /// The largest that it may be.
        largest: i16,
    },
    /// A factor or an offset that is no finite number.
    #[error("layer {layer}: the {what} of channel {channel} is {value}, which is no finite number")]
    NotFinite {
        /// From 0.
        layer: usize,
        /// `factor` or `offset`.
        what: &'static str,
        /// Which output.
        channel: usize,
        /// Its value, in words.
        value: String,
    },
    /// Weights whose sum of products may not be exact in single precision.
    #[error(
        "layer {layer}: sums of channel {channel} reach {reached}, and single precision is exact below {EXACT}"
    )]
    Sum {
        /// From 0.
        layer: usize,
        /// Which output.
        channel: usize,
        /// The largest magnitude that a part of the sum may have.
        reached: i64,
    },
}

/// One layer of a network in floating point: each output's sum of products and its bias; between layers values below 0 become 0.
#[derive(Debug, Clone, PartialEq)]
pub struct HalfLayer {
    /// `[out][in][3][3][3]`, layers of time outermost; finite.
    pub weights: Vec<f16>,
    /// One for each output.
    pub biases: Vec<f32>,
}

/// One layer: weights, and the function of each output's sum of products: `sum * factor + offset`, each rounded to
/// single precision, and between layers rounded to an integer, ties to even, and held to 0..255.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// `[out][in][3][3][3]`, layers of time outermost: from -511 to 511 in the first layer and the last, from -127 to 127
    /// in the others.
    pub weights: Vec<i16>,
    /// One for each output.
    pub factors: Vec<f32>,
    /// One for each output.
    pub offsets: Vec<f32>,
}
