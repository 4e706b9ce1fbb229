//! Reading a payload: [`PayloadDecoder`].

use zerocopy::little_endian::{F32, F64, I32};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{Cursor, check_count};
use crate::bits::BitView;
use crate::error::{WireError, check_len};
use crate::payload::{PayloadType, TypeDesc};
use crate::readout::NibbleView;
use crate::schema::HandlerSchema;

/// Reads the values of a schema from a payload. For an example see [`PayloadEncoder`](super::PayloadEncoder).
///
/// After a refused read the decoder still stands at the same value.
#[derive(Clone, Debug)]
pub struct PayloadDecoder<'a> {
    cursor: Cursor<'a>,
    payload: &'a [u8],
}

impl<'a> PayloadDecoder<'a> {
    /// For the arguments of `schema`; `payload` is the `arg_len` bytes after the header.
    ///
    /// # Errors
    /// What [`HandlerSchema::validate`] refuses; [`WireError::Truncated`] or [`WireError::TrailingBytes`] when the payload
    /// has another length than [`HandlerSchema::arg_len`].
    pub fn args(schema: &'a HandlerSchema, payload: &'a [u8]) -> Result<Self, WireError> {
        schema.validate()?;
        if let Some(needed) = schema.arg_len()? {
            check_len(needed as usize, payload.len())?;
        }
        Ok(Self { cursor: Cursor::new(schema.args()), payload })
    }

    /// For the results of `schema`; `payload` is the `result_len` bytes after the header.
    ///
    /// # Errors
    /// As [`Self::args`], with [`HandlerSchema::result_len`].
    pub fn results(schema: &'a HandlerSchema, payload: &'a [u8]) -> Result<Self, WireError> {
        schema.validate()?;
        if let Some(needed) = schema.result_len()? {
            check_len(needed as usize, payload.len())?;
        }
        Ok(Self { cursor: Cursor::new(schema.results()), payload })
    }

    /// The bytes of the next value.
    fn slice(&self, desc: TypeDesc) -> Result<&'a [u8], WireError> {
        let size = desc.size_bytes as usize;
        let needed = self.cursor.offset + size;
        let tail = self.remaining();
        tail.get(..size).ok_or(WireError::Truncated { needed, available: self.payload.len() })
    }

    fn scalar<const N: usize>(&mut self, kind: PayloadType) -> Result<[u8; N], WireError> {
        let desc = self.cursor.peek(kind)?;
        let bytes = self.slice(desc)?;
        let value = *bytes.first_chunk().ok_or(WireError::Truncated { needed: N, available: bytes.len() })?;
        self.cursor.advance(desc);
        Ok(value)
    }

    fn array<T: FromBytes + KnownLayout + Immutable>(
        &mut self,
        kind: PayloadType,
    ) -> Result<&'a [T], WireError> {
        let desc = self.cursor.peek(kind)?;
        let count = desc.num_elements as usize;
        let bytes = self.slice(desc)?;
        let values = <[T]>::ref_from_bytes_with_elems(bytes, count)
            .map_err(|_| WireError::CountMismatch { expected: count, found: bytes.len() })?;
        self.cursor.advance(desc);
        Ok(values)
    }

    /// Reads a `UINT8`.
    ///
    /// # Errors
    /// This and the other reads: [`WireError::PastEnd`], or [`WireError::TypeMismatch`] when the schema has something
    /// else here.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.scalar(PayloadType::Uint8).map(u8::from_le_bytes)
    }

    /// Reads an `INT32`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn i32(&mut self) -> Result<i32, WireError> {
        self.scalar(PayloadType::Int32).map(i32::from_le_bytes)
    }

    /// Reads an `INT64`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn i64(&mut self) -> Result<i64, WireError> {
        self.scalar(PayloadType::Int64).map(i64::from_le_bytes)
    }

    /// Reads a `FLOAT32`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn f32(&mut self) -> Result<f32, WireError> {
        self.scalar(PayloadType::Float32).map(f32::from_le_bytes)
    }

    /// Reads a `FLOAT64`.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn f64(&mut self) -> Result<f64, WireError> {
        self.scalar(PayloadType::Float64).map(f64::from_le_bytes)
    }

    /// Reads an `ARRAY_UINT8`, one element to a byte. [`TypeDesc::any_bytes`] is the whole payload.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::PackedNibbles`] when the schema has 4-bit values here.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let desc = self.cursor.peek_bytes()?;
        let bytes = if self.cursor.is_any_length() { self.payload } else { self.slice(desc)? };
        self.cursor.advance_by(bytes.len());
        Ok(bytes)
    }

    /// Reads an `ARRAY_INT32` in place.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_i32(&mut self) -> Result<&'a [I32], WireError> {
        self.array(PayloadType::ArrayInt32)
    }

    /// Reads an `ARRAY_FLOAT32` in place.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_f32(&mut self) -> Result<&'a [F32], WireError> {
        self.array(PayloadType::ArrayFloat32)
    }

    /// Reads an `ARRAY_FLOAT64` in place.
    ///
    /// # Errors
    /// As [`Self::u8`].
    pub fn array_f64(&mut self) -> Result<&'a [F64], WireError> {
        self.array(PayloadType::ArrayFloat64)
    }

    /// Copies an `ARRAY_INT32` into `out`.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::CountMismatch`] when `out` has another length.
    pub fn copy_i32(&mut self, out: &mut [i32]) -> Result<(), WireError> {
        check_count(self.cursor.peek(PayloadType::ArrayInt32)?, out.len())?;
        out.iter_mut().zip(self.array_i32()?).for_each(|(element, value)| *element = value.get());
        Ok(())
    }

    /// Copies an `ARRAY_FLOAT32` into `out`.
    ///
    /// # Errors
    /// As [`Self::copy_i32`].
    pub fn copy_f32(&mut self, out: &mut [f32]) -> Result<(), WireError> {
        check_count(self.cursor.peek(PayloadType::ArrayFloat32)?, out.len())?;
        out.iter_mut().zip(self.array_f32()?).for_each(|(element, value)| *element = value.get());
        Ok(())
    }

    /// Copies an `ARRAY_FLOAT64` into `out`.
    ///
    /// # Errors
    /// As [`Self::copy_i32`].
    pub fn copy_f64(&mut self, out: &mut [f64]) -> Result<(), WireError> {
        check_count(self.cursor.peek(PayloadType::ArrayFloat64)?, out.len())?;
        out.iter_mut().zip(self.array_f64()?).for_each(|(element, value)| *element = value.get());
        Ok(())
    }

    /// Reads a `BIT_PACKED`.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::NonZeroPadding`] when an unused bit is set.
    pub fn bits(&mut self) -> Result<BitView<'a>, WireError> {
        let desc = self.cursor.peek(PayloadType::BitPacked)?;
        let view = BitView::new(self.slice(desc)?, desc.num_elements as usize)?;
        self.cursor.advance(desc);
        Ok(view)
    }

    /// Reads 4-bit values; the schema has [`TypeDesc::readout4`] here.
    ///
    /// # Errors
    /// As [`Self::u8`]; [`WireError::CountMismatch`] in bytes when the schema has whole bytes here;
    /// [`WireError::NonZeroPadding`] when the unused nibble is set; [`WireError::TrailingBytes`] for a payload of
    /// [`TypeDesc::any_bytes`] that is not empty, since it does not say how many nibbles it holds.
    pub fn readout4(&mut self) -> Result<NibbleView<'a>, WireError> {
        let desc = self.cursor.peek_nibbles()?;
        if self.cursor.is_any_length() {
            check_len(0, self.payload.len())?;
        }
        let view = NibbleView::new(self.slice(desc)?, desc.num_elements as usize)?;
        self.cursor.advance(desc);
        Ok(view)
    }

    /// The bytes not read yet: all of an untyped payload.
    #[must_use]
    pub fn remaining(&self) -> &'a [u8] {
        self.payload.get(self.cursor.offset..).unwrap_or_default()
    }

    /// Checks that every value was read.
    ///
    /// # Errors
    /// [`WireError::Unfinished`] when values of the schema are left.
    pub fn finish(&self) -> Result<(), WireError> {
        self.cursor.finished().map(|_| ())
    }
}
