//! A simulator of the whole: many peers, a network, clocks and faults from one seed, over the code that ships.

#![forbid(unsafe_code)]

mod calls;
mod hostile;
mod network;
mod peer;
mod random;
mod roce;
mod service;
mod udp;

use roce::Behind;
use std::fmt;

/// A rule that was broken. The seed that broke it breaks it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The world could not be made.
    #[error("set up: {0}")]
    Setup(String),
    /// An honest peer got what is no right answer.
    #[error("peer {0}: {1}")]
    Answer(u32, String),
    /// An answer brought a byte that its request did not have.
    #[error("peer {peer} got a byte that it did not write: byte {at} of the answer to {id}, {byte:#04x}")]
    ForeignByte {
        /// Who got it.
        peer: u32,
        /// The request.
        id: u32,
        /// Which byte of the result.
        at: usize,
        /// What it is.
        byte: u8,
    },
    /// A request has no outcome, although nothing was done to it.
    #[error("peer {peer}: request {id} was never answered, and nothing was done to it; the service: {books}")]
    Missing {
        /// Who asked.
        peer: u32,
        /// The request.
        id: u32,
        /// What the service counted.
        books: String,
    },
    /// A request was run more than once.
    #[error("peer {peer}: request {id} was run {runs} times")]
    RunTwice {
        /// Who asked.
        peer: u32,
        /// The request.
        id: u32,
        /// How often.
        runs: u32,
    },
    /// Requests were lost, and no count says so.
    #[error("{requests} requests were lost, and are not counted: {books}")]
    Uncounted {
        /// How many.
        requests: u64,
        /// What was counted.
        books: String,
    },
    /// Books that do not agree.
    #[error("{0}")]
    Books(String),
    /// The world did not come to an end.
    #[error("{open} peers still wait")]
    NoEnd {
        /// Peers with open requests.
        open: usize,
    },
}

/// What came of a seed without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests of honest peers.
    pub requests: u64,
    /// Answered rightly.
    pub answered: u64,
    /// Refused with a status.
    pub refused: u64,
    /// Lost, and accounted for.
    pub lost: u64,
}

impl Summary {
    /// Counts another seed, too.
    pub const fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.answered += other.answered;
        self.refused += other.refused;
        self.lost += other.lost;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, answered, refused, lost } = self;
        write!(f, "{requests} requests: {answered} answered, {refused} refused, {lost} lost")
    }
}

/// How many RoCE peers there are, in place of what a seed says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Honest ones, at least 1.
    pub peers: u32,
    /// Hostile ones.
    pub hostile: u32,
    /// Requests of each honest one.
    pub requests: u32,
}

/// Runs what a seed says.
///
/// # Errors
/// The rule that was broken.
pub fn run(seed: u64) -> Result<Summary, Violation> {
    match seed % 5 {
        0 | 2 => roce::run(seed, Behind::Ring, None),
        1 | 3 => roce::run(seed, Behind::Adapter, None),
        _ => udp::run(seed),
    }
}

/// RoCE peers in such a number, on a network that loses nothing: every honest request must be answered or refused.
///
/// # Errors
/// The rule that was broken.
pub fn run_sized(seed: u64, size: &Size) -> Result<Summary, Violation> {
    roce::run(seed, Behind::Ring, Some(size))
}
