//! UDP as a bridge provider: what the reference ships as `libcudaq-realtime-bridge-udp.so`, over
//! [`ringcall_transport::udp`], with the same arguments and the same packets.
//!
//! | argument | what | default |
//! |---|---|---|
//! | `--port=N` | local UDP port; 0 takes a free one | 0 |
//! | `--bind=IP` | local address, IPv4 or IPv6 | 127.0.0.1 |
//! | those of every provider of ours | [`Shape`](ringcall_bridge::provider::Shape) | 8 slots of 256 bytes |
//!
//! Others are ignored, but for `--pinned-rings`, which is refused.

#![forbid(unsafe_code)]

use ringcall::RingConfig;
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, Linked, LinkedWire};
use ringcall_transport::{Endpoint, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The provider's wire.
#[derive(Debug)]
pub enum Udp {}

impl LinkedWire for Udp {
    const NAME: &'static str = "bridge-udp";
    type Wire = udp::Udp;

    fn bind(args: &Args, _: RingConfig, before: Option<&Endpoint>) -> Result<udp::Udp, Refused> {
        let ip = args.number("--bind", IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let asked = SocketAddr::new(ip, args.number("--port", 0)?);
        let address = before.map_or(asked, |before| before.address);
        Ok(udp::Udp::bind(&udp::Options { address, ..Default::default() })?)
    }
}

ringcall_bridge::export_provider!(Linked<Udp>);
