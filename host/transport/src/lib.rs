//! Transports: they fill a ring with requests from a network and send its answers.
//!
//! | purpose | type |
//! |---|---|
//! | a service over UDP, transport and host dispatcher on one thread | [`OneThread`] over [`Link`] over [`udp::Udp`] |
//! | a service for an FPGA that writes requests by RoCE v2, without an adapter | the same over [`roce::Roce`] |
//! | the same with the reliable service, which retransmits until packets are acknowledged | [`roce::ReliableRoce`] |
//! | the same with an RDMA adapter | [`verbs::Verbs`] |
//! | a service whose ring another dispatcher serves, on a thread or a device | [`Threaded`] |
//! | only peers that prove that they have a key | any of these wires in [`Tagged`] |
//! | a loop of your own | [`Link`], by the methods of [`UnifiedTransport`] |
//! | a client | [`udp::Caller`]; of a decoding server, over it, [`DecodingClient`] |
//! | another network | implement [`Wire`]; everything else is here |
//!
//! # Who does what
//! A [`Wire`] moves frames (a header and its payload) and knows nothing of rings. A [`Link`] attaches a wire to a ring:
//! it checks each frame, chooses a slot, remembers the sender, and sends each answer to it, in the order in which
//! answers become ready. A link runs on its caller's thread ([`UnifiedTransport`]) or on a thread of its own ([`RingFilling`],
//! [`Threaded`]). Every transport passes the same suite (module `conformance`, feature `testing`).
//!
//! # What is promised
//! - **A request that is never answered stalls no other**: it keeps its slot, and the other slots stay in use.
//! - **Everything is accounted for**: each received frame was put into a slot, refused with a status, or ignored; each
//!   request in a slot was answered, or dropped at a stop and reported ([`TransportStats::balance`]). Each outcome has a
//!   counter.
//! - **Back-pressure**: nothing is read while no slot is vacant.
//! - **A stop is bounded**: it refuses new requests, waits for requests in flight, and answers the remaining requests
//!   `SHUTTING_DOWN`.
//! - **No allocation, lock or sleep between start and stop.** A thread that has found nothing for long blocks until a
//!   datagram comes ([`IdleStrategy`]).

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

pub use caller::{Caller, CallerError, CallerOptions, CallerReply, EndedRequest, RequestOutcome};
pub use decoding::{DecodingClient, DecodingError};
pub use endpoint::TransportAddress;
pub use error::TransportError;
pub use idle::IdleStrategy;
pub use latency::{BUCKETS as LATENCY_BUCKETS, FUNCTIONS, FunctionAnswers, Latencies};
pub use link::Link;
pub use outbox::{Outbox, Outgoing};
pub use stats::{CallerStats, TransportStats};
pub use tagged::Tagged;
pub use threaded::{OneThread, ThreadOptions, Threaded};
pub use transport::{RingFilling, TransportStopReport, TransportWatch, UnifiedTransport};
pub use wire::Wire;
