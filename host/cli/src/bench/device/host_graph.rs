//! Graphs launched by the host: eight workers of the host dispatcher, each an executable graph with its own
//! stream, which reads its request in a mailbox of mapped memory and answers in the ring.
//!
//! The dispatcher's thread launches all graphs. The time of one outstanding request consists of the client's flag to
//! that thread, one `cuGraphLaunch`, the start of the first kernel, one burst load from host memory for each kernel,
//! and the answer with its release. The host's work for each launch bounds the requests per second. `host-graph` is a
//! graph of one kernel, like `host_graph` through the C library (`host/c/benches/host_graph.cu`); `host-graph-3` has
//! three kernels that pass the request on.

use super::super::measure::{Bench, Row};
use super::call::with_flood;
use super::context;
use super::graph::named;
use super::ring::{Work, all_outstanding, one_outstanding};
use anyhow::{Result, bail};
use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, RingConfig, Wait};
use ringcall_launch::ring::{GraphFunction, MappedRing, Modules, RingGraphs};
use std::time::Duration;

const FUNCTION: &str = "graph_increment";
const PAYLOAD: usize = 32;
const WORKERS: u32 = 8;

/// Measures a graph of these kernels, given by names and threads.
pub(in super::super) fn run(bench: &Bench, kernels: &[(&str, u32)]) -> Result<Row> {
    let context = context()?;
    let ring = MappedRing::allocate(&context, RingConfig { slots: 64, slot_bytes: 64 })?;
    let table = FunctionTable::builder().external_call(FUNCTION, HandlerSchema::new()).build(ring.ring())?;
    let module =
        Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, &context)?.load_alone(&context)?;
    let graph = GraphFunction::new(named(kernels), WORKERS);
    let graphs = RingGraphs::new(&ring).graph(FUNCTION, &module, &graph)?;
    let options = HostOptions { wait: Wait::Spin, core: Some(bench.cores.server()), request_timeout: None };
    let builder = HostDispatcher::builder(ring.ring(), table).options(options).executor(graphs.executor());
    let dispatcher = builder.build()?.start()?;
    crate::pinning::tell(dispatcher.pin());
    let short = bench.shorter(8);
    let work = Work { function: FunctionId::of(FUNCTION), payload_bytes: PAYLOAD };
    let measured = one_outstanding(&short, ring.ring(), work).and_then(|latency| {
        let flood = all_outstanding(&short, ring.ring(), work, short.requests)?;
        Ok(with_flood(latency, flood))
    });
    let stopped = dispatcher.stop(Duration::from_secs(5));
    if stopped.report.stuck || stopped.report.dropped > 0 || stopped.report.unfinished.is_some() {
        bail!("the dispatcher did not stop cleanly: {:?}", stopped.report);
    }
    measured
}
