//! Payloads of `decode_weighted` and `decode_readout`: detectors, and what else is known of a shot.
//!
//! Both answer as `decode_syndrome` ([`qec`](crate::qec)). `decode_weighted` has a list of other weights of edges:
//!
//! | argument | offset | value |
//! |---|---|---|
//! | 0 | 0 | `BIT_PACKED`, one bit per detector |
//! | 1 | ceil(detectors / 8) | `INT32` weights given, from 0 to the most that the schema has room for |
//! | 2 | + 4 | `ARRAY_INT32` edges, by their index in the matching graph; after those given, 0 |
//! | 3 | + 4 most | `ARRAY_FLOAT32` their weights, log-likelihood ratios `ln((1 - p) / p)` of at least 0; after those given, 0 |
//!
//! Elements after those given are not read. `decode_readout` has what the read-out says of each measurement:
//!
//! | argument | offset | value |
//! |---|---|---|
//! | 0 | 0 | `BIT_PACKED`, one bit per detector |
//! | 1 | ceil(detectors / 8) | a value per measurement, encoded as one of [`Readout`] |
//!
//! A confidence is how sure the read-out is of its outcome. It stands for the log-likelihood ratio `ln((1 - e) / e)`, where `e` is the
//! probability that one outcome was taken for the other: [`log_likelihood_of_4_bits`], [`log_likelihood_of_8_bits`], or as it is where it
//! is a floating-point number. Of levels [`Level::Leaked`] says that the outcome means nothing, and the others say nothing.

use zerocopy::little_endian::{F32, I32};

use crate::bits::BitView;
use crate::codec::{PayloadDecoder, PayloadEncoder};
use crate::error::WireError;
use crate::payload::TypeDesc;
use crate::readout::{Level, NibbleView, Readout, check_codes_i32, check_codes_u8};
use crate::schema::HandlerSchema;

/// Adds the results of `decode_syndrome`.
const fn answered(schema: HandlerSchema, observables: u32) -> HandlerSchema {
    schema.result(TypeDesc::bit_packed(observables)).result(TypeDesc::int32()).result(TypeDesc::int32())
}

/// Schema of `decode_weighted` for a number of detectors and observables, and at most so many weights a request.
#[must_use]
pub const fn decode_weighted_schema(detectors: u32, observables: u32, most_weights: u32) -> HandlerSchema {
    let arguments = HandlerSchema::new()
        .arg(TypeDesc::bit_packed(detectors))
        .arg(TypeDesc::int32())
        .arg(TypeDesc::array_int32(most_weights))
        .arg(TypeDesc::array_float32(most_weights));
    answered(arguments, observables)
}

/// Schema of `decode_readout` for a number of detectors, observables and measurements.
#[must_use]
pub const fn decode_readout_schema(
    detectors: u32,
    observables: u32,
    readout: Readout,
    measurements: u32,
) -> HandlerSchema {
    let arguments = HandlerSchema::new().arg(TypeDesc::bit_packed(detectors)).arg(readout.desc(measurements));
    answered(arguments, observables)
}

/// Edges with their weights in one shot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeWeights<'a> {
    edges: &'a [I32],
    weights: &'a [F32],
}

impl EdgeWeights<'_> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The edges with their weights, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f32)> {
        self.edges.iter().zip(self.weights).map(|(edge, weight)| (edge.get().cast_unsigned(), weight.get()))
    }
}

/// Writes the arguments of a `decode_weighted`: `detectors` packed already, unused bits zero. Returns `arg_len`.
///
/// ```
/// use ringcall_wire::weighted::{decode_weighted_schema, read_weighted_request, write_weighted_request};
///
/// const SCHEMA: ringcall_wire::HandlerSchema = decode_weighted_schema(10, 1, 4);
/// let mut payload = [0; 38];
/// let len = write_weighted_request(&SCHEMA, &mut payload, &[0b101, 0], &[(7, 0.5), (3, 0.0)])?;
/// assert_eq!(len, 38);
/// let (detectors, weights) = read_weighted_request(&SCHEMA, &payload)?;
/// assert!(detectors.ones().eq([0, 2]));
/// assert!(weights.iter().eq([(7, 0.5), (3, 0.0)]));
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
///
/// # Errors
/// As the pushes of [`PayloadEncoder`]; [`WireError::CountMismatch`] for more weights than the schema has room for.
pub fn write_weighted_request(
    schema: &HandlerSchema,
    out: &mut [u8],
    detectors: &[u8],
    weights: &[(u32, f32)],
) -> Result<usize, WireError> {
    let count = i32::try_from(weights.len()).map_err(|_| WireError::SizeOverflow)?;
    let mut encoder = PayloadEncoder::args(schema, out)?;
    encoder.packed_bits(detectors)?.i32(count)?;
    encoder.first_i32(weights.iter().map(|&(edge, _)| edge.cast_signed()))?;
    encoder.first_f32(weights.iter().map(|&(_, weight)| weight))?.finish()
}

/// Reads the arguments of a `decode_weighted`.
///
/// Whether an edge is there, is given twice, or may have its weight is for the decoder to say.
///
/// # Errors
/// As the reads of [`PayloadDecoder`]; [`WireError::ValueOutOfRange`] for a number of weights that is negative or that the schema has no room
/// for, [`WireError::NotFinite`] for a weight that is no number.
pub fn read_weighted_request<'a>(
    schema: &'a HandlerSchema,
    payload: &'a [u8],
) -> Result<(BitView<'a>, EdgeWeights<'a>), WireError> {
    let mut decoder = PayloadDecoder::args(schema, payload)?;
    let detectors = decoder.bits()?;
    let count = decoder.i32()?;
    let (edges, weights) = (decoder.array_i32()?, decoder.array_f32()?);
    decoder.finish()?;
    let (value, max) = (count.cast_unsigned(), u32::try_from(edges.len()).unwrap_or(u32::MAX));
    let too_many = WireError::ValueOutOfRange { index: 1, value, max };
    let given = usize::try_from(count).map_err(|_| too_many)?;
    let (edges, weights) = (edges.get(..given).ok_or(too_many)?, weights.get(..given).ok_or(too_many)?);
    crate::readout::check_finite(weights.iter().map(|weight| weight.get()))?;
    Ok((detectors, EdgeWeights { edges, weights }))
}

/// What the read-out says of each measurement of a shot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReadoutView<'a> {
    /// [`Readout::Soft4`].
    Soft4(NibbleView<'a>),
    /// [`Readout::Soft8`].
    Soft8(&'a [u8]),
    /// [`Readout::SoftF32`]: none is negative or no number.
    SoftF32(&'a [F32]),
    /// [`Readout::Leakage8`]: each is the code of a [`Level`].
    Leakage8(&'a [u8]),
    /// [`Readout::Leakage32`]: each is the code of a [`Level`].
    Leakage32(&'a [I32]),
}

/// Reads the arguments of a `decode_readout`, whose schema was made for this encoding.
///
/// ```
/// use ringcall_wire::readout::Readout;
/// use ringcall_wire::weighted::{ReadoutView, decode_readout_schema, read_readout_request};
///
/// let schema = decode_readout_schema(10, 1, Readout::Leakage8, 3);
/// let (_, readout) = read_readout_request(&schema, Readout::Leakage8, &[0b101, 0, 0, 2, 1])?;
/// assert_eq!(readout, ReadoutView::Leakage8(&[0, 2, 1]));
/// assert!(read_readout_request(&schema, Readout::Leakage8, &[0, 0, 0, 3, 1]).is_err());
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
///
/// # Errors
/// As the reads of [`PayloadDecoder`]; [`WireError::ValueOutOfRange`] for a code that is no [`Level`] and for a negative confidence, whose bits
/// it carries; [`WireError::NotFinite`] for a confidence that is no number.
pub fn read_readout_request<'a>(
    schema: &'a HandlerSchema,
    readout: Readout,
    payload: &'a [u8],
) -> Result<(BitView<'a>, ReadoutView<'a>), WireError> {
    let mut decoder = PayloadDecoder::args(schema, payload)?;
    let detectors = decoder.bits()?;
    let view = match readout {
        Readout::Soft4 => ReadoutView::Soft4(decoder.readout4()?),
        Readout::Soft8 => ReadoutView::Soft8(decoder.bytes()?),
        Readout::SoftF32 => {
            let values = decoder.array_f32()?;
            crate::readout::check_finite(values.iter().map(|value| value.get()))?;
            if let Some(index) = values.iter().position(|value| value.get() < 0.0) {
                let value = values.get(index).map_or(0, |value| value.get().to_bits());
                return Err(WireError::ValueOutOfRange { index, value, max: f32::MAX.to_bits() });
            }
            ReadoutView::SoftF32(values)
        }
        Readout::Leakage8 => {
            let codes = decoder.bytes()?;
            check_codes_u8(codes, Level::MAX)?;
            ReadoutView::Leakage8(codes)
        }
        Readout::Leakage32 => {
            let codes = decoder.array_i32()?;
            check_codes_i32(codes.iter().map(|code| code.get()), Level::MAX)?;
            ReadoutView::Leakage32(codes)
        }
    };
    decoder.finish()?;
    Ok((detectors, view))
}

/// The log-likelihood ratio of a read-out error that a 4-bit confidence stands for: half of it, up to 7, and certainty (infinity) at 15.
#[must_use]
pub fn log_likelihood_of_4_bits(confidence: u8) -> f32 {
    if confidence >= 15 { f32::INFINITY } else { f32::from(confidence) / 2.0 }
}

/// The log-likelihood ratio of a read-out error that an 8-bit confidence stands for: a sixteenth of it, up to 15.875, and certainty
/// (infinity) at 255.
#[must_use]
pub fn log_likelihood_of_8_bits(confidence: u8) -> f32 {
    if confidence == u8::MAX { f32::INFINITY } else { f32::from(confidence) / 16.0 }
}

impl ReadoutView<'_> {
    /// How many measurements there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Soft4(view) => view.len(),
            Self::Soft8(values) | Self::Leakage8(values) => values.len(),
            Self::SoftF32(values) => values.len(),
            Self::Leakage32(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands every measurement whose outcome is not certain to `each`: its index, and the log-likelihood ratio of a read-out error,
    /// which is 0 where the outcome means nothing.
    ///
    /// ```
    /// use ringcall_wire::weighted::ReadoutView;
    ///
    /// let mut doubted = [(0, 0.0); 2];
    /// let mut at = doubted.iter_mut();
    /// ReadoutView::Soft8(&[255, 32, 255, 0]).doubts(|measurement, ratio| {
    ///     if let Some(next) = at.next() {
    ///         *next = (measurement, ratio);
    ///     }
    /// });
    /// assert_eq!(doubted, [(1, 2.0), (3, 0.0)]);
    /// ```
    pub fn doubts(&self, mut each: impl FnMut(usize, f32)) {
        let leaked = Level::Leaked.raw();
        let mut emit = |(index, ratio): (usize, f32)| {
            if ratio.is_finite() {
                each(index, ratio);
            }
        };
        match self {
            Self::Soft4(view) => view.iter().map(log_likelihood_of_4_bits).enumerate().for_each(emit),
            Self::Soft8(values) => {
                values.iter().copied().map(log_likelihood_of_8_bits).enumerate().for_each(emit);
            }
            Self::SoftF32(values) => values.iter().map(|value| value.get()).enumerate().for_each(emit),
            Self::Leakage8(codes) => {
                let leaks = codes.iter().enumerate().filter(|&(_, &code)| code == leaked);
                leaks.for_each(|(index, _)| emit((index, 0.0)));
            }
            Self::Leakage32(codes) => {
                let leaks = codes.iter().enumerate().filter(|(_, code)| code.get() == i32::from(leaked));
                leaks.for_each(|(index, _)| emit((index, 0.0)));
            }
        }
    }
}
