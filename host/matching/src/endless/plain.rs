//! Runs without end in one pass: the matching of the last rounds goes on with further ones, as soon as they have enough defects.

use std::sync::Arc;

use super::{EndlessConfig, Shape};
use crate::blossom::{Blossom, Tables};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{End, Layers, Window, check};
use crate::metric::{FAR, Metric};
use crate::readout::Answer;
use crate::rounds::Rounds;

/// The state of a run that is matched once: see [`Plain`](super::EndlessDecoder).
#[derive(Debug)]
pub(super) struct Plain {
    plan: Arc<Plan>,
    state: State,
}

/// What changes with every round. It is apart from the plan so that no round counts references to that, which threads share.
#[derive(Debug)]
struct State {
    blossom: Blossom,
    /// The state that a window begins with, while it is made.
    next: Blossom,
    answer: Answer,
    /// Rounds given, and the round that the window begins with.
    given: usize,
    start: usize,
    /// How far back the decided regions reach into what is not decided: the largest time, in weight from the window's beginning,
    /// that one of them covers.
    front: i64,
    /// Per defect of the window, the largest reach that overlaps nothing decided.
    caps: Vec<i64>,
    /// Defects before this one lie so far back that no later round is near.
    unsettled: usize,
    extents: Vec<[u32; 2]>,
    names: Vec<u32>,
    /// Defects of the last rounds that are not matched yet, and how many rounds those are.
    nodes: Vec<u32>,
    gathered: usize,
    observables: Vec<u64>,
    last_answer: Vec<u64>,
    grid_weight: i64,
    forced: u64,
    last_forced: u64,
    last_weight: i64,
}

/// What decoders of one experiment share.
#[derive(Debug)]
struct Plan {
    layers: Layers,
    /// The windows of a run's first rounds, of the rounds between, and of the last rounds.
    first: Pane,
    middle: Pane,
    last: Pane,
    /// Rounds before and after the decoded rounds of a window, so that the window has the distances of the whole run.
    context: usize,
    margin: usize,
    /// Layers of a window in the middle that are filled before it moves on.
    full: usize,
    /// Least weight for each round that an edge leads on.
    step: i64,
    /// Defects that are gathered before they are matched.
    batch: usize,
    scale: f64,
    observable_words: usize,
}

/// A window: its graph, tables and frontiers.
#[derive(Debug)]
struct Pane {
    graph: MatchingGraph,
    metric: Metric,
    bases: Vec<u32>,
    rounds: Rounds,
}

impl Pane {
    fn new(window: Window, near_entries: usize) -> Result<Self, SlidingError> {
        let Window { graph, bases, layer_of } = window;
        if graph.parts().contains(&false) {
            return Err(SlidingError::NoBoundary { window: bases.len() - 1 });
        }
        let metric = Metric::new(&graph, near_entries);
        // Two defects that are further from each other than both are from the boundary have nothing to do with each other.
        let out = |node: u32| metric.nodes[node as usize].boundary;
        let widest = (0..graph.num_detectors() as u32).map(out).max().unwrap_or(0);
        let rounds = Rounds::within(&graph, &layer_of, |node| out(node) + widest);
        Ok(Self { graph, metric, bases, rounds })
    }

    fn tables(&self) -> Tables<'_> {
        Tables { graph: &self.graph, metric: &self.metric }
    }

    fn layer(&self, node: u32) -> u32 {
        self.rounds.of(node)
    }

    /// The node at the same place of a layer of another window, `shift` layers later there.
    fn node_in(&self, other: &Self, node: u32, shift: i64) -> u32 {
        let layer = self.layer(node);
        let there = (i64::from(layer) + shift) as usize;
        other.bases[there] + (node - self.bases[layer as usize])
    }
}

impl Plan {
    fn new(graph: &MatchingGraph, rounds: &[u32], config: &EndlessConfig) -> Result<Self, SlidingError> {
        let Shape { layers, step, context } = Shape::new(graph, rounds, Layers::new(graph, rounds)?)?;
        let margin = if config.margin == 0 { (3 * context).max(8) } else { config.margin };
        let full = context.saturating_add(margin.saturating_mul(2));
        let window = full.saturating_add(context);
        let first = window.saturating_add(layers.head());
        let longest = window.saturating_add(layers.head().max(layers.tail()));
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window, commit: margin });
        }
        let pane = |window| Pane::new(window, config.near_entries);
        Ok(Self {
            first: pane(layers.window(0, first, End::Frontier)?)?,
            middle: pane(layers.window(layers.head(), window, End::Frontier)?)?,
            last: pane(layers.last_window(window)?)?,
            context,
            margin,
            full,
            step,
            batch: config.batch,
            scale: graph.scale(),
            observable_words: graph.observable_words(),
            layers,
        })
    }

    fn panes(&self) -> [&Pane; 3] {
        [&self.first, &self.middle, &self.last]
    }

    /// The window that begins with round `start`, and the layers of it that are filled before it moves on.
    fn window_at(&self, start: usize) -> (&Pane, usize) {
        if start == 0 { (&self.first, self.full + self.layers.head()) } else { (&self.middle, self.full) }
    }
}

/// Clones share the tables, and begin a run of their own.
impl Clone for Plain {
    fn clone(&self) -> Self {
        Self::on(Arc::clone(&self.plan))
    }
}

impl Plain {
    /// A decoder for runs of the experiment that `graph` is a short run of; its detector `i` belongs to round `rounds[i]`.
    ///
    /// # Errors
    /// [`SlidingError`] if nothing repeats in the graph, the window is too large, or a part of it has no boundary.
    pub(super) fn new(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: &EndlessConfig,
    ) -> Result<Self, SlidingError> {
        Ok(Self::on(Arc::new(Plan::new(graph, rounds, config)?)))
    }

    fn on(plan: Arc<Plan>) -> Self {
        let most = |of: fn(&Pane) -> usize| plan.panes().map(of).into_iter().max().unwrap_or(0);
        let n = most(|pane| pane.graph.num_detectors());
        let words = plan.observable_words;
        let mut state = State {
            blossom: Blossom::with_nodes(n),
            next: Blossom::with_nodes(n),
            answer: Answer::with_room(n, most(|pane| pane.graph.num_edges()), words),
            given: 0,
            start: 0,
            front: 0,
            caps: Vec::with_capacity(n),
            unsettled: 0,
            extents: vec![[0; 2]; n + n / 2 + 1],
            names: vec![0; n / 2 + 1],
            nodes: Vec::with_capacity(n),
            gathered: 0,
            observables: vec![0; words],
            last_answer: vec![0; words],
            grid_weight: 0,
            forced: 0,
            last_forced: 0,
            last_weight: 0,
        };
        state.restart(&plan);
        Self { plan, state }
    }

    /// The rounds at the end of a run that [`finish`](Self::finish) takes.
    pub(super) fn tail_rounds(&self) -> usize {
        self.plan.layers.tail()
    }

    /// The fewest rounds that a run can have, those of the tail included; for shorter ones there is
    /// [`StreamingDecoder`](crate::StreamingDecoder).
    pub(super) fn least_rounds(&self) -> usize {
        let plan = &*self.plan;
        plan.layers.head() + plan.context + plan.margin + plan.layers.tail()
    }

    /// How many detectors round `t` of a run has (not one of the tail).
    pub(super) fn detectors(&self, t: usize) -> u32 {
        self.plan.layers.detectors(t)
    }

    /// The rounds given so far in this run, and those of them that have left the window.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.state.given, self.state.start)
    }

    /// Rounds after which a pair of defects is decided.
    pub(super) fn margin(&self) -> usize {
        self.plan.margin
    }

    /// The observables flipped by what was decided so far: bit `o % 64` of word `o / 64`.
    pub(super) fn observables(&self) -> &[u64] {
        &self.state.observables
    }

    /// The weight of the decisions so far; after [`finish`](Self::finish), the weight of the whole run, until the next run begins.
    pub(super) fn weight(&self) -> f64 {
        let State { given, last_weight, grid_weight, .. } = self.state;
        let grid = if given == 0 { last_weight } else { grid_weight };
        grid as f64 / 2.0 / self.plan.scale
    }

    /// How often in this run something was decided that later rounds might have changed; after [`finish`](Self::finish), in the
    /// whole run, until the next begins. If never, the correction is one of least weight for the whole run.
    pub(super) fn forced(&self) -> u64 {
        if self.state.given == 0 { self.state.last_forced } else { self.state.forced }
    }

    /// Takes in the defects of the next round, as positions among its detectors, strictly increasing; `true` if the window moved
    /// on by it.
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the round has not been taken in then.
    pub(super) fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        self.state.push_round(&self.plan, defects)
    }

    /// Ends the run with the defects of its last rounds; the observables flipped by the correction of the whole run. The next
    /// round is the first of another run.
    ///
    /// # Errors
    /// [`SlidingError::Tail`] if these are not [`tail_rounds`](Self::tail_rounds), [`SlidingError::TooShort`] for a run of
    /// fewer than [`least_rounds`](Self::least_rounds), [`SlidingError::Defect`]. Nothing has been taken in then.
    pub(super) fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        self.plan.layers.check_tail(tail, self.state.given, self.least_rounds())?;
        self.state.finish(&self.plan, tail);
        Ok(&self.state.last_answer)
    }

    /// Takes the regions of the last rounds over into the window of a run's end, and forgets them there.
    pub(super) fn rehearse(&mut self) {
        self.state.rehearse(&self.plan);
    }

    /// Forgets an unfinished run.
    pub(super) fn restart(&mut self) {
        self.state.restart(&self.plan);
    }
}

impl State {
    fn push_round(&mut self, plan: &Plan, defects: &[u32]) -> Result<bool, SlidingError> {
        check(defects, plan.layers.detectors(self.given), self.given)?;
        let (pane, full) = plan.window_at(self.start);
        let layer = self.given - self.start;
        let base = pane.bases[layer];
        self.nodes.extend(defects.iter().map(|&position| base + position));
        let cap = layer as i64 * plan.step - self.front;
        self.caps.extend(defects.iter().map(|_| cap));
        self.given += 1;
        self.gathered += 1;
        let moves = layer + 1 == full;
        if moves || self.nodes.len() >= plan.batch {
            self.go_on(pane);
        }
        if moves {
            let first = if self.start == 0 { plan.layers.head().max(1) } else { 1 };
            let left = self.decide(plan, pane, full - plan.margin, first + plan.context);
            let shift = left - plan.context;
            self.carry(plan, [pane, &plan.middle], full - plan.margin, full - shift, -(shift as i64));
            self.start += shift;
        }
        Ok(moves)
    }

    fn finish(&mut self, plan: &Plan, tail: &[&[u32]]) {
        let (pane, _) = plan.window_at(self.start);
        let filled = self.given - self.start;
        self.go_on(pane);
        let first = if self.start == 0 { plan.layers.head() } else { 0 };
        // The rounds that are still to come are few, and change less than those of a whole run.
        let newer = filled.saturating_sub(plan.margin.min((2 * plan.context).max(8)));
        self.decide(plan, pane, newer, first + plan.context);
        let last = &plan.last;
        let length = last.bases.len() - 1 - tail.len();
        self.carry(plan, [pane, last], newer, length, length as i64 - filled as i64);
        self.nodes.clear();
        for (t, defects) in (length..).zip(tail) {
            self.nodes.extend(defects.iter().map(|&position| last.bases[t] + position));
            let cap = t as i64 * plan.step - self.front;
            self.caps.extend(defects.iter().map(|_| cap));
        }
        let before = last.rounds.frontier(Some(length - 1));
        let matched = self.blossom.resume(last.tables(), &self.nodes, 0, before, |_| FAR);
        debug_assert!(matched, "every part has a boundary");
        self.check_caps();
        self.read(last, |_| true);
        (self.last_forced, self.last_weight) = (self.forced, self.grid_weight);
        self.last_answer.copy_from_slice(&self.observables);
        self.restart(plan);
    }

    fn rehearse(&mut self, plan: &Plan) {
        let (pane, last) = (&plan.middle, &plan.last);
        let (filled, length) = (self.given - self.start, last.bases.len() - 1 - plan.layers.tail());
        let Self { blossom, next, names, extents, gathered, .. } = self;
        let known = filled - *gathered;
        if self.start == 0 || known == 0 || filled > length {
            return;
        }
        blossom.extents(|node| pane.layer(node), extents);
        // As many rounds as the end of a run takes over.
        let newer = filled.saturating_sub((2 * plan.context).max(8));
        let kept = |top: u32| extents[top as usize][1] as usize >= newer;
        let shift = length as i64 - filled as i64;
        let node_there = |node: u32| pane.node_in(last, node, shift);
        next.carry(last.tables(), blossom, names, kept, node_there, last.rounds.frontier(Some(length - 1)));
        next.forget_nodes();
    }

    fn restart(&mut self, plan: &Plan) {
        self.blossom.forget_nodes();
        self.blossom.begin(plan.first.tables());
        (self.given, self.start, self.grid_weight, self.forced) = (0, 0, 0, 0);
        // Nothing is decided: what covers no time at all lies far in the past.
        self.front = -FAR;
        self.caps.clear();
        self.unsettled = 0;
        self.nodes.clear();
        self.gathered = 0;
        self.observables.fill(0);
    }

    /// Matches what was gathered.
    fn go_on(&mut self, pane: &Pane) {
        if self.gathered == 0 {
            return;
        }
        let Self { blossom, nodes, gathered, unsettled, given, start, .. } = self;
        let known = *given - *start;
        let before = (known - *gathered).checked_sub(1);
        let far = pane.rounds.frontier(Some(before.unwrap_or(0)));
        while *unsettled < blossom.num_defects() && far(blossom.node(*unsettled as u32)) >= FAR {
            *unsettled += 1;
        }
        // Without a new defect, what was unknown has turned out to hold nothing.
        let before = pane.rounds.frontier(before.filter(|_| !nodes.is_empty()));
        blossom.resume(pane.tables(), nodes, *unsettled, before, pane.rounds.frontier(known.checked_sub(1)));
        nodes.clear();
        *gathered = 0;
    }

    /// Decides the matched regions whose defects, and those of their partners, are all older than layer `margin`. Returns the
    /// oldest layer of the others, `oldest` at least: regions that are older than that are decided by force.
    fn decide(&mut self, plan: &Plan, pane: &Pane, margin: usize, oldest: usize) -> usize {
        let margin = margin as u32;
        self.check_caps();
        let mut left = self.first_left(pane, margin);
        if left < oldest {
            // What waits for the frontier is matched without it, and what is too old is decided with what it is matched with.
            self.blossom.resume(pane.tables(), &[], 0, |_| FAR, |_| FAR);
            self.first_left(pane, margin);
            for i in 0..self.blossom.num_defects() as u32 {
                let extent = &mut self.extents[self.blossom.outermost(i) as usize];
                if (extent[0] as usize) < oldest {
                    extent[1] = 0;
                }
            }
            self.forced += 1;
            left = oldest;
        }
        let Self { blossom, extents, caps, front, .. } = self;
        let time = |i: u32| i64::from(pane.layer(blossom.node(i))) * plan.step;
        let stays = |i: u32| extents[blossom.outermost(i) as usize][1] >= margin;
        for i in (0..blossom.num_defects() as u32).filter(|&i| !stays(i)) {
            *front = (*front).max(time(i) + blossom.reach(i));
        }
        // What stays overlaps nothing decided now: neither as long as it reaches no further, nor where the decided ends before it.
        let mut kept = 0;
        for i in (0..blossom.num_defects() as u32).filter(|&i| stays(i)) {
            caps[kept] = caps[i as usize].min(blossom.reach(i).max(time(i) - *front));
            kept += 1;
        }
        caps.truncate(kept);
        let extents = std::mem::take(&mut self.extents);
        self.read(pane, |top| extents[top as usize][1] < margin);
        self.extents = extents;
        left
    }

    /// Finds the extents of all regions, and the oldest layer of the regions that reach into the margin, or the margin's first layer if
    /// that layer is older.
    fn first_left(&mut self, pane: &Pane, margin: u32) -> usize {
        self.blossom.extents(|node| pane.layer(node), &mut self.extents);
        let tops = (0..self.blossom.num_defects() as u32).map(|i| self.blossom.outermost(i));
        let staying = tops.map(|top| self.extents[top as usize]).filter(|extent| extent[1] >= margin);
        staying.map(|extent| extent[0]).fold(margin, u32::min) as usize
    }

    /// Takes the regions that [`decide`](Self::decide) left (their newest layer is at least `margin`) from window `from` to window
    /// `to`, where they lie `shift` layers later and `filled` layers are known.
    fn carry(&mut self, plan: &Plan, [from, to]: [&Pane; 2], margin: usize, filled: usize, shift: i64) {
        let Self { blossom, next, names, extents, nodes, .. } = self;
        let kept = |top: u32| extents[top as usize][1] as usize >= margin;
        let node_there = |node: u32| from.node_in(to, node, shift);
        let frontier = || to.rounds.frontier(Some(filled - 1));
        if !next.carry(to.tables(), blossom, names, kept, node_there, frontier()) {
            // They are matched anew, which the caps look at as at everything that comes later.
            nodes.clear();
            let defects = 0..blossom.num_defects() as u32;
            nodes
                .extend(defects.filter(|&i| kept(blossom.outermost(i))).map(|i| node_there(blossom.node(i))));
            next.forget_nodes();
            next.begin(to.tables());
            next.resume(to.tables(), nodes, 0, |_| FAR, frontier());
            nodes.clear();
        }
        blossom.forget_nodes();
        std::mem::swap(blossom, next);
        // The bound keeps a run without any decision from overflowing.
        self.front = (self.front + shift * plan.step).max(-FAR);
        self.unsettled = 0;
    }

    /// Counts if a defect reaches further than it may: into what was decided.
    fn check_caps(&mut self) {
        let mut overlaps = false;
        for (i, cap) in self.caps.iter_mut().enumerate() {
            let reach = self.blossom.reach(i as u32);
            overlaps |= reach > *cap;
            *cap = reach.max(*cap);
        }
        self.forced += u64::from(overlaps);
    }

    /// Adds the correction of the outermost regions that are `decided` to the answer.
    fn read(&mut self, pane: &Pane, decided: impl Fn(u32) -> bool) {
        let Self { answer, blossom, observables, grid_weight, .. } = self;
        answer.clear();
        answer.compose(pane.tables(), |out| out.regions_of(blossom, decided));
        *grid_weight += answer.solution.grid_weight();
        for (word, flips) in observables.iter_mut().zip(answer.solution.observables()) {
            *word ^= flips;
        }
    }
}
