//! An instance as a worker of a host dispatcher, which launches its graph itself.

use crate::counts::LiveCounts;
use crate::workers::{Job, Stage, run_stage};
use crate::{Queue, ServiceError, WorkerStats};
use core::sync::atomic::Ordering;
use ringcall::worker::WorkerPort;
use ringcall_cuda::driver::Context;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::hint;
use ringcall_launch::ring::{GraphNodes, HostGraph};
use ringcall_protocol::handoff::{Claim, PolledJob};
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One instance of a service, its graph and its stream. Its loop is the caller's thread.
#[derive(Debug)]
pub struct HostWorker {
    /// Number of the instance.
    index: u32,
    graph: HostGraph,
    queue: Option<Arc<Queue>>,
    counts: LiveCounts,
    payload: Vec<u8>,
    output: Vec<u8>,
    result: Vec<u8>,
    /// A graph that did not end in time: nothing can be launched before it has.
    overdue: bool,
}

/// What came of a launch.
enum Outcome {
    /// The graph's own answer: its status, and so many bytes of the result.
    Answered(Status, usize),
    /// A job for the CPU.
    HandedOver(Claim, bool),
    /// Neither in time, or the worker is to end.
    Nothing,
}

impl HostWorker {
    pub(crate) fn new(
        context: &Arc<Context>,
        nodes: &Arc<dyn GraphNodes>,
        index: u32,
        queue: Option<Arc<Queue>>,
        capacity: u32,
    ) -> Result<Self, ServiceError> {
        let graph = HostGraph::composed(context, nodes, index, capacity)?;
        let output = queue.as_ref().map_or(0, |queue| queue.shape().output_bytes() as usize);
        Ok(Self {
            index,
            graph,
            queue,
            counts: LiveCounts::default(),
            payload: Vec::new(),
            output: vec![0; output],
            result: vec![0; capacity as usize],
            overdue: false,
        })
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> WorkerStats {
        self.counts.snapshot()
    }

    /// Serves jobs of `port` until `quit` is not 0. Each gets an answer: the graph's, that of `stage` where the service hands
    /// over, or [`TIMED_OUT`](Status::TIMED_OUT) after `timeout`.
    pub fn serve(
        &mut self,
        port: &WorkerPort,
        mut stage: Option<&mut dyn Stage>,
        timeout: Duration,
        quit: &DeviceU64,
    ) {
        let geometry = *port.geometry();
        self.payload.resize(geometry.request_capacity() as usize, 0);
        let most = geometry.result_capacity() as usize;
        while quit.load(Ordering::Acquire) == 0 {
            let Some(job) = port.take_job() else {
                hint::spin();
                continue;
            };
            LiveCounts::count(&self.counts.jobs);
            let len = port.read_payload(&job, &mut self.payload).min(self.payload.len());
            let (status, len) = match self.launch(&job.ticket.header, len, timeout) {
                Err(status) => (status, 0),
                Ok(()) => match self.await_outcome(timeout, quit) {
                    Outcome::Answered(status, len) => (status, len),
                    Outcome::HandedOver(claim, damaged) => self.finish(&claim, damaged, stage.as_deref_mut()),
                    Outcome::Nothing => {
                        self.overdue = true;
                        (Status::TIMED_OUT, 0)
                    }
                },
            };
            let (status, len) = status.clamped(len, most);
            match port.answer(&job, status, self.result.get(..len).unwrap_or_default()) {
                Ok(()) => LiveCounts::count(&self.counts.answered),
                Err(_) => LiveCounts::count(&self.counts.late),
            }
            if !status.is_ok() {
                LiveCounts::count(&self.counts.failed);
            }
            port.release();
        }
    }

    fn launch(&mut self, header: &RequestHeader, len: usize, timeout: Duration) -> Result<(), Status> {
        // The graph answers a moment before it gives its mailbox back, which is filled only then. One that is overdue is not
        // waited for again.
        let begin = Instant::now();
        while !self.graph.is_free() {
            if self.overdue || begin.elapsed() >= timeout {
                self.overdue = true;
                return Err(Status::ENGINE_FAILED);
            }
            hint::spin();
        }
        self.overdue = false;
        self.clear();
        if self.queue.as_ref().is_some_and(|queue| !queue.has_room()) {
            return Err(Status::BACKPRESSURE);
        }
        let payload = self.payload.get(..len).unwrap_or_default();
        self.graph.launch(header, payload).map_err(|_| Status::LAUNCH_FAILED)
    }

    /// Gives back what came after its time was up.
    fn clear(&self) {
        let Some(queue) = &self.queue else { return };
        for _ in 0..queue.shape().depth() {
            match queue.poll() {
                PolledJob::Job(claim) | PolledJob::Damaged(claim) => {
                    LiveCounts::count(&self.counts.late);
                    self.release(queue, &claim);
                }
                PolledJob::Garbage { .. } => LiveCounts::count(&self.counts.garbage),
                PolledJob::Empty => return,
            }
        }
    }

    fn await_outcome(&mut self, timeout: Duration, quit: &DeviceU64) -> Outcome {
        let begin = Instant::now();
        loop {
            if let Some(answer) = self.graph.take(&mut self.result) {
                let len = (answer.result_len as usize).min(self.result.len());
                return Outcome::Answered(Status(answer.status), len);
            }
            match self.queue.as_ref().map_or(PolledJob::Empty, |queue| queue.poll()) {
                PolledJob::Job(claim) => return Outcome::HandedOver(claim, false),
                PolledJob::Damaged(claim) => return Outcome::HandedOver(claim, true),
                PolledJob::Garbage { .. } => LiveCounts::count(&self.counts.garbage),
                PolledJob::Empty => hint::spin(),
            }
            if begin.elapsed() >= timeout || quit.load(Ordering::Relaxed) != 0 {
                return Outcome::Nothing;
            }
        }
    }

    fn finish(
        &mut self,
        claim: &Claim,
        damaged: bool,
        stage: Option<&mut (dyn Stage + '_)>,
    ) -> (Status, usize) {
        let Some(queue) = self.queue.clone() else { return (Status::ENGINE_FAILED, 0) };
        let outcome = if damaged {
            LiveCounts::count(&self.counts.damaged);
            (Status::ENGINE_FAILED, 0)
        } else {
            let len = queue.read_output(claim, &mut self.output);
            let output = self.output.get(..len).unwrap_or_default();
            let job =
                Job { instance: self.index, sequence: claim.sequence(), header: claim.header(), output };
            match stage {
                Some(stage) => run_stage(stage, &job, &mut self.result, &self.counts),
                // Without a stage the output is the answer.
                None => {
                    let len = len.min(self.result.len());
                    self.result[..len].copy_from_slice(&self.output[..len]);
                    (Status::OK, len)
                }
            }
        };
        self.release(&queue, claim);
        outcome
    }

    fn release(&self, queue: &Queue, claim: &Claim) {
        if queue.release(claim).is_err() {
            LiveCounts::count(&self.counts.unreleased);
        }
    }
}
