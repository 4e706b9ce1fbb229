//! Ring graphs: graphs that the host dispatcher launches and that answer in its ring.

mod graph_workers;
#[cfg(test)]
mod tests;

use super::graphs::add_row;
use super::mailbox_graph::MailboxGraph;
use super::{DeviceError, GraphFunction, GraphNodes, MappedRing};
use graph_workers::GraphWorkers;
use ringcall::FunctionId;
use ringcall::external::ExternalExecutor;
use ringcall_cuda::driver::Module;

/// Graphs for the requests of a mapped ring: each executable is a worker with a mailbox and its own stream. The host
/// dispatcher launches them on its own thread, without worker threads. A graph's kernels read the request from their
/// mailbox and write response and response flag into the ring. A request costs one call of the driver, and its end
/// costs none.
///
/// The kernels are the same as in a device dispatcher's graphs
/// ([`Child`](ringcall_dispatcher::ring::graph_end::Child)): the last kernel answers and then frees the mailbox,
/// after which its worker gets the next request. A mailbox is in host memory here, and each load that depends on
/// another load takes a device about a microsecond: read the needed words in one burst.
///
/// A request waits in its slot while all workers of its function are busy. It is answered
/// [`NO_WORKER`](ringcall::Status::NO_WORKER) when there is no worker for it (no graph of its function has its
/// routing key, or all graphs with the key have failed), and [`LAUNCH_FAILED`](ringcall::Status::LAUNCH_FAILED), with
/// the error mark, when the launch fails, and when the graph ends without an answer (CUDA's code 999), whether it
/// freed its mailbox or not, or with an error. On a ring that other dispatchers serve too
/// ([`RingCompat::shared_ring`](ringcall::external::RingCompat::shared_ring)) a slot's in-flight mark may be another
/// dispatcher's: on such a ring a graph that wrote into its response slot counts as having answered. The request of a
/// graph that never ends stays in flight, and a stop reports it.
///
/// ```no_run
/// use ringcall::wire::schema::HandlerSchema;
/// use ringcall::{Client, FunctionTable, HostDispatcher, RingConfig};
/// use ringcall_launch::ring::{GraphFunction, GraphKernel, MappedRing, Modules, RingGraphs};
/// use ringcall_cuda::driver::Driver;
/// use std::time::Duration;
///
/// let context = Driver::load()?.device(0)?.context()?;
/// let ring = MappedRing::allocate(&context, RingConfig { slots: 64, slot_bytes: 64 })?;
/// // `ptx` as `ringcall_build` makes it of a crate with a kernel `increment`.
/// # let ptx = "";
/// let module = Modules::new().ptx("my kernels", ptx).load_alone(&context)?;
/// let kernel = GraphKernel { name: "increment".to_owned(), blocks: 1, threads: 32 };
/// let eight = GraphFunction::new(vec![kernel], 8);
/// let graphs = RingGraphs::new(&ring).graph("graph_increment", &module, &eight)?;
///
/// let table = FunctionTable::builder().external_call("graph_increment", HandlerSchema::new()).build(ring.ring())?;
/// let dispatcher = HostDispatcher::builder(ring.ring(), table).executor(graphs.executor()).build()?.start()?;
/// let reply = Client::new(ring.ring()).call("graph_increment", &[1, 2, 3], Duration::from_secs(1))?;
/// assert_eq!(reply.result, [2, 3, 4]);
/// assert!(!dispatcher.stop(Duration::from_millis(50)).report.stuck);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RingGraphs {
    ring: MappedRing,
    workers: GraphWorkers,
}

impl RingGraphs {
    /// No graphs.
    #[must_use]
    pub fn new(ring: &MappedRing) -> Self {
        let addresses = ring.addresses;
        let workers = GraphWorkers::new(ring.ring().shared().clone(), addresses.tx_data, addresses.tx_flags);
        Self { ring: ring.clone(), workers }
    }

    /// Adds a graph of kernels of `module`, with one worker for each executable, for requests of the function `name`
    /// with the graph's routing key; the key 0 means any request. Among several graphs the first with an idle worker
    /// takes a request.
    ///
    /// # Errors
    /// No executable or no kernel; a kernel that the module does not have; nodes that cannot be added, that do not
    /// [answer](super::GraphNodes::answers) by themselves, or that have a gate (a word of the device's that the host would have to
    /// look at before each launch); no memory.
    pub fn graph(mut self, name: &str, module: &Module, graph: &GraphFunction) -> Result<Self, DeviceError> {
        graph.check()?;
        let context = self.ring.context();
        let capacity = self.workers.capacity();
        for index in 0..graph.execs {
            let nodes = graph.composed.as_ref().map(|composed| composed.0.clone());
            if let Some(nodes) = &nodes {
                check_nodes(name, &**nodes, index)?;
            }
            let (worker, mailbox) =
                MailboxGraph::new(context, capacity, nodes.clone(), |to, mailbox| match &nodes {
                    Some(nodes) => nodes.add(to, index, mailbox, capacity),
                    None => add_row(to, module, &graph.kernels, mailbox),
                })?;
            mailbox.set(
                ringcall_wire::launch::io::CREDIT,
                graph.credits.get(index as usize).copied().unwrap_or(0),
            );
            let function = FunctionId::of(name).0;
            self.workers.add(function, graph.routing_key, Box::new(worker), mailbox);
        }
        Ok(self)
    }

    /// For [`HostDispatcherBuilder::executor`](ringcall::dispatcher::HostDispatcherBuilder::executor), whose table has these
    /// functions as [`external_call`](ringcall::table::TableBuilder::external_call).
    ///
    /// A drop waits briefly for running graphs. If a graph still runs then, everything that it uses is kept, and its
    /// context frees no memory any more.
    #[must_use]
    pub fn executor(self) -> Box<dyn ExternalExecutor> {
        Box::new(self.workers)
    }
}

/// # Errors
/// Nodes that no worker here can run: nodes that do not answer by themselves, or that have gates.
fn check_nodes(name: &str, nodes: &dyn GraphNodes, index: u32) -> Result<(), DeviceError> {
    if !nodes.answers() {
        return Err(DeviceError::Shape(format!(
            "the graph of `{name}` may hand its answer on: it is for a device dispatcher, or a `HostGraph`, whose owner answers"
        )));
    }
    if nodes.gate(index)? != 0 {
        return Err(DeviceError::Shape(format!(
            "the graph of `{name}` has a gate: a device dispatcher looks at it, or the owner of a `HostGraph`"
        )));
    }
    Ok(())
}
