//! A mlx5 NIC played on a host: the hardware's side of [`ringcall_verbs`].
//!
//! It works on mapped memory alone, as a NIC does: it reads work requests, doorbell records and doorbells, and writes
//! payload and completion entries. So whatever drives a NIC's queues, a kernel on a GPU or a thread in a test, runs against
//! it unchanged, and every mistake that a NIC would punish with silence has a name and a count here
//! ([`Violation`]).
//!
//! | module | what |
//! |---|---|
//! | [`port`] | where messages come from and go to; an in-process wire |
//! | [`memory`] | registered memory, by key |
//! | [`stats`] | what was counted, and the rules that the other side broke |
//! | [`fault`] | completions that should not be, on demand |
//! | [`thread`] | a NIC on a thread of its own |
//!
//! [`Nic::step`] does a bounded piece of work and never blocks, so that a model checker can play it too.
//!
//! # How it takes the rules
//! * A doorbell makes it read the doorbell record; requests up to there are fetched at once, and done later, a few a step.
//!   A request that changes in between was overwritten while the NIC had it.
//! * A BlueFlame copy is taken if it is the next request and was not torn; it must be what stands in the queue. Otherwise it
//!   is no more than a doorbell.
//! * A message that needs a receive request and finds none is dropped and counted, as on an unreliable connection.
//! * Payload, then the completion entry, then the entry's owner byte.
//! * After a failed send request the queue pair is in the error state: everything posted is flushed.

#![forbid(unsafe_code)]

mod completion;
pub mod fault;
pub mod memory;
mod nic;
pub mod port;
mod receive;
mod send;
pub mod stats;
#[cfg(not(loom))]
pub mod thread;

pub use fault::{Fault, Queue};
pub use memory::{Memory, Region};
pub use nic::{Config, Nic, NicError};
pub use port::{Message, Port, Wire};
pub use stats::{Stats, Violation};
