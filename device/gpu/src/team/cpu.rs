//! Teams on a CPU: threads that play lanes and blocks.

use super::{Grid, SpinBarrier, WARP_LANES, Warp};
use crate::atomic::DeviceU64;
use crate::hint;
use crate::pad::CachePadded;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;

/// Most threads of a team: as many operating-system threads are started.
const MOST_THREADS: u32 = 4096;
/// Most threads of a block, as on a device.
const MOST_BLOCK_THREADS: u32 = 1024;

/// What the lanes of one warp share.
#[derive(Debug)]
pub(super) struct WarpTeam {
    barrier: SpinBarrier,
    /// A word per lane for what it offers the others. Relaxed: the barrier orders them.
    offers: Box<[CachePadded<DeviceU64>]>,
}

/// What the threads of one block share.
#[derive(Debug)]
pub(super) struct BlockTeam {
    threads: u32,
    barrier: SpinBarrier,
    warps: Box<[WarpTeam]>,
}

/// What the threads of a grid share.
#[derive(Debug)]
pub(super) struct GridTeam {
    barrier: SpinBarrier,
    blocks: Box<[BlockTeam]>,
    /// Rank + 1 of the thread whose panic broke the barriers; 0 while none did.
    first_panic: DeviceU64,
}

/// Keeps a token on the thread that it was made for.
type OneThread = PhantomData<*const ()>;

/// A lane of a warp; `team` is `None` for a warp of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a> {
    index: u32,
    team: Option<&'a WarpTeam>,
    one_thread: OneThread,
}

/// A thread of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread<'a> {
    index: u32,
    team: Option<&'a BlockTeam>,
    one_thread: OneThread,
}

/// A thread of a grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    block: u32,
    thread: u32,
    team: Option<&'a GridTeam>,
    one_thread: OneThread,
}

fn wait(barrier: &SpinBarrier) {
    if let Err(broken) = barrier.wait() {
        panic!("{broken}");
    }
}

impl Lane<'_> {
    pub(super) fn single() -> Self {
        Self { index: 0, team: None, one_thread: PhantomData }
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn count(&self) -> u32 {
        self.team.map_or(1, |team| team.offers.len() as u32)
    }

    pub(super) fn sync(&self) {
        if let Some(team) = self.team {
            wait(&team.barrier);
        }
    }

    /// Offers `value` to the other lanes and makes something of what they all offer.
    fn exchange<R>(&self, value: u64, read: impl FnOnce(&dyn Fn(u32) -> u64) -> R) -> R {
        let Some(team) = self.team else { return read(&|_| value) };
        let offer = |lane: u32| &team.offers[lane as usize].0;
        offer(self.index).store(value, Relaxed);
        wait(&team.barrier);
        let result = read(&|lane| offer(lane).load(Relaxed));
        // No thread offers again before all threads have read.
        wait(&team.barrier);
        result
    }

    fn fold(&self, value: u64, combine: impl Fn(u64, u64) -> u64) -> u64 {
        self.exchange(value, |offer| (1..self.count()).fold(offer(0), |sum, lane| combine(sum, offer(lane))))
    }

    pub(super) fn shuffle(&self, value: u32, from: u32) -> u32 {
        self.shuffle_u64(value.into(), from) as u32
    }

    pub(super) fn shuffle_u64(&self, value: u64, from: u32) -> u64 {
        self.exchange(value, |offer| offer(from % self.count()))
    }

    pub(super) fn shuffle_xor(&self, value: u32, mask: u32) -> u32 {
        let other = self.index ^ (mask % WARP_LANES);
        let from = if other < self.count() { other } else { self.index };
        self.shuffle(value, from)
    }

    pub(super) fn ballot(&self, vote: bool) -> u32 {
        self.fold(u64::from(vote) << self.index, |a, b| a | b) as u32
    }

    pub(super) fn sum(&self, value: u32) -> u32 {
        self.sum_u64(value.into()) as u32
    }

    pub(super) fn sum_u64(&self, value: u64) -> u64 {
        self.fold(value, u64::wrapping_add)
    }

    pub(super) fn max(&self, value: u32) -> u32 {
        self.fold(value.into(), u64::max) as u32
    }
}

impl<'a> Thread<'a> {
    pub(super) fn single() -> Self {
        Self { index: 0, team: None, one_thread: PhantomData }
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn count(&self) -> u32 {
        self.team.map_or(1, |team| team.threads)
    }

    pub(super) fn lane(&self) -> Lane<'a> {
        let team = self.team.map(|team| &team.warps[(self.index / WARP_LANES) as usize]);
        Lane { index: self.index % WARP_LANES, team, one_thread: PhantomData }
    }

    pub(super) fn sync(&self) {
        if let Some(team) = self.team {
            wait(&team.barrier);
        }
    }
}

impl<'a> Position<'a> {
    pub(super) fn single() -> Self {
        Self { block: 0, thread: 0, team: None, one_thread: PhantomData }
    }

    pub(super) fn block(&self) -> u32 {
        self.block
    }

    pub(super) fn blocks(&self) -> u32 {
        self.team.map_or(1, |team| team.blocks.len() as u32)
    }

    pub(super) fn thread(&self) -> Thread<'a> {
        let team = self.team.map(|team| &team.blocks[self.block as usize]);
        Thread { index: self.thread, team, one_thread: PhantomData }
    }

    pub(super) fn sync(&self) {
        if let Some(team) = self.team {
            wait(&team.barrier);
        }
    }
}

impl WarpTeam {
    fn new(lanes: u32) -> Self {
        let offers = (0..lanes).map(|_| CachePadded::default()).collect();
        Self { barrier: SpinBarrier::new(lanes), offers }
    }
}

impl BlockTeam {
    fn new(threads: u32) -> Self {
        let lanes = |first: u32| (threads - first).min(WARP_LANES);
        let warps = (0..threads).step_by(WARP_LANES as usize).map(|first| WarpTeam::new(lanes(first)));
        Self { threads, barrier: SpinBarrier::new(threads), warps: warps.collect() }
    }
}

impl GridTeam {
    fn new(blocks: u32, threads: u32) -> Self {
        Self {
            barrier: SpinBarrier::new(blocks * threads),
            blocks: (0..blocks).map(|_| BlockTeam::new(threads)).collect(),
            first_panic: DeviceU64::new(0),
        }
    }
}

/// Tells the others when a thread's work ends, however it ends.
struct Attendance<'a> {
    team: &'a GridTeam,
    rank: u32,
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        let panicked = thread::panicking();
        if panicked {
            // Before the barriers break, so that the cause comes before the panics that follow from it.
            let _ = self.team.first_panic.compare_exchange(0, u64::from(self.rank) + 1, Release, Relaxed);
        }
        let team = self.team;
        let threads = team.blocks[0].threads;
        let (block, thread) = (&team.blocks[(self.rank / threads) as usize], self.rank % threads);
        for barrier in [&block.warps[(thread / WARP_LANES) as usize].barrier, &block.barrier, &team.barrier] {
            barrier.leave(panicked);
        }
    }
}

/// Runs `work` on `lanes` threads that play the lanes of one warp; the results in the order of the lanes.
///
/// The threads are real ones: races between lanes show up as they would on a device, and under thread
/// sanitizers. (Not inside a loom model, which has its own threads: model [`SpinBarrier`] itself.)
///
/// # Panics
/// With the panic of the first lane that panicked; when `lanes` is not 1 to 32; when no thread can be started.
pub fn run_warp<R: Send>(lanes: u32, work: impl Fn(Warp<'_>) -> R + Sync) -> Vec<R> {
    assert!((1..=WARP_LANES).contains(&lanes), "a warp has 1 to {WARP_LANES} lanes, not {lanes}");
    if lanes == 1 {
        return vec![work(Warp::single())];
    }
    run_grid(1, lanes, |grid| work(grid.as_block().warp()))
}

/// Runs `work` on `blocks` times `threads` threads that play a grid; the results in the order of their ranks. As
/// [`run_warp`] otherwise.
///
/// # Panics
/// With the panic of the first thread that panicked; when there are no blocks, not 1 to 1024 threads a block, or more
/// than 4096 in all; when no thread can be started.
pub fn run_grid<R: Send>(blocks: u32, threads: u32, work: impl Fn(Grid<'_>) -> R + Sync) -> Vec<R> {
    let size = blocks.saturating_mul(threads);
    assert!(
        blocks >= 1 && (1..=MOST_BLOCK_THREADS).contains(&threads) && size <= MOST_THREADS,
        "a grid on a CPU has 1 to {MOST_BLOCK_THREADS} threads a block and {MOST_THREADS} in all, \
         not {blocks} blocks of {threads}"
    );
    let team = GridTeam::new(blocks, threads);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let start = |rank: u32| {
            let (team, work) = (&team, &work);
            let run = move || {
                hint::yield_in_spins();
                let _attendance = Attendance { team, rank };
                let (block, thread) = (rank / threads, rank % threads);
                work(Grid { position: Position { block, thread, team: Some(team), one_thread: PhantomData } })
            };
            thread::Builder::new().name(format!("thread {rank} of {size}")).spawn_scoped(scope, run)
        };
        let mut started = Vec::with_capacity(size as usize);
        for rank in 0..size {
            match start(rank) {
                Ok(handle) => started.push(handle),
                Err(error) => {
                    // Waiting threads are told by the absence of the missing ones.
                    (rank..size).for_each(|rank| drop(Attendance { team: &team, rank }));
                    panic!("cannot start thread {rank} of a team of {size}: {error}");
                }
            }
        }
        started.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let first = team.first_panic.load(Acquire).checked_sub(1);
    let mut results = Vec::with_capacity(outcomes.len());
    let mut panics = Vec::new();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(result) => results.push(result),
            Err(panic) => panics.push((rank as u64, panic)),
        }
    }
    let cause = panics.iter().position(|(rank, _)| Some(*rank) == first).unwrap_or(0);
    if cause < panics.len() {
        std::panic::resume_unwind(panics.swap_remove(cause).1);
    }
    results
}
