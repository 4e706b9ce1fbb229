//! UDP as a subject of the suite.
#![allow(dead_code)] // each test binary uses some of it

use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring};
use ringcall_transport::conformance::{FrameClient, Subject, datagrams, serve};
use ringcall_transport::{Link, RingFilling, TransportAddress, TransportError, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// UDP in one of its forms.
pub(crate) struct Udp {
    /// Transport and dispatcher on one thread.
    pub(crate) one_thread: bool,
    /// The loopback address.
    pub(crate) ip: IpAddr,
}

pub(crate) const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

impl Subject for Udp {
    fn start(
        &self,
        ring: &Ring,
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let address = at.map_or(SocketAddr::new(self.ip, 0), |endpoint| endpoint.address);
        let link = Link::attach(udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() })?, ring)?;
        serve(link, dispatcher, self.one_thread)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        datagrams(service).unwrap()
    }
}
