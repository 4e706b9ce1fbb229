//! A transport of one's own as a shared library: requests over TCP. A file to copy, into a package whose library has
//! `crate-type = ["cdylib"]`. The same in C is `examples/c-provider` of the repository.
//!
//! ```sh
//! cargo build --release -p ringcall-bridge --example tcp_provider
//! cargo run --release -- serve --transport plugin:target/release/examples/libtcp_provider.so -- --num-slots=64 --slot-size=1024
//! ```
//!
//! On the wire a frame is its length (32 bits, little-endian), then header and payload. To put another network here:
//! implement [`Wire`], which moves frames and knows nothing of rings, and say by [`LinkedWire`] how it is made from
//! arguments. The rest (rings, slots, checks, both modes of the interface, a bounded stop) is there.
//!
//! | argument | what | default |
//! |---|---|---|
//! | `--port=N` | local TCP port; 0 takes a free one | 0 |
//! | those of every provider (`--num-slots`, `--slot-size`, `--unified`, `--stop-ms`, `--core`) | [`LinkedArguments`](ringcall_bridge::provider::LinkedArguments) | 8 slots of 256 bytes |

#![forbid(unsafe_code)]

use ringcall::RingConfig;
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, Linked, LinkedWire};
use ringcall_transport::wire::{ReceivedFrame, Sent, WireArrival};
use ringcall_transport::{Outbox, TransportAddress, Wire};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// The longest frame.
const MAX_FRAME_BYTES: usize = 1 << 16;
/// Before each frame.
const LENGTH_BYTES: usize = 4;
/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 64;
/// What may wait for a peer that does not read; then it is given up.
const PENDING_BYTES: usize = 1 << 20;
/// How long an idle thread sleeps.
const SLEEP: Duration = Duration::from_micros(50);

ringcall_bridge::export_provider!(Linked<Tcp>);

impl LinkedWire for Tcp {
    const NAME: &'static str = "example-tcp";
    type Wire = Self;

    fn bind(args: &Args, _: RingConfig, before: Option<&TransportAddress>) -> Result<Self, Refused> {
        let asked = SocketAddr::from((Ipv4Addr::LOCALHOST, args.number("--port", 0)?));
        let address = before.map_or(asked, |before| before.address);
        Self::listen(address).map_err(|e| Refused::internal(format!("cannot listen at {address}: {e}")))
    }
}

/// A listening socket and its connections.
#[derive(Debug)]
pub struct Tcp {
    listener: TcpListener,
    address: SocketAddr,
    connections: Vec<Option<Connection>>,
    /// The number of the next connection: none is given twice, so an answer never reaches a stranger.
    next: u64,
    receive_bytes: usize,
    first: usize,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    stream: TcpStream,
    received: Vec<u8>,
    pending: Vec<u8>,
}

/// Who asked: an index in the table, and the connection that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    index: usize,
    number: u64,
}

impl Tcp {
    fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, connections: Vec::new(), next: 0, receive_bytes: 0, first: 0 })
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let free = self.connections.iter().position(Option::is_none);
            let index = free.unwrap_or(self.connections.len());
            if index >= CONNECTIONS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            let connection =
                Connection { number: self.next, stream, received: Vec::new(), pending: Vec::new() };
            self.next += 1;
            match self.connections.get_mut(index) {
                Some(empty) => *empty = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
    }
}

impl Connection {
    /// Reads the bytes that are there, one frame's worth at most; false if the peer is gone.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 4096];
        while self.received.len() < LENGTH_BYTES + MAX_FRAME_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.received.extend_from_slice(&buffer[..n]),
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
        }
        true
    }

    /// The length of the first frame, if all of it is here; an error if nothing that begins so can be a frame.
    fn frame(&self) -> Result<Option<usize>, ()> {
        let Some((length, rest)) = self.received.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(());
        }
        Ok((rest.len() >= length).then_some(length))
    }

    /// Sends what waits; false if the peer is gone.
    fn flush(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(0) => return false,
                Ok(n) => drop(self.pending.drain(..n)),
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
        }
        true
    }
}

impl Wire for Tcp {
    type Peer = Peer;
    const NAMES_SLOTS: bool = false;

    fn endpoint(&self) -> TransportAddress {
        TransportAddress::new("example-tcp", self.address)
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_FRAME_BYTES
    }

    fn open(&mut self, receive_bytes: usize, _send_bytes: usize) -> io::Result<()> {
        self.receive_bytes = receive_bytes;
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, Peer>)) -> io::Result<()> {
        self.accept();
        let mut left = limit;
        let count = self.connections.len();
        for step in 0..count {
            // Another one is first each time: a busy peer does not keep the others out.
            let index = (self.first + step) % count;
            let Some(connection) = &mut self.connections[index] else { continue };
            let mut alive = connection.flush() && connection.fill();
            let from = Peer { index, number: connection.number };
            let whole = loop {
                let len = match connection.frame() {
                    Ok(Some(_)) if left == 0 => break true,
                    Ok(Some(len)) => len,
                    Ok(None) => break false,
                    Err(()) => {
                        // The beginning of the next frame is unknown.
                        take(WireArrival::Malformed);
                        alive = false;
                        break false;
                    }
                };
                let frame = &connection.received[LENGTH_BYTES..LENGTH_BYTES + len];
                let bytes = &frame[..len.min(self.receive_bytes)];
                take(WireArrival::Frame(ReceivedFrame { from, slot: None, bytes, len }));
                connection.received.drain(..LENGTH_BYTES + len);
                left -= 1;
            };
            // Frames that came whole are served though their sender is gone.
            if !alive && !whole {
                self.connections[index] = None;
            }
            if left == 0 {
                break;
            }
        }
        self.first = if count == 0 { 0 } else { (self.first + 1) % count };
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<Peer>) -> Sent {
        for (frames, frame) in outbox.frames().enumerate() {
            let found = self.connections.get_mut(frame.to.index);
            let Some(entry) = found.filter(|at| at.as_ref().is_some_and(|c| c.number == frame.to.number))
            else {
                return Sent { frames, error: Some(ErrorKind::NotConnected.into()) };
            };
            let Some(connection) = entry else { continue };
            connection.pending.extend_from_slice(&(frame.bytes.len() as u32).to_le_bytes());
            connection.pending.extend_from_slice(frame.bytes);
            if !connection.flush() || connection.pending.len() > PENDING_BYTES {
                *entry = None;
                return Sent { frames, error: Some(ErrorKind::ConnectionReset.into()) };
            }
        }
        Sent { frames: outbox.len(), error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        std::thread::sleep(SLEEP.min(timeout));
        Ok(())
    }
}
