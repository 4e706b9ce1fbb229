//! mlx5 queues as a device (or a CPU thread) works them: completions polled, receive credit kept, responses sent.
//!
//! The queues know completion entries, work requests and doorbells, and no protocol. They lie in
//! [`Words`](ringcall_gpu::shared::Words), so the same source runs on a device over the NIC's memory, on CPU threads
//! against an emulated NIC (`ringcall-sim`), and under a model checker. Nothing allocates, panics, formats or waits without
//! a bound.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | what the NIC reads and writes, by offset |
//! | [`cq`] | completion queue: owner bit, opcode, one fence |
//! | [`rq`] | receive queue: credit kept at full depth |
//! | [`sq`] | send queue: requests built, rung and reclaimed |
//! | [`doorbell`] | the doorbell record, the doorbell register, BlueFlame |
//! | [`counters`] | live counters, those of the receive side apart from those of the send side |
//! | [`wait`] | every wait: a bound and a stop word |
//! | [`endpoint`] | a queue pair that serves requests: arrivals, responses, errors |
//! | [`sequence`] | message numbers: lost and late messages |
//!
//! # What orders what
//! | writer | reader | how |
//! |---|---|---|
//! | NIC: payload, entry, then its owner byte | [`CompletionQueue::poll`] | owner word relaxed, then one acquire fence |
//! | [`ReceiveQueue::repost`]: reads done | NIC: receive counter in the record | release fence before the record |
//! | [`SendQueue::post`]: request, bytes | NIC: send counter in the record | release fence before the record |
//! | the record | NIC: doorbell register | release fence before the register |
//! | NIC: request read and done | [`SendQueue::reclaim`] | completion entry, as above |
//!
//! The layouts are those of the public rdma-core headers. Nothing here has met a NIC yet. `ringcall-sim` has an example of
//! an endpoint at work.
//!
//! # Example
//! ```
//! use ringcall_gpu::shared::Region;
//! use ringcall_mlx5::layout::cqe::{Cqe, OWNER_WORD, opcode, owner_of_lap};
//! use ringcall_mlx5::{CompletionQueue, PolledCompletion};
//! use std::sync::atomic::Ordering::{Relaxed, Release};
//!
//! let window = Region::zeroed(128)?.words(0, 16)?;
//! CompletionQueue::prepare(&window);
//! let mut queue = CompletionQueue::new(window.clone(), None)?;
//! assert_eq!(queue.poll(), None);
//! // What a NIC does: the entry, its owner byte last.
//! let entry = Cqe::default().with_wqe_counter(3).with_owner(opcode::REQUEST, owner_of_lap(0, 2));
//! for (at, &word) in entry.0.iter().enumerate() {
//!     window.store(at, word, if at == OWNER_WORD { Release } else { Relaxed });
//! }
//! assert_eq!(queue.poll(), Some(PolledCompletion::SendDone { wqe_counter: 3 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(not(any(loom, test)), no_std)]
#![forbid(unsafe_code)]

pub mod counters;
pub mod cq;
pub mod doorbell;
pub mod endpoint;
pub mod layout;
pub mod rq;
pub mod sequence;
pub mod sq;
pub mod wait;

pub use counters::{Counters, Event};
pub use cq::{CompletionQueue, PolledCompletion};
pub use doorbell::{BlueFlame, Doorbell, DoorbellRecord, Register};
pub use endpoint::{Arrived, Endpoint, Poll, TxSlot};
pub use rq::ReceiveQueue;
pub use sq::SendQueue;
pub use wait::{Bound, Shutdown, WaitEnd};

/// Why a queue cannot be made of the memory it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// Entries that are no power of two, or more than a 16-bit counter tells apart.
    Entries(usize),
    /// More receive requests posted in advance than the queue holds, or none.
    Depth {
        /// Asked for.
        depth: u32,
        /// Entries of the queue.
        entries: u32,
    },
    /// A window that is shorter than it has to be.
    TooSmall {
        /// Words it needs.
        needed: usize,
        /// Words it has.
        have: usize,
    },
    /// A completion queue with fewer entries than its work queue: nothing would keep the NIC from writing over an entry
    /// that was not read.
    Completions {
        /// Entries of the work queue.
        requests: u32,
        /// Entries of the completion queue.
        completions: u32,
    },
    /// A slot length that is 0, no multiple of 8, or 2³¹ and more.
    Stride(u32),
    /// More slots than an immediate can name, fewer than there are receive requests with a slot of their own, or none.
    Slots(u32),
    /// A queue pair's number of more than 24 bits.
    QueuePair(u32),
    /// Receive requests with buffers of their own, where a slot has one request under way.
    Buffers,
    /// A response would run over into the peer's next slot.
    Remote {
        /// Bytes from one of the peer's slots to the next.
        have: u32,
        /// Bytes of a response slot.
        needed: u32,
    },
}

impl core::fmt::Display for QueueError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Entries(n) => write!(f, "a queue has a power of two of entries, below 65536, not {n}"),
            Self::Depth { depth, entries } => {
                write!(f, "{depth} receive requests cannot be posted to a queue of {entries}")
            }
            Self::TooSmall { needed, have } => write!(f, "{needed} words are needed where there are {have}"),
            Self::Completions { requests, completions } => {
                write!(
                    f,
                    "{completions} completion entries do not hold what {requests} requests complete with"
                )
            }
            Self::Stride(n) => write!(f, "a slot is a multiple of 8 bytes, below 2^31, not {n}"),
            Self::Slots(n) => {
                write!(f, "{n} slots: an immediate names 1 to 4096, at least one a receive request")
            }
            Self::Buffers => {
                f.write_str("receive requests with buffers of their own: the sender must choose the slot")
            }
            Self::Remote { have, needed } => {
                write!(f, "the peer's slots have {have} bytes each: a response has up to {needed}")
            }
            Self::QueuePair(n) => write!(f, "a queue pair's number has 24 bits: {n:#x} has more"),
        }
    }
}

impl core::error::Error for QueueError {}

/// Entries of a queue in `window`, `words` words each: a power of two below 2¹⁶.
///
/// # Errors
/// [`QueueError::Entries`] if the window has another number of them.
pub fn entries(window: &ringcall_gpu::shared::Words, words: usize) -> Result<u32, QueueError> {
    let entries = window.len() / words;
    match u32::try_from(entries) {
        Ok(n) if n.is_power_of_two() && n < 1 << 16 && entries * words == window.len() => Ok(n),
        _ => Err(QueueError::Entries(entries)),
    }
}
