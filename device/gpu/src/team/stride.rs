//! Every n-th index: a thread's share of a range.

use core::iter::FusedIterator;

/// The indices below a length that belong to one thread of a team: its rank, and every team's size after it.
///
/// A separate type, since `step_by` has a panic for a step of 0, which stays in device code.
#[derive(Clone, Debug)]
pub struct Stride {
    next: usize,
    step: usize,
    len: usize,
}

impl Stride {
    pub(super) fn new(rank: u32, size: u32, len: usize) -> Self {
        Self { next: rank as usize, step: size as usize, len }
    }
}

impl Iterator for Stride {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.next >= self.len {
            return None;
        }
        let index = self.next;
        self.next = index.saturating_add(self.step);
        Some(index)
    }
}

impl FusedIterator for Stride {}
