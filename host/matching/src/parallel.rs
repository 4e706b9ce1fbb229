//! Parallel matching: slabs of rounds are solved on several cores, then fused.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::blossom::{Blossom, Tables};
use crate::correlated::SecondPass;
use crate::decoder::{MwpmDecoder, Shared};
use crate::error::{MatchingError, RoundsError};
use crate::graph::NONE;
use crate::input::Intake;
use crate::metric::FAR;
use crate::readout::Answer;
use crate::solution::{CertificateError, Solution};

/// The configuration of a [`ParallelDecoder`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParallelConfig {
    /// The most slabs, and threads that solve them: the caller's thread, and one less than this number of helpers.
    pub cores: NonZeroUsize,
    /// The fewest rounds of a slab; with fewer rounds than twice this number, the caller solves alone. `None` takes seven times
    /// the square root of the detectors of a round, about seven times a surface code's distance: near a slab's ends regions wait
    /// for the other slab, and in thinner slabs so many do that several cores take longer than one.
    pub least_rounds: Option<NonZeroU32>,
    /// The caller alone solves syndromes with fewer defects than this: handing work over costs some microseconds.
    pub least_defects: usize,
    /// How long a thread without work polls before it sleeps (waking it costs tens of microseconds).
    pub spin: Duration,
}

impl ParallelConfig {
    /// The number of slabs for this many detectors, the last of them in round `last`.
    fn slabs(&self, detectors: usize, last: u32) -> usize {
        let rounds = f64::from(last) + 1.0;
        let least = match self.least_rounds {
            Some(least) => f64::from(least.get()),
            None => (7.0 * (detectors as f64 / rounds).sqrt()).max(1.0),
        };
        self.cores.get().min((rounds / least) as usize).max(1)
    }

    /// The default trade-offs for this many cores.
    pub fn new(cores: NonZeroUsize) -> Self {
        Self { cores, least_rounds: None, least_defects: 128, spin: Duration::from_millis(2) }
    }
}

/// The slab of each node, and its distance to the next node outside the slab.
#[derive(Debug)]
struct Slabs {
    /// [`BETWEEN`] for the nodes that separate slabs: no edge joins two slabs.
    of: Vec<u32>,
    borders: Vec<u32>,
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
        // A node with a neighbour in an earlier slab separates its own slab from that one.
        let between =
            |u: usize| tables.graph.neighbours(u as u32).iter().any(|v| slab(v.node as usize) < slab(u));
        let of: Vec<u32> = (0..n).map(|u| if between(u) { BETWEEN } else { slab(u) }).collect();
        let border = |u: usize| {
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
        let borders = (0..n).map(border).collect();
        Ok(Self { of, borders })
    }

    fn border(&self) -> impl Fn(u32) -> i64 {
        |node| match self.borders[node as usize] {
            u32::MAX => FAR,
            dist => dist.into(),
        }
    }
}

/// The work that goes to a helper and comes back.
#[derive(Debug)]
struct Work {
    defects: Vec<u32>,
    blossom: Blossom,
}

#[derive(Debug)]
struct Helper {
    /// The helper's work, while the caller has it.
    work: Option<Box<Work>>,
    /// `None` tells the helper to end.
    to: Option<SyncSender<Box<Work>>>,
    from: Receiver<Box<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            // The thread panics only by a defect of this crate, which the decode that met it has handled.
            let _ = thread.join();
        }
    }
}

/// A decoder that splits a syndrome into slabs of rounds, solves them on several cores, and fuses the solutions.
///
/// The answer is of minimum weight, as that of a [`MwpmDecoder`]. The calling thread makes a second pass for correlations, over the
/// whole syndrome. Several cores pay for runs that are much longer than the distance, such as 400 rounds at distance 13; shorter
/// ones are not divided ([`ParallelConfig::least_rounds`]). The threads end when the decoder is dropped.
///
/// ```
/// use ringcall_matching::{GraphBuilder, MwpmDecoder, ParallelConfig, ParallelDecoder};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A long chain, a detector per round.
/// let mut b = GraphBuilder::new();
/// b.boundary_edge(0, 1.0, &[])?.boundary_edge(999, 1.0, &[0])?;
/// for i in 0..999 {
///     b.edge(i, i + 1, 1.0, &[])?;
/// }
/// let rounds: Vec<u32> = (0..1000).collect();
/// let config = ParallelConfig::new(2.try_into()?);
/// let mut decoder = ParallelDecoder::new(&MwpmDecoder::new(b.build()?), &rounds, &config)?;
/// let defects: Vec<u32> = (0..1000).step_by(3).collect();
/// assert!((decoder.decode(&defects)?.weight() - 500.0).abs() < 1e-6);
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
    intake: Intake,
    /// The defects of the caller's slab, and those between slabs.
    own: Vec<u32>,
    between: Vec<u32>,
    answer: Answer,
    second: Option<Box<SecondPass>>,
}

impl ParallelDecoder {
    /// Makes a decoder on the graph of `decoder`, whose tables it shares; detector `i` belongs to round `rounds[i]`. The new
    /// decoder makes a second pass for correlations if `decoder` does.
    ///
    /// # Errors
    /// [`RoundsError::Length`] if there is not one round for each detector, [`RoundsError::Thread`] if a thread could not be
    /// started.
    pub fn new(decoder: &MwpmDecoder, rounds: &[u32], config: &ParallelConfig) -> Result<Self, RoundsError> {
        let shared = Arc::clone(decoder.shared());
        let tables = shared.tables();
        let n = tables.graph.num_detectors();
        let cores = config.slabs(n, rounds.iter().copied().max().unwrap_or(0));
        let slabs = Arc::new(Slabs::new(tables, rounds, cores)?);
        let mut helpers = Vec::new();
        for k in 1..cores {
            let work = Work { defects: Vec::with_capacity(n), blossom: Blossom::new(tables) };
            let (to, inbox) = sync_channel(1);
            let (outbox, from) = sync_channel(1);
            let (shared, slabs, spin) = (Arc::clone(&shared), Arc::clone(&slabs), config.spin);
            let thread = std::thread::Builder::new()
                .name(format!("matching-{k}"))
                .spawn(move || help(&inbox, &outbox, &shared, &slabs, spin))
                .map_err(|error| RoundsError::Thread { kind: error.kind() })?;
            helpers.push(Helper { work: Some(Box::new(work)), to: Some(to), from, thread: Some(thread) });
        }
        Ok(Self {
            slabs,
            config: config.clone(),
            blossom: Blossom::new(tables),
            own: Vec::with_capacity(n),
            between: Vec::with_capacity(n),
            intake: Intake::new(tables.graph, decoder.makes_second_pass()),
            helpers,
            answer: Answer::new(tables.graph),
            second: decoder.makes_second_pass().then(|| shared.second_pass()),
            shared,
        })
    }

    /// As [`MwpmDecoder::decode`].
    ///
    /// # Errors
    /// As [`MwpmDecoder::decode`].
    pub fn decode(&mut self, defects: &[u32]) -> Result<&Solution, MatchingError> {
        self.answer.clear();
        let shared = Arc::clone(&self.shared);
        let tables = shared.tables();
        self.intake.take(tables.graph, defects)?;
        if self.helpers.is_empty()
            || self.intake.defects.len() < self.config.least_defects
            || !self.share(tables)
        {
            self.blossom.solve(tables, &self.intake.defects);
        }
        let Self { answer, blossom, second, .. } = self;
        answer.read(tables, blossom, second.as_deref_mut());
        Ok(&self.answer.solution)
    }

    /// Solves with the helpers. Returns false if a helper has died.
    fn share(&mut self, tables: Tables<'_>) -> bool {
        let Self { slabs, blossom, helpers, intake, own, between, .. } = self;
        let defects = &intake.defects;
        if helpers.iter().any(|helper| helper.work.is_none()) {
            return false;
        }
        let slabs: &Slabs = slabs;
        let in_slab = |k: u32| defects.iter().filter(move |&&d| slabs.of[d as usize] == k);
        for (k, helper) in (1..).zip(&mut *helpers) {
            if let (Some(mut work), Some(to)) = (helper.work.take(), &helper.to) {
                work.defects.clear();
                work.defects.extend(in_slab(k));
                // The channel is empty. If its other end is gone, no work will come back.
                let _ = to.try_send(work);
            }
        }
        own.clear();
        own.extend(in_slab(0));
        blossom.begin(tables);
        blossom.resume(tables, own, 0, |_| FAR, slabs.border());
        let mut alive = true;
        for helper in &mut *helpers {
            helper.wait();
            match &helper.work {
                Some(work) => blossom.append(&work.blossom),
                None => alive = false,
            }
        }
        if alive {
            between.clear();
            between.extend(in_slab(BETWEEN));
            let matched = blossom.resume(tables, between, 0, slabs.border(), |_| FAR);
            debug_assert!(matched, "the parities were checked");
        }
        blossom.forget_nodes();
        alive
    }

    /// The edges of the last solution, as [`MwpmDecoder::correction`].
    pub fn correction(&mut self) -> &[u32] {
        let second = self.second.as_deref().filter(|second| second.applied());
        self.answer.correction(self.shared.tables(), second)
    }

    /// Proves that the last solution is of minimum weight, from the state that it was read from.
    ///
    /// This is for tests: it searches the whole graph from every defect, and allocates.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify(&mut self) -> Result<(), CertificateError> {
        self.answer.verify_pass(self.shared.tables(), &self.blossom, self.second.as_deref())
    }
}

impl Helper {
    /// Waits for the work to come back; without a helper, there is none. A helper either finishes its slab or dies, so the wait
    /// ends.
    fn wait(&mut self) {
        let mut turns = 0u32;
        loop {
            match self.from.try_recv() {
                Ok(work) => return self.work = Some(work),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => pause(&mut turns),
            }
        }
    }
}

/// One turn of polling. On an oversubscribed machine the other thread may need this very core.
pub(crate) fn pause(turns: &mut u32) {
    *turns = turns.wrapping_add(1);
    if turns.is_multiple_of(1024) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// The body of a helper thread, which ends with its channels.
fn help(
    inbox: &Receiver<Box<Work>>,
    outbox: &SyncSender<Box<Work>>,
    shared: &Shared,
    slabs: &Slabs,
    spin: Duration,
) {
    let tables = shared.tables();
    while let Some(mut work) = next(inbox, spin) {
        let Work { defects, blossom } = &mut *work;
        blossom.begin(tables);
        blossom.resume(tables, defects, 0, |_| FAR, slabs.border());
        blossom.forget_nodes();
        if outbox.send(work).is_err() {
            return;
        }
    }
}

/// Polls for work, then sleeps until work comes; `None` when the channel is closed.
fn next(inbox: &Receiver<Box<Work>>, spin: Duration) -> Option<Box<Work>> {
    let begin = Instant::now();
    let mut turns = 0;
    loop {
        match inbox.try_recv() {
            Ok(work) => return Some(work),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if turns % 256 == 255 && begin.elapsed() > spin => {
                return inbox.recv().ok();
            }
            Err(TryRecvError::Empty) => pause(&mut turns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphBuilder;

    #[test]
    fn without_a_helper_the_caller_solves_alone() {
        let mut b = GraphBuilder::new();
        for i in 0..40 {
            b.edge(i, i + 1, 1.0, &[]).unwrap();
        }
        b.boundary_edge(0, 1.0, &[0]).unwrap();
        let rounds: Vec<u32> = (0..41).collect();
        let mut config = ParallelConfig::new(NonZeroUsize::new(3).unwrap());
        (config.least_defects, config.least_rounds) = (0, NonZeroU32::new(1));
        let mut decoder =
            ParallelDecoder::new(&MwpmDecoder::new(b.build().unwrap()), &rounds, &config).unwrap();
        let defects = [3, 4, 17, 20, 30, 31, 38];
        let expected = decoder.decode(&defects).unwrap().grid_weight();
        // A helper ends when its channel is closed.
        decoder.helpers[0].to = None;
        for _ in 0..3 {
            assert_eq!(decoder.decode(&defects).unwrap().grid_weight(), expected);
            decoder.verify().unwrap();
        }
    }

    #[test]
    fn slabs_are_as_thick_as_configured() {
        let mut config = ParallelConfig::new(NonZeroUsize::new(4).unwrap());
        // As surface codes of distance 31 and 13.
        assert_eq!(
            (config.slabs(32 * 960, 31), config.slabs(190 * 168, 189), config.slabs(400 * 168, 399)),
            (1, 2, 4)
        );
        config.least_rounds = NonZeroU32::new(10);
        assert_eq!(
            [0, 18, 19, 29, 39, 99, u32::MAX].map(|last| config.slabs(50, last)),
            [1, 1, 2, 3, 4, 4, 4]
        );
        config.least_rounds = None;
        assert_eq!(config.slabs(0, 0), 1);
    }

    #[test]
    fn no_more_slabs_than_rounds() {
        let mut b = GraphBuilder::new();
        b.edge(0, 1, 1.0, &[]).unwrap();
        let decoder = MwpmDecoder::new(b.build().unwrap());
        let mut config = ParallelConfig::new(NonZeroUsize::MAX);
        config.least_rounds = NonZeroU32::new(1);
        let parallel = ParallelDecoder::new(&decoder, &[0, 1], &config).unwrap();
        assert_eq!(parallel.helpers.len(), 1);
    }
}
