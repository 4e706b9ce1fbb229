//! Memory layout of messages: blocks of checks of like degree, and blocks of columns of equal degree.
//!
//! A message from or to a check lies in a *slot*. A block of [`LANES`] checks has as many rows of slots as its longest check has
//! columns, so that lane `i` of all rows belongs to check `i` and a check's minimum is a minimum of whole rows. A block of
//! [`LANES`] columns has one row for each of its checks, which names the slot of each lane's message.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::BpError;
use crate::lists::Lists;

/// The number of checks or columns that are computed together.
pub(crate) const LANES: usize = 32;

/// One number for each lane of a block.
pub(crate) type Lanes<T> = [T; LANES];

/// The largest number of slots.
const MAX_SLOTS: usize = 1 << 28;

/// Blocks of columns of one degree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    /// The number of checks of each column.
    pub(crate) degree: usize,
    pub(crate) blocks: usize,
}

#[derive(Debug)]
pub(crate) struct Layout {
    /// Rows of slots of each block of checks.
    pub(crate) depths: Vec<u32>,
    /// Position (block and lane) of each check.
    pub(crate) position_of_check: Vec<u32>,
    /// Groups of columns, of ascending degree.
    pub(crate) groups: Vec<Group>,
    /// The column at each position (block and lane); `u32::MAX` at positions without a column.
    pub(crate) column_at: Vec<u32>,
    /// Slots of the messages of each block of columns, row by row.
    pub(crate) slots: Vec<Lanes<u32>>,
    /// Rows of slots of all blocks of checks, plus one row for lanes without a column.
    pub(crate) rows: usize,
}

impl Layout {
    pub(crate) fn new(column_checks: &Lists, check_degrees: &[u32]) -> Result<Self, BpError> {
        let mut order: Vec<u32> = (0..check_degrees.len() as u32).collect();
        order.sort_by_key(|&check| check_degrees[check as usize]);
        let mut position_of_check = vec![0u32; order.len()];
        for (position, &check) in order.iter().enumerate() {
            position_of_check[check as usize] = position as u32;
        }
        let depths: Vec<u32> =
            order.chunks(LANES).map(|block| check_degrees[block[block.len() - 1] as usize]).collect();
        let mut first_rows = Vec::with_capacity(depths.len());
        let mut rows = 0usize;
        for &depth in &depths {
            first_rows.push(rows);
            rows = rows.saturating_add(depth as usize);
        }
        if rows >= MAX_SLOTS / LANES {
            return Err(BpError::TooLarge { what: "slots of messages", limit: MAX_SLOTS });
        }
        let nowhere = rows * LANES;

        let degree = |column: u32| column_checks.get(column as usize).len();
        let mut columns: Vec<u32> = (0..column_checks.len() as u32).collect();
        columns.sort_by_key(|&column| degree(column));
        let mut groups = Vec::new();
        let mut column_at = Vec::new();
        let mut slots = Vec::new();
        let mut taken = vec![0u32; check_degrees.len()];
        for group in columns.chunk_by(|&a, &b| degree(a) == degree(b)) {
            let rows_of_block = degree(group[0]);
            groups.push(Group { degree: rows_of_block, blocks: group.len().div_ceil(LANES) });
            for block in group.chunks(LANES) {
                let first = slots.len();
                slots.resize(first + rows_of_block, [nowhere as u32; LANES]);
                for (lane, &column) in block.iter().enumerate() {
                    column_at.push(column);
                    for (row, &check) in column_checks.get(column as usize).iter().enumerate() {
                        let position = position_of_check[check as usize] as usize;
                        let depth = &mut taken[check as usize];
                        let slot =
                            (first_rows[position / LANES] + *depth as usize) * LANES + position % LANES;
                        *depth += 1;
                        slots[first + row][lane] = slot as u32;
                    }
                }
                column_at.resize(column_at.len().next_multiple_of(LANES), u32::MAX);
            }
        }
        Ok(Self { depths, position_of_check, groups, column_at, slots, rows: rows + 1 })
    }

    /// The number of blocks of columns.
    pub(crate) fn column_blocks(&self) -> usize {
        self.column_at.len() / LANES
    }
}
