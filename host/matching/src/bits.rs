//! Sets of indices: as bits, and as lists in which pairs cancel.

/// Appends the indices of the set bits of `words` to `out`, in order: bit `i % 64` of word `i / 64` is index `i`.
///
/// A word of zeros costs one comparison. If `out` has capacity for all set bits, nothing is allocated.
///
/// ```
/// let mut out = Vec::new();
/// ringcall_matching::set_bits(&[1 << 3, 0, 1 << 63], &mut out);
/// assert_eq!(out, [3, 191]);
/// ```
pub fn set_bits(words: &[u64], out: &mut Vec<u32>) {
    for (i, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            out.push(i as u32 * 64 + rest.trailing_zeros());
            rest &= rest - 1;
        }
    }
}

/// Keeps one of each value that occurs an odd number of times in a sorted list.
pub(crate) fn cancel_pairs<T: Copy + PartialEq>(list: &mut Vec<T>) {
    let mut kept = 0;
    for i in 0..list.len() {
        if kept > 0 && list[kept - 1] == list[i] {
            kept -= 1;
        } else {
            list[kept] = list[i];
            kept += 1;
        }
    }
    list.truncate(kept);
}
