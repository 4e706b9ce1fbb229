//! One run on several cores: windows that overlap are matched at the same time, and joined where they agree.
//!
//! All regions of a window grow from nothing at once, so what becomes of a defect depends on what is near it. In the middle of what
//! two windows share, both have the same regions with the same radii, and there is a round before which the older window's pairs
//! are taken, and from which on the newer one's. The radii prove the weight of the whole run if no region taken from one window
//! overlaps one taken from the other. Two such regions do not overlap if one of them is the same in both windows, since neither
//! window has an overlap; all others are compared by the rounds that they reach into. A join without this proof is counted.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Shape;
use crate::blossom::{Blossom, Tables};
use crate::error::{RoundsError, SlidingError};
use crate::graph::MatchingGraph;
use crate::layers::{Layers, Window, check};
use crate::metric::{FAR, Metric};
use crate::parallel::next;
use crate::queue::RadixQueue;
use crate::readout::Answer;

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
            observables_only: false,
        }
    }
}

/// The tables that all threads share: one graph, in which all windows lie.
#[derive(Debug)]
struct Plan {
    layers: Layers,
    graph: MatchingGraph,
    metric: Metric,
    bases: Vec<u32>,
    layer_of: Vec<u32>,
    context: usize,
    overlap: usize,
    step: usize,
    /// The least grid weight of an edge per round that the edge spans.
    per_round: i64,
    /// The round at which the first two windows are joined.
    first_join: usize,
    scale: f64,
    /// Per layer of a window, counted from its first and from its last one, and per detector: the distance to the nearest one in
    /// front of the window, and to the nearest one behind it.
    fronts: Vec<Vec<i64>>,
    backs: Vec<Vec<i64>>,
}

impl Plan {
    fn new(
        graph: &MatchingGraph,
        rounds: &[u32],
        config: &SharedEndlessConfig,
    ) -> Result<Self, SlidingError> {
        let Shape { layers, step: per_round, context } =
            Shape::new(graph, rounds, Layers::new(graph, rounds)?)?;
        let or = |given: usize, default: usize| if given == 0 { default } else { given };
        let overlap = or(config.overlap, context.max(8));
        let step = or(config.step, (2 * context).max(8));
        // Room for the longest window, the last one, and for the rounds before and after it that a shortest path can lead over.
        let length = overlap.saturating_mul(2).saturating_add(step).saturating_add(2 * context);
        let longest = length.saturating_add(layers.head()).saturating_add(layers.tail());
        if longest.saturating_mul(layers.most_detectors()) > crate::MAX_DETECTORS as usize {
            return Err(SlidingError::Window { window: length, commit: step });
        }
        let Window { graph: run, bases, layer_of } = layers.whole(length)?;
        if run.parts().contains(&false) {
            return Err(SlidingError::NoBoundary { window: length });
        }
        let run = if config.observables_only { run.for_observables(false) } else { run };
        let metric = Metric::new(&run, config.near_entries);
        let (first_join, scale) = (layers.head() + context + overlap, graph.scale());
        let border = Border { graph: &run, bases: &bases, layer_of: &layer_of };
        // Two defects that are further from each other than both are from the boundary do not interact.
        let out = |node: u32| metric.nodes[node as usize].boundary;
        let widest = (0..run.num_detectors() as u32).map(out).max().unwrap_or(0);
        let cut = |distances: Vec<i64>, base: u32| -> Vec<i64> {
            let limit = |position: usize| out(base + position as u32) + widest;
            distances.into_iter().enumerate().map(|(i, d)| if d <= limit(i) { d } else { FAR }).collect()
        };
        // Layers of the repeating part, with as many before and after them as a shortest path can lead over.
        let (begin, reach) = (layers.head() + context, 2 * context.min(overlap + step));
        let from_before = border.distances(|layer| layer < begin);
        let end = begin + 2 * overlap + step;
        let from_after = border.distances(|layer| layer >= end);
        let row = |distances: &[i64], layer: usize| {
            let nodes = bases[layer]..bases[layer + 1];
            cut(distances[nodes.start as usize..nodes.end as usize].to_vec(), nodes.start)
        };
        let fronts = (begin..begin + reach).map(|layer| row(&from_before, layer)).collect();
        let backs = (0..reach).map(|k| row(&from_after, end - 1 - k)).collect();
        Ok(Self {
            layers,
            graph: run,
            metric,
            bases,
            layer_of,
            context,
            overlap,
            step,
            per_round,
            first_join,
            scale,
            fronts,
            backs,
        })
    }

    fn tables(&self) -> Tables<'_> {
        Tables { graph: &self.graph, metric: &self.metric }
    }

    /// The round at which window `k` is joined to the next one.
    fn join(&self, k: usize) -> usize {
        self.first_join + k * self.step
    }

    /// The first round of window `k`, and the round after its last unless it is the last window.
    fn window(&self, k: usize) -> [usize; 2] {
        let begin = k.checked_sub(1).map_or(0, |before| self.join(before) - self.overlap);
        [begin, self.join(k) + self.overlap]
    }
}

/// What distances from a set of layers are searched in.
struct Border<'a> {
    graph: &'a MatchingGraph,
    bases: &'a [u32],
    layer_of: &'a [u32],
}

impl Border<'_> {
    /// The distance of each node from the layers `outside`.
    fn distances(&self, outside: impl Fn(usize) -> bool) -> Vec<i64> {
        let n = self.layer_of.len() as u32;
        let mut distances = vec![FAR; n as usize];
        let mut queue = RadixQueue::new(n as usize);
        queue.restart();
        for node in 0..n {
            queue.forget(node);
            if outside(self.layer_of[node as usize] as usize) {
                distances[node as usize] = 0;
                queue.push(node, 0);
            }
        }
        debug_assert_eq!(self.bases.last(), Some(&n));
        while let Some((dist, node)) = queue.pop() {
            for nb in self.graph.neighbours(node) {
                let through = dist + i64::from(nb.weight);
                if through < distances[nb.node as usize] {
                    distances[nb.node as usize] = through;
                    queue.push(nb.node, through);
                }
            }
        }
        distances
    }
}

/// A window: its defects, and their regions once it is solved.
#[derive(Debug)]
struct Work {
    /// Tells this window from all others of the decoder.
    ticket: u64,
    /// The rounds of the window, and the layer of the graph that its first round lies in.
    begin: usize,
    end: usize,
    layer: usize,
    /// Whether regions stop where rounds before it, or after it, begin; and whether it has the last rounds of the run.
    has_front: bool,
    has_back: bool,
    is_last: bool,
    nodes: Vec<u32>,
    blossom: Blossom,
    extents: Vec<[u32; 2]>,
    defects: Vec<Solved>,
    /// The joins at which the window is expected to begin and to end, and the answer between them.
    expected: [usize; 2],
    answer: Answer,
    /// The latest time that the regions between them cover.
    front: i64,
}

/// What joins ask of a defect.
#[derive(Debug, Clone, Copy)]
struct Solved {
    /// Its round, and its place there.
    key: (usize, u32),
    /// The oldest and the newest round of its region and of that region's partner; `usize::MAX` is the newest of a region
    /// that would be matched with something outside the window.
    oldest: usize,
    newest: usize,
    reach: i64,
}

impl Work {
    fn new(plan: &Plan) -> Self {
        let n = plan.graph.num_detectors();
        Self {
            ticket: 0,
            begin: 0,
            end: 0,
            layer: 0,
            has_front: false,
            has_back: false,
            is_last: false,
            nodes: Vec::with_capacity(n),
            blossom: Blossom::with_nodes(n),
            extents: vec![[0; 2]; n + n / 2 + 1],
            defects: Vec::with_capacity(n),
            expected: [0; 2],
            answer: Answer::with_room(n, plan.graph.num_edges(), plan.graph.observable_words()),
            front: -FAR,
        }
    }

    /// Begins without defects.
    fn place(&mut self, ticket: u64, place: Place) {
        let Place { begin, end, layer, expected, is_last } = place;
        (self.ticket, self.begin, self.end, self.layer) = (ticket, begin, end, layer);
        (self.has_front, self.has_back) = (begin > 0, !is_last);
        (self.is_last, self.expected) = (is_last, expected);
        self.nodes.clear();
    }

    fn solve(&mut self, plan: &Plan) {
        let Self { begin, end, layer, nodes, blossom, extents, defects, .. } = self;
        let (begin, layer, length) = (*begin, *layer, *end - *begin);
        let (has_front, has_back) = (self.has_front, self.has_back);
        let border = |node: u32| {
            let layer_of_node = plan.layer_of[node as usize] as usize;
            let (at, position) = (layer_of_node - layer, (node - plan.bases[layer_of_node]) as usize);
            let to = |rows: &[Vec<i64>], at: usize| rows.get(at).map_or(FAR, |row| row[position]);
            let front = if has_front { to(&plan.fronts, at) } else { FAR };
            let back = if has_back { to(&plan.backs, length - 1 - at) } else { FAR };
            front.min(back)
        };
        blossom.begin(plan.tables());
        let matched = blossom.resume(plan.tables(), nodes, 0, |_| FAR, border);
        debug_assert!(matched, "every part has a boundary");
        blossom.forget_nodes();
        blossom.extents(|node| plan.layer_of[node as usize], extents);
        let round = |layer_of_node: u32| layer_of_node as usize + begin - layer;
        defects.clear();
        defects.extend((0..).zip(&*nodes).map(|(i, &node)| {
            let layer = plan.layer_of[node as usize];
            let [oldest, newest] = extents[blossom.outermost(i) as usize];
            let newest = if newest == u32::MAX { usize::MAX } else { round(newest) };
            let key = (round(layer), node - plan.bases[layer as usize]);
            Solved { key, oldest: round(oldest), newest, reach: blossom.covered(i) }
        }));
        self.read(plan, self.expected);
    }

    /// Solves the defects whose pairs of regions have no round before `from`, as if the run had no others.
    fn solve_alone(&mut self, plan: &Plan, from: usize) {
        let Self { nodes, defects, .. } = self;
        let mut defects = defects.iter();
        nodes.retain(|_| defects.next().is_some_and(|defect| defect.oldest >= from));
        (self.has_front, self.has_back, self.expected[0]) = (false, false, 0);
        self.solve(plan);
    }

    /// Whether a pair that is taken from round `from` on leads out of the window.
    fn leads_out(&self, from: usize) -> bool {
        self.defects.iter().any(|defect| defect.oldest >= from && defect.newest == usize::MAX)
    }

    /// Reads the pairs whose oldest rounds are from `from` to before `to`.
    fn read(&mut self, plan: &Plan, [from, to]: [usize; 2]) {
        self.expected = [from, to];
        let Self { blossom, extents, begin, layer, answer, defects, front, .. } = self;
        let taken = defects.iter().filter(|d| (from..to).contains(&d.oldest));
        *front = taken.map(|d| d.key.0 as i64 * plan.per_round + d.reach).max().unwrap_or(-FAR);
        let oldest = |top: u32| extents[top as usize][0] as usize + *begin - *layer;
        answer.clear();
        answer.compose(plan.tables(), |out| {
            out.regions_of(blossom, |top| {
                (from..to).contains(&oldest(top)) && extents[top as usize][1] != u32::MAX
            });
        });
    }

    /// The first defect of round `round` or a later one.
    fn first_from(&self, round: usize) -> usize {
        self.defects.partition_point(|defect| defect.key.0 < round)
    }
}

/// Where a window lies.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its rounds, and the layer of the graph that its first round lies in.
    begin: usize,
    end: usize,
    layer: usize,
    /// The joins between which its pairs are probably taken.
    expected: [usize; 2],
    is_last: bool,
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

#[derive(Debug)]
struct Helper {
    /// `None` tells the helper to end.
    to: Option<SyncSender<Box<Work>>>,
    from: Receiver<Box<Work>>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            // A helper that panicked was counted, and the caller solved its window.
            let _ = thread.join();
        }
    }
}

/// A decoder for runs of any length in one pass, as [`EndlessDecoder`](super::EndlessDecoder), that shares one run among cores.
///
/// The run is cut into windows that overlap. Helpers match windows as soon as their rounds are known, each anew and several at
/// a time, and the caller's thread joins each window to the one before it where both agree. The answer has the least weight for
/// the whole run unless [`forced`](Self::forced) has counted, and does not depend on which thread was faster. All windows but the
/// last are matched before the run ends, or are being matched then; the caller matches the last one.
///
/// A helper that panics is counted by [`lost`](Self::lost), and the caller matches its window and all that it would have got. The caller
/// does so, too, if a helper takes longer than [`SharedEndlessConfig::timeout`]. The threads end when the decoder is dropped.
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
    helpers: Vec<Helper>,
    lost: usize,
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
    /// The latest time that a region of a window before the newest covers, in weight from the beginning of the run.
    front: i64,
    observables: Vec<u64>,
    last_answer: Vec<u64>,
    grid_weight: i64,
    forced: u64,
    last_forced: u64,
    last_weight: i64,
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
        let on_start = Arc::new(on_start);
        let mut helpers = Vec::new();
        for k in 1..config.cores.get() {
            let (to, inbox) = sync_channel(1);
            let (outbox, from) = sync_channel(1);
            let (plan, on_start, spin) = (Arc::clone(&plan), Arc::clone(&on_start), config.spin);
            let thread = std::thread::Builder::new()
                .name(format!("endless-{k}"))
                .spawn(move || {
                    on_start(k);
                    help(&inbox, &outbox, &plan, spin);
                })
                .map_err(|error| RoundsError::Thread { kind: error.kind() })?;
            helpers.push(Helper { to: Some(to), from, is_busy: false, thread: Some(thread) });
        }
        let n = plan.graph.num_detectors();
        let words = plan.graph.observable_words();
        // One with each helper, the caller's, the newest, and one that waits to be joined for each helper.
        let count = 2 * helpers.len() + 2;
        Ok(Self {
            timeout: config.timeout,
            lost: 0,
            free: (0..count).map(|_| Box::new(Work::new(&plan))).collect(),
            slots: VecDeque::with_capacity(count),
            spare_nodes: (0..count).map(|_| Vec::with_capacity(n)).collect(),
            tickets: 0,
            given: 0,
            window: 0,
            recent: Vec::with_capacity(n),
            newest: None,
            front: -FAR,
            observables: vec![0; words],
            last_answer: vec![0; words],
            grid_weight: 0,
            forced: 0,
            last_forced: 0,
            last_weight: 0,
            helpers,
            plan,
        })
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
        let grid = if self.given == 0 { self.last_weight } else { self.grid_weight };
        grid as f64 / 2.0 / self.plan.scale
    }

    /// How many windows of this run were joined without a proof that their pairs have the least weight for the whole run; after
    /// [`finish`](Self::finish), of the whole run, until the next begins.
    pub fn forced(&self) -> u64 {
        if self.given == 0 { self.last_forced } else { self.forced }
    }

    /// Helpers that have panicked since the decoder was made.
    pub fn lost(&self) -> usize {
        self.lost
    }

    /// Takes the defects of the next round, as strictly increasing positions among its detectors. Returns true if a window was
    /// complete.
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the decoder has then not taken the round.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        check(defects, self.plan.layers.detectors(self.given), self.given)?;
        let rounds = self.plan.window(self.window);
        self.remember(self.given, defects, self.given.min(self.plan.layers.head()));
        self.given += 1;
        if self.given < rounds[1] {
            return Ok(false);
        }
        let plan = Arc::clone(&self.plan);
        let [begin, end] = rounds;
        let layer = begin.min(plan.layers.head() + plan.context);
        let expected = [self.window.checked_sub(1).map_or(0, |k| plan.join(k)), plan.join(self.window)];
        self.hand_out(&plan, Place { begin, end, layer, expected, is_last: false });
        self.window += 1;
        let begin = plan.window(self.window)[0];
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
        let begin = plan.window(self.window)[0];
        let end = self.given + plan.layers.tail();
        let layers = plan.bases.len() - 1;
        let layer = layers - (end - begin);
        for (t, defects) in tail.iter().enumerate() {
            self.remember(self.given + t, defects, layers - tail.len() + t);
        }
        let expected = [plan.join(self.window - 1), usize::MAX];
        let mut work = self.prepare(&plan, Place { begin, end, layer, expected, is_last: true });
        work.solve(&plan);
        self.slots.push_back(Slot::Solved(work));
        self.join_all(&plan);
        if let Some((mut work, mut from)) = self.newest.take() {
            if work.leads_out(from) {
                self.forced += 1;
                work.solve_alone(&plan, from);
                from = 0;
            }
            self.take(&plan, &mut work, from, usize::MAX);
            self.free.push(work);
        }
        (self.last_forced, self.last_weight) = (self.forced, self.grid_weight);
        self.last_answer.copy_from_slice(&self.observables);
        self.restart();
        Ok(&self.last_answer)
    }

    /// Forgets an unfinished run.
    pub fn restart(&mut self) {
        (self.given, self.window, self.grid_weight, self.forced) = (0, 0, 0, 0);
        self.front = -FAR;
        self.recent.clear();
        self.observables.fill(0);
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
        let base = plan.bases[layer];
        let speaking = defects.iter().filter(|&&position| !plan.graph.is_silent(base + position));
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
        let nodes = self
            .recent
            .iter()
            .map(|&(round, position)| plan.bases[round - place.begin + place.layer] + position);
        work.nodes.extend(nodes);
        work
    }

    /// Gives a window to an idle helper, or solves it here.
    fn hand_out(&mut self, plan: &Plan, place: Place) {
        self.collect();
        let mut work = self.prepare(plan, place);
        let mut nodes = self.spare_nodes.pop().unwrap_or_default();
        nodes.clear();
        nodes.extend_from_slice(&work.nodes);
        let ticket = work.ticket;
        for helper in self.helpers.iter_mut().filter(|helper| !helper.is_busy) {
            let Some(to) = &helper.to else { continue };
            match to.try_send(work) {
                Ok(()) => {
                    helper.is_busy = true;
                    return self.slots.push_back(Slot::Sent { ticket, place, nodes });
                }
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                    work = back;
                }
            }
        }
        self.spare_nodes.push(nodes);
        work.solve(plan);
        self.slots.push_back(Slot::Solved(work));
    }

    /// Takes back what helpers have solved.
    fn collect(&mut self) {
        let Self { helpers, slots, free, spare_nodes, lost, .. } = self;
        for helper in helpers.iter_mut().filter(|helper| helper.is_busy || helper.to.is_some()) {
            match helper.from.try_recv() {
                Ok(work) => {
                    helper.is_busy = false;
                    let its = slots
                        .iter_mut()
                        .find(|slot| matches!(slot, Slot::Sent { ticket, .. } if *ticket == work.ticket));
                    match its {
                        Some(slot) => {
                            if let Slot::Sent { nodes, .. } = std::mem::replace(slot, Slot::Solved(work)) {
                                spare_nodes.push(nodes);
                            }
                        }
                        // The caller solved it, or the run was given up.
                        None => free.push(work),
                    }
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    (helper.to, helper.is_busy) = (None, false);
                    *lost += 1;
                }
            }
        }
    }

    /// Waits for the oldest window that is not joined, or solves it here when the timeout has passed.
    fn solve_first(&mut self, plan: &Plan) {
        let begin = Instant::now();
        loop {
            self.collect();
            if matches!(self.slots.front(), None | Some(Slot::Solved(_))) {
                return;
            }
            let alive = self.helpers.iter().any(|helper| helper.is_busy);
            if !alive || begin.elapsed() > self.timeout {
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
                self.forced += 1;
                return Some(round);
            }
        }
        None
    }

    /// Lets the older window decide its regions up to the middle, and solves the newer one anew without them.
    fn join_by_force(&mut self, plan: &Plan, older: &mut Work, from: usize, newer: &mut Work) {
        self.forced += 1;
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
        let last = if newer.is_last { newer.end - plan.layers.tail() - plan.context } else { usize::MAX };
        let beyond = &newer.defects[theirs.len()..];
        let alone = &older.defects[..older.defects.len() - mine.len()];
        let time = |defect: &Solved| defect.key.0 as i64 * plan.per_round;
        // How far regions reach that only one window has, or that differ.
        let (mut until, mut since, mut newest) = (self.front, i64::MAX, 0);
        for (a, b) in mine.iter().zip(theirs) {
            let is_left = a.oldest < round;
            if is_left == (b.oldest >= round) || (if is_left { a.newest } else { b.newest }) == usize::MAX {
                return None;
            }
            if is_left {
                newest = newest.max(a.newest);
            }
            if a.reach != b.reach {
                if is_left {
                    until = until.max(time(a) + a.reach);
                } else {
                    since = since.min(time(b) - b.reach);
                }
            }
        }
        for defect in alone {
            until = until.max(time(defect) + defect.reach);
        }
        for defect in beyond {
            if defect.oldest < round {
                return None;
            }
            since = since.min(time(defect) - defect.reach);
        }
        Some(until <= since && newest < last)
    }

    /// Adds the pairs of `work` whose oldest rounds are from `from` to before `to`.
    fn take(&mut self, plan: &Plan, work: &mut Work, from: usize, to: usize) {
        if work.expected != [from, to] {
            work.read(plan, [from, to]);
        }
        let Self { observables, grid_weight, front, .. } = self;
        *front = (*front).max(work.front);
        *grid_weight += work.answer.solution.grid_weight();
        for (word, flips) in observables.iter_mut().zip(work.answer.solution.observables()) {
            *word ^= flips;
        }
    }
}

/// The body of a helper thread, which ends with its channels.
fn help(inbox: &Receiver<Box<Work>>, outbox: &SyncSender<Box<Work>>, plan: &Plan, spin: Duration) {
    while let Some(mut work) = next(inbox, spin) {
        work.solve(plan);
        if outbox.send(work).is_err() {
            return;
        }
    }
}
