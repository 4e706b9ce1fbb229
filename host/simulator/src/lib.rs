//! Worlds from a seed: many peers, a network, a clock and faults, over the code that ships.
//!
//! A world is one thread. It sets the clock, delivers datagrams, and lets services and peers act, all in an order that its seed
//! says: a world that breaks a rule breaks it again, `cargo xtask simulate --seed N`. `--seeds N --from S` runs many, about a
//! thousand a second of one core's time; `--peers N --hostile N --requests N` runs larger worlds of RoCE peers on a quiet network.
//!
//! # What a world is made of
//! | ships | module | stands for |
//! |---|---|---|
//! | `Roce` over a simulated network, `Link`, `HostDispatcher` with two workers | `roce`, `service` | `ringcall serve --transport roce` |
//! | `RocePort`, the emulated adapter, its queues, the unified loop | `roce`, `service` | `--transport nic` |
//! | `ReliableRoce` over a simulated network, `Link`, `HostDispatcher`, and a `reliable::Connection` at the other end | `reliable` | `--qp-type rc`, `emulate` |
//! | `Link`, `HostDispatcher`, and `Caller` at the other end | `udp` | `--transport udp`, `ringcall emulate` |
//! | `Stepper`: a pipeline's injector, dispatcher, workers, stages' calls and consumer, started and stopped again | `pipeline` | `ringcall run` |
//! | `StateFile`, `State` and `merge`, process after process, on one file or a file for each shard | `study` | `ringcall sweep --state` |
//!
//! | does not ship | module | what it does |
//! |---|---|---|
//! | the network | `network` | loses, damages, copies and delays datagrams, changes their order, has full buffers, takes nothing, refuses |
//! | correct RoCE peers | `peer` | send frames in pieces and messages of several packets, check each answer to the byte, keep books |
//! | hostile ones | `hostile` | holes, fillers elsewhere, fields that lie, garbage, every opcode, jumps of sequence numbers, floods of all pages; packets with a victim's address and a wrong key or none, also in the midst of its messages; packets of others once more; new addresses |
//! | forgers | `reliable` | strangers' packets; such with the peer's address and another service, queue pair, number or no form at all; the peer's own once more |
//! | stages | `pipeline` | fail, panic, claim more than they wrote, are not ready, defer, drop the right to answer, answer after the request's time or the pipeline's stop |
//! | the disk | `study` | is full, does not synchronise, keeps a part of a line of a process that is killed, and of a machine without power what was synchronised; has a user's file in the state's place, or another byte in it |
//! | workers | `service` | are slow, and late for requests whose time was up |
//!
//! # What no world may break
//! - Each request of a correct peer ends once: answered rightly, refused with a status that is due, or lost. On a quiet network none
//!   is lost, whatever hostile peers do; elsewhere one is lost only if a datagram of it or of its answer came to harm, or if the
//!   service has counted what it gave up.
//! - No answer has a byte that its request did not bring: not another peer's, nor what a page held before.
//! - No request runs twice, over a wire that knows copies.
//! - Over the reliable service a request is lost only with its connection, and where little goes wrong no connection ends.
//! - Each request that a pipeline accepted is completed once, with what its stages said, unless its time was up or the pipeline was stopped; nothing
//!   is in flight after a stop, and the pipeline's counts are those of its completions.
//! - The service's books balance, the callers' do, and both agree on how many answers there were.
//! - A study counts what an undisturbed one does. A file that is not its state is refused, and its bytes stay; so is a second process; and no line that
//!   was synchronised is lost.
//! - No more requests are under way than there are slots, no peer is evicted while there are entries, and every world ends.
//!
//! # What is not simulated
//! Threads and memory orders: dispatcher, workers and consumer of a pipeline take whole turns one after the other (models under loom have every
//! order of their steps, the chaos tests of `ringcall-pipeline` have the threads, and a pipeline with a remote dispatcher, too). The operating system's
//! sockets and file systems, `serve`'s command line, RDMA adapters, devices, and which batch a study's threads take next. A reliable connection begins
//! anew once nothing of the last one is under way, since both begin with the same number. A peer that lost its entry to a newcomer comes back as a
//! newcomer: its older packets, copied or replayed, are new then, and may run a second time.
//!
//! # Seams
//! The code that ships has three: [`Datagrams`](ringcall_roce::Datagrams) carries a [`RoceSocket`](ringcall_roce::RoceSocket)'s packets,
//! `ringcall_gpu::clock::simulate` sets the clock of a thread (feature `simulation`), and dispatchers, links and
//! [`SteppedService`](ringcall_sim::socket_nic::SteppedService) are turned by their caller.
//!
//! ```
//! let summary = ringcall_simulator::run(7)?;
//! assert_eq!(summary.requests, summary.answered + summary.refused + summary.lost);
//! assert_eq!(ringcall_simulator::run(7)?, summary);
//! # Ok::<(), ringcall_simulator::Violation>(())
//! ```

#![forbid(unsafe_code)]

mod calls;
mod hostile;
mod network;
mod peer;
mod pipeline;
mod random;
mod reliable;
mod roce;
mod service;
mod study;
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
    /// A correct peer got a wrong answer.
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
    /// Requests of correct peers.
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
    /// Correct ones, at least 1.
    pub peers: u32,
    /// Hostile ones.
    pub hostile: u32,
    /// Requests of each correct one.
    pub requests: u32,
}

/// Runs what a seed says.
///
/// # Errors
/// The rule that was broken.
pub fn run(seed: u64) -> Result<Summary, Violation> {
    match seed % 8 {
        0 | 2 => roce::run(seed, Behind::Ring, None),
        1 | 3 => roce::run(seed, Behind::Adapter, None),
        4 => udp::run(seed),
        5 => study::run(seed),
        6 => pipeline::run(seed),
        _ => reliable::run(seed),
    }
}

/// RoCE peers in such a number, on a network that loses nothing: every correct request must be answered or refused.
///
/// # Errors
/// The rule that was broken.
pub fn run_sized(seed: u64, size: &Size) -> Result<Summary, Violation> {
    roce::run(seed, Behind::Ring, Some(size))
}
