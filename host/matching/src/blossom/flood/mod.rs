//! Finding the defects near a defect where no distance table can be trusted: weights that hold for one decode alone.
//!
//! Every defect grows a search of its own, no further than its reach: all nodes within the reach are *settled*, and
//! those one edge beyond are labelled, too. Two defects meet when their reaches add up to their distance. Walk along
//! a shortest path from `j` to `i`, to the first node that `j` has not settled: it is labelled by `j`, and no further from
//! `i` than `i`'s reach, so `i` settles it, and finds the label of `j` there (or `j`, labelling it later, finds that `i` has
//! settled it). So the distance of a pair is known, and exact, when it meets; before that it may be unknown, or too
//! large.
//!
//! The distances to the boundary of the unchanged graph are upper bounds here, since weights are only ever lowered. They
//! prune as they do in the lists ([`crate::metric::near`]): past a node `v` with `d(u, v) >= b(u) + b(v)` nothing is of use.

mod labels;
mod weights;

use super::grow::Event;
use super::region::Half;
use super::{BOUNDARY, Blossom, Link, Tables};
use crate::graph::{MatchingGraph, NONE};
use crate::queue::NEVER;
use labels::{Labels, State};
use weights::Weights;

/// What a solve on lowered weights needs besides.
#[derive(Debug, Clone)]
pub(crate) struct Flood {
    weights: Weights,
    labels: Labels,
    /// Per defect, the label from which its way to the boundary leaves; [`NONE`] if the way of the unchanged graph is
    /// as short as any.
    exits: Vec<u32>,
}

impl Flood {
    fn new(graph: &MatchingGraph) -> Self {
        let n = graph.num_detectors();
        Self { weights: Weights::new(graph), labels: Labels::new(n), exits: Vec::with_capacity(n) }
    }

    /// Calls `edge` with every edge on the way of a matched pair, `a` and what [`Blossom::ways`] says of it.
    fn walk(&self, tables: Tables<'_>, a: u32, ways: u64, mut edge: impl FnMut(u32)) {
        let (first, second) = unpack(ways);
        if first == NONE {
            // To the boundary, as the tables know it.
            let mut at = a;
            while at != NONE {
                let step = tables.metric.boundary[at as usize];
                edge(step.edge);
                at = step.next;
            }
            return;
        }
        if second == NONE
            && let Some((_, own)) = self.weights.own_boundary(self.labels.get(first).node)
        {
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

fn pack(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

fn unpack(ways: u64) -> (u32, u32) {
    ((ways >> 32) as u32, ways as u32)
}

impl Blossom {
    /// One that floods: it solves on weights that may have been lowered.
    pub(crate) fn flooding(tables: Tables<'_>) -> Self {
        Self { flood: Some(Box::new(Flood::new(tables.graph))), ..Self::new(tables) }
    }

    /// Enters the defects of a solve that begins.
    pub(super) fn plant(&mut self) {
        let Self { flood: Some(flood), defects, .. } = self else { return };
        flood.labels.clear();
        flood.exits.clear();
        for d in defects {
            flood.labels.plant(d.node);
            flood.exits.push(NONE);
        }
    }

    /// As [`next_event`](Self::next_event) does it, scanning by flooding.
    pub(super) fn next_flood_event(&mut self, tables: Tables<'_>, i: u32, reach: i64) -> Event {
        let now = self.time;
        let mut key = NEVER;
        loop {
            let Some(flood) = &mut self.flood else { break };
            let label = flood.labels.nearest(i);
            if label == NONE {
                key = NEVER;
                break;
            }
            key = flood.labels.get(label).dist;
            if key > reach {
                break;
            }
            self.settle_label(tables, i);
        }
        let to_boundary = self.defects[i as usize].boundary - reach;
        if to_boundary <= 0 {
            return Event::Boundary;
        }
        let mut best = NEVER;
        if to_boundary < crate::metric::FAR / 2 {
            best = now + to_boundary;
        }
        if key != NEVER {
            best = best.min(now + key - reach);
        }
        Event::Later(best)
    }

    /// Settles the nearest label of defect `i`: looks for others there, for the boundary, and one edge further.
    fn settle_label(&mut self, tables: Tables<'_>, i: u32) {
        let Self { flood: Some(flood), defects, halves, positions, .. } = self else { return };
        let Flood { weights, labels, exits } = &mut **flood;
        let settled = labels.settle_nearest(i);
        let (node, dist) = (labels.get(settled).node, labels.get(settled).dist);
        if let Some((own, _)) = weights.own_boundary(node) {
            let through = dist + i64::from(own);
            if through < defects[i as usize].boundary {
                defects[i as usize].boundary = through;
                exits[i as usize] = settled;
            }
        }
        // Past this, a way is of no use (less the other end's distance to the boundary).
        let useful = defects[i as usize].boundary;
        let mut note = |labels: &Labels, mine: u32, theirs: u32| {
            let (a, b) = (labels.get(mine), labels.get(theirs));
            let (j, dist) = (b.defect, a.dist + b.dist);
            if dist >= defects[i as usize].boundary + defects[j as usize].boundary {
                return;
            }
            let mut h = defects[i as usize].head;
            while h != NONE {
                let half = &mut halves[h as usize];
                if half.other == j {
                    if dist < half.dist {
                        half.dist = dist;
                        halves[(h ^ 1) as usize].dist = dist;
                        positions[h as usize / 2] = pack(mine, theirs);
                    }
                    return;
                }
                h = half.next;
            }
            let h = halves.len() as u32;
            halves.push(Half { dist, other: j, next: defects[i as usize].head });
            defects[i as usize].head = h;
            halves.push(Half { dist, other: i, next: defects[j as usize].head });
            defects[j as usize].head = h + 1;
            positions.push(pack(mine, theirs));
        };
        let mut at = labels.first(node);
        while at != NONE {
            let label = labels.get(at);
            if label.defect != i && label.state != State::Replaced {
                note(labels, settled, at);
            }
            at = label.next;
        }
        for nb in weights.row(tables.graph, node) {
            let through = dist + i64::from(nb.weight);
            if through >= useful + tables.metric.nodes[nb.node as usize].boundary {
                continue;
            }
            let mut old = NONE;
            let mut met = false;
            let first = labels.first(nb.node);
            let mut at = first;
            while at != NONE {
                let label = labels.get(at);
                if label.defect == i {
                    if label.state != State::Replaced {
                        old = at;
                    }
                } else {
                    met |= label.state == State::Settled;
                }
                at = label.next;
            }
            if old != NONE {
                if labels.get(old).dist <= through {
                    continue;
                }
                labels.replace(old);
            }
            let mine = labels.add(i, nb.node, through, settled, nb.edge);
            at = if met { first } else { NONE };
            while at != NONE {
                let label = labels.get(at);
                if label.defect != i && label.state == State::Settled {
                    note(labels, mine, at);
                }
                at = label.next;
            }
        }
    }

    /// What [`walk_ways`](Self::walk_ways) needs to know of a matched link.
    pub(crate) fn ways(&self, link: Link) -> u64 {
        if link.to == BOUNDARY {
            let exit = self.flood.as_ref().map_or(NONE, |flood| flood.exits[link.from as usize]);
            return pack(exit, NONE);
        }
        self.positions[link.pair as usize]
    }

    /// Calls `edge` with every edge on the way of a matched link from the defect at node `a`.
    pub(crate) fn walk_ways(&self, tables: Tables<'_>, a: u32, ways: u64, edge: impl FnMut(u32)) {
        if let Some(flood) = &self.flood {
            flood.walk(tables, a, ways, edge);
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
