//! The driver: submits shots at a pace, and compares every answer with the truth.

use crate::form::{Observables, RequestBuffer, WireForm};
use crate::problem::Problem;
use crate::source::{ShotSource, SourceError};
use crate::summary::{Account, Outcome, Progress, Summary};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall::FunctionId;
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall_gpu::{clock, hint};
use ringcall_pipeline::{Injector, SubmitError};
use ringcall_qec::shots::Shot;
use std::sync::mpsc;
use std::time::Duration;

/// The number of requests, and their pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The most requests; `None`: as many as there are shots and time.
    pub requests: Option<u64>,
    /// The longest time; `None`: until the requests or the shots are used up.
    pub duration: Option<Duration>,
    /// The time between the due times of two requests; zero: as fast as slots come free. A late request is sent at once, and
    /// later ones keep their own due times: lateness is measured, not hidden.
    pub interval: Duration,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// Reading or drawing the shots failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The injector failed.
    #[error("a request could not be submitted: {0}")]
    Submit(#[from] SubmitError),
    /// The remote dispatcher no longer answers.
    #[error("the dispatcher answers no more: {0}")]
    Lost(String),
    /// The pipeline's injector is taken.
    #[error("the pipeline's injector is taken")]
    NoInjector,
}

/// The next request, prepared ahead of its due time.
struct Prepared {
    form: WireForm,
    request: RequestBuffer,
    /// Draws the measurements that detectors do not determine.
    coin: Xoshiro256PlusPlus,
    truth: Observables,
}

impl Prepared {
    fn load(&mut self, shot: &Shot) {
        let Self { form, request, coin, .. } = self;
        form.write_request(&shot.detectors, || coin.next_u64() >> 63 == 1, request);
        self.truth.clear();
        self.truth.extend_from_slice(shot.observables.words());
    }
}

const PROGRESS_NS: u64 = 100_000_000;

pub(crate) fn drive(
    problem: &Problem,
    mut injector: Injector,
    outcomes: &mpsc::Receiver<Outcome>,
    mut source: ShotSource,
    pace: Pace,
    remote: bool,
    progress: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Summary, DriveError> {
    let function = FunctionId::of(DECODE_SYNDROME);
    let interval = u64::try_from(pace.interval.as_nanos()).unwrap_or(u64::MAX);
    let duration = pace.duration.map_or(u64::MAX, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
    let requests = pace.requests.unwrap_or(u64::MAX);
    let mut next = Prepared {
        form: problem.form().clone(),
        request: RequestBuffer::default(),
        coin: Xoshiro256PlusPlus::seed_from_u64(source.coin_seed()),
        truth: Observables::new(),
    };
    let mut waiter = ringcall::Wait::Auto.resolve(usize::MAX).waiter();

    let begin = clock::now_ns();
    // An answer without observables is neither right nor wrong.
    let has_truth = source.has_truth() && !problem.form().is_alone();
    let mut account = Account::new(begin, has_truth, remote);
    let mut next_progress = begin + PROGRESS_NS;
    let mut submitted = 0_u64;
    'run: while submitted < requests {
        let Some(shot) = source.next_shot()? else { break };
        next.load(shot);
        let due = begin.saturating_add(submitted.saturating_mul(interval));
        if due.saturating_sub(begin) >= duration {
            break;
        }
        // At most one stall a request, however long it waits.
        let mut stalled = false;
        loop {
            let now = clock::now_ns();
            while let Ok(outcome) = outcomes.try_recv() {
                account.settle(&outcome);
            }
            if now >= next_progress {
                next_progress = now + PROGRESS_NS;
                if !progress(&account.progress(submitted, now)) {
                    break 'run;
                }
            }
            if now.saturating_sub(begin) >= duration {
                break 'run;
            }
            if now < due {
                // Polls through the last microseconds, and yields before.
                if due - now > 20_000 {
                    waiter.idle();
                } else {
                    hint::spin();
                }
                continue;
            }
            // A request that waits for a slot, or for its turn after such a request, is late, and so are those due since.
            let behind = (now - due).checked_div(interval).unwrap_or(0);
            account.expect(submitted, &next.truth, due.max(begin), [now, behind]);
            let attempt = if stalled {
                injector.retry(function, &next.request.payload, submitted)
            } else {
                injector.try_submit(function, &next.request.payload, submitted)
            };
            match attempt {
                Ok(_) => break,
                Err(SubmitError::Full) => {
                    stalled = true;
                    waiter.idle();
                }
                Err(other) => return Err(other.into()),
            }
        }
        waiter.reset();
        submitted += 1;
    }
    drop(injector);
    Ok(Summary::new(account, submitted))
}
