//! Lists of numbers, one after another: the rows of a sparse matrix.

use alloc::vec::Vec;

/// Lists of numbers, one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists {
    /// Where each list begins, and where the last one ends.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    pub(crate) fn new() -> Self {
        Self { starts: alloc::vec![0], items: Vec::new() }
    }

    /// Lists of these lengths, not filled yet.
    pub(crate) fn with_counts(counts: &[u32]) -> Self {
        let mut starts = Vec::with_capacity(counts.len() + 1);
        let mut end = 0;
        starts.push(end);
        for count in counts {
            end += count;
            starts.push(end);
        }
        Self { starts, items: alloc::vec![0; end as usize] }
    }

    /// Sets the item that is `from_end` (from 1) before the end of a list.
    pub(crate) fn set_from_end(&mut self, list: usize, from_end: u32, item: u32) {
        self.items[(self.starts[list + 1] - from_end) as usize] = item;
    }

    pub(crate) fn push(&mut self, list: &[u32]) {
        self.items.extend_from_slice(list);
        self.starts.push(self.items.len() as u32);
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn total(&self) -> usize {
        self.items.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &[u32] {
        &self.items[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}
