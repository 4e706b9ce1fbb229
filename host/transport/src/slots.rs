//! Slot table of a link: which slot a request gets, and to which peer a slot's answer goes.
//!
//! The transport is its ring's only producer and consumer, so a slot that it saw vacant stays vacant. It reserves a few
//! vacant slots, and receives a frame only if one is reserved. The search for vacant slots goes around the ring and
//! skips slots in use: a request that is never answered costs its own slot and stalls no other.

use crate::admit::Reason;
use crate::stats::LiveCounters;
use crate::wire::BATCH;
use ringcall_gpu::clock;
use ringcall_protocol::scan::GROUP;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::flag::{FREE, IN_FLIGHT};
use ringcall_wire::header::RequestHeader;
use std::collections::VecDeque;

/// A request's sender and the fields that its answer has to echo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<P> {
    pub(crate) from: P,
    pub(crate) header: RequestHeader,
    /// When the request was put into its slot, ns.
    pub(crate) at: u64,
}

/// The slots of one ring with their requests.
#[derive(Debug)]
pub(crate) struct Slots<P> {
    ring: SharedRing,
    asked: Box<[Option<Asked<P>>]>,
    /// Slots with a request of this link, a bit each, grouped as the flags are.
    under_way: Box<[u8]>,
    reserved: Box<[u8]>,
    stock: VecDeque<Vacant>,
    /// Where the search for vacant slots continues.
    cursor: u32,
    /// The group of answers to poll first.
    first: u32,
    count: u32,
}

/// A slot's group, and its bit in the group.
const fn bit_of(slot: u32) -> (usize, u8) {
    ((slot / GROUP) as usize, 1 << (slot % GROUP))
}

impl<P: Copy> Slots<P> {
    pub(crate) fn new(ring: SharedRing) -> Self {
        let slots = ring.geometry().slots();
        let groups = slots.div_ceil(GROUP) as usize;
        Self {
            asked: (0..slots).map(|_| None).collect(),
            under_way: vec![0; groups].into(),
            reserved: vec![0; groups].into(),
            stock: VecDeque::with_capacity(BATCH),
            cursor: 0,
            first: 0,
            count: 0,
            ring,
        }
    }

    /// The number of requests without an answer.
    pub(crate) fn under_way(&self) -> u32 {
        self.count
    }

    /// Searches vacant slots until a batch is reserved. Returns how many are.
    #[inline]
    pub(crate) fn restock(&mut self, counters: &LiveCounters) -> usize {
        let slots = self.ring.geometry().slots();
        let mut untried = slots - self.count - self.stock.len() as u32;
        while untried > 0 && self.stock.len() < BATCH {
            let index = self.cursor;
            let (group, bit) = bit_of(index);
            let taken = self.under_way[group] | self.reserved[group];
            // The rest of a group without a candidate is skipped.
            let step = if taken == u8::MAX { GROUP - index % GROUP } else { 1 };
            self.cursor = if index + step < slots { index + step } else { 0 };
            if taken & bit != 0 {
                continue;
            }
            untried -= 1;
            if let Some(slot) = self.ring.geometry().slot(index)
                && let Some(vacant) = self.probe(slot, counters)
            {
                self.reserved[group] |= bit;
                self.stock.push_back(vacant);
            }
        }
        self.stock.len()
    }

    /// Gives up requests that a dispatcher took out of their slots without an answer: if both flags are free, none will
    /// come.
    #[cold]
    pub(crate) fn reclaim(&mut self, counters: &LiveCounters) {
        for index in 0..self.ring.geometry().slots() {
            let (group, bit) = bit_of(index);
            if self.under_way[group] & bit == 0 {
                continue;
            }
            if let Some(slot) = self.ring.geometry().slot(index)
                && Vacant::probe(&self.ring, slot).is_some()
            {
                counters.unanswered.one();
                self.forget(slot);
            }
        }
    }

    pub(crate) fn any(&mut self) -> Option<Vacant> {
        let vacant = self.stock.pop_front()?;
        let (group, bit) = bit_of(vacant.slot().get());
        self.reserved[group] &= !bit;
        Some(vacant)
    }

    /// The vacant slot that a peer names.
    pub(crate) fn named(&self, index: u32, counters: &LiveCounters) -> Result<Vacant, Reason> {
        let slot = self.ring.geometry().slot(index).ok_or(Reason::BadSlot)?;
        let (group, bit) = bit_of(index);
        if self.under_way[group] & bit != 0 {
            return Err(Reason::SlotTaken);
        }
        self.probe(slot, counters).ok_or(Reason::SlotTaken)
    }

    /// The slot, if it is vacant. An answer in it that belongs to no request of this transport (an earlier transport's,
    /// or a second answer) is discarded.
    fn probe(&self, slot: SlotIndex, counters: &LiveCounters) -> Option<Vacant> {
        if let Some(vacant) = Vacant::probe(&self.ring, slot) {
            return Some(vacant);
        }
        let response = Response::probe(&self.ring, slot)?;
        response.release(&self.ring);
        counters.unasked.one();
        Vacant::probe(&self.ring, slot)
    }

    /// Puts a request into a slot. Returns false if it does not fit, which leaves the slot vacant.
    #[inline]
    pub(crate) fn submit(&mut self, vacant: Vacant, from: P, header: &RequestHeader, payload: &[u8]) -> bool {
        let slot = vacant.slot();
        let RequestHeader { function_id, request_id, ptp_timestamp, .. } = *header;
        if vacant.submit(&self.ring, function_id, request_id, ptp_timestamp, payload).is_err() {
            return false;
        }
        let (group, bit) = bit_of(slot.get());
        self.under_way[group] |= bit;
        self.asked[slot.as_usize()] = Some(Asked { from, header: *header, at: clock::now_ns() });
        self.count += 1;
        true
    }

    /// Visits the answers that are ready, a cache line of flags at a time, in no particular order of requests. `take`
    /// returns whether it took the answer, whose slot is then free. The first answer not taken ends the visit, and is
    /// the first of the next visit.
    #[inline]
    pub(crate) fn harvest(&mut self, mut take: impl FnMut(&Response, &Asked<P>, &SharedRing) -> bool) {
        if self.count == 0 {
            return;
        }
        let groups = self.under_way.len() as u32;
        for step in 0..groups {
            let group = (self.first + step) % groups;
            let mut mine = self.under_way[group as usize];
            if mine == 0 {
                continue;
            }
            let flags = self.ring.tx_group(group);
            while mine != 0 {
                let i = mine.trailing_zeros();
                mine &= mine - 1;
                let flag = flags[i as usize];
                if flag == FREE || flag == IN_FLIGHT {
                    continue;
                }
                let Some(slot) = self.ring.geometry().slot(group * GROUP + i) else { continue };
                let Some(asked) = self.asked[slot.as_usize()] else { continue };
                let Some(response) = Response::probe(&self.ring, slot) else { continue };
                if !take(&response, &asked, &self.ring) {
                    self.first = group;
                    return;
                }
                response.release(&self.ring);
                self.forget(slot);
            }
        }
    }

    /// Gives up every request in flight and returns their senders. Their slots are left to the dispatcher, which will
    /// answer them.
    pub(crate) fn give_up(&mut self) -> Vec<(u32, Asked<P>)> {
        let given_up = (0..).zip(&self.asked).filter_map(|(slot, asked)| asked.map(|asked| (slot, asked)));
        let given_up = given_up.collect();
        self.asked.fill(None);
        self.under_way.fill(0);
        self.count = 0;
        given_up
    }

    fn forget(&mut self, slot: SlotIndex) {
        let (group, bit) = bit_of(slot.get());
        self.under_way[group] &= !bit;
        self.asked[slot.as_usize()] = None;
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::{Ring, RingConfig};
    use ringcall_protocol::scan::Scan;
    use ringcall_wire::status::Status;

    struct Rig {
        slots: Slots<u32>,
        counters: LiveCounters,
        scan: Scan,
    }

    impl Rig {
        fn new(slots: u32) -> Self {
            let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).unwrap().shared().clone();
            Self { slots: Slots::new(ring), counters: LiveCounters::default(), scan: Scan::new(slots) }
        }

        fn submit(&mut self, id: u32) -> Option<u32> {
            self.slots.restock(&self.counters);
            let vacant = self.slots.any()?;
            let slot = vacant.slot().get();
            assert!(self.slots.submit(vacant, id, &RequestHeader::new(1, 2, id, 0), &[1, 2]));
            Some(slot)
        }

        /// Simulates a dispatcher that answers the requests that `which` picks.
        fn dispatch(&mut self, which: impl Fn(u32) -> bool) {
            let ring = self.slots.ring.clone();
            self.scan.full(&ring, |seen| {
                if which(seen.slot().get())
                    && let Some(request) = seen.claim(&ring)
                {
                    let _ = request.answer(&ring, Status::OK, &[]);
                }
            });
        }

        fn harvest(&mut self) -> Vec<u32> {
            let mut got = Vec::new();
            self.slots.harvest(|response, asked, _| {
                assert_eq!(response.header().request_id, asked.from);
                got.push(asked.from);
                true
            });
            got
        }
    }

    #[test]
    fn slots_that_are_never_answered_stall_nobody() {
        let mut rig = Rig::new(12);
        let held: Vec<u32> = (0..11).map(|id| rig.submit(id).unwrap()).collect();
        for id in 100..200 {
            let slot = rig.submit(id).unwrap();
            assert!(!held.contains(&slot));
            assert_eq!(rig.submit(0), None, "the ring is full");
            rig.dispatch(|s| s == slot);
            assert_eq!(rig.harvest(), [id]);
        }
        assert_eq!(rig.slots.under_way(), 11);
        rig.dispatch(|_| true);
        let mut late = rig.harvest();
        late.sort_unstable();
        assert!(late.into_iter().eq(0..11));
    }

    #[test]
    fn an_answer_that_is_not_taken_comes_first_next_time() {
        let mut rig = Rig::new(40);
        for id in 0..40 {
            rig.submit(id).unwrap();
        }
        rig.dispatch(|_| true);
        let mut got = Vec::new();
        while rig.slots.under_way() > 0 {
            let mut left = 7;
            rig.slots.harvest(|_, asked, _| {
                left -= 1;
                if left > 0 {
                    got.push(asked.from);
                }
                left > 0
            });
        }
        got.sort_unstable();
        assert!(got.into_iter().eq(0..40));
    }

    #[test]
    fn answers_of_an_earlier_transport_are_thrown_away() {
        let mut rig = Rig::new(4);
        for id in 0..4 {
            rig.submit(id).unwrap();
        }
        assert_eq!(rig.slots.give_up().len(), 4);
        assert_eq!(rig.submit(9), None, "still with the dispatcher");
        rig.dispatch(|_| true);
        assert!(rig.harvest().is_empty());
        assert!(rig.submit(10).is_some());
        assert_eq!(rig.counters.unasked.get(), 4);
    }

    #[test]
    fn a_named_slot_is_there_and_vacant_or_refused() {
        let mut rig = Rig::new(4);
        assert_eq!(rig.slots.named(4, &rig.counters).err(), Some(Reason::BadSlot));
        let vacant = rig.slots.named(3, &rig.counters).unwrap();
        assert!(rig.slots.submit(vacant, 7, &RequestHeader::new(1, 0, 7, 0), &[]));
        assert_eq!(rig.slots.named(3, &rig.counters).err(), Some(Reason::SlotTaken));
        rig.dispatch(|_| true);
        assert_eq!(rig.slots.named(3, &rig.counters).err(), Some(Reason::SlotTaken), "its answer is ours");
        assert_eq!(rig.harvest(), [7]);
        assert!(rig.slots.named(3, &rig.counters).is_ok());
    }
}
