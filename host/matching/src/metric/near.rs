//! Per node, the other nodes in order of distance, packed for scanning.
//!
//! A defect finds the defects around it by scanning its list and testing one flag per entry. Three prunings keep the lists short
//! without losing exactness:
//!
//! - A pair `(u, v)` with `d(u, v) >= b(u) + b(v)`, where `b` is the distance to the boundary, is left out: matching both to the
//!   boundary costs no more. (Where nodes share a list, `b` is a bound on the distance.) If `x` is such a node for `u`, so is
//!   every `v` whose shortest path from `u` leads through `x` (`d(u, x) + d(x, v) >= b(u) + b(x) + d(x, v) >= b(u) + b(v)`), so
//!   the search stops there, too.
//! - A pair with `d(u, v) > 2 b(u)` is left out. Of two defects that meet, the one that reaches further finds the other within
//!   twice its reach, and its reach never exceeds its distance to the boundary.
//! - A list ends after a set number of entries. Beyond it [`super::search`] takes over.
//!
//! A list names nodes by their numbers relative to its own node's, and paths by the slots of their edges in the rows of nodes. So
//! nodes around which the graph looks the same share one list ([`super::shift`]): nodes at the same position of all rounds far
//! enough from the first and the last.
//!
//! A list also ends at a node with many more neighbours than the list has room for ([`is_hub`]). Visiting all of them for every
//! node around the hub would take time quadratic in their number, to keep only the nearest.

use super::masks::MaskTable;
use super::shift::Shift;
use super::sweep::Sweep;
use super::{NodeInfo, ToBoundary, extend_mask};
use crate::graph::{MatchingGraph, NONE};

/// Entries per chunk: a pair of cache lines (which processors fetch together), of nodes and of distances.
pub(crate) const LANES: usize = 16;

/// Sixteen entries in order of distance. Unused lanes point past the last node, at the distance of the last entry in use (zero in
/// an empty list).
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct Chunk {
    /// Offsets from the number of the list's own node, wrapping.
    pub(crate) offsets: [u32; LANES],
    pub(crate) dists: [u32; LANES],
}

/// The end of the path to each lane of a chunk; read only when a correction is asked for.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Position, in the same list, of the entry before this one on the path; [`FIRST`] if the node itself comes before.
    before: [u16; LANES],
    /// Slot of the last edge in the row of the node before.
    slots: [u32; LANES],
}

const FIRST: u16 = u16::MAX;
/// Positions are stored in 16 bits, of which one value is a mark.
const MAX_ENTRIES: usize = u16::MAX as usize;
/// Most chunks in all: 256 bytes each, with their distances.
const MAX_CHUNKS: usize = 1 << 20;
/// The entries of a node while all lists fit below the limit beyond: past 40 MiB of lists, longer lists take more time to make
/// than the searches that they save.
const USUAL: usize = 16;
const LONG_CHUNKS: usize = 160 << 10;

/// Bytes for each chunk: itself, and what is known of its lanes.
const CHUNK_BYTES: usize = 256;

/// The entries that each of `n` nodes may have if `wanted` are asked for.
pub(crate) fn most_entries(n: usize, wanted: usize) -> usize {
    wanted.min(MAX_ENTRIES).min(affordable(n)) / LANES * LANES
}

/// Bytes of the lists of `n` nodes that all have this many entries; an empty list takes a chunk, too.
pub(crate) fn list_bytes(n: usize, entries: f64) -> f64 {
    n as f64 * CHUNK_BYTES as f64 * (entries / LANES as f64).max(1.0)
}

/// The entries that each of `n` nodes may have.
fn affordable(n: usize) -> usize {
    let each = |chunks: usize| chunks / n.max(1);
    each(MAX_CHUNKS).min(USUAL).max(each(LONG_CHUNKS)).max(1) * LANES
}

/// Whether a node of this many neighbours ends every list that it enters.
fn is_hub(neighbours: usize, entries: usize) -> bool {
    neighbours > 2 * entries
}

/// The chunks of one list: its first chunk, and the range of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) first: u32,
    pub(crate) rest: u32,
    pub(crate) end: u32,
    /// Whether the list holds every node that matters, so that no search beyond it is needed.
    pub(crate) complete: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct NearLists {
    /// The first chunks of all lists, so that the part of the lists that every defect reads is dense; then the others.
    pub(crate) chunks: Vec<Chunk>,
    /// Per chunk, the ids of the observables on the way to each lane.
    masks: Vec<[u16; LANES]>,
    details: Vec<Detail>,
    /// The offset of unused lanes: the number of nodes.
    pad: u32,
}

struct Found {
    node: u32,
    dist: u32,
    mask: u32,
    before: u16,
    slot: u32,
}

/// Chunks, with their masks and details.
#[derive(Default)]
struct Chunks {
    chunks: Vec<Chunk>,
    masks: Vec<[u16; LANES]>,
    details: Vec<Detail>,
}

impl Chunks {
    /// Adds a chunk of the list of `u`, with up to [`LANES`] entries.
    fn add(&mut self, u: u32, pad: u32, found: &[Found]) {
        let mut chunk = Chunk { offsets: [pad; LANES], dists: [0; LANES] };
        let mut detail = Detail { before: [FIRST; LANES], slots: [NONE; LANES] };
        let mut masks = [0; LANES];
        for (lane, f) in found.iter().enumerate() {
            chunk.offsets[lane] = f.node.wrapping_sub(u);
            chunk.dists[lane] = f.dist;
            masks[lane] = f.mask as u16;
            (detail.before[lane], detail.slots[lane]) = (f.before, f.slot);
        }
        // Unused lanes take the last distance, so a chunk always ends at the distance of its last entry.
        chunk.dists[found.len()..].fill(found.last().map_or(0, |f| f.dist));
        self.chunks.push(chunk);
        self.masks.push(masks);
        self.details.push(detail);
    }
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
        let pad = n as u32;
        let (mut first, mut rest) = (Chunks::default(), Chunks::default());
        let mut extents: Vec<Extent> = Vec::with_capacity(n);
        let mut found: Vec<Found> = Vec::with_capacity(entries);
        let shift = Shift::find(graph, boundary, masks.as_ref());
        let mut sweep = Sweep::new(graph, &shift);
        for u in 0..n as u32 {
            if let Some(before) = shift.before(u) {
                let extent = extents[before as usize];
                let others = &rest.chunks[extent.rest as usize..extent.end as usize];
                let mut chunks = std::iter::once(&first.chunks[extent.first as usize]).chain(others);
                let same = |&offset: &u32| offset == pad || shift.holds(u.wrapping_add(offset));
                if chunks.all(|chunk| chunk.offsets.iter().all(same)) {
                    extents.push(extent);
                    continue;
                }
            }
            let complete = list_of(graph, &shift, u, entries, masks, &mut sweep, &mut found);
            let begin = (first.chunks.len() as u32, rest.chunks.len() as u32);
            let (head, tail) = found.split_at(found.len().min(LANES));
            first.add(u, pad, head);
            tail.chunks(LANES).for_each(|part| rest.add(u, pad, part));
            let end = rest.chunks.len() as u32;
            extents.push(Extent { first: begin.0, rest: begin.1, end, complete });
        }
        let lists = first.chunks.len() as u32;
        for extent in &mut extents {
            (extent.rest, extent.end) = (extent.rest + lists, extent.end + lists);
        }
        let Chunks { mut chunks, masks: mut sets, mut details } = first;
        chunks.append(&mut rest.chunks);
        sets.append(&mut rest.masks);
        details.append(&mut rest.details);
        (Self { chunks, masks: sets, details, pad }, extents)
    }

    /// The observables' id of an entry, named by chunk and lane.
    #[inline]
    pub(crate) fn mask(&self, position: u64) -> u32 {
        let p = position as usize;
        self.masks[p / LANES][p % LANES].into()
    }

    /// The list of a node: other node, distance, position.
    pub(crate) fn entries(&self, u: u32, info: &NodeInfo) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        std::iter::once(info.first)
            .chain(info.rest..info.end)
            .flat_map(|c| {
                let chunk = &self.chunks[c as usize];
                (0..LANES)
                    .map(move |lane| (chunk.offsets[lane], chunk.dists[lane], c * LANES as u32 + lane as u32))
            })
            .filter(|entry| entry.0 != self.pad)
            .map(move |(offset, dist, position)| (u.wrapping_add(offset), dist, position))
    }

    /// Calls `entry` with every other node nearer than `limit` in the list of a node, and its distance. Returns false if the list
    /// may lack some.
    #[inline]
    pub(crate) fn until(&self, u: u32, info: &NodeInfo, limit: i64, mut entry: impl FnMut(u32, i64)) -> bool {
        let first = self.chunks[info.first as usize].dists[0];
        if i64::from(first) >= limit && first > 0 {
            return true; // the usual case
        }
        for c in std::iter::once(info.first).chain(info.rest..info.end) {
            let chunk = &self.chunks[c as usize];
            for (&offset, &dist) in chunk.offsets.iter().zip(&chunk.dists) {
                if i64::from(dist) >= limit {
                    return true;
                }
                if offset == self.pad {
                    break;
                }
                entry(u.wrapping_add(offset), dist.into());
            }
        }
        info.complete
    }

    /// The edges on the path from `u`, whose list `info` names, to the entry at `position`; the last edge first.
    pub(crate) fn path<'a>(
        &'a self,
        graph: &'a MatchingGraph,
        u: u32,
        info: &'a NodeInfo,
        position: u64,
    ) -> impl Iterator<Item = u32> + 'a {
        let mut at = Some(position as usize);
        std::iter::from_fn(move || {
            let (chunk, lane) = (at? / LANES, at? % LANES);
            let detail = &self.details[chunk];
            let (before, slot) = (usize::from(detail.before[lane]), detail.slots[lane]);
            let mut node = u;
            at = None;
            if before != usize::from(FIRST) {
                let rest = (before / LANES).checked_sub(1).map(|chunk| info.rest as usize + chunk);
                let (chunk, lane) = (rest.unwrap_or(info.first as usize), before % LANES);
                node = u.wrapping_add(self.chunks[chunk].offsets[lane]);
                at = Some(chunk * LANES + lane);
            }
            Some(graph.neighbours(node)[slot as usize].edge)
        })
    }
}

/// Fills `found` with the list of `u`. Returns whether the list is complete.
fn list_of(
    graph: &MatchingGraph,
    shift: &Shift,
    u: u32,
    entries: usize,
    masks: &mut Option<MaskTable>,
    sweep: &mut Sweep,
    found: &mut Vec<Found>,
) -> bool {
    let own = shift.bound(u);
    found.clear();
    sweep.run(
        graph,
        u,
        |v, dist| dist < own + shift.bound(v) && dist <= 2 * own,
        |v| {
            if found.len() == entries {
                return false;
            }
            let before = v.before.checked_sub(1);
            let mask = before.map_or(0, |before| found[before as usize].mask);
            found.push(Found {
                node: v.node,
                dist: v.dist,
                mask: extend_mask(masks, mask, v.edge),
                before: before.map_or(FIRST, |before| before as u16),
                slot: v.slot,
            });
            !is_hub(graph.neighbours(v.node).len(), entries)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::affordable;

    #[test]
    fn lists_of_large_graphs_are_shorter() {
        for (nodes, entries) in [
            (2_184, 1_200),
            (4_896, 528),
            (9_240, 272),
            (29_760, 256),
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
