//! Baseline of a device: a bare flag from the host to the device and back.

use super::super::measure::{Bench, Row, histogram};
use super::{TIMEOUT_NS, context};
use crate::pinning;
use anyhow::{Result, bail};
use ringcall_gpu::clock;
use ringcall_launch::ring::BaselineEcho;

pub(in super::super) fn run(bench: &Bench) -> Result<Row> {
    let echo = BaselineEcho::start(&context()?)?;
    let mut times = histogram()?;
    let mut trips = bench.all_trips();
    std::thread::scope(|scope| {
        let client = scope.spawn(|| -> Result<()> {
            pinning::pin("client", bench.cores.client());
            let mut pause = bench.pause();
            while let Some(trip) = trips.next(clock::now_ns()) {
                let i = trip.number + 1;
                pause.wait();
                let before = clock::now_ns();
                echo.send(i);
                while echo.received() != i {
                    if clock::now_ns() - before > TIMEOUT_NS {
                        bail!("the flag did not come back");
                    }
                }
                if trip.is_timed {
                    times.record((clock::now_ns() - before).max(1))?;
                }
            }
            Ok(())
        });
        client.join().unwrap_or_else(|_| bail!("the client thread panicked"))
    })?;
    Ok(Row { cut_from: trips.cut_from(), ..Row::new(&times) })
}
