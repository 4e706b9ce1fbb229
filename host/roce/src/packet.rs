//! Packets of RoCE v2, from the base transport header to the iCRC: the payload of a UDP datagram.
//!
//! | part | bytes | fields |
//! |---|---|---|
//! | BTH | 12 | opcode; solicited, migration, pad count, version; partition key; congestion; destination QP; acknowledge; PSN |
//! | RETH | 16 | virtual address, R_Key, DMA length; first and only packets of a WRITE |
//! | ImmDt | 4 | immediate |
//! | AETH | 4 | syndrome, message number; acknowledgements |
//! | payload | n | padded to a multiple of 4 |
//! | iCRC | 4 | little-endian; all else is big-endian |
//!
//! (InfiniBand architecture specification, volume 1, chapters 5.2 and 9.)

pub use crate::bytes::{BTH_BYTES, ICRC_BYTES};
use crate::bytes::{get, put};
use crate::error::PacketError;
use crate::icrc::Envelope;
use crate::opcode::{Opcode, Part};
use crate::psn::Psn;

/// The most bytes around a payload, from the BTH to the iCRC: those of a WRITE with immediate and padding.
pub const MAX_OVERHEAD_BYTES: usize = BTH_BYTES + 16 + 4 + 3 + ICRC_BYTES;
/// The default partition.
pub const DEFAULT_PARTITION: u16 = 0xFFFF;

const ALIGN: usize = 4;

/// Base transport header, without the pad count, which the payload's length determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The packet's opcode.
    pub opcode: Opcode,
    /// Whether the sender asks the receiver to raise an event.
    pub solicited: bool,
    /// Path migration state.
    pub migration: bool,
    /// Partition key.
    pub partition: u16,
    /// FECN in bit 7, BECN in bit 6. Routers may set both bits, so the iCRC does not cover them. (One known emulator
    /// sends ones here; receivers must ignore them.)
    pub congestion: u8,
    /// The receiving queue pair, 24 bits.
    pub destination_qp: u32,
    /// Whether the sender asks for an acknowledgement.
    pub acknowledge: bool,
    /// Sequence number.
    pub psn: Psn,
}

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// The message's first address in the receiver's memory.
    pub address: u64,
    /// The key to that memory.
    pub key: u32,
    /// Bytes of the whole message.
    pub length: u32,
}

/// Acknowledge extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// The kind of acknowledgement, and credits.
    pub syndrome: u8,
    /// Message sequence number, 24 bits.
    pub message: u32,
}

/// One packet, with a borrowed payload.
///
/// ```
/// use ringcall_roce::{Envelope, Immediate, Packet, Psn, Reth};
///
/// let psn = Psn::new(5);
/// let reth = Reth { address: 0x180, key: 0x1234, length: 3 };
/// let packet = Packet::write_immediate(2, psn, reth, Immediate::new(3, psn), b"abc");
/// let envelope = Envelope::v4("10.0.0.2:12288".parse()?, "10.0.0.1:4791".parse()?);
/// let mut buffer = [0; 64];
/// let length = packet.write(&envelope, &mut buffer)?;
/// assert_eq!(length, 12 + 16 + 4 + 4 + 4);
/// envelope.verify(&buffer[..length])?;
/// assert_eq!(Packet::parse(&buffer[..length])?, packet);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// Destination in memory, if the opcode has one.
    pub reth: Option<Reth>,
    /// The immediate in host byte order, if the opcode has one.
    pub immediate: Option<u32>,
    /// The acknowledgement, if the opcode has one.
    pub aeth: Option<Aeth>,
    /// The payload without padding.
    pub payload: &'a [u8],
}

fn fits(field: &'static str, value: u32) -> Result<u32, PacketError> {
    if value <= Psn::MASK { Ok(value) } else { Err(PacketError::Field { field, value, bits: 24 }) }
}

impl<'a> Packet<'a> {
    pub(crate) fn new(opcode: Opcode, destination_qp: u32, psn: Psn, payload: &'a [u8]) -> Self {
        let bth = Bth {
            opcode,
            solicited: false,
            migration: false,
            partition: DEFAULT_PARTITION,
            congestion: 0,
            destination_qp,
            acknowledge: false,
            psn,
        };
        Self { bth, reth: None, immediate: None, aeth: None, payload }
    }

    /// UC SEND ONLY.
    #[must_use]
    pub fn send(destination_qp: u32, psn: Psn, payload: &'a [u8]) -> Self {
        Self::new(Opcode::UcSendOnly, destination_qp, psn, payload)
    }

    /// UC RDMA WRITE ONLY.
    #[must_use]
    pub fn write_only(destination_qp: u32, psn: Psn, reth: Reth, payload: &'a [u8]) -> Self {
        Self { reth: Some(reth), ..Self::new(Opcode::UcWriteOnly, destination_qp, psn, payload) }
    }

    /// UC RDMA WRITE ONLY with immediate.
    #[must_use]
    pub fn write_immediate(
        destination_qp: u32,
        psn: Psn,
        reth: Reth,
        immediate: crate::Immediate,
        payload: &'a [u8],
    ) -> Self {
        Self {
            reth: Some(reth),
            immediate: Some(immediate.0),
            ..Self::new(Opcode::UcWriteOnlyImmediate, destination_qp, psn, payload)
        }
    }

    /// RC ACKNOWLEDGE.
    #[must_use]
    pub fn acknowledge(destination_qp: u32, psn: Psn, aeth: Aeth) -> Self {
        Self { aeth: Some(aeth), ..Self::new(Opcode::RcAcknowledge, destination_qp, psn, &[]) }
    }

    /// Bytes from the BTH to the iCRC.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        BTH_BYTES
            + self.bth.opcode.extension_bytes()
            + self.payload.len().next_multiple_of(ALIGN)
            + ICRC_BYTES
    }

    /// Parses a datagram. The iCRC is not checked; [`Envelope::verify`] does that.
    ///
    /// # Errors
    /// Why `datagram` is not a packet; see [`PacketError`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, PacketError> {
        let header: [u8; BTH_BYTES] = get(datagram, 0)?;
        let [code, flags, p0, p1, congestion, q0, q1, q2, acknowledge, s0, s1, s2] = header;
        let opcode = Opcode::from_code(code).ok_or(PacketError::UnknownOpcode { code })?;
        let (pad, version) = (flags >> 4 & 3, flags & 0x0F);
        if version != 0 {
            return Err(PacketError::Version { version });
        }
        let payload_at = BTH_BYTES + opcode.extension_bytes();
        let needed = payload_at + ICRC_BYTES;
        let Some(end) = datagram.len().checked_sub(ICRC_BYTES).filter(|end| *end >= payload_at) else {
            return Err(PacketError::Truncated { needed, available: datagram.len() });
        };
        let padded = &datagram[payload_at..end];
        if !padded.len().is_multiple_of(ALIGN) {
            return Err(PacketError::Alignment { bytes: end });
        }
        let Some(payload_bytes) = padded.len().checked_sub(usize::from(pad)) else {
            return Err(PacketError::PadCount { pad, available: padded.len() });
        };
        let mut packet = Self {
            bth: Bth {
                opcode,
                solicited: flags & 0x80 != 0,
                migration: flags & 0x40 != 0,
                partition: u16::from_be_bytes([p0, p1]),
                congestion,
                destination_qp: u32::from_be_bytes([0, q0, q1, q2]),
                acknowledge: acknowledge & 0x80 != 0,
                psn: Psn::new(u32::from_be_bytes([0, s0, s1, s2])),
            },
            reth: None,
            immediate: None,
            aeth: None,
            payload: &padded[..payload_bytes],
        };
        let mut at = BTH_BYTES;
        if opcode.has_reth() {
            let length = u32::from_be_bytes(get(datagram, at + 12)?);
            packet.reth = Some(Reth {
                address: u64::from_be_bytes(get(datagram, at)?),
                key: u32::from_be_bytes(get(datagram, at + 8)?),
                length,
            });
            if opcode.part() == Part::Only && length as usize != payload_bytes {
                return Err(PacketError::LengthMismatch { announced: length, carried: payload_bytes });
            }
            at += 16;
        }
        if opcode.has_immediate() {
            packet.immediate = Some(u32::from_be_bytes(get(datagram, at)?));
            at += 4;
        }
        if opcode.has_aeth() {
            let [syndrome, m0, m1, m2] = get(datagram, at)?;
            packet.aeth = Some(Aeth { syndrome, message: u32::from_be_bytes([0, m0, m1, m2]) });
        }
        Ok(packet)
    }

    /// Writes the packet, padding and iCRC included, for the IP and UDP headers of `envelope`. Returns its length.
    ///
    /// # Errors
    /// Fields that do not fit, headers that the opcode does not have, a DMA length other than the payload's, or a
    /// buffer that is too small.
    pub fn write(&self, envelope: &Envelope, out: &mut [u8]) -> Result<usize, PacketError> {
        let (opcode, bytes) = (self.bth.opcode, self.bytes());
        let headers = |fault| PacketError::Headers { opcode, fault };
        if opcode.has_reth() != self.reth.is_some() {
            return Err(headers("has an RDMA header exactly if it begins a WRITE"));
        }
        if opcode.has_immediate() != self.immediate.is_some() {
            return Err(headers("has an immediate exactly if its name says so"));
        }
        if opcode.has_aeth() != self.aeth.is_some() {
            return Err(headers("has an acknowledge header exactly if it is one"));
        }
        let qp = fits("destination QP", self.bth.destination_qp)?;
        if bytes > usize::from(u16::MAX) - envelope.header_bytes() {
            return Err(PacketError::TooLong { bytes });
        }
        if out.len() < bytes {
            return Err(PacketError::BufferTooSmall { needed: bytes, available: out.len() });
        }
        let out = &mut out[..bytes];
        let pad = self.payload.len().next_multiple_of(ALIGN) - self.payload.len();
        let flags = u8::from(self.bth.solicited) << 7 | u8::from(self.bth.migration) << 6 | (pad as u8) << 4;
        put(out, 0, [opcode.code(), flags]);
        put(out, 2, self.bth.partition.to_be_bytes());
        put(out, 4, (u32::from(self.bth.congestion) << 24 | qp).to_be_bytes());
        put(out, 8, (u32::from(self.bth.acknowledge) << 31 | self.bth.psn.get()).to_be_bytes());
        let mut at = BTH_BYTES;
        if let Some(reth) = self.reth {
            if opcode.part() == Part::Only && reth.length as usize != self.payload.len() {
                let carried = self.payload.len();
                return Err(PacketError::LengthMismatch { announced: reth.length, carried });
            }
            put(out, at, reth.address.to_be_bytes());
            put(out, at + 8, reth.key.to_be_bytes());
            put(out, at + 12, reth.length.to_be_bytes());
            at += 16;
        }
        if let Some(immediate) = self.immediate {
            put(out, at, immediate.to_be_bytes());
            at += 4;
        }
        if let Some(aeth) = self.aeth {
            let message = fits("message sequence number", aeth.message)?;
            put(out, at, (u32::from(aeth.syndrome) << 24 | message).to_be_bytes());
            at += 4;
        }
        let (payload, rest) = out[at..].split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        rest[..pad].fill(0);
        let (transport, icrc) = out.split_at_mut(bytes - ICRC_BYTES);
        icrc.copy_from_slice(&envelope.icrc(transport).to_le_bytes());
        Ok(bytes)
    }
}
