//! Rounds of detectors, for a decoder that takes one round after another.

use crate::blossom::Tables;
use crate::error::RoundsError;
use crate::metric::FAR;

/// Most rounds.
pub(crate) const MAX_ROUNDS: usize = 1 << 24;
/// Most entries of the table of frontiers, 4 bytes each.
const MAX_ENTRIES: usize = 1 << 28;
/// Marks a node for which no later round matters.
const NO_FRONTIER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Rounds {
    of: Vec<u32>,
    count: usize,
    /// Per round but the last, and per node: a lower bound on the distance to the nearest node of a later round, exact unless the
    /// node's near list was cut off.
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

    /// The distance from each node to the nearest node of a round after `round`, or a lower bound. Without a round, and after the
    /// last, no node has a frontier.
    pub(crate) fn frontier(&self, round: Option<usize>) -> impl Fn(u32) -> i64 {
        let n = self.of.len();
        let row = round.and_then(|round| self.frontiers.get(round * n..(round + 1) * n)).unwrap_or(&[]);
        move |node| match row.get(node as usize) {
            None | Some(&NO_FRONTIER) => FAR,
            Some(&dist) => dist.into(),
        }
    }
}
