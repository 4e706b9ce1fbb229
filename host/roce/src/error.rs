//! Errors of parsing, building and checking packets.

/// Why bytes are not a packet, or fields cannot form one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet ends within a header.
    #[error("{available} bytes, where the headers need {needed}: the packet is cut off")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
    /// Not an IPv4 or IPv6 packet whose header is directly followed by one whole UDP datagram.
    #[error("no UDP datagram in an IP packet without options and fragments")]
    NotUdp,
    /// The lengths of the IP and UDP headers contradict each other.
    #[error("the IP packet is {ip} bytes long and its UDP datagram {udp}")]
    IpLength {
        /// The IP header's length, header included.
        ip: usize,
        /// The UDP header's length, header included.
        udp: usize,
    },
    /// An opcode that this crate does not know.
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
    /// The length of headers and payload is not a multiple of four bytes.
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
    /// A message of one packet whose RDMA header announces another length.
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
        /// The iCRC computed over the packet.
        computed: u32,
        /// The iCRC at the packet's end.
        found: u32,
    },
    /// A value that does not fit its field.
    #[error("{field} {value:#x} does not fit in {bits} bits")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u32,
        /// Bits of the field.
        bits: u32,
    },
    /// The opcode requires headers that the packet lacks, or the packet has headers that the opcode excludes.
    #[error("a {opcode} packet {fault}")]
    Headers {
        /// The opcode.
        opcode: crate::Opcode,
        /// What is wrong.
        fault: &'static str,
    },
    /// The packet does not fit into a UDP datagram.
    #[error("{bytes} bytes do not fit in a datagram")]
    TooLong {
        /// The packet's bytes.
        bytes: usize,
    },
    /// The caller's buffer is too small.
    #[error("the packet needs {needed} bytes, the buffer has {available}")]
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
}
