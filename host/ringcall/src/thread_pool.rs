//! A pool of threads that run jobs in the order of their arrival. Each thread has its own state (a decoder) and may
//! be pinned.

use crate::pin::PinReport;
use crate::thread::{GRACE_PERIOD, STOP_CHECK_INTERVAL, Supervised};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A job: runs once, with the state of the thread that takes it.
pub type PoolJob<S> = Box<dyn FnOnce(&mut S) + Send>;

/// Options of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Core of each thread, in order; threads past the end are not pinned.
    pub cores: Vec<usize>,
    /// The most jobs that wait for a thread.
    pub depth: usize,
}

impl Default for PoolOptions {
    /// Nothing pinned, 1024 jobs.
    fn default() -> Self {
        Self { cores: Vec::new(), depth: 1024 }
    }
}

/// A job that the pool refused and gives back.
pub enum Rejected<S> {
    /// The queue is full.
    Full(PoolJob<S>),
    /// The pool stops.
    Stopping(PoolJob<S>),
}

impl<S> std::fmt::Debug for Rejected<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Stopping(_) => "Stopping",
        })
    }
}

impl<S> std::fmt::Display for Rejected<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "as many jobs wait for a thread as may",
            Self::Stopping(_) => "the pool stops",
        })
    }
}

impl<S> std::error::Error for Rejected<S> {}

/// Puts jobs into a pool, from any thread. `Clone`.
pub struct PoolHandle<S>(Arc<Shared<S>>);

impl<S> Clone for PoolHandle<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> std::fmt::Debug for PoolHandle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolHandle").field("depth", &self.0.depth).finish_non_exhaustive()
    }
}

impl<S> PoolHandle<S> {
    /// Has a thread run `job`, after the jobs before it.
    ///
    /// # Errors
    /// The job itself, where as many wait as may, and once the pool stops.
    pub fn execute(&self, job: impl FnOnce(&mut S) + Send + 'static) -> Result<(), Rejected<S>> {
        self.0.push(Box::new(job))
    }
}

/// How a pool ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolReport {
    /// Jobs that ran, to their end or to a panic.
    pub ran: u64,
    /// Of these, jobs that panicked. Their thread went on.
    pub panicked: u64,
    /// Jobs that no thread took before the deadline: dropped.
    pub dropped: u64,
    /// Threads whose job did not return in time: left behind.
    pub stuck: usize,
}

impl PoolReport {
    /// Whether every job ran to its end, and every thread came back.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.panicked == 0 && self.dropped == 0 && self.stuck == 0
    }
}

/// Threads that run jobs, as many at a time as there are threads.
///
/// Threads block while there is nothing to do: for work that comes by the thousand a second, not for a ring that is polled. Jobs are
/// boxed, so each allocates.
///
/// ```
/// use ringcall::thread_pool::{PoolOptions, ThreadPool};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// // Two threads, each with its own counter.
/// let pool = ThreadPool::start(vec![0_u64, 0], &PoolOptions::default())?;
/// let (done, results) = mpsc::channel();
/// for number in 0..100_u64 {
///     let done = done.clone();
///     pool.execute(move |count: &mut u64| {
///         *count += 1;
///         let _ = done.send(number * number);
///     }).expect("fewer than 1024 wait");
/// }
/// let report = pool.stop(Duration::from_secs(5));
/// assert!(report.is_clean() && report.ran == 100);
/// assert_eq!(results.try_iter().sum::<u64>(), 328_350);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ThreadPool<S> {
    shared: Arc<Shared<S>>,
    threads: Vec<Supervised<()>>,
    pins: Vec<PinReport>,
}

impl<S> std::fmt::Debug for ThreadPool<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("threads", &self.pins.len())
            .field("depth", &self.shared.depth)
            .finish_non_exhaustive()
    }
}

struct Shared<S> {
    queue: Mutex<Queue<S>>,
    /// There is a job, or an end.
    something: Condvar,
    depth: usize,
}

struct Queue<S> {
    jobs: VecDeque<PoolJob<S>>,
    /// Threads end once there are no jobs.
    stopping: bool,
    ran: u64,
    panicked: u64,
}

impl<S> Shared<S> {
    /// Nothing panics while it holds the lock: a job runs outside.
    fn lock(&self) -> MutexGuard<'_, Queue<S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, job: PoolJob<S>) -> Result<(), Rejected<S>> {
        let mut queue = self.lock();
        if queue.stopping {
            return Err(Rejected::Stopping(job));
        }
        if queue.jobs.len() >= self.depth {
            return Err(Rejected::Full(job));
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.something.notify_one();
        Ok(())
    }

    fn run(&self, mut state: S) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                let panicked = catch_unwind(AssertUnwindSafe(|| job(&mut state))).is_err();
                queue = self.lock();
                queue.ran += 1;
                queue.panicked += u64::from(panicked);
            } else if queue.stopping {
                return;
            } else {
                // Bounded, like every wait: a signal that is lost costs a few milliseconds.
                let waited = self.something.wait_timeout(queue, STOP_CHECK_INTERVAL);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl<S: Send + 'static> ThreadPool<S> {
    /// Starts a thread for each state.
    ///
    /// # Errors
    /// No state, or a thread that the system does not start; the threads before it end.
    pub fn start(states: Vec<S>, options: &PoolOptions) -> io::Result<Self> {
        if states.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a pool has at least one thread"));
        }
        let jobs = VecDeque::with_capacity(options.depth.min(1 << 16));
        let queue = Queue { jobs, stopping: false, ran: 0, panicked: 0 };
        let shared =
            Arc::new(Shared { queue: Mutex::new(queue), something: Condvar::new(), depth: options.depth });
        // Dropping it tells the threads to end.
        let mut pool = Self { shared, threads: Vec::with_capacity(states.len()), pins: Vec::new() };
        for (index, state) in states.into_iter().enumerate() {
            let shared = Arc::clone(&pool.shared);
            let core = options.cores.get(index).copied();
            let thread = Supervised::start(&format!("pool {index}"), core, move || shared.run(state))?;
            pool.pins.push(thread.pin().clone());
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Has a thread run `job`, after the jobs before it.
    ///
    /// # Errors
    /// The job itself, where as many wait as may.
    pub fn execute(&self, job: impl FnOnce(&mut S) + Send + 'static) -> Result<(), Rejected<S>> {
        self.execute_boxed(Box::new(job))
    }

    /// The same of a job that is boxed, such as one that was given back.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_boxed(&self, job: PoolJob<S>) -> Result<(), Rejected<S>> {
        self.shared.push(job)
    }

    /// What other threads put jobs in by.
    #[must_use]
    pub fn handle(&self) -> PoolHandle<S> {
        PoolHandle(Arc::clone(&self.shared))
    }

    /// Jobs that wait for a thread. A snapshot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Whether one more job would be taken. A snapshot.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting() < self.shared.depth
    }

    /// Where its threads run.
    #[must_use]
    pub fn pins(&self) -> &[PinReport] {
        &self.pins
    }

    /// Takes no more jobs, and ends the threads once all have run, or at the deadline.
    #[must_use]
    pub fn stop(mut self, deadline: Duration) -> PoolReport {
        let until = Instant::now() + deadline;
        self.shared.lock().stopping = true;
        self.shared.something.notify_all();
        let _busy = Supervised::wait_all(&mut self.threads, until);
        let dropped = std::mem::take(&mut self.shared.lock().jobs);
        let stuck = Supervised::wait_all(&mut self.threads, Instant::now() + GRACE_PERIOD).len();
        let Queue { ran, panicked, .. } = *self.shared.lock();
        PoolReport { ran, panicked, dropped: dropped.len() as u64, stuck }
    }
}

impl<S> Drop for ThreadPool<S> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.stopping = true;
        let dropped = std::mem::take(&mut queue.jobs);
        drop(queue);
        // Jobs may lock the pool when they are dropped.
        drop(dropped);
        self.shared.something.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn each_thread_has_its_own_state_and_every_job_runs_once() {
        let pool = ThreadPool::start(vec![10_u32, 20, 30], &PoolOptions::default()).expect("threads");
        let (done, results) = mpsc::channel();
        for job in 0..300 {
            let done = done.clone();
            pool.execute(move |state: &mut u32| done.send((*state, job)).expect("counted")).expect("room");
        }
        let report = pool.stop(LONG);
        assert_eq!(report, PoolReport { ran: 300, ..PoolReport::default() });
        let mut found: Vec<_> = results.try_iter().collect();
        assert!(found.iter().all(|(state, _)| [10, 20, 30].contains(state)));
        found.sort_by_key(|&(_, job)| job);
        assert!(found.into_iter().map(|(_, job)| job).eq(0..300));
    }

    #[test]
    fn a_full_pool_gives_the_job_back_and_a_panic_costs_one_job() {
        let options = PoolOptions { depth: 2, ..PoolOptions::default() };
        let pool = ThreadPool::start(vec![()], &options).expect("a thread");
        let (go, wait) = mpsc::channel::<()>();
        let (begun, taken) = mpsc::channel();
        pool.execute(move |()| {
            begun.send(()).expect("awaited");
            let _ = wait.recv();
            panic!("on purpose");
        })
        .expect("room");
        taken.recv_timeout(LONG).expect("the thread has it");
        pool.execute(|()| ()).expect("one waits");
        pool.execute(|()| ()).expect("two wait");
        assert!(!pool.has_room());
        let Err(Rejected::Full(job)) = pool.execute(|()| ()) else { panic!("three") };
        go.send(()).expect("it waits");
        let mut back = Some(job);
        let until = Instant::now() + LONG;
        while let Some(job) = back.take() {
            assert!(Instant::now() < until, "no room");
            match pool.execute_boxed(job) {
                Err(Rejected::Full(job)) => back = Some(job),
                taken => taken.expect("room"),
            }
            std::thread::yield_now();
        }
        let report = pool.stop(LONG);
        assert_eq!(report, PoolReport { ran: 4, panicked: 1, ..PoolReport::default() });
    }

    #[test]
    fn a_stop_at_its_deadline_drops_what_waits_and_names_what_hangs() {
        let pool = ThreadPool::start(vec![()], &PoolOptions::default()).expect("a thread");
        let (go, wait) = mpsc::channel::<()>();
        let (begun, taken) = mpsc::channel();
        pool.execute(move |()| {
            begun.send(()).expect("awaited");
            let _ = wait.recv();
        })
        .expect("room");
        taken.recv_timeout(LONG).expect("the thread has it");
        pool.execute(|()| ()).expect("room");
        let report = pool.stop(Duration::ZERO);
        assert_eq!((report.dropped, report.stuck), (1, 1));
        assert!(!report.is_clean());
        drop(go);
        assert!(ThreadPool::<()>::start(Vec::new(), &PoolOptions::default()).is_err());
    }
}
