//! Checks and answers that the loop and a halt have in common.

use super::pool::Pool;
use crate::external::RingCompat;
use crate::shared::Shared;
use crate::table::FunctionTable;
use ringcall_protocol::slot::{Answered, Request};
use ringcall_protocol::{RingMemory, SharedRing, validate};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::RESPONSE_MAGIC;
use ringcall_wire::status::{DispatchMode, Status};

/// The function that a request is for, if it is to be run: its index in the table, how it is run, and whether by the external executor.
#[inline(always)]
pub(super) fn check(
    shared: &Shared,
    table: &FunctionTable,
    pool: &Pool,
    compat: RingCompat,
    request: &Request,
) -> Result<(usize, DispatchMode, bool), Status> {
    let ring = &shared.ring;
    let runs = |mode| matches!(mode, DispatchMode::HostCall | DispatchMode::GraphLaunch);
    // On a shared ring the header says whose a request is; its dispatcher then looks at the flag.
    if compat.any_flag || compat.shared_ring {
        validate::header(request.header(), ring.geometry().request_capacity())?;
    } else {
        request.check(ring)?;
    }
    let entry = validate::function(&table.functions, request.header(), runs)?;
    if entry.mode == DispatchMode::GraphLaunch && !entry.executor && !pool.serves(entry.index) {
        return Err(Status::NO_WORKER);
    }
    if compat.shared_ring && !compat.any_flag {
        request.check(ring)?;
    }
    Ok((entry.index, entry.mode, entry.executor))
}

/// Whether another dispatcher has answered what was seen, and is about to give its request flag back: where responses
/// lie in their requests' slots, that is how it looks.
pub(super) fn is_answered_in_place(ring: &SharedRing, request: &Request) -> bool {
    let (geometry, slot) = (ring.geometry(), request.slot());
    geometry.request_address(slot) == geometry.response_address(slot)
        && request.header().magic == RESPONSE_MAGIC
}

#[inline(always)]
pub(super) fn answer(shared: &Shared, request: Request, status: Status, result: &[u8]) {
    // A result longer than the slot was clamped by the caller, so the status is final.
    shared.bank.count(Counter::of_status(status));
    shared.log_completion(request.slot(), request.header(), status, None);
    let Answered { .. } = request.answer(&shared.ring, status, result);
}
