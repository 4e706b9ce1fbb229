//! Splitting an error of many detectors into edges that the graph has.

use std::collections::HashMap;

/// Two detectors in order, or one and the boundary.
pub(crate) type Ends = (u32, Option<u32>);

/// Larger errors than this are not split: the ways to do so grow with the factorial of half the size.
const MOST_DETECTORS: usize = 12;
/// Partial splits looked at for one error.
const MOST_STEPS: u32 = 20_000;

/// The cheapest set of edges that flips just these detectors, each once, and that `fits`; `None` if there is none.
pub(crate) fn split(
    detectors: &[u32],
    edges: &HashMap<Ends, u32>,
    cost: &[f64],
    fits: impl Fn(&[u32]) -> bool,
) -> Option<Vec<u32>> {
    if detectors.len() > MOST_DETECTORS {
        return None;
    }
    let mut search = Search { edges, cost, fits, steps: 0, parts: Vec::new(), best: None };
    search.extend(&mut detectors.to_vec(), 0.0);
    search.best.map(|(_, parts)| parts)
}

struct Search<'a, F> {
    edges: &'a HashMap<Ends, u32>,
    cost: &'a [f64],
    fits: F,
    steps: u32,
    parts: Vec<u32>,
    best: Option<(f64, Vec<u32>)>,
}

impl<F: Fn(&[u32]) -> bool> Search<'_, F> {
    /// Takes the last of the detectors that are left with each of the others, and with the boundary.
    fn extend(&mut self, left: &mut Vec<u32>, spent: f64) {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.best.as_ref().is_some_and(|(least, _)| spent >= *least) {
            return;
        }
        let Some(detector) = left.pop() else {
            if (self.fits)(&self.parts) {
                self.best = Some((spent, self.parts.clone()));
            }
            return;
        };
        for place in 0..left.len() {
            let other = left[place];
            let ends = (detector.min(other), Some(detector.max(other)));
            if let Some(&edge) = self.edges.get(&ends) {
                left.swap_remove(place);
                self.take(edge, left, spent);
                // As `swap_remove` found it.
                left.push(other);
                let last = left.len() - 1;
                left.swap(place, last);
            }
        }
        if let Some(&edge) = self.edges.get(&(detector, None)) {
            self.take(edge, left, spent);
        }
        left.push(detector);
    }

    fn take(&mut self, edge: u32, left: &mut Vec<u32>, spent: f64) {
        self.parts.push(edge);
        self.extend(left, spent + self.cost[edge as usize]);
        self.parts.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(detectors: &[u32], edges: &[(Ends, f64)]) -> Option<Vec<u32>> {
        let index = (0..).zip(edges).map(|(index, (ends, _))| (*ends, index)).collect();
        let cost: Vec<f64> = edges.iter().map(|edge| edge.1).collect();
        let mut found = split(detectors, &index, &cost, |_| true)?;
        found.sort_unstable();
        Some(found)
    }

    #[test]
    fn the_cheapest_split_wins() {
        let edges = [
            ((0, Some(1)), 2.0),
            ((2, Some(3)), 2.0),
            ((0, Some(2)), 1.0),
            ((1, Some(3)), 2.5),
            ((3, None), 9.0),
        ];
        assert_eq!(best(&[0, 1, 2, 3], &edges), Some(vec![2, 3]));
        assert_eq!(best(&[3, 2, 1, 0], &edges), Some(vec![2, 3]));
        assert_eq!(best(&[0, 1, 3], &edges), Some(vec![0, 4]));
        assert_eq!(best(&[0, 1, 2], &edges), None);
        assert_eq!(best(&[0, 1, 2, 3], &edges[..2]), Some(vec![0, 1]));
    }

    #[test]
    fn a_dense_graph_does_not_hang() {
        let edges: Vec<_> = (0..13).flat_map(|u| (u + 1..13).map(move |v| ((u, Some(v)), 1.0))).collect();
        assert_eq!(best(&(0..12).collect::<Vec<_>>(), &edges).unwrap().len(), 6);
        assert_eq!(best(&(0..13).collect::<Vec<_>>(), &edges), None);
        assert_eq!(best(&(0..11).collect::<Vec<_>>(), &edges), None);
    }
}
