//! Baseline of the host: a bare flag travels from one thread to another and back. No protocol can be faster.

use super::measure::{Bench, Row, histogram};
use crate::pinning;
use anyhow::{Result, anyhow};
use ringcall_gpu::atomic::SystemU64;
use ringcall_gpu::clock;
use ringcall_gpu::hint;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;

const STOP: u64 = u64::MAX;

/// Dropping this ends the echo, even if its client has panicked.
struct Stop<'a>(&'a SystemU64);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(STOP, Ordering::Release);
    }
}

/// Sends each flag back, until it is told to stop.
fn echo(there: &SystemU64, back: &SystemU64) {
    let mut last = 0;
    loop {
        let seen = there.load(Ordering::Acquire);
        if seen == STOP {
            return;
        }
        if seen == last {
            hint::spin();
        } else {
            last = seen;
            back.store(seen, Ordering::Release);
        }
    }
}

pub(super) fn run(bench: &Bench) -> Result<Row> {
    // Each flag has a cache line to itself, as in a ring.
    let there = CachePadded(SystemU64::new(0));
    let back = CachePadded(SystemU64::new(0));
    let mut times = histogram()?;
    let mut trips = bench.all_trips();
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            pinning::pin("echo", bench.cores.server());
            echo(&there, &back);
        });
        let client = scope.spawn(|| -> Result<()> {
            let _stop = Stop(&there);
            pinning::pin("client", bench.cores.client());
            let mut before = clock::now_ns();
            while let Some(trip) = trips.next(before) {
                let i = trip.number + 1;
                there.store(i, Ordering::Release);
                while back.load(Ordering::Acquire) != i {
                    hint::spin();
                }
                let now = clock::now_ns();
                if trip.is_timed {
                    times.record((now - before).max(1))?;
                }
                before = now;
            }
            Ok(())
        });
        let done = client.join().map_err(|_| anyhow!("the client thread panicked"))?;
        echo.join().map_err(|_| anyhow!("the echo thread panicked"))?;
        done
    })?;
    Ok(Row { cut_from: trips.cut_from(), ..Row::new(&times) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_ends_with_its_client_however_that_does() {
        let (there, back) = (SystemU64::new(0), SystemU64::new(0));
        // The scope ends when both threads have ended.
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&there, &back));
            let client = scope.spawn(|| {
                let _stop = Stop(&there);
                there.store(7, Ordering::Release);
                while back.load(Ordering::Acquire) != 7 {
                    std::thread::yield_now();
                }
                panic!("a client that fails");
            });
            assert!(client.join().is_err());
        });
    }
}
