//! Bit fields of a command. Offset 0 is the most significant bit of the first byte.

/// A field's offset and width, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitField {
    /// Offset of the first bit.
    pub at: usize,
    /// Number of bits.
    pub bits: usize,
}

impl BitField {
    pub(super) const fn new(at: usize, bits: usize) -> Self {
        Self { at, bits }
    }

    /// This field in a structure that begins at bit `at`.
    pub(super) const fn within(self, at: usize) -> Self {
        Self { at: self.at + at, bits: self.bits }
    }

    /// The field's largest value.
    #[must_use]
    pub const fn max(self) -> u64 {
        if self.bits >= 64 { u64::MAX } else { (1 << self.bits) - 1 }
    }

    /// Writes the low bits of `value`; bits past the end of `bytes` are dropped.
    pub fn put(self, bytes: &mut [u8], value: u64) {
        for bit in 0..self.bits {
            let offset = self.at + bit;
            let mask = 0x80 >> (offset % 8);
            if let Some(byte) = bytes.get_mut(offset / 8) {
                let set = value >> (self.bits - 1 - bit) & 1 != 0;
                *byte = if set { *byte | mask } else { *byte & !mask };
            }
        }
    }

    /// Reads the field; bits past the end of `bytes` are 0.
    #[must_use]
    pub fn get(self, bytes: &[u8]) -> u64 {
        (self.at..self.at + self.bits).fold(0, |value, offset| {
            let byte = bytes.get(offset / 8).copied().unwrap_or(0);
            value << 1 | u64::from(byte >> (7 - offset % 8) & 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_bit_is_the_most_significant() {
        let mut bytes = [0; 4];
        BitField::new(0, 16).put(&mut bytes, 0x0500);
        BitField::new(19, 5).put(&mut bytes, 0b10001);
        assert_eq!(bytes, [5, 0, 0b0001_0001, 0]);
    }

    proptest! {
        #[test]
        fn a_field_is_read_as_written_and_touches_no_other(at in 0_usize..200, bits in 1_usize..65, value: u64) {
            let field = BitField::new(at, bits);
            for before in [0, 0xFF] {
                let mut bytes = [before; 40];
                field.put(&mut bytes, value);
                prop_assert_eq!(field.get(&bytes), value & field.max());
                field.put(&mut bytes, if before == 0 { 0 } else { u64::MAX });
                prop_assert_eq!(bytes, [before; 40]);
            }
        }
    }
}
