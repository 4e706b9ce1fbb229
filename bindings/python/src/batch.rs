//! Batches: many shots at once, on several threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringcall_matching::Solution;

use crate::solver::{SolveError, Solver};

/// Shots that a thread takes at a time.
const CHUNK: usize = 256;
/// More threads gain nothing on any machine, and each thread takes memory of its own.
const MOST_THREADS: usize = 256;
/// How often `go_on` is called. Users expect Ctrl-C to work at once.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Rows of equal length, one after another.
pub(crate) struct Rows<T> {
    pub(crate) bytes: T,
    pub(crate) count: usize,
    pub(crate) row_bytes: usize,
    pub(crate) bit_packed: bool,
}

/// Why a batch ended early.
pub(crate) enum Stopped {
    /// The caller's `go_on` returned false.
    Asked,
    Failed(SolveError),
    Panicked,
}

/// A few shots, with the rows for their answers.
struct Chunk<'a> {
    shots: &'a [u8],
    predictions: &'a mut [u8],
    weights: Option<&'a mut [f64]>,
    len: usize,
}

/// Decodes shots. `predictions` has as many rows, all zeros. The calling thread calls `go_on` now and then.
pub(crate) fn decode(
    solver: &Solver,
    correlations: bool,
    shots: &Rows<&[u8]>,
    predictions: Rows<&mut [u8]>,
    weights: Option<&mut [f64]>,
    threads: usize,
    mut go_on: impl FnMut() -> bool,
) -> Result<(), Stopped> {
    let Rows { bytes, count, row_bytes, bit_packed } = predictions;
    let job = Job { solver, correlations, shots, row_bytes, bit_packed };
    let threads = threads.min(MOST_THREADS).min(count.div_ceil(CHUNK)).max(1);
    let chunks = Mutex::new(chunks(shots, bytes, row_bytes, weights));
    let stop = AtomicBool::new(false);
    let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = |go_on: &mut dyn FnMut() -> bool| {
        let done =
            catch_unwind(AssertUnwindSafe(|| job.work(next, &stop, go_on))).unwrap_or(Err(Stopped::Panicked));
        if done.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    std::thread::scope(|scope| {
        // If a thread cannot be started, the others take its share.
        let helpers: Vec<_> = (1..threads)
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, || work(&mut || true)).ok())
            .collect();
        let mut result = work(&mut go_on);
        for helper in helpers {
            while result.is_ok() && !helper.is_finished() {
                std::thread::sleep(Duration::from_micros(100));
                if !go_on() {
                    stop.store(true, Ordering::Relaxed);
                    result = Err(Stopped::Asked);
                }
            }
            let done = helper.join().unwrap_or(Err(Stopped::Panicked));
            result = result.and(done);
        }
        result
    })
}

/// Cuts a batch into chunks.
fn chunks<'a>(
    shots: &Rows<&'a [u8]>,
    mut predictions: &'a mut [u8],
    row_bytes: usize,
    mut weights: Option<&'a mut [f64]>,
) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
    let (mut bytes, shot_bytes) = (shots.bytes, shots.row_bytes);
    let mut left = shots.count;
    std::iter::from_fn(move || {
        let len = left.min(CHUNK);
        left -= len;
        let shots = bytes.split_off(..len * shot_bytes)?;
        let predictions = predictions.split_off_mut(..len * row_bytes)?;
        let weights = match &mut weights {
            Some(weights) => Some(weights.split_off_mut(..len)?),
            None => None,
        };
        (len > 0).then_some(Chunk { shots, predictions, weights, len })
    })
}

/// The shared work of a batch's threads.
struct Job<'a> {
    solver: &'a Solver,
    correlations: bool,
    shots: &'a Rows<&'a [u8]>,
    row_bytes: usize,
    bit_packed: bool,
}

impl Job<'_> {
    fn work<'c>(
        &self,
        next: impl Fn() -> Option<Chunk<'c>>,
        stop: &AtomicBool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Stopped> {
        let mut worker = self.solver.worker(self.correlations).map_err(Stopped::Failed)?;
        let mut asked = Instant::now();
        let mut effort = 0;
        while let Some(mut chunk) = next() {
            for shot in 0..chunk.len {
                // Reading the clock takes as long as a few detection events.
                if effort > 1000 {
                    effort = 0;
                    if stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    if asked.elapsed() >= ASK_EVERY {
                        asked = Instant::now();
                        if !go_on() {
                            return Err(Stopped::Asked);
                        }
                    }
                }
                let row = &chunk.shots[shot * self.shots.row_bytes..][..self.shots.row_bytes];
                let decoded = if self.shots.bit_packed {
                    worker.decode_bits(self.solver, row)
                } else {
                    worker.decode_bytes(self.solver, row)
                };
                let solution = decoded.map_err(Stopped::Failed)?;
                effort += 4 + solution.pairs().len() + row.len() / 64;
                self.write(solution, &mut chunk.predictions[shot * self.row_bytes..][..self.row_bytes]);
                if let Some(weights) = &mut chunk.weights {
                    weights[shot] = solution.weight();
                }
            }
        }
        self.solver.give_back(worker);
        Ok(())
    }

    fn write(&self, solution: &Solution, row: &mut [u8]) {
        if self.bit_packed {
            write_bits(solution, row);
        } else {
            write_bytes(solution, row);
        }
    }
}

/// Writes a byte for each fault id to a row of zeros.
pub(crate) fn write_bytes(solution: &Solution, row: &mut [u8]) {
    write_words(solution.observables(), row);
}

/// As [`write_bytes`], from fault ids packed in words.
pub(crate) fn write_words(words: &[u64], row: &mut [u8]) {
    for (bytes, &word) in row.chunks_mut(64).zip(words) {
        let mut rest = word;
        while rest != 0 {
            if let Some(byte) = bytes.get_mut(rest.trailing_zeros() as usize) {
                *byte = 1;
            }
            rest &= rest - 1;
        }
    }
}

fn write_bits(solution: &Solution, row: &mut [u8]) {
    for (bytes, word) in row.chunks_mut(8).zip(solution.observables()) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}
