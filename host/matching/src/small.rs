//! Few defects on a small graph: a table of all pairs, and dynamic programming where pairs compete.
//!
//! A pair is *useful* if its distance is less than the sum of both distances to the boundary: other pairs never need to be
//! matched. Defects without a useful partner go to the boundary, two defects that are each other's only partner are matched, and
//! the rest falls into groups, each solved over subsets.

use crate::graph::NONE;
use crate::metric::{FAR, Metric};
use crate::pair_path::PairPath;

/// Most nodes for which the table is made: two words a pair, 2 MiB.
const MAX_NODES: usize = 512;
/// Most defects that are compared pair by pair.
const MAX_DEFECTS: usize = 8;
/// Most defects of a group that is solved over subsets; for more, growing regions is faster.
const MAX_GROUP: usize = 5;
/// The distance of a pair that is not useful.
const USELESS: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub(crate) struct PairTable {
    nodes: usize,
    /// Grid distances, or [`USELESS`].
    dists: Vec<u32>,
    /// Position of the second node in the first node's near list, or [`NONE`].
    positions: Vec<u32>,
}

/// A pair of indices into the list of defects; twice the same index stands for a match with the boundary.
pub(crate) type IndexPair = (usize, usize);

/// A matching of few defects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SmallMatching {
    pairs: [(u8, u8); MAX_DEFECTS],
    len: usize,
    /// The defects in groups too large for this method, which do not interact with the others.
    left: u16,
}

impl SmallMatching {
    fn push(&mut self, i: usize, j: usize) {
        self.pairs[self.len] = (i as u8, j as u8);
        self.len += 1;
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = IndexPair> + '_ {
        self.pairs[..self.len].iter().map(|&(i, j)| (i.into(), j.into()))
    }

    /// Indices of the defects that are still to be matched with each other.
    pub(crate) fn left(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MAX_DEFECTS).filter(|i| self.left >> i & 1 == 1)
    }
}

impl PairTable {
    /// The table of a graph, if it is small and its near lists are complete.
    pub(crate) fn new(metric: &Metric) -> Option<Self> {
        let n = metric.nodes.len();
        if n > MAX_NODES || metric.nodes.iter().any(|info| !info.complete) {
            return None;
        }
        let mut table = Self { nodes: n, dists: vec![USELESS; n * n], positions: vec![NONE; n * n] };
        let out = |node: usize| metric.nodes[node].boundary;
        for u in 0..n {
            for (node, dist, position) in metric.near.entries(u as u32, &metric.nodes[u]) {
                if i64::from(dist) >= out(u) + out(node as usize) {
                    continue;
                }
                // A pair is in the list of one of the two nodes, or of both.
                let at = [u * n + node as usize, node as usize * n + u];
                (table.dists[at[0]], table.dists[at[1]]) = (dist, dist);
                table.positions[at[0]] = position;
            }
        }
        Some(table)
    }

    #[inline]
    pub(crate) fn dist(&self, u: u32, v: u32) -> u32 {
        self.dists[u as usize * self.nodes + v as usize]
    }

    /// Where the path between two nodes of a matched pair is recorded.
    pub(crate) fn place(&self, u: u32, v: u32) -> PairPath {
        let at = |u: u32, v: u32| self.positions[u as usize * self.nodes + v as usize];
        let owner = if at(u, v) == NONE { v } else { u };
        PairPath { owner, position: at(owner, u ^ v ^ owner).into() }
    }

    /// Matches as many of the defects at `nodes` as possible; `None` if there are too many.
    #[inline]
    pub(crate) fn solve(&self, metric: &Metric, nodes: &[u32]) -> Option<SmallMatching> {
        if nodes.len() > MAX_DEFECTS {
            return None;
        }
        let mut useful = [0u16; MAX_DEFECTS];
        for (i, &u) in nodes.iter().enumerate() {
            let row = &self.dists[u as usize * self.nodes..][..self.nodes];
            for (j, &v) in nodes.iter().enumerate().skip(i + 1) {
                let bit = u16::from(row[v as usize] != USELESS);
                useful[i] |= bit << j;
                useful[j] |= bit << i;
            }
        }
        let mut out = SmallMatching { pairs: [(0, 0); MAX_DEFECTS], len: 0, left: 0 };
        let mut left = ((1u32 << nodes.len()) - 1) as u16;
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            let others = useful[i];
            if others == 0 {
                out.push(i, i);
                left &= left - 1;
                continue;
            }
            let j = others.trailing_zeros() as usize;
            if others == 1 << j && useful[j] == 1 << i {
                out.push(i, j);
                left &= !(1 << i | 1 << j);
                continue;
            }
            let group = group_of(&useful, i);
            if group.count_ones() as usize > MAX_GROUP {
                out.left |= group;
            } else {
                self.solve_group(metric, nodes, group, &mut out);
            }
            left &= !group;
        }
        Some(out)
    }

    fn solve_group(&self, metric: &Metric, nodes: &[u32], group: u16, out: &mut SmallMatching) {
        let mut members = [0; MAX_GROUP];
        let mut size = 0;
        for i in (0..MAX_DEFECTS).filter(|i| group >> i & 1 == 1) {
            members[size] = i;
            size += 1;
        }
        // Per subset: the least weight, and the partner of its lowest member (itself for the boundary).
        let mut best = [(0i64, 0usize); 1 << MAX_GROUP];
        for set in 1usize..1 << size {
            let i = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            let u = nodes[members[i]];
            let mut least = (best[rest].0 + metric.nodes[u as usize].boundary, i);
            let mut partners = rest;
            while partners != 0 {
                let j = partners.trailing_zeros() as usize;
                partners &= partners - 1;
                let dist = self.dist(u, nodes[members[j]]);
                if dist != USELESS {
                    let weight = best[rest & !(1 << j)].0 + i64::from(dist);
                    if weight < least.0 {
                        least = (weight, j);
                    }
                }
            }
            // Sums of FAR must not overflow.
            best[set] = (least.0.min(FAR), least.1);
        }
        let mut set = (1usize << size) - 1;
        while set != 0 {
            let i = set.trailing_zeros() as usize;
            let j = best[set].1;
            out.push(members[i], members[j]);
            set &= !(1 << i | 1 << j);
        }
    }
}

/// The defects connected to `i` through useful pairs.
fn group_of(useful: &[u16; MAX_DEFECTS], i: usize) -> u16 {
    let mut group = 1u16 << i;
    let mut fresh = group;
    while fresh != 0 {
        let k = fresh.trailing_zeros() as usize;
        fresh &= fresh - 1;
        let new = useful[k] & !group;
        group |= new;
        fresh |= new;
    }
    group
}
