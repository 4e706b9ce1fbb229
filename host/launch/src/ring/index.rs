//! Index of a function table. Graphs that share an id form a chain, and the index holds the first graph of the chain.

use super::DeviceError;
use ringcall_protocol::table::{Cell, EMPTY, IdIndex, IndexError};
use ringcall_wire::launch::{DeviceEntry, HandlerKind};

/// Entries that exclude each other, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clash {
    /// They share an id and are not graphs of one function.
    Id { first: usize, second: usize, id: u32 },
    /// They are graphs of one function and share a routing key.
    Route { second: usize, key: u64 },
}

/// Chains the graphs of each id, which must be of the `same` function. Returns the index of each id's first entry.
pub(super) fn chain(
    entries: &mut [DeviceEntry],
    same: impl Fn(usize, usize) -> bool,
) -> Result<Vec<usize>, Clash> {
    let mut heads: Vec<usize> = Vec::new();
    for second in 0..entries.len() {
        let entry = entries[second];
        let Some(first) = heads.iter().copied().find(|&head| entries[head].id == entry.id) else {
            heads.push(second);
            continue;
        };
        let graphs = [entries[first], entry].iter().all(|entry| entry.kind == HandlerKind::Graph as u32);
        if !graphs || !same(first, second) {
            return Err(Clash::Id { first, second, id: entry.id });
        }
        let mut last = first;
        loop {
            if entries[last].routing_key == entry.routing_key {
                return Err(Clash::Route { second, key: entry.routing_key });
            }
            match entries[last].next_route {
                DeviceEntry::NONE => break,
                next => last = next as usize,
            }
        }
        entries[last].next_route = second as u32;
    }
    Ok(heads)
}

/// The index over the entries at `heads`.
pub(super) fn index(entries: &[DeviceEntry], heads: &[usize]) -> Result<(IdIndex, Vec<Cell>), DeviceError> {
    let mut size = IdIndex::cells_for(heads.len());
    loop {
        let mut cells = vec![EMPTY; size];
        match IdIndex::build(heads.len(), |i| entries[heads[i]].id, &mut cells) {
            Ok(index) => {
                for cell in cells.iter_mut().filter(|cell| **cell != EMPTY) {
                    cell.entry = heads[cell.entry as usize] as u32;
                }
                return Ok((index, cells));
            }
            Err(IndexError::NoMultiplier) if size < 1 << 24 => size *= 2,
            Err(error) => return Err(DeviceError::Shape(error.to_string())),
        }
    }
}
