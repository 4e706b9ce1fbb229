//! The bridge's end of the control plane.

use super::codec::{
    ControlError, FLAG_ACKNOWLEDGE, FLAG_SEQUENCE_CHECK, MAX_PACKET_BYTES, Reply, Request, ResponseCode,
    prefix,
};
use super::file::{RegisterFile, lock};
use ringcall::thread::{GRACE_PERIOD, STOP_CHECK_INTERVAL, StopFlag, Supervised};
use serde::Serialize;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// What to do with a host that asks for its sequence numbers to be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SequenceCheck {
    /// Take any number, as CUDA-Q Realtime's emulator does.
    #[default]
    Ignore,
    /// Refuse a number that is not the one after the last. A host with another address begins anew.
    Enforce,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerStats {
    /// Requests done.
    pub done: u64,
    /// Requests answered again without being done again, because their number had been there.
    pub repeated: u64,
    /// Requests refused: unknown commands, wrong lengths, registers or numbers.
    pub refused: u64,
    /// Packets too short for an answer.
    pub ignored: u64,
}

/// Answers requests on a UDP socket from a register file.
#[derive(Debug)]
pub struct ControlServer {
    socket: UdpSocket,
    file: Arc<Mutex<RegisterFile>>,
    check: SequenceCheck,
    stats: ServerStats,
    /// The last request done, without its flags, and its reply.
    last: Option<(SocketAddr, Vec<u8>, Reply)>,
}

impl ControlServer {
    /// A server on this socket.
    ///
    /// # Errors
    /// What the kernel says of the socket.
    pub fn new(socket: UdpSocket, file: Arc<Mutex<RegisterFile>>, check: SequenceCheck) -> io::Result<Self> {
        socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
        Ok(Self { socket, file, check, stats: ServerStats::default(), last: None })
    }

    /// What it has counted.
    #[must_use]
    pub const fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Answers one request, if one comes within a fiftieth of a second. Returns whether one came.
    ///
    /// # Errors
    /// What the kernel says, timeouts and hosts that went away apart.
    pub fn serve_one(&mut self) -> io::Result<bool> {
        let mut buffer = [0; MAX_PACKET_BYTES];
        let (length, peer) = match self.socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionRefused => Ok(false),
                    _ => Err(error),
                };
            }
        };
        if let Some(reply) = self.answer(peer, &buffer[..length]) {
            // A reply that cannot be sent is a reply lost: the host repeats.
            let _ = self.socket.send_to(&reply.encode(), peer);
        }
        Ok(true)
    }

    /// Executes the operation of a packet. Returns the reply, if it wants one.
    pub fn answer(&mut self, peer: SocketAddr, packet: &[u8]) -> Option<Reply> {
        let Some((command, flags, sequence)) = prefix(packet) else {
            self.stats.ignored += 1;
            return None;
        };
        let mut reply = Reply {
            command,
            flags,
            sequence,
            code: ResponseCode::SUCCESS,
            values: Vec::new(),
            latched: None,
        };
        // A repeat differs in its flags alone.
        let mut identity = packet.to_vec();
        identity[1] = 0;
        if let Some((last_peer, last, done)) = &self.last
            && *last_peer == peer
            && *last == identity
        {
            self.stats.repeated += 1;
            return (flags & FLAG_ACKNOWLEDGE != 0).then(|| Reply { flags, ..done.clone() });
        }
        reply.code = match Request::parse(packet) {
            Ok(request) => self.perform(peer, &request, &mut reply),
            Err(ControlError::Command(_)) => ResponseCode::INVALID_COMMAND,
            Err(ControlError::Length { .. } | ControlError::TooManyPairs(_)) => ResponseCode::INVALID_LENGTH,
        };
        if reply.code == ResponseCode::SUCCESS {
            self.stats.done += 1;
            self.last = Some((peer, identity, reply.clone()));
        } else {
            self.stats.refused += 1;
        }
        (flags & FLAG_ACKNOWLEDGE != 0).then_some(reply)
    }

    fn perform(&self, peer: SocketAddr, request: &Request<'_>, reply: &mut Reply) -> ResponseCode {
        let enforced = self.check == SequenceCheck::Enforce && request.flags & FLAG_SEQUENCE_CHECK != 0;
        if let Some((last_peer, _, done)) = &self.last
            && enforced
            && *last_peer == peer
            && request.sequence != done.sequence.wrapping_add(1)
        {
            reply.latched = Some(done.sequence);
            return ResponseCode::SEQUENCE_CHECK_FAILED;
        }
        let mut file = lock(&self.file);
        for (address, value) in request.pairs().iter() {
            let done = if request.command.reads() {
                file.read(address).map(|value| reply.values.push((address, value)))
            } else {
                file.write(address, value)
            };
            if done.is_err() {
                reply.values.clear();
                return ResponseCode::INVALID_ADDRESS;
            }
        }
        reply.latched = request.command.reads().then_some(request.sequence);
        ResponseCode::SUCCESS
    }

    /// Serves on its own thread until the handle is stopped or dropped.
    ///
    /// # Errors
    /// What the kernel says of the socket or the thread.
    pub fn spawn(mut self) -> io::Result<ServerHandle> {
        let address = self.socket.local_addr()?;
        let stop = StopFlag::default();
        let seen = stop.clone();
        let thread = Supervised::start("control", None, move || {
            while !seen.is_set() {
                self.serve_one()?;
            }
            Ok(self.stats)
        })?;
        Ok(ServerHandle { address, stop, thread })
    }
}

/// A server on its own thread.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    stop: StopFlag,
    thread: Supervised<io::Result<ServerStats>>,
}

impl ServerHandle {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it. Returns what it counted.
    ///
    /// # Errors
    /// What ended it before.
    pub fn stop(mut self) -> io::Result<ServerStats> {
        self.stop.set();
        self.thread.wait(GRACE_PERIOD).map_err(io::Error::other)?
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop.set();
        // The port is free again when this returns.
        let _ = self.thread.wait(GRACE_PERIOD);
    }
}
