//! Which slots a turn of the scan visits.

use ringcall_gpu::shared::Region;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::slot::Vacant;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::header::HEADER_BYTES;

fn ring(slots: u32) -> SharedRing {
    let n = slots as usize;
    let words = || Region::zeroed(n * 8).expect("memory").words(0, n).expect("inside");
    let bytes = || {
        let len = n * HEADER_BYTES;
        Region::zeroed(len).expect("memory").bytes(0, len).expect("inside")
    };
    let windows = RingWindows { rx_flags: words(), tx_flags: words(), rx_data: bytes(), tx_data: bytes() };
    SharedRing::new(slots, HEADER_BYTES as u32, HEADER_BYTES as u32, windows, None).expect("a ring")
}

/// One that is visited twice may be another request by the second time, which its producer has not published.
#[test]
fn a_turn_visits_a_request_once_and_a_round_visits_all() {
    for slots in [1, 7, 8, 9, 16, 40] {
        let groups = slots / 8 + u32::from(slots % 8 > 0);
        for full in 0..slots {
            for idle in 0..2 * groups {
                let (ring, mut scan) = (ring(slots), Scan::new(slots));
                for _ in 0..idle {
                    assert_eq!(scan.turn(&ring, |_| ()), 0);
                }
                let slot = ring.geometry().slot(full).expect("in the ring");
                Vacant::probe(&ring, slot).expect("free").submit(&ring, 7, 1, 0, &[]).expect("it fits");
                let mut most = 0;
                for _ in 0..groups {
                    let mut visits = 0;
                    assert_eq!(scan.turn(&ring, |seen| visits += u32::from(seen.slot() == slot)), visits);
                    assert!(visits <= 1, "slot {full} of {slots}, after {idle} turns");
                    most = most.max(visits);
                }
                assert_eq!(most, 1, "slot {full} of {slots}, after {idle} turns");
            }
        }
    }
}
