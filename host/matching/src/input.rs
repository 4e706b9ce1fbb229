//! Checks of the syndrome to decode.

use crate::error::MatchingError;
use crate::graph::{MatchingGraph, NONE};

/// Checks lists of defects. Each decoder has one.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    /// The defects to match, sorted, with those of used negative edges.
    pub(crate) defects: Vec<u32>,
    /// Scratch for a list that is not in order.
    pub(crate) sorted: Vec<u32>,
    parity: Vec<u32>,
    odd_parts: bool,
    /// Whether a second pass needs the edges crossed in silent parts.
    second_pass: bool,
}

impl Intake {
    pub(crate) fn new(graph: &MatchingGraph, second_pass: bool) -> Self {
        let n = graph.num_detectors();
        Self {
            defects: Vec::with_capacity(n),
            sorted: Vec::with_capacity(n + 1),
            parity: vec![NONE; graph.parts().len()],
            odd_parts: graph.parts().iter().any(|open| !open),
            second_pass,
        }
    }

    /// Whether some part of the graph has no boundary, so that parity matters.
    pub(crate) fn odd_parts(&self) -> bool {
        self.odd_parts
    }

    /// Checks and sorts the defects of a whole syndrome, and adds those of the negative edges.
    pub(crate) fn take(&mut self, graph: &MatchingGraph, defects: &[u32]) -> Result<(), MatchingError> {
        let Self { defects: taken, sorted, parity, odd_parts, second_pass } = self;
        let list = in_order(defects, graph.num_detectors(), sorted)?;
        if *odd_parts {
            // An edge of negative weight flips two detectors of a part without a boundary, which keeps the part's parity.
            check_parity(graph, list, parity)?;
        }
        taken.clear();
        symmetric_difference(list, &graph.used().detectors, taken);
        leave_out(graph, *second_pass, taken);
        Ok(())
    }

    /// The same for a part of a syndrome, whose negative edges flip `used`: `check` inspects each defect, and parity is not
    /// checked.
    pub(crate) fn take_part(
        &mut self,
        graph: &MatchingGraph,
        defects: &[u32],
        used: &[u32],
        check: impl FnMut(u32) -> Result<(), MatchingError>,
    ) -> Result<(), MatchingError> {
        let list = in_order(defects, graph.num_detectors(), &mut self.sorted)?;
        list.iter().copied().try_for_each(check)?;
        self.defects.clear();
        symmetric_difference(list, used, &mut self.defects);
        leave_out(graph, self.second_pass, &mut self.defects);
        Ok(())
    }

    /// Checks that each part without a boundary has an even number of these defects.
    pub(crate) fn check_parity(
        &mut self,
        graph: &MatchingGraph,
        defects: &[u32],
    ) -> Result<(), MatchingError> {
        if self.odd_parts { check_parity(graph, defects, &mut self.parity) } else { Ok(()) }
    }
}

/// The defects in increasing order: the list itself if it is sorted, else a copy in `buffer`, which has room for all detectors.
fn in_order<'a>(
    defects: &'a [u32],
    detectors: usize,
    buffer: &'a mut Vec<u32>,
) -> Result<&'a [u32], MatchingError> {
    let out_of_range = |d: &&u32| **d as usize >= detectors;
    let list = if defects.is_sorted_by(|a, b| a < b) {
        defects
    } else {
        if let Some(&defect) = defects.iter().find(out_of_range) {
            return Err(MatchingError::DefectOutOfRange { defect, detectors });
        }
        // Among more defects than detectors, one must be listed twice among the first.
        buffer.clear();
        buffer.extend(defects.iter().take(detectors + 1));
        buffer.sort_unstable();
        if let Some(w) = buffer.windows(2).find(|w| w[0] == w[1]) {
            return Err(MatchingError::DuplicateDefect { defect: w[0] });
        }
        buffer
    };
    match list.last().filter(out_of_range) {
        Some(&defect) => Err(MatchingError::DefectOutOfRange { defect, detectors }),
        None => Ok(list),
    }
}

/// Drops the defects that are not matched.
#[inline]
fn leave_out(graph: &MatchingGraph, second_pass: bool, defects: &mut Vec<u32>) {
    if second_pass && graph.leaves_any_out() {
        defects.retain(|&defect| !graph.leaves_out(defect));
    } else if !second_pass && graph.has_silent_parts() {
        defects.retain(|&defect| !graph.is_silent(defect));
    }
}

/// The elements of exactly one of two sorted lists.
fn symmetric_difference(a: &[u32], b: &[u32], out: &mut Vec<u32>) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => {
                out.push(a[i]);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                out.push(b[j]);
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                i += 1;
                j += 1;
            }
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
}

/// `odd` is all [`NONE`] before and after: per part, a defect without a partner so far.
fn check_parity(graph: &MatchingGraph, defects: &[u32], odd: &mut [u32]) -> Result<(), MatchingError> {
    for &u in defects {
        let at = &mut odd[graph.part_of(u) as usize];
        *at = if *at == NONE { u } else { NONE };
    }
    let mut left = None;
    for &u in defects {
        let part = graph.part_of(u) as usize;
        let detector = std::mem::replace(&mut odd[part], NONE);
        if detector != NONE && !graph.parts()[part] {
            left = left.or(Some(detector));
        }
    }
    left.map_or(Ok(()), |detector| Err(MatchingError::OddParity { detector }))
}
