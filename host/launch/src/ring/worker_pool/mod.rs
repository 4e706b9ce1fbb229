//! The pool of graph workers: which worker is idle, which slot a worker serves, and how its launch ended.
//!
//! A worker is an executable graph with its own stream. The host launches it for one request at a time, and the graph
//! writes its answer into the ring. Two executors use the pool: [`RingGraphs`](super::RingGraphs), and the engines of
//! C programs (`ringcall-c`). The executor decides which graph is launched, how the end of a launch is detected
//! ([`CompletionProbe`]), and how a graph that never answered is handled.
//!
//! A worker goes from idle over launching ([`take`](WorkerPool::take)) to running
//! ([`launched`](WorkerPool::launched)), and back to idle after its end was seen ([`poll`](WorkerPool::poll),
//! [`release`](WorkerPool::release)). Its slot may hold another request before that, if the worker has answered and
//! the answer was taken. From then on the end of the launch says nothing about the slot.
//!
//! ```
//! use ringcall_launch::ring::worker_pool::{Answer, Answers, Found, WorkerStream, WorkerPool, CompletionProbe};
//! use ringcall_gpu::shared::Region;
//! use ringcall_wire::flag;
//! use std::sync::atomic::Ordering;
//!
//! /// Graphs that have all ended.
//! struct Over;
//! impl CompletionProbe for Over {
//!     fn has_ended(&self, _worker: usize, _number: u64, _answered: bool) -> bool {
//!         true
//!     }
//!     fn state(&self, _worker: usize) -> WorkerStream {
//!         WorkerStream::Done
//!     }
//! }
//!
//! let flags = Region::zeroed(4 * 8)?.words(0, 4)?;
//! let slots = Region::zeroed(4 * 64)?.words(0, 4 * 8)?;
//! let answers = Answers::new(flags.clone(), Some((slots, 8)), true);
//! let mut pool = WorkerPool::new(answers, ());
//! pool.add(0x77, 0);
//!
//! assert_eq!(pool.find(Some((0x77, 5))), Found::Worker(0));
//! pool.take(0, 3)?;
//! flags.store(3, flag::IN_FLIGHT, Ordering::Release);
//! // ... here the graph is launched, which fails to answer.
//! pool.launched(0, true);
//! assert!(pool.serves(3) && pool.find(None) == Found::Busy);
//! let seen = pool.poll(0, false, &Over).expect("it runs");
//! assert_eq!((seen.slot, seen.answer), (3, Some(Answer::Never(999))));
//! pool.release(0);
//! assert!(pool.is_idle());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answers;
#[cfg(test)]
mod tests;

pub use answers::Answers;
use core::fmt::Debug;
use core::ops::Range;
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::StreamState;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Sweeps with busy workers between two queries of the streams' states: each query is a call of the driver.
pub const SWEEPS_PER_QUERY: u32 = 1 << 14;
/// `CUDA_ERROR_UNKNOWN`: a graph ended without an answer.
pub const UNKNOWN: u16 = 999;

/// The state of a worker's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WorkerStream {
    /// Work on the stream still runs.
    #[default]
    Busy,
    /// All work has ended, and its writes are visible.
    Done,
    /// CUDA's error number.
    Failed(u16),
}

impl From<StreamState> for WorkerStream {
    fn from(state: StreamState) -> Self {
        match state {
            StreamState::Busy => Self::Busy,
            StreamState::Ready => Self::Done,
            StreamState::Failed(error) => Self::Failed(code_of(&error)),
        }
    }
}

/// CUDA's error number, as an error mark holds it.
pub(super) fn code_of(error: &CudaError) -> u16 {
    error.code().and_then(|code| u16::try_from(code.code).ok()).unwrap_or(UNKNOWN)
}

/// Detection of a graph's end.
pub trait CompletionProbe {
    /// Whether memory shows that the graph of launch `number` (1 for a worker's first launch) has ended. `answered`:
    /// its slot is answered, or already holds another request.
    fn has_ended(&self, worker: usize, number: u64, answered: bool) -> bool;

    /// The state of the worker's stream: one call of the driver.
    fn state(&self, worker: usize) -> WorkerStream;
}

/// A mask of idle workers for other threads to read. Only the pool's owner writes it.
pub trait IdleMask: Debug {
    /// Sets whether the worker is idle.
    fn set(&self, worker: usize, idle: bool);
}

/// For pools whose idle workers no other thread reads.
impl IdleMask for () {
    fn set(&self, _: usize, _: bool) {}
}

/// Result of a search for a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// This worker is idle.
    Worker(usize),
    /// All workers for the request are busy.
    Busy,
    /// No worker will ever take the request.
    NoWorker,
}

/// Why a worker cannot be launched for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The pool has no such worker.
    #[error("there is no such worker")]
    NoWorker,
    /// The ring has no such slot.
    #[error("the ring has no such slot")]
    NoSlot,
    /// The worker is launched, runs, or has failed.
    #[error("the worker is busy")]
    Busy,
    /// The request of the slot is in flight.
    #[error("another worker serves it")]
    Served,
}

/// Whether a graph has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The answer is in its slot, or was taken.
    Given,
    /// The answer will never come, for CUDA's code. The slot has the worker's own mark.
    Never(u16),
}

/// The observed state of a running worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The slot that it was launched for.
    pub slot: u32,
    /// Its outstanding answer; `None` if that is not known yet, or if no answer is outstanding any more.
    pub answer: Option<Answer>,
    /// Whether its graph has ended; `Failed` if its stream has failed.
    pub end: Option<WorkerStream>,
}

/// State of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerState {
    Idle,
    /// Taken, and not yet known to run.
    Launching,
    Runs,
    /// Its end was seen and is being reported.
    Leaving,
    /// Its stream has failed, and nothing will run on it any more.
    Broken,
}

/// The last launch of a worker.
#[derive(Debug, Clone, Copy, Default)]
struct Launch {
    slot: u32,
    number: u64,
    /// The token at the beginning of its response slot.
    token: u64,
    /// Whether the slot still belongs to this launch.
    outstanding: bool,
    /// Whether all work that follows the graph is on the stream.
    whole: bool,
}

#[derive(Debug)]
struct Member {
    function: u32,
    key: u64,
    state: WorkerState,
    launch: Launch,
}

impl Member {
    fn is_for(&self, wanted: Option<(u32, u64)>) -> bool {
        let matches = |(function, key)| self.function == function && (self.key == 0 || self.key == key);
        self.state != WorkerState::Broken && wanted.is_none_or(matches)
    }

    fn is_busy(&self) -> bool {
        matches!(self.state, WorkerState::Launching | WorkerState::Runs | WorkerState::Leaving)
    }
}

/// The workers of a ring, for one thread at a time. Slots are identified by their numbers. No method calls the
/// driver.
#[derive(Debug)]
pub struct WorkerPool<M = ()> {
    members: Vec<Member>,
    answers: Answers,
    mask: M,
    busy: usize,
    outstanding: usize,
    sweeps: u32,
    /// Distinguishes the launches of this pool from each other and from launches of other pools on the same ring.
    launches: u32,
}

impl<M: IdleMask> WorkerPool<M> {
    /// A pool without workers. It also writes to `mask` which workers are idle.
    #[must_use]
    pub fn new(answers: Answers, mask: M) -> Self {
        // A random start, so that pools of two processes differ, too.
        let launches = RandomState::new().build_hasher().finish() as u32;
        Self { members: Vec::new(), answers, mask, busy: 0, outstanding: 0, sweeps: 0, launches }
    }

    /// Adds an idle worker for requests of a function with the routing key `key`; 0 means any request.
    pub fn add(&mut self, function: u32, key: u64) {
        self.mask.set(self.members.len(), true);
        self.members.push(Member { function, key, state: WorkerState::Idle, launch: Launch::default() });
    }

    /// Says that other dispatchers take requests from this ring, too, so that a slot's mark may be another
    /// dispatcher's.
    pub fn share(&mut self) {
        self.answers.shared = true;
    }

    /// Whether other dispatchers may take requests from this ring.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.answers.shared
    }

    /// All workers.
    #[must_use]
    pub fn workers(&self) -> Range<usize> {
        0..self.members.len()
    }

    /// The first idle worker for requests of a function with a routing key, or for any request.
    #[must_use]
    #[inline]
    pub fn find(&self, wanted: Option<(u32, u64)>) -> Found {
        let mut found = Found::NoWorker;
        for (worker, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_for(wanted)) {
            if member.state == WorkerState::Idle {
                return Found::Worker(worker);
            }
            found = Found::Busy;
        }
        found
    }

    /// Whether a worker has yet to answer this slot, or its answer was not noticed yet.
    #[must_use]
    #[inline]
    pub fn serves(&self, slot: u32) -> bool {
        self.outstanding > 0 && self.owner(slot).is_some()
    }

    fn owner(&self, slot: u32) -> Option<usize> {
        self.members.iter().position(|member| member.launch.outstanding && member.launch.slot == slot)
    }

    /// Whether the worker is launched, runs, or its end is being reported.
    #[must_use]
    pub fn is_busy(&self, worker: usize) -> bool {
        self.members.get(worker).is_some_and(Member::is_busy)
    }

    /// Whether no worker is busy.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.busy == 0
    }

    /// Makes an idle worker busy with a slot and prepares the slot for the answer. Returns the number of this launch
    /// of the worker. The caller launches the graph and reports the result: [`launched`](Self::launched) or
    /// [`refused`](Self::refused).
    ///
    /// # Errors
    /// There is no such worker or slot, or it is busy. Nothing has changed.
    pub fn take(&mut self, worker: usize, slot: u32) -> Result<u64, NotTaken> {
        let member = self.members.get(worker).ok_or(NotTaken::NoWorker)?;
        if !self.answers.has(slot) {
            return Err(NotTaken::NoSlot);
        }
        if member.state != WorkerState::Idle {
            return Err(NotTaken::Busy);
        }
        if let Some(before) = self.owner(slot) {
            let Member { state, launch, .. } = &self.members[before];
            // The graph has answered and the answer was taken; otherwise the request is in flight.
            let answered = match state {
                WorkerState::Runs => !self.answers.is_outstanding(slot, launch.token, false),
                state => *state == WorkerState::Leaving,
            };
            if !(answered && self.answers.is_free(slot)) {
                return Err(NotTaken::Served);
            }
            self.complete(before);
        }
        self.launches = self.launches.wrapping_add(1);
        let token = Answers::token(self.launches);
        self.answers.prepare(slot, token);
        let number = self.members[worker].launch.number + 1;
        self.members[worker].launch = Launch { slot, number, token, outstanding: true, whole: false };
        self.outstanding += 1;
        self.set_state(worker, WorkerState::Launching);
        Ok(number)
    }

    /// Reports that the worker's graph was launched. `whole`: and all work that follows it on its stream.
    pub fn launched(&mut self, worker: usize, whole: bool) {
        if let Some(member) = self.members.get_mut(worker) {
            member.launch.whole = whole;
        }
        self.set_state(worker, WorkerState::Runs);
    }

    /// Reports that nothing was launched: the worker is idle again, and its slot belongs to the caller.
    pub fn refused(&mut self, worker: usize) {
        self.release(worker);
    }

    /// Counts a sweep. Returns whether this sweep queries the streams' states.
    #[inline]
    pub fn due(&mut self) -> bool {
        self.sweeps = self.sweeps.wrapping_add(1);
        self.sweeps.is_multiple_of(SWEEPS_PER_QUERY)
    }

    /// The observable state of a running worker. With `ask`, queries its stream if memory does not show its end.
    /// Changes nothing: the caller reports what it did.
    #[inline]
    pub fn poll(&self, worker: usize, ask: bool, probe: &impl CompletionProbe) -> Option<Seen> {
        let Member { launch, .. } =
            self.members.get(worker).filter(|member| member.state == WorkerState::Runs)?;
        let &Launch { slot, number, token, outstanding, whole } = launch;
        // In this order: a graph that has ended does not answer any more, so an answer that is missing now will never
        // come.
        let answered = !outstanding || self.answers.is_answered(slot);
        let state = if probe.has_ended(worker, number, answered) {
            WorkerStream::Done
        } else if ask {
            probe.state(worker)
        } else {
            WorkerStream::Busy
        };
        let (over, failure) = match state {
            WorkerStream::Busy => (false, None),
            WorkerStream::Done => (true, None),
            WorkerStream::Failed(code) => (true, Some(code)),
        };
        let answer = if answered {
            Some(Answer::Given)
        } else if !over {
            None
        } else if self.answers.is_outstanding(slot, token, failure.is_some() || !whole) {
            Some(Answer::Never(failure.unwrap_or(UNKNOWN)))
        } else {
            Some(Answer::Given)
        };
        Some(Seen { slot, answer: answer.filter(|_| outstanding), end: over.then_some(state) })
    }

    /// The worker's answer is not outstanding any more; the slot's next request does not belong to this worker.
    pub fn complete(&mut self, worker: usize) {
        if let Some(member) = self.members.get_mut(worker) {
            self.outstanding -= usize::from(core::mem::take(&mut member.launch.outstanding));
        }
    }

    /// The worker's end was seen and will be reported, so that no other caller sees it.
    pub fn leave(&mut self, worker: usize) {
        self.set_state(worker, WorkerState::Leaving);
    }

    /// The worker is idle.
    pub fn release(&mut self, worker: usize) {
        self.complete(worker);
        self.set_state(worker, WorkerState::Idle);
    }

    /// The worker's stream has failed: the worker takes no more requests.
    pub fn retire(&mut self, worker: usize) {
        self.complete(worker);
        self.set_state(worker, WorkerState::Broken);
    }

    fn set_state(&mut self, worker: usize, state: WorkerState) {
        let Some(member) = self.members.get_mut(worker) else { return };
        self.busy -= usize::from(member.is_busy());
        member.state = state;
        self.busy += usize::from(member.is_busy());
        self.mask.set(worker, state == WorkerState::Idle);
    }
}
