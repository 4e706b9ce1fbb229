//! Errors of a transport before it runs.

use ringcall_rdma::verbs::VerbsError;
use ringcall_roce::{QueuePairError, SocketError};
use std::io;
use std::net::SocketAddr;

/// Why a transport cannot be made or started. What goes wrong later is counted, not returned.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address is taken, not ours, or forbidden.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the operating system says.
        source: io::Error,
    },
    /// A socket option or buffer was refused.
    #[error("cannot set up the socket: {0}")]
    Socket(#[from] io::Error),
    /// A slot of the ring is longer than what the wire carries in one piece.
    #[error(
        "a slot of {slot_bytes} bytes does not fit {wire}, which carries {max} bytes at most: take shorter slots"
    )]
    SlotTooLong {
        /// Bytes of a slot.
        slot_bytes: u32,
        /// The transport.
        wire: &'static str,
        /// The most bytes of a frame.
        max: usize,
    },
    /// The queue pair's socket cannot be made.
    #[error(transparent)]
    Roce(#[from] SocketError),
    /// There is no queue pair of an adapter.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// Numbers that make no queue pair.
    #[error(transparent)]
    QueuePair(#[from] QueuePairError),
    /// An option that does not work.
    #[error("{setting} is {value}: {needed}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// What would work.
        needed: &'static str,
    },
    /// The operating system refused a thread.
    #[error("no thread for the transport: {0}")]
    Thread(String),
}
