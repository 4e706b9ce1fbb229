//! Turning matched pairs into observables, weights and edges.

use crate::blossom::SEARCHED;
use crate::graph::{MatchingGraph, NONE};
use crate::metric::Metric;
use crate::metric::search::{Flow, Search};
use crate::solution::{MatchedPair, Solution};

/// Where the path of a matched pair is to be found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) owner: u32,
    pub(crate) position: u64,
}

/// Collects a solution pair by pair.
pub(crate) struct ReadOut<'a> {
    pub(crate) graph: &'a MatchingGraph,
    pub(crate) metric: &'a Metric,
    pub(crate) solution: &'a mut Solution,
    pub(crate) places: &'a mut Vec<Place>,
    pub(crate) search: &'a mut Search,
}

impl ReadOut<'_> {
    #[inline]
    pub(crate) fn boundary(&mut self, a: u32) {
        let info = &self.metric.nodes[a as usize];
        let pair = MatchedPair { a, b: None };
        self.add(pair, info.boundary, Place { owner: a, position: 0 }, Some(info.mask));
    }

    #[inline]
    pub(crate) fn pair(&mut self, a: u32, b: u32, dist: i64, place: Place) {
        let mask = (place.position != SEARCHED).then(|| self.metric.near.mask(place.position));
        self.add(MatchedPair { a, b: Some(b) }, dist, place, mask);
    }

    #[inline]
    fn add(&mut self, pair: MatchedPair, dist: i64, place: Place, mask: Option<u32>) {
        let Self { graph, metric, solution, places, search } = self;
        solution.pairs.push(pair);
        solution.grid_weight += dist;
        places.push(place);
        match (&metric.masks, mask) {
            (Some(masks), Some(mask)) => masks.xor_into(mask, &mut solution.observables),
            _ => walk(graph, metric, search, pair, place, |edge| {
                for &o in &graph.edges()[edge as usize].observables {
                    solution.observables[o as usize / 64] ^= 1 << (o % 64);
                }
            }),
        }
    }
}

/// Calls `edge` with every edge on the path of a matched pair.
pub(crate) fn walk(
    graph: &MatchingGraph,
    metric: &Metric,
    search: &mut Search,
    pair: MatchedPair,
    place: Place,
    mut edge: impl FnMut(u32),
) {
    let Some(b) = pair.b else {
        let mut at = pair.a;
        while at != NONE {
            let step = metric.boundary[at as usize];
            edge(step.edge);
            at = step.next;
        }
        return;
    };
    if place.position != SEARCHED {
        metric.near.path(place.owner, metric.nodes[place.owner as usize].rest, place.position).for_each(edge);
        return;
    }
    search.run(graph, pair.a, |v| if v.node == b { Flow::Stop } else { Flow::Expand });
    let mut at = b;
    while at != pair.a {
        let (before, step) = search.before(at);
        edge(step);
        at = before;
    }
}

/// Of a sorted list, keeps one of each value that occurs an odd number of times.
pub(crate) fn cancel_pairs(list: &mut Vec<u32>) {
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
