//! Measurements for a syndrome: a control system's measurements that make the given detectors fire.

use anyhow::{Result, bail};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

/// The most detectors or measurements in equations to solve. A matrix with one measurement in each row has no limit.
const MOST: usize = 1 << 13;

/// Solves D m = d over bits for measurements m, with random free variables.
pub(super) enum Measurements {
    /// Detector `i` is measurement `at[i]`.
    Copies {
        at: Vec<u32>,
        count: usize,
    },
    Equations(Equations),
}

/// D in reduced echelon form, with the row operations that lead to it.
pub(super) struct Equations {
    count: usize,
    rows: Vec<Row>,
    /// Row operations that give empty rows: sums of detectors that are always 0.
    never: Vec<Vec<u64>>,
}

struct Row {
    pivot: usize,
    /// Free measurements of the reduced row.
    free: Vec<u64>,
    /// Detectors whose sum the row is.
    from: Vec<u64>,
}

fn parity(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum::<u32>() % 2 == 1
}

fn bit(words: &[u64], i: usize) -> bool {
    words[i / 64] >> (i % 64) & 1 == 1
}

fn flip(words: &mut [u64], i: usize) {
    words[i / 64] ^= 1 << (i % 64);
}

impl Measurements {
    /// `detectors` lists, for each detector, the measurements whose parity it is.
    pub(super) fn new(detectors: &[Vec<u32>], count: usize) -> Result<Self> {
        let mut single: Vec<u32> = detectors.iter().filter(|row| row.len() == 1).map(|row| row[0]).collect();
        if single.len() == detectors.len() {
            let at = single.clone();
            single.sort_unstable();
            single.dedup();
            if single.len() == at.len() {
                return Ok(Self::Copies { at, count });
            }
        }
        if detectors.len().max(count) > MOST {
            bail!(
                "D_sparse has {} detectors of {count} measurements: up to {MOST} are emulated",
                detectors.len()
            );
        }
        let words = |bits: usize| vec![0_u64; bits.div_ceil(64)];
        let mut rows: Vec<(Vec<u64>, Vec<u64>)> = Vec::with_capacity(detectors.len());
        for (i, row) in detectors.iter().enumerate() {
            let (mut left, mut right) = (words(count), words(detectors.len()));
            row.iter().for_each(|&measurement| flip(&mut left, measurement as usize));
            flip(&mut right, i);
            rows.push((left, right));
        }
        let mut pivots = Vec::new();
        for column in 0..count {
            let done = pivots.len();
            let Some(found) = (done..rows.len()).find(|&i| bit(&rows[i].0, column)) else { continue };
            rows.swap(done, found);
            let (pivot_left, pivot_right) = rows[done].clone();
            for (i, (left, right)) in rows.iter_mut().enumerate() {
                if i != done && bit(left, column) {
                    left.iter_mut().zip(&pivot_left).for_each(|(a, b)| *a ^= b);
                    right.iter_mut().zip(&pivot_right).for_each(|(a, b)| *a ^= b);
                }
            }
            pivots.push(column);
        }
        let never = rows.split_off(pivots.len()).into_iter().map(|(_, right)| right).collect();
        let rows = rows.into_iter().zip(pivots).map(|((mut free, from), pivot)| {
            flip(&mut free, pivot);
            Row { pivot, free, from }
        });
        Ok(Self::Equations(Equations { count, rows: rows.collect(), never }))
    }

    /// Writes measurements, packed in bits, with these `detectors`; false if there are none.
    pub(super) fn solve(
        &self,
        detectors: &[u64],
        random: &mut Xoshiro256PlusPlus,
        out: &mut Vec<u64>,
    ) -> bool {
        out.clear();
        match self {
            Self::Copies { at, count } => {
                out.resize(count.div_ceil(64), 0);
                let fired = at.iter().enumerate().filter(|&(i, _)| bit(detectors, i));
                fired.for_each(|(_, &at)| flip(out, at as usize));
            }
            Self::Equations(Equations { count, rows, never }) => {
                if never.iter().any(|row| parity(row, detectors)) {
                    return false;
                }
                out.resize_with(count.div_ceil(64), || random.next_u64());
                // The measurements of rows are set below; the others are free.
                for Row { pivot, .. } in rows {
                    if bit(out, *pivot) {
                        flip(out, *pivot);
                    }
                }
                let free = out.clone();
                for row in rows {
                    if parity(&row.free, &free) != parity(&row.from, detectors) {
                        flip(out, row.pivot);
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn the_detectors_of_the_measurements_are_those_asked_for() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        for (rows, count, rank) in [
            (vec![vec![0], vec![1], vec![2]], 3, 3),
            (vec![vec![2], vec![0]], 4, 2),
            (vec![vec![0], vec![0, 1], vec![1, 2], vec![2, 4]], 5, 4),
            (vec![vec![0, 1], vec![1, 2], vec![0, 2]], 3, 2),
            (vec![vec![3], vec![3]], 70, 1),
        ] {
            let solver = Measurements::new(&rows, count).expect("small");
            let mut solved = 0;
            for detectors in 0..1_u64 << rows.len() {
                let mut out = Vec::new();
                if !solver.solve(&[detectors], &mut random, &mut out) {
                    continue;
                }
                solved += 1;
                for (i, row) in rows.iter().enumerate() {
                    let parity = row.iter().filter(|&&m| bit(&out, m as usize)).count() % 2 == 1;
                    assert_eq!(parity, detectors >> i & 1 == 1, "{rows:?} {detectors:b}");
                }
            }
            assert_eq!(solved, 1 << rank, "{rows:?}");
        }
    }
}
