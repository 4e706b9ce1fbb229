//! RDMA verbs: a queue pair of an adapter, through rdma-core's libibverbs, which is loaded at run time.
//!
//! A [`Pair`] is a device opened by its name, a window of slots that peers write, slots to send from, and one queue pair with posted
//! receives, whose completions are polled. What fails has a name ([`VerbsError`], [`PairFault`]), and a pair that failed can be
//! [connected](Pair::connect) again. Linux's software adapter (`rdma_rxe`) serves as a device like any other.

#![allow(unsafe_code)] // libibverbs' functions

mod error;
mod memory;
mod pair;
mod ports;
mod sys;

pub use error::{PairFault, SendError, VerbsError};
pub use pair::{Completion, Operation, Pair, PairOptions, Remote};
use std::time::Duration;

/// How often a user of a pair asks the device for events outside of completions while nothing comes.
pub const EVENTS_INTERVAL: Duration = Duration::from_millis(100);
