//! Endpoints: the address of a transport, as one line of `key=value` pairs.

use std::fmt;
use std::net::SocketAddr;

/// The address of a transport, known as soon as the transport is bound.
///
/// It is printed as one line of `key=value` pairs, for launchers to read:
///
/// ```
/// use ringcall_transport::TransportAddress;
/// let endpoint = TransportAddress::new("udp", "127.0.0.1:4000".parse()?);
/// assert_eq!(endpoint.to_string(), "transport=udp port=4000");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportAddress {
    /// The transport's name.
    pub transport: &'static str,
    /// The local address.
    pub address: SocketAddr,
    /// Further facts that a peer must know, as keys and values without blanks.
    pub details: Vec<(&'static str, String)>,
}

impl TransportAddress {
    /// An endpoint without further facts.
    #[must_use]
    pub fn new(transport: &'static str, address: SocketAddr) -> Self {
        Self { transport, address, details: Vec::new() }
    }
}

impl fmt::Display for TransportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transport={} port={}", self.transport, self.address.port())?;
        self.details.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}
