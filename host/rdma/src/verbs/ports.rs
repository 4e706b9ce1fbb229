//! Addresses of a device's first port, as the kernel lists them.

use super::VerbsError;
use std::fs::read_to_string;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// Entries of a port's table, at most.
const ENTRIES: u8 = u8::MAX;

/// The index of the first entry for RoCE v2 over IPv4, and its address; of this address, if one is wanted.
pub(super) fn address(name: &str, wanted: Option<Ipv4Addr>) -> Result<(u8, Ipv4Addr), VerbsError> {
    let port = Path::new("/sys/class/infiniband").join(name).join("ports/1");
    let entry = |index: u8| {
        let kind = read_to_string(port.join(format!("gid_attrs/types/{index}"))).ok()?;
        let ip = ip_of(&port, index).filter(|ip| wanted.is_none_or(|wanted| wanted == *ip))?;
        (kind.trim() == "RoCE v2").then_some((index, ip))
    };
    let none = || VerbsError::NoAddress { name: name.to_owned(), wanted };
    (0..ENTRIES).find_map(entry).ok_or_else(none)
}

/// Whether the device is still there with this address at this index. A device whose network device is removed stays until its last user
/// is gone, and its addresses do not.
pub(super) fn has_address(name: &str, index: u8, ip: Ipv4Addr) -> bool {
    ip_of(&Path::new("/sys/class/infiniband").join(name).join("ports/1"), index) == Some(ip)
}

fn ip_of(port: &Path, index: u8) -> Option<Ipv4Addr> {
    let gid: Ipv6Addr = read_to_string(port.join(format!("gids/{index}"))).ok()?.trim().parse().ok()?;
    gid.to_ipv4_mapped()
}
