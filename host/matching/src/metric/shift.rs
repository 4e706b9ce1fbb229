//! Shifts of node numbers that leave a graph the same, such as by a round of an experiment that repeats its rounds.

use super::ToBoundary;
use super::masks::MaskTable;
use crate::graph::MatchingGraph;

/// Most shifts that are tried, and most nodes on which each is tried.
const CANDIDATES: usize = 16;
const SAMPLES: usize = 1024;

/// A shift that holds for some nodes, or no shift.
#[derive(Debug)]
pub(super) struct Shift {
    by: u32,
    /// Per node, whether it looks like the node whose number is smaller by the shift; empty if there is no shift.
    holds: Vec<bool>,
    /// Per node, a bound on its distance to the boundary, equal for nodes that look the same.
    bounds: Vec<i64>,
}

impl Shift {
    /// The shift that holds for most nodes; none if it holds for less than one in eight.
    ///
    /// Two nodes look the same if their rows agree edge by edge in weight, in observables, and in the relative number of the
    /// other end. With the bounds, that is all that a search reads of a node.
    pub(super) fn find(graph: &MatchingGraph, boundary: &[ToBoundary], masks: Option<&MaskTable>) -> Self {
        let n = boundary.len() as u32;
        let looks_as = |node: u32, by: u32| {
            let Some(before) = node.checked_sub(by) else { return false };
            let (row, other) = (graph.neighbours(node), graph.neighbours(before));
            row.len() == other.len()
                && row.iter().zip(other).all(|(a, b)| {
                    a.node.wrapping_sub(b.node) == by
                        && a.weight == b.weight
                        && masks.is_none_or(|masks| masks.of_edge(a.edge) == masks.of_edge(b.edge))
                })
        };
        let mut shift =
            Self { by: 0, holds: Vec::new(), bounds: boundary.iter().map(|to| to.dist).collect() };
        if n == 0 {
            return shift;
        }
        // An edge between rounds joins a detector with its counterpart in the next round. A detector that is left out has no edge.
        let later = |u: u32| graph.neighbours(u).iter().filter(move |nb| nb.node > u);
        let middle = (n / 2..n).find(|&u| later(u).next().is_some()).unwrap_or(n / 2);
        let later = later(middle);
        let samples = || (0..n).step_by((n as usize).div_ceil(SAMPLES));
        let held = |by: u32| samples().filter(|&node| looks_as(node, by)).count();
        let best = later.take(CANDIDATES).map(|nb| (held(nb.node - middle), nb.node - middle)).max();
        let Some((_, by)) = best.filter(|&(most, _)| most > samples().count() / 8) else { return shift };
        (shift.by, shift.holds) = (by, (0..n).map(|node| looks_as(node, by)).collect());
        // From each node to the next one that looks the same, and back.
        let Self { holds, bounds, .. } = &mut shift;
        for node in (by..n).filter(|&node| holds[node as usize]) {
            bounds[node as usize] = bounds[node as usize].max(bounds[(node - by) as usize]);
        }
        for node in (by..n).rev().filter(|&node| holds[node as usize]) {
            bounds[(node - by) as usize] = bounds[node as usize];
        }
        let bound_as = |node: u32| bounds[node as usize] == bounds[(node - by) as usize];
        for node in by..n {
            holds[node as usize] &= graph.neighbours(node).iter().all(|nb| nb.node < by || bound_as(nb.node));
        }
        shift
    }

    /// The node that `node` looks like, if there is one.
    #[inline]
    pub(super) fn before(&self, node: u32) -> Option<u32> {
        self.holds(node).then(|| node - self.by)
    }

    /// Whether `node`, which may not exist, looks like the node before it.
    #[inline]
    pub(super) fn holds(&self, node: u32) -> bool {
        self.holds.get(node as usize) == Some(&true)
    }

    /// A number no less than the distance of a node to the boundary.
    #[inline]
    pub(super) fn bound(&self, node: u32) -> i64 {
        self.bounds[node as usize]
    }
}

#[cfg(test)]
mod tests {
    use crate::GraphBuilder;
    use crate::graph::MatchingGraph;
    use crate::metric::Metric;
    use crate::metric::search::{Flow, Search};

    /// Rounds of 6 checks in a row, the first and the last with other weights.
    fn memory(rounds: u32, uneven: u32) -> MatchingGraph {
        let mut b = GraphBuilder::new();
        for t in 0..rounds {
            let weight = 2.0 + f64::from(u8::from(t == uneven)) + f64::from(u8::from(t + 1 == rounds));
            for i in 0..6 {
                let u = 6 * t + i;
                if i < 5 {
                    b.edge(u, u + 1, weight, &[]).unwrap();
                }
                if t + 1 < rounds {
                    b.edge(u, u + 6, 1.0, &[]).unwrap();
                }
            }
            b.boundary_edge(6 * t, weight, &[0]).unwrap().boundary_edge(6 * t + 5, weight, &[]).unwrap();
        }
        b.build().unwrap()
    }

    /// A chain of rounds that flips an observable, and one that flips none and is left out, in either order.
    #[test]
    fn rounds_share_lists_beside_parts_that_are_left_out() {
        const ROUNDS: u32 = 200;
        for speaking in [0, 1] {
            let mut b = GraphBuilder::new();
            for u in 0..2 * ROUNDS {
                let observables: &[u32] = if u % 2 == speaking { &[0] } else { &[] };
                b.boundary_edge(u, 3.0, observables).unwrap();
                if u + 2 < 2 * ROUNDS {
                    b.edge(u, u + 2, 1.0, &[]).unwrap();
                }
            }
            let graph = b.build().unwrap().for_observables(false);
            let metric = Metric::new(&graph, 32);
            let lists = metric.nodes.iter().skip(speaking as usize).step_by(2).map(|info| info.first);
            let lists: std::collections::BTreeSet<u32> = lists.collect();
            assert!(lists.len() < 40, "{} lists of {ROUNDS} nodes", lists.len());
        }
    }

    #[test]
    fn rounds_share_lists_that_hold_what_a_search_finds() {
        for (rounds, uneven, entries) in [(40, 0, 32), (40, 17, 32), (12, 5, 512), (3, 0, 16)] {
            let graph = memory(rounds, uneven);
            let metric = Metric::new(&graph, entries);
            let mut search = Search::new(graph.num_detectors());
            let mut firsts: Vec<u32> = metric.nodes.iter().map(|info| info.first).collect();
            for (u, info) in (0..).zip(&metric.nodes) {
                let out = |v: u32| metric.nodes[v as usize].boundary;
                let mut listed: Vec<_> = metric.near.entries(u, info).map(|(v, dist, _)| (v, dist)).collect();
                let end = listed.last().map_or(0, |last| i64::from(last.1));
                let (mut found, mut needed) = (Vec::new(), Vec::new());
                search.run(&graph, u, |v| {
                    if v.node != u && listed.contains(&(v.node, v.dist as u32)) {
                        found.push((v.node, v.dist as u32));
                    }
                    let useful = v.dist < out(u) + out(v.node) && v.dist < info.limit();
                    if v.node != u && useful && (info.complete || v.dist < end) {
                        needed.push((v.node, v.dist as u32));
                    }
                    Flow::Expand
                });
                assert!(needed.iter().all(|entry| listed.contains(entry)), "node {u}: {needed:?} {listed:?}");
                found.sort_unstable();
                listed.sort_unstable();
                assert_eq!(found, listed, "node {u}");
                for (v, dist, position) in metric.near.entries(u, info) {
                    let edges = metric.near.path(&graph, u, info, position.into());
                    let (mut sum, mut ends) = (0, std::collections::BTreeSet::new());
                    for edge in edges {
                        let (a, b) =
                            (graph.edges()[edge as usize].u, graph.edges()[edge as usize].v.unwrap());
                        [a, b]
                            .into_iter()
                            .filter(|end| !ends.remove(end))
                            .collect::<Vec<_>>()
                            .iter()
                            .for_each(|&end| {
                                ends.insert(end);
                            });
                        sum += graph.grid_weight(edge as usize);
                    }
                    assert_eq!(
                        (sum, ends.into_iter().collect::<Vec<_>>()),
                        (dist.into(), vec![u.min(v), u.max(v)])
                    );
                }
            }
            firsts.sort_unstable();
            firsts.dedup();
            let nodes = graph.num_detectors();
            assert!(
                if rounds == 40 { firsts.len() <= nodes * 4 / 5 } else { firsts.len() <= nodes },
                "{}",
                firsts.len()
            );
        }
    }
}
