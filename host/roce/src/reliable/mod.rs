//! The reliable connected (RC) service: acknowledgements, retransmission, and errors by name.
//!
//! A [`Connection`] is one queue pair's two halves. Its [requester](Requester) sends messages, keeps each until the peer has
//! acknowledged it, and sends again what is not acknowledged in time; its [responder](ReliableResponder) takes the packets of
//! the peer in their order, each once, and acknowledges them. Neither reads a clock nor a socket: the caller passes packets
//! and times in nanoseconds.
//!
//! (InfiniBand architecture specification, volume 1, section 9.7.)

mod connection;
mod requester;
mod responder;
mod syndrome;

pub use connection::{Connection, ConnectionCounts, ConnectionOptions};
pub use requester::{PostError, ReliableError, Requester, RequesterOptions, RequesterStats};
pub use responder::{ReliableResponder, ReliableStats};
pub use syndrome::{Nak, Syndrome, rnr_ns};
