//! RoCE v2 over UDP sockets.
//!
//! A sensor bridge writes requests into a host's memory by RDMA WRITE and takes answers by SEND. This crate does the
//! host's part in software, over an ordinary UDP socket, without an RDMA adapter. It knows packets, queue pairs and
//! windows of memory, and nothing of rings or RPC.
//!
//! | module | |
//! |---|---|
//! | [`opcode`], [`packet`], [`icrc`], [`psn`], [`immediate`] | the wire format |
//! | [`message`], [`mtu`] | messages, cut into packets by the path MTU |
//! | [`responder`], [`reason`] | the receiving end of a queue pair: checks, frames, counters |
//! | [`reliable`] | the reliable service: acknowledgements and retransmission |
//! | [`port`] | options of a queue pair on a socket |
//! | [`peers`] | the peers of a queue pair, each with a window |
//! | [`drops`] | datagrams that the operating system dropped for a socket |
//! | [`socket`] | packets with right iCRCs from a UDP socket, in batches |
//! | [`rendezvous`], [`introduced`] | two queue pairs introduced to each other over TCP; the introduced peers |
//!
//! A [`Responder`] serves the unreliable connected (UC) service, a [`reliable::Connection`] the reliable one (RC).

#![forbid(unsafe_code)]

mod bytes;
mod crc_shift;
pub mod drops;
pub mod error;
mod frame;
mod hosts;
pub mod icrc;
pub mod immediate;
pub mod introduced;
pub mod message;
pub mod mtu;
pub mod opcode;
pub mod packet;
pub mod peers;
pub mod port;
pub mod psn;
pub mod reason;
pub mod reliable;
pub mod rendezvous;
pub mod responder;
pub mod socket;

pub use drops::SocketDrops;
pub use error::PacketError;
pub use hosts::Hosts;
pub use icrc::{Envelope, IcrcCheck, ROCE_PORT};
pub use immediate::{Immediate, MAX_PAGES, PAGE_UNIT_BYTES};
pub use message::{Message, MessageOperation};
pub use mtu::PathMtu;
pub use opcode::Opcode;
pub use packet::{Aeth, Bth, MAX_OVERHEAD_BYTES, Packet, Reth};
pub use peers::{PeerQueuePair, Peers};
pub use port::{PortOptions, random_key};
pub use psn::{Psn, PsnOrder, PsnTracker};
pub use reason::{Reason, Refusals};
pub use responder::{
    ArrivedFrame, Busy, Incomplete, LocalQueuePair, NoMemory, PacketEffect, PeerMemory, QueuePairError,
    Responder, ResponderStats,
};
pub use socket::{BATCH, Datagrams, Inbox, PacketOutbox, PushError, RoceSocket, SocketError};
