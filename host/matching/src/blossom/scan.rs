//! Scanning for the defects near a defect, as far as its reach demands.

use super::region::{Defect, Half};
use super::{Blossom, SEARCHED, Tables};
use crate::graph::NONE;
use crate::metric::near::LANES;
use crate::metric::search::Flow;
use crate::queue::NEVER;

/// The least number of defects that one search beyond the lists finds, unless it ends.
const CATCH: usize = 8;
/// Nodes that such a search visits before it checks whether it has gone far enough.
const VISITS: usize = 256;

impl Defect {
    /// The defect's horizon when the last lane of its chunk has been taken.
    #[inline]
    pub(super) fn end_of_chunk(&self, tables: Tables<'_>) -> i64 {
        let info = &tables.metric.nodes[self.node as usize];
        let end = tables.metric.near.chunks[self.chunk as usize].dists[LANES - 1].into();
        if self.cursor == self.end && info.complete { info.limit().max(end) } else { end }
    }
}

impl Blossom {
    /// Reads the chunk that defect `i` comes to next, of a list that has one.
    #[inline]
    pub(super) fn read_chunk(&mut self, tables: Tables<'_>, i: u32) {
        let d = &mut self.defects[i as usize];
        let extent = &tables.metric.nodes[d.node as usize];
        d.chunk = d.cursor;
        d.cursor = if d.cursor == extent.first { extent.rest } else { d.cursor + 1 };
        let chunk = &tables.metric.near.chunks[d.chunk as usize];
        let mut lanes = 0;
        for (lane, &offset) in chunk.offsets.iter().enumerate() {
            lanes |= u32::from(self.flags[d.node.wrapping_add(offset) as usize]) << lane;
        }
        d.lanes = lanes;
        d.horizon = match lanes {
            0 => d.end_of_chunk(tables),
            lanes => chunk.dists[lanes.trailing_zeros() as usize % LANES].into(),
        };
    }

    /// Moves the horizon of defect `i` outwards by one step: one defect of a chunk, or one chunk without any.
    pub(super) fn advance(&mut self, tables: Tables<'_>, i: u32) {
        let near = &tables.metric.near;
        let d = &mut self.defects[i as usize];
        if d.lanes == 0 {
            if d.cursor == d.end {
                return self.search_beyond(tables, i);
            }
            return self.read_chunk(tables, i);
        }
        let chunk = &near.chunks[d.chunk as usize];
        let lane = d.lanes.trailing_zeros() as usize % LANES;
        d.lanes &= d.lanes - 1;
        d.horizon = if d.lanes != 0 {
            chunk.dists[d.lanes.trailing_zeros() as usize % LANES].into()
        } else {
            d.end_of_chunk(tables)
        };
        let position = d.chunk as u64 * LANES as u64 + lane as u64;
        let j = self.slots[d.node.wrapping_add(chunk.offsets[lane]) as usize];
        let dist = i64::from(chunk.dists[lane]);
        // What the other defect has scanned past, it has linked to both; a list that is read again holds its own links.
        let again = self.defects[i as usize].again;
        let horizon = self.defects[j as usize].horizon;
        if dist < horizon && !again || (dist <= horizon || again) && self.knows(i, j) {
            return;
        }
        self.link(i, j, dist, position);
    }

    /// Forgets what defect `i` has seen from distance `unknown` on, where new defects may be, and scans again as far as the
    /// defect's reach demands.
    pub(super) fn look_again(&mut self, tables: Tables<'_>, i: u32, unknown: i64) {
        if self.scanned(tables, i) < unknown {
            return;
        }
        let d = &mut self.defects[i as usize];
        (d.cursor, d.lanes, d.again) = (tables.metric.nodes[d.node as usize].first, 0, true);
        d.horizon = d.horizon.min(unknown);
        let reach = d.base + self.regions[d.top as usize].radius(self.time);
        while self.defects[i as usize].horizon <= 2 * reach {
            self.advance(tables, i);
        }
    }

    /// The distance up to which defect `i` will not notice defects that are added now.
    fn scanned(&self, tables: Tables<'_>, i: u32) -> i64 {
        let d = &self.defects[i as usize];
        let info = &tables.metric.nodes[d.node as usize];
        let end_of = |chunk: u32| i64::from(tables.metric.near.chunks[chunk as usize].dists[LANES - 1]);
        if d.lanes != 0 {
            // The marks of the whole chunk have been read.
            end_of(d.chunk)
        } else if d.cursor == d.end && info.complete {
            // The list holds all that matters.
            end_of(if info.rest == info.end { info.first } else { info.end - 1 })
        } else {
            d.horizon
        }
    }

    fn knows(&self, i: u32, j: u32) -> bool {
        self.pair_of(i, j).is_some()
    }

    /// The pair of two defects, if known.
    pub(super) fn pair_of(&self, i: u32, j: u32) -> Option<u32> {
        let mut h = self.defects[i as usize].head;
        while h != NONE {
            let half = self.halves[h as usize];
            if half.other == j {
                return Some(h / 2);
            }
            h = half.next;
        }
        None
    }

    pub(super) fn link(&mut self, i: u32, j: u32, dist: i64, position: u64) {
        let h = self.halves.len() as u32;
        let [first, second] = [(i, h), (j, h + 1)]
            .map(|(at, half)| std::mem::replace(&mut self.defects[at as usize].head, half));
        self.halves.extend_from_slice(&[
            Half { dist, other: j, next: first },
            Half { dist, other: i, next: second },
        ]);
        self.positions.push(position);
    }

    /// Continues where the list of `i` was cut off.
    #[cold]
    fn search_beyond(&mut self, tables: Tables<'_>, i: u32) {
        let Tables { graph, metric } = tables;
        let d = self.defects[i as usize];
        let info = &metric.nodes[d.node as usize];
        let (own, limit) = (info.boundary, info.limit());
        if info.complete || d.horizon >= limit {
            self.defects[i as usize].horizon = NEVER;
            return;
        }
        let mut search = std::mem::take(&mut self.search);
        // A quarter further than the reach needs: a defect's searches each start from its node, so each must be longer by a
        // factor.
        let enough = d.horizon.max(2 * (d.base + self.regions[d.top as usize].radius(self.time)));
        let enough = enough.saturating_add(enough / 4);
        let (mut caught, mut visits, mut last, mut stopped) = (0, 0, d.horizon, false);
        search.run(graph, d.node, |v| {
            if v.dist >= limit {
                return Flow::Stop;
            }
            visits += 1;
            if v.dist > last && (caught >= CATCH || v.dist > enough && visits > VISITS) {
                stopped = true;
                return Flow::Stop;
            }
            if v.node != d.node && v.dist >= own + metric.nodes[v.node as usize].boundary {
                return Flow::Skip;
            }
            if v.node != d.node && v.dist >= d.horizon {
                last = v.dist;
                if self.flags[v.node as usize] != 0 {
                    caught += 1;
                    let j = self.slots[v.node as usize];
                    if !self.knows(i, j) {
                        self.link(i, j, v.dist, SEARCHED);
                    }
                }
            }
            Flow::Expand
        });
        self.search = search;
        // Everything up to and including `last` is known; the next distance is at least one grid step more.
        self.defects[i as usize].horizon = if stopped { last + 2 } else { limit };
    }
}
