//! Errors of graphs, configurations and requests to decode.

use core::fmt;

/// Why a graph could not be built, a decoder could not be made, or a request could not be decoded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BpError {
    /// An error or a defect names a check that the graph does not have.
    CheckOutOfRange {
        /// The index given.
        check: u32,
        /// How many checks there are.
        checks: u32,
    },
    /// An error names an observable that the graph does not have.
    ObservableOutOfRange {
        /// The index given.
        observable: u32,
        /// How many observables there are.
        observables: u32,
    },
    /// The probability of an error is not a number from 0 to 1/2.
    Probability {
        /// The probability given.
        probability: f64,
    },
    /// An error flips more checks than the integers of its sum can hold.
    ColumnTooLong {
        /// How many checks the error flips.
        checks: usize,
        /// The largest number supported, [`MAX_COLUMN_CHECKS`](crate::MAX_COLUMN_CHECKS).
        limit: usize,
    },
    /// A graph is larger than supported.
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// Its limit.
        limit: usize,
    },
    /// A row of a check matrix names a column that does not exist.
    ColumnOutOfRange {
        /// The index given.
        column: u32,
        /// How many columns there are.
        columns: usize,
    },
    /// A field of a configuration has a value that is not supported.
    Config {
        /// The field, and the values that it may have.
        what: &'static str,
    },
    /// A defect is listed twice.
    DuplicateDefect {
        /// The index given twice.
        defect: u32,
    },
    /// The buffer for observables has the wrong length.
    ObservablesLength {
        /// How many bytes were given.
        found: usize,
        /// How many bytes the observables take, eight observables a byte.
        expected: usize,
    },
}

impl fmt::Display for BpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CheckOutOfRange { check, checks } => {
                write!(f, "check {check} is out of range: the graph has {checks} checks")
            }
            Self::ObservableOutOfRange { observable, observables } => {
                write!(f, "observable {observable} is out of range: the graph has {observables} observables")
            }
            Self::Probability { probability } => write!(
                f,
                "the error probability {probability} is not between 0 and 0.5: of an error that is likelier than not, flip \
                 what it flips in every shot and give the probability that it does not happen"
            ),
            Self::ColumnTooLong { checks, limit } => {
                write!(f, "an error flips {checks} checks, and at most {limit} are supported")
            }
            Self::TooLarge { what, limit } => {
                write!(f, "the graph is too large: at most {limit} {what} are supported")
            }
            Self::ColumnOutOfRange { column, columns } => {
                write!(f, "a row names column {column}, but the matrix has {columns} columns")
            }
            Self::Config { what } => write!(f, "the configuration is not supported: {what}"),
            Self::DuplicateDefect { defect } => write!(f, "defect {defect} is listed twice"),
            Self::ObservablesLength { found, expected } => {
                write!(f, "the buffer for observables has {found} bytes, and the graph's take {expected}")
            }
        }
    }
}

impl core::error::Error for BpError {}
