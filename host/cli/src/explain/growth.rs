//! Growing regions around defects: the part of each edge that they cover, and when.

use super::Explained;
use ringcall_matching::MatchedPair;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// A part of an edge that a region covers, from one end of the edge on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cover {
    pub(super) edge: usize,
    /// The detector at that end.
    pub(super) from: u32,
    /// The covered share of the edge.
    pub(super) share: f64,
    /// When the cover begins, and how long it grows, in units of weight.
    pub(super) begin: f64,
    pub(super) takes: f64,
}

#[derive(Debug)]
pub(super) struct Growth {
    pub(super) covers: Vec<Cover>,
    /// When the last region stops.
    pub(super) end: f64,
    distances: HashMap<MatchedPair, f64>,
}

/// A distance with a total order.
#[derive(Debug, Clone, Copy)]
struct Distance(f64);

impl PartialEq for Distance {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Distance {}

impl PartialOrd for Distance {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Distance {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Edges by detector.
struct Rows(Vec<Vec<usize>>);

impl Growth {
    /// Grows a region around each defect until the path to its partner is covered: half of the path, or all of it to
    /// the boundary.
    pub(super) fn new(explained: &Explained<'_>) -> Self {
        let edges = explained.graph.edges();
        let mut rows = vec![Vec::new(); explained.graph.num_detectors()];
        for (index, edge) in edges.iter().enumerate() {
            for end in [Some(edge.u), edge.v].into_iter().flatten() {
                rows[end as usize].push(index);
            }
        }
        let rows = Rows(rows);
        let mut growth = Self { covers: Vec::new(), end: 0.0, distances: HashMap::new() };
        for &pair in &explained.pairs {
            let Some(distance) = rows.distance(explained, pair.a, pair.b) else { continue };
            growth.distances.insert(pair, distance);
            match pair.b {
                None => growth.grow(explained, &rows, pair.a, distance),
                Some(b) => {
                    growth.grow(explained, &rows, pair.a, distance / 2.0);
                    growth.grow(explained, &rows, b, distance / 2.0);
                }
            }
        }
        growth
    }

    /// The weight of the lightest path of a pair.
    pub(super) fn distance(&self, pair: &MatchedPair) -> Option<f64> {
        self.distances.get(pair).copied()
    }

    fn grow(&mut self, explained: &Explained<'_>, rows: &Rows, defect: u32, radius: f64) {
        self.end = self.end.max(radius);
        for (&node, &begin) in &rows.reached(explained, defect, radius, None) {
            for &index in &rows.0[node as usize] {
                let weight = explained.graph.edges()[index].weight.max(0.0);
                let takes = (radius - begin).min(weight);
                let share = if weight > 0.0 { takes / weight } else { 1.0 };
                if share > 0.0 {
                    self.covers.push(Cover { edge: index, from: node, share, begin, takes });
                }
            }
        }
        // Sorted, so that the picture is reproducible: a map has no fixed order.
        self.covers.sort_by(|a, b| (a.edge, a.from).cmp(&(b.edge, b.from)).then(a.begin.total_cmp(&b.begin)));
    }
}

impl Rows {
    /// Detectors within a radius around one, with their distances. The search ends at `target`, if given.
    fn reached(
        &self,
        explained: &Explained<'_>,
        from: u32,
        radius: f64,
        target: Option<u32>,
    ) -> HashMap<u32, f64> {
        let mut reached = HashMap::new();
        let mut heap = BinaryHeap::from([Reverse((Distance(0.0), from))]);
        while let Some(Reverse((Distance(distance), node))) = heap.pop() {
            if reached.contains_key(&node) {
                continue;
            }
            reached.insert(node, distance);
            if target == Some(node) {
                break;
            }
            for &index in &self.0[node as usize] {
                let edge = &explained.graph.edges()[index];
                let Some(v) = edge.v else { continue };
                let (other, further) = (edge.u ^ v ^ node, distance + edge.weight.max(0.0));
                if further <= radius && !reached.contains_key(&other) {
                    heap.push(Reverse((Distance(further), other)));
                }
            }
        }
        reached
    }

    /// The weight of the lightest path from a detector to another, or to the boundary.
    fn distance(&self, explained: &Explained<'_>, from: u32, to: Option<u32>) -> Option<f64> {
        let reached = self.reached(explained, from, f64::INFINITY, to);
        match to {
            Some(to) => reached.get(&to).copied(),
            None => {
                let edges = explained.graph.edges().iter().filter(|edge| edge.v.is_none());
                let ends = edges.filter_map(|edge| Some(reached.get(&edge.u)? + edge.weight.max(0.0)));
                ends.min_by(f64::total_cmp)
            }
        }
    }
}
