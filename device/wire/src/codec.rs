//! Writing and reading payloads against a schema, value by value, in order.
//!
//! Both sides check everything: the length of the payload on construction, type and count of each value as it
//! is pushed or read, unused bits, and at the end that no value was left out. Nothing is allocated and
//! nothing panics, for any bytes. Arrays lie unaligned in the payload; they are read in place as
//! [`zerocopy::little_endian`] elements (alignment 1) or copied out.
//!
//! An untyped schema describes no values: an encoder writes none, a decoder hands out [`PayloadDecoder::remaining`]. Of a
//! schema that takes any length, [`PayloadEncoder::bytes`] writes and [`PayloadDecoder::bytes`] reads the whole payload.

mod decoder;
mod encoder;

pub use decoder::PayloadDecoder;
pub use encoder::PayloadEncoder;

use crate::error::WireError;
use crate::payload::{PayloadType, TypeDesc};
use crate::schema::is_any_length;

fn check_count(desc: TypeDesc, found: usize) -> Result<(), WireError> {
    let expected = desc.num_elements as usize;
    if expected == found { Ok(()) } else { Err(WireError::CountMismatch { expected, found }) }
}

/// Position in a schema: which value is next and where it lies.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    descs: &'a [TypeDesc],
    index: usize,
    offset: usize,
}

impl<'a> Cursor<'a> {
    const fn new(descs: &'a [TypeDesc]) -> Self {
        Self { descs, index: 0, offset: 0 }
    }

    /// Descriptor of the next value, which has to be of type `kind`; does not move.
    fn peek(&self, kind: PayloadType) -> Result<TypeDesc, WireError> {
        let desc = *self.descs.get(self.index).ok_or(WireError::PastEnd { fields: self.descs.len() })?;
        if desc.type_id == kind.raw() {
            Ok(desc)
        } else {
            Err(WireError::TypeMismatch { index: self.index, expected: desc.type_id, found: kind.raw() })
        }
    }

    /// As [`Self::peek`] for whole bytes: refuses 4-bit values, two to a byte.
    fn peek_bytes(&self) -> Result<TypeDesc, WireError> {
        let desc = self.peek(PayloadType::ArrayUint8)?;
        if desc.is_nibbles() { Err(WireError::PackedNibbles { index: self.index }) } else { Ok(desc) }
    }

    /// As [`Self::peek`] for 4-bit values: refuses whole bytes.
    fn peek_nibbles(&self) -> Result<TypeDesc, WireError> {
        let desc = self.peek(PayloadType::ArrayUint8)?;
        let packed = TypeDesc::readout4(desc.num_elements).size_bytes;
        check_count(TypeDesc { num_elements: packed, ..desc }, desc.size_bytes as usize)?;
        Ok(desc)
    }

    /// Whether the next value is the whole payload, of any length.
    const fn is_any_length(&self) -> bool {
        self.index == 0 && is_any_length(self.descs)
    }

    fn advance(&mut self, desc: TypeDesc) {
        self.advance_by(desc.size_bytes as usize);
    }

    fn advance_by(&mut self, bytes: usize) {
        self.index += 1;
        self.offset += bytes;
    }

    fn finished(&self) -> Result<usize, WireError> {
        if self.index == self.descs.len() {
            Ok(self.offset)
        } else {
            Err(WireError::Unfinished { done: self.index, fields: self.descs.len() })
        }
    }
}
