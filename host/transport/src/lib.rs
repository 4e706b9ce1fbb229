//! Transports: they fill a ring with requests from a network and send its answers.
//!
//! | you want | take |
//! |---|---|
//! | a service over UDP, transport and host dispatcher on one thread | [`OneThread`] over [`Link`] over [`udp::Udp`] |
//! | a service for an FPGA that writes requests by RoCE v2, without an adapter | the same over [`roce::Roce`] |
//! | the same by the reliable service, whose packets are sent again until they are acknowledged | [`roce::ReliableRoce`] |
//! | the same with an RDMA adapter | [`verbs::Verbs`] |
//! | a service whose ring another dispatcher serves: a dispatcher's thread, a device | [`Threaded`] |
//! | peers that prove that they have a key | any of these wires in [`Tagged`] |
//! | a loop of your own | [`Link`], by the methods of [`Unified`] |
//! | a client | [`udp::Caller`]; of a decoding server, over it, [`DecodingClient`] |
//! | another network | implement [`Wire`]: the rest is here |
//!
//! # Who does what
//! A [`Wire`] moves frames (a header and its payload) and knows nothing of rings. A [`Link`] attaches one to
//! a ring: it checks each frame, chooses a slot, remembers who asked, and sends each answer there, in any
//! order answers become ready. It runs on its caller's thread ([`Unified`]) or on its own thread
//! ([`RingFilling`], [`Threaded`]). Every transport passes the same suite (module `conformance`, feature
//! `testing`).
//!
//! # What is promised
//! - **A request that is never answered stalls no other**: it keeps its slot, and the others go on.
//! - **Nothing is lost from the books**: each received frame was put into a slot, refused with its own status, or
//!   ignored; each request in a slot was answered, or dropped at a stop and reported ([`Statistics::balance`]). Each
//!   has a counter.
//! - **Back-pressure**: while no slot is vacant nothing is read.
//! - **A stop is bounded**: it refuses new requests, waits for requests in flight, and answers the remaining requests
//!   `SHUTTING_DOWN`.
//! - **No allocation, lock or sleep between start and stop.** A thread that has found nothing for long blocks until a
//!   datagram comes ([`Idle`]).

#![forbid(unsafe_code)]

mod admit;
mod caller;
#[cfg(feature = "testing")]
pub mod conformance;
mod decoding;
mod endpoint;
mod error;
mod idle;
mod latency;
mod link;
mod outbox;
pub mod roce;
mod slots;
mod stats;
mod tagged;
mod threaded;
mod transport;
pub mod udp;
pub mod verbs;
pub mod wire;

pub use caller::{CallError, Caller, CallerOptions, Ended, Outcome, Reply};
pub use decoding::{DecodingClient, DecodingError};
pub use endpoint::Endpoint;
pub use error::TransportError;
pub use idle::Idle;
pub use latency::{BUCKETS as LATENCY_BUCKETS, FUNCTIONS, FunctionAnswers, Latencies};
pub use link::Link;
pub use outbox::{Outbox, Outgoing};
pub use stats::{CallerStatistics, Statistics};
pub use tagged::Tagged;
pub use threaded::{OneThread, ThreadOptions, Threaded};
pub use transport::{RingFilling, StopReport, Unified, Watch};
pub use wire::Wire;
