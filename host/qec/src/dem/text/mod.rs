//! Reader and writer of Stim's detector error model text format (`.dem`).
//!
//! One instruction a line, `#` starts a comment, names ignore case, `[...]` after a name is a tag (skipped):
//!
//! ```text
//! error(0.01) D0 D1 L0 ^ D2     # probability; detectors, observables, ^ between suggested parts
//! detector(1, 2, 0) D0          # coordinates of a detector, which thereby exists
//! logical_observable L1         # an observable that exists
//! shift_detectors(0, 0, 1) 8    # later detectors count from 8 on, later coordinates are moved by this
//! repeat 100 {                  # blocks nest
//!     error(0.02) D0 D8
//!     shift_detectors 8
//! }
//! ```
//!
//! Reading expands blocks and shifts. [`Limits`] bound the result, so a short hostile text cannot fill the memory: a model within
//! the limits needs memory in proportion to its expanded size, a larger one is an error. A target that a part names twice
//! cancels; a part without targets left is dropped. A detector declared more than once keeps its first coordinates.
//!
//! The reader accepts what Stim 1.16 accepts, with three exceptions: an empty argument (`(1,,2)`) is an error, a block nested
//! deeper than 64 is an error, and ids must keep to the limits.
//!
//! ```
//! use ringcall_qec::dem::text;
//! let model = text::parse("repeat 3 {\n  error(0.125) D0 D1\n  shift_detectors 1\n}")?;
//! assert_eq!(model.to_string(), "error(0.125) D0 D1\nerror(0.125) D1 D2\nerror(0.125) D2 D3\n");
//! let error = text::parse("error(0.1) D0\nerror(2) D1").unwrap_err();
//! assert_eq!(error.to_string(), "line 2: the probability 2 is not between 0 and 1");
//! # Ok::<(), text::DemTextError>(())
//! ```

mod error;
mod expand;
mod statement;
mod write;

use std::io::{BufRead, Read};

pub use error::{DemTextError, ParseErrorKind, ReadError};

use super::{DetectorErrorModel, MAX_DETECTORS};
use expand::Expander;

/// How large an expanded model may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Detectors, up to 2^32 - 1.
    pub detectors: u32,
    /// Observables, up to 2^32 - 1.
    pub observables: u32,
    /// Instructions executed, counting each turn of a block.
    pub instructions: u64,
    /// Targets and coordinates in all executed instructions.
    pub targets: u64,
}

impl Default for Limits {
    /// 2^24 detectors, 2^16 observables, 2^24 instructions, 2^26 targets: a few GB at the very most.
    fn default() -> Self {
        Self { detectors: MAX_DETECTORS, observables: 1 << 16, instructions: 1 << 24, targets: 1 << 26 }
    }
}

/// The most bytes of a line.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Reads a model from a string, with the default [`Limits`].
///
/// # Errors
/// [`DemTextError`] with the number of the line at fault.
pub fn parse(text: &str) -> Result<DetectorErrorModel, DemTextError> {
    parse_bytes(text.as_bytes())
}

/// Reads a model from bytes of any content, with the default [`Limits`].
///
/// # Errors
/// [`DemTextError`] with the number of the line at fault; bytes that are not UTF-8 are one such fault.
pub fn parse_bytes(bytes: &[u8]) -> Result<DetectorErrorModel, DemTextError> {
    parse_with_limits(bytes, Limits::default())
}

/// Reads a model from bytes of any content.
///
/// # Errors
/// As [`parse_bytes`].
pub fn parse_with_limits(bytes: &[u8], limits: Limits) -> Result<DetectorErrorModel, DemTextError> {
    let mut expander = Expander::new(limits);
    for line in bytes.split(|&byte| byte == b'\n') {
        expander.line(line)?;
    }
    expander.finish()
}

/// Reads a model from a stream, line by line, and holds only the open block and the model itself.
///
/// # Errors
/// [`ReadError::Io`] if the stream fails, [`ReadError::Parse`] as [`parse_bytes`].
pub fn read(mut reader: impl BufRead, limits: Limits) -> Result<DetectorErrorModel, ReadError> {
    let mut expander = Expander::new(limits);
    let mut line = Vec::new();
    while reader.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)? > 0 {
        expander.line(&line)?;
        line.clear();
    }
    Ok(expander.finish()?)
}

impl std::str::FromStr for DetectorErrorModel {
    type Err = DemTextError;

    fn from_str(text: &str) -> Result<Self, DemTextError> {
        parse(text)
    }
}
