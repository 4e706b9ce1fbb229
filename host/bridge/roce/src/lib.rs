//! RoCE v2 as a bridge provider: in software over [`ringcall_transport::roce`], or over an adapter's queue pair
//! ([`ringcall_transport::verbs`]).
//!
//! Without an adapter:
//!
//! | argument | meaning | default |
//! |---|---|---|
//! | `--port=N` | local UDP port; hardware sends only to 4791; 0 takes a free one | 0 |
//! | `--local-ip=IP` | local address, IPv4 | 127.0.0.1 |
//! | `--qp=N` | queue pair number, decimal | 18 |
//! | `--rkey=N` | key to the window, decimal | a random one, named by the endpoint |
//! | `--remote-qp=N` | queue pair to which answers go | 2 |
//! | `--peer=IP:PORT` | the only peer, which gets every answer | the peer that brings the key |
//! | `--frame-size=BYTES` | pages of the window, a multiple of 128 | the slot, rounded up |
//! | those of all Ringcall providers | [`LinkedArguments`](ringcall_bridge::provider::LinkedArguments) | 64 slots of 1024 bytes |
//!
//! With `--device` or `--qp_config`, over an adapter; the names are those of the CUDA-Q reference's CPU RoCE provider:
//!
//! | argument | meaning | default |
//! |---|---|---|
//! | `--device=NAME` | the RDMA device | `mlx5_0` |
//! | `--local-ip=IP` | the device's address, if it has several | its first |
//! | `--qp_config=rendezvous` | a peer introduces itself by TCP at `--port` (0 takes a free one) of that address | unless `--peer-ip` is given |
//! | `--qp_config=hsb_fpga` | the peer is the queue pair `--remote-qp` (0x2) at `--peer-ip` | if `--peer-ip` is given |
//! | `--frame-size=BYTES` | accepted as by the reference, and refused if a slot cannot hold such a frame; frames are as long as their headers say | the slot |
//! | those of all Ringcall providers | [`LinkedArguments`](ringcall_bridge::provider::LinkedArguments) | 64 slots of 1024 bytes |
//!
//! A slot of the ring is a page of the window. Other arguments are ignored.

#![forbid(unsafe_code)]

mod adapter;
mod provider;

pub use provider::RoceProvider;

use ringcall::RingConfig;
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, LinkedWire};
use ringcall_roce::{PAGE_UNIT_BYTES, PortOptions, random_key};
use ringcall_transport::{TransportAddress, roce};
use std::net::{Ipv4Addr, SocketAddrV4};

/// The default ring.
const SHAPE: RingConfig = RingConfig { slots: 64, slot_bytes: 1024 };

/// The wire without an adapter.
#[derive(Debug)]
pub enum Roce {}

impl LinkedWire for Roce {
    const NAME: &'static str = "bridge-roce";
    const SHAPE: RingConfig = SHAPE;
    type Wire = roce::Roce;

    fn bind(args: &Args, ring: RingConfig, before: Option<&TransportAddress>) -> Result<roce::Roce, Refused> {
        let slot = ring.slot_bytes.next_multiple_of(PAGE_UNIT_BYTES);
        let defaults = PortOptions::new(ring.slots, args.number("--frame-size", slot)?);
        let port = before.map_or(args.number("--port", 0)?, |before| before.address.port());
        let peer = args.value("--peer").map(|_| args.number("--peer", defaults.address)).transpose()?;
        let port = PortOptions {
            address: SocketAddrV4::new(args.number("--local-ip", Ipv4Addr::LOCALHOST)?, port),
            qp: args.number("--qp", defaults.qp)?,
            key: args.number("--rkey", before.and_then(key_of).unwrap_or_else(random_key))?,
            remote_qp: args.number("--remote-qp", defaults.remote_qp)?,
            peer,
            ..defaults
        };
        Ok(roce::Roce::bind(&roce::RoceOptions { port, ..Default::default() })?)
    }
}

/// The key in a provider's endpoint, which the provider keeps when it is bound again.
fn key_of(endpoint: &TransportAddress) -> Option<u32> {
    let (_, text) = endpoint.details.iter().find(|(name, _)| *name == "rkey")?;
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

ringcall_bridge::export_provider!(RoceProvider);
