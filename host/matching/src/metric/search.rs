//! Dijkstra's search from one node, in working memory that is reset in the time that the search took.

use crate::graph::{MatchingGraph, NONE};
use crate::queue::RadixQueue;

/// A node whose distance is final.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    pub(crate) node: u32,
    pub(crate) dist: i64,
}

/// What the search does after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Continue through this node.
    Expand,
    /// Continue, but not through this node.
    Skip,
    /// End the search.
    Stop,
}

#[derive(Debug, Clone, Copy)]
struct Reach {
    dist: i64,
    before: u32,
    edge: u32,
}

const UNREACHED: Reach = Reach { dist: i64::MAX, before: NONE, edge: NONE };

#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    queue: RadixQueue,
    reach: Vec<Reach>,
    touched: Vec<u32>,
}

impl Search {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            queue: RadixQueue::new(nodes),
            reach: vec![UNREACHED; nodes],
            touched: Vec::with_capacity(nodes),
        }
    }

    /// Visits nodes in order of distance from `source`, which comes first, until `visit` stops or no node is left.
    ///
    /// [`before`](Self::before) reads the paths until the next run.
    pub(crate) fn run(&mut self, graph: &MatchingGraph, source: u32, visit: impl FnMut(Visit) -> Flow) {
        self.run_within(graph, source, |_, _| true, visit);
    }

    /// As [`run`](Self::run), without nodes at distances that `within` refuses.
    #[inline]
    pub(crate) fn run_within(
        &mut self,
        graph: &MatchingGraph,
        source: u32,
        within: impl Fn(u32, i64) -> bool,
        mut visit: impl FnMut(Visit) -> Flow,
    ) {
        for &u in &self.touched {
            self.reach[u as usize] = UNREACHED;
            self.queue.forget(u);
        }
        self.touched.clear();
        self.queue.restart();
        self.reach[source as usize].dist = 0;
        self.touched.push(source);
        self.queue.push(source, 0);
        while let Some((dist, node)) = self.queue.pop() {
            match visit(Visit { node, dist }) {
                Flow::Stop => return,
                Flow::Skip => continue,
                Flow::Expand => {}
            }
            for nb in graph.neighbours(node) {
                let through = dist + i64::from(nb.weight);
                let reach = &mut self.reach[nb.node as usize];
                if through < reach.dist && within(nb.node, through) {
                    if reach.dist == i64::MAX {
                        self.touched.push(nb.node);
                    }
                    *reach = Reach { dist: through, before: node, edge: nb.edge };
                    self.queue.push(nb.node, through);
                }
            }
        }
    }

    /// The node before `node` on the path to it, and the edge between them.
    pub(crate) fn before(&self, node: u32) -> (u32, u32) {
        let r = self.reach[node as usize];
        (r.before, r.edge)
    }
}
