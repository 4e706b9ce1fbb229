//! Decoding of the request in a slot of a ring: the body of a function in the host's table.

use super::{array, find, shots};
use crate::raw_ring::{aligned, copied};
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::qec::DecodeResponse;
use ringcall_wire::status::Status;

/// Decodes the request of a slot and writes its answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_serve_slot(
    decoder: *const c_void,
    limit_ns: u64,
    rx_slot: *const c_void,
    tx_slot: *mut c_void,
    slot_bytes: usize,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        aligned(rx_slot, 8, "rx_slot")?;
        aligned(tx_slot.cast_const(), 8, "tx_slot")?;
        if slot_bytes < HEADER_BYTES {
            return Err(Fault::invalid(format!("{slot_bytes} bytes of a slot have no room for a header")));
        }
        // SAFETY: the header's contract: a slot has a header.
        let request = unsafe { copied(rx_slot.cast::<RequestHeader>(), "rx_slot") }?;
        let room = slot_bytes - HEADER_BYTES;
        let asked = request.arg_len as usize;
        let bytes = decoder.model.observable_bytes() + DecodeResponse::BYTES;
        let mut status = if asked != decoder.model.syndrome_bytes() || asked > room {
            Status::BAD_PAYLOAD
        } else if bytes > room {
            Status::RESULT_TOO_LONG
        } else {
            Status::OK
        };
        if status.is_ok() {
            let payload = rx_slot.cast::<u8>().wrapping_add(HEADER_BYTES);
            // SAFETY: within the slot, and the header's contract; not used when the answer is written.
            let syndrome = unsafe { array(payload, asked, "the payload") }?;
            let mut state = decoder.state()?;
            let ended = state.read_bits(syndrome).map_err(|_| Status::BAD_PAYLOAD).and_then(|()| {
                state.decode_within(shots::limit(limit_ns)).map_err(|_| Status::ENGINE_FAILED)
            });
            match ended {
                Ok(matched) => {
                    let outcome = shots::response(&matched).to_bytes();
                    let result = tx_slot.cast::<u8>().wrapping_add(HEADER_BYTES);
                    for (at, &byte) in state.observables.iter().chain(&outcome).enumerate() {
                        // SAFETY: within the room that was looked at, and the header's contract.
                        unsafe { result.wrapping_add(at).write(byte) };
                    }
                }
                Err(refused) => status = refused,
            }
        }
        let length = if status.is_ok() { bytes as u32 } else { 0 };
        let header = ResponseHeader::reply(&request, status.0, length);
        // SAFETY: aligned, not null, and the header's contract: a slot has room for a header.
        unsafe { tx_slot.cast::<ResponseHeader>().write(header) };
        Ok(())
    })
}
