//! The lock for malformed requests on a ring that several dispatchers serve.
//!
//! A well-formed request belongs to the dispatcher that has its function, and no other dispatcher touches it. A malformed request
//! belongs to no function: the dispatcher that holds the lock reads the request again, answers it, clears its request flag, and
//! only then releases the lock. So the next holder finds the flag cleared, or set for a request that has no answer yet.
//! `tests/loom_shared_ring.rs` of the dispatch core models this protocol, and shows what goes wrong without the lock.

use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::SharedRing;
use ringcall_protocol::idle::IdleMask;

/// The locks: a ring uses the lock that the address of its request flags hashes to. Rings that share a lock answer
/// their malformed requests one after the other, which delays these answers and nothing else.
#[cfg(not(loom))]
static LOCKS: [MalformedLock; 64] = [const { MalformedLock([DeviceU64::new(1 << ONE)]) }; 64];
// loom's atomics cannot be made in a constant.
#[cfg(loom)]
static LOCKS: std::sync::LazyLock<[MalformedLock; 64]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|_| MalformedLock([DeviceU64::new(1 << ONE)])));

/// The right to answer malformed requests of a ring: the one worker of an idle mask.
#[derive(Debug)]
pub(super) struct MalformedLock([DeviceU64; 1]);

const ONE: u32 = 0;

impl MalformedLock {
    /// The lock of a ring, the same for all dispatchers of the ring in this process.
    pub(super) fn of(ring: &SharedRing) -> &'static Self {
        // Flags begin at multiples of a cache line: the multiplication spreads the addresses over the upper bits.
        let spread = ring.windows().rx_flags.address().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &LOCKS[(spread >> 58) as usize]
    }

    /// Locks, unless another dispatcher holds the lock. Does not wait.
    #[inline]
    pub(super) fn take(&self) -> Option<MalformedGuard<'_>> {
        IdleMask::new(&self.0).claim(&[1 << ONE]).map(|_| MalformedGuard(self))
    }
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct MalformedGuard<'a>(&'a MalformedLock);

impl Drop for MalformedGuard<'_> {
    fn drop(&mut self) {
        IdleMask::new(&self.0.0).release(ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::{DispatchStep, HostDispatcher, Stepped};
    use crate::external::{BadRequests, RingCompat};
    use crate::{Client, FunctionTable, Ring, RingConfig};
    use ringcall_protocol::RingMemory;
    use ringcall_wire::counter::Counter;
    use ringcall_wire::flag;
    use ringcall_wire::status::Status;
    use std::time::Duration;

    fn ring() -> Ring {
        Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 }).expect("a ring")
    }

    fn dispatcher(ring: &Ring) -> HostDispatcher<Stepped> {
        let table = FunctionTable::builder().host_call("none", |_: &[u8], _: &mut [u8]| Ok(0));
        let compat = RingCompat { shared_ring: true, any_flag: true, bad_requests: BadRequests::Answer };
        let table = table.build(ring).expect("a table");
        HostDispatcher::builder(ring, table).compat(compat).build().expect("wired").into_stepper()
    }

    #[test]
    fn what_is_broken_waits_for_whoever_has_the_turn() {
        let ring = ring();
        let mut dispatcher = dispatcher(&ring);
        let (shared, slot) = (ring.shared(), ring.geometry().slot(1).expect("a slot"));
        let lock = MalformedLock::of(shared);
        assert!(std::ptr::eq(lock, MalformedLock::of(Ring::external(shared.clone()).shared())));
        let guard = lock.take();
        assert!(guard.is_some() && lock.take().is_none());
        shared.forge_request(slot, &[7; 24], ring.geometry().request_address(slot));
        assert_eq!(dispatcher.step(), DispatchStep::Idle);
        // The dispatcher polls again before it may end.
        dispatcher.drain();
        assert_eq!(dispatcher.step(), DispatchStep::Idle);
        assert_eq!((shared.tx(slot), dispatcher.counters().answered()), (flag::FREE, 0));
        // Well-formed requests are served meanwhile.
        let reply = |dispatcher: &mut HostDispatcher<Stepped>, slot| {
            let _ = dispatcher.step();
            Client::new(&ring).wait(slot, Duration::ZERO).expect("answered").status
        };
        let good = Client::new(&ring).send(crate::FunctionId::of("none"), 1, 0, &[]).expect("sent");
        assert_eq!(reply(&mut dispatcher, good), Status::OK);
        drop(guard);
        assert_eq!(reply(&mut dispatcher, slot), Status::BAD_MAGIC);
        assert_eq!((shared.rx(slot), dispatcher.counters().get(Counter::BadMagic)), (flag::FREE, 1));
        assert!(lock.take().is_some(), "released");
        assert_eq!(dispatcher.step(), DispatchStep::Ended);
    }
}
