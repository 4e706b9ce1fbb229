//! Packet sequence numbers: 24 bits that wrap, and the gaps between them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A packet sequence number: 24 bits, wrapping.
///
/// ```
/// use ringcall_roce::Psn;
///
/// let last = Psn::new(0xFF_FFFF);
/// assert_eq!(last.next(), Psn::new(0));
/// assert_eq!(Psn::new(2).offset_from(last), 3);
/// assert_eq!(last.offset_from(Psn::new(2)), -3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The 24 bits.
    pub const MASK: u32 = 0xFF_FFFF;

    /// The number's low 24 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & Self::MASK)
    }

    /// A first number that differs from that of an earlier run: this machine's clock in steps of about a microsecond.
    #[must_use]
    pub fn first() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::new((since.as_nanos() >> 10) as u32)
    }

    /// The number, below 2²⁴.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next number.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number `count` after it.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// How far this number is after `other` by the shorter way round, from -2²³ to 2²³ - 1.
    #[must_use]
    pub const fn offset_from(self, other: Self) -> i32 {
        // Shifting the difference to the top of the word and back extends its sign.
        ((self.0.wrapping_sub(other.0) << 8) as i32) >> 8
    }
}

/// What a packet's sequence number says about the packets before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsnOrder {
    /// The first packet of all: the count begins at its number.
    First,
    /// The expected number.
    Next,
    /// This many packets before it have not come yet.
    Gap(u32),
    /// A number that had been missing: the network or the sender changed the order.
    Late,
    /// A number that came before.
    Duplicate,
    /// A number so far from the others that the sender must have restarted: the count begins at it.
    Restart,
}

/// The sequence numbers seen on a connection.
///
/// ```
/// use ringcall_roce::{PsnOrder, Psn, PsnTracker};
///
/// let mut sequence = PsnTracker::new();
/// let arrivals = [7, 8, 10, 8, 9].map(|psn| sequence.observe(Psn::new(psn)));
/// use PsnOrder::*;
/// assert_eq!(arrivals, [First, Next, Gap(1), Duplicate, Late]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PsnTracker {
    newest: Option<Psn>,
    /// Bit `k`: the number `k` before the newest was seen.
    seen: u128,
}

impl PsnTracker {
    /// How many numbers back a late packet is told from a duplicate. A number further back is a restart.
    pub const WINDOW: u32 = u128::BITS;
    /// The longest gap: a number further ahead is a restart.
    pub const MAX_GAP: u32 = 1 << 16;

    /// A sequence that has seen no number.
    #[must_use]
    pub const fn new() -> Self {
        Self { newest: None, seen: 0 }
    }

    /// The number furthest ahead.
    #[must_use]
    pub const fn newest(&self) -> Option<Psn> {
        self.newest
    }

    /// Takes in the number of a packet that has arrived.
    pub const fn observe(&mut self, psn: Psn) -> PsnOrder {
        let Some(newest) = self.newest else {
            self.newest = Some(psn);
            self.seen = 1;
            return PsnOrder::First;
        };
        let ahead = psn.offset_from(newest);
        if ahead > 0 && ahead.unsigned_abs() <= Self::MAX_GAP {
            let ahead = ahead.unsigned_abs();
            self.seen = if ahead < Self::WINDOW { self.seen << ahead | 1 } else { 1 };
            self.newest = Some(psn);
            return if ahead == 1 { PsnOrder::Next } else { PsnOrder::Gap(ahead - 1) };
        }
        if ahead <= 0 && ahead.unsigned_abs() < Self::WINDOW {
            let bit = 1 << ahead.unsigned_abs();
            if self.seen & bit != 0 {
                return PsnOrder::Duplicate;
            }
            self.seen |= bit;
            return PsnOrder::Late;
        }
        self.newest = Some(psn);
        self.seen = 1;
        PsnOrder::Restart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps() {
        let mut sequence = PsnTracker::new();
        for number in [0xFF_FFFE, 0xFF_FFFF, 0, 1] {
            let arrival = sequence.observe(Psn::new(number));
            assert!(matches!(arrival, PsnOrder::First | PsnOrder::Next), "{number}: {arrival:?}");
        }
        assert_eq!(sequence.observe(Psn::new(0xFF_FFFF)), PsnOrder::Duplicate);
        assert_eq!(sequence.observe(Psn::new(5)), PsnOrder::Gap(3));
    }

    #[test]
    fn the_window_s_edges() {
        let mut sequence = PsnTracker::new();
        sequence.observe(Psn::new(1000));
        assert_eq!(sequence.observe(Psn::new(1000 - PsnTracker::WINDOW + 1)), PsnOrder::Late);
        assert_eq!(sequence.observe(Psn::new(1000 - PsnTracker::WINDOW + 1)), PsnOrder::Duplicate);
        assert_eq!(sequence.observe(Psn::new(1000 - PsnTracker::WINDOW)), PsnOrder::Restart);
        let far = 1000 - PsnTracker::WINDOW + PsnTracker::MAX_GAP;
        assert_eq!(sequence.observe(Psn::new(far)), PsnOrder::Gap(PsnTracker::MAX_GAP - 1));
        assert_eq!(sequence.observe(Psn::new(far + PsnTracker::MAX_GAP + 1)), PsnOrder::Restart);
    }

    #[test]
    fn a_long_gap_forgets_the_window() {
        let mut sequence = PsnTracker::new();
        sequence.observe(Psn::new(0));
        assert_eq!(sequence.observe(Psn::new(PsnTracker::WINDOW)), PsnOrder::Gap(PsnTracker::WINDOW - 1));
        assert_eq!(sequence.observe(Psn::new(1)), PsnOrder::Late);
    }
}
