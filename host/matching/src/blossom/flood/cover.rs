//! Coverage: the nodes that the regions of a finished solve cover.
//!
//! A node is covered by a defect that is nearer to it than its reach, by what is left of the reach there. Covers are read
//! from the near lists, on the graph's own weights, and spread across edges that are lighter now.

use crate::graph::NONE;

/// The covers of a node.
#[derive(Debug, Clone, Copy)]
struct Covered {
    /// The most that a defect's reach goes beyond the node, saturated at 32 bits.
    most: u32,
    /// The first entry of the node.
    head: u32,
}

const BARE: Covered = Covered { most: 0, head: NONE };

/// A defect at a node that it covers, or at its own node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// How far its reach goes beyond the node.
    pub(super) beyond: i64,
    pub(super) defect: u32,
    /// Whether the defect covers the node across an edge that is lighter now.
    pub(super) spread: bool,
    node: u32,
    next: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Cover {
    /// Per node, then for the boundary, which no defect covers.
    nodes: Vec<Covered>,
    entries: Vec<Entry>,
}

impl Cover {
    pub(super) fn new(nodes: usize) -> Self {
        Self { nodes: vec![BARE; nodes + 1], entries: Vec::with_capacity(8 * nodes + 64) }
    }

    /// Clears all covers, and calls `left` with the nodes that were covered.
    pub(super) fn clear(&mut self, mut left: impl FnMut(u32)) {
        for entry in self.entries.drain(..) {
            self.nodes[entry.node as usize] = BARE;
            left(entry.node);
        }
    }

    /// Enters a defect at a node.
    #[inline]
    pub(super) fn add(&mut self, node: u32, defect: u32, beyond: i64, spread: bool) {
        let at = &mut self.nodes[node as usize];
        at.most = at.most.max(u32::try_from(beyond).unwrap_or(u32::MAX));
        let next = std::mem::replace(&mut at.head, self.entries.len() as u32);
        self.entries.push(Entry { beyond, defect, spread, node, next });
    }

    /// The most that reaches go beyond a node, or the boundary.
    #[inline]
    pub(super) fn most(&self, node: u32) -> u64 {
        self.nodes[node as usize].most.into()
    }

    /// The defects at a node, the last one entered first.
    #[inline]
    pub(super) fn at(&self, node: u32) -> impl Iterator<Item = &Entry> + Clone + '_ {
        let entry = |id: u32| self.entries.get(id as usize); // NONE is no entry
        std::iter::successors(entry(self.nodes[node as usize].head), move |last| entry(last.next))
    }

    /// The entry of a defect at a node: of several, the last one, which goes furthest.
    #[inline]
    pub(super) fn of(&self, defect: u32, node: u32) -> Option<&Entry> {
        self.at(node).find(|entry| entry.defect == defect)
    }
}
