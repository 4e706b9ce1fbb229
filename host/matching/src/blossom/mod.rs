//! The blossom algorithm on defects, as growth against a clock.
//!
//! This is sparse blossom (Higgott and Gidney, arXiv:2303.15933): every defect is the centre of a region whose radius is its dual
//! variable. Regions grow, freeze when matched, and shrink when they are inner nodes of an alternating tree. Odd cycles become
//! blossoms, and a blossom that has shrunk to nothing falls apart. All trees grow at once, against one clock, so the next step is
//! always the earliest event in a queue.
//!
//! It differs from the paper in how regions meet. There, a region floods the graph node by node, and each node that it enters is
//! an event. Here the distances between near nodes are known beforehand ([`crate::metric`]), so a region is just a number per
//! defect: the *reach* `y` of a defect is the sum of the radii of all regions around it, and the regions of `u` and `v` meet when
//! `y(u) + y(v) = d(u, v)`. Only meetings, boundaries, collapsing blossoms and further scanning make events. A defect needs to
//! know the defects within `2 y`: when a pair meets, the defect with the larger reach has `2 y >= d`. So a defect scans its list
//! of near nodes that far, and no further. Most defects match with a neighbour and never see more than their first sixteen nodes.
//!
//! Shortest-path distances obey the triangle inequality, so the radius of an inner region of one defect never falls
//! below zero: its two neighbours in the tree meet no later than that, and form a blossom with it.
//!
//! Names: a *link* is a pair of defects that meet, directed; a region's *mate* is the link through which it is matched.

mod carry;
mod cut;
mod extract;
pub(crate) mod flood;
mod form;
mod fuse;
mod grow;
mod region;
mod resume;
mod scan;
mod settle;
mod shatter;
#[cfg(test)]
mod tests;
mod tree;
mod verify;

use flood::Flood;
pub(crate) use region::Link;
use region::{Defect, FROZEN, Half, Region};

use crate::graph::{MatchingGraph, NONE};
use crate::metric::search::Search;
use crate::metric::{Metric, NodeInfo};
use crate::queue::{NEVER, RadixQueue};

/// The far end of a link to the boundary.
pub(crate) const BOUNDARY: u32 = NONE - 1;
/// The far end of a link to the part of the graph whose syndrome is not known yet ([`resume`]).
pub(crate) const FRONTIER: u32 = NONE - 2;

/// What a decode reads: the graph and its distances.
#[derive(Clone, Copy)]
pub(crate) struct Tables<'a> {
    pub(crate) graph: &'a MatchingGraph,
    pub(crate) metric: &'a Metric,
}

/// The state of the algorithm; all of it is sized by the graph.
#[derive(Debug, Clone)]
pub(crate) struct Blossom {
    /// The number of nodes: ids below it are defects (and their own regions), ids from it on are blossoms.
    nodes: u32,
    time: i64,
    /// Regions at the root of a tree, still to be matched.
    unmatched: usize,
    defects: Vec<Defect>,
    regions: Vec<Region>,
    /// Unused blossom ids, and the number of ids used so far in this decode.
    free: Vec<u32>,
    used_blossoms: u32,
    /// Per tree (named by the defect that it started from), one region of it.
    trees: Vec<u32>,
    /// Known pairs, two half-edges each.
    halves: Vec<Half>,
    /// Per pair, where the near lists hold it; [`SEARCHED`] if they do not.
    positions: Vec<u64>,
    queue: RadixQueue,
    /// Per node, 1 where there is a defect; then as many zeros, which unused lanes of near lists point to.
    flags: Vec<u8>,
    /// Per node, its defect.
    slots: Vec<u32>,
    search: Search,
    /// The search for near defects while weights differ from the graph's; `None`: the tables serve.
    flood: Option<Box<Flood>>,
    /// Work lists.
    stack: Vec<Link>,
    wake: Vec<u32>,
    mark: u64,
}

/// Steps between two checks of the time limit.
const STEPS_BETWEEN_CLOCKS: u32 = 16;

/// How a run of events ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Every region is matched.
    Matched,
    /// Some regions can never be matched.
    Stuck,
    /// The time limit passed.
    Expired,
}

/// The position of a pair that no near list holds.
pub(crate) const SEARCHED: u64 = u64::MAX;

impl Blossom {
    pub(crate) fn new(tables: Tables<'_>) -> Self {
        Self::with_nodes(tables.graph.num_detectors())
    }

    /// The state for graphs of up to `n` nodes.
    pub(crate) fn with_nodes(n: usize) -> Self {
        let regions = n + n / 2 + 1;
        // Planar codes need a few pairs per node even with a defect on every one of them. A graph that needs more
        // grows this once and keeps it.
        let pairs = 8 * n + 64;
        Self {
            nodes: n as u32,
            time: 0,
            unmatched: 0,
            defects: Vec::with_capacity(n),
            regions: vec![Region::default(); regions],
            free: Vec::with_capacity(n / 2 + 1),
            used_blossoms: 0,
            trees: vec![NONE; n],
            halves: Vec::with_capacity(2 * pairs),
            positions: Vec::with_capacity(pairs),
            queue: RadixQueue::new(regions),
            flags: vec![0; 2 * n + 1],
            slots: vec![NONE; n],
            search: Search::new(n),
            flood: None,
            stack: Vec::with_capacity(n + 1),
            wake: Vec::with_capacity(n + 1),
            mark: 0,
        }
    }

    /// Matches the defects at `nodes` (distinct, in range, an even number in every part without a boundary).
    pub(crate) fn solve(&mut self, tables: Tables<'_>, nodes: &[u32]) {
        let done = self.solve_until(tables, nodes, &mut || false);
        debug_assert!(done, "nothing has stopped it");
    }

    /// As [`solve`](Self::solve), until `expired`, which is called every few steps. Returns false if some regions are not matched
    /// then.
    pub(crate) fn solve_until(
        &mut self,
        tables: Tables<'_>,
        nodes: &[u32],
        expired: &mut impl FnMut() -> bool,
    ) -> bool {
        self.start(tables, nodes);
        self.settle(tables, 0);
        let mut ended = End::Matched;
        for i in 0..nodes.len() as u32 {
            if self.regions[i as usize].rate != FROZEN {
                self.attend(tables, i);
                if i % STEPS_BETWEEN_CLOCKS == 0 && expired() {
                    ended = End::Expired;
                    break;
                }
            }
        }
        if ended == End::Matched {
            ended = self.run_until(tables, expired);
        }
        debug_assert!(ended != End::Stuck, "an even number of defects can always be matched");
        self.forget_nodes();
        self.unmatched == 0
    }

    /// Processes events until every region is matched. Returns false if some regions can never be.
    fn run(&mut self, tables: Tables<'_>) -> bool {
        self.run_until(tables, &mut || false) == End::Matched
    }

    /// As [`run`](Self::run), until `expired`.
    fn run_until(&mut self, tables: Tables<'_>, expired: &mut impl FnMut() -> bool) -> End {
        let mut steps = 0;
        while self.unmatched > 0 {
            steps += 1;
            if steps % STEPS_BETWEEN_CLOCKS == 0 && expired() {
                return End::Expired;
            }
            let Some((time, id)) = self.queue.pop() else {
                return End::Stuck;
            };
            debug_assert!(time >= self.time, "the clock does not go back");
            self.time = time;
            if id < self.nodes {
                self.attend(tables, id);
            } else {
                self.collapse(tables, id);
            }
        }
        End::Matched
    }

    fn start(&mut self, tables: Tables<'_>, nodes: &[u32]) {
        self.time = 0;
        self.unmatched = 0;
        self.free.clear();
        self.used_blossoms = 0;
        self.halves.clear();
        self.positions.clear();
        self.queue.restart();
        self.defects.clear();
        for &node in nodes {
            self.add(node, &tables.metric.nodes[node as usize]);
        }
    }

    /// Adds a defect, which starts to grow now.
    #[inline]
    fn add(&mut self, node: u32, info: &NodeInfo) {
        let i = self.defects.len() as u32;
        self.flags[node as usize] = 1;
        self.slots[node as usize] = i;
        self.defects.push(Defect::new(i, node, info));
        self.regions[i as usize].begin(i, self.time);
        self.trees[i as usize] = i;
        self.queue.forget(i);
        self.unmatched += 1;
    }

    /// Unmarks the nodes of all defects, so that the next decode finds no marks.
    pub(crate) fn forget_nodes(&mut self) {
        for d in &self.defects {
            self.flags[d.node as usize] = 0;
        }
    }

    /// Marks the nodes of all defects, as they were before [`forget_nodes`](Self::forget_nodes).
    pub(crate) fn remember_nodes(&mut self) {
        for (i, d) in (0..).zip(&self.defects) {
            self.flags[d.node as usize] = 1;
            self.slots[d.node as usize] = i;
        }
    }

    /// Processes everything that is due at a defect now, and queues the defect for its next event.
    fn attend(&mut self, tables: Tables<'_>, i: u32) {
        loop {
            match self.next_event(tables, i) {
                grow::Event::Later(NEVER) => return,
                grow::Event::Later(time) => return self.queue.push(i, time),
                grow::Event::Boundary => self.reach_boundary(tables, i),
                grow::Event::Meet(half) => self.meet(tables, i, half),
            }
        }
    }

    /// Attends to every defect of a region whose growth rate went up.
    fn attend_region(&mut self, tables: Tables<'_>, region: u32) {
        let mut i = self.regions[region as usize].head;
        while i != NONE {
            self.queue_defect(tables, i);
            i = self.defects[i as usize].next;
        }
    }

    /// Queues a defect for its next event, even one due now: regions may be half rewritten when this is called.
    fn queue_defect(&mut self, tables: Tables<'_>, i: u32) {
        let time = match self.next_event(tables, i) {
            grow::Event::Later(NEVER) => return,
            grow::Event::Later(time) => time,
            grow::Event::Boundary | grow::Event::Meet(_) => self.time,
        };
        self.queue.push(i, time);
    }
}
