//! Linear algebra over GF(2): row spaces and kernels of sparse matrices, by rows of packed bits.

/// A vector over GF(2), 64 entries a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BitVector(Vec<u64>);

impl BitVector {
    /// The vector of this length with ones at `ones`, each below `len`; an index named twice cancels.
    pub(super) fn of(len: usize, ones: &[u32]) -> Self {
        let mut vector = Self(vec![0; len.div_ceil(64)]);
        ones.iter().for_each(|&place| vector.0[place as usize / 64] ^= 1 << (place % 64));
        vector
    }

    pub(super) fn get(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word ^= other);
    }

    /// The inner product: whether an odd number of entries is one in both.
    pub(super) fn dot(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |parity, (a, b)| parity ^ (a & b).count_ones() & 1) == 1
    }

    /// The index of the first one.
    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(64 * word + self.0[word].trailing_zeros() as usize)
    }

    /// The indices of all ones, ascending.
    pub(super) fn ones(&self) -> Vec<u32> {
        let len = 64 * self.0.len();
        (0..len).filter(|&place| self.get(place)).map(|place| place as u32).collect()
    }
}

/// A space of vectors, as a basis in reduced row echelon form: each basis vector has a pivot, an index where no other basis
/// vector is one.
#[derive(Debug, Clone)]
pub(super) struct RowSpace {
    len: usize,
    basis: Vec<(usize, BitVector)>,
}

impl RowSpace {
    /// The space that these rows span.
    pub(super) fn of<'a>(len: usize, rows: impl IntoIterator<Item = &'a BitVector>) -> Self {
        let mut space = Self { len, basis: Vec::new() };
        for row in rows {
            space.insert(row);
        }
        space
    }

    /// Its dimension.
    #[cfg(test)]
    pub(super) fn dimension(&self) -> usize {
        self.basis.len()
    }

    /// Extends the space by a vector. Returns false if the space contained the vector already.
    pub(super) fn insert(&mut self, vector: &BitVector) -> bool {
        let mut rest = vector.clone();
        self.basis.iter().filter(|(pivot, _)| vector.get(*pivot)).for_each(|(_, row)| rest.add(row));
        let Some(pivot) = rest.first() else { return false };
        self.basis.iter_mut().filter(|(_, row)| row.get(pivot)).for_each(|(_, row)| row.add(&rest));
        self.basis.push((pivot, rest));
        true
    }

    /// A basis of the vectors whose inner product with each vector of this space is 0.
    pub(super) fn kernel(&self) -> Vec<BitVector> {
        let is_pivot = |place: usize| self.basis.iter().any(|&(pivot, _)| pivot == place);
        let free = (0..self.len).filter(|&place| !is_pivot(place));
        free.map(|place| {
            // The free entry is one; each pivot compensates for it in its own row.
            let pivots = self.basis.iter().filter(|(_, row)| row.get(place)).map(|&(pivot, _)| pivot as u32);
            BitVector::of(self.len, &pivots.chain([place as u32]).collect::<Vec<_>>())
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vectors(len: usize) -> impl Strategy<Value = Vec<BitVector>> {
        let vector =
            proptest::collection::vec(0..len as u32, 0..6).prop_map(move |ones| BitVector::of(len, &ones));
        proptest::collection::vec(vector, 0..40)
    }

    proptest! {
        #[test]
        fn kernel_and_row_space_complement_each_other(rows in vectors(70)) {
            let space = RowSpace::of(70, &rows);
            let kernel = space.kernel();
            prop_assert_eq!(space.dimension() + kernel.len(), 70);
            prop_assert!(kernel.iter().all(|vector| rows.iter().all(|row| !row.dot(vector))));
            prop_assert_eq!(RowSpace::of(70, &kernel).dimension(), kernel.len());
        }

        #[test]
        fn a_sum_of_rows_is_in_their_space(rows in vectors(70), chosen in any::<u64>()) {
            let mut space = RowSpace::of(70, &rows);
            let mut sum = BitVector::of(70, &[]);
            let odd = |index: &usize| chosen >> (index % 64) & 1 == 1;
            rows.iter().enumerate().filter(|(index, _)| odd(index)).for_each(|(_, row)| sum.add(row));
            prop_assert!(!space.insert(&sum));
        }
    }

    #[test]
    fn the_repetition_code_has_the_all_ones_word() {
        let rows = [[0, 1], [1, 2], [2, 3]].map(|row| BitVector::of(4, &row));
        let kernel = RowSpace::of(4, &rows).kernel();
        assert_eq!(kernel, [BitVector::of(4, &[0, 1, 2, 3])]);
    }
}
