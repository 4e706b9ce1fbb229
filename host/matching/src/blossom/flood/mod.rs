//! Searching for the defects near a defect without distance tables, for weights that hold for one decode alone.
//!
//! Every defect grows its own search, no further than its reach: all nodes nearer than the reach are
//! *settled*. Two defects meet when their reaches add up to their distance. Walk along a shortest path from
//! `j` to `i`, to the first node that is not nearer to `j` than its reach: it is no further from `i` than
//! `i`'s reach. So, when both have settled what they reach, the path has an edge with one end settled by `i`
//! and the other by `j`, and the thread that settled later has found the other there. (It does not matter if
//! one of them has stopped short of nodes that it just reaches: the other one, which grows, settles those.)
//! So the distance of a pair is known, and exact, when it meets; before that it may be unknown, or too large.
//!
//! A region that stays as an earlier solve left it needs no search until another comes to a node next to what it covers
//! ([`cover`], [`again`]).
//!
//! Where weights are only lowered, the distances to the boundary of the unchanged graph are upper bounds. They
//! prune as they do in the lists ([`crate::metric::near`]): past a node `v` with `d(u, v) >= b(u) + b(v)` nothing is of use.

mod again;
mod cover;
mod labels;
mod weights;

use super::grow::Event;
use super::region::Half;
use super::{Blossom, SEARCHED, Tables};
use crate::graph::{MatchingGraph, NONE, Neighbour};
use crate::metric::FAR;
use crate::queue::NEVER;
use again::{GivenUp, Spread};
use cover::Cover;
use labels::{Label, Labels};
use weights::Weights;

/// The mark in the position of a pair that was found by labels. No near list is that long.
const LABELLED: u64 = 1 << 63;

/// Whether a pair's position names labels of a [`Flood`].
pub(crate) fn is_labelled(position: u64) -> bool {
    position & LABELLED != 0 && position != SEARCHED
}

/// The additional state of a solve on weights other than the graph's.
#[derive(Debug, Clone)]
pub(crate) struct Flood {
    weights: Weights,
    cover: Cover,
    labels: Labels,
    /// Per node, whether it has a label or a cover.
    busy: Vec<bool>,
    /// Per defect, whether its search has begun.
    planted: Vec<bool>,
    /// Defects whose search is to begin.
    due: Vec<u32>,
    /// Nodes that defects cover across lighter edges, still to be processed.
    spreads: Vec<Spread>,
    /// Per defect, the label from which its way to the boundary leaves; [`NONE`] if the way of the unchanged graph is
    /// as short as any.
    exits: Vec<u32>,
    /// Per pair found by labels, the edge between its two labels.
    bridges: Vec<u32>,
    /// Defects whose near lists end before their reach does.
    cut_off: Vec<u32>,
    given_up: GivenUp,
    /// Whether the graph's distances to the boundary are no less than those on these weights.
    bounded: bool,
}

impl Flood {
    pub(crate) fn new(graph: &MatchingGraph) -> Self {
        let n = graph.num_detectors();
        Self {
            weights: Weights::new(graph),
            cover: Cover::new(n),
            labels: Labels::new(n),
            busy: vec![false; n],
            planted: Vec::with_capacity(n),
            due: Vec::with_capacity(n),
            spreads: Vec::with_capacity(8 * n + 64),
            exits: Vec::with_capacity(n),
            bridges: Vec::with_capacity(8 * n + 64),
            cut_off: Vec::with_capacity(n),
            bounded: true,
            given_up: GivenUp { roots: Vec::with_capacity(n), less: Vec::with_capacity(n) },
        }
    }

    /// Forgets what the last solve left, for one with so many defects, of which so many pairs are known.
    fn restart(&mut self, defects: usize, pairs: usize) {
        self.labels.restart(defects, |node| self.busy[node as usize] = false);
        self.cover.clear(|node| self.busy[node as usize] = false);
        self.spreads.clear();
        self.bounded = true;
        self.cut_off.clear();
        self.given_up.roots.clear();
        self.given_up.less.clear();
        self.given_up.less.resize(defects, 0);
        self.planted.clear();
        self.planted.resize(defects, false);
        self.exits.clear();
        self.exits.resize(defects, NONE);
        self.bridges.clear();
        self.bridges.resize(pairs, NONE);
    }

    /// Lets the released defects begin to search, and returns them.
    fn begin_roots(&mut self) -> Vec<u32> {
        let roots = std::mem::take(&mut self.given_up.roots);
        for &i in &roots {
            self.planted[i as usize] = true;
            self.due.push(i);
        }
        roots
    }

    /// Gives an edge this grid weight, below `2^30`. Returns whether it exceeds the graph's.
    pub(crate) fn set(&mut self, edge: u32, weight: u32) -> bool {
        self.weights.set(edge, weight)
    }

    /// Lowers an edge's weight to this one, if it is less.
    #[inline]
    pub(crate) fn lower(&mut self, edge: u32, weight: u32) {
        self.weights.lower(edge, weight);
    }

    /// The current grid weight of an edge.
    #[inline]
    pub(crate) fn weight(&self, edge: u32) -> i64 {
        self.weights.of(edge).into()
    }

    /// Whether the weight of any edge has been set.
    pub(crate) fn is_changed(&self) -> bool {
        !self.weights.changed().is_empty()
    }

    /// Gives every edge the graph's weight again.
    pub(crate) fn restore(&mut self) {
        self.weights.restore();
    }

    /// The graph with the current weights.
    pub(crate) fn changed_graph(&self, graph: &MatchingGraph) -> MatchingGraph {
        self.weights.graph(graph)
    }

    /// The position of defect `from`'s path to the boundary, if labels hold it.
    pub(crate) fn exit(&self, from: u32) -> Option<u64> {
        let exit = self.exits[from as usize];
        (exit != NONE).then(|| pack(exit, NONE))
    }

    /// The edge that joins the labels of a pair.
    pub(crate) fn bridge(&self, pair: u32) -> u32 {
        self.bridges[pair as usize]
    }

    /// Calls `edge` with every edge on a path that [`is_labelled`].
    pub(crate) fn walk(
        &self,
        graph: &MatchingGraph,
        (bridge, position): (u32, u64),
        mut edge: impl FnMut(u32),
    ) {
        let (first, second) = unpack(position);
        if second != NONE {
            edge(bridge);
        } else if let Some((_, own)) = graph.own_boundary(self.labels.get(first).node) {
            edge(own);
        }
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
fn go_on(row: &[Neighbour], weights: &Weights, labels: &mut Labels, id: u32) {
    let Label { dist, slot, .. } = *labels.get(id);
    let key = |at: u32, nb: &Neighbour| u64::from(weights.of(nb.edge)) << 32 | u64::from(at);
    let last = key(slot, &row[slot as usize]);
    // Without a branch, which could not be predicted.
    let next = (0..).zip(row).map(|(at, nb)| key(at, nb)).map(|key| if key > last { key } else { u64::MAX });
    push_edge(labels, id, dist, next.min().unwrap_or(u64::MAX));
}

/// Makes a label due with the edge of this weight and slot, unless it is none.
fn push_edge(labels: &mut Labels, id: u32, dist: i64, key: u64) {
    if key != u64::MAX {
        labels.push(id, dist + (key >> 32) as i64, key as u32);
    }
}

fn pack(first: u32, second: u32) -> u64 {
    LABELLED | u64::from(first) << 32 | u64::from(second)
}

fn unpack(ends: u64) -> (u32, u32) {
    (((ends & !LABELLED) >> 32) as u32, ends as u32)
}

impl Blossom {
    /// Begins the search of defect `i`, and those of all defects whose cover it meets.
    pub(super) fn plant(&mut self, tables: Tables<'_>, i: u32) {
        let Some(flood) = &mut self.flood else { return };
        if !std::mem::replace(&mut flood.planted[i as usize], true) {
            self.settle_node(tables, i, self.node(i), 0, NONE, NONE);
            self.catch_up(tables);
        }
    }

    /// Begins the searches that are due, and runs them as far as their defects reach.
    fn catch_up(&mut self, tables: Tables<'_>) {
        while let Some(flood) = &mut self.flood {
            let Some(j) = flood.due.pop() else { return };
            self.settle_node(tables, j, self.node(j), 0, NONE, NONE);
            let reach = self.reach_now(j);
            while self.next_due(tables, j) <= reach {
                self.step(tables, j);
            }
        }
    }

    #[inline]
    fn reach_now(&self, i: u32) -> i64 {
        let d = &self.defects[i as usize];
        d.base + self.regions[d.top as usize].radius(self.time)
    }

    /// The first event of the growing defect `i` that is not a meeting: its boundary, or a node that its search comes to.
    #[inline]
    pub(super) fn next_flood_event(&mut self, tables: Tables<'_>, i: u32, reach: i64) -> Event {
        self.plant(tables, i);
        let mut due = self.next_due(tables, i);
        while due <= reach {
            self.step(tables, i);
            self.catch_up(tables);
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
        let Flood { weights, labels, bounded, .. } = &mut **flood;
        let useful = self.defects[i as usize].boundary;
        loop {
            let first = labels.first_due(i);
            if first == NONE {
                return NEVER;
            }
            let Label { due, node, slot, .. } = *labels.get(first);
            let row = tables.graph.neighbours(node);
            let to = row[slot as usize].node;
            let known = labels.at(to).any(|(_, label)| label.defect == i);
            if !known && (!*bounded || due < useful + tables.metric.nodes[to as usize].boundary) {
                return due;
            }
            labels.pop(i);
            go_on(row, weights, labels, first);
        }
    }

    /// Settles the node that [`next_due`](Self::next_due) has found.
    fn step(&mut self, tables: Tables<'_>, i: u32) {
        let Some(flood) = &mut self.flood else { return };
        let Flood { weights, labels, .. } = &mut **flood;
        let first = labels.first_due(i);
        let Label { due, node, slot, .. } = *labels.get(first);
        let row = tables.graph.neighbours(node);
        let nb = row[slot as usize];
        labels.pop(i);
        go_on(row, weights, labels, first);
        self.settle_node(tables, i, nb.node, due, first, nb.edge);
    }

    /// Settles a node for defect `i`: looks for the boundary, and for other defects across its edges.
    fn settle_node(&mut self, tables: Tables<'_>, i: u32, node: u32, dist: i64, before: u32, edge: u32) {
        let Self { flood: Some(flood), defects, halves, positions, .. } = self else { return };
        let Flood { weights, cover, labels, busy, planted, due, exits, bridges, .. } = &mut **flood;
        let settled = labels.add(i, node, dist, before, edge);
        busy[node as usize] = true;
        if let Some((_, own)) = tables.graph.own_boundary(node) {
            let through = dist + i64::from(weights.of(own));
            if through < defects[i as usize].boundary {
                defects[i as usize].boundary = through;
                exits[i as usize] = settled;
            }
        }
        // Few neighbours have labels or a cover; these are found without a branch.
        let row = tables.graph.neighbours(node);
        let mut lightest = u64::MAX;
        for (first, part) in (0u32..).step_by(64).zip(row.chunks(64)) {
            let mut met = 0u64;
            for (at, nb) in (0u32..).zip(part) {
                lightest = lightest.min(u64::from(weights.of(nb.edge)) << 32 | u64::from(first + at));
                met |= u64::from(busy[nb.node as usize]) << at;
            }
            while met != 0 {
                let nb = part[met.trailing_zeros() as usize];
                met &= met - 1;
                for j in cover.at(nb.node).map(|entry| entry.defect) {
                    if !std::mem::replace(&mut planted[j as usize], true) {
                        due.push(j);
                    }
                }
                let through = dist + i64::from(weights.of(nb.edge));
                for (other, label) in labels.at(nb.node).filter(|(_, label)| label.defect != i) {
                    let (j, dist) = (label.defect, through + label.dist);
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
        }
        push_edge(labels, settled, dist, lightest);
    }
}
