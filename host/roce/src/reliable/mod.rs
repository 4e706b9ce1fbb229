//! The reliable connected (RC) service: acknowledgements, retransmission, and errors by name.
//!
//! A [`Connection`] is the two halves of one queue pair. Its [requester](Requester) sends messages, keeps each until
//! the peer has acknowledged it, and retransmits what is not acknowledged in time. Its [responder](ReliableResponder)
//! takes each packet of the peer once and in order, and acknowledges it. Neither half reads a clock or a socket: the
//! caller passes packets and times in nanoseconds.
//!
//! (InfiniBand architecture specification, volume 1, section 9.7.)

mod connection;
mod requester;
mod responder;
mod syndrome;

pub use connection::{Connection, ConnectionOptions, ConnectionStats};
pub use requester::{MessagePostError, ReliableError, Requester, RequesterOptions, RequesterStats};
pub use responder::{ReliableResponder, ReliableStats};
pub use syndrome::{AckSyndrome, Nak, rnr_ns};
