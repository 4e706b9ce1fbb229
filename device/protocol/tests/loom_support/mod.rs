//! What the models share.
//!
//! No thread of a model polls indefinitely: a model of polling loops has no end. Each party looks a few
//! times; what nobody got to is done after the threads have joined, in order, so that every interleaving ends
//! with everything checked.
#![allow(dead_code, unreachable_pub)] // each model uses its part

use ringcall_gpu::shared::Region;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::{Request, Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};

#[path = "../../../gpu/tests/loom_support/mod.rs"]
mod models;
pub use models::{broken, model};

/// The function every request of a model asks for.
pub const FUNCTION: u32 = 7;

/// A ring of `slots` slots with 8 payload bytes each: every word is an object of the model.
pub fn ring(slots: u32) -> SharedRing {
    let stride = HEADER_BYTES + 8;
    let n = slots as usize;
    let words = |count: usize| Region::zeroed(count * 8).expect("memory").words(0, count).expect("inside");
    let bytes = |len: usize| Region::zeroed(len).expect("memory").bytes(0, len).expect("inside");
    let windows = RingWindows {
        rx_flags: words(n),
        tx_flags: words(n),
        rx_data: bytes(n * stride),
        tx_data: bytes(n * stride),
    };
    SharedRing::new(slots, stride as u32, stride as u32, windows, None).expect("a ring")
}

/// Slot 0.
pub fn first(ring: &SharedRing) -> SlotIndex {
    ring.geometry().slot(0).expect("in the ring")
}

/// Writes request `i`: number `i`, time `i + 100`, payload `i + 1`.
pub fn submit(ring: &SharedRing, vacant: Vacant, i: u32) {
    vacant.submit(ring, FUNCTION, i, u64::from(i) + 100, &u64::from(i + 1).to_le_bytes()).expect("8 bytes");
}

/// Whether this is the answer to request `i`: everything echoed, ten times the payload.
pub fn check_response(ring: &SharedRing, response: &Response, i: u32) {
    let request = RequestHeader::new(FUNCTION, 8, i, u64::from(i) + 100);
    assert_eq!(*response.header(), ResponseHeader::reply(&request, 0, 8));
    let mut bytes = [0; 8];
    assert_eq!(response.read(ring, &mut bytes), 8);
    assert_eq!(u64::from_le_bytes(bytes), u64::from(i + 1) * 10);
}

/// Dispatcher: one poll of the ring.
pub fn poll(ring: &SharedRing) -> Option<Request> {
    let mut found = None;
    Scan::new(ring.geometry().slots()).turn(ring, |seen| found = seen.claim(ring));
    found
}

/// Ten times the payload in `slot`: the answer.
pub fn answer_of(ring: &SharedRing, slot: SlotIndex) -> [u8; 8] {
    let mut bytes = [0; 8];
    ring.read_payload(slot, &mut bytes);
    (u64::from_le_bytes(bytes) * 10).to_le_bytes()
}
