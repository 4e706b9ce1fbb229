//! The floor: a bare flag goes from one thread to another and back. No protocol can be faster.

use super::measure::{Bench, Row, histogram};
use crate::pinning;
use anyhow::{Result, anyhow};
use ringcall_gpu::atomic::SystemU64;
use ringcall_gpu::clock;
use ringcall_gpu::hint;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;

const STOP: u64 = u64::MAX;

pub(super) fn run(bench: &Bench) -> Result<Row> {
    // Two flags on lines of their own, as a ring has them.
    let there = CachePadded(SystemU64::new(0));
    let back = CachePadded(SystemU64::new(0));
    let mut times = histogram()?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            pinning::pin("echo", bench.cores.server());
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
        });
        let client = scope.spawn(|| -> Result<()> {
            pinning::pin("client", bench.cores.client());
            let warm_up = bench.trips / 10;
            let mut before = clock::now_ns();
            for i in 1..=warm_up + bench.trips {
                there.store(i, Ordering::Release);
                while back.load(Ordering::Acquire) != i {
                    hint::spin();
                }
                let now = clock::now_ns();
                if i > warm_up {
                    times.record((now - before).max(1))?;
                }
                before = now;
            }
            there.store(STOP, Ordering::Release);
            Ok(())
        });
        let done = client.join().map_err(|_| anyhow!("the client thread panicked"))?;
        echo.join().map_err(|_| anyhow!("the echo thread panicked"))?;
        done
    })?;
    Ok(Row::new(&times))
}
