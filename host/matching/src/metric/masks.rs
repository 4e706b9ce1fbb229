//! Numbers for the sets of observables that paths flip.
//!
//! Few different sets occur along the paths of a code (two, for one observable), so distance tables hold small ids, and the sets
//! themselves, of any width, are stored once.

use std::collections::HashMap;

use crate::graph::MatchingGraph;
use crate::integers::IntegerState;

/// One past the largest id: ids are stored in 16 bits.
const LIMIT: usize = 1 << 16;
/// Most words spent on sets. With an observable per edge nearly every path has its own set, and walking the few paths that are
/// used costs less than keeping all sets.
const LIMIT_WORDS: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(crate) struct MaskTable {
    words: usize,
    masks: Vec<u64>,
    ids: HashMap<Box<[u64]>, u32>,
    /// Per edge, the id of its own set, or `None` if ids had run out.
    edges: Vec<Option<u32>>,
    /// Ids of symmetric differences found so far.
    sums: HashMap<(u32, u32), u32, IntegerState>,
}

impl MaskTable {
    pub(crate) fn new(graph: &MatchingGraph) -> Self {
        let words = graph.observable_words();
        let mut table = Self {
            words,
            masks: Vec::new(),
            ids: HashMap::new(),
            edges: Vec::with_capacity(graph.num_edges()),
            sums: HashMap::default(),
        };
        let mut set = vec![0; words];
        table.id(&set);
        for edge in graph.edges() {
            set.fill(0);
            for &o in &edge.observables {
                set[o as usize / 64] |= 1 << (o % 64);
            }
            let id = table.id(&set);
            table.edges.push(id);
        }
        table
    }

    fn id(&mut self, set: &[u64]) -> Option<u32> {
        if let Some(&id) = self.ids.get(set) {
            return Some(id);
        }
        let id = self.ids.len();
        if id >= LIMIT || self.masks.len() + self.words > LIMIT_WORDS {
            return None;
        }
        self.ids.insert(set.into(), id as u32);
        self.masks.extend_from_slice(set);
        Some(id as u32)
    }

    /// The id of `mask` combined with an edge's set; `None` if ids have run out.
    pub(crate) fn extend(&mut self, mask: u32, edge: u32) -> Option<u32> {
        let step = self.edges[edge as usize]?;
        if step == 0 {
            return Some(mask);
        }
        if mask == 0 {
            return Some(step);
        }
        if let Some(&id) = self.sums.get(&(mask, step)) {
            return Some(id);
        }
        let set: Vec<u64> = self.set(mask).iter().zip(self.set(step)).map(|(a, b)| a ^ b).collect();
        let id = self.id(&set)?;
        self.sums.insert((mask, step), id);
        Some(id)
    }

    /// The id of the set of an edge alone; `None` if ids had run out.
    pub(crate) fn of_edge(&self, edge: u32) -> Option<u32> {
        self.edges[edge as usize]
    }

    /// Frees the memory that only construction needs.
    pub(crate) fn seal(&mut self) {
        self.ids = HashMap::new();
        self.sums = HashMap::default();
        self.edges = Vec::new();
    }

    #[inline]
    pub(crate) fn set(&self, id: u32) -> &[u64] {
        &self.masks[id as usize * self.words..][..self.words]
    }

    /// Flips the observables of `id` in `out`.
    #[inline]
    pub(crate) fn xor_into(&self, id: u32, out: &mut [u64]) {
        if self.words == 1 {
            out[0] ^= self.masks[id as usize];
        } else {
            for (o, m) in out.iter_mut().zip(self.set(id)) {
                *o ^= m;
            }
        }
    }
}
