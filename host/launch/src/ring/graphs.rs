//! Graph functions: kernels or nodes, executables, and a mailbox for each executable.

use super::DeviceError;
use ringcall_cuda::driver::{DeviceAddress, Graph, KernelArgs, Launch, Module};
use std::sync::Arc;

/// One kernel of a graph. Its only parameter is the address of the launch's mailbox, which it uses through
/// [`ringcall_dispatcher::ring::graph_end`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphKernel {
    /// Its name in the linked modules.
    pub name: String,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// Adds kernels of `module`, one after the other, for launches through the mailbox at `mailbox`.
pub(super) fn add_row(
    graph: &mut Graph,
    module: &Module,
    kernels: &[GraphKernel],
    mailbox: DeviceAddress,
) -> Result<(), DeviceError> {
    let mut before = Vec::new();
    for kernel in kernels {
        let launch = Launch::linear(kernel.blocks, kernel.threads);
        let args = KernelArgs::new().address(mailbox);
        before = vec![graph.add_kernel(&module.kernel(&kernel.name)?, &launch, &args, &before)?];
    }
    Ok(())
}

/// A graph with other nodes than kernels in a row; the implementor adds the nodes.
///
/// The last node of every executable answers, or passes the duty to answer on, and frees the mailbox
/// ([`Child::finish`](ringcall_dispatcher::ring::graph_end::Child::finish)). Everything that the nodes refer to lives
/// as long as this object.
pub trait GraphNodes: core::fmt::Debug + Send + Sync {
    /// Adds the nodes of executable `index`, for launches through the mailbox at `mailbox`, whose payload has room for
    /// `capacity` bytes.
    ///
    /// # Errors
    /// A node that cannot be added, or a payload that does not fit.
    fn add(
        &self,
        graph: &mut Graph,
        index: u32,
        mailbox: DeviceAddress,
        capacity: u32,
    ) -> Result<(), DeviceError>;

    /// Device address of the word that keeps requests of executable `index` in the ring while it is not 0
    /// ([`GATE`](ringcall_wire::launch::io::GATE)); 0 for none.
    ///
    /// # Errors
    /// The device cannot be asked.
    fn gate(&self, index: u32) -> Result<u64, DeviceError> {
        let _ = index;
        Ok(0)
    }

    /// Whether every executable always answers by itself, as [`RingGraphs`](super::RingGraphs) requires. The default
    /// is false.
    fn answers(&self) -> bool {
        false
    }
}

/// Nodes, compared by identity.
#[derive(Debug, Clone)]
pub(super) struct Composed(pub(super) Arc<dyn GraphNodes>);

impl PartialEq for Composed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Composed {}

/// A graph of kernels that run one after the other: the first reads the request, the last answers and frees the mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFunction {
    pub(super) kernels: Vec<GraphKernel>,
    pub(super) execs: u32,
    pub(super) routing_key: u64,
    pub(super) credits: Vec<u64>,
    pub(super) composed: Option<Composed>,
}

impl GraphFunction {
    /// A graph of these kernels, with `execs` executables, which is how many requests can run at once. Other requests
    /// wait in the ring.
    #[must_use]
    pub fn new(kernels: Vec<GraphKernel>, execs: u32) -> Self {
        Self { kernels, execs, routing_key: 0, credits: Vec::new(), composed: None }
    }

    /// A graph of these nodes, with `execs` executables.
    #[must_use]
    pub fn composed(nodes: Arc<dyn GraphNodes>, execs: u32) -> Self {
        Self { composed: Some(Composed(nodes)), ..Self::new(Vec::new(), execs) }
    }

    /// # Errors
    /// There is nothing to launch.
    pub(super) fn check(&self) -> Result<(), DeviceError> {
        if self.execs == 0 || (self.kernels.is_empty() && self.composed.is_none()) {
            return Err(DeviceError::Shape(
                "a graph needs at least one kernel and one executable".to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes this the graph for requests whose first eight bytes are `key`, among several graphs of one name.
    #[must_use]
    pub fn routing_key(mut self, key: u64) -> Self {
        self.routing_key = key;
        self
    }

    /// Device addresses of the words for which each executable's first kernel waits until they are 0, which says that
    /// the consumer has taken the last output. The kernel waits a bounded time and then answers `BACKPRESSURE`. The
    /// address 0 means no word.
    ///
    /// # Safety
    /// Each is the address of an aligned word that the device may read as long as a dispatcher with this function, or a
    /// graph that it launched, exists.
    #[must_use]
    #[allow(unsafe_code)] // the contract is the caller's to sign
    pub unsafe fn credits(mut self, words: &[u64]) -> Self {
        words.clone_into(&mut self.credits);
        self
    }
}
