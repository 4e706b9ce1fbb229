//! The records of the algorithm: defects, regions, pairs.

use super::{BOUNDARY, FRONTIER};
use crate::graph::NONE;
use crate::metric::NodeInfo;

/// A directed pair of defects, or a defect and the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) from: u32,
    /// A defect, [`BOUNDARY`] or [`FRONTIER`].
    pub(crate) to: u32,
    /// Index of the pair; [`NONE`] for the boundary and the frontier.
    pub(crate) pair: u32,
}

impl Link {
    pub(crate) const NONE: Self = Self { from: NONE, to: NONE, pair: NONE };

    pub(crate) fn boundary(from: u32) -> Self {
        Self { from, to: BOUNDARY, pair: NONE }
    }

    /// Whether the link leads to no other region.
    pub(crate) fn leads_out(self) -> bool {
        matches!(self.to, BOUNDARY | FRONTIER)
    }

    pub(crate) fn reversed(self) -> Self {
        Self { from: self.to, to: self.from, pair: self.pair }
    }

    pub(crate) fn is_none(self) -> bool {
        self.from == NONE
    }
}

/// One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Defect {
    /// The defect's reach less the radius of its outermost region.
    pub(super) base: i64,
    /// Every defect nearer than this is known; defects at this distance may be.
    pub(super) horizon: i64,
    /// Distance to the boundary, or to the frontier if that is nearer.
    pub(super) boundary: i64,
    /// Outermost region around the defect.
    pub(super) top: u32,
    /// First of its half-edges.
    pub(super) head: u32,
    pub(super) node: u32,
    /// Next defect of the same region.
    pub(super) next: u32,
    /// Chunk of the near list being read, and its lanes with defects that were not taken yet.
    pub(super) chunk: u32,
    pub(super) lanes: u32,
    /// Chunk to read next, and the end of the list.
    pub(super) cursor: u32,
    pub(super) end: u32,
    /// Whether `boundary` is the distance to the frontier.
    pub(super) open: bool,
    /// Whether the near list is being read again.
    pub(super) again: bool,
    /// Whether its part of the graph flips no observable ([`NodeInfo::silent`]).
    pub(super) silent: bool,
}

impl Defect {
    pub(super) fn new(i: u32, node: u32, info: &NodeInfo) -> Self {
        Self {
            base: 0,
            horizon: 0,
            boundary: info.boundary,
            top: i,
            head: NONE,
            node,
            next: NONE,
            chunk: info.first,
            lanes: 0,
            cursor: info.first,
            end: info.end,
            open: false,
            again: false,
            silent: info.silent,
        }
    }
}

/// One direction of a known pair. Pair `p` owns halves `2 p` (at its first defect) and `2 p + 1`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    pub(super) dist: i64,
    pub(super) other: u32,
    pub(super) next: u32,
}

/// The rates at which a region's radius changes.
pub(super) const GROWING: i64 = 1;
pub(super) const FROZEN: i64 = 0;
pub(super) const SHRINKING: i64 = -1;

/// Two cache lines: what every event reads, then what trees of more than one region and blossoms need.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Region {
    /// Radius at time zero, had it always changed at the current rate.
    pub(super) origin: i64,
    /// [`GROWING`] (outer in a tree), [`SHRINKING`] (inner in a tree) or [`FROZEN`].
    pub(super) rate: i64,
    pub(super) mate: Link,
    /// The region's tree, or [`NONE`], and its neighbours in the list of that tree's regions.
    pub(super) tree: u32,
    pub(super) tree_next: u32,
    pub(super) tree_prev: u32,
    /// The blossom around the region, or [`NONE`].
    pub(super) parent: u32,
    /// The region's defects, as a list through [`Defect::next`].
    pub(super) head: u32,
    pub(super) tail: u32,
    /// For a blossom, one of its children.
    pub(super) child: u32,
    pub(super) mark: u64,
    /// For an inner region, the link to the outer region before it.
    pub(super) up: Link,
    /// For a child of a blossom, the next child around the cycle and the link to it.
    pub(super) ring_next: u32,
    pub(super) ring: Link,
}

impl Default for Region {
    fn default() -> Self {
        Self::single(NONE, 0)
    }
}

impl Region {
    /// The region of a single defect that starts to grow now: a tree of one.
    pub(super) fn single(i: u32, time: i64) -> Self {
        Self {
            origin: -time,
            rate: GROWING,
            mate: Link::NONE,
            tree: i,
            tree_next: NONE,
            tree_prev: NONE,
            parent: NONE,
            head: i,
            tail: i,
            up: Link::NONE,
            ring_next: NONE,
            ring: Link::NONE,
            child: NONE,
            mark: 0,
        }
    }

    /// Becomes the region of a defect, whatever it was of an earlier one. What only inner regions and children of blossoms have is
    /// written when it becomes one.
    #[inline]
    pub(super) fn begin(&mut self, i: u32, time: i64) {
        let Self { mark, up, ring_next, ring, .. } = *self;
        *self = Self { mark, up, ring_next, ring, ..Self::single(i, time) };
    }

    #[inline]
    pub(super) fn radius(&self, time: i64) -> i64 {
        self.origin + self.rate * time
    }

    /// Changes the rate from now on.
    #[inline]
    pub(super) fn set_rate(&mut self, rate: i64, time: i64) {
        self.origin = self.radius(time) - rate * time;
        self.rate = rate;
    }
}
