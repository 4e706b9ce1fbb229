//! From a function id to its entry, in constant time.
//!
//! Ids are hashes already, so a multiplicative hash into twice as many cells as there are functions is
//! enough, with a multiplier searched when the table is built such that no two ids share a cell. A lookup is
//! one multiplication, one load and one comparison, independent of the table's size.

use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::{DeviceEntry, HandlerKind};
use ringcall_wire::status::DispatchMode;

/// How a dispatcher finds a function.
pub trait Table {
    /// What the table holds for a function.
    type Entry: Callable;
    /// The entry of `id`, in constant time.
    fn lookup(&self, id: FunctionId) -> Option<&Self::Entry>;
}

/// What validation needs to know of an entry.
pub trait Callable {
    /// How it is run.
    fn mode(&self) -> DispatchMode;
    /// Payload bytes its schema demands; `None` where the function takes any length.
    fn arg_bytes(&self) -> Option<u32>;
}

impl Callable for DeviceEntry {
    #[inline(always)]
    fn mode(&self) -> DispatchMode {
        if self.kind == HandlerKind::Graph as u32 {
            DispatchMode::GraphLaunch
        } else {
            DispatchMode::DeviceCall
        }
    }

    #[inline(always)]
    fn arg_bytes(&self) -> Option<u32> {
        (self.arg_bytes != DeviceEntry::NONE).then_some(self.arg_bytes)
    }
}

/// One cell of an [`IdIndex`].
pub use ringcall_wire::launch::TableCell as Cell;

/// An empty cell: its entry is out of every table's range.
pub const EMPTY: Cell = Cell { id: 0, entry: u32::MAX };

/// A collision-free hash index over a table's ids. The cells are the caller's (a `Vec` on the host, constant memory on
/// a device).
#[derive(Debug, Clone, Copy)]
pub struct IdIndex {
    multiplier: u32,
    shift: u32,
}

/// Why an index could not be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexError {
    /// Two entries have one id.
    Collision {
        /// The id.
        id: u32,
        /// The earlier entry.
        first: usize,
        /// The later entry.
        second: usize,
    },
    /// The number of cells is no power of two, or fewer than twice the ids.
    Cells(usize),
    /// No multiplier separates the ids in so many cells: give it twice as many.
    NoMultiplier,
}

impl core::fmt::Display for IndexError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Collision { id, first, second } => {
                write!(f, "entries {first} and {second} of the function table share the id {id:#010x}")
            }
            Self::Cells(n) => write!(f, "an id index takes a power of two of cells, not {n}"),
            Self::NoMultiplier => f.write_str("no multiplier separates these ids: use twice as many cells"),
        }
    }
}

impl core::error::Error for IndexError {}

impl IdIndex {
    /// An index that was built elsewhere (on the host, for a device).
    #[must_use]
    pub const fn from_parts(multiplier: u32, shift: u32) -> Self {
        Self { multiplier, shift }
    }

    /// Multiplier and shift, for [`from_parts`](Self::from_parts).
    #[must_use]
    pub const fn parts(self) -> (u32, u32) {
        (self.multiplier, self.shift)
    }

    /// Cells worth trying first for `ids` ids: a power of two, at least twice as many.
    #[must_use]
    pub const fn cells_for(ids: usize) -> usize {
        let cells = (ids * 2).next_power_of_two();
        if cells < 2 { 2 } else { cells }
    }

    /// Fills `cells` so that entry `i` is found under `id(i)`.
    ///
    /// # Errors
    /// Two equal ids; a useless number of cells; or, rarely, ids that need more cells.
    pub fn build(count: usize, id: impl Fn(usize) -> u32, cells: &mut [Cell]) -> Result<Self, IndexError> {
        if !cells.len().is_power_of_two() || cells.len() < 2 || cells.len() < 2 * count {
            return Err(IndexError::Cells(cells.len()));
        }
        for second in 0..count {
            if let Some(first) = (0..second).find(|&first| id(first) == id(second)) {
                return Err(IndexError::Collision { id: id(second), first, second });
            }
        }
        let shift = 32 - cells.len().trailing_zeros();
        // Odd multipliers along a Weyl sequence: any would do, these are spread evenly.
        let mut multiplier = 0x9E37_79B1_u32;
        for _ in 0..100_000 {
            let index = Self { multiplier, shift };
            if index.fill(count, &id, cells) {
                return Ok(index);
            }
            multiplier = multiplier.wrapping_add(0x6A09_E667 << 1) | 1;
        }
        Err(IndexError::NoMultiplier)
    }

    fn fill(self, count: usize, id: &impl Fn(usize) -> u32, cells: &mut [Cell]) -> bool {
        cells.fill(EMPTY);
        for entry in 0..count {
            let Some(cell) = cells.get_mut(self.cell(id(entry))) else { return false };
            if *cell != EMPTY {
                return false;
            }
            *cell = Cell { id: id(entry), entry: entry as u32 };
        }
        true
    }

    #[inline(always)]
    const fn cell(self, id: u32) -> usize {
        id.wrapping_mul(self.multiplier).wrapping_shr(self.shift) as usize
    }

    /// The entry number of `id`.
    #[inline(always)]
    #[must_use]
    pub fn lookup(self, cells: &[Cell], id: FunctionId) -> Option<usize> {
        let cell = cells.get(self.cell(id.0))?;
        (cell.id == id.0 && cell.entry != u32::MAX).then_some(cell.entry as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(ids: &[u32]) -> Result<(IdIndex, Vec<Cell>), IndexError> {
        let mut size = IdIndex::cells_for(ids.len());
        loop {
            let mut cells = vec![EMPTY; size];
            match IdIndex::build(ids.len(), |i| ids[i], &mut cells) {
                Err(IndexError::NoMultiplier) if size < 1 << 20 => size *= 2,
                other => return other.map(|index| (index, cells)),
            }
        }
    }

    proptest! {
        #[test]
        fn every_id_is_found_and_no_other(ids in proptest::collection::btree_set(any::<u32>(), 0..200), other: u32) {
            let ids: Vec<u32> = ids.into_iter().collect();
            let (index, cells) = index(&ids).expect("distinct ids");
            for (entry, &id) in ids.iter().enumerate() {
                prop_assert_eq!(index.lookup(&cells, FunctionId(id)), Some(entry));
            }
            if !ids.contains(&other) {
                prop_assert_eq!(index.lookup(&cells, FunctionId(other)), None);
            }
        }
    }

    #[test]
    fn equal_ids_are_refused_by_name() {
        assert_eq!(index(&[7, 0, 7]).map(|_| ()), Err(IndexError::Collision { id: 7, first: 0, second: 2 }));
    }

    #[test]
    fn id_zero_is_no_empty_cell() {
        let (index, cells) = index(&[5]).expect("one id");
        assert_eq!(index.lookup(&cells, FunctionId(0)), None);
    }
}
