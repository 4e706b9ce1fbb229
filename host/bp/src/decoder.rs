//! The decoder: legs of iterations, convergence, and the lightest solution.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::{BpConfig, leg_key};
use crate::error::BpError;
use crate::graph::BpGraph;
use crate::iterate::{self, Columns};
use crate::layout::{LANES, Lanes};
use crate::ordered::Ordered;

/// The result of a decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a decode that did not converge has a best guess only"]
pub struct BpOutcome {
    /// Whether the error found explains the defects. If not, error and observables are those of the last iteration.
    pub converged: bool,
    /// The number of legs that converged; 0 if ordered statistics alone found the error.
    pub solutions: u32,
    /// Iterations of all legs together.
    pub iterations: u32,
    /// The sum of the priors of the error's columns.
    pub weight: u32,
    /// Whether the caller ended the decode early.
    pub cancelled: bool,
}

impl BpOutcome {
    const NONE: Self = Self { converged: false, solutions: 0, iterations: 0, weight: 0, cancelled: false };
}

/// Decodes on a graph. The decoder is `Send`; each thread has its own, and all share the graph's tables.
///
/// ```
/// use ringcall_bp::{BpConfig, BpDecoder, BpGraphBuilder};
///
/// let mut builder = BpGraphBuilder::new(2, 1);
/// builder.error(0.01, &[0], &[0])?.error(0.01, &[0, 1], &[])?.error(0.01, &[1], &[])?;
/// let graph = builder.build()?;
///
/// let mut decoder = BpDecoder::new(&graph, &BpConfig::relay())?;
/// let mut observables = [0];
/// let outcome = decoder.decode(&[0], &mut observables)?;
/// assert!(outcome.converged);
/// assert_eq!(decoder.error(), [0]);
/// assert_eq!(observables, [0b1]);
/// # Ok::<(), ringcall_bp::BpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct BpDecoder {
    graph: BpGraph,
    config: BpConfig,
    /// -1 at the position of each check that fired.
    fired: Vec<Lanes<i8>>,
    /// Bits of the checks that fired.
    syndrome: Vec<u64>,
    /// Bits of the checks that the decisions do not explain.
    unexplained: Vec<u64>,
    to_checks: Vec<Lanes<i8>>,
    from_checks: Vec<Lanes<i8>>,
    priors: Vec<Lanes<i16>>,
    memory: Vec<Lanes<i16>>,
    marginals: Vec<Lanes<i16>>,
    decisions: Vec<Lanes<u8>>,
    /// Decisions that `unexplained` takes into account.
    counted: Vec<Lanes<u8>>,
    /// Decisions of the lightest solution.
    best: Vec<Lanes<u8>>,
    incoming: Vec<Lanes<i8>>,
    outgoing: Vec<Lanes<i8>>,
    /// Marginals and decisions of the leading lane; empty without a race.
    lead: (Vec<Lanes<i16>>, Vec<Lanes<u8>>),
    /// Priors as messages, with which a leg starts.
    first_messages: Vec<Lanes<i8>>,
    /// Marginals by column.
    by_column: Vec<i16>,
    /// Columns of the error found.
    error: Vec<u32>,
    /// Ordered statistics, for decodes that did not converge.
    ordered: Option<Ordered>,
}

impl BpDecoder {
    /// Makes a decoder on a graph and allocates all memory that decoding needs.
    ///
    /// # Errors
    /// [`BpError::Config`] for a value that is not supported, [`BpError::TooLarge`] for ordered statistics of more than
    /// [`MAX_ORDERED_CHECKS`](crate::MAX_ORDERED_CHECKS) checks.
    pub fn new(graph: &BpGraph, config: &BpConfig) -> Result<Self, BpError> {
        let config = config.checked()?;
        let layout = &graph.tables.layout;
        let (blocks, rows) = (layout.column_blocks(), layout.slots.len());
        let mut priors = vec![[1i16; LANES]; blocks];
        for (prior, &column) in priors.as_flattened_mut().iter_mut().zip(&layout.column_at) {
            if column != u32::MAX {
                *prior = graph.tables.priors[column as usize].into();
            }
        }
        let mut first_messages = Vec::with_capacity(rows);
        let mut block = 0;
        for group in &layout.groups {
            for priors in &priors[block..block + group.blocks] {
                first_messages.extend(core::iter::repeat_n(priors.map(|prior| prior as i8), group.degree));
            }
            block += group.blocks;
        }
        Ok(Self {
            fired: vec![[0; LANES]; layout.depths.len()],
            syndrome: vec![0; graph.num_checks().div_ceil(64)],
            unexplained: vec![0; graph.num_checks().div_ceil(64)],
            // Slots without a column keep the largest message, which changes no minimum and no sign.
            to_checks: vec![[127; LANES]; layout.rows],
            from_checks: vec![[0; LANES]; layout.rows],
            memory: vec![[0; LANES]; blocks],
            lead: if config.lanes > 1 {
                (priors.clone(), vec![[0; LANES]; blocks])
            } else {
                (Vec::new(), Vec::new())
            },
            marginals: priors.clone(),
            priors,
            decisions: vec![[0; LANES]; blocks],
            counted: vec![[0; LANES]; blocks],
            best: vec![[0; LANES]; blocks],
            incoming: vec![[0; LANES]; rows],
            outgoing: vec![[0; LANES]; rows],
            first_messages,
            by_column: graph.priors().iter().map(|&prior| prior.into()).collect(),
            error: Vec::with_capacity(graph.num_columns()),
            ordered: config.ordered_statistics.map(|order| Ordered::new(graph, order)).transpose()?,
            graph: graph.clone(),
            config,
        })
    }

    /// The graph.
    pub fn graph(&self) -> &BpGraph {
        &self.graph
    }

    /// The configuration.
    pub fn config(&self) -> &BpConfig {
        &self.config
    }

    /// Decodes the checks that fired, each listed once in any order. Sets bit `i % 8` of byte `i / 8` of `observables` if
    /// the error found flips observable `i`, and clears it if not.
    ///
    /// # Errors
    /// A defect that is out of range or listed twice, or a buffer whose length is not
    /// [`BpGraph::observable_bytes`]. A request that is refused changes nothing.
    pub fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<BpOutcome, BpError> {
        self.decode_while(defects, observables, || true)
    }

    /// Decodes like [`decode`](Self::decode) while `go_on` returns true. The decoder calls `go_on` before each iteration and
    /// before each step of ordered statistics, so it can check a deadline or a flag that another thread sets.
    ///
    /// # Errors
    /// Those of [`decode`](Self::decode).
    pub fn decode_while(
        &mut self,
        defects: &[u32],
        observables: &mut [u8],
        mut go_on: impl FnMut() -> bool,
    ) -> Result<BpOutcome, BpError> {
        if observables.len() != self.graph.observable_bytes() {
            let expected = self.graph.observable_bytes();
            return Err(BpError::ObservablesLength { found: observables.len(), expected });
        }
        let explicable = self.load(defects)?;
        let mut outcome = BpOutcome::NONE;
        self.restart();
        if explicable {
            outcome = self.run_lane(0, self.config.max_iterations, &mut go_on);
            if self.config.lanes > 1 && !self.is_settled(&outcome) {
                self.race(&mut outcome, &mut go_on);
            }
        } else {
            self.best.as_flattened_mut().fill(0);
        }
        self.read_out(observables);
        if explicable && !outcome.converged && !outcome.cancelled {
            self.order_statistics(&mut outcome, observables, &mut go_on);
        }
        Ok(outcome)
    }

    /// The columns of the error that the last decode found, in ascending order.
    pub fn error(&self) -> &[u32] {
        &self.error
    }

    /// The marginals of all columns after the last iteration, in the unit of the priors (eighths of a nat, -511 to 511): negative
    /// if an error is likelier than not. After a decode without iterations the marginals are the priors.
    pub fn marginals(&self) -> &[i16] {
        &self.by_column
    }

    /// Loads a syndrome. Returns whether every defect has a column.
    fn load(&mut self, defects: &[u32]) -> Result<bool, BpError> {
        let tables = &self.graph.tables;
        self.syndrome.fill(0);
        for &defect in defects {
            if defect >= tables.checks {
                return Err(BpError::CheckOutOfRange { check: defect, checks: tables.checks });
            }
            let (word, bit) = (defect as usize / 64, 1 << (defect % 64));
            if self.syndrome[word] & bit != 0 {
                return Err(BpError::DuplicateDefect { defect });
            }
            self.syndrome[word] |= bit;
        }
        self.fired.as_flattened_mut().fill(0);
        let mut explicable = true;
        for &defect in defects {
            let position = tables.layout.position_of_check[defect as usize];
            self.fired.as_flattened_mut()[position as usize] = -1;
            explicable &= tables.check_degrees[defect as usize] > 0;
        }
        Ok(explicable)
    }

    /// Resets the state for the start of a lane.
    fn restart(&mut self) {
        self.unexplained.copy_from_slice(&self.syndrome);
        self.marginals.copy_from_slice(&self.priors);
        self.decisions.as_flattened_mut().fill(0);
        self.counted.as_flattened_mut().fill(0);
    }

    /// Whether a lane found as many solutions as the configuration asks for.
    fn has_finished(&self, outcome: &BpOutcome) -> bool {
        outcome.converged && (outcome.solutions == self.config.solutions || outcome.weight == 0)
    }

    /// Whether no other lane can win: lane 0 finished before the other lanes count, or the caller ended the decode.
    fn is_settled(&self, outcome: &BpOutcome) -> bool {
        outcome.cancelled || (self.has_finished(outcome) && outcome.iterations <= self.config.lane_delay + 1)
    }

    /// Runs the lanes after lane 0, whose outcome is `winner`, and keeps the winner's.
    fn race(&mut self, winner: &mut BpOutcome, go_on: &mut impl FnMut() -> bool) {
        let mut limit =
            if self.has_finished(winner) { winner.iterations - 1 } else { self.config.max_iterations };
        self.keep_lead();
        for lane in 1..self.config.lanes {
            self.restart();
            let outcome = self.run_lane(lane, limit, go_on);
            if outcome.cancelled {
                winner.cancelled = true;
                break;
            }
            if self.has_finished(&outcome) {
                *winner = outcome;
                limit = outcome.iterations - 1;
                self.keep_lead();
            }
        }
        self.marginals.copy_from_slice(&self.lead.0);
        self.best.copy_from_slice(&self.lead.1);
    }

    fn keep_lead(&mut self) {
        self.lead.0.copy_from_slice(&self.marginals);
        self.lead.1.copy_from_slice(&self.best);
    }

    /// Runs the legs of a lane, and leaves its error in `best`.
    fn run_lane(&mut self, lane: u32, limit: u32, go_on: &mut impl FnMut() -> bool) -> BpOutcome {
        let mut outcome = BpOutcome::NONE;
        outcome.iterations = if lane == 0 { 0 } else { self.config.lane_delay };
        self.run_legs(lane, limit, &mut outcome, go_on);
        if !outcome.converged {
            self.best.copy_from_slice(&self.decisions);
            outcome.weight = weight(&self.best, &self.priors);
        }
        outcome
    }

    fn run_legs(&mut self, lane: u32, limit: u32, outcome: &mut BpOutcome, go_on: &mut impl FnMut() -> bool) {
        for leg in 0..=self.config.legs {
            self.begin_leg(lane, leg);
            let iterations = if leg == 0 { self.config.first_iterations } else { self.config.leg_iterations };
            for _ in 0..iterations {
                if outcome.iterations >= limit {
                    return;
                }
                if !go_on() {
                    outcome.cancelled = true;
                    return;
                }
                outcome.iterations += 1;
                self.iterate();
                if self.explains() {
                    outcome.solutions += 1;
                    let weight = weight(&self.decisions, &self.priors);
                    if !outcome.converged || weight < outcome.weight {
                        outcome.converged = true;
                        outcome.weight = weight;
                        self.best.copy_from_slice(&self.decisions);
                    }
                    // No error is lighter than the empty one.
                    if outcome.solutions == self.config.solutions || outcome.weight == 0 {
                        return;
                    }
                    break;
                }
            }
        }
    }

    /// Draws memory strengths and resets messages; marginals stay.
    fn begin_leg(&mut self, lane: u32, leg: u32) {
        if lane == 0 && leg == 0 {
            self.memory.as_flattened_mut().fill(self.config.first_memory);
        } else {
            let key = leg_key(self.config.seed.wrapping_add(lane), leg);
            let columns = &self.graph.tables.layout.column_at;
            for (memory, &column) in self.memory.as_flattened_mut().iter_mut().zip(columns) {
                *memory = self.config.drawn(key, column);
            }
        }
        self.outgoing.copy_from_slice(&self.first_messages);
        iterate::scatter(&self.graph.tables.layout.slots, &self.outgoing, &mut self.to_checks);
    }

    fn iterate(&mut self) {
        let layout = &self.graph.tables.layout;
        iterate::checks(&layout.depths, &self.fired, &self.to_checks, &mut self.from_checks);
        iterate::gather(&layout.slots, &self.from_checks, &mut self.incoming);
        let columns = Columns {
            priors: &self.priors,
            memory: &self.memory,
            marginals: &mut self.marginals,
            decisions: &mut self.decisions,
            incoming: &self.incoming,
            outgoing: &mut self.outgoing,
        };
        iterate::columns(&layout.groups, columns, self.config.damping);
        iterate::scatter(&layout.slots, &self.outgoing, &mut self.to_checks);
    }

    /// Whether the decisions explain the defects. Few decisions change in an iteration, so only the checks of changed columns are
    /// toggled.
    fn explains(&mut self) -> bool {
        let tables = &self.graph.tables;
        for (block, (now, before)) in self.decisions.iter().zip(&mut self.counted).enumerate() {
            if now == before {
                continue;
            }
            for lane in (0..LANES).filter(|&lane| now[lane] != before[lane]) {
                let column = tables.layout.column_at[block * LANES + lane];
                for &check in tables.column_checks.get(column as usize) {
                    self.unexplained[check as usize / 64] ^= 1 << (check % 64);
                }
            }
            *before = *now;
        }
        self.unexplained.iter().all(|&word| word == 0)
    }

    /// Runs ordered statistics, if the configuration has them. If no error explains the defects, the outcome stays.
    fn order_statistics(
        &mut self,
        outcome: &mut BpOutcome,
        observables: &mut [u8],
        go_on: &mut impl FnMut() -> bool,
    ) {
        let tables = &self.graph.tables;
        let Some(ordered) = &mut self.ordered else { return };
        let found = ordered.solve(tables, &self.syndrome, &self.by_column, go_on);
        let explained = found.is_some();
        if let Some(found) = found {
            self.error.clear();
            self.error.extend_from_slice(found);
        }
        outcome.cancelled = ordered.was_cut();
        if !explained {
            return;
        }
        self.error.sort_unstable();
        outcome.converged = true;
        outcome.weight = self.error.iter().map(|&column| u32::from(tables.priors[column as usize])).sum();
        observables.fill(0);
        for &column in &self.error {
            for &observable in tables.column_observables.get(column as usize) {
                observables[observable as usize / 8] ^= 1 << (observable % 8);
            }
        }
    }

    /// Lists the best error's columns, the observables that they flip, and the marginals.
    fn read_out(&mut self, observables: &mut [u8]) {
        let tables = &self.graph.tables;
        self.error.clear();
        observables.fill(0);
        let columns = tables.layout.column_at.iter().zip(self.marginals.as_flattened());
        for ((&column, &marginal), &wrong) in columns.zip(self.best.as_flattened()) {
            if column == u32::MAX {
                continue;
            }
            self.by_column[column as usize] = marginal;
            if wrong != 0 {
                self.error.push(column);
                for &observable in tables.column_observables.get(column as usize) {
                    observables[observable as usize / 8] ^= 1 << (observable % 8);
                }
            }
        }
        self.error.sort_unstable();
    }
}

/// The sum of the priors of the decided columns.
fn weight(decisions: &[Lanes<u8>], priors: &[Lanes<i16>]) -> u32 {
    let pairs = decisions.as_flattened().iter().zip(priors.as_flattened());
    pairs.map(|(&wrong, &prior)| u32::from(wrong) * prior as u32).sum()
}
