//! Errors of the sensor bridge's emulator.

use ringcall_roce::reliable::ReliableError;
use ringcall_roce::{PacketError, QueuePairError, SocketError};
use std::io;

/// Why the emulator could not start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The data plane's socket could not be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A socket or thread failed.
    #[error("{what} failed: {source}")]
    Io {
        /// Which.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel took nothing for a second.
    #[error("no packet could be sent for a second: the network is stuck")]
    Stuck,
    /// A setting that does not work.
    #[error("{setting} is {value}: {needed}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What would work.
        needed: &'static str,
    },
    /// A window that is no request, or too long for a page.
    #[error(
        "window {index} has {bytes} bytes: a request has at least {least}, and a page of the target {most}"
    )]
    Window {
        /// Counted from 0.
        index: u64,
        /// Its length.
        bytes: usize,
        /// A header's bytes.
        least: usize,
        /// A page's bytes.
        most: u32,
    },
    /// Numbers that make no queue pair.
    #[error(transparent)]
    QueuePair(#[from] QueuePairError),
    /// The reliable connection has ended.
    #[error("the connection has ended: {0}")]
    Ended(#[from] ReliableError),
    /// A packet that cannot be built.
    #[error(transparent)]
    Packet(#[from] PacketError),
}

impl EmulatorError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
