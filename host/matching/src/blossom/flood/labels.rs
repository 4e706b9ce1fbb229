//! Labels: the nodes around each defect, and the order in which the search continues.
//!
//! A label is a node that a defect has settled: its search will find no shorter way there. Each label also stands for the
//! lightest of its edges that the search has not looked at yet, and is due at the distance at which that edge ends. The
//! labels of a defect that have such an edge form a pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986) through the
//! labels themselves. So a defect that never gets beyond its own node, as most do, has one label.

use crate::graph::NONE;

#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    /// Grid distance from the defect.
    pub(super) dist: i64,
    /// The distance at which its next edge ends.
    pub(super) due: i64,
    /// The edge's slot in the node's row.
    pub(super) slot: u32,
    pub(super) defect: u32,
    pub(super) node: u32,
    /// The label before this one on the path from the defect, and the edge between; [`NONE`] at the defect itself.
    pub(super) before: u32,
    pub(super) edge: u32,
    /// The next label at the same node.
    pub(super) next: u32,
    child: u32,
    sibling: u32,
}

/// The labels of all defects.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    all: Vec<Label>,
    /// Per node, the first of its labels.
    at: Vec<u32>,
    /// Per defect, the label that is due first.
    roots: Vec<u32>,
}

impl Labels {
    pub(super) fn new(nodes: usize) -> Self {
        // Regions that meet stop growing, so few nodes are settled by more than one defect. More than this makes the
        // list grow, once, to a mark that stays.
        let all = Vec::with_capacity(8 * nodes + 64);
        Self { all, at: vec![NONE; nodes], roots: Vec::with_capacity(nodes) }
    }

    /// Clears all labels, calls `left` with the nodes that had labels, and makes room for `defects` defects.
    pub(super) fn restart(&mut self, defects: usize, mut left: impl FnMut(u32)) {
        for label in &self.all {
            self.at[label.node as usize] = NONE;
            left(label.node);
        }
        self.all.clear();
        self.roots.clear();
        self.roots.resize(defects, NONE);
    }

    #[inline]
    pub(super) fn get(&self, label: u32) -> &Label {
        &self.all[label as usize]
    }

    /// All labels at a node.
    #[inline]
    pub(super) fn at(&self, node: u32) -> impl Iterator<Item = (u32, &Label)> {
        let label = |id: u32| (id != NONE).then(|| (id, &self.all[id as usize]));
        std::iter::successors(label(self.at[node as usize]), move |(_, last)| label(last.next))
    }

    /// Adds a label, not due yet.
    #[inline]
    pub(super) fn add(&mut self, defect: u32, node: u32, dist: i64, before: u32, edge: u32) -> u32 {
        let id = self.all.len() as u32;
        let next = std::mem::replace(&mut self.at[node as usize], id);
        let (due, slot, child, sibling) = (0, 0, NONE, NONE);
        self.all.push(Label { dist, due, slot, defect, node, before, edge, next, child, sibling });
        id
    }

    /// Makes a label due that is not in its defect's heap.
    #[inline]
    pub(super) fn push(&mut self, id: u32, due: i64, slot: u32) {
        let label = &mut self.all[id as usize];
        (label.due, label.slot, label.child, label.sibling) = (due, slot, NONE, NONE);
        let defect = label.defect as usize;
        let root = self.roots[defect];
        self.roots[defect] = if root == NONE { id } else { self.meld(root, id) };
    }

    /// The label of a defect that is due first, or [`NONE`].
    #[inline]
    pub(super) fn first_due(&self, defect: u32) -> u32 {
        self.roots[defect as usize]
    }

    /// Puts the later of two heaps under the other.
    #[inline]
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        let (top, under) = if self.all[b as usize].due < self.all[a as usize].due { (b, a) } else { (a, b) };
        let child = std::mem::replace(&mut self.all[top as usize].child, under);
        self.all[under as usize].sibling = child;
        top
    }

    /// Takes the label that is due first out of a defect's heap, which is not empty.
    pub(super) fn pop(&mut self, defect: u32) {
        // Its children are melded in pairs, and the pairs from the last to the first.
        let mut at = self.all[self.roots[defect as usize] as usize].child;
        let mut pairs = NONE;
        while at != NONE {
            let (a, b) = (at, self.all[at as usize].sibling);
            let mut both = a;
            at = NONE;
            if b != NONE {
                at = self.all[b as usize].sibling;
                both = self.meld(a, b);
            }
            self.all[both as usize].sibling = pairs;
            pairs = both;
        }
        let mut root = NONE;
        while pairs != NONE {
            let after = self.all[pairs as usize].sibling;
            root = if root == NONE { pairs } else { self.meld(root, pairs) };
            pairs = after;
        }
        self.roots[defect as usize] = root;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a list: new labels, and labels that become due again.
        #[test]
        fn the_first_due_comes_first(ops in prop::collection::vec((0i64..50, 0u8..4), 1..200)) {
            let mut labels = Labels::new(1);
            labels.restart(1, |_| {});
            let mut model: Vec<(i64, u32)> = Vec::new();
            for (due, op) in ops {
                let first = labels.first_due(0);
                let least = model.iter().map(|m| m.0).min();
                prop_assert_eq!(least, (first != NONE).then(|| labels.get(first).due));
                if op < 2 && first != NONE {
                    labels.pop(0);
                    model.retain(|m| m.1 != first);
                    if op == 1 {
                        labels.push(first, due, 0);
                        model.push((due, first));
                    }
                } else {
                    let id = labels.add(0, 0, 0, NONE, NONE);
                    labels.push(id, due, 0);
                    model.push((due, id));
                }
            }
        }
    }
}
