//! Allow-list of hosts for a queue pair.

use std::net::Ipv4Addr;

/// The hosts whose packets are accepted; an empty list accepts every host.
///
/// ```
/// use ringcall_roce::Hosts;
///
/// let hosts = Hosts::new(&["10.0.0.2".parse()?, "10.0.0.3".parse()?]).expect("no more than are kept");
/// assert!(hosts.hears("10.0.0.3".parse()?) && !hosts.hears("10.0.0.4".parse()?));
/// assert!(Hosts::ANY.hears("10.0.0.4".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    hosts: [Ipv4Addr; Self::MOST],
    count: usize,
}

impl Hosts {
    /// The most hosts that a list may have.
    pub const MOST: usize = 16;
    /// Accepts every host.
    pub const ANY: Self = Self { hosts: [Ipv4Addr::UNSPECIFIED; Self::MOST], count: 0 };

    /// Accepts these hosts only, or every host if `hosts` is empty. `None` if there are more than [`MOST`](Self::MOST).
    #[must_use]
    pub fn new(hosts: &[Ipv4Addr]) -> Option<Self> {
        let mut list = Self { count: hosts.len(), ..Self::ANY };
        list.hosts.get_mut(..hosts.len())?.copy_from_slice(hosts);
        Some(list)
    }

    /// Whether packets of `host` are accepted.
    #[inline]
    #[must_use]
    pub fn hears(&self, host: Ipv4Addr) -> bool {
        self.count == 0 || self.hosts[..self.count].contains(&host)
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self::ANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_full_at_its_end_and_no_list_hears_the_address_of_nobody() {
        let hosts: Vec<Ipv4Addr> = (0..Hosts::MOST as u8 + 1).map(|i| Ipv4Addr::new(10, 0, 0, i)).collect();
        let full = Hosts::new(&hosts[..Hosts::MOST]).unwrap();
        assert!(hosts[..Hosts::MOST].iter().all(|&host| full.hears(host)) && !full.hears(hosts[Hosts::MOST]));
        assert_eq!(Hosts::new(&hosts), None);
        assert_eq!(Hosts::new(&[]), Some(Hosts::ANY));
        // The filler of the list's unused entries is not a listed host.
        assert!(!Hosts::new(&hosts[..1]).unwrap().hears(Ipv4Addr::UNSPECIFIED));
    }
}
