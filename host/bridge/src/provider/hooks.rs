//! The two hooks of a data plane over a link.
//!
//! The link fills a ring whose flags only the hooks see. The hooks take requests out of the ring and put answers in, as
//! a dispatcher would. The slots themselves are those that the user has.

use crate::Refused;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::{InFlight, RingMemory, SharedRing, SlotIndex};
use ringcall_transport::{Link, UnifiedTransport, Wire};
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::status::Status;
use std::collections::VecDeque;

pub(super) struct Hooks<W: Wire> {
    pub(super) link: Link<W>,
    /// The slots with the link's flags.
    inner: SharedRing,
    /// The slots with the user's flags.
    outer: SharedRing,
    scan: Scan,
    /// Slots taken from the link and not yet given out.
    ready: VecDeque<SlotIndex>,
    /// Slots given out and not yet published.
    held: Vec<SlotIndex>,
    /// Published slots whose flag the user may not have cleared yet.
    standing: Vec<SlotIndex>,
    taken: Box<[Option<InFlight>]>,
}

impl<W: Wire> Hooks<W> {
    /// Begins with the user's flags at 0, so marks of an earlier launch hold no slot.
    pub(super) fn new(link: Link<W>, inner: SharedRing, outer: SharedRing) -> Self {
        let slots = inner.geometry().slots();
        outer.geometry().iter().for_each(|slot| outer.publish_tx(slot, flag::FREE));
        Self {
            link,
            scan: Scan::new(slots),
            ready: VecDeque::with_capacity(slots as usize),
            held: Vec::with_capacity(slots as usize),
            standing: Vec::with_capacity(slots as usize),
            taken: (0..slots).map(|_| None).collect(),
            inner,
            outer,
        }
    }

    pub(super) fn poll(&mut self) -> Option<u32> {
        self.answer_dropped();
        self.link.publish();
        // A request that waits for the user to clear a flag delays no other request.
        self.free().or_else(|| {
            self.park();
            self.fetch();
            self.free()
        })
    }

    /// Gives out a slot whose response flag the user has cleared.
    fn free(&mut self) -> Option<u32> {
        let at = self.ready.iter().position(|&slot| self.outer.tx(slot) == flag::FREE)?;
        let slot = self.ready.remove(at)?;
        self.held.push(slot);
        Some(slot.get())
    }

    /// Takes arrived requests out of the link.
    fn fetch(&mut self) {
        if self.link.poll() > 0 {
            let Self { scan, inner, taken, ready, .. } = self;
            scan.full(inner, |seen| {
                if let Some(request) = seen.claim(inner) {
                    let in_flight = request.take(inner);
                    let slot = in_flight.slot();
                    taken[slot.as_usize()] = Some(in_flight);
                    ready.push_back(slot);
                }
            });
        }
    }

    /// Keeps published slots from the link while the user's flags are set: a request in such a slot would wait although
    /// other slots are free. To the link these slots are in flight. They are so from the publication on, since the link
    /// has had no poll, and so no chance to see them vacant, before the first call of this function.
    fn park(&mut self) {
        let Self { standing, outer, inner, .. } = self;
        standing.retain(|&slot| {
            let stands = outer.tx(slot) != flag::FREE;
            match (inner.tx(slot), stands) {
                (flag::FREE, true) => inner.publish_tx(slot, flag::IN_FLIGHT),
                (flag::IN_FLIGHT, false) => inner.publish_tx(slot, flag::FREE),
                // The answer was not sent yet, or there is nothing to do.
                _ => (),
            }
            stands
        });
    }

    /// Ends the link, and resets the ring for a new one. The sender of every waiting request gets an error.
    pub(super) fn end(mut self) {
        // Only the user could answer requests in flight, and the user has ended the transport.
        self.link.give_up();
        for slot in self.inner.geometry().iter() {
            self.inner.clear_rx(slot);
            self.inner.publish_tx(slot, flag::FREE);
        }
    }

    /// Answers the senders of requests that the user has dropped: their slots were given out, not published, and have
    /// no flag.
    fn answer_dropped(&mut self) {
        let Self { held, taken, outer, inner, .. } = self;
        held.retain(|&slot| {
            if outer.tx(slot) != flag::FREE {
                return true;
            }
            if let Some(in_flight) = taken[slot.as_usize()].take() {
                let _ = in_flight.answer(inner, Status::ABANDONED, &[]);
            }
            false
        });
    }

    pub(super) fn publish(&mut self, slot: u32) -> Result<(), Refused> {
        let at = self.held.iter().position(|held| held.get() == slot);
        let at = at.ok_or_else(|| Refused::invalid(format!("slot {slot} was not given out")))?;
        let slot = self.held.swap_remove(at);
        self.taken[slot.as_usize()] = None;
        // The response is in the slot, unless an error mark says otherwise.
        let value = match TxState::decode(self.outer.tx(slot)) {
            TxState::Error(code) => flag::error(code),
            _ => self.inner.geometry().response_address(slot),
        };
        self.inner.publish_tx(slot, value);
        // If peers name slots, the request needs this slot, so it waits for the flag instead of being refused.
        if !W::NAMES_SLOTS {
            self.standing.push(slot);
        }
        self.link.publish();
        Ok(())
    }
}
