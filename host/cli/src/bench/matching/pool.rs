//! A pool of threads that share periodic work: each serves jobs of its own, and helps a thread that is behind when it
//! has nothing to do.
//!
//! When the system stops a thread for a millisecond, a millisecond of work gathers in each of its jobs. Here the other
//! threads serve these jobs meanwhile, except for the one that the stopped thread was serving.

use anyhow::{Result, anyhow};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;
use std::sync::{Barrier, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

/// The time before the first tick, in which all threads start.
const START: Duration = Duration::from_millis(10);
/// Ticks that a thread may be behind before others serve its jobs: moving a job to another core takes some of them.
const BEHIND: u64 = 6;

/// A job with work in every tick from the first to its last.
pub(super) trait Job: Send + Sync {
    /// The results that a thread gathers while it serves.
    type Found: Send;

    /// The first unserved tick; `None` when all were served.
    fn next(&self) -> Option<u64>;

    /// Serves every tick before `due`. The first one was due at `begin`.
    fn serve(&mut self, due: u64, begin: Instant, found: &mut Self::Found) -> Result<()>;
}

struct Pool<J> {
    /// Thread `i` of `n` has the jobs `i`, `i + n`, and so on.
    jobs: Vec<CachePadded<OnceLock<Mutex<J>>>>,
    /// Per thread, the tick up to which its jobs are known to be served.
    served: Vec<CachePadded<DeviceU64>>,
    left: CachePadded<DeviceU64>,
    /// 1 when a thread has given up.
    failed: CachePadded<DeviceU64>,
    tick: Duration,
    begin: OnceLock<Instant>,
    built: Barrier,
}

/// Serves `count` jobs on `threads` threads until all are finished, and returns each thread's results. A thread begins
/// with `start`, makes its own jobs with `build`, and waits until all are made, so that all share the same first tick.
pub(super) fn serve<J: Job>(
    count: usize,
    threads: usize,
    tick: Duration,
    start: impl Fn(usize) -> Result<J::Found> + Sync,
    build: impl Fn(usize) -> Result<J> + Sync,
) -> Result<Vec<J::Found>> {
    let pool = Pool {
        jobs: (0..count).map(|_| CachePadded(OnceLock::new())).collect(),
        served: (0..threads).map(|_| CachePadded(DeviceU64::new(0))).collect(),
        left: CachePadded(DeviceU64::new(count as u64)),
        failed: CachePadded(DeviceU64::new(0)),
        tick,
        begin: OnceLock::new(),
        built: Barrier::new(threads),
    };
    std::thread::scope(|scope| {
        let (pool, start, build) = (&pool, &start, &build);
        let work = (0..threads).map(|me| {
            scope.spawn(move || {
                let found = start(me).and_then(|found| pool.make(me, build).map(|()| found));
                if found.is_err() {
                    pool.failed.store(1, Ordering::Relaxed);
                }
                pool.built.wait();
                let mut found = found?;
                let done = pool.work(me, &mut found);
                if done.is_err() {
                    pool.failed.store(1, Ordering::Relaxed);
                }
                done.map(|()| found)
            })
        });
        let work = work.collect::<Vec<_>>();
        work.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}

impl<J: Job> Pool<J> {
    fn own(&self, thread: usize) -> impl Iterator<Item = usize> + Clone + use<J> {
        (thread..self.jobs.len()).step_by(self.served.len())
    }

    fn make(&self, me: usize, build: impl Fn(usize) -> Result<J>) -> Result<()> {
        for job in self.own(me) {
            let made = Mutex::new(build(job)?);
            self.jobs[job].set(made).map_err(|_| anyhow!("job {job} was made twice"))?;
        }
        Ok(())
    }

    /// Serves until all jobs are finished, or a thread has given up.
    fn work(&self, me: usize, found: &mut J::Found) -> Result<()> {
        let begin = *self.begin.get_or_init(|| Instant::now() + START);
        let threads = self.served.len();
        let (mut before, mut other) = (0, me);
        while self.left.load(Ordering::Relaxed) > 0 && self.failed.load(Ordering::Relaxed) == 0 {
            let due = self.due(begin);
            if due > before {
                for job in self.own(me) {
                    self.attend(job, due, 0, begin, found)?;
                }
                // Relaxed, since others take it only as a hint: a job's mutex orders the work.
                self.served[me].store(due, Ordering::Relaxed);
                before = due;
                other = if other == me { (me + 1) % threads } else { other };
                // One look at another thread in each tick, so that the thread's cache line mostly stays with it.
                if other != me && !self.help(other, me, begin, found)? {
                    other = (other + 1) % threads;
                }
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    /// The number of ticks due by now.
    fn due(&self, begin: Instant) -> u64 {
        match Instant::now().checked_duration_since(begin) {
            Some(since) => (since.as_nanos() / self.tick.as_nanos()) as u64 + 1,
            None => 0,
        }
    }

    /// Serves one job of a thread that is behind. Returns whether there was one.
    fn help(&self, other: usize, me: usize, begin: Instant, found: &mut J::Found) -> Result<bool> {
        let due = self.due(begin);
        if self.served[other].load(Ordering::Relaxed) + BEHIND >= due {
            return Ok(false);
        }
        // Helpers start at different jobs.
        let own = self.own(other).count();
        for job in self.own(other).cycle().skip(me % own.max(1)).take(own) {
            if self.attend(job, due, BEHIND, begin, found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Serves the due ticks of a job that is behind by more than `behind` ticks, unless another thread does. Returns
    /// whether it did.
    fn attend(
        &self,
        job: usize,
        due: u64,
        behind: u64,
        begin: Instant,
        found: &mut J::Found,
    ) -> Result<bool> {
        let slot = self.jobs[job].get().ok_or_else(|| anyhow!("job {job} was not made"))?;
        let mut job = match slot.try_lock() {
            Ok(job) => job,
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Poisoned(_)) => return Err(anyhow!("a thread panicked")),
        };
        if job.next().is_none_or(|next| next + behind >= due) {
            return Ok(false);
        }
        job.serve(due, begin, found)?;
        if job.next().is_none() {
            self.left.fetch_add(u64::MAX, Ordering::Relaxed);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;

    const TICKS: u64 = 20_000;
    /// Longer than anything takes.
    const LONG: Duration = Duration::from_secs(60);

    /// State shared by the threads of a test: how many jobs are finished, and a signal for threads that wait for it.
    #[derive(Default)]
    struct Over {
        count: Mutex<usize>,
        one_more: Condvar,
    }

    struct Counted<'a> {
        next: u64,
        /// The first thread to serve this job stops in it until this many jobs are finished.
        stops_until: usize,
        over: &'a Over,
    }

    impl Job for Counted<'_> {
        /// The thread, served ticks, and ticks served after the thread had stopped in vain.
        type Found = (usize, u64, bool);

        fn next(&self) -> Option<u64> {
            (self.next < TICKS).then_some(self.next)
        }

        fn serve(&mut self, due: u64, _: Instant, found: &mut Self::Found) -> Result<()> {
            if self.stops_until > 0 {
                let over = self.over.count.lock().map_err(|_| anyhow!("poisoned"))?;
                let stopped =
                    self.over.one_more.wait_timeout_while(over, LONG, |over| *over < self.stops_until);
                found.2 |= stopped.map_err(|_| anyhow!("poisoned"))?.1.timed_out();
                self.stops_until = 0;
            }
            let due = due.min(TICKS);
            anyhow::ensure!(self.next < due, "nothing is due");
            found.1 += due - self.next;
            self.next = due;
            if due == TICKS {
                *self.over.count.lock().map_err(|_| anyhow!("poisoned"))? += 1;
                self.over.one_more.notify_all();
            }
            Ok(())
        }
    }

    fn run(
        jobs: usize,
        threads: usize,
        stops_until: impl Fn(usize) -> usize + Sync,
    ) -> Result<Vec<(usize, u64, bool)>> {
        let over = Over::default();
        serve(
            jobs,
            threads,
            Duration::from_micros(1),
            |me| Ok((me, 0, false)),
            |job| Ok(Counted { next: 0, stops_until: stops_until(job), over: &over }),
        )
    }

    /// A thread is stopped in one of its jobs until all others are finished; the other threads serve its jobs.
    #[test]
    fn the_jobs_of_a_stopped_thread_go_on() -> Result<()> {
        let found = run(9, 3, |job| if job == 0 { 8 } else { 0 })?;
        let served: Vec<u64> = found.iter().map(|found| found.1).collect();
        assert!(found.iter().all(|found| !found.2), "all others were over: {found:?}");
        assert_eq!(served.iter().sum::<u64>(), 9 * TICKS, "each tick of each job once");
        Ok(())
    }

    #[test]
    fn each_tick_of_each_job_is_served_once() -> Result<()> {
        for (jobs, threads) in [(1, 1), (5, 1), (2, 2), (7, 3)] {
            let found = run(jobs, threads, |_| 0)?;
            assert_eq!(found.iter().map(|found| found.1).sum::<u64>(), jobs as u64 * TICKS);
        }
        Ok(())
    }

    #[test]
    fn a_job_that_cannot_be_made_ends_all() {
        let made = serve(
            4,
            2,
            Duration::from_micros(1),
            |me| Ok((me, 0, false)),
            |job| {
                if job == 3 {
                    Err(anyhow!("no room"))
                } else {
                    Ok(Counted { next: 0, stops_until: 0, over: &OVER })
                }
            },
        );
        assert!(made.is_err_and(|why| why.to_string() == "no room"));
    }

    static OVER: Over = Over { count: Mutex::new(0), one_more: Condvar::new() };
}
