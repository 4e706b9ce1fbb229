//! A check matrix and an observables matrix, whose columns are errors, as a matching graph.

use crate::status::Fault;
use ringcall_qec::decode::{DecodingGraph, ParallelEdges};
use ringcall_qec::dem::text::Limits;

/// A binary matrix in compressed columns: column `i` has ones in the rows `rows[offsets[i]..offsets[i + 1]]`, ascending.
pub(super) struct Columns {
    offsets: Vec<usize>,
    rows: Vec<u32>,
}

impl Columns {
    /// Without a one.
    pub(super) fn empty(columns: usize) -> Self {
        Self { offsets: vec![0; columns + 1], rows: Vec::new() }
    }

    /// Of a byte for each entry, row by row.
    pub(super) fn of_rows(entries: &[u8], columns: usize, what: &str) -> Result<Self, Fault> {
        let mut offsets = vec![0; columns + 1];
        let ones = || entries.iter().enumerate().filter(|(_, entry)| **entry != 0);
        for (at, &entry) in ones() {
            let (row, column) = (at / columns, at % columns);
            if entry != 1 {
                return Err(Fault::invalid(format!(
                    "row {row}, column {column} of the {what} is {entry}: it must be 0 or 1"
                )));
            }
            offsets[column + 1] += 1;
        }
        for column in 0..columns {
            offsets[column + 1] += offsets[column];
        }
        let mut next = offsets.clone();
        let mut rows = vec![0; offsets[columns]];
        for (at, _) in ones() {
            let position = &mut next[at % columns];
            rows[*position] = (at / columns) as u32;
            *position += 1;
        }
        Ok(Self { offsets, rows })
    }

    /// Of the caller's compressed columns, whose offsets were checked; rows of a column in any order, each once.
    pub(super) fn compressed(offsets: &[u64], at: &[u32], rows: u32, what: &str) -> Result<Self, Fault> {
        let offsets: Vec<usize> = offsets.iter().map(|&offset| offset as usize).collect();
        let mut sorted = at.to_vec();
        for (column, ends) in offsets.windows(2).enumerate() {
            let list = &mut sorted[ends[0]..ends[1]];
            list.sort_unstable();
            let refused =
                |why: String| Err(Fault::invalid(format!("column {column} of the {what} names row {why}")));
            if let Some(&last) = list.last().filter(|last| **last >= rows) {
                return refused(format!("{last}, but it has {rows} rows"));
            }
            if let Some(pair) = list.windows(2).find(|pair| pair[0] == pair[1]) {
                return refused(format!("{} twice", pair[0]));
            }
        }
        Ok(Self { offsets, rows: sorted })
    }

    pub(super) fn rows_of(&self, column: usize) -> &[u32] {
        &self.rows[self.offsets[column]..self.offsets[column + 1]]
    }

    pub(super) fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// Refuses offsets that do not begin at 0 or that fall.
pub(super) fn check_offsets(offsets: &[u64], what: &str) -> Result<(), Fault> {
    if offsets.first() != Some(&0) {
        return Err(Fault::invalid(format!("the offsets of the {what} do not begin with 0")));
    }
    match offsets.windows(2).position(|ends| ends[1] < ends[0]) {
        Some(column) => Err(Fault::invalid(format!(
            "the offsets of the {what} fall after column {column}: from {} to {}",
            offsets[column],
            offsets[column + 1]
        ))),
        None => Ok(()),
    }
}

/// Refuses more rows than a detector error model may have.
pub(super) fn check_rows(num_detectors: u32, num_observables: u32) -> Result<(), Fault> {
    let Limits { detectors, observables, .. } = Limits::default();
    for (what, found, most) in
        [("detectors", num_detectors, detectors), ("observables", num_observables, observables)]
    {
        if found > most {
            return Err(Fault::invalid(format!("{found} {what} are too many: {most} at most")));
        }
    }
    Ok(())
}

/// The graph. With priors, parallel columns become one edge as in a detector error model; without, each weighs 1, and the first
/// of parallel ones stays.
pub(super) fn graph(
    num_detectors: u32,
    num_observables: u32,
    checks: &Columns,
    observables: &Columns,
    priors: Option<&[f64]>,
) -> Result<DecodingGraph, Fault> {
    let parallel = if priors.is_some() { ParallelEdges::Independent } else { ParallelEdges::SmallestWeight };
    let mut graph = DecodingGraph::new(num_detectors, num_observables, parallel);
    for column in 0..checks.count() {
        let weight = match priors.map(|priors| priors[column]) {
            None => 1.0,
            Some(p) if (0.0..1.0).contains(&p) => ((1.0 - p) / p).ln(),
            Some(1.0) => {
                return Err(Fault::invalid(format!(
                    "the prior of column {column} is 1, an infinite weight: take the column out, and flip what it flips in \
                     every shot"
                )));
            }
            Some(p) => {
                return Err(Fault::invalid(format!(
                    "the prior of column {column} is {p}: it must be a probability, from 0 to less than 1"
                )));
            }
        };
        let (node, other) = match *checks.rows_of(column) {
            // No syndrome shows it.
            [] => continue,
            [node] => (node, None),
            [node, other] => (node, Some(other)),
            ref rows => {
                return Err(Fault::invalid(format!(
                    "column {column} of the check matrix has {} ones: matching takes errors that flip one detector or two",
                    rows.len()
                )));
            }
        };
        // An error that never happens.
        if weight == f64::INFINITY {
            continue;
        }
        graph.add_edge(node, other, weight, observables.rows_of(column))?;
    }
    Ok(graph)
}
