//! UDP as a bridge provider over [`ringcall_transport::udp`], with the arguments and packets of the reference's
//! `libcudaq-realtime-bridge-udp.so`.
//!
//! | argument | meaning | default |
//! |---|---|---|
//! | `--port=N` | local UDP port; 0 takes a free one | 0 |
//! | `--bind=IP` | local address, IPv4 or IPv6 | 127.0.0.1 |
//! | `--pinned-rings` | the ring in pinned host memory, at the same addresses for the current CUDA device | ordinary host memory |
//! | those of all Ringcall providers | [`LinkedArguments`](ringcall_bridge::provider::LinkedArguments) | 8 slots of 256 bytes |
//!
//! Other arguments are ignored.

#![forbid(unsafe_code)]

use ringcall::{Ring, RingConfig};
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, Linked, LinkedWire};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::Driver;
use ringcall_launch::ring::MappedRing;
use ringcall_transport::{TransportAddress, udp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The provider's wire.
#[derive(Debug)]
pub enum Udp {}

impl LinkedWire for Udp {
    const NAME: &'static str = "bridge-udp";
    type Wire = udp::Udp;

    fn memory(args: &Args, config: RingConfig) -> Result<Ring, Refused> {
        if args.flag("--pinned-rings") {
            return pinned(config);
        }
        Ring::allocate(config).map_err(|error| Refused::invalid(error.to_string()))
    }

    fn bind(args: &Args, _: RingConfig, before: Option<&TransportAddress>) -> Result<udp::Udp, Refused> {
        let ip = args.number("--bind", IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let asked = SocketAddr::new(ip, args.number("--port", 0)?);
        let address = before.map_or(asked, |before| before.address);
        Ok(udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() })?)
    }
}

/// A ring that a kernel can poll. CUDA's driver is loaded only for such a ring.
fn pinned(config: RingConfig) -> Result<Ring, Refused> {
    let context = || -> Result<_, CudaError> {
        let driver = Driver::load()?;
        driver.device(driver.current_device()?)?.context()
    };
    let refused = |error: &dyn std::fmt::Display| Refused::unsupported(format!("--pinned-rings: {error}"));
    let context = context().map_err(|error| refused(&error))?;
    let ring = MappedRing::allocate(&context, config).map_err(|error| refused(&error))?;
    Ok(ring.ring().clone())
}

ringcall_bridge::export_provider!(Linked<Udp>);

#[cfg(test)]
mod tests {
    use super::*;

    /// With a device the ring is created; without one the refusal says what was asked for.
    #[test]
    fn pinned_rings_need_a_device() {
        let config = RingConfig { slots: 8, slot_bytes: 256 };
        match Udp::memory(&Args::new(["--pinned-rings"]), config) {
            Ok(ring) => assert_eq!(ring.geometry().slots(), 8),
            Err(refused) => {
                let status = Refused::unsupported("").status;
                assert_eq!(refused.status, status);
                assert!(refused.why.starts_with("--pinned-rings: "), "{refused:?}");
            }
        }
        assert!(Udp::memory(&Args::new(["--port=0"]), config).is_ok());
    }
}
