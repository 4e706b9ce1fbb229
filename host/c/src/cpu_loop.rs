//! CPU loops: a transport that the dispatcher's own thread drives. Each request that the transport reports goes into
//! a ring whose flags are private to the loop.

use crate::layout::cudaq_cpu_dataplane_t;
use crate::raw_ring::{View, aligned, check, data_windows};
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall_bridge::layout::{RX_READY, RxPoll, TxPublish};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::{Region, Words};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::status::CudaqStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Errors of a transport, counted on the loop's thread and readable on any thread.
#[derive(Debug, Clone)]
pub(crate) struct TransportFaults(Arc<[DeviceU64; 2]>);

impl TransportFaults {
    fn new() -> Self {
        Self(Arc::new([DeviceU64::new(0), DeviceU64::new(0)]))
    }

    fn count(&self, kind: usize) {
        let count = self.0[kind].load(Ordering::Relaxed).wrapping_add(1);
        self.0[kind].store(count, Ordering::Relaxed);
    }

    /// Requests named in slots that are not there, or are under way: they could not be answered.
    pub(crate) fn refused_slots(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Answers that `tx_publish` did not take.
    pub(crate) fn failed_sends(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// # Errors
    /// There were some.
    pub(crate) fn none(&self) -> Result<(), Fault> {
        match (self.refused_slots(), self.failed_sends()) {
            (0, 0) => Ok(()),
            (refused, failed) => Err(Fault::internal(format!(
                "the transport named {refused} slots that the ring does not have or that were under way, and failed to send \
                 {failed} answers"
            ))),
        }
    }
}

/// A transport's data plane.
#[derive(Debug)]
pub(crate) struct Dataplane {
    ctx: *mut c_void,
    rx_poll: RxPoll,
    tx_publish: TxPublish,
    ring: SharedRing,
    rx_flags: Words,
    tx_flags: Words,
    /// The transport's own response flags: while one is set, it gives its slot to no other agent.
    theirs: Option<Words>,
    /// Slots whose requests are under way.
    under_way: Vec<u32>,
    faults: TransportFaults,
}

// SAFETY: the context is the transport's, which expects one thread, and gets one: the loop's.
unsafe impl Send for Dataplane {}

impl Dataplane {
    /// # Safety
    /// The functions keep the header's contract; the ring's data is there for every slot that `rx_poll` names, until this is
    /// gone. (Windows reach to the last slot that could be named; nothing but named slots is touched.)
    pub(crate) unsafe fn new(plane: &cudaq_cpu_dataplane_t, slots: u32) -> Result<Self, Fault> {
        let (Some(rx_poll), Some(tx_publish)) = (plane.rx_poll, plane.tx_publish) else {
            return Err(Fault::invalid("rx_poll or tx_publish of the data plane is null"));
        };
        // Flags may be missing where no graph is launched: ours stand in, so that the rest is checked.
        let words = slots as usize;
        let region = || Region::zeroed(words * 8).and_then(|region| region.words(0, words));
        let (rx_flags, tx_flags) = (region()?, region()?);
        let mut ring = plane.ring;
        let theirs = if ring.tx_flags_host.is_null() {
            None
        } else {
            aligned(ring.tx_flags_host.cast_const(), 8, "tx_flags_host")?;
            // SAFETY: the caller's promise, for the slots that are named.
            Some(unsafe { Words::from_raw(ring.tx_flags_host, words) }?)
        };
        (ring.rx_flags_host, ring.tx_flags_host) =
            (rx_flags.address() as usize as *mut u64, tx_flags.address() as usize as *mut u64);
        // The extent is not known, only where it begins: one slot is checked.
        check(&ring, View::Host, 1, 0)?;
        // SAFETY: the caller's promise.
        let windows = unsafe { data_windows(&ring, slots, rx_flags.clone(), tx_flags.clone()) }?;
        let (rx_stride, tx_stride) = (ring.rx_stride_sz as u32, ring.tx_stride_sz as u32);
        let ring = SharedRing::new(slots, rx_stride, tx_stride, windows, None)?;
        let under_way = Vec::with_capacity(words);
        let faults = TransportFaults::new();
        Ok(Self { ctx: plane.ctx, rx_poll, tx_publish, ring, rx_flags, tx_flags, theirs, under_way, faults })
    }

    pub(crate) fn ring(&self) -> &SharedRing {
        &self.ring
    }

    /// Whether requests are under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(crate) fn faults(&self) -> &TransportFaults {
        &self.faults
    }

    /// Takes a request from the transport, and says in which slot it is; whether there was one.
    #[inline]
    pub(crate) fn receive(&mut self, found: impl FnOnce(SlotIndex)) -> bool {
        let mut slot = u32::MAX;
        // SAFETY: the promise of `new`.
        if unsafe { (self.rx_poll)(self.ctx, &raw mut slot) } != RX_READY {
            return false;
        }
        // A slot that is not there, or whose request is under way, is the transport's mistake: there is no
        // agent to answer.
        let free = |index: &SlotIndex| {
            let free = |flags: &Words| flags.load(index.as_usize(), Ordering::Relaxed) == flag::FREE;
            free(&self.rx_flags) && free(&self.tx_flags)
        };
        let Some(index) = self.ring.geometry().slot(slot).filter(free) else {
            self.faults.count(0);
            return true;
        };
        self.under_way.push(slot);
        mark(self.theirs.as_ref(), slot, flag::IN_FLIGHT);
        // Release: pairs with the dispatcher's `RingMemory::observe`, on the same thread.
        self.rx_flags.store(index.as_usize(), self.ring.geometry().request_address(index), Ordering::Release);
        found(index);
        true
    }

    /// LeaseLock finished responses to the transport; whether there were any.
    #[inline]
    pub(crate) fn send(&mut self) -> bool {
        let before = self.under_way.len();
        let Self { ctx, tx_publish, tx_flags, rx_flags, theirs, under_way, faults, .. } = self;
        under_way.retain(|&slot| {
            let index = slot as usize;
            // Acquire: pairs with `RingMemory::publish_tx`.
            let keep = match TxState::decode(tx_flags.load(index, Ordering::Acquire)) {
                // Taken out of its slot without an answer: that was asked for.
                TxState::Empty => rx_flags.load(index, Ordering::Relaxed) != flag::FREE,
                TxState::InFlight => true,
                TxState::Ready(_) | TxState::Error(_) => {
                    // SAFETY: the promise of `new`. A failed slot holds a response that says so.
                    let sent = unsafe { tx_publish(*ctx, slot) };
                    if sent != CudaqStatus::Ok.raw() as c_int {
                        faults.count(1);
                    }
                    tx_flags.store(index, flag::FREE, Ordering::Release);
                    false
                }
            };
            if !keep {
                mark(theirs.as_ref(), slot, flag::FREE);
            }
            keep
        });
        under_way.len() < before
    }
}

fn mark(flags: Option<&Words>, slot: u32, value: u64) {
    if let Some(flags) = flags {
        flags.store(slot as usize, value, Ordering::Release);
    }
}
