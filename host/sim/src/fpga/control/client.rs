//! The host's end of the control plane.

use super::codec::{
    Command, ControlError, FLAG_ACKNOWLEDGE, FLAG_SEQUENCE_CHECK, MAX_PACKET_BYTES, MAX_PAIRS, Reply,
    Request, ResponseCode,
};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How long and how often a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long one attempt waits for its reply.
    pub timeout: Duration,
    /// Attempts in all, 1 at least.
    pub attempts: u32,
    /// Whether the first attempt asks the bridge to check the sequence number. Repeats never do: the bridge may have done
    /// the first and its reply been lost.
    pub sequence_check: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_millis(200), attempts: 5, sequence_check: false }
    }
}

/// Why a register was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket.
    #[error("the control plane's socket failed: {0}")]
    Io(#[from] io::Error),
    /// Nobody answered.
    #[error("{peer} did not answer {attempts} times within {timeout:?}: is a bridge or an emulator there?")]
    NoAnswer {
        /// Who was asked.
        peer: SocketAddr,
        /// How often.
        attempts: u32,
        /// How long each time.
        timeout: Duration,
    },
    /// The bridge refused.
    #[error("the bridge answered {0}")]
    Refused(ResponseCode),
    /// The request cannot be made, or the reply is not the request's.
    #[error(transparent)]
    Packet(#[from] ControlError),
    /// A reply with other registers than asked for.
    #[error("the reply has other registers than the request")]
    OtherRegisters,
}

/// Reads and writes a bridge's registers: one command at a time, repeated after a timeout. Replies with another sequence
/// number are ignored.
#[derive(Debug)]
pub struct ControlClient {
    socket: UdpSocket,
    peer: SocketAddr,
    options: ClientOptions,
    sequence: u16,
    packet: Vec<u8>,
}

/// What hosts begin with.
const FIRST_SEQUENCE: u16 = 0x100;

impl ControlClient {
    /// A client of the bridge at `peer`. Nothing is sent yet.
    ///
    /// # Errors
    /// What the kernel says of the socket.
    pub fn connect(peer: SocketAddr, options: ClientOptions) -> Result<Self, ClientError> {
        let socket = match peer {
            SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        }?;
        socket.connect(peer)?;
        Ok(Self { socket, peer, options, sequence: FIRST_SEQUENCE, packet: Vec::new() })
    }

    /// Writes one register.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn write(&mut self, address: u32, value: u32) -> Result<(), ClientError> {
        self.exchange(Command::WriteWord, &[(address, value)]).map(|_| ())
    }

    /// Writes registers, in order, in as few packets as they fit.
    ///
    /// # Errors
    /// See [`ClientError`]; earlier packets stay done.
    pub fn write_all(&mut self, pairs: &[(u32, u32)]) -> Result<(), ClientError> {
        pairs.chunks(MAX_PAIRS).try_for_each(|chunk| self.exchange(Command::WriteBlock, chunk).map(|_| ()))
    }

    /// Reads one register.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn read(&mut self, address: u32) -> Result<u32, ClientError> {
        let reply = self.exchange(Command::ReadWord, &[(address, 0)])?;
        let &[(_, value)] = &reply.values[..] else { return Err(ClientError::OtherRegisters) };
        Ok(value)
    }

    /// Reads `count` registers from `address` on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn read_all(&mut self, address: u32, count: u32) -> Result<Vec<u32>, ClientError> {
        let pairs: Vec<(u32, u32)> = (0..count).map(|k| (address.wrapping_add(4 * k), 0)).collect();
        let mut values = Vec::with_capacity(pairs.len());
        for chunk in pairs.chunks(MAX_PAIRS) {
            let reply = self.exchange(Command::ReadBlock, chunk)?;
            values.extend(reply.values.iter().map(|(_, value)| value));
        }
        Ok(values)
    }

    fn exchange(&mut self, command: Command, pairs: &[(u32, u32)]) -> Result<Reply, ClientError> {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let attempts = self.options.attempts.max(1);
        for attempt in 0..attempts {
            let check = self.options.sequence_check && attempt == 0;
            let flags = FLAG_ACKNOWLEDGE | if check { FLAG_SEQUENCE_CHECK } else { 0 };
            Request::encode(command, flags, sequence, pairs, &mut self.packet)?;
            match self.socket.send(&self.packet) {
                // An earlier packet met no listener; there may be one now.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                sent => drop(sent?),
            }
            let Some(reply) = self.wait_for(sequence)? else { continue };
            if reply.code != ResponseCode::SUCCESS {
                return Err(ClientError::Refused(reply.code));
            }
            let asked = pairs.iter().map(|(address, _)| address);
            if command.reads() && !asked.eq(reply.values.iter().map(|(address, _)| address)) {
                return Err(ClientError::OtherRegisters);
            }
            return Ok(reply);
        }
        let timeout = self.options.timeout;
        Err(ClientError::NoAnswer { peer: self.peer, attempts, timeout })
    }

    fn wait_for(&self, sequence: u16) -> Result<Option<Reply>, ClientError> {
        let deadline = Instant::now() + self.options.timeout;
        let mut buffer = [0; MAX_PACKET_BYTES];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut buffer) {
                // Anything but the reply waited for is left over from before.
                Ok(length) => match Reply::parse(&buffer[..length]) {
                    Ok(reply) if reply.sequence == sequence => return Ok(Some(reply)),
                    _ => {}
                },
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(None),
                    io::ErrorKind::Interrupted => {}
                    // No peer listens yet: wait this attempt out.
                    io::ErrorKind::ConnectionRefused => {
                        std::thread::sleep(left.min(Duration::from_millis(20)));
                    }
                    _ => return Err(error.into()),
                },
            }
        }
    }
}
