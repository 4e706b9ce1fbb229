//! One syndrome on several cores: slabs of rounds are solved side by side, then fused.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::blossom::{Blossom, Tables};
use crate::decoder::{Decoder, Shared};
use crate::error::{DecodeError, RoundsError};
use crate::graph::NONE;
use crate::input::{check_parity, in_order, symmetric_difference};
use crate::metric::FAR;
use crate::readout::Answer;
use crate::solution::{CertificateError, Solution};

/// How a [`ParallelDecoder`] shares the work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParallelConfig {
    /// Slabs, and threads that solve them: the caller's and one less of its own.
    pub cores: NonZeroUsize,
    /// Syndromes with fewer defects than this are solved by the caller alone: to hand work over costs some microseconds.
    pub least_defects: usize,
    /// For how long a thread without work polls before it sleeps (being woken costs tens of microseconds).
    pub spin: Duration,
}

impl ParallelConfig {
    /// The usual trade-offs for this many cores.
    pub fn new(cores: NonZeroUsize) -> Self {
        Self { cores, least_defects: 128, spin: Duration::from_millis(2) }
    }
}

/// Which slab each node is in, and how far it is to the next node that is not.
#[derive(Debug)]
struct Slabs {
    /// [`BETWEEN`] for the nodes that separate slabs: no edge joins two slabs.
    of: Vec<u32>,
    fences: Vec<u32>,
}

const BETWEEN: u32 = NONE;

impl Slabs {
    fn new(tables: Tables<'_>, rounds: &[u32], cores: usize) -> Result<Self, RoundsError> {
        let n = tables.graph.num_detectors();
        if rounds.len() != n {
            return Err(RoundsError::Length { found: rounds.len(), expected: n });
        }
        let count = rounds.iter().max().map_or(1, |&last| u64::from(last) + 1);
        let slab = |u: usize| (u64::from(rounds[u]) * cores as u64 / count) as u32;
        // What has a neighbour in an earlier slab separates its own from that one.
        let between =
            |u: usize| tables.graph.neighbours(u as u32).iter().any(|v| slab(v.node as usize) < slab(u));
        let of: Vec<u32> = (0..n).map(|u| if between(u) { BETWEEN } else { slab(u) }).collect();
        let fence = |u: usize| {
            let info = &tables.metric.nodes[u];
            let mut reached = if info.complete { u32::MAX } else { 0 };
            for (node, dist, _) in tables.metric.near.entries(u as u32, info) {
                if of[node as usize] != of[u] {
                    return dist;
                }
                if !info.complete {
                    reached = dist;
                }
            }
            reached
        };
        let fences = (0..n).map(fence).collect();
        Ok(Self { of, fences })
    }

    fn fence(&self) -> impl Fn(u32) -> i64 {
        |node| match self.fences[node as usize] {
            u32::MAX => FAR,
            dist => dist.into(),
        }
    }
}

const IDLE: u32 = 0;
const READY: u32 = 1;
const DONE: u32 = 2;
const STOP: u32 = 3;

/// What a thread and its decoder share. The lock is never contended: the state says whose turn it is.
#[derive(Debug)]
struct Desk {
    state: AtomicU32,
    work: Mutex<Work>,
}

#[derive(Debug)]
struct Work {
    defects: Vec<u32>,
    blossom: Blossom,
}

#[derive(Debug)]
struct Helper {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.desk.state.store(STOP, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only ever panics by a defect of this crate, which the decode that met it has dealt with.
            let _ = thread.join();
        }
    }
}

/// A decoder that splits a syndrome into slabs of rounds, solves them on several cores, and fuses the solutions.
///
/// The answer is of minimum weight, as [`Decoder`]'s. It pays for large distances only; `ringcall bench matching` shows from
/// where on. Its threads end when it is dropped.
///
/// ```
/// use ringcall_matching::{Decoder, GraphBuilder, ParallelConfig, ParallelDecoder};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A long chain, a detector per round.
/// let mut b = GraphBuilder::new();
/// b.boundary_edge(0, 1.0, &[])?.boundary_edge(999, 1.0, &[0])?;
/// for i in 0..999 {
///     b.edge(i, i + 1, 1.0, &[])?;
/// }
/// let rounds: Vec<u32> = (0..1000).collect();
/// let config = ParallelConfig::new(2.try_into()?);
/// let mut decoder = ParallelDecoder::new(&Decoder::new(b.build()?), &rounds, &config)?;
/// let defects: Vec<u32> = (0..1000).step_by(3).collect();
/// assert!((decoder.decode(&defects)?.weight() - 501.0).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ParallelDecoder {
    shared: Arc<Shared>,
    slabs: Arc<Slabs>,
    config: ParallelConfig,
    blossom: Blossom,
    helpers: Vec<Helper>,
    /// The defects of the caller's slab, those between the slabs, and those of the whole syndrome.
    own: Vec<u32>,
    between: Vec<u32>,
    defects: Vec<u32>,
    sorted: Vec<u32>,
    starts: Vec<usize>,
    parity: Vec<u32>,
    odd_parts: bool,
    answer: Answer,
}

impl ParallelDecoder {
    /// A decoder on the graph of `decoder`, whose tables it shares; detector `i` belongs to round `rounds[i]`.
    ///
    /// # Errors
    /// [`RoundsError::Length`] if there is not one round for each detector, [`RoundsError::Thread`] if a thread could not
    /// be started.
    pub fn new(decoder: &Decoder, rounds: &[u32], config: &ParallelConfig) -> Result<Self, RoundsError> {
        let shared = Arc::clone(decoder.shared());
        let tables = shared.tables();
        let n = tables.graph.num_detectors();
        let slabs = Arc::new(Slabs::new(tables, rounds, config.cores.get())?);
        let mut helpers = Vec::with_capacity(config.cores.get() - 1);
        for k in 1..config.cores.get() {
            let work = Work { defects: Vec::with_capacity(n), blossom: Blossom::new(tables) };
            let desk = Arc::new(Desk { state: AtomicU32::new(IDLE), work: Mutex::new(work) });
            let (theirs, shared, slabs) = (Arc::clone(&desk), Arc::clone(&shared), Arc::clone(&slabs));
            let spin = config.spin;
            let thread = std::thread::Builder::new()
                .name(format!("matching-{k}"))
                .spawn(move || help(&theirs, &shared, &slabs, spin))
                .map_err(|error| RoundsError::Thread { kind: error.kind() })?;
            helpers.push(Helper { desk, thread: Some(thread) });
        }
        Ok(Self {
            slabs,
            config: config.clone(),
            blossom: Blossom::new(tables),
            own: Vec::with_capacity(n),
            between: Vec::with_capacity(n),
            defects: Vec::with_capacity(n),
            sorted: Vec::with_capacity(n + 1),
            starts: Vec::with_capacity(helpers.len() + 1),
            helpers,
            parity: vec![NONE; tables.graph.parts().len()],
            odd_parts: tables.graph.parts().iter().any(|open| !open),
            answer: Answer::new(tables.graph),
            shared,
        })
    }

    /// As [`Decoder::decode`].
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode(&mut self, defects: &[u32]) -> Result<&Solution, DecodeError> {
        self.answer.clear();
        let shared = Arc::clone(&self.shared);
        let tables = shared.tables();
        let graph = tables.graph;
        let list = in_order(defects, graph.num_detectors(), &mut self.sorted)?;
        self.defects.clear();
        symmetric_difference(list, &graph.used().detectors, &mut self.defects);
        if self.odd_parts {
            check_parity(graph, &self.defects, &mut self.parity)?;
        }
        if self.helpers.is_empty() || self.defects.len() < self.config.least_defects || !self.share(tables) {
            self.blossom.solve(tables, &self.defects);
        }
        let Self { answer, blossom, .. } = self;
        answer.compose(tables, |out| out.regions(blossom));
        Ok(&self.answer.solution)
    }

    /// Solves with the helpers; `false` if one of them has died.
    fn share(&mut self, tables: Tables<'_>) -> bool {
        let Self { slabs, blossom, helpers, own, between, defects, starts, .. } = self;
        if helpers.iter().any(|helper| helper.desk.state.load(Ordering::Acquire) != IDLE) {
            return false;
        }
        for (k, helper) in (1..).zip(&*helpers) {
            let mut work = helper.desk.work.lock().unwrap_or_else(PoisonError::into_inner);
            work.defects.clear();
            work.defects.extend(defects.iter().filter(|&&d| slabs.of[d as usize] == k));
            drop(work);
            helper.desk.state.store(READY, Ordering::Release);
            if let Some(thread) = &helper.thread {
                thread.thread().unpark();
            }
        }
        own.clear();
        own.extend(defects.iter().filter(|&&d| slabs.of[d as usize] == 0));
        blossom.begin(tables);
        blossom.resume(tables, own, slabs.fence());
        starts.clear();
        starts.push(0);
        let mut alive = true;
        for helper in &*helpers {
            alive &= helper.finished();
            if alive {
                let work = helper.desk.work.lock().unwrap_or_else(PoisonError::into_inner);
                starts.push(blossom.len());
                blossom.append(&work.blossom);
                helper.desk.state.store(IDLE, Ordering::Release);
            }
        }
        if alive {
            between.clear();
            between.extend(defects.iter().filter(|&&d| slabs.of[d as usize] == BETWEEN));
            let matched = blossom.fuse(tables, starts, between, slabs.fence());
            debug_assert!(matched, "the parities were checked");
        }
        blossom.forget_nodes();
        alive
    }

    /// The edges of the last solution, as [`Decoder::correction`].
    pub fn correction(&mut self) -> &[u32] {
        self.answer.correction(self.shared.tables())
    }

    /// Proves that the last solution is of minimum weight, from the state that it was read from.
    ///
    /// This is for tests: it searches the whole graph from every defect, and allocates.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify(&self) -> Result<(), CertificateError> {
        if !self.answer.is_solved() {
            return Err(CertificateError::NothingSolved);
        }
        let tables = self.shared.tables();
        self.blossom.verify(tables, self.answer.solution.grid_weight - tables.graph.used().weight)
    }
}

impl Helper {
    /// Waits until its slab is solved; `false` if its thread has died. A slab takes as long as it takes, and a thread either
    /// finishes it or dies, so the wait ends.
    fn finished(&self) -> bool {
        let mut turns = 0u32;
        while self.desk.state.load(Ordering::Acquire) != DONE {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(1024) {
                if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                    return false;
                }
                // On an oversubscribed machine the helper may be waiting for this very core.
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        true
    }
}

/// A helper's life.
fn help(desk: &Desk, shared: &Shared, slabs: &Slabs, spin: Duration) {
    let tables = shared.tables();
    let mut idle_since: Option<Instant> = None;
    let mut turns = 0u32;
    loop {
        match desk.state.load(Ordering::Acquire) {
            STOP => return,
            READY => {
                idle_since = None;
                let mut work = desk.work.lock().unwrap_or_else(PoisonError::into_inner);
                let Work { defects, blossom } = &mut *work;
                blossom.begin(tables);
                blossom.resume(tables, defects, slabs.fence());
                blossom.forget_nodes();
                drop(work);
                // A stop that came meanwhile must not be overwritten.
                let _ = desk.state.compare_exchange(READY, DONE, Ordering::Release, Ordering::Relaxed);
            }
            _ => {
                turns = turns.wrapping_add(1);
                if turns.is_multiple_of(256) {
                    let since = *idle_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > spin {
                        // A wake-up between the look at the state and here is kept, so none is missed.
                        std::thread::park();
                        idle_since = None;
                    }
                }
                std::hint::spin_loop();
            }
        }
    }
}
