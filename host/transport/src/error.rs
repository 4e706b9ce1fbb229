//! Errors of making and starting a transport.

use ringcall_rdma::verbs::VerbsError;
use ringcall_roce::{QueuePairError, SocketError};
use std::io;
use std::net::SocketAddr;

/// Why a transport cannot be made or started. Later errors are counted, not returned.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address is in use, is not this machine's, or is forbidden.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// A socket option or buffer was refused.
    #[error("cannot set up the socket: {0}")]
    Socket(#[from] io::Error),
    /// A slot of the ring is longer than the longest frame of the wire.
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
    /// The queue pair's socket cannot be opened.
    #[error(transparent)]
    Roce(#[from] SocketError),
    /// The adapter's queue pair cannot be opened.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
    /// The numbers do not form a valid queue pair.
    #[error(transparent)]
    QueuePair(#[from] QueuePairError),
    /// An option with an invalid value.
    #[error("{setting} is {value}: {needed}")]
    Setting {
        /// The option.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The valid values.
        needed: &'static str,
    },
    /// The operating system refused a thread.
    #[error("no thread for the transport: {0}")]
    Thread(String),
}
