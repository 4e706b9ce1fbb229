//! Calls of device functions through the persistent dispatcher.

use super::super::measure::{Bench, Row};
use super::context;
use super::ring::{Flood, Work, all_outstanding, one_outstanding};
use anyhow::{Result, bail};
use ringcall::RingConfig;
use ringcall_handler::Handler;
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules,
};
use std::time::Duration;

/// Slots in flight in the throughput measurement.
const SLOTS: u32 = 64;

/// A thread or warp handler: latency with the regular kernel, throughput with the named kernel.
pub(in super::super) fn device_call(
    bench: &Bench,
    handler: Handler,
    payload_bytes: usize,
    flooded: KernelKind,
) -> Result<Row> {
    let latency = with_dispatcher(KernelKind::regular(), handler, payload_bytes, |ring, work| {
        one_outstanding(bench, ring.ring(), work)
    })?;
    let flood = with_dispatcher(flooded, handler, payload_bytes, |ring, work| {
        all_outstanding(bench, ring.ring(), work, bench.requests)
    })?;
    Ok(with_flood(latency, flood))
}

/// A grid handler, with `blocks` blocks of `threads` threads.
pub(in super::super) fn cooperative(
    bench: &Bench,
    handler: Handler,
    [blocks, threads]: [u32; 2],
    payload_bytes: usize,
) -> Result<Row> {
    let kernel = KernelKind::Cooperative { blocks, threads };
    let short = bench.shorter(4);
    with_dispatcher(kernel, handler, payload_bytes, |ring, work| {
        let latency = one_outstanding(&short, ring.ring(), work)?;
        let flood = all_outstanding(&short, ring.ring(), work, short.requests / 10)?;
        Ok(with_flood(latency, flood))
    })
}

pub(super) fn with_flood(row: Row, flood: Flood) -> Row {
    Row { per_s: Some(flood.per_s), lost: row.lost + flood.lost, wrong: row.wrong + flood.wrong, ..row }
}

fn with_dispatcher<T>(
    kernel: KernelKind,
    handler: Handler,
    payload_bytes: usize,
    measure: impl FnOnce(&MappedRing, Work) -> Result<T>,
) -> Result<T> {
    let context = context()?;
    // Header and payload, rounded up to whole cache lines.
    let slot_bytes = (24 + payload_bytes).next_multiple_of(64) as u32;
    let ring = MappedRing::allocate(&context, RingConfig { slots: SLOTS, slot_bytes })?;
    let functions = Functions::new().handlers(&[handler]);
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, &context)?;
    let dispatcher =
        DeviceDispatcher::wire(&ring, functions, modules, DispatcherOptions::new(kernel))?.start()?;
    let measured = measure(&ring, Work { function: handler.id(), payload_bytes });
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if !stopped.report.is_clean() {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    measured
}
