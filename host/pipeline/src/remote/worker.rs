//! A worker thread: polls the ring's response flags, runs the CPU stage on the device's response, completes the request.

use super::in_flight::{Claim, Reply, Word};
use super::{InFlightTable, RemoteStage};
use crate::stage::{RequestView, StageTimes};
use crate::state::State;
use ringcall::thread::StopFlag;
use ringcall::wire::flag::{FREE, IN_FLIGHT};
use ringcall::wire::header::RequestHeader;
use ringcall::{Status, Wait};
use ringcall_gpu::clock;
use ringcall_protocol::scan::GROUP;
use ringcall_protocol::slot::Response;
use ringcall_protocol::{RingMemory, SlotIndex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct Worker {
    pub(super) state: Arc<State>,
    pub(super) stage: Box<dyn RemoteStage>,
    pub(super) stop: StopFlag,
    pub(super) wait: Wait,
    /// The group of slots that this worker polls first. Workers start at different groups.
    pub(super) first: u32,
    /// Private copies, as long as the slots.
    pub(super) payload: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) response: Vec<u8>,
}

impl Worker {
    /// Runs until `stop` is set.
    pub(super) fn run(mut self) {
        let state = Arc::clone(&self.state);
        let Some(in_flight) = &state.remote else { return };
        self.stop.clone().poll_until_set(self.wait, || self.poll(in_flight) > 0);
    }

    /// Polls every response flag once, eight at a time. Returns the number of responses taken.
    fn poll(&mut self, in_flight: &InFlightTable) -> u32 {
        let ring = in_flight.ring().shared();
        let groups = ring.geometry().slots().div_ceil(GROUP);
        let mut found = 0;
        for step in 0..groups {
            let group = (self.first + step) % groups;
            let flags = ring.tx_group(group);
            for (i, _) in flags.iter().enumerate().filter(|&(_, &flag)| flag != FREE && flag != IN_FLIGHT) {
                let Some(slot) = ring.geometry().slot(group * GROUP + i as u32) else { continue };
                match in_flight.claim(slot) {
                    Some(Claim::Answer(word, response)) => self.serve(in_flight, slot, word, response),
                    Some(Claim::Late(word, response)) => {
                        response.release(ring);
                        in_flight.discarded(slot, word);
                    }
                    None => continue,
                }
                found += 1;
            }
        }
        found
    }

    /// Copies request and response, releases the response slot to the device, runs the stage and completes the request.
    fn serve(&mut self, in_flight: &InFlightTable, slot: SlotIndex, word: Word, response: Response) {
        let ring = in_flight.ring().shared();
        let inferred = clock::now_ns();
        in_flight.counts().taken.fetch_add(1, Ordering::Relaxed);
        let (header, error) = (*response.header(), response.error());
        let len = response.read(ring, &mut self.output);
        let request = RequestHeader::from_words(ring.request_header(slot));
        let payload = (request.arg_len as usize).min(self.payload.len());
        ring.read_payload(slot, &mut self.payload[..payload]);
        response.release(ring);

        let entry = self.state.request_ids().get(slot);
        let request_id = entry.map_or(0, |entry| entry.request_id as u32);
        let valid = header.has_magic()
            && header.request_id == request_id
            && request.request_id == request_id
            && header.result_len as usize == len
            && request.arg_len as usize == payload;
        let reply = match (error, header.status()) {
            (Some(code), _) => Reply::Error(code),
            (None, _) if !valid => {
                in_flight.counts().garbage.fetch_add(1, Ordering::Relaxed);
                Reply::Answer(Status::ENGINE_FAILED, &[])
            }
            (None, Status::OK) => {
                let request = RequestView { header: &request, payload: &self.payload[..payload] };
                let (stage, output) = (&mut self.stage, &self.output[..len]);
                let answered =
                    catch_unwind(AssertUnwindSafe(|| stage.process(request, output, &mut self.response)));
                match answered {
                    Ok(Ok(len)) => match self.response.get(..len) {
                        Some(result) => Reply::Answer(Status::OK, result),
                        None => Reply::Answer(Status::RESULT_TOO_LONG, &[]),
                    },
                    Ok(Err(error)) => Reply::Answer(error.0, &[]),
                    Err(_) => {
                        self.state.counters.panics.fetch_add(1, Ordering::Relaxed);
                        Reply::Answer(Status::HANDLER_PANIC, &[])
                    }
                }
            }
            (None, status) => Reply::Answer(status, &[]),
        };
        let submitted = entry.map_or(0, |entry| entry.submitted_ns);
        // The time at which the device accepted the request is not known here.
        let times = StageTimes {
            accepted: submitted,
            started: submitted,
            inferred,
            processed: clock::now_ns(),
            ..StageTimes::default()
        };
        in_flight.complete(slot, word, || {
            self.state.times.write(slot, &times);
            in_flight.write(slot, request_id, reply, self.state.ring.shared());
        });
    }
}
