//! Endpoints, parsed from the line by which a provider describes itself.

use ringcall_transport::TransportAddress;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The keys of a provider's address.
const ADDRESS_KEYS: &[&str] = &["ip", "roce_ip"];

/// Parses a line: `transport`, `port` and the address (`ip` or `roce_ip`, by default 127.0.0.1); the rest becomes
/// details. Any text is accepted: words without a known meaning become details.
///
/// ```
/// let endpoint = ringcall_bridge::parse_endpoint("transport=cpu_roce port=9000 roce_ip=10.0.0.2 qp=0x1a");
/// assert_eq!((endpoint.transport, endpoint.address.to_string().as_str()), ("cpu_roce", "10.0.0.2:9000"));
/// ```
#[must_use]
pub fn parse(line: &str) -> TransportAddress {
    let mut endpoint = TransportAddress::new("plugin", SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    for pair in line.split_ascii_whitespace() {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "transport" => endpoint.transport = intern(value),
            "port" if value.parse::<u16>().is_ok() => {
                endpoint.address.set_port(value.parse().unwrap_or_default());
            }
            _ => {
                let ip = value.parse().ok().filter(|_| ADDRESS_KEYS.contains(&key));
                match ip {
                    Some(ip) => endpoint.address.set_ip(ip),
                    None => endpoint.details.push((intern(key), value.to_owned())),
                }
            }
        }
    }
    endpoint
}

/// The names in an [`TransportAddress`] live until the process ends. Each is stored once, and a process meets no more names
/// than its providers use.
fn intern(name: &str) -> &'static str {
    static NAMES: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_providers() {
        let udp = parse("transport=udp port=45678");
        assert_eq!(udp, TransportAddress::new("udp", "127.0.0.1:45678".parse().unwrap()));
        assert_eq!(udp.to_string(), "transport=udp port=45678");
        let roce = parse("transport=cpu_roce port=9000 roce_ip=10.0.0.2 qp=0x1a rkey=1234");
        assert_eq!(roce.address, "10.0.0.2:9000".parse().unwrap());
        assert_eq!(roce.details, [("qp", "0x1a".to_owned()), ("rkey", "1234".to_owned())]);
        let odd = parse("port=70000 nothing ip=somewhere");
        assert_eq!((odd.transport, odd.address.port(), odd.details.len()), ("plugin", 0, 3));
        assert!(std::ptr::eq(parse("transport=udp").transport, udp.transport));
    }
}
