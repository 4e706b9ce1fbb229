//! What each defect knows of the nodes around it, and in which order it will go on.
//!
//! A defect's labels are the nodes that its own search from it has come to. Those still to be settled form a pairing heap
//! (Fredman, Sedgewick, Sleator and Tarjan, 1986) through the labels themselves. A label never changes its distance or
//! its way: a shorter way makes a new one, so that whoever noted a label can rely on the path that it stands for.

use crate::graph::NONE;

#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    /// Grid distance from the defect.
    pub(super) dist: i64,
    pub(super) defect: u32,
    pub(super) node: u32,
    /// The label before this one on the way from the defect, and the edge between; [`NONE`] at the defect itself.
    pub(super) before: u32,
    pub(super) edge: u32,
    /// The next label at the same node.
    pub(super) next: u32,
    pub(super) state: State,
    child: u32,
    sibling: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There may be a shorter way.
    Open,
    /// There is no shorter way.
    Settled,
    /// A shorter way was found.
    Replaced,
}

/// The labels of all defects.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    all: Vec<Label>,
    /// Per node, the first of its labels.
    at: Vec<u32>,
    /// Per defect, the label to be settled next.
    roots: Vec<u32>,
}

impl Labels {
    pub(super) fn new(nodes: usize) -> Self {
        // In codes a node sees a handful of defects even when every detector fires. More than this makes it grow,
        // once, to a mark that stays.
        let all = Vec::with_capacity(24 * nodes + 64);
        Self { all, at: vec![NONE; nodes], roots: Vec::with_capacity(nodes) }
    }

    pub(super) fn clear(&mut self) {
        for label in &self.all {
            self.at[label.node as usize] = NONE;
        }
        self.all.clear();
        self.roots.clear();
    }

    /// Enters the next defect, which sits on `node`.
    pub(super) fn plant(&mut self, node: u32) {
        let defect = self.roots.len() as u32;
        self.roots.push(NONE);
        self.add(defect, node, 0, NONE, NONE);
    }

    #[inline]
    pub(super) fn get(&self, label: u32) -> &Label {
        &self.all[label as usize]
    }

    /// The first label at a node; the others follow through [`Label::next`].
    #[inline]
    pub(super) fn first(&self, node: u32) -> u32 {
        self.at[node as usize]
    }

    /// Adds an open label.
    #[inline]
    pub(super) fn add(&mut self, defect: u32, node: u32, dist: i64, before: u32, edge: u32) -> u32 {
        let id = self.all.len() as u32;
        let next = std::mem::replace(&mut self.at[node as usize], id);
        let state = State::Open;
        self.all.push(Label { dist, defect, node, before, edge, next, state, child: NONE, sibling: NONE });
        let root = self.roots[defect as usize];
        self.roots[defect as usize] = if root == NONE { id } else { self.meld(root, id) };
        id
    }

    #[inline]
    pub(super) fn replace(&mut self, label: u32) {
        self.all[label as usize].state = State::Replaced;
    }

    /// The open label of a defect that is nearest to it, or [`NONE`].
    #[inline]
    pub(super) fn nearest(&mut self, defect: u32) -> u32 {
        loop {
            let root = self.roots[defect as usize];
            if root == NONE || self.all[root as usize].state == State::Open {
                return root;
            }
            self.pop(defect);
        }
    }

    /// Settles the nearest label of a defect, which there is.
    #[inline]
    pub(super) fn settle_nearest(&mut self, defect: u32) -> u32 {
        let root = self.roots[defect as usize];
        self.all[root as usize].state = State::Settled;
        self.pop(defect);
        root
    }

    /// Puts the later of two heaps under the other.
    #[inline]
    fn meld(&mut self, a: u32, b: u32) -> u32 {
        let (top, under) =
            if self.all[b as usize].dist < self.all[a as usize].dist { (b, a) } else { (a, b) };
        let child = std::mem::replace(&mut self.all[top as usize].child, under);
        self.all[under as usize].sibling = child;
        top
    }

    /// Takes the root out of a defect's heap: melds its children in pairs, and the pairs from the last to the first.
    fn pop(&mut self, defect: u32) {
        let mut at = self.all[self.roots[defect as usize] as usize].child;
        let mut pairs = NONE;
        while at != NONE {
            let (a, b) = (at, self.all[at as usize].sibling);
            let both = if b == NONE {
                at = NONE;
                a
            } else {
                at = self.all[b as usize].sibling;
                self.meld(a, b)
            };
            self.all[both as usize].sibling = pairs;
            pairs = both;
        }
        let mut root = NONE;
        while pairs != NONE {
            let after = self.all[pairs as usize].sibling;
            root = if root == NONE { pairs } else { self.meld(root, pairs) };
            pairs = after;
        }
        if root != NONE {
            self.all[root as usize].sibling = NONE;
        }
        self.roots[defect as usize] = root;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list, with labels replaced now and then.
        #[test]
        fn the_nearest_comes_first(ops in prop::collection::vec((0i64..50, 0u8..4), 1..200)) {
            let mut labels = Labels::new(1);
            labels.plant(0);
            let mut model = vec![(0i64, 0u32)];
            for (dist, op) in ops {
                match op {
                    0 => {
                        let id = labels.nearest(0);
                        let least = model.iter().map(|m| m.0).min();
                        prop_assert_eq!(least, (id != NONE).then(|| labels.get(id).dist));
                        if id != NONE {
                            prop_assert_eq!(labels.settle_nearest(0), id);
                            model.retain(|m| m.1 != id);
                        }
                    }
                    1 if !model.is_empty() => {
                        let (_, id) = model.swap_remove(dist as usize % model.len());
                        labels.replace(id);
                    }
                    _ => model.push((dist, labels.add(0, 0, dist, NONE, NONE))),
                }
            }
        }
    }
}
