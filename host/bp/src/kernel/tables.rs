//! The kernel's tables: one array of 32-bit words, laid out as `kernels-cu/relay/tables.h` says.

use super::cut::{BlockCut, Cut};
use super::{KernelError, KernelShape};
use crate::graph::BpGraph;
use alloc::vec;
use alloc::vec::Vec;

/// Words of `TablesHead`, and of each `BlockHead`.
const HEAD: usize = 8;
const BLOCK_HEAD: usize = 14;
/// The largest prior in half precision, for padding columns.
const PAD_PRIOR: u32 = 127;

/// A graph's tables for a shape of the kernel.
#[derive(Debug, Clone)]
pub struct Tables {
    shape: KernelShape,
    words: Vec<u32>,
    checks: u32,
    observables: u32,
    rows: u32,
}

/// A block's arrays. The kernel's threads are numbered within the block; a pass of a thread computes two columns, `lane` 0 and 1.
#[derive(Debug, Clone, Copy)]
pub struct BlockTables<'a> {
    /// Checks that the block has.
    pub own: u32,
    /// The check at each position: own checks by descending degree, then the halo's.
    pub check_at: &'a [u32],
    /// Words of a row, for each warp of the check phase.
    pub depth: &'a [u32],
    /// `[sum of the passes' degrees][threads]`: positions of the messages of two columns, 16 bits each: byte offsets where [slots
    /// are kept](KernelShape::keeps_slots), else numbers of 16-bit words.
    pub slots: &'a [u32],
    /// Byte offsets of their checks' states, in the same layout; empty if `slots` implies them.
    pub state_at: &'a [u32],
    /// `[passes][threads]`: priors of two columns, as halves.
    pub priors: &'a [u32],
    /// `[passes][2][threads]`: the columns' numbers.
    pub columns: &'a [u32],
    /// `[passes][2][threads]`: the observables that the columns flip, for columns that this block counts.
    pub flips: &'a [u32],
    /// `[threads]`: bit `2 pass + lane` of columns that this block counts. Each column is counted by one block.
    pub counted: &'a [u32],
    /// `[passes][warps]`: the longest column of a warp.
    pub degrees: &'a [u32],
    /// `[own + 1]`: where each check's receivers begin in `pushes`.
    pub push_begin: &'a [u32],
    /// Receivers of states: the block times 2^16, plus the position there.
    pub pushes: &'a [u32],
}

impl Tables {
    /// Tables for the first of `shapes` that has room for the graph.
    ///
    /// # Errors
    /// [`KernelError::NoRoom`] for the last shape.
    pub fn choose(graph: &BpGraph, shapes: &[KernelShape]) -> Result<Self, KernelError> {
        let none = KernelError::NoRoom { shape: "none", what: "graphs", found: 1, limit: 0 };
        let mut refusal = none;
        for shape in shapes {
            match Self::new(graph, shape) {
                Ok(tables) => return Ok(tables),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Tables for a shape.
    ///
    /// # Errors
    /// [`KernelError::NoRoom`] with the quantity that is too large; [`KernelError::TooMany`] for observables.
    pub fn new(graph: &BpGraph, shape: &KernelShape) -> Result<Self, KernelError> {
        if graph.num_observables() > super::MAX_OBSERVABLES {
            let (found, limit) = (graph.num_observables(), super::MAX_OBSERVABLES);
            return Err(KernelError::TooMany { what: "observables", found, limit });
        }
        let cut = Cut::new(graph, shape)?;
        let mut writer = Writer { words: vec![0; HEAD + BLOCK_HEAD * cut.blocks.len()] };
        let disconnected = writer.disconnected(graph);
        for (index, block) in cut.blocks.iter().enumerate() {
            let arrays = Arrays::new(graph, shape, &cut, index)?;
            writer.block(index, block, &arrays);
        }
        let (checks, observables) = (graph.num_checks() as u32, graph.num_observables() as u32);
        let KernelShape { blocks, threads, split, positions, .. } = *shape;
        let head = [blocks, threads, split, positions, cut.rows, checks, observables, disconnected];
        writer.words[..HEAD].copy_from_slice(&head);
        Ok(Self { shape: *shape, words: writer.words, checks, observables, rows: cut.rows })
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &KernelShape {
        &self.shape
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Checks of the graph: bits of a request.
    #[must_use]
    pub fn checks(&self) -> u32 {
        self.checks
    }

    /// Observables of the graph: bits of an answer.
    #[must_use]
    pub fn observables(&self) -> u32 {
        self.observables
    }

    /// Bytes of shared memory that a block takes.
    #[must_use]
    pub fn shared_bytes(&self) -> u32 {
        self.shape.shared_bytes(self.rows)
    }

    /// A bit for each check that no column touches, 32 a word; empty if there is none.
    #[must_use]
    pub fn disconnected(&self) -> &[u32] {
        match self.words[7] as usize {
            0 => &[],
            at => &self.words[at..at + (self.checks as usize).div_ceil(32)],
        }
    }

    /// The arrays of a block.
    ///
    /// # Panics
    /// If there is no such block, as an index of a slice does.
    #[must_use]
    pub fn block(&self, index: usize) -> BlockTables<'_> {
        let at = HEAD + BLOCK_HEAD * index;
        let head = &self.words[at..at + BLOCK_HEAD];
        let [own, halo, depths] = [head[0], head[1], head[2]];
        let (threads, passes) = (self.shape.threads as usize, self.shape.passes.len());
        let slots = self.shape.degree_sum() as usize * threads;
        let array = |which: usize, length: usize| {
            let begin = head[3 + which] as usize;
            &self.words[begin..begin + length]
        };
        let push_begin = array(9, own as usize + 1);
        BlockTables {
            own,
            check_at: array(0, (own + halo) as usize),
            depth: array(1, depths as usize),
            slots: array(2, slots),
            state_at: array(3, if self.shape.keeps_slots() { slots } else { 0 }),
            priors: array(4, passes * threads),
            columns: array(5, 2 * passes * threads),
            flips: array(6, 2 * passes * threads),
            counted: array(7, threads),
            degrees: array(8, passes * threads / 32),
            push_begin,
            pushes: array(10, push_begin.last().map_or(0, |&end| end as usize)),
        }
    }
}

/// A block's arrays, before they are joined into one.
struct Arrays {
    slots: Vec<u32>,
    state_at: Vec<u32>,
    priors: Vec<u32>,
    columns: Vec<u32>,
    flips: Vec<u32>,
    counted: Vec<u32>,
    degrees: Vec<u32>,
    push_begin: Vec<u32>,
    pushes: Vec<u32>,
}

impl Arrays {
    fn new(graph: &BpGraph, shape: &KernelShape, cut: &Cut, index: usize) -> Result<Self, KernelError> {
        let (threads, passes) = (shape.threads as usize, shape.passes.len());
        let (stride, positions) = (shape.stride(), shape.positions);
        let scale = if shape.keeps_slots() { 2 } else { 1 };
        let slots = shape.degree_sum() as usize * threads;
        // A pad reads a state of 0, which adds nothing, and writes to the row that is never read.
        let pad = (cut.rows * stride + positions - 1) * 2;
        let mut all = Self {
            slots: vec![twice(pad * scale); slots],
            state_at: vec![twice((positions - 1) * 4); slots],
            priors: vec![twice(half(PAD_PRIOR)); passes * threads],
            columns: vec![0; 2 * passes * threads],
            flips: vec![0; 2 * passes * threads],
            counted: vec![0; threads],
            degrees: vec![0; passes * threads / 32],
            push_begin: vec![0],
            pushes: Vec::new(),
        };
        let block = &cut.blocks[index];
        let mut taken = vec![0u32; block.own as usize];
        for (number, &column) in block.columns.iter().enumerate() {
            // Columns come by descending degree, so a warp has columns of one or two degrees; the greater degree counts.
            let (pair, lane) = (number / 2, number % 2);
            let (pass, thread) = (pair / threads, pair % threads);
            let checks = graph.column_checks(column as usize);
            let most = shape.passes[pass];
            if checks.len() > most as usize {
                let what = "checks of one column in its pass";
                let (found, limit) = (checks.len(), most as usize);
                return Err(KernelError::NoRoom { shape: shape.name, what, found, limit });
            }
            let first: u32 = shape.passes[..pass].iter().sum();
            let degree = &mut all.degrees[pass * threads / 32 + thread / 32];
            *degree = (*degree).max(checks.len() as u32);
            let prior = u32::from(graph.priors()[column as usize]);
            set_half(&mut all.priors[pass * threads + thread], lane, half(prior));
            all.columns[(pass * 2 + lane) * threads + thread] = column;
            if checks.first().is_some_and(|&check| cut.block_of[check as usize] == index as u32) {
                all.counted[thread] |= 1 << (2 * pass + lane);
                let flips = graph.column_observables(column as usize);
                all.flips[(pass * 2 + lane) * threads + thread] =
                    flips.iter().fold(0, |bits, &observable| bits | 1 << observable);
            }
            for (edge, &check) in (first as usize..).zip(checks) {
                // Every check of a column that touches the block is present, as an own check or in the halo.
                let position = block.position(check).unwrap_or(positions - 1);
                let slot = match taken.get_mut(position as usize) {
                    Some(taken) => {
                        *taken += 1;
                        ((*taken - 1) / 2 * stride + position) * 2 + (*taken - 1) % 2
                    }
                    None => (cut.rows * stride + position) * 2,
                };
                set_half(&mut all.slots[edge * threads + thread], lane, slot * scale);
                set_half(&mut all.state_at[edge * threads + thread], lane, position * 4);
            }
        }
        if !shape.keeps_slots() {
            all.state_at.clear();
        }
        all.receivers(cut, index);
        Ok(all)
    }

    /// Finds the blocks that have each own check in their halo.
    fn receivers(&mut self, cut: &Cut, index: usize) {
        let block = &cut.blocks[index];
        for &check in &block.check_at[..block.own as usize] {
            for (other, receiver) in cut.blocks.iter().enumerate().filter(|&(other, _)| other != index) {
                if let Some(position) = receiver.position(check) {
                    self.pushes.push((other as u32) << 16 | position);
                }
            }
            self.push_begin.push(self.pushes.len() as u32);
        }
    }
}

struct Writer {
    words: Vec<u32>,
}

impl Writer {
    /// Appends an array. Returns its position.
    fn put(&mut self, array: &[u32]) -> u32 {
        let at = self.words.len() as u32;
        self.words.extend_from_slice(array);
        at
    }

    fn disconnected(&mut self, graph: &BpGraph) -> u32 {
        let mut bits = vec![!0u32; graph.num_checks().div_ceil(32)];
        if let Some(last) = bits.last_mut() {
            *last = !0 >> ((32 - graph.num_checks() % 32) % 32);
        }
        for column in 0..graph.num_columns() {
            for &check in graph.column_checks(column) {
                bits[check as usize / 32] &= !(1 << (check % 32));
            }
        }
        if bits.iter().all(|&word| word == 0) { 0 } else { self.put(&bits) }
    }

    fn block(&mut self, index: usize, block: &BlockCut, arrays: &Arrays) {
        let halo = block.check_at.len() as u32 - block.own;
        let mut head = [block.own, halo, block.depth.len() as u32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let lists = [
            &block.check_at,
            &block.depth,
            &arrays.slots,
            &arrays.state_at,
            &arrays.priors,
            &arrays.columns,
            &arrays.flips,
            &arrays.counted,
            &arrays.degrees,
            &arrays.push_begin,
            &arrays.pushes,
        ];
        for (at, list) in head[3..].iter_mut().zip(lists) {
            *at = self.put(list);
        }
        let at = HEAD + BLOCK_HEAD * index;
        self.words[at..at + BLOCK_HEAD].copy_from_slice(&head);
    }
}

/// The bits of an integer from 1 to 127 in half precision.
fn half(value: u32) -> u32 {
    let exponent = value.ilog2();
    (exponent + 15) << 10 | (value << 10 >> exponent) & 1023
}

/// A half in both halves of a word.
fn twice(half: u32) -> u32 {
    half | half << 16
}

fn set_half(word: &mut u32, lane: usize, half: u32) {
    *word = *word & !(0xFFFF << (16 * lane)) | half << (16 * lane);
}
