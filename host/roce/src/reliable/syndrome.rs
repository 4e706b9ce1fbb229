//! Syndromes of acknowledgements: a packet's outcome in eight bits.

/// The meaning of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckSyndrome {
    /// Every packet up to this one has been received.
    Ack,
    /// The receiver has no room for this message now (receiver not ready). The timer's code says how long to wait: see
    /// [`rnr_ns`].
    NotReady {
        /// The timer's code, 5 bits.
        timer: u8,
    },
    /// This packet was refused.
    Nak(Nak),
}

/// Why a packet was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// This packet is the next expected one; a later packet came instead.
    Sequence,
    /// The receiver does not support the requested operation.
    InvalidRequest,
    /// The key is not the window's, or the addresses are outside the window.
    RemoteAccess,
    /// The receiver failed.
    RemoteOperation,
}

/// The field's value for "no credits counted": the number of pages limits the messages instead.
const NO_CREDITS: u8 = 0x1F;
const LOW: u8 = 0x1F;

impl AckSyndrome {
    /// The syndrome's eight bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ack => NO_CREDITS,
            Self::NotReady { timer } => 0x20 | timer & LOW,
            Self::Nak(nak) => 0x60 | nak as u8,
        }
    }

    /// The syndrome of eight bits; `None` for a reserved code.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match (code >> 5, code & LOW) {
            (0, _) => Some(Self::Ack),
            (1, timer) => Some(Self::NotReady { timer }),
            (3, 0) => Some(Self::Nak(Nak::Sequence)),
            (3, 1) => Some(Self::Nak(Nak::InvalidRequest)),
            (3, 2) => Some(Self::Nak(Nak::RemoteAccess)),
            (3, 3) => Some(Self::Nak(Nak::RemoteOperation)),
            _ => None,
        }
    }
}

/// The wait in nanoseconds that a timer's code of "receiver not ready" stands for (table 46 of the specification).
#[must_use]
pub const fn rnr_ns(timer: u8) -> u64 {
    const TEN_US: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
        2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    TEN_US[(timer & LOW) as usize] * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_were_written() {
        let naks = [Nak::Sequence, Nak::InvalidRequest, Nak::RemoteAccess, Nak::RemoteOperation];
        let timers = (0..32).map(|timer| AckSyndrome::NotReady { timer });
        for syndrome in naks.map(AckSyndrome::Nak).into_iter().chain(timers).chain([AckSyndrome::Ack]) {
            assert_eq!(AckSyndrome::from_code(syndrome.code()), Some(syndrome));
        }
        let codes = naks.map(|nak| AckSyndrome::Nak(nak).code());
        assert_eq!((codes, AckSyndrome::Ack.code()), ([0x60, 0x61, 0x62, 0x63], 0x1F));
        assert_eq!((AckSyndrome::from_code(0x65), AckSyndrome::from_code(0x40)), (None, None));
        assert_eq!((rnr_ns(1), rnr_ns(12), rnr_ns(0)), (10_000, 640_000, 655_360_000));
    }
}
