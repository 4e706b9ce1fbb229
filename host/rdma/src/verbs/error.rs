//! Errors of an adapter's queue pair, by name.

use std::io;
use std::net::Ipv4Addr;

/// Why no queue pair was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerbsError {
    /// rdma-core is not installed, or too old.
    #[error("libibverbs.so.1 cannot be used: {0}: install rdma-core (Debian: libibverbs1 ibverbs-providers)")]
    Library(String),
    /// The device does not exist.
    #[error("there is no RDMA device `{name}`: {}", known(.devices))]
    NoDevice {
        /// The requested name.
        name: String,
        /// The names of the existing devices.
        devices: Vec<String>,
    },
    /// The device has no address for RoCE v2 over IPv4.
    #[error("RDMA device `{name}` has no RoCE v2 address{}: see /sys/class/infiniband/{name}/ports/1/gids", of(.wanted))]
    NoAddress {
        /// The device.
        name: String,
        /// The requested address.
        wanted: Option<Ipv4Addr>,
    },
    /// A setting with an invalid value.
    #[error("{setting} is {value}: {needed}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u64,
        /// The valid values.
        needed: &'static str,
    },
    /// The driver refused.
    #[error("{what} failed: {why}")]
    Driver {
        /// The attempted operation.
        what: &'static str,
        /// The driver's error.
        why: io::Error,
    },
}

fn known(devices: &[String]) -> String {
    if devices.is_empty() {
        "this machine has none".to_owned()
    } else {
        format!("there are {}", devices.join(", "))
    }
}

fn of(wanted: &Option<Ipv4Addr>) -> String {
    wanted.map_or_else(String::new, |ip| format!(" {ip}"))
}

/// Why a connected queue pair has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairFault {
    /// The peer acknowledged nothing.
    #[error("transport retries exceeded: the peer is gone, or its queue pair is in the error state")]
    RetriesExceeded,
    /// The peer had no receive posted in any attempt.
    #[error("receiver-not-ready retries exceeded: the peer posts no receives")]
    NotReadyRetriesExceeded,
    /// The peer refused a message for its key, its address or its operation.
    #[error("the peer refused a message: {0}")]
    Refused(&'static str),
    /// A request of this side failed, or a request of the peer broke the queue pair.
    #[error("the queue pair is in the error state: {0}")]
    Error(&'static str),
    /// The device was removed or reset, or lost the address that it was opened with.
    #[error("the RDMA device was removed, or its address")]
    DeviceRemoved,
}

/// Why a message was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Every slot to send from is in use.
    #[error("as many messages are under way as there are slots")]
    Full,
    /// The message does not fit a slot.
    #[error("a message of {bytes} bytes, where {most} are the most")]
    TooLong {
        /// The message's bytes.
        bytes: usize,
        /// The most bytes.
        most: usize,
    },
    /// The queue pair is not connected.
    #[error("the queue pair is not connected")]
    NotConnected,
    /// The driver refused.
    #[error("the driver refused a message (error {0})")]
    Driver(i32),
}
