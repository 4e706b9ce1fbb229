//! Wiring around the network: which bits of a request go to which input, and what the network's decisions do to them.

/// Marks the absence of a bit, in the kernel's tables; `kernels-cu/predecoder/bits.h` has the other side.
const NO_BIT: u32 = u32::MAX;
/// Bit of a decision's first entry: it flips the frame, too.
const FRAME: u32 = 1 << 31;
/// No bit, beside [`FRAME`].
const NONE: u32 = FRAME - 1;
/// Channels in that bits are set in; the others are maps, of fixed values.
const BIT_CHANNELS: usize = 2;

/// Why bits and a network do not go together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WiringError {
    /// Another number of values than the volume has.
    #[error("{found} values of the input, the volume has {expected}")]
    Input {
        /// Given.
        found: usize,
        /// `4 * layers * d * d`.
        expected: usize,
    },
    /// No bits, or more than the tables can number.
    #[error("a request of {0} bits, where 1 to {NONE} are possible")]
    Bits(usize),
    /// A bit that sets what is no element of the first two channels, or the same one as another bit.
    #[error(
        "bit {bit} sets element {element} of the input, which is another bit's or none of the first two channels'"
    )]
    Element {
        /// The bit.
        bit: usize,
        /// Where it was said to go.
        element: u32,
    },
    /// A decision that is no element of the output.
    #[error("element {0} of the output, which has {1}")]
    Decision(u32, usize),
    /// A decision that flips more bits than the tables have room for.
    #[error("element {0} of the output flips more than two bits")]
    Flips(u32),
    /// A threshold that decides nothing.
    #[error("the threshold {0} is not a finite number")]
    Threshold(f32),
}

/// The bits of a request and the network's volume, tied together.
///
/// A request is a string of bits (bit `i` is bit `i % 8` of byte `i / 8`). Each of them is one element of the
/// first two channels of the network's input; the other two are the same for all requests. A logit above the
/// threshold is a decision, and flips up to two bits of the request, and the frame. The answer is the
/// remaining bits, and the frame in its own byte.
///
/// ```
/// use ringcall_gpu_decoders::predecoder::Wiring;
///
/// // One layer of 2 x 2 cells; two bits, in the first cell of both channels. Decision 3 (an error in the last cell) flips
/// // both of them, decision 0 the first one and the frame.
/// let input = [0.0; 16];
/// let flipped_by = |bit: usize| if bit == 0 { vec![3, 0] } else { vec![3] };
/// let wiring = Wiring::new(2, 1, &input, &[0, 4], flipped_by, &[0], 0.5)?;
/// assert_eq!((wiring.request_bytes(), wiring.answer_bytes()), (1, 2));
/// # Ok::<(), ringcall_gpu_decoders::predecoder::WiringError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Wiring {
    pub(crate) d: u32,
    pub(crate) layers: u32,
    /// Two channels.
    pub(crate) maps: Vec<f32>,
    pub(crate) threshold: f32,
    bits: u32,
    cell_bits: Vec<[u32; BIT_CHANNELS]>,
    flips: Vec<[u32; 2]>,
}

impl Wiring {
    /// Ties bits to a volume of `layers` times `d` by `d` cells.
    ///
    /// | | what |
    /// |---|---|
    /// | `input` | `[4][layers][d][d]`: the input where no bit is set; only the last two channels are used, 0, 0.5 or 1: of other values sums need not be exact |
    /// | `elements` | for each bit, the element of the input that it sets |
    /// | `flipped_by` | for each bit, the elements of the output (of `input`'s shape) whose decisions flip it |
    /// | `frame` | the elements of the output whose decisions flip the frame |
    /// | `threshold` | a logit above it is a decision |
    ///
    /// # Errors
    /// Numbers that point nowhere, two bits of one element, a decision that flips more than two bits, or a threshold that
    /// is not finite.
    pub fn new<D: AsRef<[u32]>>(
        d: u32,
        layers: u32,
        input: &[f32],
        elements: &[u32],
        flipped_by: impl Fn(usize) -> D,
        frame: &[u32],
        threshold: f32,
    ) -> Result<Self, WiringError> {
        let cells = layers as usize * d as usize * d as usize;
        let expected = crate::predecoder::INPUTS * cells;
        if input.len() != expected || cells == 0 {
            return Err(WiringError::Input { found: input.len(), expected });
        }
        let bits = u32::try_from(elements.len()).ok().filter(|bits| (1..NONE).contains(bits));
        let bits = bits.ok_or(WiringError::Bits(elements.len()))?;
        if !threshold.is_finite() {
            return Err(WiringError::Threshold(threshold));
        }
        let mut cell_bits = vec![[NO_BIT; BIT_CHANNELS]; cells];
        let mut flips = vec![[NONE; 2]; crate::predecoder::OUTPUTS * cells];
        let outputs = flips.len();
        // The tables have the channels of a cell side by side.
        let turned = |element: u32| {
            let element = element as usize;
            (element < outputs).then_some(element % cells * crate::predecoder::OUTPUTS + element / cells)
        };
        for (bit, (number, &element)) in (0..).zip(elements).enumerate() {
            let at = element as usize;
            let entry = (at < BIT_CHANNELS * cells).then(|| &mut cell_bits[at % cells][at / cells]);
            match entry {
                Some(entry) if *entry == NO_BIT => *entry = number,
                _ => return Err(WiringError::Element { bit, element }),
            }
            for &decision in flipped_by(bit).as_ref() {
                let at = turned(decision).ok_or(WiringError::Decision(decision, outputs))?;
                let free = flips[at].iter_mut().find(|entry| **entry == NONE);
                *free.ok_or(WiringError::Flips(decision))? = number;
            }
        }
        for &decision in frame {
            let at = turned(decision).ok_or(WiringError::Decision(decision, outputs))?;
            // Named twice it flips twice: nothing.
            flips[at][0] ^= FRAME;
        }
        let maps = input[BIT_CHANNELS * cells..].to_vec();
        Ok(Self { d, layers, maps, threshold, bits, cell_bits, flips })
    }

    /// Bits of a request.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Bytes of a request.
    #[must_use]
    pub fn request_bytes(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// Bytes of an answer: the request's, and one for the frame.
    #[must_use]
    pub fn answer_bytes(&self) -> usize {
        self.request_bytes() + 1
    }

    /// For each cell the bits in its two channels, as the kernel reads them.
    #[must_use]
    pub fn cell_bits(&self) -> &[[u32; 2]] {
        &self.cell_bits
    }

    /// For each channel of each cell, channels side by side, what its decision flips, as the kernel reads it.
    #[must_use]
    pub fn flips(&self) -> &[[u32; 2]] {
        &self.flips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wired(elements: &[u32], flipped_by: &[&[u32]], frame: &[u32]) -> Result<Wiring, WiringError> {
        Wiring::new(2, 2, &[0.25; 32], elements, |bit| flipped_by[bit], frame, 0.0)
    }

    #[test]
    fn tables_say_what_was_wired() {
        // Bit 0 in cell 5 of the first channel, bit 1 in cell 0 of the second.
        let wiring = wired(&[5, 8], &[&[0, 31], &[31]], &[31, 7]).expect("fits");
        assert_eq!(wiring.cell_bits()[5], [0, NO_BIT]);
        assert_eq!(wiring.cell_bits()[0], [NO_BIT, 1]);
        assert_eq!(wiring.flips()[0], [0, NONE]);
        assert_eq!(wiring.flips()[7 * 4 + 3], [FRAME, 1]);
        assert_eq!(wiring.flips()[7 * 4], [NONE | FRAME, NONE]);
        assert_eq!(wiring.flips().iter().filter(|flips| **flips == [NONE; 2]).count(), 29);
        assert_eq!(wiring.maps.len(), 16);
    }

    #[test]
    fn what_points_nowhere_is_refused() {
        assert_eq!(wired(&[16], &[&[]], &[]), Err(WiringError::Element { bit: 0, element: 16 }));
        assert_eq!(wired(&[3, 3], &[&[], &[]], &[]), Err(WiringError::Element { bit: 1, element: 3 }));
        assert_eq!(wired(&[0], &[&[32]], &[]), Err(WiringError::Decision(32, 32)));
        assert_eq!(wired(&[0], &[&[]], &[40]), Err(WiringError::Decision(40, 32)));
        assert_eq!(wired(&[0, 1, 2], &[&[9][..]; 3], &[]), Err(WiringError::Flips(9)));
        assert_eq!(wired(&[], &[], &[]), Err(WiringError::Bits(0)));
        let short = Wiring::new(2, 2, &[0.0; 31], &[0], |_| [0; 0], &[], 0.0);
        assert_eq!(short, Err(WiringError::Input { found: 31, expected: 32 }));
        let nan = Wiring::new(2, 2, &[0.0; 32], &[0], |_| [0; 0], &[], f32::NAN);
        assert!(matches!(nan, Err(WiringError::Threshold(_))));
    }
}
