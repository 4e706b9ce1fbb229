//! Finding the defects near a defect where no distance table can be trusted: weights that hold for one decode alone.
//!
//! Every defect grows its own search, no further than its reach: all nodes nearer than the reach are
//! *settled*. Two defects meet when their reaches add up to their distance. Walk along a shortest path from
//! `j` to `i`, to the first node that is not nearer to `j` than its reach: it is no further from `i` than
//! `i`'s reach. So, when both have settled what they reach, the path has an edge with one end settled by `i`
//! and the other by `j`, and the thread that settled later has found the other there. (It does not matter if
//! one of them has stopped short of nodes that it just reaches: the other one, which grows, settles those.)
//! So the distance of a pair is known, and exact, when it meets; before that it may be unknown, or too large.
//!
//! The distances to the boundary of the unchanged graph are upper bounds here, since weights are only ever lowered. They
//! prune as they do in the lists ([`crate::metric::near`]): past a node `v` with `d(u, v) >= b(u) + b(v)` nothing is of use.

mod labels;
mod weights;

use super::grow::Event;
use super::region::Half;
use super::{BOUNDARY, Blossom, Link, SEARCHED, Tables};
use crate::graph::{MatchingGraph, NONE, Neighbour};
use crate::metric::FAR;
use crate::queue::NEVER;
use labels::{Label, Labels};
use weights::Weights;

/// What a solve on lowered weights needs besides.
#[derive(Debug, Clone)]
pub(crate) struct Flood {
    weights: Weights,
    labels: Labels,
    /// Per defect, the label from which its way to the boundary leaves; [`NONE`] if the way of the unchanged graph is
    /// as short as any.
    exits: Vec<u32>,
    /// Per pair, the edge between the two labels that it is known by.
    bridges: Vec<u32>,
}

impl Flood {
    fn new(graph: &MatchingGraph) -> Self {
        let n = graph.num_detectors();
        let pairs = Vec::with_capacity(8 * n + 64);
        Self {
            weights: Weights::new(graph),
            labels: Labels::new(n),
            exits: Vec::with_capacity(n),
            bridges: pairs,
        }
    }

    fn walk(&self, tables: Tables<'_>, (owner, ends): (u32, u64), mut edge: impl FnMut(u32)) {
        let (first, second) = unpack(ends);
        if first == NONE {
            // To the boundary, as the tables know it.
            return tables.metric.way_out(owner).for_each(edge);
        }
        let bridge = if second == NONE {
            self.weights.own_boundary(self.labels.get(first).node).map(|own| own.1)
        } else {
            Some(owner)
        };
        bridge.into_iter().for_each(&mut edge);
        for mut label in [first, second] {
            while label != NONE {
                let step = self.labels.get(label);
                if step.before != NONE {
                    edge(step.edge);
                }
                label = step.before;
            }
        }
    }
}

/// Makes a label, just taken from its heap, due with its next lightest edge, if there is one.
fn go_on(row: &[Neighbour], labels: &mut Labels, id: u32) {
    let Label { dist, slot, .. } = *labels.get(id);
    let last = (row[slot as usize].weight, slot);
    let left = (0..).zip(row).map(|(at, nb)| (nb.weight, at)).filter(|&edge| edge > last);
    if let Some((weight, slot)) = left.min() {
        labels.push(id, dist + i64::from(weight), slot);
    }
}

fn pack(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

fn unpack(ends: u64) -> (u32, u32) {
    ((ends >> 32) as u32, ends as u32)
}

impl Blossom {
    /// One that floods: it solves on weights that may have been lowered.
    pub(crate) fn flooding(tables: Tables<'_>) -> Self {
        Self { flood: Some(Box::new(Flood::new(tables.graph))), ..Self::new(tables) }
    }

    /// Settles the node of every defect of a solve that begins.
    pub(super) fn plant(&mut self, tables: Tables<'_>) {
        let Self { flood: Some(flood), defects, .. } = self else { return };
        flood.labels.restart(defects.len());
        flood.bridges.clear();
        flood.exits.clear();
        flood.exits.resize(defects.len(), NONE);
        for i in 0..self.defects.len() as u32 {
            self.settle_node(tables, i, self.node(i), 0, NONE, NONE);
        }
    }

    /// The first event of the growing defect `i` that is not a meeting: its boundary, or a node that its search comes to.
    #[inline]
    pub(super) fn next_flood_event(&mut self, tables: Tables<'_>, i: u32, reach: i64) -> Event {
        let mut due = self.next_due(tables, i);
        while due <= reach {
            self.step(tables, i);
            due = self.next_due(tables, i);
        }
        let boundary = self.defects[i as usize].boundary;
        if boundary <= reach {
            return Event::Boundary;
        }
        let first = due.min(boundary);
        Event::Later(if first < FAR / 2 { self.time + first - reach } else { NEVER })
    }

    /// The distance at which the search from `i` continues, or [`NEVER`]. Edges that lead nowhere are passed
    /// over.
    fn next_due(&mut self, tables: Tables<'_>, i: u32) -> i64 {
        let Some(flood) = &mut self.flood else { return NEVER };
        let Flood { weights, labels, .. } = &mut **flood;
        let useful = self.defects[i as usize].boundary;
        loop {
            let first = labels.first_due(i);
            if first == NONE {
                return NEVER;
            }
            let Label { due, node, slot, .. } = *labels.get(first);
            let to = weights.row(tables.graph, node)[slot as usize].node;
            let known = labels.at(to).any(|(_, label)| label.defect == i);
            if !known && due < useful + tables.metric.nodes[to as usize].boundary {
                return due;
            }
            labels.pop(i);
            go_on(weights.row(tables.graph, node), labels, first);
        }
    }

    /// Settles the node that [`next_due`](Self::next_due) has found.
    fn step(&mut self, tables: Tables<'_>, i: u32) {
        let Some(flood) = &mut self.flood else { return };
        let Flood { weights, labels, .. } = &mut **flood;
        let first = labels.first_due(i);
        let Label { due, node, slot, .. } = *labels.get(first);
        let row = weights.row(tables.graph, node);
        let nb = row[slot as usize];
        labels.pop(i);
        go_on(row, labels, first);
        self.settle_node(tables, i, nb.node, due, first, nb.edge);
    }

    /// Settles a node for defect `i`: looks for the boundary, and for other defects across its edges.
    fn settle_node(&mut self, tables: Tables<'_>, i: u32, node: u32, dist: i64, before: u32, edge: u32) {
        let Self { flood: Some(flood), defects, halves, positions, .. } = self else { return };
        let Flood { weights, labels, exits, bridges } = &mut **flood;
        let settled = labels.add(i, node, dist, before, edge);
        if let Some((own, _)) = weights.own_boundary(node) {
            let through = dist + i64::from(own);
            if through < defects[i as usize].boundary {
                defects[i as usize].boundary = through;
                exits[i as usize] = settled;
            }
        }
        let (mut lightest, mut slot) = (u32::MAX, NONE);
        for (at, nb) in (0..).zip(weights.row(tables.graph, node)) {
            if nb.weight < lightest {
                (lightest, slot) = (nb.weight, at);
            }
            for (other, label) in labels.at(nb.node).filter(|(_, label)| label.defect != i) {
                let (j, dist) = (label.defect, dist + i64::from(nb.weight) + label.dist);
                if dist >= defects[i as usize].boundary + defects[j as usize].boundary {
                    continue; // the boundary is as near for both
                }
                let mut h = defects[i as usize].head;
                while h != NONE && halves[h as usize].other != j {
                    h = halves[h as usize].next;
                }
                if h == NONE {
                    h = halves.len() as u32;
                    halves.push(Half { dist, other: j, next: defects[i as usize].head });
                    defects[i as usize].head = h;
                    halves.push(Half { dist, other: i, next: defects[j as usize].head });
                    defects[j as usize].head = h + 1;
                    positions.push(pack(settled, other));
                    bridges.push(nb.edge);
                } else if dist < halves[h as usize].dist {
                    halves[h as usize].dist = dist;
                    halves[h as usize ^ 1].dist = dist;
                    positions[h as usize / 2] = pack(settled, other);
                    bridges[h as usize / 2] = nb.edge;
                }
            }
        }
        if slot != NONE {
            labels.push(settled, dist + i64::from(lightest), slot);
        }
    }

    /// Where the way of a matched link is to be found: the edge between two labels, and those; or the node at which a
    /// way to the boundary begins, and the label from which it leaves.
    pub(crate) fn way(&self, link: Link) -> (u32, u64) {
        let Some(flood) = &self.flood else { return (NONE, SEARCHED) };
        if link.to == BOUNDARY {
            return (self.node(link.from), pack(flood.exits[link.from as usize], NONE));
        }
        let pair = link.pair as usize;
        (flood.bridges[pair], self.positions[pair])
    }

    /// Calls `edge` with every edge on a [`way`](Self::way).
    pub(crate) fn walk_way(&self, tables: Tables<'_>, way: (u32, u64), edge: impl FnMut(u32)) {
        if let Some(flood) = &self.flood {
            flood.walk(tables, way, edge);
        }
    }

    /// The node at the far end of a matched link (`None` is the boundary), and how far it is.
    pub(crate) fn far_end(&self, link: Link) -> (Option<u32>, i64) {
        if link.to == BOUNDARY {
            (None, self.defects[link.from as usize].boundary)
        } else {
            (Some(self.node(link.to)), self.dist(link.pair))
        }
    }

    /// Gives an edge this weight, if that is less than it has.
    pub(crate) fn lower(&mut self, edge: u32, weight: u32) {
        if let Some(flood) = &mut self.flood {
            flood.weights.lower(edge, weight);
        }
    }

    /// Whether any edge weighs less than in the graph.
    pub(crate) fn is_lowered(&self) -> bool {
        self.flood.as_ref().is_some_and(|flood| flood.weights.is_lowered())
    }

    /// Gives every edge the graph's weight again.
    pub(crate) fn restore(&mut self) {
        if let Some(flood) = &mut self.flood {
            flood.weights.restore();
        }
    }

    /// The graph with the weights as they are.
    pub(crate) fn lowered_graph(&self, graph: &MatchingGraph) -> MatchingGraph {
        self.flood.as_ref().map_or_else(|| graph.clone(), |flood| flood.weights.graph(graph))
    }
}
