//! Message numbers in the upper bits of the immediate: which messages are missing, and which are late.

/// Bits of the immediate that name the slot.
pub const SLOT_BITS: u32 = 12;

/// Sequence numbers in the immediate's bits above the slot.
const MASK: u32 = u32::MAX >> SLOT_BITS;

/// What a message's number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is newer than all before.
    Next {
        /// Messages that are missing before it.
        lost: u32,
    },
    /// It is older than one before, or the same.
    Old,
}

/// The newest message number so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sequence(Option<u32>);

impl Sequence {
    /// As [`Sequence::to_word`] says it.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(u32::try_from(word).ok().and_then(|word| word.checked_sub(1)).map(|last| last & MASK))
    }

    /// One more than the newest number; 0 before the first.
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0.map_or(0, |last| u64::from(last) + 1)
    }

    /// Takes the next message's number.
    #[must_use]
    #[inline(always)]
    pub fn follow(&mut self, number: u32) -> Found {
        let lost = match self.0 {
            None => 0,
            Some(last) => {
                let gap = number.wrapping_sub(last).wrapping_sub(1) & MASK;
                if gap > MASK / 2 {
                    // The counter has not gone all the way round: the newest stays the newest.
                    return Found::Old;
                }
                gap
            }
        };
        self.0 = Some(number & MASK);
        Found::Next { lost }
    }
}
