//! Runs without end in two passes: each window is matched as a whole, and pairs far enough back are decided.
//!
//! A window begins with a context, defects that are decided already. They are matched again with the others: their first pass
//! lowers weights beside them, and their regions are where those of a whole run are. What comes out of it is used for pairs of
//! undecided defects alone. Where an undecided defect would be matched with a decided one, the window contradicts what was decided; then
//! it is matched once more without the context, and that is counted.

use std::sync::Arc;

use super::decided::Decided;
use super::pane::Pane;
use super::{EndlessConfig, Shape};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{End, Layers, check};
use crate::solution::MatchedPair;

/// A defect of the window.
#[derive(Debug, Clone, Copy)]
struct Open {
    layer: u32,
    position: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Undecided,
    /// Decided, with a partner in this layer, or with the boundary.
    Decided(Option<u32>),
}

/// The tables that decoders of one experiment share.
#[derive(Debug)]
struct Plan {
    layers: Layers,
    context: usize,
    margin: usize,
    /// Layers of a window in the middle that are filled before the window moves on.
    full: usize,
    scale: f64,
}

/// The state of a run that is matched twice: see [`EndlessDecoder`](super::EndlessDecoder).
#[derive(Debug)]
pub(super) struct Correlated {
    plan: Arc<Plan>,
    /// The windows of a run's first rounds, of the rounds between, and of the last rounds.
    first: Pane,
    middle: Pane,
    last: Pane,
    /// The number of rounds given, and the first round of the window.
    given: usize,
    start: usize,
    /// The defects of the window, by layer and position.
    open: Vec<Open>,
    /// The decoded nodes, and the index of each in `open`.
    nodes: Vec<u32>,
    which: Vec<u32>,
    decided: Decided,
    /// The same of the last run that ended.
    last_run: Decided,
}

/// Clones share the tables and begin their own runs.
impl Clone for Correlated {
    fn clone(&self) -> Self {
        Self::on(Arc::clone(&self.plan), self.first.clone(), self.middle.clone(), self.last.clone())
    }
}

impl Correlated {
    pub(super) fn new(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: &EndlessConfig,
    ) -> Result<Self, SlidingError> {
        let Shape { layers, context, .. } = Shape::new(graph, rounds, Layers::of(graph, rounds, true)?)?;
        let margin = if config.margin == 0 { (3 * context).div_ceil(2).max(4) } else { config.margin };
        // It moves on by about twice as many rounds as the context has, so that each round is matched hardly more than twice.
        let full = context.saturating_mul(3).saturating_add(margin);
        let longest = full.saturating_add(layers.head().max(layers.tail()));
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window: full, commit: margin });
        }
        let pane = |window| Pane::new(window, config.near_entries);
        let first = pane(layers.window(0, full + layers.head(), End::Boundary)?)?;
        let middle = pane(layers.window(layers.head(), full, End::Boundary)?)?;
        let last = pane(layers.last_window(full)?)?;
        let scale = graph.scale();
        Ok(Self::on(Arc::new(Plan { layers, context, margin, full, scale }), first, middle, last))
    }

    fn on(plan: Arc<Plan>, first: Pane, middle: Pane, last: Pane) -> Self {
        let n =
            [&first, &middle, &last].map(|pane| pane.places.layer_of.len()).into_iter().max().unwrap_or(0);
        let words = first.decoder.graph().observable_words();
        Self {
            plan,
            first,
            middle,
            last,
            given: 0,
            start: 0,
            open: Vec::with_capacity(n),
            nodes: Vec::with_capacity(n),
            which: Vec::with_capacity(n),
            decided: Decided::nothing(words),
            last_run: Decided::nothing(words),
        }
    }

    pub(super) fn tail_rounds(&self) -> usize {
        self.plan.layers.tail()
    }

    pub(super) fn least_rounds(&self) -> usize {
        let plan = &*self.plan;
        plan.layers.head() + plan.full + plan.layers.tail()
    }

    pub(super) fn detectors(&self, t: usize) -> u32 {
        self.plan.layers.detectors(t)
    }

    pub(super) fn progress(&self) -> (usize, usize) {
        (self.given, self.start)
    }

    pub(super) fn margin(&self) -> usize {
        self.plan.margin
    }

    pub(super) fn observables(&self) -> &[u64] {
        &self.decided.observables
    }

    pub(super) fn weight(&self) -> f64 {
        self.latest().weight(self.plan.scale)
    }

    pub(super) fn forced(&self) -> u64 {
        self.latest().forced
    }

    pub(super) fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        // Threads share the plan: nothing of it is borrowed for longer, and no reference to it is counted.
        let plan = &*self.plan;
        check(defects, plan.layers.detectors(self.given), self.given)?;
        let head = if self.start == 0 { plan.layers.head() } else { 0 };
        let (full, context, decided) = (plan.full + head, plan.context, plan.full + head - plan.margin);
        self.add((self.given - self.start) as u32, defects);
        self.given += 1;
        if self.given - self.start < full {
            return Ok(false);
        }
        // In the first window, so that no round of the head is left; in others, so that the window moves on.
        let oldest = (head.max(1) + context) as u32;
        let margin = decided as u32;
        self.decide(|run| if run.start == 0 { &mut run.first } else { &mut run.middle }, 0, margin, oldest);
        let left = self.oldest_undecided(margin);
        self.move_on(left - context as u32);
        Ok(true)
    }

    /// The oldest layer with an undecided defect, at most `newest`.
    fn oldest_undecided(&self, newest: u32) -> u32 {
        let undecided = self.open.iter().filter(|open| open.state == State::Undecided);
        undecided.map(|open| open.layer).fold(newest, u32::min)
    }

    pub(super) fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        self.plan.layers.check_tail(tail, self.given, self.least_rounds())?;
        if self.start > 0 {
            // No later window needs what is decided here to be consistent: half of the context is enough.
            let left = self.oldest_undecided((self.given - self.start) as u32);
            self.move_on(left.saturating_sub(self.plan.context.div_ceil(2) as u32));
        }
        let filled = self.given - self.start;
        for (layer, defects) in (filled as u32..).zip(tail) {
            self.add(layer, defects);
        }
        self.decide(|run| &mut run.last, self.plan.full - filled, u32::MAX, 0);
        self.last_run.copy_from(&self.decided);
        self.restart();
        Ok(&self.last_run.observables)
    }

    pub(super) fn rehearse(&mut self) {
        let filled = self.given - self.start;
        if self.start > 0 && filled <= self.plan.full {
            self.solve(|run| &mut run.last, self.plan.full - filled, true);
        }
    }

    /// What is decided of this run, or of the last one until a round of the next comes.
    fn latest(&self) -> &Decided {
        if self.given == 0 { &self.last_run } else { &self.decided }
    }

    pub(super) fn restart(&mut self) {
        (self.given, self.start) = (0, 0);
        self.open.clear();
        self.decided.clear();
    }

    fn add(&mut self, layer: u32, defects: &[u32]) {
        self.open.extend(defects.iter().map(|&position| Open { layer, position, state: State::Undecided }));
    }

    /// Matches the window, in whose graph its layers stand `later` layers later, and decides what undecided pairs have no defect in layer
    /// `margin` or a later one. Pairs with a defect before layer `oldest` are decided by force.
    fn decide(&mut self, pane: impl Fn(&mut Self) -> &mut Pane, later: usize, margin: u32, oldest: u32) {
        if !self.solve(&pane, later, true) {
            self.decided.forced += 1;
            self.solve(&pane, later, false);
        }
        let (nodes, which) = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.which));
        let mut open = std::mem::take(&mut self.open);
        let mut observables = std::mem::take(&mut self.decided.observables);
        let index = |node: u32| nodes.binary_search(&node).map_or(usize::MAX, |at| which[at] as usize);
        let mut late = false;
        let Pane { decoder, .. } = pane(self);
        let mut weight = 0;
        for old in [false, true] {
            let wanted = |MatchedPair { a, b }: MatchedPair| {
                let a = open[index(a)];
                let b = b.map_or(a, |b| open[index(b)]);
                // No decided defect is matched with an undecided one.
                let is_old = a.layer.max(b.layer) >= margin;
                a.state == State::Undecided && is_old == old && (!old || a.layer.min(b.layer) < oldest)
            };
            weight += decoder.part(wanted, &mut observables);
            late |= old && decoder.pairs().iter().any(|&pair| wanted(pair));
        }
        for &MatchedPair { a, b } in decoder.pairs() {
            let (i, j) = (index(a), b.map(index));
            let (a, b) = (open[i], j.map(|j| open[j]));
            let other = b.map_or(a.layer, |b| b.layer);
            let decided = a.layer.max(other) < margin || a.layer.min(other) < oldest;
            if decided && a.state == State::Undecided {
                open[i].state = State::Decided(b.map(|b| b.layer));
                if let Some(j) = j {
                    open[j].state = State::Decided(Some(a.layer));
                }
            }
        }
        self.decided.grid_weight += weight;
        self.decided.forced += u64::from(late);
        self.decided.observables = observables;
        (self.nodes, self.which, self.open) = (nodes, which, open);
    }

    /// Matches the defects of the window, or those that are undecided. `false` if one of those is matched with a decided one.
    fn solve(&mut self, pane: impl Fn(&mut Self) -> &mut Pane, later: usize, context: bool) -> bool {
        let (mut nodes, mut which) = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.which));
        let open = std::mem::take(&mut self.open);
        nodes.clear();
        which.clear();
        let Pane { decoder, places } = pane(self);
        for (i, open) in (0..).zip(&open) {
            if context || open.state == State::Undecided {
                nodes.push(places.bases[open.layer as usize + later] + open.position);
                which.push(i);
            }
        }
        let solved = decoder.decode(&nodes).is_ok();
        debug_assert!(solved, "every part has a boundary");
        let undecided = |node: u32| {
            nodes.binary_search(&node).is_ok_and(|at| open[which[at] as usize].state == State::Undecided)
        };
        let agrees =
            decoder.pairs().iter().all(|pair| pair.b.is_none_or(|b| undecided(pair.a) == undecided(b)));
        (self.nodes, self.which, self.open) = (nodes, which, open);
        agrees
    }

    /// Moves the window on by `layers` layers. Decided defects before its new beginning leave it, with their partners.
    fn move_on(&mut self, layers: u32) {
        self.open.retain_mut(|open| {
            let stays = match &mut open.state {
                State::Undecided | State::Decided(None) => true,
                State::Decided(Some(partner)) => {
                    let stays = *partner >= layers;
                    *partner = partner.saturating_sub(layers);
                    stays
                }
            };
            let stays = stays && open.layer >= layers;
            open.layer = open.layer.saturating_sub(layers);
            stays
        });
        self.start += layers as usize;
    }
}
