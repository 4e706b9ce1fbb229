//! Runs without end in one pass: the matching of the last rounds goes on with further ones, as soon as they have enough defects.

use std::sync::Arc;

use super::frontier::Frontiers;
use super::{EndlessConfig, Shape};
use crate::blossom::{Blossom, Tables};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{Layers, Window, check};
use crate::metric::{FAR, Metric};
use crate::readout::Answer;

/// Margins that a window has room for. In longer windows fewer defects are carried from one into the next, and more are looked at when
/// the run ends.
const MARGINS: usize = 3;

/// Contexts over which defects are gathered at most. Defects that are matched together mostly settle each other without any event, and
/// older ones are then looked at less often; but what is gathered when the run ends is matched with its end.
const CONTEXTS_GATHERED: usize = 2;

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
    saved: Saved,
    /// Rounds given, and the round of the run that lies in layer 0.
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
    /// The defects that are not decided, and the nodes of a window that is matched anew.
    staying: Vec<u32>,
    again: Vec<u32>,
    observables: Vec<u64>,
    last_answer: Vec<u64>,
    grid_weight: i64,
    forced: u64,
    last_forced: u64,
    last_weight: i64,
}

/// What the end of a run begins with, to begin with it once more.
#[derive(Debug, Default)]
struct Saved {
    caps: Vec<i64>,
    unsettled: usize,
    front: i64,
    observables: Vec<u64>,
    grid_weight: i64,
    forced: u64,
}

/// What decoders of one experiment share: one graph of a run that is as long as a window needs, whose layers are the head, the repeating
/// layer over and over, and the tail. All windows lie in it, the first at its beginning and the last at its end.
#[derive(Debug)]
struct Plan {
    layers: Layers,
    graph: MatchingGraph,
    metric: Metric,
    frontiers: Frontiers,
    /// Rounds before and after the decoded rounds of a window, so that the window has the distances of the whole run.
    context: usize,
    margin: usize,
    /// Layers that are filled before the window moves on.
    full: usize,
    /// Least weight for each round that an edge leads on.
    step: i64,
    /// Defects that are gathered before they are matched, and rounds.
    batch: usize,
    most_gathered: usize,
    scale: f64,
}

impl Plan {
    fn new(graph: &MatchingGraph, rounds: &[u32], config: &EndlessConfig) -> Result<Self, SlidingError> {
        let Shape { layers, step, context } = Shape::new(graph, rounds, Layers::new(graph, rounds)?)?;
        let margin = if config.margin == 0 { (3 * context).max(8) } else { config.margin };
        let length = context.saturating_mul(2).saturating_add(margin.saturating_mul(MARGINS));
        let longest = length.saturating_add(layers.head()).saturating_add(layers.tail());
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window: length, commit: margin });
        }
        let Window { graph: run, bases, layer_of } = layers.whole(length)?;
        if run.parts().contains(&false) {
            return Err(SlidingError::NoBoundary { window: length });
        }
        let run = if config.observables_only { run.for_observables(false) } else { run };
        let metric = Metric::new(&run, config.near_entries);
        // Two defects that are further from each other than both are from the boundary have nothing to do with each other.
        let out = |node: u32| metric.nodes[node as usize].boundary;
        let widest = (0..run.num_detectors() as u32).map(out).max().unwrap_or(0);
        let frontiers = Frontiers::new(&run, bases, layer_of, |node| out(node) + widest);
        let full = layers.head() + context + MARGINS * margin;
        let (batch, scale) = (config.batch, graph.scale());
        let most_gathered = context.saturating_mul(CONTEXTS_GATHERED);
        Ok(Self {
            layers,
            graph: run,
            metric,
            frontiers,
            context,
            margin,
            full,
            step,
            batch,
            most_gathered,
            scale,
        })
    }

    fn tables(&self) -> Tables<'_> {
        Tables { graph: &self.graph, metric: &self.metric }
    }

    /// The layer of the graph that the tail begins with.
    fn tail(&self) -> usize {
        self.frontiers.layers() - self.layers.tail()
    }

    /// How many node numbers layers lie apart that are `layers` apart and repeat.
    fn nodes(&self, layers: i64) -> i64 {
        layers * i64::from(self.layers.detectors(self.layers.head()))
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
        let n = plan.graph.num_detectors();
        let words = plan.graph.observable_words();
        let mut state = State {
            blossom: Blossom::with_nodes(n),
            next: Blossom::with_nodes(n),
            answer: Answer::with_room(n, plan.graph.num_edges(), words),
            saved: Saved { caps: Vec::with_capacity(n), observables: vec![0; words], ..Saved::default() },
            given: 0,
            start: 0,
            front: 0,
            caps: Vec::with_capacity(n),
            unsettled: 0,
            extents: vec![[0; 2]; n + n / 2 + 1],
            names: vec![0; n / 2 + 1],
            nodes: Vec::with_capacity(n),
            gathered: 0,
            staying: Vec::with_capacity(n),
            again: Vec::with_capacity(n),
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

    /// Goes through a run's end as if the rounds of the tail held nothing, and takes it back.
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
        let layer = self.given - self.start;
        self.gather(plan, layer, defects);
        self.given += 1;
        self.gathered += 1;
        let moves = layer + 1 == plan.full;
        if moves || self.nodes.len() >= plan.batch || self.gathered >= plan.most_gathered {
            self.go_on(plan);
        }
        if moves {
            let head = plan.layers.head();
            // So that the window moves on, and no round of the head is left.
            let oldest = head + plan.context + 1;
            self.check_caps();
            let left = self.decide(plan, plan.full - plan.margin, oldest);
            let shift = left - plan.context - head;
            self.carry(plan, plan.full - shift, -(shift as i64));
            self.start += shift;
        }
        Ok(moves)
    }

    fn gather(&mut self, plan: &Plan, layer: usize, defects: &[u32]) {
        let base = plan.frontiers.base(layer);
        let before = self.nodes.len();
        let nodes = defects.iter().map(|&position| base + position);
        self.nodes.extend(nodes.filter(|&node| !plan.graph.is_silent(node)));
        let cap = layer as i64 * plan.step - self.front;
        self.caps.resize(self.caps.len() + self.nodes.len() - before, cap);
    }

    fn finish(&mut self, plan: &Plan, tail: &[&[u32]]) {
        if self.given - self.start - self.gathered < plan.layers.head() + plan.context {
            // Defects of a run's beginning are nearer to each other where more comes before them.
            self.go_on(plan);
        }
        let gathered = self.nodes.len();
        self.check_caps();
        self.save();
        // The rounds that are still to come are few, and change little. Where they change more than was thought, more is taken along.
        for taken in [plan.context.div_ceil(2).min(plan.margin), plan.margin] {
            self.end(plan, tail, taken);
            let forced = self.forced;
            self.check_caps();
            if taken == plan.margin || self.forced == forced {
                break;
            }
            self.go_back(plan, gathered);
        }
        self.read(plan, |_| true);
        (self.last_forced, self.last_weight) = (self.forced, self.grid_weight);
        self.last_answer.copy_from_slice(&self.observables);
        self.restart(plan);
    }

    /// Decides all but the last `taken` of the rounds that are matched, takes the others to where the tail follows them, and matches them
    /// with what is gathered and the tail.
    fn end(&mut self, plan: &Plan, tail: &[&[u32]], taken: usize) {
        let filled = self.given - self.start;
        let [newer, oldest] = self.ends_of_decided(plan, taken);
        self.decide(plan, newer, oldest);
        let shift = plan.tail() as i64 - filled as i64;
        self.carry(plan, plan.tail() - self.gathered, shift);
        self.move_gathered(plan.nodes(shift));
        for (layer, defects) in (plan.tail()..).zip(tail) {
            self.gather(plan, layer, defects);
        }
        let before = plan.frontiers.after((plan.tail() - self.gathered).checked_sub(1));
        let matched = self.blossom.resume(plan.tables(), &self.nodes, 0, before, |_| FAR);
        debug_assert!(matched, "every part has a boundary");
    }

    /// The layer before which a run's end decides everything of what is matched, and the layer before which it would do so by force.
    fn ends_of_decided(&self, plan: &Plan, taken: usize) -> [usize; 2] {
        let known = self.given - self.start - self.gathered;
        let oldest = plan.layers.head() + plan.context;
        // With a small margin more is decided than `taken` rounds ago, but nothing by force.
        [known.saturating_sub(taken).max(oldest.min(known)), oldest]
    }

    /// Makes the state of [`end`](Self::end) that of before once more, with `gathered` defects that are not matched.
    fn go_back(&mut self, plan: &Plan, gathered: usize) {
        let shift = plan.tail() as i64 - (self.given - self.start) as i64;
        self.nodes.truncate(gathered);
        self.move_gathered(-plan.nodes(shift));
        self.blossom.forget_nodes();
        std::mem::swap(&mut self.blossom, &mut self.next);
        self.blossom.remember_nodes();
        let Self { saved, caps, observables, .. } = self;
        caps.clear();
        caps.extend_from_slice(&saved.caps);
        observables.copy_from_slice(&saved.observables);
        (self.front, self.grid_weight, self.forced) = (saved.front, saved.grid_weight, saved.forced);
        self.unsettled = saved.unsettled;
    }

    /// Keeps what [`end`](Self::end) changes and [`go_back`](Self::go_back) needs.
    fn save(&mut self) {
        let Self { saved, caps, observables, .. } = self;
        saved.caps.clear();
        saved.caps.extend_from_slice(caps);
        saved.observables.copy_from_slice(observables);
        (saved.front, saved.grid_weight, saved.forced) = (self.front, self.grid_weight, self.forced);
        saved.unsettled = self.unsettled;
    }

    /// Takes what is gathered to nodes whose numbers are `by` more.
    fn move_gathered(&mut self, by: i64) {
        self.nodes.iter_mut().for_each(|node| *node = (i64::from(*node) + by) as u32);
    }

    fn rehearse(&mut self, plan: &Plan) {
        let gathered = self.nodes.len();
        let taken = plan.context.div_ceil(2).min(plan.margin);
        let [newer, oldest] = self.ends_of_decided(plan, taken);
        // An end that decides something by force matches what it cannot take back.
        if self.start == 0 || newer == 0 || self.first_left(plan, newer as u32) < oldest {
            return;
        }
        self.save();
        self.check_caps();
        self.end(plan, &[], taken);
        self.check_caps();
        self.read(plan, |_| true);
        self.go_back(plan, gathered);
    }

    fn restart(&mut self, plan: &Plan) {
        self.blossom.forget_nodes();
        self.blossom.begin(plan.tables());
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
    fn go_on(&mut self, plan: &Plan) {
        if self.gathered == 0 {
            return;
        }
        let Self { blossom, nodes, gathered, unsettled, given, start, .. } = self;
        let known = *given - *start;
        let before = (known - *gathered).checked_sub(1);
        let far = plan.frontiers.after(Some(before.unwrap_or(0)));
        while *unsettled < blossom.num_defects() && far(blossom.node(*unsettled as u32)) >= FAR {
            *unsettled += 1;
        }
        // Without a new defect, what was unknown has turned out to hold nothing.
        let before = plan.frontiers.after(before.filter(|_| !nodes.is_empty()));
        let after = plan.frontiers.after(known.checked_sub(1));
        blossom.resume(plan.tables(), nodes, *unsettled, before, after);
        nodes.clear();
        *gathered = 0;
    }

    /// Decides the matched regions whose defects, and those of their partners, are all older than layer `margin`. Returns the
    /// oldest layer of the others, `oldest` at least: regions that are older than that are decided by force. The caps have been
    /// checked.
    fn decide(&mut self, plan: &Plan, margin: usize, oldest: usize) -> usize {
        let margin = margin as u32;
        let mut left = self.first_left(plan, margin);
        if left < oldest {
            // What waits for the frontier is matched without it, and what is too old is decided with what it is matched with.
            self.blossom.resume(plan.tables(), &[], 0, |_| FAR, |_| FAR);
            self.first_left(plan, margin);
            for i in 0..self.blossom.num_defects() as u32 {
                let extent = &mut self.extents[self.blossom.outermost(i) as usize];
                if (extent[0] as usize) < oldest {
                    extent[1] = 0;
                }
            }
            self.forced += 1;
            left = oldest;
        }
        let Self { blossom, extents, caps, front, nodes, staying, .. } = self;
        let layer = |node: u32| i64::from(plan.frontiers.layer(node)) * plan.step;
        let time = |i: u32| layer(blossom.node(i));
        let count = blossom.num_defects();
        staying.clear();
        for i in 0..count as u32 {
            if extents[blossom.outermost(i) as usize][1] >= margin {
                staying.push(i);
            } else {
                *front = (*front).max(time(i) + blossom.covered(i));
            }
        }
        // What stays overlaps nothing decided now: neither as long as it reaches no further, nor where the decided ends before it.
        let mut kept = 0;
        for &i in &*staying {
            caps[kept] = caps[i as usize].min(blossom.covered(i).max(time(i) - *front));
            kept += 1;
        }
        // The same of what is gathered, which reaches nowhere yet.
        for (i, &node) in (count..).zip(nodes.iter()) {
            caps[kept] = caps[i].min((layer(node) - *front).max(0));
            kept += 1;
        }
        caps.truncate(kept);
        let extents = std::mem::take(&mut self.extents);
        self.read(plan, |top| extents[top as usize][1] < margin);
        self.extents = extents;
        left
    }

    /// Finds the extents of all regions, and the oldest layer of the regions that reach into the margin, or the margin's first layer if
    /// that layer is older.
    fn first_left(&mut self, plan: &Plan, margin: u32) -> usize {
        self.blossom.extents(|node| plan.frontiers.layer(node), &mut self.extents);
        let tops = (0..self.blossom.num_defects() as u32).map(|i| self.blossom.outermost(i));
        let staying = tops.map(|top| self.extents[top as usize]).filter(|extent| extent[1] >= margin);
        staying.map(|extent| extent[0]).fold(margin, u32::min) as usize
    }

    /// Takes the defects that [`decide`](Self::decide) left to where they lie `shift` layers later and `filled` layers are known.
    fn carry(&mut self, plan: &Plan, filled: usize, shift: i64) {
        let Self { blossom, next, names, staying, again, .. } = self;
        let by = plan.nodes(shift);
        let frontier = || plan.frontiers.after(filled.checked_sub(1));
        if !next.carry(plan.tables(), blossom, names, staying, by as u32, frontier()) {
            // They are matched anew, which the caps look at as at everything that comes later.
            again.clear();
            again.extend(staying.iter().map(|&i| (i64::from(blossom.node(i)) + by) as u32));
            next.forget_nodes();
            next.begin(plan.tables());
            next.resume(plan.tables(), again, 0, |_| FAR, frontier());
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
        // Those of gathered defects come after the others.
        for (i, cap) in (0..self.blossom.num_defects() as u32).zip(&mut self.caps) {
            let reach = self.blossom.covered(i);
            overlaps |= reach > *cap;
            *cap = reach.max(*cap);
        }
        self.forced += u64::from(overlaps);
    }

    /// Adds the correction of the outermost regions that are `decided` to the answer.
    fn read(&mut self, plan: &Plan, decided: impl Fn(u32) -> bool) {
        let Self { answer, blossom, observables, grid_weight, .. } = self;
        answer.clear();
        answer.compose(plan.tables(), |out| out.regions_of(blossom, decided));
        *grid_weight += answer.solution.grid_weight();
        for (word, flips) in observables.iter_mut().zip(answer.solution.observables()) {
            *word ^= flips;
        }
    }
}
