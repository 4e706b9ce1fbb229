//! The checks before a handler sees a byte. Each failure has a separate status, which is the answer, and a
//! counter.

use crate::ring::{Geometry, SlotIndex};
use crate::table::{Callable, Table};
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{REQUEST_MAGIC, RequestHeader};
use ringcall_wire::status::{DispatchMode, Status};

/// The flag holds the address of its own slot, as this side or as the peer sees it. Never followed as a pointer.
///
/// # Errors
/// [`Status::BAD_FLAG`].
#[inline(always)]
pub fn flag(geometry: &Geometry, slot: SlotIndex, value: u64) -> Result<(), Status> {
    if value == geometry.request_address(slot) || value == geometry.peer_request_address(slot) {
        Ok(())
    } else {
        Err(Status::BAD_FLAG)
    }
}

/// Magic, and the payload inside the slot.
///
/// # Errors
/// [`Status::BAD_MAGIC`], [`Status::ARG_TOO_LONG`].
#[inline(always)]
pub fn header(header: &RequestHeader, capacity: u32) -> Result<(), Status> {
    if header.magic != REQUEST_MAGIC {
        Err(Status::BAD_MAGIC)
    } else if header.arg_len > capacity {
        Err(Status::ARG_TOO_LONG)
    } else {
        Ok(())
    }
}

/// All checks of a request whose flag was found valid: magic, the payload's length, the function, its mode and its schema.
///
/// # Errors
/// Those of [`header`] and [`function`], in this order.
#[inline(always)]
pub fn request<'t, T: Table>(
    table: &'t T,
    header: &RequestHeader,
    capacity: u32,
    runs: impl Fn(DispatchMode) -> bool,
) -> Result<&'t T::Entry, Status> {
    self::header(header, capacity).and_then(|()| function(table, header, runs))
}

/// The function is known, of a mode this dispatcher runs, and its schema agrees with the payload's length.
///
/// # Errors
/// [`Status::UNKNOWN_FUNCTION`], [`Status::WRONG_MODE`], [`Status::SCHEMA_MISMATCH`].
#[inline(always)]
pub fn function<'t, T: Table>(
    table: &'t T,
    header: &RequestHeader,
    runs: impl Fn(DispatchMode) -> bool,
) -> Result<&'t T::Entry, Status> {
    let entry = table.lookup(FunctionId(header.function_id)).ok_or(Status::UNKNOWN_FUNCTION)?;
    if !runs(entry.mode()) {
        return Err(Status::WRONG_MODE);
    }
    match entry.arg_bytes() {
        Some(bytes) if bytes != header.arg_len => Err(Status::SCHEMA_MISMATCH),
        _ => Ok(entry),
    }
}
