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

/// The address of a device's first port for RoCE v2 over IPv4, the first of several, and its index among the port's addresses.
///
/// # Errors
/// The device is not there, or has no such address.
pub fn address_of(name: &str) -> Result<(u8, std::net::Ipv4Addr), VerbsError> {
    ports::address(name, None)
}
use std::time::Duration;

/// How often a user of a pair asks the device for events outside of completions while nothing comes.
pub const EVENTS_INTERVAL: Duration = Duration::from_millis(100);
