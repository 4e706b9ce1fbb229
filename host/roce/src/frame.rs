//! Whether every packet of a frame has come.
//!
//! A sensor bridge sends a frame as WRITE ONLY packets to consecutive addresses of a slot, with consecutive sequence
//! numbers; the last one has the immediate. Nothing says where a frame begins, so the proof that it is whole is: its
//! packets cover the slot from the start to the end that the last one set, and there are as many of them as sequence
//! numbers from the first to the last.

use crate::immediate::Immediate;
use crate::psn::{Psn, Sequence};

/// A packet's place: sequence number, and bytes from the slot's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) psn: Psn,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) last: Option<Immediate>,
}

/// What a packet is to the frame in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It begins, continues or fills it.
    Belongs,
    /// It begins another: the one before stays unfinished.
    Replaces,
    /// It is left over from an earlier one.
    Stale,
}

/// The packets of one slot's frame so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    packets: u32,
    bytes: u32,
    first: Place,
    newest: Place,
}

impl Frame {
    const fn begin(place: Place) -> Self {
        Self { packets: 1, bytes: place.end - place.start, first: place, newest: place }
    }

    /// The end of the whole frame, if it is whole.
    pub(crate) const fn complete(&self) -> Option<(u32, Immediate)> {
        let Some(immediate) = self.newest.last else { return None };
        let numbers = self.newest.psn.offset_from(self.first.psn).unsigned_abs() + 1;
        if self.first.start == 0 && self.bytes == self.newest.end && self.packets == numbers {
            Some((self.newest.end, immediate))
        } else {
            None
        }
    }

    /// Where `place` belongs, before anything is written.
    pub(crate) const fn fit(current: Option<&Self>, place: Place) -> Fit {
        let Some(frame) = current else { return Fit::Belongs };
        let before = place.psn.offset_from(frame.first.psn);
        let after = place.psn.offset_from(frame.newest.psn);
        if after > 0 {
            // The frame is over, or its addresses begin anew.
            return if frame.newest.last.is_some() || place.start < frame.newest.end {
                Fit::Replaces
            } else {
                Fit::Belongs
            };
        }
        if after.unsigned_abs() >= Sequence::WINDOW {
            // Nothing comes so late: the frame is left from long ago.
            return Fit::Replaces;
        }
        if place.last.is_some() || (before < 0 && place.end > frame.first.start) {
            return Fit::Stale;
        }
        Fit::Belongs
    }

    /// Takes the packet in.
    pub(crate) const fn add(current: Option<&Self>, place: Place, fit: Fit) -> Self {
        let (Some(frame), Fit::Belongs) = (current, fit) else { return Self::begin(place) };
        let mut frame = *frame;
        frame.packets += 1;
        frame.bytes = frame.bytes.saturating_add(place.end - place.start);
        if place.psn.offset_from(frame.newest.psn) > 0 {
            frame.newest = place;
        } else if place.psn.offset_from(frame.first.psn) < 0 {
            frame.first = place;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(psn: u32, start: u32, end: u32, last: bool) -> Place {
        let psn = Psn::new(psn);
        Place { psn, start, end, last: last.then(|| Immediate::new(0, psn)) }
    }

    fn run(places: &[Place]) -> Option<u32> {
        let mut frame: Option<Frame> = None;
        for &place in places {
            let fit = Frame::fit(frame.as_ref(), place);
            if fit != Fit::Stale {
                frame = Some(Frame::add(frame.as_ref(), place, fit));
            }
        }
        frame.and_then(|frame| frame.complete()).map(|(end, _)| end)
    }

    #[test]
    fn any_order_will_do() {
        let parts = [place(7, 0, 10, false), place(8, 10, 20, false), place(9, 20, 25, true)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(run(&order.map(|i| parts[i])), Some(25), "{order:?}");
        }
    }

    #[test]
    fn a_missing_part_is_noticed() {
        assert_eq!(run(&[place(7, 0, 10, false), place(9, 20, 25, true)]), None);
        assert_eq!(run(&[place(8, 10, 20, true)]), None);
        // The tail of one frame and the head of an earlier one: the bytes fit, the numbers do not.
        assert_eq!(run(&[place(7, 0, 10, false), place(12, 10, 20, true)]), None);
    }

    #[test]
    fn the_next_frame_replaces_what_stayed_unfinished() {
        assert_eq!(run(&[place(7, 0, 10, false), place(9, 0, 10, false), place(10, 10, 20, true)]), Some(20));
        assert_eq!(run(&[place(8, 10, 20, true), place(20, 0, 30, true)]), Some(30));
        // Left from long ago, though its number seems to be ahead.
        assert_eq!(run(&[place(1 << 23, 10, 20, true), place(5, 0, 30, true)]), Some(30));
    }

    #[test]
    fn leftovers_are_not_written() {
        let frame = Frame::add(None, place(9, 0, 10, false), Fit::Belongs);
        assert_eq!(Frame::fit(Some(&frame), place(8, 10, 20, true)), Fit::Stale);
        assert_eq!(Frame::fit(Some(&frame), place(7, 0, 10, false)), Fit::Stale);
    }
}
