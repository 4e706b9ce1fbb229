//! Ordered statistics: an error that explains the defects, built from the marginals of a decode that did not converge.
//!
//! Columns are sorted by marginal, the likeliest errors first. Gaussian elimination over GF(2) takes the first independent
//! columns in that order, the *basis*. One error of basis columns alone explains the defects: order 0. The combination sweep adds
//! each other column, and each pair of the first few, corrects the basis columns for them, and keeps the lightest error.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::OrderedStatistics;
use crate::error::BpError;
use crate::graph::{BpGraph, MAX_ORDERED_CHECKS, Tables};

/// Marks no column.
const NONE: u32 = u32::MAX;

/// The elimination of a graph's check matrix, with its working memory.
#[derive(Debug, Clone)]
pub(crate) struct Ordered {
    order: OrderedStatistics,
    /// 64-bit words of a vector of checks.
    words: usize,
    /// The number of independent columns.
    rank: usize,
    /// The row operations so far as a matrix, column after column of `words` words.
    transform: Vec<u64>,
    /// The defects after the row operations.
    defects: Vec<u64>,
    /// Rows that have a column of the basis.
    taken: Vec<u64>,
    /// The column of the basis in each row.
    basis: Vec<u32>,
    /// Columns, the likeliest error first.
    sorted: Vec<u32>,
    /// Whether a column is in the basis.
    chosen: Vec<bool>,
    /// One column after the row operations.
    reduced: Vec<u64>,
    /// The first columns that are not in the basis, after the row operations, each of `words` words.
    swept: Vec<u64>,
    swept_columns: Vec<u32>,
    /// The columns of the error found.
    found: Vec<u32>,
    /// Whether the caller cut the last solve off.
    cut: bool,
}

impl Ordered {
    pub(crate) fn new(graph: &BpGraph, order: OrderedStatistics) -> Result<Self, BpError> {
        let (checks, columns) = (graph.num_checks(), graph.num_columns());
        if checks > MAX_ORDERED_CHECKS {
            return Err(BpError::TooLarge {
                what: "checks for ordered statistics",
                limit: MAX_ORDERED_CHECKS,
            });
        }
        let words = checks.div_ceil(64);
        let sweep = match order {
            OrderedStatistics::Zero => 0,
            OrderedStatistics::CombinationSweep(first) => (first as usize).min(columns),
        };
        let mut this = Self {
            order,
            words,
            rank: checks,
            transform: vec![0; checks * words],
            defects: vec![0; words],
            taken: vec![0; words],
            basis: vec![NONE; checks],
            sorted: (0..columns as u32).collect(),
            chosen: vec![false; columns],
            reduced: vec![0; words],
            swept: vec![0; sweep * words],
            swept_columns: Vec::with_capacity(sweep),
            found: Vec::with_capacity(columns),
            cut: false,
        };
        this.begin(&[]);
        this.rank = this.eliminate(&graph.tables, false, &mut || true);
        Ok(this)
    }

    /// The lightest error that the sweep finds for the defects, given as bits; `None` if no error explains them.
    pub(crate) fn solve(
        &mut self,
        tables: &Tables,
        syndrome: &[u64],
        marginals: &[i16],
        go_on: &mut impl FnMut() -> bool,
    ) -> Option<&[u32]> {
        self.sorted.sort_unstable_by_key(|&column| (marginals[column as usize], column));
        self.begin(syndrome);
        let early = self.order == OrderedStatistics::Zero;
        self.eliminate(tables, early, go_on);
        if self.cut {
            return None;
        }
        if self.defects.iter().zip(&self.taken).any(|(defects, taken)| defects & !taken != 0) {
            return None;
        }
        let added = if early { [NONE; 2] } else { self.sweep(tables, go_on) };
        for column in added.into_iter().filter(|&column| column != NONE) {
            self.reduce(tables, column);
            xor(&mut self.defects, &self.reduced);
        }
        self.found.clear();
        self.found.extend(ones(&self.defects).map(|row| self.basis[row]));
        self.found.extend(added.into_iter().filter(|&column| column != NONE));
        Some(&self.found)
    }

    /// Whether the last solve was cut off. A cut in the elimination leaves no answer; a cut in the sweep leaves the best answer
    /// so far.
    pub(crate) fn was_cut(&self) -> bool {
        self.cut
    }

    fn begin(&mut self, syndrome: &[u64]) {
        self.cut = false;
        self.defects.fill(0);
        self.defects[..syndrome.len()].copy_from_slice(syndrome);
        self.taken.fill(0);
        self.chosen.fill(false);
        self.transform.fill(0);
        for (check, column) in self.transform.chunks_exact_mut(self.words.max(1)).enumerate() {
            column[check / 64] = 1 << (check % 64);
        }
    }

    /// Takes columns into the basis, in their order, until the basis is complete or, if `early`, explains the defects: later
    /// columns have no part in the error. Returns the number of columns taken.
    fn eliminate(&mut self, tables: &Tables, early: bool, go_on: &mut impl FnMut() -> bool) -> usize {
        let mut taken = 0;
        for at in 0..self.sorted.len() {
            if taken == self.rank || (early && is_within(&self.defects, &self.taken)) {
                break;
            }
            let column = self.sorted[at];
            self.reduce(tables, column);
            let Some(row) = first_outside(&self.reduced, &self.taken) else { continue };
            if !go_on() {
                self.cut = true;
                break;
            }
            self.taken[row / 64] |= 1 << (row % 64);
            self.basis[row] = column;
            self.chosen[column as usize] = true;
            taken += 1;
            // Row `row` is added to every other row in which the column has a one.
            self.reduced[row / 64] &= !(1 << (row % 64));
            let rows = self.transform.chunks_exact_mut(self.words).chain([&mut self.defects[..]]);
            for column in rows.filter(|column| bit(column, row)) {
                xor(column, &self.reduced);
            }
        }
        taken
    }

    /// A column after the row operations.
    fn reduce(&mut self, tables: &Tables, column: u32) {
        self.reduced.fill(0);
        for &check in tables.column_checks.get(column as usize) {
            let from = check as usize * self.words;
            xor(&mut self.reduced, &self.transform[from..from + self.words]);
        }
    }

    /// The columns outside the basis, at most two, that make the error lightest; of equals the first, and no column before any.
    fn sweep(&mut self, tables: &Tables, go_on: &mut impl FnMut() -> bool) -> [u32; 2] {
        let (mut best, mut least) = ([NONE; 2], 0i64);
        self.swept_columns.clear();
        for at in 0..self.sorted.len() {
            let column = self.sorted[at];
            if self.chosen[column as usize] {
                continue;
            }
            if !go_on() {
                self.cut = true;
                return best;
            }
            self.reduce(tables, column);
            let gain = prior(tables, column) + self.change(tables, &self.reduced, None);
            if gain < least {
                (best, least) = ([column, NONE], gain);
            }
            let from = self.swept_columns.len() * self.words;
            if let Some(room) = self.swept.get_mut(from..from + self.words)
                && self.swept_columns.len() < self.swept_columns.capacity()
            {
                room.copy_from_slice(&self.reduced);
                self.swept_columns.push(column);
            }
        }
        let of = |index: usize| &self.swept[index * self.words..(index + 1) * self.words];
        for (first, &one) in self.swept_columns.iter().enumerate() {
            if !go_on() {
                self.cut = true;
                break;
            }
            for (second, &other) in self.swept_columns.iter().enumerate().skip(first + 1) {
                let gain = prior(tables, one)
                    + prior(tables, other)
                    + self.change(tables, of(first), Some(of(second)));
                if gain < least {
                    (best, least) = ([one, other], gain);
                }
            }
        }
        best
    }

    /// The change of the basis columns' weight by a vector of rows, or by the sum of two.
    fn change(&self, tables: &Tables, one: &[u64], other: Option<&[u64]>) -> i64 {
        let mut sum = 0;
        for (word, (&one, &defects)) in one.iter().zip(&self.defects).enumerate() {
            let mut rows = one ^ other.map_or(0, |other| other[word]);
            while rows != 0 {
                let row = rows.trailing_zeros();
                let weight = prior(tables, self.basis[64 * word + row as usize]);
                sum += if defects >> row & 1 == 1 { -weight } else { weight };
                rows &= rows - 1;
            }
        }
        sum
    }
}

fn prior(tables: &Tables, column: u32) -> i64 {
    tables.priors[column as usize].into()
}

fn xor(to: &mut [u64], from: &[u64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

fn bit(vector: &[u64], at: usize) -> bool {
    vector[at / 64] >> (at % 64) & 1 == 1
}

fn is_within(vector: &[u64], mask: &[u64]) -> bool {
    vector.iter().zip(mask).all(|(vector, mask)| vector & !mask == 0)
}

fn first_outside(vector: &[u64], mask: &[u64]) -> Option<usize> {
    let mut words = vector.iter().zip(mask).map(|(vector, mask)| vector & !mask).enumerate();
    words.find(|&(_, rest)| rest != 0).map(|(word, rest)| 64 * word + rest.trailing_zeros() as usize)
}

fn ones(vector: &[u64]) -> impl Iterator<Item = usize> {
    vector.iter().enumerate().flat_map(|(word, &bits)| {
        let mut rest = bits;
        core::iter::from_fn(move || {
            let at = (rest != 0).then(|| 64 * word + rest.trailing_zeros() as usize);
            rest &= rest.wrapping_sub(1);
            at
        })
    })
}
