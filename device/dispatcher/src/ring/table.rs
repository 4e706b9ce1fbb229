//! Functions as a device finds them: the same index as a host's, over entries that the host laid out.

use ringcall_protocol::table::{Cell, IdIndex, Table};
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::DeviceEntry;

/// A function table in device memory. The table is not written while a dispatcher runs.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTable<'a> {
    index: IdIndex,
    cells: &'a [Cell],
    entries: &'a [DeviceEntry],
}

impl<'a> DeviceTable<'a> {
    /// A table over cells that [`IdIndex::build`] filled.
    #[must_use]
    pub const fn new(index: IdIndex, cells: &'a [Cell], entries: &'a [DeviceEntry]) -> Self {
        Self { index, cells, entries }
    }

    /// The entry with this number.
    #[must_use]
    #[inline(always)]
    pub fn entry(&self, index: u32) -> Option<&'a DeviceEntry> {
        self.entries.get(index as usize)
    }

    /// Of several graphs under one id, the one with this routing key. The walk ends after as many steps as
    /// there are entries, even in a damaged chain.
    #[must_use]
    pub fn route(&self, first: &'a DeviceEntry, key: u64) -> Option<&'a DeviceEntry> {
        let mut entry = first;
        for _ in 0..self.entries.len() {
            if entry.routing_key == key {
                return Some(entry);
            }
            entry = self.entry(entry.next_route)?;
        }
        None
    }
}

impl Table for DeviceTable<'_> {
    type Entry = DeviceEntry;

    #[inline(always)]
    fn lookup(&self, id: FunctionId) -> Option<&DeviceEntry> {
        self.entries.get(self.index.lookup(self.cells, id)?)
    }
}
