//! Which round each detector belongs to, and what that means for a decoder that is given one round after the other.

use crate::blossom::Tables;
use crate::error::RoundsError;
use crate::graph::MatchingGraph;
use crate::metric::FAR;
use crate::queue::RadixQueue;

/// Most rounds.
pub(crate) const MAX_ROUNDS: usize = 1 << 24;
/// Most entries of the table of frontiers, 4 bytes each.
const MAX_ENTRIES: usize = 1 << 28;
/// No node of a later round matters.
const NO_FRONTIER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Rounds {
    of: Vec<u32>,
    count: usize,
    /// Per round but the last and per node, the distance to the nearest node of a later round; or less, where the near list
    /// of the node was cut off before one.
    frontiers: Vec<u32>,
    /// Per round, the detectors that the negative edges flip.
    used: Vec<Vec<u32>>,
}

impl Rounds {
    pub(crate) fn new(tables: Tables<'_>, of: &[u32]) -> Result<Self, RoundsError> {
        let n = tables.graph.num_detectors();
        if of.len() != n {
            return Err(RoundsError::Length { found: of.len(), expected: n });
        }
        let last = of.iter().copied().max().unwrap_or(0);
        let count = last as usize + 1;
        let entries =
            (last as usize).checked_mul(n).filter(|&entries| entries <= MAX_ENTRIES && count <= MAX_ROUNDS);
        let Some(entries) = entries else {
            return Err(RoundsError::TooMany { rounds: count, detectors: n });
        };
        let mut frontiers = vec![NO_FRONTIER; entries];
        for (u, &own) in of.iter().enumerate() {
            let info = &tables.metric.nodes[u];
            let (mut round, mut reached) = (own as usize, 0);
            for (node, dist, _) in tables.metric.near.entries(u as u32, info) {
                while round < of[node as usize] as usize {
                    frontiers[round * n + u] = dist;
                    round += 1;
                }
                reached = dist;
            }
            if !info.complete {
                (round..count - 1).for_each(|round| frontiers[round * n + u] = reached);
            }
        }
        let mut used = vec![Vec::new(); count];
        for &u in &tables.graph.used().detectors {
            used[of[u as usize] as usize].push(u);
        }
        Ok(Self { of: of.to_vec(), count, frontiers, used })
    }

    /// The same without near lists, whose ends are not the same in all windows of a run: exact up to `limit(node)`, and
    /// without a frontier after it. The graph has no edges of negative weight.
    pub(crate) fn within(graph: &MatchingGraph, of: &[u32], limit: impl Fn(u32) -> i64) -> Self {
        let n = graph.num_detectors();
        let count = of.iter().max().map_or(0, |&last| last as usize + 1);
        let most = (0..n as u32).map(&limit).max().unwrap_or(0);
        let mut frontiers = vec![NO_FRONTIER; count.saturating_sub(1) * n];
        let mut queue = RadixQueue::new(n);
        for (round, row) in frontiers.chunks_exact_mut(n.max(1)).enumerate() {
            let known = |node: u32| of[node as usize] as usize <= round;
            let mut toward = |node: u32, dist: i64, queue: &mut RadixQueue| {
                // No more than it is, where it does not fit.
                let stored = dist.min(i64::from(NO_FRONTIER) - 1) as u32;
                if dist <= most && stored < row[node as usize] {
                    row[node as usize] = stored;
                    queue.push(node, dist);
                }
            };
            queue.restart();
            (0..n as u32).for_each(|node| queue.forget(node));
            for unknown in (0..n as u32).filter(|&node| !known(node)) {
                for nb in graph.neighbours(unknown).iter().filter(|nb| known(nb.node)) {
                    toward(nb.node, nb.weight.into(), &mut queue);
                }
            }
            while let Some((dist, node)) = queue.pop() {
                for nb in graph.neighbours(node).iter().filter(|nb| known(nb.node)) {
                    toward(nb.node, dist + i64::from(nb.weight), &mut queue);
                }
            }
            for (node, dist) in (0..).zip(row) {
                *dist = if i64::from(*dist) <= limit(node) { *dist } else { NO_FRONTIER };
            }
        }
        Self { of: of.to_vec(), count, frontiers, used: vec![Vec::new(); count] }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn of(&self, node: u32) -> u32 {
        self.of[node as usize]
    }

    /// The detectors of a round that the negative edges flip, sorted.
    pub(crate) fn used(&self, round: usize) -> &[u32] {
        &self.used[round]
    }

    /// How far it is from each node to the nearest one of a later round than `round`, or a bound that is not more; without
    /// a round, and after the last, there is nothing to be near to.
    pub(crate) fn frontier(&self, round: Option<usize>) -> impl Fn(u32) -> i64 {
        let n = self.of.len();
        let row = round.and_then(|round| self.frontiers.get(round * n..(round + 1) * n)).unwrap_or(&[]);
        move |node| match row.get(node as usize) {
            None | Some(&NO_FRONTIER) => FAR,
            Some(&dist) => dist.into(),
        }
    }
}
