//! The block that a sensor bridge ends a frame with, unless the host turned it off.
//!
//! 128 bytes, big-endian, at the next 128-byte boundary after the data; the rest of it is 0. (Layout of Holoscan Sensor
//! Bridge's frame metadata.)
//!
//! | offset | field |
//! |---|---|
//! | 0 | flags, u32 |
//! | 4 | sequence number of the packet, u32 |
//! | 8 | CRC of the data, u32 |
//! | 12, 20 | time of the first data: seconds u64, nanoseconds u32 |
//! | 24 | bytes of data, u64 |
//! | 34 | frame number, u16 |
//! | 36, 44 | time of this block: seconds u64, nanoseconds u32 |

use ringcall_roce::immediate::PAGE_UNIT_BYTES;

/// `N` bytes at `at`; `None` past the end.
fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Writes at `at`, which is inside.
fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// Bytes of the block.
pub const METADATA_BYTES: usize = 128;

/// A point in time, as PTP has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpTime {
    /// Seconds.
    pub seconds: u64,
    /// Nanoseconds, below 10⁹.
    pub nanoseconds: u32,
}

/// What the block says.
///
/// ```
/// use ringcall_sim::fpga::metadata::{FrameMetadata, METADATA_BYTES, PtpTime};
///
/// let time = PtpTime { seconds: 1, nanoseconds: 2 };
/// let block = FrameMetadata { psn: 7, time, bytes_written: 100, frame_number: 3, ..Default::default() };
/// let bytes = block.to_bytes();
/// assert_eq!(FrameMetadata::from_bytes(&bytes), Some(block));
/// assert_eq!((FrameMetadata::offset(100), FrameMetadata::offset(128)), (128, 128));
/// assert_eq!(FrameMetadata::from_bytes(&bytes[..METADATA_BYTES - 1]), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMetadata {
    /// Flags.
    pub flags: u32,
    /// Sequence number of the packet that carries the block.
    pub psn: u32,
    /// CRC of the data. Which polynomial the hardware takes is not documented; the emulator writes Ethernet's CRC-32.
    pub crc: u32,
    /// When the first data was there.
    pub time: PtpTime,
    /// Bytes of data before the block, without padding.
    pub bytes_written: u64,
    /// Frames counted, modulo 2¹⁶.
    pub frame_number: u16,
    /// When the block was made.
    pub metadata_time: PtpTime,
}

impl FrameMetadata {
    /// The offset of the block in a frame of so many bytes.
    #[must_use]
    pub const fn offset(data_bytes: usize) -> usize {
        data_bytes.next_multiple_of(PAGE_UNIT_BYTES as usize)
    }

    /// As it travels.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; METADATA_BYTES] {
        let mut out = [0; METADATA_BYTES];
        put(&mut out, 0, self.flags.to_be_bytes());
        put(&mut out, 4, self.psn.to_be_bytes());
        put(&mut out, 8, self.crc.to_be_bytes());
        put(&mut out, 12, self.time.seconds.to_be_bytes());
        put(&mut out, 20, self.time.nanoseconds.to_be_bytes());
        put(&mut out, 24, self.bytes_written.to_be_bytes());
        put(&mut out, 34, self.frame_number.to_be_bytes());
        put(&mut out, 36, self.metadata_time.seconds.to_be_bytes());
        put(&mut out, 44, self.metadata_time.nanoseconds.to_be_bytes());
        out
    }

    /// Reads a block; `None` if there are fewer bytes than one has.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<METADATA_BYTES>()?;
        let word = |at| get(bytes, at).map(u32::from_be_bytes);
        let long = |at| get(bytes, at).map(u64::from_be_bytes);
        Some(Self {
            flags: word(0)?,
            psn: word(4)?,
            crc: word(8)?,
            time: PtpTime { seconds: long(12)?, nanoseconds: word(20)? },
            bytes_written: long(24)?,
            frame_number: get(bytes, 34).map(u16::from_be_bytes)?,
            metadata_time: PtpTime { seconds: long(36)?, nanoseconds: word(44)? },
        })
    }

    /// The CRC that [`Self::crc`] has of an emulator's data.
    #[must_use]
    pub fn crc_of(data: &[u8]) -> u32 {
        crc32fast::hash(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_at_its_offset() {
        let block = FrameMetadata {
            flags: 0x0102_0304,
            psn: 0x0506_0708,
            crc: 0x090A_0B0C,
            time: PtpTime { seconds: 0x0D0E_0F10_1112_1314, nanoseconds: 0x1516_1718 },
            bytes_written: 0x191A_1B1C_1D1E_1F20,
            frame_number: 0x2324,
            metadata_time: PtpTime { seconds: 0x2526_2728_292A_2B2C, nanoseconds: 0x2D2E_2F30 },
        };
        let bytes = block.to_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let expected = if (32..34).contains(&at) || at >= 48 { 0 } else { at as u8 + 1 };
            assert_eq!(*byte, expected, "byte {at}");
        }
        assert_eq!(FrameMetadata::from_bytes(&bytes), Some(block));
    }
}
