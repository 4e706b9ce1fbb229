//! One run on several cores: windows that overlap are matched at the same time, and joined where they agree.
//!
//! All regions of a window grow from nothing at once, so what becomes of a defect depends on what is near it. In the middle of what
//! two windows share, both have the same regions with the same radii, and there is a round before which the older window's pairs
//! are taken, and from which on the newer one's. The radii prove the weight of the whole run if no region taken from one window
//! overlaps one taken from the other. Two such regions do not overlap if one of them is the same in both windows, since neither
//! window has an overlap; all others are compared by the rounds that they reach into. A join without this proof is counted.
//!
//! In two passes no radii prove the whole run. Windows are joined where both have the same pairs, with a few rounds between pairs
//! that differ, so that a first pass lowers the same weights on both sides. A join where they have not is counted.

mod helpers;
mod plan;
mod window;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decided::Decided;
use crate::error::SlidingError;
use crate::graph::MatchingGraph;
use crate::layers::check;
use crate::metric::FAR;
use helpers::{Helpers, take_waiting};
use plan::{Kind, Place, Plan};
use window::{Solved, Work};

/// The configuration of a [`SharedEndlessDecoder`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedEndlessConfig {
    /// Threads that match windows: the caller's, and one less than this number of helpers.
    pub cores: NonZeroUsize,
    /// Rounds on both sides of a join that both windows have. 0 stands for the most rounds that a shortest path to the boundary can
    /// span, and for 8 at least. With fewer, joins are more often [`forced`](SharedEndlessDecoder::forced).
    pub overlap: usize,
    /// Rounds from one join to the next. 0 stands for twice the most rounds that a shortest path to the boundary can span,
    /// and for 8 at least.
    pub step: usize,
    /// How long the caller waits for a helper before it matches the helper's window itself.
    pub timeout: Duration,
    /// How long a helper without work polls before it sleeps (waking it costs tens of microseconds).
    pub spin: Duration,
    /// As [`EndlessConfig::near_entries`](super::EndlessConfig::near_entries).
    pub near_entries: usize,
    /// Whether each window is matched twice, as [`EndlessConfig::correlations`](super::EndlessConfig::correlations). An overlap of 0
    /// then stands for one and a half times as many rounds.
    pub correlations: bool,
    /// As [`EndlessConfig::observables_only`](super::EndlessConfig::observables_only).
    pub observables_only: bool,
}

impl SharedEndlessConfig {
    /// The default trade-offs for this many cores.
    pub fn new(cores: NonZeroUsize) -> Self {
        Self {
            cores,
            overlap: 0,
            step: 0,
            timeout: Duration::from_micros(50),
            spin: Duration::from_millis(20),
            near_entries: 256,
            correlations: false,
            observables_only: false,
        }
    }
}

/// A window on its way.
#[derive(Debug)]
enum Slot {
    /// With a helper: its ticket, its place and its nodes, in case the helper does not bring it back.
    Sent {
        ticket: u64,
        place: Place,
        nodes: Vec<u32>,
    },
    Solved(Box<Work>),
}

/// A decoder for runs of any length, as [`EndlessDecoder`](super::EndlessDecoder), that shares one run among cores.
///
/// The run is cut into windows that overlap. Helpers match windows as soon as their rounds are known, each anew and several at
/// a time, and the caller's thread joins each window to the one before it where both agree. The answer of one pass has the least weight
/// for the whole run unless [`forced`](Self::forced) has counted. It does not depend on which thread was faster. Windows wait in a queue,
/// one for each helper at most; if there are more, or the run ends, the caller matches the oldest. It also matches the last window.
///
/// With [`SharedEndlessConfig::correlations`], each window is matched twice. No proof covers the whole run: `forced` counts joins
/// at which the windows have matched defects differently.
///
/// A helper that panics is counted by [`lost`](Self::lost), and the caller matches its window. The caller does so, too, if a helper
/// takes longer than [`SharedEndlessConfig::timeout`]. The threads end when the decoder is dropped.
///
/// ```
/// use ringcall_matching::{GraphBuilder, SharedEndlessConfig, SharedEndlessDecoder};
///
/// // A bit measured over and over: a detector compares two measurements. 6 rounds stand for any number of them.
/// let mut b = GraphBuilder::new();
/// for t in 0..6 {
///     b.boundary_edge(t, 3.0, &[0])?;
///     if t < 5 {
///         b.edge(t, t + 1, 2.0, &[])?;
///     }
/// }
/// let rounds: Vec<u32> = (0..6).collect();
/// let config = SharedEndlessConfig::new(2.try_into()?);
/// let mut decoder = SharedEndlessDecoder::new(&b.build()?, &rounds, &config, |_| {})?;
/// for t in 0..10_000u32 {
///     // Two wrong measurements, each seen by two detectors.
///     let fired = [500, 501, 9_000, 9_001].contains(&t);
///     decoder.push_round(if fired { &[0] } else { &[] })?;
/// }
/// let last: Vec<&[u32]> = vec![&[]; decoder.tail_rounds()];
/// assert_eq!(decoder.finish(&last)?, [0]);
/// assert_eq!((decoder.weight(), decoder.forced()), (4.0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedEndlessDecoder {
    plan: Arc<Plan>,
    timeout: Duration,
    helpers: Helpers,
    #[expect(clippy::vec_box, reason = "the boxes travel to helpers and back")]
    free: Vec<Box<Work>>,
    slots: VecDeque<Slot>,
    spare_nodes: Vec<Vec<u32>>,
    tickets: u64,
    /// The number of rounds given, and the window that the next one completes.
    given: usize,
    window: usize,
    /// The defects of the rounds since the beginning of that window.
    recent: Vec<(usize, u32)>,
    /// The newest window that was joined to the one before, and the round of that join: its older regions are the other's.
    newest: Option<(Box<Work>, usize)>,
    /// The latest time that a defect of a window before the newest influences ([`Solved::until`]).
    front: i64,
    decided: Decided,
    /// The same of the last run that ended.
    last_run: Decided,
}

impl SharedEndlessDecoder {
    /// Makes a decoder for runs of the experiment of which `graph` is a short run; detector `i` of the graph belongs to round
    /// `rounds[i]`. Each helper `k`, from 1 on, calls `on_start(k)` first, for instance to pin itself to a core.
    ///
    /// # Errors
    /// [`SlidingError`] if no round repeats in the graph, the window is too large, a part of it has no boundary, or a thread could
    /// not be started.
    pub fn new(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: &SharedEndlessConfig,
        on_start: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Self, SlidingError> {
        let plan = Arc::new(Plan::new(graph, rounds, config)?);
        let helpers = Helpers::new(&plan, config, on_start)?;
        let [n, _, words] = plan.sizes();
        // Each helper's, one that waits for it, one that waits to be joined; the caller's and the newest.
        let count = 3 * helpers.threads.len() + 2;
        Ok(Self {
            timeout: config.timeout,
            free: (0..count).map(|_| Box::new(Work::new(&plan))).collect(),
            slots: VecDeque::with_capacity(count),
            spare_nodes: (0..count).map(|_| Vec::with_capacity(n)).collect(),
            tickets: 0,
            given: 0,
            window: 0,
            recent: Vec::with_capacity(n),
            newest: None,
            front: -FAR,
            decided: Decided::nothing(words),
            last_run: Decided::nothing(words),
            helpers,
            plan,
        })
    }

    /// Whether each window is matched twice: [`SharedEndlessConfig::correlations`] was set, and the graph has correlations.
    pub fn makes_second_pass(&self) -> bool {
        self.plan.is_twice()
    }

    /// The number of rounds at the end of a run that [`finish`](Self::finish) takes.
    pub fn tail_rounds(&self) -> usize {
        self.plan.layers.tail()
    }

    /// The fewest rounds of a run, including those of the tail.
    pub fn least_rounds(&self) -> usize {
        self.plan.window(0)[1] + self.plan.layers.tail()
    }

    /// The number of detectors of round `t` of a run, outside the tail.
    pub fn detectors(&self, t: usize) -> u32 {
        self.plan.layers.detectors(t)
    }

    /// The rounds given so far in this run.
    pub fn given(&self) -> usize {
        self.given
    }

    /// The weight of the joined windows so far; after [`finish`](Self::finish), the weight of the whole run, until the next run
    /// begins.
    pub fn weight(&self) -> f64 {
        self.latest().weight(self.plan.scale)
    }

    /// How many windows of this run were joined without a proof that their pairs have the least weight for the whole run. In two
    /// passes: how many were joined at a round near which they match defects differently. After [`finish`](Self::finish), of the
    /// whole run, until the next begins.
    pub fn forced(&self) -> u64 {
        self.latest().forced
    }

    /// What is decided of this run, or of the last one until a round of the next comes.
    fn latest(&self) -> &Decided {
        if self.given == 0 { &self.last_run } else { &self.decided }
    }

    /// Helpers that have panicked since the decoder was made.
    pub fn lost(&self) -> usize {
        self.helpers.lost
    }

    /// Takes the defects of the next round, as strictly increasing positions among its detectors. Returns true if a window was
    /// complete.
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the decoder has then not taken the round.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        check(defects, self.plan.layers.detectors(self.given), self.given)?;
        let [_, end] = self.plan.window(self.window);
        self.remember(self.given, defects, self.given.min(self.plan.layers.head()));
        self.given += 1;
        if self.given < end {
            return Ok(false);
        }
        let plan = Arc::clone(&self.plan);
        self.hand_out(&plan, plan.place(self.window));
        self.window += 1;
        let begin = plan.window(self.window)[0].saturating_sub(plan.kept());
        let kept = self.recent.partition_point(|&(round, _)| round < begin);
        self.recent.drain(..kept);
        self.collect();
        self.join_solved(&plan);
        Ok(true)
    }

    /// Ends the run with the defects of its last rounds. Returns the observables flipped by the correction of the whole run. The
    /// next round is the first of another run.
    ///
    /// # Errors
    /// [`SlidingError::Tail`] unless there are [`tail_rounds`](Self::tail_rounds) of them, [`SlidingError::TooShort`] for a run
    /// of fewer than [`least_rounds`](Self::least_rounds), [`SlidingError::Defect`]. The decoder has then taken nothing.
    pub fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        self.plan.layers.check_tail(tail, self.given, self.least_rounds())?;
        let plan = Arc::clone(&self.plan);
        let place = plan.last_place(self.window, self.given + plan.layers.tail());
        for (t, defects) in tail.iter().enumerate() {
            self.remember(self.given + t, defects, place.layer + self.given + t - place.begin);
        }
        let mut work = self.prepare(&plan, place);
        work.solve(&plan);
        self.slots.push_back(Slot::Solved(work));
        self.join_all(&plan);
        if let Some((mut work, mut from)) = self.newest.take() {
            if work.leads_out(from) {
                self.decided.forced += 1;
                work.solve_alone(&plan, from);
                from = 0;
            }
            self.take(&plan, &mut work, from, usize::MAX);
            self.free.push(work);
        }
        self.last_run.copy_from(&self.decided);
        self.restart();
        Ok(&self.last_run.observables)
    }

    /// Forgets an unfinished run.
    pub fn restart(&mut self) {
        (self.given, self.window) = (0, 0);
        self.decided.clear();
        self.front = -FAR;
        self.recent.clear();
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                // What a helper still has comes back later, and nothing waits for it.
                Slot::Sent { nodes, .. } => self.spare_nodes.push(nodes),
                Slot::Solved(work) => self.free.push(work),
            }
        }
        self.free.extend(self.newest.take().map(|(work, _)| work));
    }

    /// Keeps the defects of a round that is like this layer of the graph, but for those that flip no observable.
    fn remember(&mut self, round: usize, defects: &[u32], layer: usize) {
        let Self { plan, recent, .. } = self;
        let speaking = defects.iter().filter(|&&position| !plan.is_silent(layer, position));
        recent.extend(speaking.map(|&position| (round, position)));
    }

    /// A window with the recent defects.
    fn prepare(&mut self, plan: &Plan, place: Place) -> Box<Work> {
        while self.free.is_empty() && !self.slots.is_empty() {
            // Every window is on its way: the oldest is joined, which frees the one before it.
            self.solve_first(plan);
            self.join_solved(plan);
        }
        // A helper that died, or one that is late, has kept its window.
        let mut work = self.free.pop().unwrap_or_else(|| Box::new(Work::new(plan)));
        self.tickets += 1;
        work.place(self.tickets, place);
        let bases = &plan.places(place.kind).bases;
        let known = self.recent.partition_point(|&(round, _)| round < place.begin);
        let nodes = self.recent[known..]
            .iter()
            .map(|&(round, position)| bases[round - place.begin + place.layer] + position);
        work.nodes.extend(nodes);
        work
    }

    /// Gives a window to the helpers. If one waits for each of them, the caller solves the oldest of these first.
    fn hand_out(&mut self, plan: &Plan, place: Place) {
        self.collect();
        let mut work = self.prepare(plan, place);
        let mut nodes = self.spare_nodes.pop().unwrap_or_default();
        nodes.clear();
        nodes.extend_from_slice(&work.nodes);
        let ticket = work.ticket;
        loop {
            match self.helpers.give(work) {
                Ok(()) => return self.slots.push_back(Slot::Sent { ticket, place, nodes }),
                Err(back) => work = back,
            }
            if !self.solve_waiting(plan) {
                break;
            }
        }
        self.spare_nodes.push(nodes);
        work.solve(plan);
        self.slots.push_back(Slot::Solved(work));
    }

    /// Solves the oldest window that no thread has begun, if there is one.
    fn solve_waiting(&mut self, plan: &Plan) -> bool {
        let Ok(mut work) = take_waiting(&self.helpers.waiting) else { return false };
        work.solve(plan);
        self.put_back(work);
        true
    }

    /// Takes back what helpers have solved.
    fn collect(&mut self) {
        while let Ok(work) = self.helpers.solved.try_recv() {
            self.put_back(work);
        }
        self.helpers.count_lost();
    }

    fn put_back(&mut self, work: Box<Work>) {
        let sent = |slot: &Slot| matches!(slot, Slot::Sent { ticket, .. } if *ticket == work.ticket);
        match self.slots.iter().position(sent) {
            Some(at) => {
                if let Slot::Sent { nodes, .. } = std::mem::replace(&mut self.slots[at], Slot::Solved(work)) {
                    self.spare_nodes.push(nodes);
                }
            }
            // The caller solved it, or the run was given up.
            None => self.free.push(work),
        }
    }

    /// Solves windows that no thread has begun, until the oldest window that is not joined is solved. The caller solves that window
    /// itself if a helper has had it for longer than the timeout.
    fn solve_first(&mut self, plan: &Plan) {
        let mut begin = Instant::now();
        loop {
            self.collect();
            if matches!(self.slots.front(), None | Some(Slot::Solved(_))) {
                return;
            }
            if self.solve_waiting(plan) {
                begin = Instant::now();
                continue;
            }
            if self.helpers.threads.is_empty() || begin.elapsed() > self.timeout {
                break;
            }
            std::hint::spin_loop();
        }
        if let Some(Slot::Sent { ticket, place, nodes }) = self.slots.pop_front() {
            let mut work = self.free.pop().unwrap_or_else(|| Box::new(Work::new(plan)));
            work.place(ticket, place);
            work.nodes.extend_from_slice(&nodes);
            work.solve(plan);
            self.spare_nodes.push(nodes);
            self.slots.push_front(Slot::Solved(work));
        }
    }

    /// Joins all windows, in order, when each is solved.
    fn join_all(&mut self, plan: &Plan) {
        while !self.slots.is_empty() {
            self.solve_first(plan);
            self.join_solved(plan);
        }
    }

    /// Joins those windows whose predecessors are joined and that are solved.
    fn join_solved(&mut self, plan: &Plan) {
        while matches!(self.slots.front(), Some(Slot::Solved(_))) {
            let Some(Slot::Solved(mut work)) = self.slots.pop_front() else { return };
            let Some((mut older, from)) = self.newest.take() else {
                self.newest = Some((work, 0));
                continue;
            };
            match self.join(plan, &older, from, &work) {
                Some(round) => {
                    self.take(plan, &mut older, from, round);
                    self.newest = Some((work, round));
                }
                None => {
                    self.join_by_force(plan, &mut older, from, &mut work);
                    self.newest = Some((work, 0));
                }
            }
            self.free.push(older);
        }
    }

    /// Finds the round at which `newer` takes over from `older`, of which the regions before round `from` are another window's. `None` if
    /// there is none.
    fn join(&mut self, plan: &Plan, older: &Work, from: usize, newer: &Work) -> Option<usize> {
        let mine = &older.defects[older.first_from(newer.begin)..];
        let shared = newer.first_from(older.end);
        let theirs = &newer.defects[..shared];
        // They differ if an older join has decided defects here by force.
        let leads_out = |defect: &Solved| defect.oldest >= from && defect.newest == usize::MAX;
        let alone = &older.defects[..older.defects.len() - mine.len()];
        let agree = !alone.iter().any(leads_out)
            && mine.len() == shared
            && mine.iter().zip(theirs).all(|(a, b)| a.key == b.key);
        let middle = newer.expected[0];
        if agree {
            let range = newer.begin.max(from + 1)..=older.end;
            let mut unproved = None;
            for k in 0..=2 * (older.end - newer.begin) {
                // From the middle outwards.
                let half = k.div_ceil(2);
                let round = if k % 2 == 0 { middle + half } else { middle.saturating_sub(half) };
                if !range.contains(&round) {
                    continue;
                }
                match self.try_join(plan, older, newer, mine, theirs, round) {
                    Some(true) => return Some(round),
                    Some(false) => unproved = unproved.or(Some(round)),
                    None => {}
                }
            }
            if let Some(round) = unproved {
                self.decided.forced += 1;
                return Some(round);
            }
        }
        None
    }

    /// Lets the older window decide its regions up to the middle, and solves the newer one anew without them.
    fn join_by_force(&mut self, plan: &Plan, older: &mut Work, from: usize, newer: &mut Work) {
        self.decided.forced += 1;
        older.solve_alone(plan, from);
        let round = newer.expected[0];
        let shared = newer.first_from(older.end);
        for (j, defect) in newer.defects.iter_mut().enumerate() {
            let stays = match older.defects.binary_search_by_key(&defect.key, |d| d.key) {
                Ok(i) => older.defects[i].oldest >= round,
                Err(_) => j >= shared,
            };
            // Those that are decided are left out.
            defect.oldest = if stays { usize::MAX } else { 0 };
        }
        newer.solve_alone(plan, 1);
        self.take(plan, older, 0, round);
    }

    /// Whether the windows can be joined at `round`: each defect has a partner in one of them, and in that one alone. Then, whether
    /// the radii prove the weight. `mine` and `theirs` are the defects that both have.
    fn try_join(
        &self,
        plan: &Plan,
        older: &Work,
        newer: &Work,
        mine: &[Solved],
        theirs: &[Solved],
        round: usize,
    ) -> Option<bool> {
        // Near the last rounds of a run, distances are other than in its middle.
        let last =
            if newer.kind == Kind::Last { newer.end - plan.layers.tail() - plan.context } else { usize::MAX };
        let beyond = &newer.defects[theirs.len()..];
        let alone = &older.defects[..older.defects.len() - mine.len()];
        // How far regions or pairs reach that only one window has, or that differ.
        let (mut until, mut since, mut newest) = (self.front, i64::MAX, 0);
        for (a, b) in mine.iter().zip(theirs) {
            let is_left = a.oldest < round;
            if is_left == (b.oldest >= round) || (if is_left { a.newest } else { b.newest }) == usize::MAX {
                return None;
            }
            if is_left {
                newest = newest.max(a.newest);
            }
            if a.evidence != b.evidence {
                if is_left {
                    until = until.max(a.until(plan));
                } else {
                    since = since.min(b.since(plan));
                }
            }
        }
        for defect in alone {
            until = until.max(defect.until(plan));
        }
        for defect in beyond {
            if defect.oldest < round {
                return None;
            }
            since = since.min(defect.since(plan));
        }
        Some(until <= since && newest < last)
    }

    /// Adds the pairs of `work` whose oldest rounds are from `from` to before `to`.
    fn take(&mut self, plan: &Plan, work: &mut Work, from: usize, to: usize) {
        if work.expected != [from, to] {
            work.read(plan, [from, to]);
        }
        self.front = self.front.max(work.front);
        work.add_to(&mut self.decided);
    }
}
