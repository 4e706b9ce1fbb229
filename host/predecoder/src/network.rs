//! The network's numbers.

use crate::layer::{DOUBLED, EXACT, Layer, NetworkError, TOP};
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
/// Largest magnitude of each layer's weights: 10 bits with the sign, and 8.
const LARGEST_WEIGHT: [i16; 4] = [511, 127, 127, 511];
/// Largest value that each layer takes.
const LARGEST_INPUT: [i16; 4] = [DOUBLED, TOP, TOP, TOP];

/// Four convolutions of 3x3x3 in integers, bytes between them: 4, 128, 128, 128, 4 channels.
///
/// The volume's values are 0, 0.5 and 1, and come in doubled. Every engine computes the same bits of such a
/// network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    layers: [Layer; 4],
    metadata: Vec<(String, String)>,
}

impl Network {
    /// From layers, checked.
    ///
    /// # Errors
    /// Sizes that are not the network's, a weight of more bits than the kernels take, a factor or an offset that is not finite,
    /// or weights whose sums single precision may not hold exactly.
    ///
    /// ```
    /// use ringcall_predecoder::{Layer, Network};
    /// let layer = |i: usize, o: usize| Layer {
    ///     weights: vec![3; i * o * 27],
    ///     factors: vec![0.01; o],
    ///     offsets: vec![0.5; o],
    /// };
    /// assert!(Network::new([layer(4, 128), layer(128, 128), layer(128, 128), layer(128, 4)]).is_ok());
    /// assert!(Network::new([layer(4, 64), layer(64, 64), layer(64, 64), layer(64, 4)]).is_err());
    /// ```
    pub fn new(layers: [Layer; 4]) -> Result<Self, NetworkError> {
        for (index, (layer, (inputs, outputs))) in layers.iter().zip(LAYERS).enumerate() {
            let Layer { weights, factors, offsets } = layer;
            if weights.len() != inputs * outputs * TAPS || [factors.len(), offsets.len()] != [outputs; 2] {
                let found = format!(
                    "{} weights, {} factors and {} offsets",
                    weights.len(),
                    factors.len(),
                    offsets.len()
                );
                return Err(NetworkError::OtherShape { layer: index, found });
            }
            let largest = LARGEST_WEIGHT[index];
            let wide = |&(_, &value): &(usize, &i16)| !(-largest..=largest).contains(&value);
            if let Some((weight, &value)) = weights.iter().enumerate().find(wide) {
                return Err(NetworkError::Weight { layer: index, index: weight, value, largest });
            }
            for (what, values) in [("factor", factors), ("offset", offsets)] {
                if let Some(channel) = values.iter().position(|value| !value.is_finite()) {
                    let value = values[channel].to_string();
                    return Err(NetworkError::NotFinite { layer: index, what, channel, value });
                }
            }
            for (channel, weights) in weights.chunks(inputs * TAPS).enumerate() {
                let reached = farthest(weights) * i64::from(LARGEST_INPUT[index]);
                if reached >= EXACT {
                    return Err(NetworkError::Sum { layer: index, channel, reached });
                }
            }
        }
        Ok(Self { layers, metadata: Vec::new() })
    }

    /// From the bytes of an ONNX file, as the training's exporter writes networks in integers: the volume doubled, then four
    /// times `Conv`, `Round`, `Mul`, `Add` with `Round` and `Clip` to 0..255 between; constants in f32 or f16, perhaps after a
    /// `Cast`.
    ///
    /// # Errors
    /// Anything else; [`NetworkError::InFloatingPoint`] for a network with ReLU. What [`new`](Self::new) refuses.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, NetworkError> {
        let (chain, metadata) = onnx::convolutions(bytes)?;
        let other = |layer, found| NetworkError::OtherShape { layer, found };
        for (index, (found, (inputs, outputs))) in chain.iter().zip(LAYERS).enumerate() {
            if found.dims != [outputs, inputs, 3, 3, 3] {
                return Err(other(index, format!("weights of {:?}", found.dims)));
            }
        }
        let layers: Vec<Layer> = chain.into_iter().map(|found| found.layer).collect();
        let layers = layers.try_into().map_err(|layers: Vec<_>| {
            other(layers.len().min(LAYERS.len()), format!("{} layers", layers.len()))
        })?;
        Ok(Self { metadata, ..Self::new(layers)? })
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
