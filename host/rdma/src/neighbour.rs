//! The Ethernet address of a peer, from the kernel's table of neighbours (`/proc/net/arp`).
//!
//! A queue pair that is made by DevX is told its peer's Ethernet address, which libibverbs would find by itself.

use std::fs::read_to_string;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

const TABLE: &str = "/proc/net/arp";
/// A port without listeners (RFC 863): a datagram there makes the kernel ask for the address.
const DISCARD: u16 = 9;
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why a peer's Ethernet address is not known.
#[derive(Debug, thiserror::Error)]
#[error("no Ethernet address of {ip} in {TABLE}{}: an adapter's queue pair reaches hosts of its own network",
    .why.as_ref().map_or_else(String::new, |why| format!(" ({why})")))]
pub struct NoNeighbour {
    /// The peer.
    pub ip: Ipv4Addr,
    /// What the kernel said.
    pub why: Option<io::Error>,
}

/// The Ethernet address of `ip`. A datagram makes the kernel ask for it. Waits at most `limit`.
///
/// # Errors
/// The peer does not answer, or is in no network of this host.
pub fn mac_of(ip: Ipv4Addr, limit: Duration) -> Result<[u8; 6], NoNeighbour> {
    let none = |why| NoNeighbour { ip, why };
    let begin = Instant::now();
    let asked =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(&[], (ip, DISCARD)));
    loop {
        let table = read_to_string(TABLE).map_err(|why| none(Some(why)))?;
        if let Some(mac) = entry(&table, ip) {
            return Ok(mac);
        }
        if asked.is_err() || begin.elapsed() >= limit {
            return Err(none(asked.err()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The entry of `ip`, if it is complete: while the kernel still asks, the address is all zeros.
fn entry(table: &str, ip: Ipv4Addr) -> Option<[u8; 6]> {
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace();
        let same = words.next()?.parse() == Ok(ip);
        // The address follows the kind of hardware and the flags.
        let mac = mac(words.nth(2)?)?;
        (same && mac != [0; 6]).then_some(mac)
    })
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>().ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "IP address       HW type     Flags       HW address            Mask     Device\n\
                        10.0.0.1         0x1         0x2         02:00:00:00:00:1f     *        eth0\n\
                        10.0.0.2         0x1         0x0         00:00:00:00:00:00     *        eth0\n\
                        10.0.0.3         0x1         0x2         nonsense              *        eth0\n\
                        10.0.0.4\n";

    #[test]
    fn only_whole_entries_are_taken() {
        let of = |last| entry(TEXT, Ipv4Addr::new(10, 0, 0, last));
        assert_eq!(of(1), Some([2, 0, 0, 0, 0, 0x1F]));
        assert_eq!([of(2), of(3), of(4), of(5)], [None; 4]);
        assert_eq!(entry("", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn a_host_that_is_no_neighbour_is_named() {
        // An address of a network for documentation (RFC 5737).
        let ip = Ipv4Addr::new(203, 0, 113, 7);
        let error = mac_of(ip, Duration::ZERO).expect_err("nobody is there").to_string();
        assert!(error.contains("203.0.113.7") && error.contains("of its own network"), "{error}");
    }
}
