//! Per node, the other nodes in order of distance, packed for scanning.
//!
//! A defect looks for the defects around it by running over its list and testing one flag per entry. Two prunings
//! keep the lists short without losing exactness:
//!
//! - a pair `(u, v)` with `d(u, v) >= b(u) + b(v)`, where `b` is the distance to the boundary, is left out: matching
//!   both to the boundary costs no more. If `x` is such a node for `u`, so is every `v` whose shortest path from `u`
//!   leads through `x` (`d(u, x) + d(x, v) >= b(u) + b(x) + d(x, v) >= b(u) + b(v)`), so the search stops there too;
//! - a list ends after a set number of entries. Beyond it [`super::search`] takes over.
//!
//! A list also ends at a node of many more neighbours than it has room for ([`is_hub`]). To look at all of them for every
//! node around it would take time quadratic in their number, to keep only the nearest.

use super::masks::MaskTable;
use super::search::{Flow, Search};
use super::{NodeInfo, ToBoundary, extend_mask};
use crate::graph::{MatchingGraph, NONE};

/// Entries per chunk: a pair of cache lines (which processors fetch together), of nodes and of distances.
pub(crate) const LANES: usize = 16;

/// Sixteen entries in order of distance. Unused lanes name the node past the last one, at the distance of the last
/// entry in use (zero in an empty list).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Chunk {
    pub(crate) nodes: [u32; LANES],
    pub(crate) dists: [u32; LANES],
}

/// How the path to each lane of a chunk ends; read only when a correction is asked for.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Position, in the same list, of the entry before this one on the path; [`FIRST`] when that is the node itself.
    before: [u16; LANES],
    edges: [u32; LANES],
}

const FIRST: u16 = u16::MAX;
/// Distances are stored in 32 bits; positions in 16, less a mark.
const DIST_LIMIT: i64 = u32::MAX as i64;
const MAX_ENTRIES: usize = u16::MAX as usize;
/// Most chunks in all: 256 bytes each, with their distances.
const MAX_CHUNKS: usize = 1 << 20;
/// As many as that a node gets; further ones as long as all are no more than half of those.
const USUAL: usize = 16;

/// Bytes for each chunk: itself, and what is known of its lanes.
const CHUNK_BYTES: usize = 256;

/// Entries that each of `n` nodes may have where `wanted` are asked for.
pub(crate) fn most_entries(n: usize, wanted: usize) -> usize {
    wanted.min(MAX_ENTRIES).min(affordable(n)) / LANES * LANES
}

/// Bytes of the lists of `n` nodes that all have this many entries; a node without any has a chunk, too.
pub(crate) fn list_bytes(n: usize, entries: f64) -> f64 {
    n as f64 * CHUNK_BYTES as f64 * (entries / LANES as f64).max(1.0)
}

/// Entries that each of `n` nodes may have.
fn affordable(n: usize) -> usize {
    let each = |chunks: usize| chunks / n.max(1);
    each(MAX_CHUNKS).min(USUAL).max(each(MAX_CHUNKS / 2)).max(1) * LANES
}

/// Whether a node of this many neighbours ends every list that it enters.
fn is_hub(neighbours: usize, entries: usize) -> bool {
    neighbours > 2 * entries
}

/// Where one list lies: its first chunk has the index of the node, the rest follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) rest: u32,
    pub(crate) end: u32,
    /// Whether nothing was cut off, so that the search beyond is never needed.
    pub(crate) complete: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct NearLists {
    /// First chunks of all nodes, so that the part of the lists that every defect reads is dense; then the others.
    pub(crate) chunks: Vec<Chunk>,
    /// Per chunk, the ids of the observables on the way to each lane.
    masks: Vec<[u16; LANES]>,
    details: Vec<Detail>,
    /// What unused lanes name.
    pad: u32,
}

struct Found {
    node: u32,
    dist: u32,
    mask: u32,
    before: u16,
    edge: u32,
}

impl NearLists {
    pub(crate) fn new(
        graph: &MatchingGraph,
        boundary: &[ToBoundary],
        entries: usize,
        masks: &mut Option<MaskTable>,
    ) -> (Self, Vec<Extent>) {
        let n = graph.num_detectors();
        let entries = most_entries(n, entries);
        let blank = Chunk { nodes: [n as u32; LANES], dists: [0; LANES] };
        let no_detail = Detail { before: [FIRST; LANES], edges: [NONE; LANES] };
        let mut lists = Self {
            chunks: vec![blank; n],
            masks: vec![[0; LANES]; n],
            details: vec![no_detail; n],
            pad: n as u32,
        };
        let mut extents = Vec::with_capacity(n);
        let mut search = Search::new(n);
        let mut position = vec![FIRST; n];
        let mut found: Vec<Found> = Vec::with_capacity(entries);
        for u in 0..n as u32 {
            let complete =
                list_of(graph, boundary, u, entries, masks, &mut search, &mut position, &mut found);
            extents.push(lists.add(u, &found, complete, blank, no_detail));
            for f in &found {
                position[f.node as usize] = FIRST;
            }
        }
        (lists, extents)
    }

    fn add(&mut self, u: u32, found: &[Found], complete: bool, blank: Chunk, no_detail: Detail) -> Extent {
        let rest = self.chunks.len() as u32;
        for (i, f) in found.iter().enumerate() {
            if i >= LANES && i % LANES == 0 {
                self.chunks.push(blank);
                self.masks.push([0; LANES]);
                self.details.push(no_detail);
            }
            let chunk = self.chunk_of(u, rest, i);
            self.chunks[chunk].nodes[i % LANES] = f.node;
            // Lanes not yet reached take the same distance, so that a chunk always ends at its last entry's.
            self.chunks[chunk].dists[i % LANES..].fill(f.dist);
            self.masks[chunk][i % LANES] = f.mask as u16;
            let detail = &mut self.details[chunk];
            detail.before[i % LANES] = f.before;
            detail.edges[i % LANES] = f.edge;
        }
        Extent { rest, end: self.chunks.len() as u32, complete }
    }

    fn chunk_of(&self, u: u32, rest: u32, entry: usize) -> usize {
        if entry < LANES { u as usize } else { rest as usize + entry / LANES - 1 }
    }

    /// The observables' id of an entry, named by chunk and lane.
    #[inline]
    pub(crate) fn mask(&self, position: u64) -> u32 {
        let p = position as usize;
        self.masks[p / LANES][p % LANES].into()
    }

    /// The list of a node: other node, distance, position.
    pub(crate) fn entries(&self, u: u32, info: &NodeInfo) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        std::iter::once(u)
            .chain(info.rest..info.end)
            .flat_map(|c| {
                let chunk = &self.chunks[c as usize];
                (0..LANES)
                    .map(move |lane| (chunk.nodes[lane], chunk.dists[lane], c * LANES as u32 + lane as u32))
            })
            .filter(|entry| entry.0 != self.pad)
    }

    /// Calls `entry` with every other node nearer than `limit` that the list of a node has, and its distance; `false` if the
    /// list may lack some.
    #[inline]
    pub(crate) fn until(&self, u: u32, info: &NodeInfo, limit: i64, mut entry: impl FnMut(u32, i64)) -> bool {
        let first = self.chunks[u as usize].dists[0];
        if i64::from(first) >= limit && first > 0 {
            return true; // as it mostly is
        }
        for c in std::iter::once(u).chain(info.rest..info.end) {
            let chunk = &self.chunks[c as usize];
            for (&node, &dist) in chunk.nodes.iter().zip(&chunk.dists) {
                if i64::from(dist) >= limit {
                    return true;
                }
                if node == self.pad {
                    break;
                }
                entry(node, dist.into());
            }
        }
        info.complete
    }

    /// The edges on the path from `u`, whose list continues at chunk `rest`, to the entry at `position`; last
    /// one first.
    pub(crate) fn path(&self, u: u32, rest: u32, position: u64) -> impl Iterator<Item = u32> + '_ {
        let mut at = Some(position as usize);
        std::iter::from_fn(move || {
            let p = at?;
            let detail = &self.details[p / LANES];
            let before = detail.before[p % LANES];
            at = (before != FIRST).then(|| {
                let entry = before as usize;
                self.chunk_of(u, rest, entry) * LANES + entry % LANES
            });
            Some(detail.edges[p % LANES])
        })
    }
}

/// Fills `found` with the list of `u`; says whether it is all there is.
#[allow(clippy::too_many_arguments)] // scratch that outlives the call
fn list_of(
    graph: &MatchingGraph,
    boundary: &[ToBoundary],
    u: u32,
    entries: usize,
    masks: &mut Option<MaskTable>,
    search: &mut Search,
    position: &mut [u16],
    found: &mut Vec<Found>,
) -> bool {
    let own = boundary[u as usize].dist;
    let mut complete = true;
    found.clear();
    let useful = |v: u32, dist: i64| dist < own + boundary[v as usize].dist;
    search.run_within(graph, u, useful, |v| {
        if v.node == u {
            return Flow::Expand;
        }
        if found.len() == entries || v.dist > DIST_LIMIT {
            complete = false;
            return Flow::Stop;
        }
        let before = position[v.before as usize];
        let mask = if before == FIRST { 0 } else { found[before as usize].mask };
        position[v.node as usize] = found.len() as u16;
        found.push(Found {
            node: v.node,
            dist: v.dist as u32,
            mask: extend_mask(masks, mask, v.edge),
            before,
            edge: v.edge,
        });
        if is_hub(graph.neighbours(v.node).len(), entries) {
            complete = false;
            return Flow::Stop;
        }
        Flow::Expand
    });
    complete
}

#[cfg(test)]
mod tests {
    use super::affordable;

    #[test]
    fn lists_of_large_graphs_are_shorter() {
        for (nodes, entries) in [
            (2_184, 3_840),
            (8_192, 1_024),
            (9_240, 896),
            (29_760, 272),
            (40_000, 256),
            (65_536, 256),
            (100_000, 160),
            (1 << 20, 16),
            (1 << 21, 16),
        ] {
            assert_eq!(affordable(nodes), entries, "{nodes}");
        }
    }
}
