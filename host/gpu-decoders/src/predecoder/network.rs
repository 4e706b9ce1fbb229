//! The network's numbers.

use crate::predecoder::layer::{DOUBLED, EXACT, HalfLayer, Layer, MAX_LAYERS, MAX_WIDTH, NetworkError, TOP};
use crate::predecoder::onnx;
use half::f16;

pub use crate::predecoder::layer::WIDTH;
/// Channels in: two kinds of detectors, and two maps of where they are.
pub const INPUTS: usize = 4;
/// Channels out: two kinds of data errors, two kinds of flips.
pub const OUTPUTS: usize = 4;
/// Taps of a 3x3x3 convolution.
pub(crate) const TAPS: usize = 27;

/// Inputs and outputs of each layer that the one kernel has.
const LAYERS: [(usize, usize); 4] = [(INPUTS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, OUTPUTS)];

/// The largest magnitude of a layer's weights: 10 bits with the sign in the first layer and in the last, 8 between.
const fn largest_weight(layer: usize, layers: usize) -> i16 {
    if layer == 0 || layer + 1 == layers { 511 } else { 127 }
}

/// Convolutions of 3x3x3 from 4 channels to 4: in integers with bytes between, or in floating point with ReLU between.
///
/// In integers the volume's values are 0, 0.5 and 1, and come in doubled; every engine computes the same bits of such a network. In
/// floating point a GPU multiplies halves and adds in single precision, and hidden values are rounded to halves.
///
/// Of 4 convolutions in integers with at most 128 channels between, one kernel computes all: the fastest, and the one that the device's
/// dispatcher has. Every other network of 2 to 16 convolutions, of at most 512 channels between, takes a launch for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub(crate) layers: Layers,
    metadata: Vec<(String, String)>,
}

/// In which arithmetic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Layers {
    Integers(Vec<Layer>),
    Halves(Vec<HalfLayer>),
}

impl Network {
    /// From layers in integers, checked.
    ///
    /// # Errors
    /// Sizes that no kernel is made for, a weight of more bits than the kernels take, a factor or an offset that is not finite,
    /// or weights whose sums single precision may not hold exactly.
    ///
    /// ```
    /// use ringcall_gpu_decoders::predecoder::{Layer, Network};
    /// let layer = |i: usize, o: usize| Layer {
    ///     weights: vec![3; i * o * 27],
    ///     factors: vec![0.01; o],
    ///     offsets: vec![0.5; o],
    /// };
    /// assert!(Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)]).is_ok());
    /// assert!(Network::new([layer(4, 64), layer(64, 4)]).is_ok());
    /// assert!(Network::new([layer(4, 64), layer(128, 4)]).is_err());
    /// ```
    pub fn new(layers: impl Into<Vec<Layer>>) -> Result<Self, NetworkError> {
        let layers = layers.into();
        let sizes = layers.iter().map(|Layer { weights, factors, offsets }| {
            let (weights, factors, offsets) = (weights.len(), factors.len(), offsets.len());
            let found = format!("{weights} weights, {factors} factors and {offsets} offsets");
            (weights, [factors, offsets], found)
        });
        check_sizes(sizes)?;
        let mut inputs = INPUTS;
        for (index, Layer { weights, factors, offsets }) in layers.iter().enumerate() {
            let largest = largest_weight(index, layers.len());
            let wide = |&(_, &value): &(usize, &i16)| !(-largest..=largest).contains(&value);
            if let Some((weight, &value)) = weights.iter().enumerate().find(wide) {
                return Err(NetworkError::Weight { layer: index, index: weight, value, largest });
            }
            check_finite(index, "factor", factors)?;
            check_finite(index, "offset", offsets)?;
            let largest_input = if index == 0 { DOUBLED } else { TOP };
            for (channel, weights) in weights.chunks(inputs * TAPS).enumerate() {
                let reached = farthest(weights) * i64::from(largest_input);
                if reached >= EXACT {
                    return Err(NetworkError::Sum { layer: index, channel, reached });
                }
            }
            inputs = factors.len();
        }
        Ok(Self { layers: Layers::Integers(layers), metadata: Vec::new() })
    }

    /// From layers in floating point, checked.
    ///
    /// # Errors
    /// Sizes that no kernel is made for, or a weight or a bias that is not finite.
    pub fn in_halves(layers: impl Into<Vec<HalfLayer>>) -> Result<Self, NetworkError> {
        let layers = layers.into();
        let sizes = layers.iter().map(|HalfLayer { weights, biases }| {
            let (weights, biases) = (weights.len(), biases.len());
            (weights, [biases; 2], format!("{weights} weights and {biases} biases"))
        });
        check_sizes(sizes)?;
        for (index, HalfLayer { weights, biases }) in layers.iter().enumerate() {
            let weights: Vec<f32> = weights.iter().copied().map(f16::to_f32).collect();
            check_finite(index, "weight", &weights)?;
            check_finite(index, "bias", biases)?;
        }
        Ok(Self { layers: Layers::Halves(layers), metadata: Vec::new() })
    }

    /// From the bytes of an ONNX file, as the training's exporter writes them. In integers: the volume doubled, then for each layer
    /// `Conv`, `Round`, `Mul`, `Add` with `Round` and `Clip` to 0..255 between. In floating point: `Conv` with `Relu` between; weights
    /// that are no halves are rounded. Constants in f32 or f16, perhaps after a `Cast`.
    ///
    /// # Errors
    /// Anything else; what [`new`](Self::new) and [`in_halves`](Self::in_halves) refuse.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, NetworkError> {
        match onnx::convolutions(bytes) {
            Ok((chain, metadata)) => {
                check_dims(chain.iter().map(|found| &*found.dims))?;
                let layers: Vec<Layer> = chain.into_iter().map(|found| found.layer).collect();
                Ok(Self { metadata, ..Self::new(layers)? })
            }
            Err(NetworkError::InFloatingPoint) => {
                let (chain, metadata) = onnx::plain_convolutions(bytes)?;
                check_dims(chain.iter().map(|(dims, _)| &**dims))?;
                let layers: Vec<HalfLayer> = chain.into_iter().map(|(_, layer)| layer).collect();
                Ok(Self { metadata, ..Self::in_halves(layers)? })
            }
            Err(why) => Err(why),
        }
    }

    /// The layers of a network in integers, first to last; none of one in floating point.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        match &self.layers {
            Layers::Integers(layers) => layers,
            Layers::Halves(_) => &[],
        }
    }

    /// The layers of a network in floating point, first to last; none of one in integers.
    #[must_use]
    pub fn half_layers(&self) -> &[HalfLayer] {
        match &self.layers {
            Layers::Integers(_) => &[],
            Layers::Halves(layers) => layers,
        }
    }

    /// What the file says about itself.
    #[must_use]
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// Channels out of each layer.
    #[must_use]
    pub fn widths(&self) -> Vec<usize> {
        match &self.layers {
            Layers::Integers(layers) => layers.iter().map(|layer| layer.factors.len()).collect(),
            Layers::Halves(layers) => layers.iter().map(|layer| layer.biases.len()).collect(),
        }
    }

    /// Whether one kernel has all layers: what the device's dispatcher needs.
    ///
    /// # Errors
    /// [`NetworkError::InFloatingPoint`], or [`NetworkError::NotFused`] of more or fewer layers, or wider ones.
    pub fn check_one_kernel(&self) -> Result<(), NetworkError> {
        self.fused().map(|_| ())
    }

    /// As the one kernel takes it: with channels that stay 0 where there are fewer than it has.
    ///
    /// # Errors
    /// [`NetworkError::InFloatingPoint`], or [`NetworkError::NotFused`] of more or fewer layers, or wider ones.
    pub(crate) fn fused(&self) -> Result<[Layer; 4], NetworkError> {
        let Layers::Integers(layers) = &self.layers else { return Err(NetworkError::InFloatingPoint) };
        let widths = self.widths();
        let not_fused = || NetworkError::NotFused {
            found: format!("{} convolutions, whose outputs are {widths:?} channels", layers.len()),
        };
        let layers: &[Layer; 4] = layers.as_slice().try_into().map_err(|_| not_fused())?;
        if widths.iter().any(|&width| width > WIDTH) {
            return Err(not_fused());
        }
        let mut from = INPUTS;
        let mut sizes = LAYERS.into_iter();
        Ok(layers.each_ref().map(|layer| {
            let (inputs, outputs) = sizes.next().unwrap_or_default();
            let wide = widened(layer, from, [inputs, outputs]);
            from = layer.factors.len();
            wide
        }))
    }
}

/// A layer with more channels in and out, whose weights, factors and offsets are 0.
fn widened(layer: &Layer, from: usize, [inputs, outputs]: [usize; 2]) -> Layer {
    let mut weights = vec![0; inputs * outputs * TAPS];
    for (to, row) in weights.chunks_mut(inputs * TAPS).zip(layer.weights.chunks(from * TAPS)) {
        to[..row.len()].copy_from_slice(row);
    }
    let padded = |values: &[f32]| {
        let mut values = values.to_vec();
        values.resize(outputs, 0.0);
        values
    };
    Layer { weights, factors: padded(&layer.factors), offsets: padded(&layer.offsets) }
}

/// Whether layers follow one another: of each the number of weights, the numbers of what there is for each output, and both in words.
fn check_sizes(
    layers: impl ExactSizeIterator<Item = (usize, [usize; 2], String)>,
) -> Result<(), NetworkError> {
    let count = layers.len();
    check_count(count)?;
    let mut inputs = INPUTS;
    for (layer, (weights, each, found)) in layers.enumerate() {
        let outputs = each[0];
        let fits = if layer + 1 == count { outputs == OUTPUTS } else { (1..=MAX_WIDTH).contains(&outputs) };
        if !fits || each != [outputs; 2] || weights != inputs * outputs * TAPS {
            return Err(NetworkError::OtherShape { layer, found });
        }
        inputs = outputs;
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), NetworkError> {
    if (2..=MAX_LAYERS).contains(&count) {
        return Ok(());
    }
    Err(NetworkError::OtherShape { layer: count.min(MAX_LAYERS), found: format!("{count} layers") })
}

/// Whether a file's weights are convolutions of 3x3x3 that follow one another.
fn check_dims<'a>(layers: impl ExactSizeIterator<Item = &'a [usize]>) -> Result<(), NetworkError> {
    let count = layers.len();
    check_count(count)?;
    let mut inputs = INPUTS;
    for (layer, dims) in layers.enumerate() {
        let outputs = dims.first().copied().unwrap_or(0);
        let fits = if layer + 1 == count { outputs == OUTPUTS } else { (1..=MAX_WIDTH).contains(&outputs) };
        if !fits || *dims != [outputs, inputs, 3, 3, 3] {
            return Err(NetworkError::OtherShape { layer, found: format!("weights of {dims:?}") });
        }
        inputs = outputs;
    }
    Ok(())
}

fn check_finite(layer: usize, what: &'static str, values: &[f32]) -> Result<(), NetworkError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(channel) => {
            Err(NetworkError::NotFinite { layer, what, channel, value: values[channel].to_string() })
        }
    }
}

/// How far from 0 a part of the weights' sum can be, all of one sign.
fn farthest(weights: &[i16]) -> i64 {
    let sum = |sign: i64| weights.iter().map(|&weight| (sign * i64::from(weight)).max(0)).sum::<i64>();
    sum(1).max(sum(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> [Layer; 4] {
        LAYERS.map(|(inputs, outputs)| Layer {
            weights: vec![-2; inputs * outputs * TAPS],
            factors: vec![0.01; outputs],
            offsets: vec![-0.5; outputs],
        })
    }

    fn refused(change: impl FnOnce(&mut [Layer; 4])) -> NetworkError {
        let mut layers = layers();
        change(&mut layers);
        Network::new(layers).expect_err("refused")
    }

    #[test]
    fn sizes_are_the_kernels() {
        assert!(Network::new(layers()).is_ok());
        let why = refused(|layers| layers[1].weights.truncate(9));
        assert!(matches!(&why, NetworkError::OtherShape { layer: 1, .. }), "{why}");
        assert!(why.to_string().contains("9 weights, 128 factors and 128 offsets"), "{why}");
        for change in
            [|layer: &mut Layer| layer.factors.push(1.0), |layer: &mut Layer| layer.offsets.push(1.0)]
        {
            let why = refused(|layers| change(&mut layers[3]));
            assert!(matches!(why, NetworkError::OtherShape { layer: 3, .. }), "{why}");
        }
    }

    #[test]
    fn weights_have_as_many_bits_as_the_kernel_takes() {
        for (layer, largest) in [511, 127, 127, 511].into_iter().enumerate() {
            for value in [largest, -largest] {
                let mut good = layers();
                good[layer].weights[5] = value;
                assert!(Network::new(good).is_ok(), "layer {layer}: {value}");
            }
            for value in [largest + 1, -largest - 1, i16::MIN] {
                let why = refused(|layers| layers[layer].weights[5] = value);
                assert_eq!(why, NetworkError::Weight { layer, index: 5, value, largest });
            }
        }
    }

    #[test]
    fn factors_and_offsets_are_finite() {
        let why = refused(|layers| layers[2].factors[7] = f32::NAN);
        let value = "NaN".to_owned();
        assert_eq!(why, NetworkError::NotFinite { layer: 2, what: "factor", channel: 7, value });
        let why = refused(|layers| layers[3].offsets[1] = f32::NEG_INFINITY);
        let value = "-inf".to_owned();
        assert_eq!(why, NetworkError::NotFinite { layer: 3, what: "offset", channel: 1, value });
    }

    /// 65,793 times 255 is below 2^24 by one, of either sign; the two do not count together.
    #[test]
    fn sums_are_exact_in_single_precision() {
        let of = |sign: i16, more: i16| {
            let mut layers = layers();
            let one = &mut layers[1].weights[3 * WIDTH * TAPS..][..WIDTH * TAPS];
            one.fill(0);
            one[..518].fill(127 * sign);
            one[518] = 7 * sign;
            one[519] = more * sign;
            Network::new(layers).map(|_| ())
        };
        for sign in [1, -1] {
            assert_eq!(of(sign, -100), Ok(()));
            assert_eq!(of(sign, 0), Ok(()));
            assert_eq!(of(sign, 1), Err(NetworkError::Sum { layer: 1, channel: 3, reached: 65_794 * 255 }));
        }
        // The first layer's inputs are 0..2: no weights of 10 bits are too many there.
        let mut wide = layers();
        wide[0].weights.fill(511);
        assert!(Network::new(wide).is_ok());
    }
}
