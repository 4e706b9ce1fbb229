//! The protocol of a ring: how a slot of a ring becomes a request, an answer, and a free slot again.
//!
//! Written once for every dispatcher (host thread, device kernel, model checker): generic over *memory*
//! ([`RingMemory`]: how a flag is loaded and published) and over the *table* ([`table::Table`]: how an id becomes a
//! handler). It never allocates, never panics, never formats and never blocks.
//!
//! # The life of a slot
//! Two flags, each with one writer at every step ([`slot`] has the steps as types):
//!
//! ```text
//!              producer            dispatcher                     worker / dispatcher        consumer
//!   idle  ───────────────► written ──────────────► in flight ─────────────────► completed ─────────────► idle
//!   rx 0, tx 0             rx ≠ 0, tx 0            rx 0, tx in-flight mark      rx 0, tx response/error
//! ```
//! A request that is answered at once goes from *written* to *completed* without the mark: the response flag is set
//! while rx still stands, so at no moment are both 0 before the answer is out.
//!
//! | module | what |
//! |---|---|
//! | [`ring`] | geometry, slot indices, the memory trait and its implementation over shared memory |
//! | [`slot`] | the life cycle as types: `Vacant` → `Seen` → `Request` → `InFlight` → `Response` |
//! | [`validate`] | everything that is checked before a handler sees a byte |
//! | [`table`] | constant-time lookup, collisions refused at build |
//! | [`scan`] | which slots to poll next: the hot line first, every line soon |
//! | [`ordered_scan`] | the same in the order in which one producer wrote its requests |
//! | [`ledger`] | who may answer a slot that is in flight, exactly once |
//! | [`idle`] | the idle mask of a worker pool of any size |
//! | [`ready`] | the ready flag of a worker: claimed exactly once |
//! | [`mailbox`] | hand-off of one job to one worker |
//! | [`handoff`] | from a graph's inference to a CPU: a queue of so many records in mapped memory |
//! | [`fifo`] | queues of slots, one per function, without allocation |
//! | [`request_ids`] | the full 64-bit request id of each slot |
//! | [`counters`] | live counters, one writer per bank |

#![cfg_attr(not(any(loom, test)), no_std)]
#![forbid(unsafe_code)]

pub mod counters;
pub mod fifo;
pub mod handoff;
pub mod idle;
pub mod ledger;
pub mod mailbox;
pub mod ordered_scan;
pub mod ready;
pub mod request_ids;
pub mod ring;
pub mod scan;
pub mod slot;
pub mod table;
pub mod validate;

pub use ring::{Geometry, GeometryError, RingMemory, SharedRing, SlotIndex};
pub use slot::{InFlight, Request, Response, Seen, Vacant};
