//! Errors of shot files.

use super::{ShotFormat, ShotLayout};

/// Why a shot could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShotError {
    /// The file, pipe or socket failed.
    #[error("reading or writing shots failed: {0}")]
    Io(#[from] std::io::Error),
    /// The input ends within a shot.
    #[error(
        "{format} input ends within shot {shot} (counted from 0), at byte {byte}: {expected}; \
         the file is cut off, or the number of bits per shot is wrong"
    )]
    Truncated {
        /// The format read.
        format: ShotFormat,
        /// The shot, counted from 0.
        shot: u64,
        /// Where the input ends, in bytes from its start.
        byte: u64,
        /// The expected input.
        expected: String,
    },
    /// A malformed line of a text format.
    #[error("{format} input, line {line}, column {column}: {reason}")]
    Line {
        /// The format read.
        format: ShotFormat,
        /// The line, counted from 1.
        line: u64,
        /// The column in bytes, counted from 1.
        column: u64,
        /// What is wrong.
        reason: String,
    },
    /// A `b8` row with ones after its last bit.
    #[error(
        "b8 input, shot {shot} (counted from 0), byte {byte}: padding bits are not 0; \
         the number of bits per shot is probably wrong"
    )]
    Padding {
        /// The shot, counted from 0.
        shot: u64,
        /// The byte with the padding, from the start of the input.
        byte: u64,
    },
    /// A shot of another shape than the file or the sampler has.
    #[error("the shot has {found}, where {expected} are needed: create it with that layout")]
    Layout {
        /// The shape needed.
        expected: ShotLayout,
        /// The shape given.
        found: ShotLayout,
    },
    /// The reader has failed before and lost its position.
    #[error("this reader has failed before: what follows an error in a shot file cannot be trusted")]
    AfterError,
    /// No format has this name.
    #[error("no shot format is named `{name}`; the known ones are 01, b8, r8, ptb64, hits and dets")]
    UnknownFormat {
        /// The name asked for.
        name: String,
    },
    /// A file of shots without bits is empty in this format, however many shots it has.
    #[error("a {format} file cannot hold shots of no bits: give the number of detectors or observables")]
    ZeroWidth {
        /// The format.
        format: ShotFormat,
    },
    /// A run of zeros in `r8` that goes past the end of its shot.
    #[error(
        "r8 input, shot {shot} (counted from 0), byte {byte}: the shot ends within a run of zeros; \
         the number of bits per shot is probably wrong"
    )]
    Run {
        /// The shot, counted from 0.
        shot: u64,
        /// The byte with the run's length, from the start of the input.
        byte: u64,
    },
    /// The number of shots in a `ptb64` file is not a multiple of 64.
    #[error("a ptb64 file holds a multiple of 64 shots, and {shots} are none: choose another format")]
    PartialGroup {
        /// The shots that were written.
        shots: u64,
    },
    /// More bits per shot than this machine can address.
    #[error("{width} bits per shot are more than this machine can address")]
    TooWide {
        /// Bits per shot.
        width: u64,
    },
}
