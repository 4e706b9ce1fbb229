//! RDMA verbs: a queue pair of an adapter, through rdma-core's libibverbs, loaded at run time.
//!
//! A [`VerbsQueuePair`] has a device opened by name, a window of slots that peers write, slots to send from, and one queue pair
//! with posted receives, whose completions are polled. Every failure has a name ([`VerbsError`], [`PairFault`]), and a
//! failed pair can be [connected](VerbsQueuePair::connect) again. Linux's software adapter (`rdma_rxe`) serves as a device like
//! any other.

#![allow(unsafe_code)] // libibverbs' functions

mod error;
mod memory;
mod pair;
mod ports;
mod sys;

pub use error::{PairFault, SendError, VerbsError};
pub use pair::{PairOptions, RemoteQueuePair, SendOperation, VerbsQueuePair, WorkCompletion};

/// The address of a device's first port for RoCE v2 over IPv4, the first of several, and its index among the port's addresses.
///
/// # Errors
/// The device is not there, or has no such address.
pub fn address_of(name: &str) -> Result<(u8, std::net::Ipv4Addr), VerbsError> {
    ports::address(name, None)
}
use std::time::Duration;

/// How often the user of an idle pair should poll the device for events other than completions.
pub const EVENTS_INTERVAL: Duration = Duration::from_millis(100);
