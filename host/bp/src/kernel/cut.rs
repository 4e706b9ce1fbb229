//! Cuts of a graph into blocks: each block's checks, the columns that touch them, and the slots of their messages.

use super::{KernelError, KernelShape};
use crate::graph::BpGraph;
use alloc::vec;
use alloc::vec::Vec;

/// Marks a check that is not in a block.
const ABSENT: u32 = u32::MAX;

/// The checks and columns of each block of a shape's cluster.
pub(super) struct Cut {
    /// The block of each check.
    pub(super) block_of: Vec<u32>,
    pub(super) blocks: Vec<BlockCut>,
    /// Words of the longest row of messages, two a word.
    pub(super) rows: u32,
}

/// A block's part of the graph.
pub(super) struct BlockCut {
    /// The check at each position: own checks by descending degree, then the halo in ascending order.
    pub(super) check_at: Vec<u32>,
    pub(super) own: u32,
    /// The position of each check; [`ABSENT`] for most.
    position_of: Vec<u32>,
    /// Columns that touch an own check, by descending degree.
    pub(super) columns: Vec<u32>,
    /// Words of a row, for each warp of the check phase: the longest of its checks' rows.
    pub(super) depth: Vec<u32>,
}

impl BlockCut {
    /// The position of a check, if it belongs to the block or its halo.
    pub(super) fn position(&self, check: u32) -> Option<u32> {
        self.position_of.get(check as usize).copied().filter(|&position| position != ABSENT)
    }
}

impl Cut {
    pub(super) fn new(graph: &BpGraph, shape: &KernelShape) -> Result<Self, KernelError> {
        let checks = graph.num_checks();
        let mut degree_of = vec![0u32; checks];
        for column in 0..graph.num_columns() {
            for &check in graph.column_checks(column) {
                degree_of[check as usize] += 1;
            }
        }
        let row_words = |check: u32| degree_of[check as usize].div_ceil(2);
        let rows = (0..checks as u32).map(row_words).max().unwrap_or(0);
        let block_of = runs(&degree_of, shape.blocks);

        let mut columns_of = vec![Vec::new(); shape.blocks as usize];
        for column in 0..graph.num_columns() {
            for &check in graph.column_checks(column) {
                let columns = &mut columns_of[block_of[check as usize] as usize];
                if columns.last() != Some(&(column as u32)) {
                    columns.push(column as u32);
                }
            }
        }
        let mut blocks = Vec::with_capacity(columns_of.len());
        for (block, mut columns) in (0..).zip(columns_of) {
            let degree = |&column: &u32| graph.column_checks(column as usize).len();
            columns.sort_by_key(|column| core::cmp::Reverse(degree(column)));
            let own = (0..checks as u32).filter(|&check| block_of[check as usize] == block);
            let mut check_at: Vec<u32> = own.collect();
            check_at.sort_by_key(|&check| core::cmp::Reverse(degree_of[check as usize]));
            let own = check_at.len();
            let touched = columns.iter().flat_map(|&column| graph.column_checks(column as usize));
            let mut halo: Vec<u32> =
                touched.copied().filter(|&check| block_of[check as usize] != block).collect();
            halo.sort_unstable();
            halo.dedup();
            check_at.extend(halo);
            let mut position_of = vec![ABSENT; checks];
            for (position, &check) in (0..).zip(&check_at) {
                position_of[check as usize] = position;
            }
            let checks_a_warp = (32 / shape.split) as usize;
            let mut depth: Vec<u32> =
                check_at[..own].chunks(checks_a_warp).map(|warp| row_words(warp[0])).collect();
            // At least one warp takes part in the exchange.
            if depth.is_empty() {
                depth.push(0);
            }
            blocks.push(BlockCut { check_at, own: own as u32, position_of, columns, depth });
        }
        let cut = Self { block_of, blocks, rows };
        cut.fits(shape)?;
        Ok(cut)
    }

    fn fits(&self, shape: &KernelShape) -> Result<(), KernelError> {
        let most = |of: fn(&BlockCut) -> usize| self.blocks.iter().map(of).max().unwrap_or(0);
        let byte = if shape.keeps_slots() { 4 } else { 2 };
        for (what, found, limit) in [
            // The last position has the state of no check; padding reads it.
            ("checks of a block and its halo", most(|b| b.check_at.len()), shape.positions as usize - 1),
            (
                "checks of a block",
                most(|b| b.depth.len()) * 32 / shape.split as usize,
                (shape.threads / shape.split) as usize,
            ),
            (
                "pairs of columns of a block",
                most(|b| b.columns.len().div_ceil(2)),
                (shape.threads as usize) * shape.passes.len(),
            ),
            (
                "words of messages of a block",
                (self.rows as usize + 1) * shape.stride() as usize,
                (1 << 16) / byte,
            ),
        ] {
            if found > limit {
                return Err(KernelError::NoRoom { shape: shape.name, what, found, limit });
            }
        }
        Ok(())
    }
}

/// The block of each check: runs of checks with about the same number of edges.
fn runs(degree_of: &[u32], blocks: u32) -> Vec<u32> {
    let edges: u64 = degree_of.iter().map(|&degree| u64::from(degree)).sum();
    let mut before = 0;
    let mut block_of = Vec::with_capacity(degree_of.len());
    for &degree in degree_of {
        let middle = before + u64::from(degree / 2);
        let block = middle * u64::from(blocks) / edges.max(1);
        block_of.push(block.min(u64::from(blocks) - 1) as u32);
        before += u64::from(degree);
    }
    block_of
}
