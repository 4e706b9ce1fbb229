//! Graphs launched from the device.

use super::super::measure::{Bench, Row, histogram};
use super::call::with_flood;
use super::context;
use super::ring::{Work, all_outstanding, one_outstanding};
use anyhow::{Result, bail};
use ringcall::{FunctionId, RingConfig};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, GraphFunction, GraphKernel, KernelKind, MappedRing,
    Modules,
};
use ringcall_wire::schema::HandlerSchema;
use std::time::Duration;

/// Name of the graph's function.
const FUNCTION: &str = "graph_increment";
const PAYLOAD: usize = 32;

/// Kernels of the samples, by names and threads.
pub(super) fn named(kernels: &[(&str, u32)]) -> Vec<GraphKernel> {
    let kernel = |&(name, threads): &(&str, u32)| GraphKernel { name: name.to_owned(), blocks: 1, threads };
    kernels.iter().map(kernel).collect()
}

fn with_dispatcher<T>(slots: u32, measure: impl FnOnce(&MappedRing, Work) -> Result<T>) -> Result<T> {
    let context = context()?;
    let ring = MappedRing::allocate(&context, RingConfig { slots, slot_bytes: 64 })?;
    let functions =
        Functions::new().handlers(&[ringcall_kernels::samples::handlers::rpc_increment::HANDLER]).graph(
            FUNCTION,
            HandlerSchema::new(),
            GraphFunction::new(named(&ringcall_kernels::samples::graph::KERNELS), slots),
        );
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, &context)?;
    let options = DispatcherOptions::new(KernelKind::Graph { warps: 8 });
    let dispatcher = DeviceDispatcher::wire(&ring, functions, modules, options)?.start()?;
    let measured = measure(&ring, Work { function: FunctionId::of(FUNCTION), payload_bytes: PAYLOAD });
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if !stopped.report.is_clean() {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    measured
}

/// One request at a time, then a million with 16 in flight.
pub(in super::super) fn launches(bench: &Bench) -> Result<Row> {
    let short = bench.shorter(4);
    with_dispatcher(16, |ring, work| {
        let latency = one_outstanding(&short, ring.ring(), work)?;
        let flood = all_outstanding(&short, ring.ring(), work, bench.requests / 2)?;
        Ok(with_flood(latency, flood))
    })
}

/// Bursts of 16: all slots are written, then all answers awaited; the time is that of the whole burst.
pub(in super::super) fn burst(bench: &Bench) -> Result<Row> {
    const BURST: u64 = 16;
    let measure = |ring: &MappedRing, work| {
        let mut times = histogram()?;
        let (mut lost, mut wrong) = (0, 0);
        let short = bench.shorter(1);
        let begin = ringcall_gpu::clock::now_ns();
        let mut bursts = bench.trips_after(0, (100_000 / BURST).min(bench.requests.div_ceil(BURST)));
        let mut before = begin;
        while bursts.next(before).is_some() {
            before = ringcall_gpu::clock::now_ns();
            let flood = all_outstanding(&short, ring.ring(), work, BURST)?;
            times.record((ringcall_gpu::clock::now_ns() - before).max(1))?;
            lost += flood.lost;
            wrong += flood.wrong;
        }
        let seconds = (ringcall_gpu::clock::now_ns() - begin) as f64 / 1e9;
        let per_s = Some((times.len() * BURST) as f64 / seconds);
        Ok(Row { lost, wrong, per_s, cut_from: bursts.cut_from(), ..Row::new(&times) })
    };
    with_dispatcher(BURST as u32, |ring, work| bench.on_client_core(|| measure(ring, work)))
}
