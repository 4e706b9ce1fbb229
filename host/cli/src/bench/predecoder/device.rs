//! The predecoder's network on a GPU.

use super::super::device::{context, round_trips};
use super::super::measure::{Bench, Row, histogram};
use super::{Case, NAME, ONNX, arithmetic_floor_ns, experiment};
use anyhow::{Result, bail};
use ringcall::{FunctionId, RingConfig};
use ringcall_decoder_service::gpu::wiring;
use ringcall_gpu::clock;
use ringcall_gpu_decoders::predecoder::{GpuModel, GridHandler, Network, Wiring};
use ringcall_infer::Model;
use ringcall_launch::ring::{DeviceDispatcher, Functions, MappedRing, Modules};
use std::time::Duration;

const FUNCTION: &str = "predecode";

/// Why this device cannot run the network's kernels, if it cannot.
pub(in super::super) fn unfit() -> Option<String> {
    let (major, minor) = context().ok()?.device().capability();
    let fits = (major, minor) == (9, 0);
    (!fits).then(|| {
        format!("the network's kernels are for compute capability 9.0, this GPU has {major}.{minor}")
    })
}

/// The wiring of the request's bits to the network's input.
fn wired(case: &Case) -> Result<Wiring> {
    Ok(wiring(&experiment(case.d), case.threshold)?)
}

/// A captured graph: a request is put into mapped memory, the graph launched, and the answer read.
pub(in super::super) fn graph(bench: &Bench, d: u32) -> Result<Row> {
    let case = Case::new(d)?;
    let expected = case.answer(&case.logits()?);
    let wiring = wired(&case)?;
    let model = GpuModel::wired(NAME, &Network::from_onnx(ONNX)?, &context()?, &wiring)?;
    let trips = bench.shorter(10).trips;
    let row = bench.on_client_core(|| {
        let mut engine = model.instantiate()?;
        let mut answer = vec![0; wiring.answer_bytes()];
        let (mut times, mut wrong) = (histogram()?, 0);
        let mut trips = bench.trips_after(trips / 10 + 1, trips);
        while let Some(trip) = trips.next(clock::now_ns()) {
            let begin = clock::now_ns();
            engine.run(&[&case.request], &mut [&mut answer])?;
            let took = clock::now_ns() - begin;
            wrong += u64::from(answer != expected);
            // Overwritten, so that no answer can pass for the next one.
            answer.fill(0xFF);
            if trip.is_timed {
                times.record(took.max(1))?;
            }
        }
        Ok(Row { wrong, cut_from: trips.cut_from(), ..Row::new(&times) })
    })?;
    Ok(with_baseline(row, d))
}

/// The cooperative dispatcher's handler, called over a ring.
pub(in super::super) fn grid(bench: &Bench, d: u32) -> Result<Row> {
    let case = Case::new(d)?;
    let expected = case.answer(&case.logits()?);
    let context = context()?;
    let handler = GridHandler::new(&Network::from_onnx(ONNX)?, &context, &wired(&case)?)?;
    let ring = MappedRing::allocate(&context, RingConfig { slots: 4, slot_bytes: handler.slot_bytes() })?;
    let functions = handler.function(Functions::new(), FUNCTION);
    let dispatcher =
        DeviceDispatcher::wire(&ring, functions, handler.modules(Modules::new()), handler.options())?
            .start()?;
    let short = bench.shorter(10);
    let measured = round_trips(
        &short,
        ring.ring(),
        FunctionId::of(FUNCTION),
        case.request.clone(),
        handler.answer_bytes(),
        |_, _| (),
        |_, answer| *answer == expected[..],
    );
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if !stopped.report.is_clean() {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    if let Some(which) = handler.failed()? {
        bail!("wait {which} of the network's kernel ran out");
    }
    Ok(with_baseline(measured?, case.d))
}

fn with_baseline(row: Row, d: u32) -> Row {
    let floor = arithmetic_floor_ns(d);
    Row { ratio_to_floor: row.p50_ns as f64 / floor, arithmetic_floor_ns: Some(floor), ..row }
}
