//! Errors in the text of a detector error model.

/// A fault in the text, and where.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct DemTextError {
    /// Number of the line, from 1.
    pub line: u64,
    /// What is wrong.
    pub kind: ParseErrorKind,
}

/// The fault of a line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The bytes are not UTF-8 text.
    #[error("the line is not UTF-8 text")]
    NotUtf8,
    /// More bytes than a line may have.
    #[error("the line has more than {limit} bytes")]
    LongLine {
        /// The limit.
        limit: usize,
    },
    /// Something stands where something else should.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The expected word.
        expected: &'static str,
        /// The next word, quoted, or the end of the line.
        found: String,
    },
    /// The instruction does not exist.
    #[error(
        "unknown instruction `{0}`; there are error, detector, logical_observable, shift_detectors and repeat"
    )]
    UnknownInstruction(String),
    /// Wrong number of arguments in parentheses.
    #[error("`{instruction}` takes {takes}, but {given} arguments are given")]
    Arguments {
        /// The instruction.
        instruction: &'static str,
        /// The arguments that it takes.
        takes: &'static str,
        /// The number given.
        given: usize,
    },
    /// An argument is not a finite number.
    #[error("`{0}` is not a finite number")]
    Number(String),
    /// An argument is not a probability.
    #[error("the probability {0} is not between 0 and 1")]
    Probability(f64),
    /// Wrong targets.
    #[error("`{instruction}` takes {takes}")]
    Targets {
        /// The instruction.
        instruction: &'static str,
        /// The targets that it takes.
        takes: &'static str,
    },
    /// `^` at an end, or twice.
    #[error("`^` must stand between two parts, each with at least one target")]
    Separator,
    /// A number too large to be an id or a count.
    #[error("the number `{0}` is too large")]
    TooLarge(String),
    /// Coordinates that left the range of numbers by shifting.
    #[error("shifted coordinates are no longer finite")]
    Coordinates,
    /// More than [`Limits`](super::Limits) allow.
    #[error(
        "the expanded model has more than {limit} {what}; check the counts, or read it with wider limits"
    )]
    Limit {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Blocks too deep.
    #[error("blocks are nested deeper than {limit}")]
    Depth {
        /// The deepest allowed.
        limit: usize,
    },
    /// A block never closed.
    #[error("the block opened here is never closed by `}}`: is the file cut off?")]
    Unclosed,
    /// A `}` without its `{`.
    #[error("`}}` closes no block")]
    Unopened,
}

/// Why a model could not be read from a stream.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed.
    #[error("reading the detector error model failed: {0}")]
    Io(#[from] std::io::Error),
    /// The text is at fault.
    #[error(transparent)]
    Parse(#[from] DemTextError),
}
