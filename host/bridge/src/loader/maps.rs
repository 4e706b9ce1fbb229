//! Mappings of this process, to check whether an address from a library is mapped, and how. The check cannot prove that
//! the memory is what the library says; it turns a crash at the first access into an error at the start.

use procfs::process::{MMPermissions, MemoryMap, Process};

/// This process's mappings, at one moment.
pub(super) struct Maps(Option<Vec<MemoryMap>>);

impl Maps {
    /// Reads the mappings. If the system does not show them, every check passes.
    pub(super) fn read() -> Self {
        Self(Process::myself().and_then(|myself| myself.maps()).ok().map(|maps| maps.into_iter().collect()))
    }

    pub(super) fn readable(&self, address: u64, len: u64) -> bool {
        self.covers(address, len, MMPermissions::READ)
    }

    pub(super) fn writable(&self, address: u64, len: u64) -> bool {
        self.covers(address, len, MMPermissions::READ | MMPermissions::WRITE)
    }

    pub(super) fn executable(&self, address: u64) -> bool {
        self.covers(address, 1, MMPermissions::EXECUTE)
    }

    fn covers(&self, address: u64, len: u64, permissions: MMPermissions) -> bool {
        let Some(maps) = &self.0 else { return true };
        let Some(end) = address.checked_add(len) else { return false };
        // In the order of their addresses.
        let mut at = address;
        for map in maps {
            let (from, to) = map.address;
            if to <= at || !map.perms.contains(permissions) {
                continue;
            }
            if from > at || at >= end {
                break;
            }
            at = to;
        }
        at >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_each_kind_is_recognised() {
        let writable = vec![0_u8; 100_000];
        let constant: &'static str = "read-only";
        let maps = Maps::read();
        let address = |p: *const u8| p.addr() as u64;
        assert!(maps.writable(address(writable.as_ptr()), 100_000));
        assert!(
            maps.readable(address(constant.as_ptr()), 9) && !maps.writable(address(constant.as_ptr()), 9)
        );
        assert!(maps.executable(Maps::read as fn() -> Maps as usize as u64));
        assert!(!maps.executable(address(writable.as_ptr())));
        for nowhere in [0, 8, u64::MAX - 7, 0x1234_5678_9ABC_DEF0] {
            assert!(!maps.readable(nowhere, 8), "{nowhere:#x}");
        }
        assert!(!maps.writable(address(writable.as_ptr()), 1 << 46));
    }
}
