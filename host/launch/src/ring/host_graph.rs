//! Host graph: a graph that a worker thread of the host dispatcher launches for one request at a time.

use super::graphs::add_row;
use super::mailbox_graph::{Mailbox, MailboxGraph};
use super::{DeviceError, GraphKernel, GraphNodes};
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{Context, DeviceAddress, Graph, MappedRegion, Module};
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use std::sync::Arc;

/// A graph, its mailbox and the slot for its answer in mapped memory, and its own stream, for threads that process
/// the graph's answer. If the graph's answer is already the request's answer, [`RingGraphs`](super::RingGraphs) saves
/// a thread, a copy and two hand-overs.
#[derive(Debug)]
pub struct HostGraph {
    graph: MailboxGraph,
    mailbox: Mailbox,
    answer: Bytes,
    flag: Words,
    _memory: [MappedRegion; 2],
}

impl HostGraph {
    /// A graph of `kernels`, one after the other, for payloads and results of up to `capacity` bytes (a multiple of
    /// 8). Kernels for a device dispatcher's graphs work here, too: they find the same mailbox.
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

    /// Executable `index` of a graph of these nodes, for payloads and results of up to `capacity` bytes (a multiple
    /// of 8). The caller must check a gate before each launch.
    ///
    /// # Errors
    /// An error of the nodes, or no memory.
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

    /// Launches the graph for a request. The answer of the previous request must have been taken
    /// ([`take`](Self::take)).
    ///
    /// # Errors
    /// The payload does not fit, or the launch fails.
    pub fn launch(&mut self, header: &RequestHeader, payload: &[u8]) -> Result<(), DeviceError> {
        // The mailbox belongs to the request until its answer was taken.
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

    /// Whether the last launch's graph has freed its mailbox: then its last kernel is done and its output is
    /// complete.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.mailbox.is_free()
    }

    /// Takes the answer, if it is complete. Returns its header and copies as much of the result as fits into `out`.
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
