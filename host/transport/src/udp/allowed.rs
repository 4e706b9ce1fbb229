//! Allow-list of peers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A peer that is served: an address with one port or any.
///
/// ```
/// use ringcall_transport::udp::AllowedPeer;
///
/// let anywhere: AllowedPeer = "10.0.0.2".parse()?;
/// assert!(anywhere.is("10.0.0.2:4000".parse()?) && !anywhere.is("10.0.0.3:4000".parse()?));
/// let one: AllowedPeer = "10.0.0.2:4000".parse()?;
/// assert!(one.is("10.0.0.2:4000".parse()?) && !one.is("10.0.0.2:4001".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedPeer {
    /// The peer's address.
    pub ip: IpAddr,
    /// The peer's port; `None` for any port.
    pub port: Option<u16>,
}

impl AllowedPeer {
    /// Whether `address` is this peer's. An IPv4 address equals its IPv4-mapped form from an IPv6 socket.
    #[must_use]
    pub fn is(&self, address: SocketAddr) -> bool {
        self.ip.to_canonical() == address.ip().to_canonical()
            && self.port.is_none_or(|port| port == address.port())
    }
}

impl fmt::Display for AllowedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// A text that does not name a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no IP address, nor one with a port")]
pub struct NoPeer(String);

impl FromStr for AllowedPeer {
    type Err = NoPeer;

    fn from_str(text: &str) -> Result<Self, NoPeer> {
        if let Ok(ip) = text.parse() {
            return Ok(Self { ip, port: None });
        }
        let address: SocketAddr = text.parse().map_err(|_| NoPeer(text.to_owned()))?;
        Ok(Self { ip: address.ip(), port: Some(address.port()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_read_as_they_are_written() {
        for text in ["10.0.0.2", "10.0.0.2:4000", "::1", "[::1]:4000"] {
            assert_eq!(text.parse::<AllowedPeer>().unwrap().to_string(), text);
        }
        for text in ["", "here", "10.0.0", "10.0.0.2:", "10.0.0.2:66000", "10.0.0.0/8"] {
            assert!(text.parse::<AllowedPeer>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_ipv4_is_the_same_on_a_socket_of_ipv6() {
        let peer: AllowedPeer = "10.0.0.2".parse().unwrap();
        assert!(peer.is("[::ffff:10.0.0.2]:7".parse().unwrap()));
    }
}
