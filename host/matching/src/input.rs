//! Checking what is to be decoded.

use crate::error::DecodeError;
use crate::graph::{MatchingGraph, NONE};

/// The defects in increasing order: the list itself if it is, or else a copy in `buffer`, which can hold as many as
/// there are detectors.
pub(crate) fn in_order<'a>(
    defects: &'a [u32],
    detectors: usize,
    buffer: &'a mut Vec<u32>,
) -> Result<&'a [u32], DecodeError> {
    let out_of_range = |d: &&u32| **d as usize >= detectors;
    let list = if defects.is_sorted_by(|a, b| a < b) {
        defects
    } else {
        if let Some(&defect) = defects.iter().find(out_of_range) {
            return Err(DecodeError::DefectOutOfRange { defect, detectors });
        }
        // Of more defects than detectors, one must come twice among the first ones.
        buffer.clear();
        buffer.extend(defects.iter().take(detectors + 1));
        buffer.sort_unstable();
        if let Some(w) = buffer.windows(2).find(|w| w[0] == w[1]) {
            return Err(DecodeError::DuplicateDefect { defect: w[0] });
        }
        buffer
    };
    match list.last().filter(out_of_range) {
        Some(&defect) => Err(DecodeError::DefectOutOfRange { defect, detectors }),
        None => Ok(list),
    }
}

/// Of two sorted lists, what is in just one of them.
pub(crate) fn symmetric_difference(a: &[u32], b: &[u32], out: &mut Vec<u32>) {
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
pub(crate) fn check_parity(
    graph: &MatchingGraph,
    defects: &[u32],
    odd: &mut [u32],
) -> Result<(), DecodeError> {
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
    left.map_or(Ok(()), |detector| Err(DecodeError::OddParity { detector }))
}
