//! Joint probabilities of pairs of edges: how often one error crosses both.

use std::collections::HashMap;

use crate::integers::IntegerState;

/// Probabilities of edges, and of pairs of edges of one error. Edges are named by their index in the builder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Joint {
    /// The probability of each edge.
    single: Vec<f64>,
    /// The probability of each pair, the smaller edge first.
    both: HashMap<(u32, u32), f64, IntegerState>,
}

impl Joint {
    /// Enters one error, whose parts are these edges.
    pub(crate) fn add(&mut self, probability: f64, parts: &[u32]) {
        for (i, &a) in parts.iter().enumerate() {
            let at = a as usize;
            if at >= self.single.len() {
                self.single.resize(at + 1, 0.0);
            }
            xor(&mut self.single[at], probability);
            for &b in &parts[i + 1..] {
                if a == b {
                    // PyMatching enters such a pair in both orders, into what is here the edge's own probability.
                    xor(&mut self.single[at], probability);
                    xor(&mut self.single[at], probability);
                } else {
                    xor(self.both.entry((a.min(b), a.max(b))).or_default(), probability);
                }
            }
        }
    }

    /// For all ordered pairs of edges with a common error: the first edge, the second, and the weight of the second
    /// given that the first was crossed. Sorted, so that graphs do not depend on the order of a hash table.
    pub(crate) fn implied(&self) -> Vec<(u32, u32, f64)> {
        let mut out = Vec::with_capacity(2 * self.both.len());
        for (&(a, b), &both) in &self.both {
            for (given, other) in [(a, b), (b, a)] {
                // Above one half the weight would be negative, which the second pass does not support.
                let p = (both / self.single[given as usize]).min(0.5);
                let weight = ((1.0 - p) / p).ln();
                if weight.is_finite() {
                    out.push((given, other, weight));
                }
            }
        }
        out.sort_unstable_by_key(|&(given, other, _)| u64::from(given) << 32 | u64::from(other));
        out
    }
}

/// Sets `p` to the probability that exactly one of two independent events happens.
fn xor(p: &mut f64, other: f64) {
    *p = *p * (1.0 - other) + other * (1.0 - *p);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_an_edge_its_partner_is_likelier() {
        let mut joint = Joint::default();
        joint.add(0.1, &[0, 1]);
        joint.add(0.2, &[0]);
        let implied = joint.implied();
        assert_eq!(implied.iter().map(|x| (x.0, x.1)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
        // 0.26 = 0.1 * 0.8 + 0.2 * 0.9
        let p: f64 = 0.1 / 0.26;
        assert!((implied[0].2 - ((1.0 - p) / p).ln()).abs() < 1e-12);
        assert_eq!(implied[1].2, 0.0, "certain, but no more than one half");
    }
}
