//! Data plane of a loaded provider: its hooks, for one thread.
#![allow(unsafe_code)] // named for it: calls into a shared library

use super::ring::Slots;
use crate::layout::{RX_EMPTY, RX_READY, RxPoll, TxPublish};
use core::ffi::{c_int, c_void};
use ringcall_wire::flag;
use std::fmt;
use std::sync::atomic::Ordering;

/// A data plane: requests by polling, answers by publishing. It keeps its instance alive and belongs to one thread at a
/// time. It serves one launch: after a disconnection take a new one.
pub struct Plane {
    ctx: *mut c_void,
    rx_poll: RxPoll,
    tx_publish: TxPublish,
    slots: Slots,
    /// Slots whose request was taken and not yet answered.
    held: Box<[bool]>,
}

// SAFETY: the hooks are for one thread at a time, which `&mut self` says; which one is all the same to them.
unsafe impl Send for Plane {}

/// The result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanePoll {
    /// No request.
    Empty,
    /// A request in this slot.
    Ready(u32),
    /// A slot that does not exist, or whose last request was not answered yet: the provider breaks its contract.
    Impossible(u32),
    /// A number without a meaning.
    Unknown(c_int),
}

impl Plane {
    pub(super) fn new(ctx: *mut c_void, rx_poll: RxPoll, tx_publish: TxPublish, slots: Slots) -> Self {
        let held = vec![false; slots.slots as usize].into();
        Self { ctx, rx_poll, tx_publish, slots, held }
    }

    /// Bytes of a request slot.
    #[must_use]
    pub fn rx_stride(&self) -> usize {
        self.slots.rx_stride
    }

    /// Bytes of a response slot.
    #[must_use]
    pub fn tx_stride(&self) -> usize {
        self.slots.tx_stride
    }

    /// Polls for a request. Its slot belongs to this side until [`publish`](Self::publish) or
    /// [`release`](Self::release).
    #[inline]
    pub fn poll(&mut self) -> PlanePoll {
        let mut slot = u32::MAX;
        // SAFETY: the hook and its argument as the provider gave them, whose instance the slots keep alive.
        match unsafe { (self.rx_poll)(self.ctx, &raw mut slot) } {
            RX_READY => match self.held.get_mut(slot as usize) {
                Some(held) if !*held => {
                    *held = true;
                    self.mark(slot, flag::IN_FLIGHT);
                    PlanePoll::Ready(slot)
                }
                _ => PlanePoll::Impossible(slot),
            },
            RX_EMPTY => PlanePoll::Empty,
            other => PlanePoll::Unknown(other),
        }
    }

    /// Copies the first bytes of a request slot. Returns whether the slot has them.
    #[inline]
    #[must_use]
    pub fn read(&self, slot: u32, out: &mut [u8]) -> bool {
        out.len() <= self.slots.rx_stride && self.slots.rx.read(slot as usize * self.slots.rx_stride, out)
    }

    /// Writes a response and sends it. Returns the C status, which is an invalid argument if the slot does not belong
    /// to this side.
    #[inline]
    pub fn publish(&mut self, slot: u32, response: &[u8]) -> c_int {
        const INVALID: c_int = ringcall_wire::CudaqStatus::InvalidArg.raw() as c_int;
        let held = self.held.get_mut(slot as usize).is_some_and(std::mem::take);
        if !held || response.len() > self.slots.tx_stride {
            return INVALID;
        }
        if !self.slots.tx.write(slot as usize * self.slots.tx_stride, response) {
            return INVALID;
        }
        // SAFETY: as for `poll`; the slot is one that it gave out.
        let status = unsafe { (self.tx_publish)(self.ctx, slot) };
        self.mark(slot, flag::FREE);
        status
    }

    /// Gives a slot back unanswered.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        if self.held.get_mut(slot as usize).is_some_and(std::mem::take) {
            self.mark(slot, flag::FREE);
        }
    }

    /// Marks for the provider, by the slot's flag, that the slot is in use.
    fn mark(&self, slot: u32, value: u64) {
        if let Some(flags) = &self.slots.tx_flags {
            flags.store(slot as usize, value, Ordering::Release);
        }
    }
}

impl fmt::Debug for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plane").field("slots", &self.slots.slots).finish_non_exhaustive()
    }
}
