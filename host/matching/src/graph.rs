//! The matching graph that decoders use: non-negative integer weights in compressed rows.

use crate::correlated::joint::Joint;
use crate::correlated::rules::{Rule, Rules};
use crate::error::{EdgeName, MatchingGraphError};
use crate::weights::{Grid, discretise};

/// One past the largest detector index. It leaves room for blossoms and marks in 32-bit indices.
pub const MAX_DETECTORS: u32 = 1 << 28;

/// Marks "no node", "no edge" or "no entry": indices stay below [`crate::MAX_DETECTORS`].
pub(crate) const NONE: u32 = u32::MAX;

/// An edge as given to the builder, after merging.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// The smaller end.
    pub u: u32,
    /// The larger end; `None` is the boundary.
    pub v: Option<u32>,
    /// The cost of using the edge.
    pub weight: f64,
    /// The probability that the edge fires, if known.
    pub probability: Option<f64>,
    /// The observables that the edge flips, sorted.
    pub observables: Vec<u32>,
}

impl Edge {
    /// Flips the edge's observables in a set of observables.
    pub(crate) fn flip(&self, observables: &mut [u64]) {
        for &o in &self.observables {
            observables[o as usize / 64] ^= 1 << (o % 64);
        }
    }
}

/// One entry of a node's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighbour {
    /// The other end.
    pub(crate) node: u32,
    /// Grid weight, even, below `2^25`.
    pub(crate) weight: u32,
    /// Index among [`MatchingGraph::edges`].
    pub(crate) edge: u32,
}

/// A graph whose nodes are detectors and whose edges are error mechanisms, ready to be decoded on.
///
/// Negative weights are removed here: such an edge is used from the start (its detectors and observables count as flipped, its
/// weight as spent), and using it again at the opposite price undoes that.
#[derive(Debug, Clone)]
pub struct MatchingGraph {
    edges: Vec<Edge>,
    detectors: usize,
    observables: usize,
    scale: f64,
    rows: Vec<u32>,
    neighbours: Vec<Neighbour>,
    /// Per node: grid weight and index of its edge to the boundary.
    boundary: Vec<Option<(u32, u32)>>,
    /// Which connected part each node is in; `parts[part]` says whether it has a boundary.
    part: Vec<u32>,
    parts: Vec<bool>,
    used: Used,
    rules: Rules,
    silent: Silent,
}

/// The parts of a graph that flip no observable, if the graph is decoded for observables alone. Both lists are empty if each part
/// flips one, and `left_out` is empty if no part is left out.
#[derive(Debug, Clone, Default)]
struct Silent {
    /// Per node, whether its part is left out: its defects are not matched.
    left_out: Vec<bool>,
    /// Per node, whether its part flips no observable, left out or not.
    silent: Vec<bool>,
}

/// The effect of using every edge of negative weight.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    /// Detectors flipped an odd number of times, sorted.
    pub(crate) detectors: Vec<u32>,
    /// The flipped observables.
    pub(crate) observables: Vec<u64>,
    /// Sum of the grid weights: zero or negative.
    pub(crate) weight: i64,
    /// The edges themselves.
    pub(crate) edges: Vec<u32>,
}

impl MatchingGraph {
    pub(crate) fn assemble(
        edges: Vec<Edge>,
        detectors: usize,
        observables: usize,
        joint: &Joint,
        grid: Grid,
    ) -> Result<Self, MatchingGraphError> {
        const LIMIT: u64 = 1 << 30;
        if edges.len() as u64 > LIMIT {
            return Err(MatchingGraphError::TooLarge { what: "the number of edges", limit: LIMIT });
        }
        if detectors as u64 > crate::MAX_DETECTORS as u64 {
            return Err(MatchingGraphError::TooLarge {
                what: "the number of detectors",
                limit: crate::MAX_DETECTORS.into(),
            });
        }
        let implied = joint.implied();
        let weights = edges.iter().map(|e| e.weight).chain(implied.iter().map(|i| i.2));
        let scale = grid.scale(weights);
        let grid: Vec<i64> = edges.iter().map(|e| discretise(e.weight, scale)).collect();
        let used = use_negative(&edges, &grid, detectors, observables);
        let rules = rules(&edges, &grid, &implied, scale)?;
        let mut graph = Self {
            rows: vec![0; detectors + 1],
            neighbours: Vec::new(),
            boundary: vec![None; detectors],
            part: vec![NONE; detectors],
            parts: Vec::new(),
            edges,
            detectors,
            observables,
            scale,
            used,
            rules,
            silent: Silent::default(),
        };
        graph.fill_rows(&grid);
        graph.find_parts();
        Ok(graph)
    }

    fn fill_rows(&mut self, grid: &[i64]) {
        // A loop from a node to itself never helps once its sign is taken out, so it enters no row.
        let pairs = |e: &Edge| e.v.filter(|&v| v != e.u).map(|v| [(e.u, v), (v, e.u)]);
        for edge in &self.edges {
            for (from, _) in pairs(edge).into_iter().flatten() {
                self.rows[from as usize + 1] += 1;
            }
        }
        for i in 0..self.detectors {
            self.rows[i + 1] += self.rows[i];
        }
        let mut at = self.rows.clone();
        self.neighbours =
            vec![Neighbour { node: NONE, weight: 0, edge: NONE }; self.rows[self.detectors] as usize];
        for (index, (edge, &w)) in self.edges.iter().zip(grid).enumerate() {
            let (index, weight) = (index as u32, w.unsigned_abs() as u32);
            for (from, node) in pairs(edge).into_iter().flatten() {
                self.neighbours[at[from as usize] as usize] = Neighbour { node, weight, edge: index };
                at[from as usize] += 1;
            }
            if edge.v.is_none() {
                self.boundary[edge.u as usize] = Some((weight, index));
            }
        }
        // Sorted by the other ends: rounds that are alike then have rows that are alike, whatever the order of the edges.
        for row in self.rows.windows(2) {
            self.neighbours[row[0] as usize..row[1] as usize].sort_unstable_by_key(|nb| nb.node);
        }
    }

    fn find_parts(&mut self) {
        let mut stack = Vec::new();
        for start in 0..self.detectors as u32 {
            if self.part[start as usize] != NONE {
                continue;
            }
            let part = self.parts.len() as u32;
            let mut open = false;
            self.part[start as usize] = part;
            stack.push(start);
            while let Some(u) = stack.pop() {
                open |= self.boundary[u as usize].is_some();
                for n in &self.neighbours[self.row(u)] {
                    if self.part[n.node as usize] == NONE {
                        self.part[n.node as usize] = part;
                        stack.push(n.node);
                    }
                }
            }
            self.parts.push(open);
        }
    }

    /// The range of node `u`'s row in the array of all rows.
    #[inline]
    pub(crate) fn row(&self, u: u32) -> std::ops::Range<usize> {
        self.rows[u as usize] as usize..self.rows[u as usize + 1] as usize
    }

    /// The row of node `u`.
    pub(crate) fn neighbours(&self, u: u32) -> &[Neighbour] {
        &self.neighbours[self.row(u)]
    }

    /// Grid weight and index of the boundary edge of node `u`.
    pub(crate) fn own_boundary(&self, u: u32) -> Option<(u32, u32)> {
        self.boundary[u as usize]
    }

    /// The connected part that holds `u`.
    pub(crate) fn part_of(&self, u: u32) -> u32 {
        self.part[u as usize]
    }

    /// For each connected part, whether it has a boundary.
    pub(crate) fn parts(&self) -> &[bool] {
        &self.parts
    }

    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    /// The rules by which crossing an edge changes the weights of others.
    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// This graph with the given weights in its rows; observables, scale and all else are shared.
    pub(crate) fn with_rows(&self, neighbours: Vec<Neighbour>, boundary: Vec<Option<(u32, u32)>>) -> Self {
        Self { neighbours, boundary, ..self.clone() }
    }

    /// This graph with other correlations: edges with their rules, sorted by edge.
    pub(crate) fn with_rules(mut self, list: Vec<(u32, Rule)>) -> Self {
        let lighter = |rule: &Rule| i64::from(rule.weight) < self.grid_weight(rule.edge as usize);
        let rules = Rules::new(self.edges.len(), list.into_iter().filter(|(_, rule)| lighter(rule)));
        self.rules = rules;
        self
    }

    /// This graph for decoders that want the observables alone. A part without an edge that flips an observable is silent. A
    /// silent part is left out, unless `correlations` count and crossing its edges lowers the weights of edges of other parts;
    /// rules about the edges of silent parts are dropped. If no part flips an observable, all stay.
    pub(crate) fn for_observables(mut self, correlations: bool) -> Self {
        let mut speaks = vec![false; self.parts.len()];
        for edge in self.edges.iter().filter(|edge| !edge.observables.is_empty()) {
            speaks[self.part_of(edge.u) as usize] = true;
        }
        let part_of = |edge: u32| self.part_of(self.edges[edge as usize].u) as usize;
        let rules = self.rules.only(self.edges.len(), |rule| correlations && speaks[part_of(rule.edge)]);
        let mut needed = speaks.clone();
        for edge in (0..self.edges.len() as u32).filter(|&edge| !rules.of(edge).is_empty()) {
            needed[part_of(edge)] = true;
        }
        if speaks.iter().all(|&speaks| speaks) || !speaks.contains(&true) {
            return self;
        }
        self.rules = rules;
        let per_node =
            |parts: &[bool]| self.part.iter().map(|&part| !parts[part as usize]).collect::<Vec<_>>();
        let (silent, left_out) = (per_node(&speaks), per_node(&needed));
        let mut kept = Vec::with_capacity(self.neighbours.len());
        let mut rows = vec![0; self.detectors + 1];
        for (u, &left_out) in left_out.iter().enumerate() {
            if left_out {
                self.boundary[u] = None;
            } else {
                kept.extend_from_slice(self.neighbours(u as u32));
            }
            rows[u + 1] = kept.len() as u32;
        }
        (self.neighbours, self.rows) = (kept, rows);
        let start = |edge: u32| self.edges[edge as usize].u as usize;
        let Used { detectors, edges, weight, .. } = &mut self.used;
        detectors.retain(|&u| !left_out[u as usize]);
        // A silent part's edges of negative weight count as crossed for a second pass, and cost nothing.
        edges.retain(|&edge| !left_out[start(edge)]);
        *weight = edges
            .iter()
            .filter(|&&edge| !silent[start(edge)])
            .map(|&edge| discretise(self.edges[edge as usize].weight, self.scale))
            .sum();
        self.silent.left_out = if left_out.contains(&true) { left_out } else { Vec::new() };
        self.silent.silent = silent;
        self
    }

    /// Whether the defects of any node are not matched.
    #[inline]
    pub(crate) fn leaves_any_out(&self) -> bool {
        !self.silent.left_out.is_empty()
    }

    /// Whether the defects of node `u` are not matched.
    #[inline]
    pub(crate) fn leaves_out(&self, u: u32) -> bool {
        self.silent.left_out.get(u as usize).is_some_and(|&left_out| left_out)
    }

    /// Whether any part is silent.
    #[inline]
    pub(crate) fn has_silent_parts(&self) -> bool {
        !self.silent.silent.is_empty()
    }

    /// Whether node `u` is in a silent part, whose pairs flip no observable and belong to no solution.
    #[inline]
    pub(crate) fn is_silent(&self, u: u32) -> bool {
        self.silent.silent.get(u as usize).is_some_and(|&silent| silent)
    }

    /// The number of 64-bit words that hold the observables, at least one.
    pub(crate) fn observable_words(&self) -> usize {
        self.observables.div_ceil(64).max(1)
    }

    /// The number of detectors.
    pub fn num_detectors(&self) -> usize {
        self.detectors
    }

    /// The number of observables.
    pub fn num_observables(&self) -> usize {
        self.observables
    }

    /// The number of edges after merging.
    pub fn num_edges(&self) -> usize {
        self.edges.len()
    }

    /// The edges after merging, in the order in which they were first added.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The number of ordered pairs of edges such that crossing the first makes the second likelier: see
    /// [`GraphBuilder::error`](crate::GraphBuilder::error).
    pub fn num_correlations(&self) -> usize {
        self.rules.len()
    }

    /// The factor of weights before rounding: 1, or the factor that takes the largest weight to `2^24 - 1`. The largest weight
    /// includes those that correlations imply and that of [`GraphBuilder::room_for`](crate::GraphBuilder::room_for).
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The weight of an edge on the integer grid: even, and negative where the edge's is.
    ///
    /// # Panics
    /// If there is no such edge.
    pub fn grid_weight(&self, edge: usize) -> i64 {
        discretise(self.edges[edge].weight, self.scale)
    }
}

fn use_negative(edges: &[Edge], grid: &[i64], detectors: usize, observables: usize) -> Used {
    let mut used = Used { observables: vec![0; observables.div_ceil(64).max(1)], ..Used::default() };
    let mut odd = vec![false; detectors];
    for (index, (edge, &w)) in edges.iter().zip(grid).enumerate() {
        if w >= 0 {
            continue;
        }
        used.weight += w;
        used.edges.push(index as u32);
        odd[edge.u as usize] ^= true;
        if let Some(v) = edge.v {
            odd[v as usize] ^= true;
        }
        edge.flip(&mut used.observables);
    }
    used.detectors = (0..detectors as u32).filter(|&i| odd[i as usize]).collect();
    used
}

/// Puts implied weights on the grid, and keeps those that are below the edge's own weight.
fn rules(
    edges: &[Edge],
    grid: &[i64],
    implied: &[(u32, u32, f64)],
    scale: f64,
) -> Result<Rules, MatchingGraphError> {
    if let Some(&(_, edge, _)) = implied.iter().find(|&&(_, edge, _)| grid[edge as usize] < 0) {
        let Edge { u, v, .. } = edges[edge as usize];
        return Err(MatchingGraphError::CorrelatedNegative { edge: EdgeName { u, v } });
    }
    let rules = implied
        .iter()
        .map(|&(given, edge, weight)| (given, Rule { edge, weight: discretise(weight, scale) as u32 }));
    Ok(Rules::new(edges.len(), rules.filter(|(_, rule)| i64::from(rule.weight) < grid[rule.edge as usize])))
}

#[cfg(test)]
mod tests {
    use crate::GraphBuilder;

    #[test]
    fn negative_edges_are_used_up_front() {
        let mut b = GraphBuilder::new();
        b.edge(0, 1, -2.0, &[0]).unwrap().edge(1, 2, -1.0, &[1, 70]).unwrap();
        b.edge(2, 2, -3.0, &[2]).unwrap().boundary_edge(2, 1.0, &[]).unwrap();
        let g = b.build().unwrap();
        let used = g.used();
        assert_eq!(used.detectors, [0, 2]);
        assert_eq!(used.observables, [0b111, 1 << 6]);
        assert_eq!(used.weight, -12);
        assert_eq!(g.neighbours(2).len(), 1, "a loop enters no row");
        assert_eq!(g.neighbours(0)[0].weight, 4);
    }

    #[test]
    fn parts_know_their_boundary() {
        let mut b = GraphBuilder::new();
        b.edge(0, 1, 1.0, &[]).unwrap().edge(2, 3, 1.0, &[]).unwrap().boundary_edge(3, 1.0, &[]).unwrap();
        b.ensure_detectors(5);
        let g = b.build().unwrap();
        assert_eq!(g.parts(), [false, true, false]);
        assert_eq!((g.part_of(1), g.part_of(2), g.part_of(4)), (0, 1, 2));
    }
}
