//! Fusing the solutions of parts of a graph.
//!
//! Separators divide the parts: no edge joins two parts, only nodes between them that belong to no part. Each part was solved
//! with its frontier at those nodes ([`super::resume`]), so the reaches of two defects in different parts add up to no more than
//! their distance. The states are concatenated here, and then resumed with the defects between the parts: to each part, all
//! others are what was unknown.

use super::region::{Defect, FROZEN, Half, Region};
use super::{Blossom, FRONTIER, Link};
use crate::graph::NONE;

/// Offsets of one state's names when it is appended to another.
#[derive(Clone, Copy)]
struct Shift {
    nodes: u32,
    defects: u32,
    blossoms: u32,
    pairs: u32,
}

impl Shift {
    fn defect(self, i: u32) -> u32 {
        // Values from `FRONTIER` on name no defect: the frontier, the boundary, nothing.
        if i >= FRONTIER { i } else { i + self.defects }
    }

    fn region(self, id: u32) -> u32 {
        if id != NONE && id >= self.nodes { id + self.blossoms } else { self.defect(id) }
    }

    fn half(self, h: u32) -> u32 {
        if h == NONE { h } else { h + 2 * self.pairs }
    }

    fn link(self, l: Link) -> Link {
        let pair = if l.pair == NONE { NONE } else { l.pair + self.pairs };
        Link { from: self.defect(l.from), to: self.defect(l.to), pair }
    }

    fn moved(self, r: &Region) -> Region {
        debug_assert_eq!(r.rate, FROZEN);
        Region {
            mate: self.link(r.mate),
            tree: NONE,
            tree_next: NONE,
            tree_prev: NONE,
            parent: self.region(r.parent),
            head: self.defect(r.head),
            tail: self.defect(r.tail),
            up: self.link(r.up),
            ring_next: self.region(r.ring_next),
            ring: self.link(r.ring),
            child: self.region(r.child),
            mark: 0,
            ..*r
        }
    }
}

impl Blossom {
    /// Appends the state of another part. Both have come to rest.
    pub(crate) fn append(&mut self, other: &Self) {
        let shift = Shift {
            nodes: self.nodes,
            defects: self.defects.len() as u32,
            blossoms: self.used_blossoms,
            pairs: self.positions.len() as u32,
        };
        for (i, d) in other.defects.iter().enumerate() {
            let id = shift.defects + i as u32;
            self.flags[d.node as usize] = 1;
            self.slots[d.node as usize] = id;
            self.defects.push(Defect {
                top: shift.region(d.top),
                head: shift.half(d.head),
                next: shift.defect(d.next),
                ..*d
            });
            self.regions[id as usize] = shift.moved(&other.regions[i]);
            self.trees[id as usize] = NONE;
            self.queue.forget(id);
        }
        for b in self.nodes..self.nodes + other.used_blossoms {
            self.regions[shift.region(b) as usize] = shift.moved(&other.regions[b as usize]);
            self.queue.forget(shift.region(b));
        }
        self.used_blossoms += other.used_blossoms;
        self.free.extend(other.free.iter().map(|&b| shift.region(b)));
        self.halves.extend(other.halves.iter().map(|h| Half {
            other: shift.defect(h.other),
            next: shift.half(h.next),
            ..*h
        }));
        self.positions.extend_from_slice(&other.positions);
        // Every region is at rest, so its radius does not depend on the clock.
    }
}
