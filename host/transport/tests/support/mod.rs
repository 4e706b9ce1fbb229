//! UDP as a subject of the suite.
#![allow(dead_code)] // each test binary uses some of it

use ringcall::dispatcher::{Running, Wired};
use ringcall::{HostDispatcher, Ring};
use ringcall_transport::conformance::{Client, Subject};
use ringcall_transport::{
    Endpoint, Link, OneThread, RingFilling, StopReport, ThreadOptions, Threaded, TransportError, Watch, Wire,
    udp,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

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
        at: Option<&Endpoint>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let address = at.map_or(SocketAddr::new(self.ip, 0), |endpoint| endpoint.address);
        let link = Link::attach(udp::Udp::bind(&udp::Options { address, ..Default::default() })?, ring)?;
        serve(link, dispatcher, self.one_thread)
    }

    fn client(&self, service: &Endpoint) -> Box<dyn Client> {
        let socket = UdpSocket::bind(SocketAddr::new(self.ip, 0)).unwrap();
        socket.connect(service.address).unwrap();
        Box::new(Plain(socket))
    }
}

/// A client that knows nothing but datagrams.
struct Plain(UdpSocket);

impl Client for Plain {
    fn send(&mut self, frame: &[u8]) {
        self.send_raw(frame);
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        self.0.send(bytes).unwrap();
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(timeout)).unwrap();
        let mut buffer = vec![0; 65536];
        let len = self.0.recv(&mut buffer).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }
}

/// Starts a link, with the dispatcher on its thread or on one of its own.
pub(crate) fn serve<W: Wire + 'static>(
    link: Link<W>,
    dispatcher: Option<HostDispatcher<Wired>>,
    one_thread: bool,
) -> Result<Box<dyn RingFilling>, TransportError> {
    let options = ThreadOptions::default();
    Ok(match dispatcher {
        None => Box::new(Threaded::start(link, &options)?),
        Some(dispatcher) if one_thread => Box::new(Alone(OneThread::start(link, dispatcher, &options)?)),
        Some(dispatcher) => {
            let dispatcher = dispatcher.start().map_err(|e| TransportError::Thread(e.to_string()))?;
            Box::new(Beside { transport: Threaded::start(link, &options)?, dispatcher })
        }
    })
}

pub(crate) struct Alone(pub(crate) OneThread);

impl RingFilling for Alone {
    fn endpoint(&self) -> &Endpoint {
        self.0.endpoint()
    }

    fn watch(&self) -> Watch {
        self.0.watch()
    }

    fn stop(self: Box<Self>, deadline: Duration) -> StopReport {
        let (report, dispatcher) = self.0.stop(deadline);
        assert!(dispatcher.is_some());
        report
    }
}

pub(crate) struct Beside {
    pub(crate) transport: Threaded,
    pub(crate) dispatcher: HostDispatcher<Running>,
}

impl RingFilling for Beside {
    fn endpoint(&self) -> &Endpoint {
        self.transport.endpoint()
    }

    fn watch(&self) -> Watch {
        self.transport.watch()
    }

    fn stop(self: Box<Self>, deadline: Duration) -> StopReport {
        let Self { transport, dispatcher } = *self;
        let report = Box::new(transport).stop(deadline);
        assert!(!dispatcher.stop(deadline).report.stuck);
        report
    }
}
