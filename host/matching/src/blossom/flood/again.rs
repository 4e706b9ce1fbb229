//! Solving again after some edges have become lighter, from the solution that was there before.
//!
//! The radii of the last solution stay a feasible dual solution wherever no path between two regions has become shorter than
//! their reaches. So only the regions beside lighter edges are at stake:
//!
//! - Two defects matched with each other, or one with the boundary, along a path that has become lighter: their radii shrink
//!   until they just meet on it. Regions that shrink overlap with nothing.
//! - An edge that is now lighter than what the reaches at its two ends go beyond them, taken together, has an effect. Whatever
//!   regions overlap across it are given up, with those that they are matched with: their defects start again from
//!   radii that are small enough.
//!
//! All others stay matched, until a growing region meets them. What they cover is as it was before, and what it spreads to across
//! lighter edges without overlapping with anything; it is entered in a list ([`super::cover`]), and needs to be labelled
//! ([`super::labels`]) only once a search comes near.

use super::super::region::{FROZEN, Link, Region};
use super::super::{BOUNDARY, Blossom, End, SEARCHED, STEPS_BETWEEN_CLOCKS, Tables};
use super::Flood;
use super::cover::Entry;
use crate::graph::NONE;
use crate::metric::FAR;

/// A node that a defect covers across a lighter edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    defect: u32,
    node: u32,
    beyond: i64,
}

/// The defects of regions that are given up.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenUp {
    /// They start again, each as a region on its own.
    pub(super) roots: Vec<u32>,
    /// Per defect, how much shorter its reach is than it was.
    pub(super) less: Vec<i64>,
}

impl Blossom {
    /// The way of a matched pair has become this light. Takes note if that is all there is to do for the pair: the shorter way
    /// may also matter to others.
    pub(crate) fn shorten(&mut self, link: Link, length: i64) {
        let single = |region: u32| region < self.nodes;
        let (u, v) = (link.from as usize, link.to as usize);
        if link.to == BOUNDARY {
            if single(self.top(link.from)) {
                self.defects[u].boundary = length;
                self.regions[u].origin = self.regions[u].origin.min(length);
            }
        } else if self.positions[link.pair as usize] != SEARCHED
            // The way of a pair that no list holds is searched for, and may be another of the same length next time.
            && single(self.top(link.from))
            && single(self.top(link.to))
        {
            for half in &mut self.halves[2 * link.pair as usize..][..2] {
                half.dist = length;
            }
            let (a, b) = (self.regions[u].origin, self.regions[v].origin);
            let excess = a + b - length;
            let less = (excess / 2).min(a).max(excess - b);
            self.regions[u].origin -= less;
            self.regions[v].origin -= excess - less;
        }
    }

    /// Matches the defects at `nodes` on the weights of `flood`, which may be more than the graph's.
    pub(crate) fn solve_afresh(
        &mut self,
        tables: Tables<'_>,
        mut flood: Box<Flood>,
        nodes: &[u32],
    ) -> Box<Flood> {
        self.start(tables, nodes);
        self.forget_nodes();
        flood.restart(nodes.len(), 0);
        flood.bounded = false;
        for (i, d) in (0..).zip(&mut self.defects) {
            d.boundary = FAR;
            flood.given_up.roots.push(i);
        }
        let roots = flood.begin_roots();
        self.flood = Some(flood);
        self.grow_all(tables, roots, &mut || false).0
    }

    /// Matches all anew on the weights of `flood`, which are those of the last solve or less.
    pub(crate) fn solve_again(&mut self, tables: Tables<'_>, flood: Box<Flood>) -> Box<Flood> {
        self.solve_again_until(tables, flood, &mut || false).0
    }

    /// The same, until `expired`; whether it came to the end.
    pub(crate) fn solve_again_until(
        &mut self,
        tables: Tables<'_>,
        mut flood: Box<Flood>,
        expired: &mut impl FnMut() -> bool,
    ) -> (Box<Flood>, bool) {
        self.time = 0;
        self.unmatched = 0;
        self.queue.restart();
        for i in 0..self.defects.len() as u32 {
            self.queue.forget(i);
        }
        for id in self.nodes..self.nodes + self.used_blossoms {
            self.queue.forget(id);
        }
        flood.restart(self.defects.len(), self.positions.len());
        self.flood = Some(flood);
        self.cover(tables);
        let roots = self.part_overlaps(tables);
        self.grow_all(tables, roots, expired)
    }

    /// Lets the defects `roots`, which are due to search, grow until all are matched, or `expired`; gives the flood back, and whether all
    /// are matched.
    fn grow_all(
        &mut self,
        tables: Tables<'_>,
        roots: Vec<u32>,
        expired: &mut impl FnMut() -> bool,
    ) -> (Box<Flood>, bool) {
        self.catch_up(tables);
        let mut ended = End::Matched;
        for (count, &i) in (1..).zip(&roots) {
            self.attend(tables, i);
            if count % STEPS_BETWEEN_CLOCKS == 0 && expired() {
                ended = End::Expired;
                break;
            }
        }
        if ended == End::Matched {
            ended = self.run_until(tables, expired);
        }
        debug_assert!(ended != End::Stuck, "an even number of defects can always be matched");
        let mut flood = self.flood.take().expect("was put there above");
        flood.given_up.roots = roots;
        (flood, ended == End::Matched)
    }

    /// Enters every defect at the nodes that it covers. Those whose near lists end before their reach does are listed.
    fn cover(&mut self, tables: Tables<'_>) {
        let Self { flood: Some(flood), defects, regions, .. } = self else { return };
        let Flood { cover, busy, cut_off, .. } = &mut **flood;
        for (i, d) in (0..).zip(&*defects) {
            // No edge of a silent part has become lighter.
            if d.silent {
                continue;
            }
            let reach = d.base + regions[d.top as usize].origin;
            let info = &tables.metric.nodes[d.node as usize];
            let mut add = |node: u32, beyond| {
                cover.add(node, i, beyond, false);
                busy[node as usize] = true;
            };
            add(d.node, reach);
            if !tables.metric.near.until(d.node, info, reach, |node, dist| add(node, reach - dist)) {
                cut_off.push(i);
            }
        }
    }

    /// Gives up and shrinks regions until none overlap; returns the defects that start again, which are due to search.
    fn part_overlaps(&mut self, tables: Tables<'_>) -> Vec<u32> {
        let Some(mut flood) = self.flood.take() else { return Vec::new() };
        let Flood { weights, cover, busy, cut_off, given_up, spreads, .. } = &mut *flood;
        for &i in &*cut_off {
            self.shrink_by(i, i64::MAX, given_up);
        }
        let boundary = tables.graph.num_detectors() as u32;
        for &edge in weights.changed() {
            let ([a, b], weight) = (weights.ends(edge), weights.of(edge));
            if cover.most(a) + cover.most(b) <= u64::from(weight) {
                continue;
            }
            let weight = i64::from(weight);
            for (here, there) in [(a, b), (b, a)] {
                let most = cover.most(there) as i64;
                for &Entry { beyond, defect, .. } in cover.at(here) {
                    if beyond + most > weight && self.top(defect) >= self.nodes {
                        self.release(defect, given_up);
                    }
                    let beyond = beyond - weight;
                    if there == boundary {
                        self.part(defect, None, beyond, given_up);
                    } else if beyond > given_up.less[defect as usize] {
                        spreads.push(Spread { defect, node: there, beyond });
                    }
                }
            }
            for e in cover.at(a) {
                for f in cover.at(b) {
                    self.part(e.defect, Some(f.defect), e.beyond + f.beyond - weight, given_up);
                }
            }
        }
        while let Some(Spread { defect, node, beyond }) = spreads.pop() {
            let known = cover.of(defect, node);
            if beyond <= given_up.less[defect as usize] || known.is_some_and(|known| known.beyond >= beyond) {
                continue;
            }
            if known.is_some_and(|known| known.spread) {
                // To come to a node once more, nearer, is rare; to do so without end is not to be.
                self.shrink_by(defect, i64::MAX, given_up);
                continue;
            }
            if let Some((_, own)) = tables.graph.own_boundary(node) {
                self.part(defect, None, beyond - i64::from(weights.of(own)), given_up);
            }
            cover.add(node, defect, beyond, true);
            busy[node as usize] = true;
            for other in cover.at(node) {
                self.part(defect, Some(other.defect), beyond + other.beyond, given_up);
            }
            for nb in tables.graph.neighbours(node) {
                let left = beyond - i64::from(weights.of(nb.edge));
                if busy[nb.node as usize] {
                    for other in cover.at(nb.node) {
                        self.part(defect, Some(other.defect), left + other.beyond, given_up);
                    }
                }
                if left > given_up.less[defect as usize] {
                    spreads.push(Spread { defect, node: nb.node, beyond: left });
                }
            }
        }
        let roots = flood.begin_roots();
        self.flood = Some(flood);
        roots
    }

    /// Shrinks one defect, or both if that is not enough, where their reaches were this much too long, or that of the first
    /// one for the boundary.
    #[inline]
    fn part(&mut self, i: u32, j: Option<u32>, excess: i64, given_up: &mut GivenUp) {
        if excess <= 0 || j.is_some_and(|j| self.top(i) == self.top(j)) {
            return;
        }
        for k in [Some(i), j].into_iter().flatten() {
            let excess = excess - given_up.less[i as usize] - j.map_or(0, |j| given_up.less[j as usize]);
            if excess > 0 {
                self.shrink_by(k, excess, given_up);
            }
        }
    }

    /// Gives up the region of defect `i`, and makes its reach this much shorter if it is as long as that.
    fn shrink_by(&mut self, i: u32, by: i64, given_up: &mut GivenUp) {
        let before = given_up.less[i as usize];
        self.release(i, given_up);
        // As it begins anew, it may be shorter already.
        let by = by - (given_up.less[i as usize] - before);
        let radius = &mut self.regions[i as usize].origin;
        let shorter = even((*radius - by).clamp(0, *radius));
        given_up.less[i as usize] += *radius - shorter;
        *radius = shorter;
    }

    /// Gives up the outermost region of defect `i`, and the one that it is matched with.
    fn release(&mut self, i: u32, given_up: &mut GivenUp) {
        let top = self.top(i);
        let Region { rate, mate, .. } = self.regions[top as usize];
        if rate != FROZEN {
            return;
        }
        let other = if mate.leads_out() { None } else { Some(self.top(mate.to)) };
        self.scatter(top, given_up);
        if let Some(other) = other {
            self.scatter(other, given_up);
        }
    }

    /// Makes every defect of an outermost region one on its own that grows from its own radius on.
    fn scatter(&mut self, region: u32, given_up: &mut GivenUp) {
        let whole = self.regions[region as usize];
        let mut i = whole.head;
        while i != NONE {
            let mut blossom = self.regions[i as usize].parent;
            while blossom != NONE && self.regions[blossom as usize].child != NONE {
                self.regions[blossom as usize].child = NONE;
                self.free.push(blossom);
                blossom = self.regions[blossom as usize].parent;
            }
            // Even, as all that begin to grow at the same time have to be.
            let radius = even(self.regions[i as usize].origin);
            self.regions[i as usize] = Region { origin: radius, ..Region::single(i, self.time) };
            self.trees[i as usize] = i;
            self.unmatched += 1;
            given_up.roots.push(i);
            let d = &mut self.defects[i as usize];
            given_up.less[i as usize] = d.base + whole.origin - radius;
            (d.base, d.top) = (0, i);
            i = std::mem::replace(&mut d.next, NONE);
        }
    }
}

fn even(radius: i64) -> i64 {
    radius & !1
}
