//! Addresses of a device's first port, as the kernel lists them.

use super::VerbsError;
use std::fs::read_to_string;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// The most entries of a port's table.
const ENTRIES: u8 = u8::MAX;

/// Index and address of the first entry for RoCE v2 over IPv4, or of the entry with the `wanted` address.
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

/// Whether the device still has this address at this index. A device whose network device is removed stays until its
/// last user is gone, but loses its addresses.
pub(super) fn has_address(name: &str, index: u8, ip: Ipv4Addr) -> bool {
    match read_to_string(gid(&Path::new("/sys/class/infiniband").join(name).join("ports/1"), index)) {
        Ok(text) => mapped(&text) == Some(ip),
        // An error for lack of descriptors or memory says nothing about the device.
        Err(error) => error.kind() != ErrorKind::NotFound && error.raw_os_error() != Some(NO_DEVICE),
    }
}

/// `ENODEV`, for which there is no [`ErrorKind`].
const NO_DEVICE: i32 = 19;

fn gid(port: &Path, index: u8) -> PathBuf {
    port.join(format!("gids/{index}"))
}

fn ip_of(port: &Path, index: u8) -> Option<Ipv4Addr> {
    mapped(&read_to_string(gid(port, index)).ok()?)
}

fn mapped(text: &str) -> Option<Ipv4Addr> {
    text.trim().parse::<Ipv6Addr>().ok()?.to_ipv4_mapped()
}
