//! Copies of inputs to a worker's graph and of outputs from it: the time from the launch to the raised flag, by size
//! and by method.
//!
//! A graph without work between its two ends is launched by the thread that waits for its flag. The input is put into
//! mapped memory before, and the output is not read, whichever method copies them.

use super::super::measure::{Bench, Row, histogram};
use super::context;
use anyhow::{Result, bail};
use ringcall_cuda::driver::{Carrier, DeviceBuffer, Lane, LaneKernels, MappedRegion, Stream};
use ringcall_gpu::clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The method of copying.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Way {
    /// Kernels of the graph load and store.
    Kernels,
    /// Copy engines, as nodes of the graph.
    Engines,
    /// The input by a kernel, the output by a copy engine.
    KernelIn,
    /// The input by a copy engine that a hook puts on the stream before the launch, the output by a kernel.
    Hook,
}

/// A flag that is not raised within this time never will be.
const TIMEOUT_NS: u64 = 2_000_000_000;

pub(in super::super) fn run(bench: &Bench, bytes: usize, way: Way) -> Result<Row> {
    let context = context()?;
    let tensor = Arc::new(DeviceBuffer::zeroed(&context, bytes.next_multiple_of(16))?);
    let slots = MappedRegion::zeroed(&context, bytes)?;
    let (input_by, output_by) = match way {
        Way::Kernels => (Carrier::Kernel, Carrier::Kernel),
        Way::Engines => (Carrier::CopyEngine, Carrier::CopyEngine),
        Way::KernelIn => (Carrier::Kernel, Carrier::CopyEngine),
        Way::Hook => (Carrier::Hook, Carrier::Kernel),
    };
    let mut lane = Lane::echo(
        &LaneKernels::load(&context)?,
        &Arc::new(Stream::new(&context)?),
        &tensor,
        bytes,
        [input_by, output_by],
    )?;
    let trips = bench.shorter(10).trips;
    bench.on_client_core(|| {
        let (mut times, mut wrong) = (histogram()?, 0);
        let mut trips = bench.trips_after(trips / 10 + 1, trips);
        let sent = |i: u64| vec![(i % 251) as u8; bytes];
        let mut left = vec![0; bytes];
        while let Some(trip) = trips.next(clock::now_ns()) {
            let i = trip.number;
            // Now and then the input changes, and its bytes must come out.
            let told = i % 64 == 0;
            if told {
                let written =
                    lane.input().write(0, &sent(i)) && slots.bytes(0, slots.len())?.write(0, &sent(i));
                debug_assert!(written);
            }
            let begin = clock::now_ns();
            if matches!(way, Way::Hook) {
                lane.fetch(0, &slots, 0, bytes)?;
            }
            lane.launch(0)?;
            while lane.ready().load(0, Ordering::Acquire) == 0 {
                if clock::now_ns() - begin > TIMEOUT_NS {
                    bail!("a run's flag was not raised");
                }
            }
            let took = clock::now_ns() - begin;
            lane.ready().store(0, 0, Ordering::Release);
            wrong += u64::from(told && !(lane.output().read(0, &mut left) && left == sent(i)));
            if trip.is_timed {
                times.record(took.max(1))?;
            }
        }
        Ok(Row { wrong, cut_from: trips.cut_from(), ..Row::new(&times) })
    })
}
