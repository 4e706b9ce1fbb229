//! What grid handlers have in common: alignment of their memory, registers of their threads, bytes of their slots.

use ringcall_wire::header::HEADER_BYTES;

/// A handler's memory begins at a multiple of it.
pub(crate) const ALIGNMENT: u32 = 128;

/// Registers that a multiprocessor has for each thread of a block: warps come in fours.
pub(crate) const fn registers(threads: u32) -> u32 {
    let most = 65_536 / threads.next_multiple_of(128) / 8 * 8;
    if most < 255 { most } else { 255 }
}

/// Bytes of a slot that has room for a request, and for an answer.
pub(crate) const fn slot_bytes(request_bytes: usize, answer_bytes: usize) -> u32 {
    let larger = if request_bytes > answer_bytes { request_bytes } else { answer_bytes };
    (larger + HEADER_BYTES).next_multiple_of(64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_fill_a_multiprocessor_of_four_parts() {
        assert_eq!([192, 256, 320, 352, 480, 512].map(registers), [255, 255, 168, 168, 128, 128]);
    }

    #[test]
    fn a_slot_has_room_for_the_longer_of_request_and_answer() {
        for (request, answer) in [(0, 0), (1, 40), (40, 1), (41, 8), (8, 41)] {
            let bytes = slot_bytes(request, answer) as usize;
            let needed = HEADER_BYTES + request.max(answer);
            assert!(
                bytes >= needed && bytes < needed + 64 && bytes.is_multiple_of(64),
                "{request}, {answer}"
            );
        }
    }
}
