//! Graphs launched by the host: eight workers of the host dispatcher, each with a graph and a stream of its own.

use super::super::measure::{Bench, Row};
use super::call::with_flood;
use super::context;
use super::graph::kernels;
use super::ring::{Work, all_outstanding, one_outstanding};
use anyhow::{Result, bail};
use ringcall::wire::schema::HandlerSchema;
use ringcall::worker::{WorkerPort, WorkerSpec};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Status, Wait};
use ringcall_cuda::dispatcher::{HostGraph, Modules};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::hint;
use std::sync::atomic::Ordering;
use std::time::Duration;

const FUNCTION: &str = "graph_increment";
const PAYLOAD: usize = 32;
const WORKERS: usize = 8;

pub(in super::super) fn run(bench: &Bench) -> Result<Row> {
    let context = context()?;
    let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 64 })?;
    let table = FunctionTable::builder().worker_call(FUNCTION, HandlerSchema::new()).build(&ring)?;
    let function = FunctionId::of(FUNCTION);
    let options = HostOptions { wait: Wait::Spin, core: Some(bench.cores.server()), request_timeout: None };
    let mut builder = HostDispatcher::builder(&ring, table).options(options);
    for _ in 0..WORKERS {
        builder = builder.worker(WorkerSpec::mailbox(function));
    }
    let dispatcher = builder.build()?;
    let ports = dispatcher.ports();
    let module = Modules::new().ptx_for("samples", ringcall_samples::PTX, &context)?.load_alone(&context)?;
    let mut graphs = Vec::new();
    for _ in 0..WORKERS {
        graphs.push(HostGraph::new(&context, &module, &kernels(), PAYLOAD as u32)?);
    }
    let quit = DeviceU64::new(0);
    let dispatcher = dispatcher.start()?;
    let short = bench.shorter(8);
    let measured = std::thread::scope(|scope| {
        for (port, graph) in ports.into_iter().zip(graphs) {
            let quit = &quit;
            scope.spawn(move || serve(&port, graph, quit));
        }
        let work = Work { function, payload_bytes: PAYLOAD };
        let measured = one_outstanding(&short, &ring, work).and_then(|latency| {
            let flood = all_outstanding(&short, &ring, work, short.requests)?;
            Ok(with_flood(latency, flood))
        });
        quit.store(1, Ordering::Release);
        measured
    });
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if stopped.report.stuck || stopped.report.dropped > 0 {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    measured
}

/// One worker: launches a graph for each job and answers with what it made.
fn serve(port: &WorkerPort, mut graph: HostGraph, quit: &DeviceU64) {
    let mut payload = [0; PAYLOAD];
    let mut result = [0; PAYLOAD];
    while quit.load(Ordering::Acquire) == 0 {
        let Some(job) = port.take_job() else {
            hint::spin();
            continue;
        };
        let len = port.read_payload(&job, &mut payload);
        if graph.launch(&job.ticket.header, &payload[..len]).is_err() {
            let _ = port.fail(&job, Status::LAUNCH_FAILED, 1);
            port.release();
            continue;
        }
        let answer = loop {
            if let Some(answer) = graph.take(&mut result) {
                break Some(answer);
            }
            if quit.load(Ordering::Relaxed) != 0 {
                break None;
            }
            hint::spin();
        };
        if let Some(answer) = answer {
            let len = (answer.result_len as usize).min(result.len());
            let _ = port.answer(&job, Status(answer.status), &result[..len]);
        }
        port.release();
    }
}
