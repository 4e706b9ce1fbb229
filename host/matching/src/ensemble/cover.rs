//! Likelihood of a correction: the least cost of errors that cross its edges, each edge once.
//!
//! A matching weighs each edge alone, as if no two shared an error. The cost of a correction is that of the likeliest errors that
//! compose it: a partition of its edges into errors of the model.

use super::errors::ErrorTable;

/// The most edges of a component, linked by errors, for which all partitions are tried.
const MOST: usize = 24;

/// The most partial partitions that are tried for one component; then the best so far is taken.
const STEPS: u32 = 4096;

/// The cost of an edge that no error within the set explains: more than any error of a code, and finite.
const UNEXPLAINED: f64 = 50.0;

/// Finds least costs, in working memory for one set of edges.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    /// Per edge, whether it is in the set and not yet in a component.
    open: Vec<bool>,
    /// Per edge of the current component, its index in the component plus one; 0 for other edges.
    place: Vec<u8>,
    component: Vec<u32>,
    /// Errors within the component, by the index of the first edge that they cross: the edges crossed, and the cost.
    options: Vec<(u32, f64)>,
    options_at: Vec<u32>,
    /// Per index, a lower bound on the cost of the edges from there on.
    bound: Vec<f64>,
}

impl Cover {
    pub(super) fn new(edges: usize) -> Self {
        Self {
            open: vec![false; edges],
            place: vec![0; edges],
            component: Vec::new(),
            options: Vec::new(),
            options_at: Vec::with_capacity(MOST + 1),
            bound: Vec::with_capacity(MOST + 1),
        }
    }

    /// The cost of a set of edges, each listed once.
    pub(super) fn cost(&mut self, errors: &ErrorTable, set: &[u32]) -> f64 {
        set.iter().for_each(|&edge| self.open[edge as usize] = true);
        let mut cost = 0.0;
        for &edge in set {
            if self.open[edge as usize] {
                cost += self.component(errors, edge);
            }
        }
        cost
    }

    /// The cost of the component of `first`, whose edges are then no longer open.
    fn component(&mut self, errors: &ErrorTable, first: u32) -> f64 {
        self.component.clear();
        self.take(first);
        let mut next = 0;
        while let Some(&edge) = self.component.get(next) {
            next += 1;
            for &error in errors.of(edge) {
                let parts = errors.parts(error);
                let inside = |&part: &u32| self.open[part as usize] || self.place[part as usize] > 0;
                if parts.len() > 1 && parts.iter().all(inside) {
                    for &part in parts {
                        if self.open[part as usize] {
                            self.take(part);
                        }
                    }
                }
            }
        }
        let cost = if self.component.len() > MOST { self.one_by_one(errors) } else { self.partition(errors) };
        self.component.iter().for_each(|&edge| self.place[edge as usize] = 0);
        cost
    }

    /// Adds an open edge to the component.
    fn take(&mut self, edge: u32) {
        self.open[edge as usize] = false;
        self.place[edge as usize] = (self.component.len() + 1).min(255) as u8;
        self.component.push(edge);
    }

    /// The cost of the component if each edge is one error.
    fn one_by_one(&self, errors: &ErrorTable) -> f64 {
        let single = |&edge: &u32| {
            let alone = errors.of(edge).iter().filter(|&&error| errors.parts(error).len() == 1);
            alone.map(|&error| errors.cost(error)).fold(UNEXPLAINED, f64::min)
        };
        self.component.iter().map(single).sum()
    }

    /// The least cost of all partitions of the component.
    fn partition(&mut self, errors: &ErrorTable) -> f64 {
        let Self { place, component, options, options_at, bound, .. } = self;
        options.clear();
        options_at.clear();
        bound.clear();
        bound.resize(component.len() + 1, 0.0);
        for (at, &edge) in component.iter().enumerate() {
            options_at.push(options.len() as u32);
            let mut share = UNEXPLAINED;
            for &error in errors.of(edge) {
                let parts = errors.parts(error);
                if parts.iter().all(|&part| place[part as usize] > 0) {
                    let mask = parts.iter().fold(0, |mask, &part| mask | 1 << (place[part as usize] - 1));
                    share = share.min(errors.cost(error) / parts.len() as f64);
                    if mask & ((1 << at) - 1) == 0 {
                        options.push((mask, errors.cost(error)));
                    }
                }
            }
            bound[at] = share;
        }
        options_at.push(options.len() as u32);
        for at in (0..component.len()).rev() {
            bound[at] += bound[at + 1];
        }
        let mut search = Search {
            options,
            options_at,
            bound,
            best: f64::INFINITY,
            steps: STEPS,
            all: (1 << component.len()) - 1,
        };
        search.from(0, 0.0);
        search.best
    }
}

/// A branch-and-bound search of all partitions.
struct Search<'a> {
    options: &'a [(u32, f64)],
    options_at: &'a [u32],
    bound: &'a [f64],
    all: u32,
    best: f64,
    steps: u32,
}

impl Search<'_> {
    /// Continues with the edges `taken`, at a cost.
    fn from(&mut self, taken: u32, cost: f64) {
        if taken == self.all {
            self.best = self.best.min(cost);
            return;
        }
        let place = taken.trailing_ones() as usize;
        // The bound counts taken edges after this index as open; without their share it bounds the rest.
        let open = self.bound[place] - self.taken_after(taken, place);
        if cost + open >= self.best || (self.steps == 0 && self.best.is_finite()) {
            return;
        }
        self.steps = self.steps.saturating_sub(1);
        let row = self.options_at[place] as usize..self.options_at[place + 1] as usize;
        for index in row {
            let (mask, price) = self.options[index];
            if mask & taken == 0 {
                self.from(taken | mask, cost + price);
            }
        }
        self.from(taken | 1 << place, cost + UNEXPLAINED);
    }

    /// The bound's share of taken edges after `place`.
    fn taken_after(&self, taken: u32, place: usize) -> f64 {
        let mut rest = taken >> place;
        let (mut at, mut sum) = (place, 0.0);
        while rest != 0 {
            if rest & 1 == 1 {
                sum += self.bound[at] - self.bound[at + 1];
            }
            rest >>= 1;
            at += 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least cost by trying every error, or no error, for the first edge.
    fn least(errors: &[(f64, Vec<u32>)], left: &[u32]) -> f64 {
        let Some(&first) = left.first() else { return 0.0 };
        let without = |parts: &[u32]| -> Vec<u32> {
            left.iter().copied().filter(|edge| !parts.contains(edge)).collect()
        };
        let unexplained = UNEXPLAINED + least(errors, &without(&[first]));
        errors
            .iter()
            .filter(|(_, parts)| parts.contains(&first) && parts.iter().all(|part| left.contains(part)))
            .map(|(p, parts)| ((1.0 - p) / p).ln() + least(errors, &without(parts)))
            .fold(unexplained, f64::min)
    }

    proptest! {
        #[test]
        fn costs_are_those_of_all_partitions(
            errors in prop::collection::btree_map(prop::collection::btree_set(0u32..9, 1..4), 0.001..0.4f64, 1..20),
            set in prop::collection::btree_set(0u32..9, 0..9),
        ) {
            let errors: Vec<(f64, Vec<u32>)> =
                errors.into_iter().map(|(parts, p)| (p, parts.into_iter().collect())).collect();
            let table = ErrorTable::new(9, errors.iter().map(|(p, parts)| (*p, &parts[..]))).unwrap();
            let set: Vec<u32> = set.into_iter().collect();
            let mut cover = Cover::new(9);
            for _ in 0..2 {
                prop_assert!((cover.cost(&table, &set) - least(&errors, &set)).abs() < 1e-9);
            }
            prop_assert!(cover.open.iter().all(|open| !open) && cover.place.iter().all(|&place| place == 0));
        }
    }

    #[test]
    fn many_edges_that_hang_together_have_a_cost() {
        let pairs: Vec<[u32; 2]> = (0..99).map(|edge| [edge, edge + 1]).collect();
        let singles: Vec<[u32; 1]> = (0..100).map(|edge| [edge]).collect();
        let all =
            pairs.iter().map(|pair| (0.01, &pair[..])).chain(singles.iter().map(|one| (0.02, &one[..])));
        let table = ErrorTable::new(100, all).unwrap();
        let mut cover = Cover::new(100);
        let few: Vec<u32> = (0..MOST as u32).collect();
        let pair = (0.99f64 / 0.01).ln();
        assert!((cover.cost(&table, &few) - 12.0 * pair).abs() < 1e-9, "twelve pairs");
        let many: Vec<u32> = (0..100).collect();
        assert!((cover.cost(&table, &many) - 100.0 * (0.98f64 / 0.02).ln()).abs() < 1e-6);
    }
}
