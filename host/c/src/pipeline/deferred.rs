//! Calls of the CPU stage whose answers come after the stage has returned.
//!
//! A stage, or a graph, writes its response over the request: header first, then the result. The response that a consumer
//! sees is a copy of it, with the request's id and time stamp.

use super::callbacks::{Callback, CpuStageFn, DEFERRED, FAILED, ringcall_cpu_stage_context_t};
use crate::handles::lock;
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall::Status;
use ringcall::worker::Deferral;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_pipeline::{StageContext, StageOutcome};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::header::ResponseHeader;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Where a slot's request is, as far as its answer may be deferred. The number is the request's generation.
enum Slot {
    Idle,
    /// The CPU stage has it.
    InStage(u64),
    /// It was completed while the CPU stage had it.
    Completed(u64),
    Deferred(Deferral),
}

/// The requests of a ring that may be completed later.
pub(super) struct Deferrals {
    ring: SharedRing,
    slots: Box<[Mutex<Slot>]>,
    /// Room for one result.
    result: Mutex<Box<[u8]>>,
}

/// Copies the response that lies in a request's slot: status and length of the result in `out`.
fn response(ring: &SharedRing, slot: SlotIndex, out: &mut [u8]) -> (Status, usize) {
    let header = ResponseHeader::from_words(ring.request_header(slot));
    if !header.has_magic() {
        return (Status::ABANDONED, 0);
    }
    if !header.status().is_ok() {
        return (header.status(), 0);
    }
    let (status, len) = Status::OK.clamped(header.result_len as usize, out.len());
    ring.read_payload(slot, &mut out[..len]);
    (status, len)
}

impl Deferrals {
    pub(super) fn new(ring: SharedRing) -> Self {
        let slots = (0..ring.geometry().slots()).map(|_| Mutex::new(Slot::Idle)).collect();
        let result = vec![0; ring.geometry().result_capacity() as usize];
        Self { ring, slots, result: Mutex::new(result.into()) }
    }

    /// Calls the CPU stage once.
    pub(super) fn run(
        &self,
        stage: Callback<CpuStageFn>,
        context: &mut StageContext<'_>,
        failures: &DeviceU64,
    ) -> StageOutcome {
        let (number, generation) = (context.origin_slot(), context.generation());
        let geometry = self.ring.geometry();
        let (Some(slot), Some(cell)) = (geometry.slot(number), self.slots.get(number as usize)) else {
            return StageOutcome::Failed(Status::ABANDONED);
        };
        {
            let mut state = lock(cell);
            match *state {
                Slot::InStage(last) | Slot::Completed(last) if last == generation => {}
                _ => *state = Slot::InStage(generation),
            }
        }
        let given = ringcall_cpu_stage_context_t {
            worker_id: context.worker() as c_int,
            origin_slot: number as c_int,
            response_buffer: geometry.request_address(slot) as usize as *mut c_void,
            max_response_size: geometry.rx_stride() as usize,
        };
        match stage.call(&given) {
            0 => StageOutcome::NotReady,
            DEFERRED => {
                let deferral = context.defer();
                let mut state = lock(cell);
                if matches!(*state, Slot::Completed(last) if last == generation) {
                    *state = Slot::Idle;
                    drop(state);
                    let (status, len) = response(&self.ring, slot, context.response);
                    // Late only if a timeout or a stop has answered it.
                    let _ = deferral.complete(status, &context.response[..len]);
                } else {
                    *state = Slot::Deferred(deferral);
                }
                StageOutcome::Deferred
            }
            FAILED => {
                *lock(cell) = Slot::Idle;
                failures.fetch_add(1, Ordering::Relaxed);
                StageOutcome::Failed(Status::HANDLER_PANIC)
            }
            _ => {
                *lock(cell) = Slot::Idle;
                self.outcome(slot, context)
            }
        }
    }

    /// The response in the request's slot, as the stage's.
    pub(super) fn outcome(&self, slot: SlotIndex, context: &mut StageContext<'_>) -> StageOutcome {
        match response(&self.ring, slot, context.response) {
            (Status::OK, len) => StageOutcome::Done(len),
            (status, _) => StageOutcome::Failed(status),
        }
    }

    /// The slot of a ring by its number.
    pub(super) fn slot(&self, number: u32) -> Option<SlotIndex> {
        self.ring.geometry().slot(number)
    }

    /// Completes a deferred request with the response that lies in its slot.
    pub(super) fn complete(&self, number: c_int) -> Result<(), Fault> {
        let none = || Fault::invalid(format!("slot {number} has no request whose completion was deferred"));
        let index = u32::try_from(number).map_err(|_| none())?;
        let (slot, cell) = self.slot(index).zip(self.slots.get(index as usize)).ok_or_else(none)?;
        let mut state = lock(cell);
        match std::mem::replace(&mut *state, Slot::Idle) {
            Slot::InStage(generation) => {
                *state = Slot::Completed(generation);
                Ok(())
            }
            Slot::Deferred(deferral) => {
                drop(state);
                let mut result = lock(&self.result);
                let (status, len) = response(&self.ring, slot, &mut result);
                deferral.complete(status, &result[..len]).map_err(|late| Fault::invalid(late.to_string()))
            }
            before => {
                *state = before;
                Err(none())
            }
        }
    }

    /// Drops calls that were never completed, after a stop has answered their requests.
    pub(super) fn clear(&self) {
        for cell in &self.slots {
            drop(std::mem::replace(&mut *lock(cell), Slot::Idle));
        }
    }
}
