//! The search that fills near lists: Dijkstra's, with nodes taken from buckets as wide as the lightest edge.
//!
//! Every edge leads from one bucket to a later one, so all distances in the first bucket that is not empty are final: the bucket
//! is sorted once, and no node moves twice. (Dial, 1969, and Denardo and Fox, 1979, describe such buckets.) If an edge is so
//! light that there would be too many buckets, a heap takes their place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::shift::Shift;
use crate::graph::{MatchingGraph, NONE};

/// Distances are stored in 32 bits.
pub(super) const DIST_LIMIT: i64 = u32::MAX as i64 - 1;
/// Most buckets.
const BUCKETS: usize = 1 << 12;

/// A node in the order of its distance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) node: u32,
    pub(super) dist: u32,
    /// The position of the node before it on a shortest path among those visited, from 1 on; 0 is the source.
    pub(super) before: u32,
    /// The edge from the node before, and its slot in that node's row.
    pub(super) edge: u32,
    pub(super) slot: u32,
}

#[derive(Debug, Clone, Copy)]
struct Reach {
    dist: u32,
    before: u32,
    edge: u32,
    slot: u32,
}

const UNREACHED: Reach = Reach { dist: u32::MAX, before: 0, edge: NONE, slot: NONE };

/// Nodes to visit, as `distance << 32 | node`.
#[derive(Debug)]
enum Queue {
    Buckets { log_width: u32, buckets: Vec<Vec<u64>>, at: usize, left: usize, sorted: Vec<u64> },
    Heap(BinaryHeap<Reverse<u64>>),
}

impl Queue {
    /// For distances up to `most`, over edges of `lightest` weight at least.
    fn new(lightest: u32, most: i64) -> Self {
        let log_width = lightest.checked_ilog2().unwrap_or(0);
        let count = (most.min(DIST_LIMIT) >> log_width) as usize + 1;
        if lightest == 0 || count > BUCKETS {
            return Self::Heap(BinaryHeap::new());
        }
        Self::Buckets { log_width, buckets: vec![Vec::new(); count], at: 0, left: 0, sorted: Vec::new() }
    }

    fn clear(&mut self) {
        match self {
            Self::Heap(heap) => heap.clear(),
            Self::Buckets { buckets, at, left, sorted, .. } => {
                if *left > 0 {
                    buckets[*at..].iter_mut().for_each(Vec::clear);
                }
                sorted.clear();
                (*at, *left) = (0, 0);
            }
        }
    }

    #[inline]
    fn push(&mut self, dist: u32, node: u32) {
        let key = u64::from(dist) << 32 | u64::from(node);
        match self {
            Self::Heap(heap) => heap.push(Reverse(key)),
            Self::Buckets { log_width, buckets, left, .. } => {
                buckets[(dist >> *log_width) as usize].push(key);
                *left += 1;
            }
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<u64> {
        match self {
            Self::Heap(heap) => heap.pop().map(|Reverse(key)| key),
            Self::Buckets { buckets, at, left, sorted, .. } => {
                if sorted.is_empty() {
                    if *left == 0 {
                        return None;
                    }
                    while buckets[*at].is_empty() {
                        *at += 1;
                    }
                    std::mem::swap(sorted, &mut buckets[*at]);
                    sorted.sort_unstable_by_key(|&key| Reverse(key));
                    *left -= sorted.len();
                }
                sorted.pop()
            }
        }
    }
}

/// Searches from one node after another.
#[derive(Debug)]
pub(super) struct Sweep {
    queue: Queue,
    reach: Vec<Reach>,
    touched: Vec<u32>,
}

impl Sweep {
    /// For searches that go no further than twice the largest finite bound of `shift`.
    pub(super) fn new(graph: &MatchingGraph, shift: &Shift) -> Self {
        let n = graph.num_detectors();
        let nodes = || 0..n as u32;
        let lightest = nodes().flat_map(|u| graph.neighbours(u)).map(|nb| nb.weight).min().unwrap_or(1);
        let most = nodes().map(|u| shift.bound(u)).max().unwrap_or(0).saturating_mul(2);
        Self { queue: Queue::new(lightest, most), reach: vec![UNREACHED; n], touched: Vec::with_capacity(n) }
    }

    /// Visits the nodes around `source`, nearest first, at distances that `within` accepts, until `visit` returns false. Returns
    /// whether `visit` never did and no distance was too large to store.
    #[inline]
    pub(super) fn run(
        &mut self,
        graph: &MatchingGraph,
        source: u32,
        within: impl Fn(u32, i64) -> bool,
        mut visit: impl FnMut(Visit) -> bool,
    ) -> bool {
        let Self { queue, reach, touched } = self;
        for node in touched.drain(..) {
            reach[node as usize] = UNREACHED;
        }
        queue.clear();
        let (mut complete, mut visited) = (true, 0);
        reach[source as usize].dist = 0;
        touched.push(source);
        queue.push(0, source);
        while let Some(key) = queue.pop() {
            let (dist, node) = ((key >> 32) as u32, key as u32);
            let Reach { dist: least, before, edge, slot } = reach[node as usize];
            if dist != least {
                continue; // a shorter path was found since
            }
            if node != source {
                visited += 1;
                if !visit(Visit { node, dist, before, edge, slot }) {
                    return false;
                }
            }
            for (slot, nb) in (0..).zip(graph.neighbours(node)) {
                let through = i64::from(dist) + i64::from(nb.weight);
                let there = &mut reach[nb.node as usize];
                if through > DIST_LIMIT {
                    complete &= !within(nb.node, through);
                } else if through < i64::from(there.dist) && within(nb.node, through) {
                    if there.dist == u32::MAX {
                        touched.push(nb.node);
                    }
                    *there = Reach { dist: through as u32, before: visited, edge: nb.edge, slot };
                    queue.push(through as u32, nb.node);
                }
            }
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Buckets give the same order as a heap.
        #[test]
        fn buckets_are_a_heap(ops in prop::collection::vec((10u32..150, 0u32..8, any::<bool>()), 1..200)) {
            let mut buckets = Queue::new(10, 30_000);
            prop_assert!(!matches!(buckets, Queue::Heap(_)));
            let mut heap = Queue::new(0, 30_000);
            prop_assert!(matches!(heap, Queue::Heap(_)));
            let mut now = 0;
            for (further, node, pop) in ops {
                if pop {
                    let key = heap.pop();
                    prop_assert_eq!(buckets.pop(), key);
                    now = key.map_or(now, |key| (key >> 32) as u32);
                } else {
                    heap.push(now + further, node);
                    buckets.push(now + further, node);
                }
            }
            buckets.clear();
            prop_assert_eq!(buckets.pop(), None);
        }
    }
}
