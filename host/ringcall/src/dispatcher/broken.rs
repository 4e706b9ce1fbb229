//! Who answers what cannot be read, on a ring that several dispatchers serve.
//!
//! A request that can be read is its function's dispatcher's, and nobody else touches it. One that cannot is anybody's: whoever
//! has the turn looks at it again, answers it, gives its request flag back, and only then lets go of the turn. So the next one
//! finds the flag cleared, or set for a request that nobody has answered. `tests/loom_shared_ring.rs` of the dispatch core
//! has this protocol, and what goes wrong without the turn.

use ringcall_dispatch::SharedRing;
use ringcall_dispatch::idle::IdleMask;
use ringcall_gpu::atomic::DeviceU64;

/// Turns, of which a ring has the one that the address of its request flags falls to. Rings that fall to the same one take turns
/// with each other, too, which costs them nothing but a later look at what is broken.
#[cfg(not(loom))]
static TURNS: [Turn; 64] = [const { Turn([DeviceU64::new(1 << ONE)]) }; 64];
// loom's atomics cannot be made in a constant.
#[cfg(loom)]
static TURNS: std::sync::LazyLock<[Turn; 64]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|_| Turn([DeviceU64::new(1 << ONE)])));

/// The right to answer broken requests of one ring: the one worker of an idle mask.
#[derive(Debug)]
pub(super) struct Turn([DeviceU64; 1]);

const ONE: u32 = 0;

impl Turn {
    /// That of a ring: one and the same for all its dispatchers in this process.
    pub(super) fn of(ring: &SharedRing) -> &'static Self {
        // Flags begin at multiples of some bytes: multiplying spreads those over the bits that count.
        let spread = ring.windows().rx_flags.address().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &TURNS[(spread >> 58) as usize]
    }

    /// Takes the turn, if nobody has it. Does not wait.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        IdleMask::new(&self.0).claim(&[1 << ONE]).map(|_| Taken(self))
    }
}

/// Let go of when this is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct Taken<'a>(&'a Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        IdleMask::new(&self.0.0).release(ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::{HostDispatcher, Step, Stepped};
    use crate::outside::{BadRequests, Customs};
    use crate::{Client, FunctionTable, Ring, RingConfig};
    use ringcall_dispatch::RingMemory;
    use ringcall_wire::counter::Counter;
    use ringcall_wire::flag;
    use ringcall_wire::status::Status;
    use std::time::Duration;

    fn ring() -> Ring {
        Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 }).expect("a ring")
    }

    fn dispatcher(ring: &Ring) -> HostDispatcher<Stepped> {
        let table = FunctionTable::builder().host_call("none", |_: &[u8], _: &mut [u8]| Ok(0));
        let customs = Customs { shared_ring: true, any_flag: true, bad_requests: BadRequests::Answer };
        let table = table.build(ring).expect("a table");
        HostDispatcher::builder(ring, table).customs(customs).build().expect("wired").into_stepper()
    }

    #[test]
    fn what_is_broken_waits_for_whoever_has_the_turn() {
        let ring = ring();
        let mut dispatcher = dispatcher(&ring);
        let (shared, slot) = (ring.shared(), ring.geometry().slot(1).expect("a slot"));
        let turn = Turn::of(shared);
        assert!(std::ptr::eq(turn, Turn::of(Ring::external(shared.clone()).shared())));
        let taken = turn.take();
        assert!(taken.is_some() && turn.take().is_none());
        shared.forge_request(slot, &[7; 24], ring.geometry().request_address(slot));
        assert_eq!(dispatcher.step(), Step::Idle);
        // It has to look again before it may end.
        dispatcher.drain();
        assert_eq!(dispatcher.step(), Step::Idle);
        assert_eq!((shared.tx(slot), dispatcher.counters().answered()), (flag::FREE, 0));
        // What can be read is served meanwhile.
        let reply = |dispatcher: &mut HostDispatcher<Stepped>, slot| {
            let _ = dispatcher.step();
            Client::new(&ring).wait(slot, Duration::ZERO).expect("answered").status
        };
        let good = Client::new(&ring).send(crate::FunctionId::of("none"), 1, 0, &[]).expect("sent");
        assert_eq!(reply(&mut dispatcher, good), Status::OK);
        drop(taken);
        assert_eq!(reply(&mut dispatcher, slot), Status::BAD_MAGIC);
        assert_eq!((shared.rx(slot), dispatcher.counters().get(Counter::BadMagic)), (flag::FREE, 1));
        assert!(turn.take().is_some(), "let go of");
        assert_eq!(dispatcher.step(), Step::Ended);
    }
}
