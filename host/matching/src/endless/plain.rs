//! Runs without end in one pass: matching resumes as soon as further rounds have enough defects.

use std::sync::Arc;

use super::decided::Decided;
use super::frontier::Frontiers;
use super::{EndlessConfig, Shape};
use crate::blossom::{Blossom, Tables};
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::{Layers, Window, check};
use crate::metric::{FAR, Metric};
use crate::readout::Answer;

/// The number of margins that a window has room for. Longer windows carry fewer defects from one window into the next, and attend
/// to more when the run ends.
const MARGINS: usize = 3;

/// The most contexts over which defects are gathered. Defects that are matched together mostly settle each other without any
/// event, and the decoder attends less often to older ones; but defects that are still gathered when the run ends are matched
/// with its end.
const CONTEXTS_GATHERED: usize = 2;

/// The state of a run that is matched once: see [`EndlessDecoder`](super::EndlessDecoder).
#[derive(Debug)]
pub(super) struct Plain {
    plan: Arc<Plan>,
    state: State,
}

/// The state that every round changes. It is apart from the plan, which threads share, so that no round counts references to the
/// plan.
#[derive(Debug)]
struct State {
    blossom: Blossom,
    /// The next window's state, while it is made.
    next: Blossom,
    answer: Answer,
    saved: Saved,
    /// The number of rounds given, and the run's round in layer 0.
    given: usize,
    start: usize,
    /// How far the decided regions reach into the undecided part: the latest time that one of them covers, in weight from the
    /// window's beginning.
    front: i64,
    /// Per defect of the window, the largest reach that overlaps no decided region.
    caps: Vec<i64>,
    /// Defects before this one lie so far back that no later round is near them.
    unsettled: usize,
    extents: Vec<[u32; 2]>,
    names: Vec<u32>,
    /// Defects of the last rounds that are not matched yet, and the number of those rounds.
    nodes: Vec<u32>,
    gathered: usize,
    /// The undecided defects, and the nodes of a window that is matched anew.
    staying: Vec<u32>,
    again: Vec<u32>,
    decided: Decided,
    /// The same of the last run that ended.
    last_run: Decided,
}

/// The state before the end of a run, to restore it.
#[derive(Debug)]
struct Saved {
    caps: Vec<i64>,
    unsettled: usize,
    front: i64,
    decided: Decided,
}

/// The tables that decoders of one experiment share: one graph, of a run as long as a window needs, whose layers are the head,
/// the repeating layer many times, and the tail. All windows lie in it, the first at its beginning and the last at its end.
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
    /// The least grid weight of an edge per round that the edge spans.
    step: i64,
    /// The most defects, and the most rounds, that are gathered before they are matched.
    batch: usize,
    most_gathered: usize,
    scale: f64,
}

impl Plan {
    fn new(graph: &MatchingGraph, rounds: &[u32], config: &EndlessConfig) -> Result<Self, SlidingError> {
        let Shape { layers, step, context } = Shape::new(graph, rounds, Layers::of(graph, rounds, false)?)?;
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
        // Two defects that are further from each other than both are from the boundary do not interact.
        let out = |node: u32| metric.nodes[node as usize].boundary;
        // A node that is left out has no way to the boundary, and limits nothing.
        let widest = (0..run.num_detectors() as u32).map(out).filter(|&out| out < FAR).max().unwrap_or(0);
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

    /// The first layer of the tail.
    fn tail(&self) -> usize {
        self.frontiers.layers() - self.layers.tail()
    }

    /// The difference of node numbers between repeating layers that are `layers` apart.
    fn nodes(&self, layers: i64) -> i64 {
        layers * i64::from(self.layers.detectors(self.layers.head()))
    }
}

/// Clones share the tables and begin their own runs.
impl Clone for Plain {
    fn clone(&self) -> Self {
        Self::on(Arc::clone(&self.plan))
    }
}

impl Plain {
    /// See [`EndlessDecoder::new`](super::EndlessDecoder::new).
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
            saved: Saved {
                caps: Vec::with_capacity(n),
                unsettled: 0,
                front: 0,
                decided: Decided::nothing(words),
            },
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
            decided: Decided::nothing(words),
            last_run: Decided::nothing(words),
        };
        state.restart(&plan);
        Self { plan, state }
    }

    /// See [`EndlessDecoder::tail_rounds`](super::EndlessDecoder::tail_rounds).
    pub(super) fn tail_rounds(&self) -> usize {
        self.plan.layers.tail()
    }

    /// See [`EndlessDecoder::least_rounds`](super::EndlessDecoder::least_rounds).
    pub(super) fn least_rounds(&self) -> usize {
        let plan = &*self.plan;
        plan.layers.head() + plan.context + plan.margin + plan.layers.tail()
    }

    /// See [`EndlessDecoder::detectors`](super::EndlessDecoder::detectors).
    pub(super) fn detectors(&self, t: usize) -> u32 {
        self.plan.layers.detectors(t)
    }

    /// See [`EndlessDecoder::progress`](super::EndlessDecoder::progress).
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.state.given, self.state.start)
    }

    /// See [`EndlessDecoder::margin`](super::EndlessDecoder::margin).
    pub(super) fn margin(&self) -> usize {
        self.plan.margin
    }

    /// See [`EndlessDecoder::observables`](super::EndlessDecoder::observables).
    pub(super) fn observables(&self) -> &[u64] {
        &self.state.decided.observables
    }

    /// See [`EndlessDecoder::weight`](super::EndlessDecoder::weight).
    pub(super) fn weight(&self) -> f64 {
        self.state.latest().weight(self.plan.scale)
    }

    /// See [`EndlessDecoder::forced`](super::EndlessDecoder::forced).
    pub(super) fn forced(&self) -> u64 {
        self.state.latest().forced
    }

    /// See [`EndlessDecoder::push_round`](super::EndlessDecoder::push_round).
    pub(super) fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        self.state.push_round(&self.plan, defects)
    }

    /// See [`EndlessDecoder::finish`](super::EndlessDecoder::finish).
    pub(super) fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        self.plan.layers.check_tail(tail, self.state.given, self.least_rounds())?;
        self.state.finish(&self.plan, tail);
        Ok(&self.state.last_run.observables)
    }

    /// See [`EndlessDecoder::rehearse`](super::EndlessDecoder::rehearse).
    pub(super) fn rehearse(&mut self) {
        self.state.rehearse(&self.plan);
    }

    /// See [`EndlessDecoder::restart`](super::EndlessDecoder::restart).
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
            // The oldest layer for which the window moves on and no round of the head is left.
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
            // Defects of a run's beginning would be nearer to each other if more rounds came before them.
            self.go_on(plan);
        }
        let gathered = self.nodes.len();
        self.check_caps();
        self.save();
        // Few rounds are still to come, and they change little. If they change more than expected, more rounds are carried along.
        for taken in [plan.context.div_ceil(2).min(plan.margin), plan.margin] {
            self.end(plan, tail, taken, None);
            let forced = self.decided.forced;
            self.check_caps();
            if taken == plan.margin || self.decided.forced == forced {
                break;
            }
            self.go_back(plan, gathered);
        }
        self.read(plan, |_| true);
        self.last_run.copy_from(&self.decided);
        self.restart(plan);
    }

    /// Decides all but the last `taken` of the matched rounds, moves the others to directly before the tail, and matches them
    /// with the gathered defects and the tail. Layers after `last` are not known yet.
    fn end(&mut self, plan: &Plan, tail: &[&[u32]], taken: usize, last: Option<usize>) {
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
        let after = plan.frontiers.after(last);
        let matched = self.blossom.resume(plan.tables(), &self.nodes, 0, before, after);
        debug_assert!(matched, "every part has a boundary");
    }

    /// The layer before which a run's end decides all matched regions, and the layer before which it would do so by force.
    fn ends_of_decided(&self, plan: &Plan, taken: usize) -> [usize; 2] {
        let known = self.given - self.start - self.gathered;
        let oldest = plan.layers.head() + plan.context;
        // With a small margin, more than the last `taken` rounds are decided, but nothing by force.
        [known.saturating_sub(taken).max(oldest.min(known)), oldest]
    }

    /// Undoes [`end`](Self::end), with `gathered` defects that are not matched.
    fn go_back(&mut self, plan: &Plan, gathered: usize) {
        let shift = plan.tail() as i64 - (self.given - self.start) as i64;
        self.nodes.truncate(gathered);
        self.move_gathered(-plan.nodes(shift));
        self.blossom.forget_nodes();
        std::mem::swap(&mut self.blossom, &mut self.next);
        self.blossom.remember_nodes();
        let Self { saved, caps, decided, .. } = self;
        caps.clear();
        caps.extend_from_slice(&saved.caps);
        decided.copy_from(&saved.decided);
        (self.front, self.unsettled) = (saved.front, saved.unsettled);
    }

    /// Saves the state that [`end`](Self::end) changes and [`go_back`](Self::go_back) needs.
    fn save(&mut self) {
        let Self { saved, caps, decided, .. } = self;
        saved.caps.clear();
        saved.caps.extend_from_slice(caps);
        saved.decided.copy_from(decided);
        (saved.front, saved.unsettled) = (self.front, self.unsettled);
    }

    /// Moves the gathered defects to nodes whose numbers are `by` more.
    fn move_gathered(&mut self, by: i64) {
        self.nodes.iter_mut().for_each(|node| *node = (i64::from(*node) + by) as u32);
    }

    fn rehearse(&mut self, plan: &Plan) {
        let gathered = self.nodes.len();
        let taken = plan.context.div_ceil(2).min(plan.margin);
        let [newer, oldest] = self.ends_of_decided(plan, taken);
        // An end that decides by force matches pairs that it cannot undo.
        if self.start == 0 || newer == 0 || self.first_left(plan, newer as u32) < oldest {
            return;
        }
        self.save();
        self.check_caps();
        // Without its tail, defects whose partners are there would look for others further than any end does.
        self.end(plan, &[], taken, plan.tail().checked_sub(1));
        self.check_caps();
        let all = u32::MAX;
        self.first_left(plan, all);
        let extents = std::mem::take(&mut self.extents);
        self.read(plan, |top| extents[top as usize][1] < all);
        self.extents = extents;
        self.go_back(plan, gathered);
    }

    /// What is decided of this run, or of the last one until a round of the next comes.
    fn latest(&self) -> &Decided {
        if self.given == 0 { &self.last_run } else { &self.decided }
    }

    fn restart(&mut self, plan: &Plan) {
        self.blossom.forget_nodes();
        self.blossom.begin(plan.tables());
        (self.given, self.start) = (0, 0);
        self.decided.clear();
        // Nothing is decided: a front that covers no time lies far in the past.
        self.front = -FAR;
        self.caps.clear();
        self.unsettled = 0;
        self.nodes.clear();
        self.gathered = 0;
    }

    /// Matches the gathered defects.
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
        // Without a new defect, the unknown rounds have turned out to be empty.
        let before = plan.frontiers.after(before.filter(|_| !nodes.is_empty()));
        let after = plan.frontiers.after(known.checked_sub(1));
        blossom.resume(plan.tables(), nodes, *unsettled, before, after);
        nodes.clear();
        *gathered = 0;
    }

    /// Decides the matched regions whose defects, and those of their partners, are all older than layer `margin`. Returns the
    /// oldest layer of the other regions, at least `oldest`: regions older than that are decided by force. The caps have been
    /// checked.
    fn decide(&mut self, plan: &Plan, margin: usize, oldest: usize) -> usize {
        let margin = margin as u32;
        let mut left = self.first_left(plan, margin);
        if left < oldest {
            // Regions that wait for the frontier are matched without it, and a region that is too old is decided with its
            // partner.
            self.blossom.resume(plan.tables(), &[], 0, |_| FAR, |_| FAR);
            self.first_left(plan, margin);
            for i in 0..self.blossom.num_defects() as u32 {
                let extent = &mut self.extents[self.blossom.outermost(i) as usize];
                if (extent[0] as usize) < oldest {
                    extent[1] = 0;
                }
            }
            self.decided.forced += 1;
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
        // An undecided region overlaps no region decided now as long as it reaches no further, or stays where the decided regions
        // do not reach.
        let mut kept = 0;
        for &i in &*staying {
            caps[kept] = caps[i as usize].min(blossom.covered(i).max(time(i) - *front));
            kept += 1;
        }
        // The same for gathered defects, which reach nowhere yet.
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

    /// Finds the extents of all regions. Returns the oldest layer of the regions that reach into the margin, or the margin's
    /// first layer if that is older.
    fn first_left(&mut self, plan: &Plan, margin: u32) -> usize {
        self.blossom.extents(|node| plan.frontiers.layer(node), &mut self.extents);
        let tops = (0..self.blossom.num_defects() as u32).map(|i| self.blossom.outermost(i));
        let staying = tops.map(|top| self.extents[top as usize]).filter(|extent| extent[1] >= margin);
        staying.map(|extent| extent[0]).fold(margin, u32::min) as usize
    }

    /// Moves the defects that [`decide`](Self::decide) left `shift` layers later, into a window of which `filled` layers are
    /// known.
    fn carry(&mut self, plan: &Plan, filled: usize, shift: i64) {
        let Self { blossom, next, names, staying, again, .. } = self;
        let by = plan.nodes(shift);
        let frontier = || plan.frontiers.after(filled.checked_sub(1));
        if !next.carry(plan.tables(), blossom, names, staying, by as u32, frontier()) {
            // The regions are matched anew, and the caps check that as they check all later rounds.
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

    /// Counts one if a defect reaches into a decided region.
    fn check_caps(&mut self) {
        let mut overlaps = false;
        // Gathered defects come after the others.
        for (i, cap) in (0..self.blossom.num_defects() as u32).zip(&mut self.caps) {
            let reach = self.blossom.covered(i);
            overlaps |= reach > *cap;
            *cap = reach.max(*cap);
        }
        self.decided.forced += u64::from(overlaps);
    }

    /// Adds the correction of the `decided` outermost regions to the answer.
    fn read(&mut self, plan: &Plan, decided: impl Fn(u32) -> bool) {
        let Self { answer, blossom, decided: run, .. } = self;
        answer.clear();
        answer.compose(plan.tables(), |out| out.regions_of(blossom, decided));
        run.add(&answer.solution);
    }
}
