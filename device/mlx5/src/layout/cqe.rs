//! The completion entry, 64 bytes (`mlx5_cqe64`, `mlx5_err_cqe`).

/// Bytes of an entry.
pub const BYTES: usize = 64;
/// 64-bit words of an entry.
pub const WORDS: usize = BYTES / 8;

/// Offsets of the fields that are read or written here.
pub mod offset {
    /// Source queue pair in the low 24 bits, `be32`.
    pub const FLAGS_RQPN: usize = 24;
    /// The immediate, as on the wire, `be32`.
    pub const IMMEDIATE: usize = 36;
    /// Bytes received, `be32`.
    pub const BYTE_COUNT: usize = 44;
    /// The NIC's clock, `be64`.
    pub const TIMESTAMP: usize = 48;
    /// Error entries: the vendor's syndrome, `u8`.
    pub const VENDOR_SYNDROME: usize = 54;
    /// Error entries: the [`Syndrome`](super::Syndrome), `u8`.
    pub const SYNDROME: usize = 55;
    /// Send side: opcode of the request in the high 8 bits, queue pair in the low 24, `be32`.
    pub const OPCODE_QPN: usize = 56;
    /// Index of the request, `be16`.
    pub const WQE_COUNTER: usize = 60;
    /// Not used.
    pub const SIGNATURE: usize = 62;
    /// Opcode in bits 7 to 4, owner in bit 0.
    pub const OP_OWN: usize = 63;
}

/// The word of an entry whose last byte says whose it is.
pub const OWNER_WORD: usize = offset::OP_OWN / 8;

/// `op_own` of an entry that was never written: [`opcode::INVALID`], owner 1.
pub const NEVER_WRITTEN: u8 = opcode::INVALID << 4 | 1;

/// Opcodes of completions: `op_own >> 4`.
pub mod opcode {
    /// A send request is done.
    pub const REQUEST: u8 = 0;
    /// A write with immediate arrived.
    pub const WRITE_IMM: u8 = 1;
    /// A send arrived.
    pub const SEND: u8 = 2;
    /// A send with immediate arrived.
    pub const SEND_IMM: u8 = 3;
    /// A send that invalidates a key arrived.
    pub const SEND_INVALIDATE: u8 = 4;
    /// The completion queue was resized.
    pub const RESIZE: u8 = 5;
    /// No packet.
    pub const NO_PACKET: u8 = 6;
    /// A signature error.
    pub const SIGNATURE_ERROR: u8 = 12;
    /// A send request failed.
    pub const REQUEST_ERROR: u8 = 13;
    /// A receive request failed.
    pub const RESPONSE_ERROR: u8 = 14;
    /// Nothing was written here.
    pub const INVALID: u8 = 15;
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syndrome(pub u8);

macro_rules! syndromes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl Syndrome {
            $(#[doc = concat!("The ", $text, ".")] pub const $name: Self = Self($code);)*
            /// Every known syndrome.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What it means, for logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 { $($code => $text,)* _ => "syndrome is unknown" }
            }
        }
    };
}

syndromes! {
    LOCAL_LENGTH = 0x01, "message does not fit the request";
    LOCAL_QP_OPERATION = 0x02, "request is malformed";
    LOCAL_PROTECTION = 0x04, "request names memory that it may not use";
    FLUSHED = 0x05, "queue pair is in the error state: the request was flushed";
    MEMORY_WINDOW_BIND = 0x06, "memory window could not be bound";
    BAD_RESPONSE = 0x10, "response is bad";
    LOCAL_ACCESS = 0x11, "memory may not be accessed";
    REMOTE_INVALID_REQUEST = 0x12, "peer calls the request invalid";
    REMOTE_ACCESS = 0x13, "peer refuses access to its memory";
    REMOTE_OPERATION = 0x14, "peer failed";
    RETRIES_EXCEEDED = 0x15, "peer does not answer";
    RNR_RETRIES_EXCEEDED = 0x16, "peer has no receive request";
    ABORTED = 0x22, "request was aborted";
}

/// A completion entry in private memory.
///
/// ```
/// use ringcall_mlx5::layout::cqe::{Cqe, opcode};
///
/// let entry = Cqe::default().with_immediate(0x5003).with_byte_count(24).with_owner(opcode::WRITE_IMM, 1);
/// assert_eq!((entry.opcode(), entry.owner()), (opcode::WRITE_IMM, 1));
/// assert_eq!((entry.immediate(), entry.byte_count()), (0x5003, 24));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cqe(pub [u64; WORDS]);

/// The `N` bytes at `AT`, which lie in one word, as they stand in memory, in the low bits.
#[inline(always)]
const fn get<const AT: usize, const N: usize>(words: &[u64; WORDS]) -> u64 {
    let shifted = words[AT / 8] >> (AT % 8 * 8);
    if N == 8 { shifted } else { shifted & ((1 << (N * 8)) - 1) }
}

#[inline(always)]
const fn set<const AT: usize, const N: usize>(mut words: [u64; WORDS], value: u64) -> [u64; WORDS] {
    let mask = if N == 8 { u64::MAX } else { (1 << (N * 8)) - 1 };
    let shift = AT % 8 * 8;
    words[AT / 8] = words[AT / 8] & !(mask << shift) | (value & mask) << shift;
    words
}

impl Cqe {
    /// The immediate.
    #[must_use]
    #[inline(always)]
    pub const fn immediate(&self) -> u32 {
        u32::from_be(get::<{ offset::IMMEDIATE }, 4>(&self.0) as u32)
    }

    /// Bytes received.
    #[must_use]
    #[inline(always)]
    pub const fn byte_count(&self) -> u32 {
        u32::from_be(get::<{ offset::BYTE_COUNT }, 4>(&self.0) as u32)
    }

    /// The NIC's clock when the entry was written; not in error entries.
    #[must_use]
    #[inline(always)]
    pub const fn timestamp(&self) -> u64 {
        u64::from_be(get::<{ offset::TIMESTAMP }, 8>(&self.0))
    }

    /// Index of the request that is done, modulo 2¹⁶.
    #[must_use]
    #[inline(always)]
    pub const fn wqe_counter(&self) -> u16 {
        u16::from_be(get::<{ offset::WQE_COUNTER }, 2>(&self.0) as u16)
    }

    /// Of an error entry: why.
    #[must_use]
    #[inline(always)]
    pub const fn syndrome(&self) -> Syndrome {
        Syndrome(get::<{ offset::SYNDROME }, 1>(&self.0) as u8)
    }

    /// Of an error entry: the vendor's own code.
    #[must_use]
    #[inline(always)]
    pub const fn vendor_syndrome(&self) -> u8 {
        get::<{ offset::VENDOR_SYNDROME }, 1>(&self.0) as u8
    }

    /// Of a send request: its opcode and the queue pair.
    #[must_use]
    #[inline(always)]
    pub const fn opcode_qpn(&self) -> u32 {
        u32::from_be(get::<{ offset::OPCODE_QPN }, 4>(&self.0) as u32)
    }

    /// One of [`opcode`], or an unknown value.
    #[must_use]
    #[inline(always)]
    pub const fn opcode(&self) -> u8 {
        get::<{ offset::OP_OWN }, 1>(&self.0) as u8 >> 4
    }

    /// The owner bit.
    #[must_use]
    #[inline(always)]
    pub const fn owner(&self) -> u8 {
        get::<{ offset::OP_OWN }, 1>(&self.0) as u8 & 1
    }

    /// With an immediate.
    #[must_use]
    pub const fn with_immediate(self, value: u32) -> Self {
        Self(set::<{ offset::IMMEDIATE }, 4>(self.0, value.to_be() as u64))
    }

    /// With a byte count.
    #[must_use]
    pub const fn with_byte_count(self, value: u32) -> Self {
        Self(set::<{ offset::BYTE_COUNT }, 4>(self.0, value.to_be() as u64))
    }

    /// With a time stamp; no error entry.
    #[must_use]
    pub const fn with_timestamp(self, value: u64) -> Self {
        Self(set::<{ offset::TIMESTAMP }, 8>(self.0, value.to_be()))
    }

    /// With the index of a request.
    #[must_use]
    pub const fn with_wqe_counter(self, value: u16) -> Self {
        Self(set::<{ offset::WQE_COUNTER }, 2>(self.0, value.to_be() as u64))
    }

    /// With syndromes: an error entry.
    #[must_use]
    pub const fn with_syndrome(self, syndrome: Syndrome, vendor: u8) -> Self {
        let words = set::<{ offset::SYNDROME }, 1>(self.0, syndrome.0 as u64);
        Self(set::<{ offset::VENDOR_SYNDROME }, 1>(words, vendor as u64))
    }

    /// With a request's opcode and queue pair.
    #[must_use]
    pub const fn with_opcode_qpn(self, opcode: u8, qpn: u32) -> Self {
        let value = (opcode as u32) << 24 | qpn & 0x00FF_FFFF;
        Self(set::<{ offset::OPCODE_QPN }, 4>(self.0, value.to_be() as u64))
    }

    /// With opcode and owner bit.
    #[must_use]
    pub const fn with_owner(self, opcode: u8, owner: u8) -> Self {
        Self(set::<{ offset::OP_OWN }, 1>(self.0, (opcode << 4 | owner & 1) as u64))
    }

    /// An entry that was never written.
    pub const NEVER_WRITTEN: Self = Self::NEVER.with_owner(opcode::INVALID, NEVER_WRITTEN & 1);
    const NEVER: Self = Self([0; WORDS]);
}

/// The owner bit that the NIC writes on the lap that `index` belongs to, in a queue of `entries` entries: 0 on the first
/// lap, 1 on the second, and so on.
#[must_use]
#[inline(always)]
pub const fn owner_of_lap(index: u64, entries: u64) -> u8 {
    (index & entries != 0) as u8
}

/// Whether the entry whose [`OWNER_WORD`] is `word` was written on the lap that `index` belongs to.
#[must_use]
#[inline(always)]
pub const fn is_ours(word: u64, index: u64, entries: u64) -> bool {
    let op_own = (word >> (offset::OP_OWN % 8 * 8)) as u8;
    op_own >> 4 != opcode::INVALID && op_own & 1 == owner_of_lap(index, entries)
}
