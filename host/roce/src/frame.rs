//! Reassembly of a frame from the WRITE ONLY packets that a sensor bridge sends.
//!
//! A sensor bridge sends a frame as WRITE ONLY packets to consecutive addresses of a slot, with consecutive sequence
//! numbers. The last packet has the immediate. No packet says where a frame begins, so a frame counts as whole when its
//! packets begin at the slot's start, each begins where the packet with the previous sequence number ends, and the last
//! packet has come. A late packet must fit the gap that its sequence number belongs to, in sequence numbers and in
//! bytes, so every byte of a whole frame was written by a packet of that frame.

use crate::immediate::Immediate;
use crate::psn::{Psn, PsnTracker};

/// The most gaps that a frame may have at one time. A frame with more gaps is given up.
const MAX_GAPS: usize = 16;

/// A packet's sequence number, and the range of bytes that it writes, counted from the slot's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) psn: Psn,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) last: Option<Immediate>,
}

/// How a packet relates to the frame in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The packet begins the frame, continues it, or fills a gap in it.
    Belongs,
    /// The packet begins another frame; the frame in the slot stays unfinished.
    Replaces,
    /// The packet belongs to no missing part of the frame.
    Stale,
}

/// Packets missing between two received ones: `packets` sequence numbers from `psn` on, for the bytes `start..end`.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    psn: Psn,
    packets: u32,
    start: u32,
    end: u32,
}

impl Gap {
    /// The gaps left before and after a packet that fills a part of this gap; `None` if the packet does not fit.
    fn split(&self, packet: Extent) -> Option<[Option<Self>; 2]> {
        let before = u32::try_from(packet.psn.offset_from(self.psn)).ok().filter(|&n| n < self.packets)?;
        if packet.start < self.start || packet.end > self.end || packet.last.is_some() {
            return None;
        }
        let left = Self { packets: before, end: packet.start, ..*self };
        let right = Self {
            psn: packet.psn.next(),
            packets: self.packets - before - 1,
            start: packet.end,
            end: self.end,
        };
        Some([left.checked()?, right.checked()?])
    }

    /// `Some(None)` if nothing is missing; `None` if packets are missing without bytes, or bytes without packets.
    fn checked(self) -> Option<Option<Self>> {
        match (self.packets, self.start == self.end) {
            (0, true) => Some(None),
            (1.., false) => Some(Some(self)),
            _ => None,
        }
    }
}

/// The received packets of one slot's frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    first: Extent,
    newest: Extent,
    gaps: [Gap; MAX_GAPS],
    gap_count: usize,
}

impl Frame {
    fn begin(packet: Extent) -> Self {
        Self { first: packet, newest: packet, gaps: [Gap::default(); MAX_GAPS], gap_count: 0 }
    }

    fn gaps(&self) -> &[Gap] {
        &self.gaps[..self.gap_count]
    }

    /// The end of the whole frame and its immediate, if the frame is whole.
    pub(crate) fn complete(&self) -> Option<(u32, Immediate)> {
        let immediate = self.newest.last?;
        (self.first.start == 0 && self.gap_count == 0).then_some((self.newest.end, immediate))
    }

    /// How `packet` relates to the frame in its slot, before anything is written.
    pub(crate) fn fit(current: Option<&Self>, packet: Extent) -> Fit {
        let Some(frame) = current else { return Fit::Belongs };
        let after = packet.psn.offset_from(frame.newest.psn);
        if after > 0 {
            // The frame is whole, or the addresses begin anew, or the gap cannot hold as many packets in as many bytes.
            let ahead = frame.gap_after(packet);
            let continues =
                frame.newest.last.is_none() && packet.start >= frame.newest.end && ahead.is_some();
            return if continues && frame.has_room(ahead.flatten().is_some()) {
                Fit::Belongs
            } else {
                Fit::Replaces
            };
        }
        if after.unsigned_abs() >= PsnTracker::WINDOW {
            // No packet is this late: the frame is an abandoned one.
            return Fit::Replaces;
        }
        let fits = if packet.psn.offset_from(frame.first.psn) < 0 {
            let before = frame.gap_before(packet);
            packet.last.is_none()
                && packet.end <= frame.first.start
                && before.is_some_and(|gap| frame.has_room(gap.is_some()))
        } else {
            frame.gaps().iter().any(|gap| {
                gap.split(packet)
                    .is_some_and(|[left, right]| frame.has_room(left.is_some() && right.is_some()))
            })
        };
        if fits { Fit::Belongs } else { Fit::Stale }
    }

    fn has_room(&self, another_gap: bool) -> bool {
        !another_gap || self.gap_count < MAX_GAPS
    }

    /// The gap between the newest packet and a packet after it.
    fn gap_after(&self, packet: Extent) -> Option<Option<Gap>> {
        let newest = self.newest;
        let packets = packet.psn.offset_from(newest.psn).unsigned_abs() - 1;
        let end = packet.start.max(newest.end);
        Gap { psn: newest.psn.next(), packets, start: newest.end, end }.checked()
    }

    /// The gap between a packet and the frame's first packet, which it precedes.
    fn gap_before(&self, packet: Extent) -> Option<Option<Gap>> {
        let first = self.first;
        let packets = first.psn.offset_from(packet.psn).unsigned_abs() - 1;
        let start = packet.end.min(first.start);
        Gap { psn: packet.psn.next(), packets, start, end: first.start }.checked()
    }

    fn push_gap(&mut self, gap: Option<Gap>) {
        // `fit` has checked that there is room for one more gap.
        if let (Some(gap), Some(free)) = (gap, self.gaps.get_mut(self.gap_count)) {
            *free = gap;
            self.gap_count += 1;
        }
    }

    /// The frame after adding `packet`, for which [`fit`](Self::fit) returned `fit`.
    pub(crate) fn add(current: Option<&Self>, packet: Extent, fit: Fit) -> Self {
        let (Some(frame), Fit::Belongs) = (current, fit) else { return Self::begin(packet) };
        let mut frame = *frame;
        if packet.psn.offset_from(frame.newest.psn) > 0 {
            let gap = frame.gap_after(packet).flatten();
            frame.push_gap(gap);
            frame.newest = packet;
        } else if packet.psn.offset_from(frame.first.psn) < 0 {
            let gap = frame.gap_before(packet).flatten();
            frame.push_gap(gap);
            frame.first = packet;
        } else if let Some((index, parts)) =
            frame.gaps().iter().enumerate().find_map(|(index, gap)| Some((index, gap.split(packet)?)))
        {
            frame.gap_count -= 1;
            frame.gaps[index] = frame.gaps[frame.gap_count];
            parts.into_iter().for_each(|gap| frame.push_gap(gap));
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(psn: u32, start: u32, end: u32, last: bool) -> Extent {
        let psn = Psn::new(psn);
        Extent { psn, start, end, last: last.then(|| Immediate::new(0, psn)) }
    }

    fn run(packets: &[Extent]) -> Option<u32> {
        let mut frame: Option<Frame> = None;
        for &packet in packets {
            let fit = Frame::fit(frame.as_ref(), packet);
            if fit != Fit::Stale {
                frame = Some(Frame::add(frame.as_ref(), packet, fit));
            }
        }
        frame.and_then(|frame| frame.complete()).map(|(end, _)| end)
    }

    #[test]
    fn any_order_will_do() {
        let parts = [packet(7, 0, 10, false), packet(8, 10, 20, false), packet(9, 20, 25, true)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(run(&order.map(|i| parts[i])), Some(25), "{order:?}");
        }
    }

    #[test]
    fn a_missing_part_is_noticed() {
        assert_eq!(run(&[packet(7, 0, 10, false), packet(9, 20, 25, true)]), None);
        assert_eq!(run(&[packet(8, 10, 20, true)]), None);
        // The tail of one frame and the head of an earlier one: the bytes fit, the numbers do not.
        assert_eq!(run(&[packet(7, 0, 10, false), packet(12, 10, 20, true)]), None);
    }

    #[test]
    fn the_next_frame_replaces_what_stayed_unfinished() {
        assert_eq!(
            run(&[packet(7, 0, 10, false), packet(9, 0, 10, false), packet(10, 10, 20, true)]),
            Some(20)
        );
        assert_eq!(run(&[packet(8, 10, 20, true), packet(20, 0, 30, true)]), Some(30));
        // An abandoned frame whose sequence number seems to be ahead.
        assert_eq!(run(&[packet(1 << 23, 10, 20, true), packet(5, 0, 30, true)]), Some(30));
    }

    #[test]
    fn leftovers_are_not_written() {
        let frame = Frame::add(None, packet(9, 0, 10, false), Fit::Belongs);
        assert_eq!(Frame::fit(Some(&frame), packet(8, 10, 20, true)), Fit::Stale);
        assert_eq!(Frame::fit(Some(&frame), packet(7, 0, 10, false)), Fit::Stale);
    }

    /// The right number of packets and of bytes, but the bytes after the header are another frame's.
    #[test]
    fn bytes_elsewhere_complete_no_frame() {
        let (header, last) = (packet(7, 0, 24, false), packet(9, 24 + 40, 28 + 40, true));
        for filler in [packet(8, 100, 140, false), packet(8, 0, 40, false), packet(8, 25, 65, false)] {
            assert_eq!(run(&[header, last, filler]), None, "{filler:?}");
            assert_eq!(run(&[header, filler, last]), None, "{filler:?}");
            assert_eq!(run(&[filler, header, last]), None, "{filler:?}");
        }
        assert_eq!(run(&[header, last, packet(8, 24, 64, false)]), Some(68));
    }

    #[test]
    fn a_frame_with_too_many_gaps_is_given_up() {
        let parts: Vec<_> = (0..64).map(|n| packet(n, n * 8, n * 8 + 8, n == 63)).collect();
        let every = |step: usize| {
            (0..step).flat_map(|first| parts.iter().copied().skip(first).step_by(step)).collect::<Vec<_>>()
        };
        assert_eq!(run(&every(8)), Some(512), "7 gaps at a time, each of 7 packets");
        assert_eq!(run(&every(2)), None, "31 gaps at a time");
    }

    mod shadow {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            /// For any sequence of packets: packets in the order of their sequence numbers have written each byte of a
            /// frame that is called whole, once.
            #[test]
            fn a_whole_frame_has_every_byte(packets in proptest::collection::vec((0_u32..10, 0_u32..12, 0_u32..6, any::<bool>()), 1..40)) {
                let mut frame: Option<Frame> = None;
                let mut written: Vec<(u32, u32, u32)> = Vec::new();
                for (psn, start, bytes, last) in packets {
                    let packet = packet(psn, start, start + bytes, last && bytes > 0);
                    let fit = Frame::fit(frame.as_ref(), packet);
                    if fit == Fit::Stale {
                        continue;
                    }
                    if fit == Fit::Replaces || frame.is_none() {
                        written.clear();
                    }
                    frame = Some(Frame::add(frame.as_ref(), packet, fit));
                    written.push((psn, packet.start, packet.end));
                    if let Some((end, _)) = frame.and_then(|frame| frame.complete()) {
                        written.sort_unstable();
                        let mut at = 0;
                        for pair in written.windows(2) {
                            prop_assert_eq!(pair[0].0 + 1, pair[1].0);
                        }
                        for &(_, start, end) in &written {
                            prop_assert_eq!(start, at);
                            at = end;
                        }
                        prop_assert_eq!(at, end);
                        frame = None;
                        written.clear();
                    }
                }
            }
        }
    }
}
