//! Distances on the graph, by which defects are matched.
//!
//! Distances are computed once per graph and shared by decoders: the distance of every node to the boundary, and for every node
//! the list of nodes near it, in order of distance ([`near`]). Pairs beyond the lists are searched for when they are needed
//! ([`search`]).

pub(crate) mod masks;
pub(crate) mod near;
pub(crate) mod search;
mod shift;
mod sweep;

use crate::graph::{MatchingGraph, NONE};
use crate::queue::{NEVER, RadixQueue};
use masks::MaskTable;
use near::NearLists;

/// Distance of a node that cannot reach the boundary; the sum of two is far from overflow.
pub(crate) const FAR: i64 = 1 << 60;

/// Per node, the shortest path to the boundary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToBoundary {
    /// Grid distance, or [`FAR`].
    pub(crate) dist: i64,
    /// The first edge of a shortest path.
    pub(crate) edge: u32,
    /// The node at that edge's other end; [`NONE`] is the boundary.
    pub(crate) next: u32,
    /// Id of the observables flipped along the path.
    pub(crate) mask: u32,
}

/// Everything that is read of a node when it becomes a defect, in half a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct NodeInfo {
    /// Distance to the boundary, or [`FAR`].
    pub(crate) boundary: i64,
    /// Id of the observables flipped on the path to the boundary.
    pub(crate) mask: u32,
    /// The first chunk of the near list, and the range of the others.
    pub(crate) first: u32,
    pub(crate) rest: u32,
    pub(crate) end: u32,
    /// Whether the list holds every node that matters.
    pub(crate) complete: bool,
    /// Whether what it is matched with flips no observable, and is not part of a solution.
    pub(crate) silent: bool,
}

impl NodeInfo {
    /// Whether `other` has the same near list as this node, and neither is nearer to the boundary.
    #[inline]
    pub(crate) fn has_list_of(&self, other: &Self) -> bool {
        (self.first, self.rest, self.end, self.boundary)
            == (other.first, other.rest, other.end, other.boundary)
    }

    /// The distance from which on defects are irrelevant to one here: see [`near`].
    #[inline]
    pub(crate) fn limit(&self) -> i64 {
        // Distances are even.
        if self.boundary < FAR { 2 * self.boundary + 2 } else { NEVER }
    }
}

/// All the distance tables of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Metric {
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) boundary: Vec<ToBoundary>,
    pub(crate) near: NearLists,
    /// `None` if paths flip too many different sets of observables to number them.
    pub(crate) masks: Option<MaskTable>,
}

impl Metric {
    pub(crate) fn new(graph: &MatchingGraph, near_entries: usize) -> Self {
        let mut masks = Some(MaskTable::new(graph));
        let boundary = distances_to_boundary(graph, &mut masks);
        let (near, extents) = NearLists::new(graph, &boundary, near_entries, &mut masks);
        if let Some(masks) = &mut masks {
            masks.seal();
        }
        let nodes = (0..).zip(boundary.iter().zip(&extents)).map(|(node, (b, e))| NodeInfo {
            boundary: b.dist,
            mask: b.mask,
            first: e.first,
            rest: e.rest,
            end: e.end,
            complete: e.complete,
            silent: graph.is_silent(node),
        });
        Self { nodes: nodes.collect(), boundary, near, masks }
    }

    /// The edges of a shortest path from `node` to the boundary.
    pub(crate) fn way_out(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = node;
        std::iter::from_fn(move || {
            let step = self.boundary.get(at as usize)?; // NONE is no node
            at = step.next;
            Some(step.edge)
        })
    }
}

/// Extends a path with observables `mask` by an edge. Drops all masks if ids have run out.
pub(crate) fn extend_mask(masks: &mut Option<MaskTable>, mask: u32, edge: u32) -> u32 {
    let Some(table) = masks else { return 0 };
    match table.extend(mask, edge) {
        Some(id) => id,
        None => {
            *masks = None;
            0
        }
    }
}

fn distances_to_boundary(graph: &MatchingGraph, masks: &mut Option<MaskTable>) -> Vec<ToBoundary> {
    let n = graph.num_detectors();
    let unknown = ToBoundary { dist: FAR, edge: NONE, next: NONE, mask: 0 };
    let mut out = vec![unknown; n];
    let mut queue = RadixQueue::new(n);
    for u in 0..n as u32 {
        if let Some((weight, edge)) = graph.own_boundary(u) {
            out[u as usize] = ToBoundary { dist: weight.into(), edge, ..unknown };
            queue.push(u, weight.into());
        }
    }
    while let Some((dist, u)) = queue.pop() {
        let ToBoundary { edge, next, .. } = out[u as usize];
        let behind = if next == NONE { 0 } else { out[next as usize].mask };
        out[u as usize].mask = extend_mask(masks, behind, edge);
        for nb in graph.neighbours(u) {
            let through = dist + i64::from(nb.weight);
            if through < out[nb.node as usize].dist {
                out[nb.node as usize] = ToBoundary { dist: through, edge: nb.edge, next: u, mask: 0 };
                debug_assert!(through < NEVER);
                queue.push(nb.node, through);
            }
        }
    }
    out
}
