//! Parts of the suite's subjects: transports with a dispatcher, and clients that send datagrams.

use super::FrameClient;
use crate::{
    Link, OneThread, RingFilling, ThreadOptions, Threaded, TransportAddress, TransportError,
    TransportStopReport, TransportWatch, Wire,
};
use ringcall::HostDispatcher;
use ringcall::dispatcher::{Running, Wired};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

/// Starts a link, with the dispatcher on the link's thread or on its own.
///
/// # Errors
/// The transport's error, or the dispatcher's at its start.
pub fn serve<W: Wire + 'static>(
    link: Link<W>,
    dispatcher: Option<HostDispatcher<Wired>>,
    one_thread: bool,
) -> Result<Box<dyn RingFilling>, TransportError> {
    let options = ThreadOptions::default();
    match dispatcher {
        Some(dispatcher) if one_thread => Ok(alone(OneThread::start(link, dispatcher, &options)?)),
        other => beside(Threaded::start(link, &options)?, other),
    }
}

/// Starts a dispatcher next to a running transport. It is stopped after the transport.
///
/// # Errors
/// The dispatcher's error at its start.
pub fn beside<T: RingFilling + 'static>(
    transport: T,
    dispatcher: Option<HostDispatcher<Wired>>,
) -> Result<Box<dyn RingFilling>, TransportError> {
    let dispatcher = dispatcher
        .map(HostDispatcher::start)
        .transpose()
        .map_err(|error| TransportError::Thread(error.to_string()))?;
    Ok(Box::new(Beside { transport, dispatcher }))
}

/// A transport and its dispatcher on one thread.
#[must_use]
pub fn alone(both: OneThread) -> Box<dyn RingFilling> {
    Box::new(Alone(both))
}

/// A client that sends and receives datagrams only, connected to `service` from an address of its own.
///
/// # Errors
/// The socket's error.
pub fn datagrams(service: &TransportAddress) -> io::Result<Box<dyn FrameClient>> {
    let local: IpAddr = match service.address.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect(service.address)?;
    Ok(Box::new(Datagrams(socket)))
}

struct Beside<T> {
    transport: T,
    dispatcher: Option<HostDispatcher<Running>>,
}

impl<T: RingFilling> RingFilling for Beside<T> {
    fn endpoint(&self) -> &TransportAddress {
        self.transport.endpoint()
    }

    fn watch(&self) -> TransportWatch {
        self.transport.watch()
    }

    fn stop(self: Box<Self>, deadline: Duration) -> TransportStopReport {
        let Self { transport, dispatcher } = *self;
        let report = Box::new(transport).stop(deadline);
        assert!(dispatcher.is_none_or(|dispatcher| !dispatcher.stop(deadline).report.stuck));
        report
    }
}

struct Alone(OneThread);

impl RingFilling for Alone {
    fn endpoint(&self) -> &TransportAddress {
        self.0.endpoint()
    }

    fn watch(&self) -> TransportWatch {
        self.0.watch()
    }

    fn stop(self: Box<Self>, deadline: Duration) -> TransportStopReport {
        let (report, dispatcher) = self.0.stop(deadline);
        assert!(dispatcher.is_some());
        report
    }
}

struct Datagrams(UdpSocket);

impl FrameClient for Datagrams {
    fn send(&mut self, frame: &[u8]) {
        self.send_raw(frame);
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        // A frame that the network does not take is lost, as any frame may be.
        let _ = self.0.send(bytes);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(timeout)).ok()?;
        let mut buffer = vec![0; 65536];
        let len = self.0.recv(&mut buffer).ok()?;
        buffer.truncate(len);
        Some(buffer)
    }
}
