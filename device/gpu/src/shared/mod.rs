//! Memory that another agent (a thread, a GPU, a NIC) may write at any time.
//!
//! Such memory is never behind `&[u8]` or `&mut [u8]`: it is reached through [`Words`] (64-bit flags) and [`Bytes`]
//! (slot data), whose every access is an aligned 64-bit atomic load or store. A peer that breaks the protocol can
//! make us read nonsense; it cannot make us read out of bounds or cause undefined behaviour.
//!
//! Both are cheap handles: clone them freely, they keep the [`Region`] alive. [`Words::from_raw`] and
//! [`Bytes::from_raw`] lay them over memory that another agent owns (mapped by CUDA, a NIC's pages, a C
//! caller's ring).

mod bytes;
#[cfg(not(target_arch = "nvptx64"))]
mod region;
mod rows;
#[cfg(not(target_arch = "nvptx64"))]
mod storage;
mod words;

pub use bytes::Bytes;
#[cfg(not(target_arch = "nvptx64"))]
pub use region::Region;
pub use rows::{Pair, Rows};
pub use words::Words;

/// Why a window over shared memory could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedError {
    /// The start or the length is not a multiple of 8 bytes.
    Misaligned {
        /// The offending address, offset or length in bytes.
        value: usize,
    },
    /// The window reaches past the end of the region.
    OutOfBounds {
        /// Where the window would have ended, in bytes from the region's start.
        end: usize,
        /// The region's length in bytes.
        len: usize,
    },
    /// The pointer is null.
    Null,
    /// The operating system has no such amount of memory.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
}

impl core::fmt::Display for SharedError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misaligned { value } => {
                write!(f, "shared memory must start and end on multiples of 8 bytes, got {value:#x}")
            }
            Self::OutOfBounds { end, len } => {
                write!(f, "a window ending at byte {end} does not fit a region of {len} bytes")
            }
            Self::Null => f.write_str("shared memory at a null pointer"),
            Self::OutOfMemory { bytes } => write!(f, "no memory for a region of {bytes} bytes"),
        }
    }
}

impl core::error::Error for SharedError {}
