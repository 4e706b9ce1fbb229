//! An engine as the host dispatcher's [`ExternalExecutor`].

use super::sweep::write_failure;
use super::{Ended, Engine};
use crate::host_call::CallCounter;
use crate::status::{CUDA_UNKNOWN, Fault};
use ringcall::external::{ExecutorClaim, ExternalExecutor, LaunchError, Marks};
use ringcall_launch::ring::worker_pool::Found;
use ringcall_protocol::{Geometry, RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Owner of the response flags.
#[derive(Debug)]
pub(crate) enum Publishing {
    /// The ring: graphs set its flags, and a consumer clears them. Without marks the request flag is cleared after
    /// the graph has ended.
    Ring(SharedRing),
    /// A loop that drives a transport: graphs set the transport's flags, and the loop reads the flags of this ring.
    Loop(SharedRing),
}

#[derive(Debug)]
pub(crate) struct EngineExecutor {
    pub(crate) engine: Arc<Engine>,
    pub(crate) counter: CallCounter,
    pub(crate) publishing: Publishing,
}

impl EngineExecutor {
    fn publish(&self, ended: Ended) {
        let (Publishing::Ring(ring) | Publishing::Loop(ring)) = &self.publishing;
        let Some(slot) = ring.geometry().slot(ended.slot) else { return };
        match &self.publishing {
            Publishing::Ring(ring) if self.engine.skip_marks => ring.clear_rx(slot),
            Publishing::Ring(_) => (),
            Publishing::Loop(ring) => {
                self.engine.response_flags().store(slot.as_usize(), flag::FREE, Ordering::Release);
                let value = if ended.failed {
                    // The loop sends what lies there.
                    write_failure(ring, slot);
                    flag::error(CUDA_UNKNOWN as u16)
                } else {
                    ring.geometry().response_address(slot)
                };
                ring.publish_tx(slot, value);
            }
        }
    }
}

impl ExternalExecutor for EngineExecutor {
    fn is_for(&self, ring: &Geometry) -> bool {
        // A loop over a transport has its own flags.
        let has_flags = match &self.publishing {
            Publishing::Ring(ring) => self.engine.has_flags(&ring.windows()),
            Publishing::Loop(_) => true,
        };
        has_flags && self.engine.is_of(ring)
    }

    fn share(&mut self) {
        self.engine.share();
    }

    fn service(&mut self, ended: &mut dyn FnMut(Status)) {
        self.engine.sweep(|end| {
            self.publish(end);
            ended(if end.failed { Status::LAUNCH_FAILED } else { Status::OK });
        });
    }

    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> ExecutorClaim {
        // Without marks a slot in flight is offered again. With marks, too, its worker may not have ended yet
        // although the answer was taken and the slot filled again: that end must not be taken for the end of the new
        // request.
        if self.serves(slot) {
            return ExecutorClaim::Later;
        }
        match self.engine.find(Some((header.function_id, key))) {
            Found::Worker(worker) => ExecutorClaim::Worker(worker as u32),
            Found::Busy => ExecutorClaim::Later,
            // An engine has all its workers from the beginning.
            Found::NoWorker => ExecutorClaim::Never,
        }
    }

    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError> {
        self.counter.add();
        let mark = match self.publishing {
            Publishing::Ring(_) => self.marks() == Marks::InStart,
            // The loop's own flags are not the graph's flags.
            Publishing::Loop(_) => true,
        };
        // SAFETY: the dispatcher's wiring was checked, and stays until it has stopped.
        let launched = unsafe { self.engine.launch(worker as usize, slot.get(), mark) };
        launched.map_err(|fault: Fault| {
            if matches!(self.publishing, Publishing::Loop(_)) {
                self.engine.response_flags().store(slot.as_usize(), flag::FREE, Ordering::Release);
            }
            LaunchError { code: fault.code() }
        })
    }

    fn marks(&self) -> Marks {
        match self.publishing {
            Publishing::Loop(_) => Marks::BeforeStart,
            Publishing::Ring(_) if self.engine.skip_marks => Marks::Never,
            Publishing::Ring(_) if self.engine.in_place => Marks::InStart,
            Publishing::Ring(_) => Marks::BeforeStart,
        }
    }

    fn serves(&self, slot: SlotIndex) -> bool {
        self.engine.serves(slot.get())
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }
}
