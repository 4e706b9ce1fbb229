//! Soft readout to a correction by two typed calls over a ring: the votes of a warp's handler, decoded by a thread's. Handlers run on the
//! CPU here; the calls are the same with a dispatcher on a GPU.
//!
//! ```sh
//! cargo run --release -p example-host --example typed_calls
//! ```

use example_handlers::{CHECKS, HANDLERS, ROUNDS, decode_repetition, vote_checks};
use ringcall::{Client, FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_handler::Bits;
use std::time::Duration;

fn main() -> anyhow::Result<()> {
    let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 4096 })?;
    let mut table = FunctionTable::builder();
    for handler in HANDLERS {
        let call = move |request: &[u8], result: &mut [u8]| handler.call(request, result);
        table = table.host_call_with_schema(handler.name, handler.schema, call);
    }
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.start()?;
    let mut client = Client::new(&ring);
    let timeout = Duration::from_secs(5);

    // Every round sees check 3 fire, surely; check 100 fires in every other round, hardly.
    let mut readout = [0_u8; ROUNDS * CHECKS];
    for (round, readings) in readout.as_chunks_mut::<CHECKS>().0.iter_mut().enumerate() {
        readings[3] = 255;
        readings[100] = if round % 2 == 0 { 130 } else { 120 };
    }
    let (outcomes, weakest) = vote_checks::call(&mut client.within(timeout), &readout)?;
    let checks = Bits::new(outcomes.as_bytes())?;
    let (flip, margin) = decode_repetition::call(&mut client.within(timeout), checks)?;
    let fired = checks.count_ones();
    println!(
        "{fired} checks fired, the weakest vote by {weakest}; logical flip {flip}, by a margin of {margin}"
    );
    let stopped = dispatcher.stop(timeout);
    anyhow::ensure!(stopped.report.dropped == 0, "the dispatcher did not stop cleanly");
    Ok(())
}
