//! The mechanisms of one noise channel, and how each splits into edges of a matching graph.
//!
//! Symptoms are sorted lists of `u32`: a detector is its number, an observable has [`OBSERVABLE`] set, and [`SEPARATOR`]
//! separates the parts of a decomposed mechanism, so that the plain order of the lists is the order in which Stim lists
//! mechanisms.

/// Marks an observable among symptoms. Detectors stay below it.
pub(super) const OBSERVABLE: u32 = 1 << 31;

/// Separates the parts of a mechanism. Above any observable.
pub(super) const SEPARATOR: u32 = u32::MAX;

/// Independent mechanisms by their symptoms, equal ones merged.
///
/// Kept sorted in buckets by first symptom. A channel touches a few neighbouring buckets, which stay in cache where one large
/// table would not, and the buckets in order are the sorted list that the model needs.
#[derive(Debug)]
pub(super) struct Mechanisms {
    /// One for each detector, then one for each observable.
    buckets: Vec<Vec<Entry>>,
    detectors: u32,
    /// The symptoms of all mechanisms, end to end.
    symptoms: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    probability: f64,
    /// The range of the mechanism's symptoms.
    start: usize,
    len: u32,
}

impl Mechanisms {
    /// No mechanisms, for these numbers of detectors and observables.
    pub(super) fn new(detectors: u32, observables: u32) -> Self {
        let buckets = vec![Vec::new(); detectors as usize + observables as usize];
        Self { buckets, detectors, symptoms: Vec::new() }
    }

    /// Adds an independent mechanism. One without symptoms changes nothing.
    pub(super) fn add(&mut self, probability: f64, symptoms: &[u32]) {
        let Some(&first) = symptoms.first().filter(|_| probability > 0.0) else { return };
        let index = if first < OBSERVABLE { first } else { self.detectors + (first ^ OBSERVABLE) };
        let bucket = &mut self.buckets[index as usize];
        let known = &self.symptoms;
        match bucket.binary_search_by(|entry| entry.symptoms(known).cmp(symptoms)) {
            Ok(at) => {
                // Either fires without the other: together they cancel.
                let p = &mut bucket[at].probability;
                *p = *p * (1.0 - probability) + probability * (1.0 - *p);
            }
            Err(at) => {
                bucket.insert(at, Entry { probability, start: known.len(), len: symptoms.len() as u32 });
                self.symptoms.extend_from_slice(symptoms);
            }
        }
    }

    /// Symptoms and probability of each mechanism, sorted by symptoms.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u32], f64)> {
        self.buckets.iter().flatten().map(|entry| (entry.symptoms(&self.symptoms), entry.probability))
    }
}

impl Entry {
    fn symptoms<'a>(&self, all: &'a [u32]) -> &'a [u32] {
        &all[self.start..self.start + self.len as usize]
    }
}

/// The probability of each of the 3 independent mechanisms that together are one-qubit depolarising of strength
/// `p`, which is at most 3/4.
pub(super) fn depolarize1_part(p: f64) -> f64 {
    0.5 - 0.5 * (1.0 - 4.0 * p / 3.0).sqrt()
}

/// The probability of each of the 15 independent mechanisms that together are two-qubit depolarising of strength
/// `p`, which is at most 15/16.
pub(super) fn depolarize2_part(p: f64) -> f64 {
    // `powf` rather than the more accurate `exp_m1`, so that the last bits agree with Stim.
    0.5 - 0.5 * (1.0 - 16.0 * p / 15.0).powf(0.125)
}

/// Replaces `list` by the elements that it does not share with `other`; both are sorted and unique.
pub(super) fn add_symptoms(list: &mut Vec<u32>, other: &[u32], scratch: &mut Vec<u32>) {
    scratch.clear();
    let (mut a, mut b) = (list.as_slice(), other);
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        if x <= y {
            a = &a[1..];
        }
        if y <= x {
            b = &b[1..];
        }
        if x != y {
            scratch.push(x.min(y));
        }
    }
    scratch.extend_from_slice(a);
    scratch.extend_from_slice(b);
    std::mem::swap(list, scratch);
}

/// Computes all products of the elementary faults of one channel; reused, so that it stops allocating.
#[derive(Debug, Default)]
pub(super) struct Products {
    /// Entry `k` is the product of the faults whose bit is set in `k`.
    symptoms: [Vec<u32>; 16],
    /// The detectors of each product as a set of indices into `involved`.
    masks: [u32; 16],
    involved: Vec<u32>,
    scratch: Vec<u32>,
    key: Vec<u32>,
}

impl Products {
    /// Adds to `mechanisms` every non-trivial product of `faults` (2 or 4 of them), each with `probability`;
    /// `decompose` splits each into edges as far as the products of the same channel allow.
    ///
    /// The split is Stim's. Parts are the products that flip one detector, and the products that flip two detectors of which
    /// other products do not flip both alone. Every other product is written as at most two such pairs and then single ones,
    /// first fit in the order of `k`.
    pub(super) fn add_to(
        &mut self,
        mechanisms: &mut Mechanisms,
        probability: f64,
        faults: &[&[u32]],
        decompose: bool,
    ) {
        let count = 1 << faults.len();
        for k in 1..count {
            let top = usize::ilog2(k);
            let (below, from) = self.symptoms.split_at_mut(k);
            from[0].clear();
            from[0].extend_from_slice(&below[k & !(1 << top)]);
            add_symptoms(&mut from[0], faults[top as usize], &mut self.scratch);
        }
        let split = decompose && self.number_detectors(count);
        let (singles, pairs) = if split { self.parts(count) } else { (0, 0) };
        for k in 1..count {
            let detectors = self.masks[k].count_ones();
            if split && detectors > 0 && detectors != 1 && pairs >> k & 1 == 0 {
                self.split(k, count, singles, pairs);
                if self.key_sums_to(k) {
                    mechanisms.add(probability, &self.key);
                    continue;
                }
            }
            mechanisms.add(probability, &self.symptoms[k]);
        }
    }

    /// Fills `involved` and `masks`. Returns false if there are more detectors than bits.
    fn number_detectors(&mut self, count: usize) -> bool {
        self.involved.clear();
        for k in 1..count {
            let mut mask = 0;
            for &detector in self.symptoms[k].iter().filter(|&&symptom| symptom < OBSERVABLE) {
                let known = self.involved.iter().position(|&other| other == detector);
                let bit = known.unwrap_or_else(|| {
                    self.involved.push(detector);
                    self.involved.len() - 1
                });
                if bit >= 32 {
                    return false;
                }
                mask |= 1 << bit;
            }
            self.masks[k] = mask;
        }
        true
    }

    /// The detectors that some product flips alone, and the products that are parts because they flip two.
    fn parts(&self, count: usize) -> (u32, u32) {
        let single = |mask: &&u32| mask.count_ones() == 1;
        let singles = self.masks[1..count].iter().filter(single).fold(0, |all, mask| all | mask);
        let pairs = (1..count)
            .filter(|&k| self.masks[k].count_ones() == 2 && self.masks[k] & !singles != 0)
            .fold(0, |all, k| all | 1 << k);
        (singles, pairs)
    }

    /// Writes product `goal` as parts into `key`.
    fn split(&mut self, goal: usize, count: usize, singles: u32, pairs: u32) {
        self.key.clear();
        let mask = self.masks[goal];
        let pair = |k: &usize| pairs >> k & 1 == 1;
        let mut rest = mask;
        if mask & !singles != 0 {
            let masks = &self.masks;
            let one = (1..count)
                .filter(pair)
                .find(|&k| mask & masks[k] == masks[k] && mask & !(singles | masks[k]) == 0)
                .map(|k| (k, None));
            let two = || {
                (1..count).filter(pair).find_map(|a| {
                    let fits = |b: &usize| {
                        masks[a] & masks[*b] == 0 && mask & !(singles | masks[a] | masks[*b]) == 0
                    };
                    (a + 1..count).filter(pair).find(fits).map(|b| (a, Some(b)))
                })
            };
            let Some((a, b)) = one.or_else(two) else {
                self.key.extend_from_slice(&self.symptoms[goal]);
                return;
            };
            let (a, b) = match b {
                Some(b) if self.symptoms[b] < self.symptoms[a] => (b, Some(a)),
                _ => (a, b),
            };
            for k in std::iter::once(a).chain(b) {
                rest &= !self.masks[k];
                append_part(&mut self.key, &self.symptoms[k]);
            }
        }
        for k in 1..count {
            if self.masks[k].count_ones() == 1 && self.masks[k] & !rest == 0 {
                rest &= !self.masks[k];
                append_part(&mut self.key, &self.symptoms[k]);
            }
        }
    }

    /// Whether the parts in `key` flip exactly the symptoms of product `k`. The parts were chosen by their detectors alone, so
    /// observables may differ.
    fn key_sums_to(&mut self, k: usize) -> bool {
        self.scratch.clear();
        self.scratch.extend(self.key.iter().filter(|&&symptom| symptom != SEPARATOR));
        crate::dem::cancel_pairs(&mut self.scratch);
        self.scratch == self.symptoms[k]
    }
}

fn append_part(key: &mut Vec<u32>, part: &[u32]) {
    if !key.is_empty() {
        key.push(SEPARATOR);
    }
    key.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn products(faults: &[&[u32]]) -> Vec<Vec<u32>> {
        let mut mechanisms = Mechanisms::new(10, 1);
        Products::default().add_to(&mut mechanisms, 0.25, faults, true);
        mechanisms.iter().map(|(symptoms, _)| symptoms.to_vec()).collect()
    }

    #[test]
    fn symptoms_add_as_sets() {
        let mut list = vec![1, 3, 5];
        add_symptoms(&mut list, &[0, 3, 5, 9], &mut Vec::new());
        assert_eq!(list, [0, 1, 9]);
    }

    #[test]
    fn equal_mechanisms_merge_and_empty_ones_vanish() {
        let mut mechanisms = Mechanisms::new(10, 1);
        mechanisms.add(0.1, &[4]);
        mechanisms.add(0.2, &[4]);
        mechanisms.add(0.5, &[]);
        mechanisms.add(0.0, &[7]);
        let sorted: Vec<_> = mechanisms.iter().collect();
        assert_eq!(sorted.len(), 1);
        assert!((sorted[0].1 - 0.26).abs() < 1e-15);
    }

    #[test]
    fn a_y_error_splits_into_its_x_and_z_parts() {
        let expected = [vec![0, 1], vec![0, 1, SEPARATOR, 2, 3], vec![2, 3]];
        assert_eq!(products(&[&[2, 3], &[0, 1]]), expected);
    }

    #[test]
    fn pairs_whose_ends_occur_alone_split_into_singles() {
        assert_eq!(products(&[&[5], &[6]]), [vec![5], vec![5, SEPARATOR, 6], vec![6]]);
    }

    #[test]
    fn parts_must_explain_the_observables_too() {
        // {0} and {0, observable}: their product flips the observable alone and {0, 1} may not use the wrong one.
        let faults: [&[u32]; 4] = [&[0], &[0, OBSERVABLE], &[1], &[2, 3, 4]];
        let all = products(&faults);
        assert!(all.contains(&vec![OBSERVABLE]));
        assert!(all.contains(&vec![0, 1, OBSERVABLE]), "left whole, since 0 ^ 1 lacks the observable");
    }

    #[test]
    fn depolarising_parts_compose_to_the_whole() {
        // Three independent Paulis of probability q each give I with probability (1-q)^3 + q^3.
        let (p, q) = (0.3, depolarize1_part(0.3));
        assert!(((1.0 - q).powi(3) + q.powi(3) - (1.0 - p)).abs() < 1e-12);
        // Each Pauli of the two-qubit channel anticommutes with 8 of 15: fidelity (1 - 2q)^8 = 1 - 16p/15.
        let q = depolarize2_part(p);
        assert!(((1.0 - 2.0 * q).powi(8) - (1.0 - 16.0 * p / 15.0)).abs() < 1e-12);
    }
}
