//! How two queue pairs learn of each other over TCP: 12 bytes each way, then the connection closes.
//!
//! `{queue pair u32, key u32, IPv4 address u32}`, big-endian; the caller writes first, the service replies. That is what
//! the CUDA-Q reference's CPU RoCE transport speaks with `--qp_config=rendezvous`. (Its service takes one caller and closes;
//! this one may be asked again.)

use crate::psn::Psn;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes each way.
pub const BYTES: usize = 12;

/// One side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Queue pair number, 24 bits.
    pub qp: u32,
    /// The key to the window; 0 where there is none.
    pub key: u32,
    /// Where its packets come from and go to.
    pub ip: Ipv4Addr,
}

impl Side {
    /// As it travels.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let fields = [self.qp, self.key, self.ip.to_bits()];
        for (place, field) in out.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// A queue pair number of more than 24 bits, as of somebody who speaks something else.
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

/// A service's end.
///
/// ```
/// use ringcall_roce::rendezvous::{Service, Side, call};
/// use std::net::Ipv4Addr;
/// use std::time::Duration;
///
/// let service = Service::bind("127.0.0.1:0".parse()?)?;
/// let address = service.local_addr()?;
/// let here = Side { qp: 0x12, key: 0xBEEF, ip: Ipv4Addr::LOCALHOST };
/// let there = Side { qp: 0x2, key: 0, ip: Ipv4Addr::LOCALHOST };
/// let caller = std::thread::spawn(move || call(address, there, Duration::from_secs(5)));
/// assert_eq!(service.answer(here, Duration::from_secs(5))?, Some(there));
/// assert_eq!(caller.join().expect("it ran")?, here);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Service {
    listener: TcpListener,
}

/// How long one caller may take: the others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks for a caller.
const LOOK: Duration = Duration::from_millis(2);

impl Service {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken, or not ours.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for a caller, and answers. `None`: nobody called in time.
    ///
    /// # Errors
    /// A caller that says less than 12 bytes, or nothing for a second, or other things; the next one may be asked for.
    pub fn answer(&self, here: Side, timeout: Duration) -> io::Result<Option<Side>> {
        let begin = Instant::now();
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    let mut stream = patient(stream, PATIENCE)?;
                    let there = read(&mut stream)?;
                    stream.write_all(&here.to_bytes())?;
                    return Ok(Some(there));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = timeout.saturating_sub(begin.elapsed());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    std::thread::sleep(left.min(LOOK));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn patient(stream: TcpStream, patience: Duration) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

fn read(stream: &mut TcpStream) -> io::Result<Side> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Side::from_bytes(bytes)
}

/// Asks a service; its side.
///
/// # Errors
/// Nobody listens, or nobody answers in time, or with something else.
pub fn call(service: SocketAddr, here: Side, timeout: Duration) -> io::Result<Side> {
    let timeout = timeout.max(Duration::from_millis(1));
    let mut stream = patient(TcpStream::connect_timeout(&service, timeout)?, timeout)?;
    stream.write_all(&here.to_bytes())?;
    read(&mut stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Side = Side { qp: 0x0001_0203, key: 0x0405_0607, ip: Ipv4Addr::new(8, 9, 10, 11) };

    #[test]
    fn big_endian_in_order() {
        assert_eq!(HERE.to_bytes(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(Side::from_bytes(HERE.to_bytes()).expect("a side"), HERE);
        assert!(Side::from_bytes([1; BYTES]).is_err(), "a queue pair of 25 bits");
    }

    #[test]
    fn callers_that_say_nothing_or_nonsense_harm_no_other() {
        let service = Service::bind("127.0.0.1:0".parse().expect("an address")).expect("a listener");
        let address = service.local_addr().expect("bound");
        assert_eq!(service.answer(HERE, Duration::ZERO).expect("nobody called"), None);
        drop(TcpStream::connect(address).expect("connected"));
        assert!(service.answer(HERE, PATIENCE).is_err());
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
        assert!(service.answer(HERE, PATIENCE).is_err());
        let there = Side { qp: 2, ..HERE };
        let caller = std::thread::spawn(move || call(address, there, PATIENCE));
        assert_eq!(service.answer(HERE, PATIENCE).expect("answered"), Some(there));
        assert_eq!(caller.join().expect("it ran").expect("answered"), HERE);
    }
}
