//! Carrying the regions of one window of a run into the next.
//!
//! Between two rounds everything is at rest: each region is matched with another region, the boundary or the frontier. When the
//! window moves on, pairs far enough in the past stay behind. The other regions continue with their radii in the graph of the
//! next window, where the distances around them are the same, so nothing is solved again. All is checked nevertheless: a region
//! that does not fit is not carried.

use super::region::{Defect, FROZEN, Region};
use super::{BOUNDARY, Blossom, FRONTIER, Link, SEARCHED, Tables};
use crate::graph::NONE;

impl Blossom {
    /// The number of defects.
    pub(crate) fn num_defects(&self) -> usize {
        self.defects.len()
    }

    /// The reach of a defect: the sum of the radii of all regions around it.
    pub(crate) fn covered(&self, defect: u32) -> i64 {
        let d = &self.defects[defect as usize];
        d.base + self.regions[d.top as usize].radius(self.time)
    }

    /// The outermost region around a defect.
    pub(crate) fn outermost(&self, defect: u32) -> u32 {
        self.top(defect)
    }

    /// Fills `extents`: for each outermost region, the oldest and the newest layer among its defects and those of its partner.
    /// The newest layer of a region that is matched with the frontier is `u32::MAX`.
    pub(crate) fn extents(&self, layer: impl Fn(u32) -> u32, extents: &mut [[u32; 2]]) {
        let join = |a: [u32; 2], b: [u32; 2]| [a[0].min(b[0]), a[1].max(b[1])];
        for d in &self.defects {
            extents[d.top as usize] = [u32::MAX, 0];
        }
        for d in &self.defects {
            let at = layer(d.node);
            extents[d.top as usize] = join(extents[d.top as usize], [at, at]);
        }
        for (i, d) in self.defects.iter().enumerate() {
            let region = &self.regions[d.top as usize];
            if region.head != i as u32 {
                continue;
            }
            match region.mate.to {
                FRONTIER => extents[d.top as usize][1] = u32::MAX,
                BOUNDARY => {}
                defect => {
                    let other = self.top(defect) as usize;
                    extents[other] = join(extents[other], extents[d.top as usize]);
                    extents[d.top as usize] = extents[other];
                }
            }
        }
    }

    /// Begins with the defects `staying` of `old`, in order, which are all defects of some outermost regions, on nodes whose
    /// numbers are `by` more; `frontier` is that of [`resume`](Self::resume). Both are states on the same graph. Returns false if
    /// the regions do not fit there unchanged: then this state holds nothing, and the caller begins anew.
    ///
    /// Where a node has the same near list as its old node, what was read of the list stays valid. Other lists are read anew, and
    /// so are the lists of defects that lose a pair thereby.
    pub(crate) fn carry(
        &mut self,
        tables: Tables<'_>,
        old: &Self,
        names: &mut [u32],
        staying: &[u32],
        by: u32,
        frontier: impl Fn(u32) -> i64,
    ) -> bool {
        self.begin(tables);
        let to = |node: u32| node.wrapping_add(by);
        for d in staying.iter().map(|&i| &old.defects[i as usize]) {
            let node = to(d.node);
            let i = self.defects.len() as u32;
            let [info, before] = [node, d.node].map(|node| &tables.metric.nodes[node as usize]);
            self.flags[node as usize] = 1;
            self.slots[node as usize] = i;
            let new = Defect { base: d.base, ..Defect::new(i, node, info) };
            self.defects.push(if info.has_list_of(before) {
                Defect {
                    horizon: d.horizon,
                    chunk: d.chunk,
                    lanes: d.lanes,
                    cursor: d.cursor,
                    again: d.again,
                    ..new
                }
            } else {
                Defect { again: true, ..new }
            });
            self.bound(tables, i, frontier(node));
            self.trees[i as usize] = NONE;
            self.queue.forget(i);
        }
        self.copy_regions(old, names, staying, to);
        self.copy_pairs(tables, old, staying, to);
        for i in 0..self.defects.len() as u32 {
            self.drop_lanes(tables, i);
            let reach = self.covered(i);
            while self.defects[i as usize].horizon <= 2 * reach {
                self.advance(tables, i);
            }
        }
        self.is_feasible() && self.find_pairs(tables, old)
    }

    /// Copies the known pairs from near lists that are the same here.
    fn copy_pairs(&mut self, tables: Tables<'_>, old: &Self, staying: &[u32], to: impl Fn(u32) -> u32) {
        for (i, d) in (0..).zip(staying.iter().map(|&i| &old.defects[i as usize])) {
            let info = |node: u32| &tables.metric.nodes[node as usize];
            let list_is_same = info(to(d.node)).has_list_of(info(d.node));
            let mut h = d.head;
            while h != NONE {
                let half = old.halves[h as usize];
                let (own, position) = (h % 2 == 0, old.positions[h as usize / 2]);
                h = half.next;
                // The first half belongs to the defect that found the pair.
                if own && list_is_same && position != SEARCHED {
                    if let Some(j) = self.at(to(old.defects[half.other as usize].node)) {
                        self.link(i, j, half.dist, position);
                    }
                    continue;
                }
                let other = old.defects[half.other as usize].node;
                if self.at(to(other)).is_none() {
                    continue;
                }
                let theirs = info(to(other)).has_list_of(info(other));
                // The other half copies the pair, or neither does: then both defects read their lists again.
                if own || !theirs || position == SEARCHED {
                    let d = &mut self.defects[i as usize];
                    (d.cursor, d.lanes, d.horizon, d.again) = (info(d.node).first, 0, 0, true);
                }
            }
        }
    }

    /// The defect at a node, if there is one.
    fn at(&self, node: u32) -> Option<u32> {
        let there = self.flags.get(node as usize).is_some_and(|&flag| flag != 0);
        there.then(|| self.slots[node as usize])
    }

    /// Clears the lanes of a half-read chunk whose defects were left behind.
    fn drop_lanes(&mut self, tables: Tables<'_>, i: u32) {
        let d = &mut self.defects[i as usize];
        if d.lanes == 0 {
            return;
        }
        let chunk = &tables.metric.near.chunks[d.chunk as usize];
        let mut lanes = d.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let there = self.flags[d.node.wrapping_add(chunk.offsets[lane as usize]) as usize];
            d.lanes &= !(u32::from(there ^ 1) << lane);
        }
        d.horizon = match d.lanes {
            0 => d.end_of_chunk(tables),
            lanes => chunk.dists[lanes.trailing_zeros() as usize].into(),
        };
    }

    /// Copies the regions around the defects. Their links still hold the pairs of `old`.
    fn copy_regions(&mut self, old: &Self, names: &mut [u32], staying: &[u32], to: impl Fn(u32) -> u32) {
        let nodes = old.nodes;
        names[..old.used_blossoms as usize].fill(NONE);
        for &i in staying {
            let mut blossom = old.regions[i as usize].parent;
            while blossom != NONE && names[(blossom - nodes) as usize] == NONE {
                names[(blossom - nodes) as usize] = self.new_blossom();
                blossom = old.regions[blossom as usize].parent;
            }
        }
        let slots = std::mem::take(&mut self.slots);
        // Values from `FRONTIER` on name no defect: the frontier, the boundary, nothing.
        let defect = |i: u32| {
            if i >= FRONTIER { i } else { slots[to(old.defects[i as usize].node) as usize] }
        };
        let region =
            |id: u32| if id != NONE && id >= nodes { names[(id - nodes) as usize] } else { defect(id) };
        let link = |l: Link| Link { from: defect(l.from), to: defect(l.to), pair: l.pair };
        let copied = |r: &Region| {
            let child = r.parent != NONE;
            Region {
                mate: if child { Link::NONE } else { link(r.mate) },
                ring: if child { link(r.ring) } else { Link::NONE },
                ring_next: if child { region(r.ring_next) } else { NONE },
                parent: region(r.parent),
                head: defect(r.head),
                tail: defect(r.tail),
                child: region(r.child),
                origin: r.radius(old.time),
                rate: FROZEN,
                tree: NONE,
                ..Region::default()
            }
        };
        for (new, &i) in staying.iter().enumerate() {
            let d = &old.defects[i as usize];
            debug_assert_eq!(old.regions[d.top as usize].rate, FROZEN, "a state at rest");
            self.regions[new] = copied(&old.regions[i as usize]);
            self.defects[new].top = region(d.top);
            self.defects[new].next = if d.next == NONE { NONE } else { defect(d.next) };
        }
        for (blossom, &name) in (nodes..).zip(names.iter()).take(old.used_blossoms as usize) {
            if name != NONE {
                self.regions[name as usize] = copied(&old.regions[blossom as usize]);
            }
        }
        self.slots = slots;
        self.unmatched = 0;
    }

    /// Whether no two regions overlap, and no region reaches past the boundary or the frontier.
    fn is_feasible(&self) -> bool {
        let inside = |i: usize| self.covered(i as u32) <= self.defects[i].boundary;
        let apart = |pair: &[super::Half]| {
            let (i, j) = (pair[1].other, pair[0].other);
            self.top(i) == self.top(j) || self.covered(i) + self.covered(j) <= pair[0].dist
        };
        (0..self.defects.len()).all(inside) && self.halves.chunks_exact(2).all(apart)
    }

    /// Gives every link its pair here. Returns false if a pair has another length here.
    fn find_pairs(&mut self, tables: Tables<'_>, old: &Self) -> bool {
        let blossoms = self.nodes..self.nodes + self.used_blossoms;
        for id in (0..self.defects.len() as u32).chain(blossoms) {
            let region = self.regions[id as usize];
            let child = region.parent != NONE;
            let link = if child { region.ring } else { region.mate };
            let pair = match link.to {
                FRONTIER | BOUNDARY => {
                    let d = &self.defects[link.from as usize];
                    let own = tables.metric.nodes[d.node as usize].boundary;
                    let end = if link.to == FRONTIER { d.boundary } else { own };
                    if (link.to == FRONTIER) != d.open || end != self.covered(link.from) {
                        return false;
                    }
                    NONE
                }
                to => {
                    let dist = old.dist(link.pair);
                    let Some(pair) = self.pair_of(link.from, to).filter(|&pair| self.dist(pair) == dist)
                    else {
                        return false;
                    };
                    pair
                }
            };
            let region = &mut self.regions[id as usize];
            if child { region.ring.pair = pair } else { region.mate.pair = pair }
        }
        true
    }
}
