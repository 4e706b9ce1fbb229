//! Loaded graphs of a function: mailboxes and executables on a device.

use super::DeviceError;
use super::functions::{Functions, Run, Table};
use super::graphs::{Composed, GraphFunction, add_row};
use super::modules::addresses;
use ringcall_cuda::driver::{Context, DeviceBuffer, Graph, GraphExec, Module, Stream};
use ringcall_dispatcher::ring::graph_end::mailbox_bytes;
use ringcall_wire::launch::{io, saved};
use std::sync::Arc;

/// A graph's mailboxes and executables.
#[derive(Debug)]
pub(crate) struct LoadedGraph {
    mailboxes: DeviceBuffer,
    execs: Vec<GraphExec>,
    /// Objects to which composed graphs refer.
    _composed: Option<Composed>,
    stride: u32,
}

impl LoadedGraph {
    /// `first_answer` is the number of the first executable among those of all graphs.
    pub(super) fn new(
        context: &Arc<Context>,
        module: &Module,
        function: &GraphFunction,
        [capacity, first_answer]: [u32; 2],
        saved_address: u64,
        stream: &Stream,
    ) -> Result<Self, DeviceError> {
        function.check()?;
        let stride = mailbox_bytes(capacity);
        let mailboxes = DeviceBuffer::zeroed(context, stride as usize * function.execs as usize)?;
        let mut execs = Vec::with_capacity(function.execs as usize);
        for index in 0..function.execs {
            let at = u64::from(index) * u64::from(stride);
            let mailbox = mailboxes.address().offset(at);
            let mut graph = Graph::new(context)?;
            if let Some(nodes) = &function.composed {
                nodes.0.add(&mut graph, index, mailbox, capacity)?;
            }
            add_row(&mut graph, module, &function.kernels, mailbox)?;
            let exec = graph.instantiate_for_device_launch()?;
            exec.upload(stream)?;
            let gate = function.composed.as_ref().map_or(Ok(0), |nodes| nodes.0.gate(index))?;
            let credit = function.credits.get(index as usize).copied().unwrap_or(0);
            for (word, value) in [
                (io::EXEC, exec.device_handle()),
                (io::FINISHED, saved_address + saved::FINISHED as u64 * 8),
                (io::COUNTERS, saved_address + saved::CHILDREN as u64 * 8),
                (io::CREDIT, credit),
                (io::ANSWER, u64::from(first_answer + index)),
                (io::GATE, gate),
            ] {
                mailboxes.write_from(at as usize + word * 8, &value.to_le_bytes())?;
            }
            execs.push(exec);
        }
        stream.synchronize()?;
        Ok(Self { mailboxes, execs, _composed: function.composed.clone(), stride })
    }

    /// Its executables.
    pub(super) fn execs(&self) -> u32 {
        self.execs.len() as u32
    }

    pub(super) fn address(&self) -> u64 {
        self.mailboxes.address().0
    }

    pub(super) fn stride(&self) -> u32 {
        self.stride
    }
}

/// Writes the addresses of device functions and mailboxes into the table. Graphs count in the words at `saved`.
pub(super) fn fill_addresses(
    table: &mut Table,
    functions: &Functions,
    module: &Module,
    geometry: &ringcall_protocol::Geometry,
    saved: u64,
    stream: &Stream,
) -> Result<Vec<LoadedGraph>, DeviceError> {
    let symbols = functions.symbols();
    let addresses = addresses(module, &symbols)?;
    let address_of = |symbol: &str| {
        let index = symbols.iter().position(|other| *other == symbol)?;
        addresses.get(index).copied()
    };
    let mut graphs: Vec<LoadedGraph> = Vec::new();
    for (entry, function) in table.entries.iter_mut().zip(&functions.all) {
        match &function.run {
            Run::Elsewhere => (),
            Run::Call { symbol, .. } => entry.address = address_of(symbol).unwrap_or(0),
            Run::Graph(graph) => {
                let first_answer = graphs.iter().map(LoadedGraph::execs).sum();
                let sizes = [geometry.request_capacity(), first_answer];
                let loaded = LoadedGraph::new(stream.context(), module, graph, sizes, saved, stream)?;
                entry.address = loaded.address();
                entry.io_stride = loaded.stride();
                graphs.push(loaded);
            }
        }
    }
    Ok(graphs)
}
