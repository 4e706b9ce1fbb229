//! TCP rendezvous of two queue pairs: each sends 12 bytes, then the connection closes.
//!
//! `{queue pair u32, key u32, IPv4 address u32}`, big-endian; the caller writes first, the service replies. The CUDA-Q
//! reference's CPU RoCE transport speaks this protocol with `--qp_config=rendezvous`. (The reference's service takes
//! one caller and closes; this one takes any number.)

use crate::hosts::Hosts;
use crate::psn::Psn;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes sent each way.
pub const BYTES: usize = 12;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSide {
    /// Queue pair number, 24 bits.
    pub qp: u32,
    /// The key to the window; 0 if there is none.
    pub key: u32,
    /// The address that its packets come from and go to.
    pub ip: Ipv4Addr,
}

impl ConnectionSide {
    /// The side in its wire format.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let fields = [self.qp, self.key, self.ip.to_bits()];
        for (bytes, field) in out.chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// Parses a side.
    ///
    /// # Errors
    /// A queue pair number of more than 24 bits, which a peer with another protocol sends.
    pub fn from_bytes(bytes: [u8; BYTES]) -> io::Result<Self> {
        let [q0, q1, q2, q3, k0, k1, k2, k3, ip @ ..] = bytes;
        let qp = u32::from_be_bytes([q0, q1, q2, q3]);
        if qp > Psn::MASK {
            let why = format!("{qp:#x} is no queue pair number: is this a rendezvous?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Self { qp, key: u32::from_be_bytes([k0, k1, k2, k3]), ip: ip.into() })
    }
}

/// The service's end of a rendezvous: serves many callers at a time and blocks for none.
///
/// ```
/// use ringcall_roce::rendezvous::{RendezvousService, ConnectionSide, call};
/// use std::net::Ipv4Addr;
/// use std::time::Duration;
///
/// let mut service = RendezvousService::bind("127.0.0.1:0".parse()?)?;
/// let address = service.local_addr()?;
/// let here = ConnectionSide { qp: 0x12, key: 0xBEEF, ip: Ipv4Addr::LOCALHOST };
/// let there = ConnectionSide { qp: 0x2, key: 0, ip: Ipv4Addr::LOCALHOST };
/// let caller = std::thread::spawn(move || call(address, there, Duration::from_secs(5)));
/// let mut heard = None;
/// while heard.is_none() {
///     service.turn(here, |outcome| heard = Some(outcome));
///     std::thread::sleep(Duration::from_millis(1));
/// }
/// assert_eq!(heard.transpose()?, Some(there));
/// assert_eq!(caller.join().expect("it ran")?, here);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RendezvousService {
    listener: TcpListener,
    callers: Vec<Caller>,
    allowed: Hosts,
}

/// The longest time that a connection may take.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The most connections at a time; further callers wait until one ends.
const MOST_CALLERS: usize = 256;

impl RendezvousService {
    /// Listens at `address`.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, callers: Vec::new(), allowed: Hosts::ANY })
    }

    /// Serves only these hosts: connections of other hosts are closed without a reply.
    #[must_use]
    pub fn only(mut self, allowed: Hosts) -> Self {
        self.allowed = allowed;
        self
    }

    /// The address at which the service listens.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts new callers, and advances each connection as far as possible without blocking. Returns how many
    /// connections are left. `ended` gets the side of each caller that was answered, or why a caller was not: it sent
    /// less than 12 bytes or other bytes, or took longer than a second.
    pub fn turn(&mut self, here: ConnectionSide, ended: impl FnMut(io::Result<ConnectionSide>)) -> usize {
        self.turn_with(|_| here, ended)
    }

    /// [`turn`](Self::turn), but `meet` chooses the reply to each caller's side. `meet` runs before the reply is sent,
    /// so its effects are in place before the caller's first packet.
    pub fn turn_with(
        &mut self,
        mut meet: impl FnMut(ConnectionSide) -> ConnectionSide,
        mut ended: impl FnMut(io::Result<ConnectionSide>),
    ) -> usize {
        while self.callers.len() < MOST_CALLERS {
            // An error means that a caller has gone, or that descriptors are short for now.
            let Ok((stream, from)) = self.listener.accept() else { break };
            let is_allowed = match from.ip().to_canonical() {
                IpAddr::V4(host) => self.allowed.hears(host),
                IpAddr::V6(_) => self.allowed == Hosts::ANY,
            };
            if !is_allowed {
                ended(Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!("{} is no peer that is served", from.ip()),
                )));
                continue;
            }
            if stream.set_nonblocking(true).is_ok() {
                self.callers.push(Caller::new(stream));
            }
        }
        self.callers.retain_mut(|caller| match caller.turn(&mut meet) {
            Ok(None) => true,
            Ok(Some(there)) => {
                ended(Ok(there));
                false
            }
            Err(error) => {
                ended(Err(error));
                false
            }
        });
        self.callers.len()
    }
}

#[derive(Debug)]
struct Caller {
    stream: TcpStream,
    said: [u8; BYTES],
    heard: usize,
    answer: Option<[u8; BYTES]>,
    told: usize,
    until: Instant,
}

impl Caller {
    fn new(stream: TcpStream) -> Self {
        Self { stream, said: [0; BYTES], heard: 0, answer: None, told: 0, until: Instant::now() + TIMEOUT }
    }

    /// Advances the connection as far as possible without blocking. Returns the caller's side once it was answered.
    fn turn(
        &mut self,
        meet: impl FnOnce(ConnectionSide) -> ConnectionSide,
    ) -> io::Result<Option<ConnectionSide>> {
        if Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        while self.heard < BYTES {
            match self.stream.read(&mut self.said[self.heard..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.heard += n,
                Err(error) => return not_now(error),
            }
        }
        let there = ConnectionSide::from_bytes(self.said)?;
        let answer = *self.answer.get_or_insert_with(|| meet(there).to_bytes());
        while self.told < BYTES {
            match self.stream.write(&answer[self.told..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.told += n,
                Err(error) => return not_now(error),
            }
        }
        Ok(Some(there))
    }
}

/// `None` in place of an error that says "would block".
fn not_now<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

fn with_timeout(stream: TcpStream, timeout: Duration) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

fn read(stream: &mut TcpStream) -> io::Result<ConnectionSide> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    ConnectionSide::from_bytes(bytes)
}

/// Calls a service and returns its side.
///
/// # Errors
/// No service listens or answers in time, or the reply is not a side.
pub fn call(service: SocketAddr, here: ConnectionSide, timeout: Duration) -> io::Result<ConnectionSide> {
    let timeout = timeout.max(Duration::from_millis(1));
    let mut stream = with_timeout(TcpStream::connect_timeout(&service, timeout)?, timeout)?;
    stream.write_all(&here.to_bytes())?;
    read(&mut stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: ConnectionSide =
        ConnectionSide { qp: 0x0001_0203, key: 0x0405_0607, ip: Ipv4Addr::new(8, 9, 10, 11) };

    #[test]
    fn big_endian_in_order() {
        assert_eq!(HERE.to_bytes(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(ConnectionSide::from_bytes(HERE.to_bytes()).expect("a side"), HERE);
        assert!(ConnectionSide::from_bytes([1; BYTES]).is_err(), "a queue pair of 25 bits");
    }

    /// Against hanging.
    const LONG: Duration = Duration::from_secs(20);

    /// Turns until a caller has ended.
    fn next(service: &mut RendezvousService) -> io::Result<ConnectionSide> {
        let begin = Instant::now();
        let mut heard = None;
        while heard.is_none() {
            assert!(begin.elapsed() < LONG, "no caller has ended");
            service.turn(HERE, |outcome| heard = Some(outcome));
            std::thread::sleep(Duration::from_millis(1));
        }
        heard.expect("it ended")
    }

    #[test]
    fn callers_that_say_nothing_or_nonsense_harm_no_other() {
        let mut service =
            RendezvousService::bind("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = service.local_addr().expect("bound");
        assert_eq!(service.turn(HERE, |_| panic!("nobody called")), 0);
        drop(TcpStream::connect(address).expect("connected"));
        assert!(next(&mut service).is_err());
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        assert!(next(&mut service).is_err());
        let there = ConnectionSide { qp: 2, ..HERE };
        let caller = std::thread::spawn(move || call(address, there, LONG));
        assert_eq!(next(&mut service).expect("answered"), there);
        assert_eq!(caller.join().expect("it ran").expect("answered"), HERE);
    }

    #[test]
    fn many_callers_are_served_at_once_and_silent_ones_are_left() {
        let mut service =
            RendezvousService::bind("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = service.local_addr().expect("bound");
        let mut silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address).expect("connected")).collect();
        // Half of a side's bytes.
        silent[0].write_all(&[0; BYTES / 2]).expect("sent");
        let callers: Vec<_> = (1..=5)
            .map(|qp| std::thread::spawn(move || call(address, ConnectionSide { qp, ..HERE }, LONG)))
            .collect();
        let (begin, mut answered, mut left) = (Instant::now(), Vec::new(), 0);
        while answered.len() + left < 25 {
            assert!(begin.elapsed() < LONG, "{answered:?} {left}");
            service.turn(HERE, |outcome| match outcome {
                Ok(there) => answered.push(there.qp),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
                    left += 1;
                }
            });
            std::thread::sleep(Duration::from_millis(1));
        }
        answered.sort_unstable();
        assert_eq!((answered, left), (vec![1, 2, 3, 4, 5], 20));
        for caller in callers {
            assert_eq!(caller.join().expect("it ran").expect("answered"), HERE);
        }
    }
}
