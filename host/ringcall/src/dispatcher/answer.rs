//! Checks and answers shared by the dispatcher's loop and a halt.

use super::pool::Pool;
use crate::external::RingCompat;
use crate::shared::Shared;
use crate::table::FunctionTable;
use ringcall_protocol::slot::{Answered, Request};
use ringcall_protocol::{RingMemory, SharedRing, validate};
use ringcall_wire::counter::Counter;
use ringcall_wire::header::RESPONSE_MAGIC;
use ringcall_wire::status::{DispatchMode, Status};

/// The function of a request that is to be run: its index in the table, how it is run, and whether the external
/// executor runs it.
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
    // On a shared ring the header names the function, and thereby the dispatcher, which then checks the flag.
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

/// Whether another dispatcher has answered this request and is about to clear its request flag. On rings whose
/// responses are written into the requests' slots, such a slot holds a response's magic.
pub(super) fn is_answered_in_place(ring: &SharedRing, request: &Request) -> bool {
    let (geometry, slot) = (ring.geometry(), request.slot());
    geometry.request_address(slot) == geometry.response_address(slot)
        && request.header().magic == RESPONSE_MAGIC
}

#[inline(always)]
pub(super) fn answer(shared: &Shared, request: Request, status: Status, result: &[u8]) {
    // The caller has clamped a result that is longer than the slot, so the status is final.
    shared.bank.count(Counter::of_status(status));
    shared.log_completion(request.slot(), request.header(), status, None);
    let Answered { .. } = request.answer(&shared.ring, status, result);
}
