//! Writing a payload: [`PayloadEncoder`].

use super::{Cursor, check_count};
use crate::bits::{check_padding, pack_bits, packed_len};
use crate::error::WireError;
use crate::payload::{PayloadType, TypeDesc};
use crate::readout::pack_nibbles;
use crate::schema::HandlerSchema;

/// Writes the values of a schema into a buffer.
///
/// ```
/// use ringcall_wire::{PayloadDecoder, PayloadEncoder, HandlerSchema, TypeDesc};
///
/// const SCHEMA: HandlerSchema =
///     HandlerSchema::new().arg(TypeDesc::bit_packed(10)).arg(TypeDesc::float32());
/// let mut payload = [0; 6];
/// let written =
///     PayloadEncoder::args(&SCHEMA, &mut payload)?.bits(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 1])?.f32(0.5)?.finish()?;
/// assert_eq!(payload[..written], [1, 2, 0, 0, 0, 0x3F]);
///
/// let mut decoder = PayloadDecoder::args(&SCHEMA, &payload)?;
/// assert!(decoder.bits()?.ones().eq([0, 9]));
/// assert_eq!(decoder.f32()?, 0.5);
/// decoder.finish()?;
/// # Ok::<(), ringcall_wire::WireError>(())
/// ```
///
/// After a refused push the encoder still waits for the same value; its bytes are unspecified until it is pushed.
#[derive(Debug)]
pub struct PayloadEncoder<'a> {
    cursor: Cursor<'a>,
    out: &'a mut [u8],
}

impl<'a> PayloadEncoder<'a> {
    /// For the arguments of `schema`. `out` may be longer than they are.
    ///
    /// # Errors
    /// What [`HandlerSchema::validate`] refuses; [`WireError::Truncated`] when `out` is too short.
    pub fn args(schema: &'a HandlerSchema, out: &'a mut [u8]) -> Result<Self, WireError> {
        schema.validate()?;
        Self::new(schema.args(), schema.args_bytes()?, out)
    }

    /// For the results of `schema`. `out` may be longer than they are.
    ///
    /// # Errors
    /// As [`Self::args`].
    pub fn results(schema: &'a HandlerSchema, out: &'a mut [u8]) -> Result<Self, WireError> {
        schema.validate()?;
        Self::new(schema.results(), schema.results_bytes()?, out)
    }

    fn new(descs: &'a [TypeDesc], needed: u32, out: &'a mut [u8]) -> Result<Self, WireError> {
        let cursor = Cursor::new(descs);
        let available = out.len();
        let needed = if cursor.is_any_length() { available } else { needed as usize };
        let out = out.get_mut(..needed).ok_or(WireError::Truncated { needed, available })?;
        Ok(Self { cursor, out })
    }

    /// The bytes of the next value.
    fn bytes_of(&mut self, desc: TypeDesc) -> Result<&mut [u8], WireError> {
        let available = self.out.len();
        let (start, size) = (self.cursor.offset, desc.size_bytes as usize);
        let tail = self.out.get_mut(start..).unwrap_or_default();
        tail.get_mut(..size).ok_or(WireError::Truncated { needed: start + size, available })
    }

    fn scalar<const N: usize>(&mut self, kind: PayloadType, bytes: [u8; N]) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek(kind)?;
        for (target, byte) in self.bytes_of(desc)?.iter_mut().zip(bytes) {
            *target = byte;
        }
        self.cursor.advance(desc);
        Ok(self)
    }

    fn array<T: Copy, const N: usize>(
        &mut self,
        kind: PayloadType,
        values: &[T],
        to_bytes: fn(T) -> [u8; N],
    ) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek(kind)?;
        check_count(desc, values.len())?;
        let (elements, _) = self.bytes_of(desc)?.as_chunks_mut::<N>();
        for (element, &value) in elements.iter_mut().zip(values) {
            *element = to_bytes(value);
        }
        self.cursor.advance(desc);
        Ok(self)
    }

    /// Pushes a `UINT8`.
    ///
    /// # Errors
    /// This and the other pushes: [`WireError::PastEnd`], [`WireError::TypeMismatch`] when the schema has something else
    /// here, [`WireError::CountMismatch`] when it has another number of elements.
    pub fn u8(&mut self, value: u8) -> Result<&mut Self, WireError> {
        self.scalar(PayloadType::Uint8, [value])
    }

    /// Pushes an `INT32`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn i32(&mut self, value: i32) -> Result<&mut Self, WireError> {
        self.scalar(PayloadType::Int32, value.to_le_bytes())
    }

    /// Pushes an `INT64`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn i64(&mut self, value: i64) -> Result<&mut Self, WireError> {
        self.scalar(PayloadType::Int64, value.to_le_bytes())
    }

    /// Pushes a `FLOAT32`; every bit pattern is allowed.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn f32(&mut self, value: f32) -> Result<&mut Self, WireError> {
        self.scalar(PayloadType::Float32, value.to_le_bytes())
    }

    /// Pushes a `FLOAT64`; every bit pattern is allowed.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn f64(&mut self, value: f64) -> Result<&mut Self, WireError> {
        self.scalar(PayloadType::Float64, value.to_le_bytes())
    }

    /// Pushes an `ARRAY_UINT8`, one element to a byte. As [`TypeDesc::any_bytes`] it may have any length that fits the
    /// buffer.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::PackedNibbles`] when the schema has 4-bit values here; [`WireError::Truncated`] when
    /// the buffer is too short for bytes of any length.
    pub fn bytes(&mut self, values: &[u8]) -> Result<&mut Self, WireError> {
        let mut desc = self.cursor.peek_bytes()?;
        if self.cursor.is_any_length() {
            let count = u32::try_from(values.len()).map_err(|_| WireError::SizeOverflow)?;
            desc = TypeDesc::array_uint8(count);
        }
        check_count(desc, values.len())?;
        for (target, &byte) in self.bytes_of(desc)?.iter_mut().zip(values) {
            *target = byte;
        }
        self.cursor.advance(desc);
        Ok(self)
    }

    /// The first elements of an array; those after them are 0.
    fn first<T, const N: usize>(
        &mut self,
        kind: PayloadType,
        mut values: impl ExactSizeIterator<Item = T>,
        to_bytes: fn(T) -> [u8; N],
    ) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek(kind)?;
        let (expected, found) = (desc.num_elements as usize, values.len());
        if found > expected {
            return Err(WireError::CountMismatch { expected, found });
        }
        let (elements, _) = self.bytes_of(desc)?.as_chunks_mut::<N>();
        for element in elements {
            *element = values.next().map_or([0; N], to_bytes);
        }
        self.cursor.advance(desc);
        Ok(self)
    }

    /// Pushes an `ARRAY_INT32` of which these are the first elements, and the others 0.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::CountMismatch`] only where there are too many.
    pub fn first_i32(&mut self, values: impl ExactSizeIterator<Item = i32>) -> Result<&mut Self, WireError> {
        self.first(PayloadType::ArrayInt32, values, i32::to_le_bytes)
    }

    /// Pushes an `ARRAY_FLOAT32` of which these are the first elements, and the others 0.
    ///
    /// # Errors
    /// As [`Self::first_i32`].
    pub fn first_f32(&mut self, values: impl ExactSizeIterator<Item = f32>) -> Result<&mut Self, WireError> {
        self.first(PayloadType::ArrayFloat32, values, f32::to_le_bytes)
    }

    /// Pushes an `ARRAY_INT32`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_i32(&mut self, values: &[i32]) -> Result<&mut Self, WireError> {
        self.array(PayloadType::ArrayInt32, values, i32::to_le_bytes)
    }

    /// Pushes an `ARRAY_FLOAT32`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_f32(&mut self, values: &[f32]) -> Result<&mut Self, WireError> {
        self.array(PayloadType::ArrayFloat32, values, f32::to_le_bytes)
    }

    /// Pushes an `ARRAY_FLOAT64`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_f64(&mut self, values: &[f64]) -> Result<&mut Self, WireError> {
        self.array(PayloadType::ArrayFloat64, values, f64::to_le_bytes)
    }

    /// Pushes a `BIT_PACKED` from one byte, 0 or 1, per bit.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::ValueOutOfRange`] for a byte above 1.
    pub fn bits(&mut self, bits: &[u8]) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek(PayloadType::BitPacked)?;
        check_count(desc, bits.len())?;
        pack_bits(bits, self.bytes_of(desc)?)?;
        self.cursor.advance(desc);
        Ok(self)
    }

    /// Pushes a `BIT_PACKED` that is packed already.
    ///
    /// # Errors
    /// As [`Self::u8`], counting bytes; [`WireError::NonZeroPadding`] when an unused bit is set.
    pub fn packed_bits(&mut self, packed: &[u8]) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek(PayloadType::BitPacked)?;
        let bits = desc.num_elements as usize;
        if packed.len() != packed_len(bits) {
            return Err(WireError::CountMismatch { expected: packed_len(bits), found: packed.len() });
        }
        check_padding(packed, bits)?;
        for (target, &byte) in self.bytes_of(desc)?.iter_mut().zip(packed) {
            *target = byte;
        }
        self.cursor.advance(desc);
        Ok(self)
    }

    /// Pushes 4-bit values, one per byte of `values`; the schema has [`TypeDesc::readout4`] here.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::CountMismatch`] in bytes when the schema has whole bytes here;
    /// [`WireError::ValueOutOfRange`] for a value above 15.
    pub fn readout4(&mut self, values: &[u8]) -> Result<&mut Self, WireError> {
        let desc = self.cursor.peek_nibbles()?;
        check_count(desc, values.len())?;
        pack_nibbles(values, self.bytes_of(desc)?)?;
        self.cursor.advance(desc);
        Ok(self)
    }

    /// Bytes written, for `arg_len` or `result_len`.
    ///
    /// # Errors
    /// [`WireError::Unfinished`] when values of the schema are missing.
    pub fn finish(&self) -> Result<usize, WireError> {
        self.cursor.finished()
    }
}
