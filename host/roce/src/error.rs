//! Errors of a packet.

/// Why bytes are no packet, or fields make none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// It ends within a header.
    #[error("{available} bytes, where the headers need {needed}: the packet is cut off")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// No IPv4 or IPv6 packet with one whole UDP datagram directly after its header.
    #[error("no UDP datagram in an IP packet without options and fragments")]
    NotUdp,
    /// IP and UDP lengths that contradict each other.
    #[error("the IP packet is {ip} bytes long and its UDP datagram {udp}")]
    IpLength {
        /// What the IP header says, header included.
        ip: usize,
        /// What the UDP header says, header included.
        udp: usize,
    },
    /// An opcode that is not known here.
    #[error("BTH opcode {code:#04x} is not known")]
    UnknownOpcode {
        /// The opcode.
        code: u8,
    },
    /// A transport version other than 0.
    #[error("transport header version {version}, where 0 is the only one")]
    Version {
        /// The version.
        version: u8,
    },
    /// Headers and payload are no multiple of four bytes.
    #[error("{bytes} bytes from the BTH to the iCRC are no multiple of 4")]
    Alignment {
        /// Their length.
        bytes: usize,
    },
    /// More padding than payload.
    #[error("{pad} bytes of padding in a payload of {available}")]
    PadCount {
        /// The pad count.
        pad: u8,
        /// Bytes of payload and padding.
        available: usize,
    },
    /// A message in one packet whose RDMA header says another length.
    #[error("the RDMA header announces {announced} bytes, the packet carries {carried}")]
    LengthMismatch {
        /// The DMA length.
        announced: u32,
        /// Payload bytes, without padding.
        carried: usize,
    },
    /// The invariant CRC is wrong: the packet was damaged, or its sender computed it for another IP header.
    #[error("the iCRC is {found:#010x}, computed {computed:#010x}")]
    WrongIcrc {
        /// Of this packet.
        computed: u32,
        /// At its end.
        found: u32,
    },
    /// A value that does not fit its field.
    #[error("{field} {value:#x} does not fit in {bits} bits")]
    Field {
        /// Which.
        field: &'static str,
        /// Its value.
        value: u32,
        /// Bits there are.
        bits: u32,
    },
    /// Headers that the opcode has and the packet lacks, or the other way round.
    #[error("a {opcode} packet {fault}")]
    Headers {
        /// The opcode.
        opcode: crate::Opcode,
        /// What is wrong.
        fault: &'static str,
    },
    /// A datagram has less room.
    #[error("{bytes} bytes do not fit in a datagram")]
    TooLong {
        /// Their number.
        bytes: usize,
    },
    /// The caller's buffer has less room.
    #[error("the packet needs {needed} bytes, the buffer has {available}")]
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
}
