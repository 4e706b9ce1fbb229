//! Frontiers of a run: each node's distance to the rounds that are not known yet.
//!
//! Rounds that repeat have the same distances to later rounds, and most nodes are so far from them that no frontier matters. So a
//! table of all layers before all others shrinks to a few rows, which stay in a cache.

use std::collections::HashMap;

use crate::graph::{MatchingGraph, NONE};
use crate::metric::FAR;
use crate::queue::RadixQueue;

/// Marks a node for which no later layer matters.
const NO_FRONTIER: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Frontiers {
    /// Where each layer's nodes begin, with one more entry at the end; and the layer of each node.
    bases: Vec<u32>,
    layer_of: Vec<u32>,
    /// Per last known layer, and per layer up to that: where the row of the layer's nodes begins in `dists`; [`NONE`] if no node
    /// of the layer has a frontier.
    rows: Vec<u32>,
    dists: Vec<u32>,
}

impl Frontiers {
    /// Distances to the nearest node of a later layer, on paths through known layers: exact up to `limit(node)`, and no frontier
    /// beyond. The graph has no edges of negative weight.
    pub(super) fn new(
        graph: &MatchingGraph,
        bases: Vec<u32>,
        layer_of: Vec<u32>,
        limit: impl Fn(u32) -> i64,
    ) -> Self {
        let (n, layers) = (layer_of.len() as u32, bases.len() - 1);
        let most = (0..n).map(&limit).max().unwrap_or(0);
        let (mut rows, mut dists) = (vec![NONE; layers * layers], Vec::new());
        let mut known_rows: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut near = vec![NO_FRONTIER; n as usize];
        let mut queue = RadixQueue::new(n as usize);
        for last in 0..layers.saturating_sub(1) {
            let end = bases[last + 1];
            near[..end as usize].fill(NO_FRONTIER);
            queue.restart();
            (0..n).for_each(|node| queue.forget(node));
            let mut toward = |node: u32, dist: i64, queue: &mut RadixQueue| {
                // A distance that does not fit is stored as the largest that does.
                let stored = dist.min(i64::from(NO_FRONTIER) - 1) as u32;
                if dist <= most && stored < near[node as usize] {
                    near[node as usize] = stored;
                    queue.push(node, dist);
                }
            };
            for unknown in end..n {
                for nb in graph.neighbours(unknown).iter().filter(|nb| nb.node < end) {
                    toward(nb.node, nb.weight.into(), &mut queue);
                }
            }
            while let Some((dist, node)) = queue.pop() {
                for nb in graph.neighbours(node).iter().filter(|nb| nb.node < end) {
                    toward(nb.node, dist + i64::from(nb.weight), &mut queue);
                }
            }
            for layer in 0..=last {
                let nodes = bases[layer]..bases[layer + 1];
                let row: Vec<u32> = nodes
                    .map(|node| (node, near[node as usize]))
                    .map(|(node, dist)| if i64::from(dist) <= limit(node) { dist } else { NO_FRONTIER })
                    .collect();
                if row.iter().all(|&dist| dist == NO_FRONTIER) {
                    continue;
                }
                let at = *known_rows.entry(row).or_insert_with_key(|row| {
                    dists.extend_from_slice(row);
                    (dists.len() - row.len()) as u32
                });
                rows[last * layers + layer] = at;
            }
        }
        Self { bases, layer_of, rows, dists }
    }

    pub(super) fn layers(&self) -> usize {
        self.bases.len() - 1
    }

    /// The first node of a layer.
    pub(super) fn base(&self, layer: usize) -> u32 {
        self.bases[layer]
    }

    pub(super) fn layer(&self, node: u32) -> u32 {
        self.layer_of[node as usize]
    }

    /// The distance from each node to the nearest node of a layer after `last`; without `last`, no node has a frontier.
    pub(super) fn after(&self, last: Option<usize>) -> impl Fn(u32) -> i64 {
        let layers = self.layers();
        let row = last.and_then(|last| self.rows.get(last * layers..(last + 1) * layers)).unwrap_or(&[]);
        move |node| {
            let layer = self.layer_of[node as usize] as usize;
            match row.get(layer) {
                None | Some(&NONE) => FAR,
                Some(&at) => match self.dists[(at + node - self.bases[layer]) as usize] {
                    NO_FRONTIER => FAR,
                    dist => dist.into(),
                },
            }
        }
    }
}
