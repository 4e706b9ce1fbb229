//! A graph that the host launches for one request at a time: a worker of the host dispatcher with a GPU behind it.

use super::launch::launch_graph;
use super::{DeviceError, GraphKernel, GraphNodes};
use crate::driver::{
    Context, DeviceAddress, DeviceBuffer, Graph, GraphExec, KernelArgs, Launch, MappedRegion, Module, Stream,
};
use core::sync::atomic::Ordering;
use ringcall_dispatch::persistent::child::mailbox_bytes;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_wire::Counter;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use std::sync::Arc;

/// A graph, its mailbox in mapped memory, and a stream of its own.
#[derive(Debug)]
pub struct HostGraph {
    exec: GraphExec,
    stream: Stream,
    mailbox: Words,
    request: Bytes,
    answer: Bytes,
    flag: Words,
    _memory: [MappedRegion; 3],
    _counts: DeviceBuffer,
    _nodes: Option<Arc<dyn GraphNodes>>,
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
        let add = |graph: &mut Graph, mailbox: DeviceAddress| {
            let mut before = Vec::new();
            for kernel in kernels {
                let launch = Launch::linear(kernel.blocks, kernel.threads);
                let args = KernelArgs::new().address(mailbox);
                before = vec![graph.add_kernel(&module.kernel(&kernel.name)?, &launch, &args, &before)?];
            }
            Ok(())
        };
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
        let memory = [
            MappedRegion::zeroed(context, mailbox_bytes(capacity) as usize)?,
            MappedRegion::zeroed(context, slot)?,
            MappedRegion::zeroed(context, 8)?,
        ];
        let [mailbox, answer, flag] = &memory;
        let counts = DeviceBuffer::zeroed(context, (Counter::COUNT + 1) * 8)?;
        let words = mailbox.words(0, io::PAYLOAD / 8)?;
        for (word, value) in [
            (io::TX_SLOT, answer.device_address(0)?.0),
            (io::TX_FLAG, flag.device_address(0)?.0),
            (io::TX_VALUE, 1),
            (io::TX_CAPACITY, u64::from(capacity)),
            (io::COUNTERS, counts.address().0),
            (io::FINISHED, counts.address().offset(Counter::COUNT as u64 * 8).0),
        ] {
            words.store(word, value, Ordering::Relaxed);
        }
        let mut graph = Graph::new(context)?;
        add(&mut graph, mailbox.device_address(0)?)?;
        let exec = graph.instantiate_for_host()?;
        let stream = Stream::new(context)?;
        exec.upload(&stream)?;
        stream.synchronize()?;
        Ok(Self {
            exec,
            stream,
            mailbox: words,
            request: mailbox.bytes(io::PAYLOAD, capacity as usize)?,
            answer: answer.bytes(0, slot)?,
            flag: flag.words(0, 1)?,
            _memory: memory,
            _counts: counts,
            _nodes: nodes,
        })
    }

    /// Launches the graph for a request. The previous one was taken ([`take`](Self::take)).
    ///
    /// # Errors
    /// The payload does not fit, or the launch fails.
    pub fn launch(&mut self, header: &RequestHeader, payload: &[u8]) -> Result<(), DeviceError> {
        if !self.request.write(0, payload) {
            return Err(DeviceError::Shape(format!(
                "a payload of {} bytes does not fit a graph's mailbox of {}",
                payload.len(),
                self.request.len()
            )));
        }
        for (i, word) in header.to_words().into_iter().enumerate() {
            self.mailbox.store(io::HEADER + i, word, Ordering::Relaxed);
        }
        // A mailbox of mapped memory is the request's own until its answer was taken.
        self.mailbox.store(io::STATE, io::LAUNCHED, Ordering::Relaxed);
        self.mailbox.store(io::ARG_LEN, payload.len() as u64, Ordering::Relaxed);
        self.flag.store(0, 0, Ordering::Release);
        let launched = launch_graph(&self.exec, &self.stream);
        if launched.is_err() {
            self.mailbox.store(io::STATE, io::IDLE, Ordering::Relaxed);
        }
        launched
    }

    /// Whether the last launch's graph has freed its mailbox: its last kernel is done, and what it handed over is there.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.mailbox.load(io::STATE, Ordering::Acquire) == io::IDLE
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
