//! Addresses of a device's first port, as the kernel lists them.

use super::VerbsError;
use std::fs::{read_dir, read_to_string};
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

/// The folder of the device's verbs interface in `class` (`/sys/class/infiniband_verbs`), if the kernel lists it. The kernel takes the
/// folder away when a removal begins, and then waits for the programs that have the device open; until they close it, the device keeps
/// its name and its addresses.
pub(super) fn interface(class: &Path, name: &str) -> Option<PathBuf> {
    let folders = read_dir(class).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_devices =
        |folder: &PathBuf| read_to_string(folder.join("ibdev")).is_ok_and(|known| known.trim() == name);
    folders.into_iter().find(is_devices)
}

/// Whether that folder is still there.
pub(super) fn has_interface(folder: &Path) -> bool {
    // Another error, such as a lack of descriptors, says nothing about the device.
    folder.symlink_metadata().err().is_none_or(|error| error.kind() != ErrorKind::NotFound)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    #[test]
    fn the_interface_of_a_device_is_found_and_missed() {
        let class = std::env::temp_dir().join(format!("ringcall-verbs-{}", std::process::id()));
        for (folder, device) in [("uverbs0", "mlx5_0"), ("uverbs1", "rxe0")] {
            create_dir_all(class.join(folder)).expect("a folder");
            write(class.join(folder).join("ibdev"), format!("{device}\n")).expect("a file");
        }
        assert_eq!(interface(&class, "rxe1"), None);
        let folder = interface(&class, "rxe0").expect("it is listed");
        assert_eq!(folder, class.join("uverbs1"));
        assert!(has_interface(&folder));
        remove_dir_all(&folder).expect("removed");
        assert!(!has_interface(&folder));
        assert_eq!(interface(&class, "rxe0"), None);
        remove_dir_all(&class).expect("removed");
        assert_eq!(interface(&class, "mlx5_0"), None, "a system without verbs");
    }
}
