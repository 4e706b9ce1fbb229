//! Rows of different lengths, one after the other in one list.

/// Rows of values, made once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows<T> {
    ends: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> Rows<T> {
    pub(crate) fn of(rows: &[Vec<T>]) -> Self {
        let mut made = Self { ends: Vec::with_capacity(rows.len()), values: Vec::new() };
        for row in rows {
            made.values.extend_from_slice(row);
            made.ends.push(made.values.len() as u32);
        }
        made
    }

    pub(crate) fn row(&self, index: usize) -> &[T] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[begin as usize..self.ends[index] as usize]
    }
}
