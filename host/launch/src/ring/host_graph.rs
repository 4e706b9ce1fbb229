//! A graph that the host launches for one request at a time: a worker of the host dispatcher with a GPU behind it.

use super::graphs::add_row;
use super::mailbox_graph::{Mailbox, MailboxGraph};
use super::{DeviceError, GraphKernel, GraphNodes};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeviceAddress, Graph, MappedRegion, Module};
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use std::sync::Arc;

/// A graph, its mailbox and the slot for its answer in mapped memory, and its own stream: for threads that
/// do something with the answer. Where the graph's answer is the request's, [`RingGraphs`](super::RingGraphs)
/// takes a thread, a copy and two hand-overs less.
#[derive(Debug)]
pub struct HostGraph {
    graph: MailboxGraph,
    mailbox: Mailbox,
    answer: Bytes,
    flag: Words,
    _memory: [MappedRegion; 2],
}

impl HostGraph {
    /// A graph of `kernels`, one after the other, for payloads and results of up to `capacity` bytes (a multiple of 8). The
    /// kernels are written for a device dispatcher's graphs and find the same mailbox here.
    ///
    /// # Errors
    /// A kernel that the module does not have, or no memory.
    pub fn new(
        context: &Arc<Context>,
        module: &Module,
        kernels: &[GraphKernel],
        capacity: u32,
    ) -> Result<Self, DeviceError> {
        let add = |graph: &mut Graph, mailbox| add_row(graph, module, kernels, mailbox);
        Self::of(context, capacity, None, add)
    }

    /// Executable `index` of a graph of these nodes, for payloads and results of up to `capacity` bytes (a multiple of 8).
    /// A gate is the caller's to look at before a launch.
    ///
    /// # Errors
    /// Those of the nodes, or no memory.
    pub fn composed(
        context: &Arc<Context>,
        nodes: &Arc<dyn GraphNodes>,
        index: u32,
        capacity: u32,
    ) -> Result<Self, DeviceError> {
        let add = |graph: &mut Graph, mailbox| nodes.add(graph, index, mailbox, capacity);
        Self::of(context, capacity, Some(Arc::clone(nodes)), add)
    }

    fn of(
        context: &Arc<Context>,
        capacity: u32,
        nodes: Option<Arc<dyn GraphNodes>>,
        add: impl FnOnce(&mut Graph, DeviceAddress) -> Result<(), DeviceError>,
    ) -> Result<Self, DeviceError> {
        let slot = HEADER_BYTES + capacity as usize;
        let memory = [MappedRegion::zeroed(context, slot)?, MappedRegion::zeroed(context, 8)?];
        let [answer, flag] = &memory;
        let (graph, mailbox) = MailboxGraph::new(context, capacity, nodes, add)?;
        mailbox.set(io::TX_SLOT, answer.device_address(0)?.0);
        mailbox.set(io::TX_FLAG, flag.device_address(0)?.0);
        mailbox.set(io::TX_VALUE, 1);
        Ok(Self { graph, mailbox, answer: answer.bytes(0, slot)?, flag: flag.words(0, 1)?, _memory: memory })
    }

    /// Launches the graph for a request. The previous one was taken ([`take`](Self::take)).
    ///
    /// # Errors
    /// The payload does not fit, or the launch fails.
    pub fn launch(&mut self, header: &RequestHeader, payload: &[u8]) -> Result<(), DeviceError> {
        // The mailbox is the request's own until its answer was taken.
        if !self.mailbox.post(header, payload) {
            return Err(DeviceError::Shape(format!(
                "a payload of {} bytes does not fit a graph's mailbox of {}",
                payload.len(),
                self.mailbox.capacity()
            )));
        }
        self.flag.store(0, 0, Ordering::Release);
        self.graph.launch().inspect_err(|_| self.mailbox.take_back())
    }

    /// Whether the last launch's graph has freed its mailbox: its last kernel is done, and what it handed over is there.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.mailbox.is_free()
    }

    /// The answer, once it is there: its header; the result is copied into `out` as far as it fits.
    #[inline]
    pub fn take(&self, out: &mut [u8]) -> Option<ResponseHeader> {
        if self.flag.load(0, Ordering::Acquire) == 0 {
            return None;
        }
        let words = self.answer.read_words::<HEADER_WORDS>(0)?;
        let header = ResponseHeader::from_words(words);
        let len = (header.result_len as usize).min(out.len());
        let _ = self.answer.read(HEADER_BYTES, out.get_mut(..len)?);
        Some(header)
    }
}
