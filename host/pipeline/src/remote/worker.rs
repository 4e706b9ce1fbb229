//! A worker: polls the ring's response flags, runs the CPU stage on what the device left, answers.

use super::desks::{Claim, Verdict, Word};
use super::{Desks, RemoteStage};
use crate::stage::{RequestView, StageTimes};
use crate::state::State;
use ringcall::wire::flag::{FREE, IN_FLIGHT};
use ringcall::wire::header::RequestHeader;
use ringcall::{Status, Wait};
use ringcall_dispatch::scan::GROUP;
use ringcall_dispatch::slot::Response;
use ringcall_dispatch::{RingMemory, SlotIndex};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct Worker {
    pub(super) state: Arc<State>,
    pub(super) stage: Box<dyn RemoteStage>,
    pub(super) quit: Arc<DeviceU64>,
    pub(super) wait: Wait,
    /// The group of slots that this one looks at first: workers begin apart.
    pub(super) first: u32,
    /// Private copies, as long as the slots.
    pub(super) payload: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) response: Vec<u8>,
}

impl Worker {
    /// Until told to quit.
    pub(super) fn run(mut self) {
        let state = Arc::clone(&self.state);
        let Some(desks) = &state.remote else { return };
        let mut waiter = self.wait.waiter();
        loop {
            // Read before the look: what was there before the order to quit is served.
            let quitting = self.quit.load(Ordering::Acquire) != 0;
            if self.turn(desks) > 0 {
                waiter.reset();
            } else if quitting {
                return;
            } else {
                waiter.idle();
            }
        }
    }

    /// One look at every response flag, eight at a time; how much there was.
    fn turn(&mut self, desks: &Desks) -> u32 {
        let ring = desks.ring().shared();
        let groups = ring.geometry().slots().div_ceil(GROUP);
        let mut found = 0;
        for step in 0..groups {
            let group = (self.first + step) % groups;
            let flags = ring.tx_group(group);
            for (i, _) in flags.iter().enumerate().filter(|&(_, &flag)| flag != FREE && flag != IN_FLIGHT) {
                let Some(slot) = ring.geometry().slot(group * GROUP + i as u32) else { continue };
                match desks.claim(slot) {
                    Some(Claim::Answer(word, response)) => self.serve(desks, slot, word, response),
                    Some(Claim::Late(word, response)) => {
                        response.release(ring);
                        desks.swept(slot, word);
                    }
                    None => continue,
                }
                found += 1;
            }
        }
        found
    }

    /// Copies request and answer, gives the slot's response back to the device, runs the stage and answers.
    fn serve(&mut self, desks: &Desks, slot: SlotIndex, word: Word, response: Response) {
        let ring = desks.ring().shared();
        let inferred = clock::now_ns();
        desks.counts().taken.fetch_add(1, Ordering::Relaxed);
        let (header, error) = (*response.header(), response.error());
        let len = response.read(ring, &mut self.output);
        let request = RequestHeader::from_words(ring.request_header(slot));
        let payload = (request.arg_len as usize).min(self.payload.len());
        ring.read_payload(slot, &mut self.payload[..payload]);
        response.release(ring);

        let booked = self.state.book().look(slot);
        let request_id = booked.map_or(0, |booked| booked.request_id as u32);
        let honest = header.has_magic()
            && header.request_id == request_id
            && request.request_id == request_id
            && header.result_len as usize == len
            && request.arg_len as usize == payload;
        let verdict = match (error, header.status()) {
            (Some(code), _) => Verdict::Error(code),
            (None, _) if !honest => {
                desks.counts().garbage.fetch_add(1, Ordering::Relaxed);
                Verdict::Answer(Status::ENGINE_FAILED, &[])
            }
            (None, Status::OK) => {
                let request = RequestView { header: &request, payload: &self.payload[..payload] };
                let (stage, output) = (&mut self.stage, &self.output[..len]);
                let answered =
                    catch_unwind(AssertUnwindSafe(|| stage.process(request, output, &mut self.response)));
                match answered {
                    Ok(Ok(len)) => match self.response.get(..len) {
                        Some(result) => Verdict::Answer(Status::OK, result),
                        None => Verdict::Answer(Status::RESULT_TOO_LONG, &[]),
                    },
                    Ok(Err(error)) => Verdict::Answer(error.0, &[]),
                    Err(_) => {
                        self.state.tally.panics.fetch_add(1, Ordering::Relaxed);
                        Verdict::Answer(Status::HANDLER_PANIC, &[])
                    }
                }
            }
            (None, status) => Verdict::Answer(status, &[]),
        };
        let submitted = booked.map_or(0, |booked| booked.submitted_ns);
        // When the device took it is not known here.
        let times = StageTimes {
            accepted: submitted,
            started: submitted,
            inferred,
            processed: clock::now_ns(),
            ..StageTimes::default()
        };
        desks.settle(slot, word, || {
            self.state.times.write(slot, &times);
            desks.write(slot, request_id, verdict, self.state.ring.shared());
        });
    }
}
