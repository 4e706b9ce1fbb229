//! Share of a device that a run may fill.

/// How much of a device's multiprocessors a network is planned for.
///
/// Every block of a run waits for the others, so all of them have to be there at once. Runs that may overlap are therefore
/// planned for equal parts, which fit beside each other: the parts have the same shape, and whole clusters of it.
///
/// ```
/// use ringcall_gpu_decoders::predecoder::Share;
/// assert_eq!(Share::WHOLE.multiprocessors(132), 132);
/// // Two runs at a time, beside a dispatcher of one block.
/// assert_eq!(Share::beside(1).one_of(2).multiprocessors(132), 65);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    taken: u32,
    parts: u32,
}

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self::beside(0);

    /// All but so many multiprocessors, for kernels that run all the time: 1 for a device dispatcher of one block.
    #[must_use]
    pub const fn beside(taken: u32) -> Self {
        Self { taken, parts: 1 }
    }

    /// One of so many equal parts of it.
    #[must_use]
    pub const fn one_of(self, parts: u32) -> Self {
        Self { parts, ..self }
    }

    /// Multiprocessors, of a device that has `all`; 0 for a part of none.
    #[must_use]
    pub const fn multiprocessors(self, all: u32) -> u32 {
        match all.saturating_sub(self.taken).checked_div(self.parts) {
            Some(part) => part,
            None => 0,
        }
    }
}
