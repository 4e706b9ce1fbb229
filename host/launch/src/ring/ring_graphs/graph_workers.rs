//! Graph workers of the host dispatcher: graphs, mailboxes and answers.

use super::super::mailbox_graph::{Mailbox, MailboxGraph};
use super::super::worker_pool::{
    Answer, Answers, CompletionProbe, Found, NotTaken, Seen, UNKNOWN, WorkerPool, WorkerStream, code_of,
};
use crate::ring::DeviceError;
use core::fmt::Debug;
use ringcall::external::{ExecutorClaim, ExternalExecutor, LaunchError, Marks};
use ringcall_gpu::shared::Bytes;
use ringcall_protocol::ring::SlotIndex;
use ringcall_protocol::{Geometry, RingMemory, SharedRing};
use ringcall_wire::flag;
use ringcall_wire::header::{RESPONSE_MAGIC, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;
use std::time::{Duration, Instant};

/// `CUDA_ERROR_INVALID_VALUE`: a slot that the graphs' ring does not have, or whose request is in flight.
pub(super) const INVALID: u16 = 1;
/// `CUDA_ERROR_NOT_FOUND`: there is no such worker.
const NOT_FOUND: u16 = 500;
/// How long a drop waits for the end of the last graphs.
const GRACE_PERIOD: Duration = Duration::from_millis(100);

/// The stream of a worker's graph. Tests simulate one.
pub(super) trait GraphStream: Debug + Send {
    /// Starts the graph, and returns.
    fn launch(&self) -> Result<(), u16>;
    /// The state of its stream: one call of the driver.
    fn state(&self) -> WorkerStream;
    /// Abandons its graph, which may never end.
    fn abandon(&self);
}

fn code(error: &DeviceError) -> u16 {
    match error {
        DeviceError::Cuda(error) => code_of(error),
        _ => UNKNOWN,
    }
}

impl GraphStream for MailboxGraph {
    fn launch(&self) -> Result<(), u16> {
        MailboxGraph::launch(self).map_err(|error| code(&error))
    }

    fn state(&self) -> WorkerStream {
        MailboxGraph::state(self).into()
    }

    fn abandon(&self) {
        MailboxGraph::abandon(self);
    }
}

/// An executable graph and its mailbox. The [`WorkerPool`] knows which workers are idle.
#[derive(Debug)]
pub(super) struct Worker {
    stream: Box<dyn GraphStream>,
    mailbox: Mailbox,
    /// The routing key of the request that it was last claimed for.
    header: RequestHeader,
}

/// The workers of a ring.
#[derive(Debug)]
pub(super) struct GraphWorkers {
    ring: SharedRing,
    /// Device addresses of the response slots and flags.
    tx_data: u64,
    tx_flags: u64,
    responses: Bytes,
    workers: Vec<Worker>,
    pool: WorkerPool,
    copy: Vec<u8>,
}

/// A graph has ended when it has freed its mailbox, which it does after it has answered.
struct Mailboxes<'a>(&'a [Worker]);

impl CompletionProbe for Mailboxes<'_> {
    #[inline]
    fn has_ended(&self, worker: usize, _: u64, _: bool) -> bool {
        self.0[worker].mailbox.is_free()
    }

    fn state(&self, worker: usize) -> WorkerStream {
        self.0[worker].stream.state()
    }
}

impl GraphWorkers {
    pub(super) fn new(ring: SharedRing, tx_data: u64, tx_flags: u64) -> Self {
        let windows = ring.windows();
        let responses = windows.tx_data;
        let stride = ring.geometry().tx_stride() as usize / 8;
        let answers = Answers::new(windows.tx_flags, Some((responses.words().clone(), stride)), true);
        let copy = vec![0; ring.geometry().request_capacity() as usize];
        let pool = WorkerPool::new(answers, ());
        Self { ring, tx_data, tx_flags, responses, workers: Vec::new(), pool, copy }
    }

    /// Bytes of a mailbox's payload, and of a result.
    pub(super) fn capacity(&self) -> u32 {
        self.ring.geometry().request_capacity()
    }

    /// Adds a worker for requests of a function with a routing key; the key 0 means any request.
    pub(super) fn add(&mut self, function: u32, key: u64, stream: Box<dyn GraphStream>, mailbox: Mailbox) {
        self.pool.add(function, key);
        self.workers.push(Worker { stream, mailbox, header: RequestHeader::new(function, 0, 0, 0) });
    }

    /// How a request was answered. The response stays in memory until the slot is launched again, whether it was
    /// taken or not. On a shared ring another dispatcher may have answered in this slot since.
    fn status_of(&self, slot: u32, request: &RequestHeader) -> Status {
        let at = slot as usize * self.ring.geometry().tx_stride() as usize;
        let Some(response) = self.responses.read_words(at).map(ResponseHeader::from_words) else {
            return Status::OK;
        };
        let own = response.magic == RESPONSE_MAGIC && response.request_id == request.request_id;
        if own || !self.pool.is_shared() { Status(response.status) } else { Status::OK }
    }

    /// Answers for a graph that has ended without an answer.
    fn fail(&self, slot: u32, request: &RequestHeader, code: u16) -> Status {
        if let Some(slot) = self.ring.geometry().slot(slot) {
            let answer = ResponseHeader::reply(request, Status::LAUNCH_FAILED.0, 0);
            self.ring.write_response(slot, answer.to_words(), &[]);
            self.ring.publish_tx(slot, flag::error(code));
        }
        Status::LAUNCH_FAILED
    }

    /// Collects graphs that have ended; with `ask` also graphs that failed, or that ended without freeing their
    /// mailbox.
    fn collect(&mut self, ask: bool, ended: &mut dyn FnMut(Status)) {
        for index in self.pool.workers() {
            let Some(Seen { slot, answer, end }) = self.pool.poll(index, ask, &Mailboxes(&self.workers))
            else {
                continue;
            };
            let worker = &self.workers[index];
            if let Some(answer) = answer {
                let status = match answer {
                    Answer::Given => self.status_of(slot, &worker.header),
                    Answer::Never(code) => self.fail(slot, &worker.header, code),
                };
                self.pool.complete(index);
                ended(status);
            }
            match end {
                None => (),
                // The graph may still write to its mailbox.
                Some(WorkerStream::Failed(_)) => self.pool.retire(index),
                Some(_) => {
                    worker.mailbox.take_back();
                    self.pool.release(index);
                }
            }
        }
    }
}

impl ExternalExecutor for GraphWorkers {
    fn is_for(&self, ring: &Geometry) -> bool {
        // The graph has the addresses of this memory.
        self.ring.geometry() == ring
    }

    fn share(&mut self) {
        self.pool.share();
    }

    #[inline]
    fn service(&mut self, ended: &mut dyn FnMut(Status)) {
        if self.pool.is_idle() {
            return;
        }
        let ask = self.pool.due();
        self.collect(ask, ended);
    }

    #[inline]
    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> ExecutorClaim {
        match self.pool.find(Some((header.function_id, key))) {
            Found::NoWorker => ExecutorClaim::Never,
            Found::Busy => ExecutorClaim::Later,
            // The worker's answer was taken and the slot filled again before this poll. The worker's end must not be
            // taken for the end of the new request.
            Found::Worker(_) if self.serves(slot) => ExecutorClaim::Later,
            Found::Worker(worker) => {
                self.workers[worker].header = *header;
                ExecutorClaim::Worker(worker as u32)
            }
        }
    }

    #[inline]
    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError> {
        let index = worker as usize;
        let Some(worker) = self.workers.get(index) else {
            return Err(LaunchError { code: NOT_FOUND });
        };
        // The device writes to addresses computed from the slot, and the slot may be of another ring.
        let Some(slot) = self.ring.geometry().slot(slot.get()) else {
            return Err(LaunchError { code: INVALID });
        };
        self.pool.take(index, slot.get()).map_err(|why: NotTaken| match why {
            NotTaken::NoWorker => LaunchError { code: NOT_FOUND },
            NotTaken::NoSlot | NotTaken::Busy | NotTaken::Served => LaunchError { code: INVALID },
        })?;
        let payload = &mut self.copy[..];
        // This is the dispatcher's copy of the header, whose length the dispatcher has checked.
        let len = (worker.header.arg_len as usize).min(payload.len());
        let payload = &mut payload[..len];
        self.ring.read_payload(slot, payload);
        let geometry = self.ring.geometry();
        let offset = u64::from(slot.get()) * u64::from(geometry.tx_stride());
        worker.mailbox.set(io::TX_SLOT, self.tx_data + offset);
        worker.mailbox.set(io::TX_FLAG, self.tx_flags + u64::from(slot.get()) * 8);
        worker.mailbox.set(io::TX_VALUE, geometry.response_address(slot));
        worker.mailbox.set(io::TX_CAPACITY, geometry.result_capacity().into());
        worker.mailbox.set(io::SLOT, slot.get().into());
        // The payload fits, since mailboxes are as large as the ring's payloads.
        let posted = worker.mailbox.post(&worker.header, payload);
        debug_assert!(posted);
        match worker.stream.launch() {
            Ok(()) => {
                self.pool.launched(index, true);
                Ok(())
            }
            Err(code) => {
                worker.mailbox.take_back();
                self.pool.refused(index);
                Err(LaunchError { code })
            }
        }
    }

    fn marks(&self) -> Marks {
        Marks::BeforeStart
    }

    fn serves(&self, slot: SlotIndex) -> bool {
        self.pool.serves(slot.get())
    }

    fn is_idle(&self) -> bool {
        self.pool.is_idle()
    }
}

impl Drop for GraphWorkers {
    fn drop(&mut self) {
        let begin = Instant::now();
        while !self.is_idle() {
            self.collect(true, &mut |_| ());
            if begin.elapsed() >= GRACE_PERIOD {
                // A graph still reads its mailbox and will write into the ring; freeing any other memory would wait
                // for the graph.
                for (index, worker) in self.workers.iter().enumerate() {
                    if self.pool.is_busy(index) {
                        worker.stream.abandon();
                    }
                }
                core::mem::forget((core::mem::take(&mut self.workers), self.ring.clone()));
                return;
            }
            std::thread::yield_now();
        }
    }
}
