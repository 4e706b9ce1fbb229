//! Mailbox graph: an executable graph that the host launches, with its mailbox in mapped memory and its own stream.

use super::DeviceError;
use super::graphs::GraphNodes;
use super::launch::launch_graph;
use core::sync::atomic::Ordering;
use ringcall_cuda::driver::{
    Context, DeviceAddress, DeviceBuffer, Graph, GraphExec, MappedRegion, Stream, StreamState,
};
use ringcall_dispatcher::ring::graph_end::mailbox_bytes;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_wire::Counter;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::io;
use std::sync::Arc;

/// A mailbox, from the host.
#[derive(Debug)]
pub(super) struct Mailbox {
    words: Words,
    payload: Bytes,
}

impl Mailbox {
    /// A mailbox over the words before the payload, and the payload.
    pub(super) fn over(words: Words, payload: Bytes) -> Self {
        Self { words, payload }
    }

    /// Payload bytes that fit.
    pub(super) fn capacity(&self) -> usize {
        self.payload.len()
    }

    /// Sets a word of the head. The mailbox is free.
    #[inline]
    pub(super) fn set(&self, word: usize, value: u64) {
        self.words.store(word, value, Ordering::Relaxed);
    }

    /// Writes a request into a free mailbox, which belongs to the launch from then on. Returns whether the payload
    /// fits. Release: the launch of the graph orders these stores before the graph's loads, and a thread that
    /// simulates a graph loads with acquire.
    #[inline]
    pub(super) fn post(&self, header: &RequestHeader, payload: &[u8]) -> bool {
        if !self.payload.write(0, payload) {
            return false;
        }
        for (i, word) in header.to_words().into_iter().enumerate() {
            self.set(io::HEADER + i, word);
        }
        self.set(io::ARG_LEN, payload.len() as u64);
        self.words.store(io::STATE, io::LAUNCHED, Ordering::Release);
        true
    }

    /// Frees the mailbox, if nothing was launched or the launch ended without freeing it.
    pub(super) fn take_back(&self) {
        self.set(io::STATE, io::IDLE);
    }

    /// Whether the mailbox may be filled. Acquire: pairs with
    /// [`Child::finish`](ringcall_dispatcher::ring::graph_end::Child::finish).
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.words.load(io::STATE, Ordering::Acquire) == io::IDLE
    }
}

/// The graph.
#[derive(Debug)]
pub(super) struct MailboxGraph {
    exec: GraphExec,
    stream: Stream,
    _memory: MappedRegion,
    _counts: DeviceBuffer,
    _nodes: Option<Arc<dyn GraphNodes>>,
}

impl MailboxGraph {
    /// A graph of the nodes that `add` adds, for a mailbox of `capacity` payload bytes (a multiple of 8). `add` gets
    /// the address of the mailbox's words.
    pub(super) fn new(
        context: &Arc<Context>,
        capacity: u32,
        nodes: Option<Arc<dyn GraphNodes>>,
        add: impl FnOnce(&mut Graph, DeviceAddress) -> Result<(), DeviceError>,
    ) -> Result<(Self, Mailbox), DeviceError> {
        let memory = MappedRegion::zeroed(context, mailbox_bytes(capacity) as usize)?;
        let counts = DeviceBuffer::zeroed(context, (Counter::COUNT + 1) * 8)?;
        let payload = memory.bytes(io::PAYLOAD, capacity as usize)?;
        let mailbox = Mailbox::over(memory.words(0, io::PAYLOAD / 8)?, payload);
        mailbox.set(io::TX_CAPACITY, capacity.into());
        mailbox.set(io::COUNTERS, counts.address().0);
        mailbox.set(io::FINISHED, counts.address().offset(Counter::COUNT as u64 * 8).0);
        let mut graph = Graph::new(context)?;
        add(&mut graph, memory.device_address(0)?)?;
        let exec = graph.instantiate_for_host()?;
        let stream = Stream::new(context)?;
        exec.upload(&stream)?;
        stream.synchronize()?;
        Ok((Self { exec, stream, _memory: memory, _counts: counts, _nodes: nodes }, mailbox))
    }

    /// Launches the graph by one call of the driver.
    #[inline]
    pub(super) fn launch(&self) -> Result<(), DeviceError> {
        launch_graph(&self.exec, &self.stream)
    }

    /// The state of its stream: one call of the driver.
    pub(super) fn state(&self) -> StreamState {
        self.stream.query()
    }

    /// A graph that is still on its stream may never end. Its memory is not freed, because freeing would wait for the
    /// graph.
    pub(super) fn abandon(&self) {
        core::mem::forget(self.stream.context().hold_frees());
    }
}
