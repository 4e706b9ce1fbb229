//! The invariant CRC (iCRC): a CRC-32 over a packet from its IP header on, with the fields that routers may change set
//! to ones.
//!
//! InfiniBand architecture specification, volume 1, annex A17 (RoCE v2): Ethernet's CRC over eight bytes `FF`; the IP
//! header with its type of service, time to live and checksum (IPv6: traffic class, flow label, hop limit) as ones; the
//! UDP header with its checksum as ones; the BTH with its congestion byte as ones; and all bytes from there to the
//! iCRC, which is little-endian on the wire.
//!
//! A sender whose kernel writes the IP header must therefore know what the kernel will write: see
//! [`RoceSocket`](crate::RoceSocket).
//!
//! A receiver on an ordinary UDP socket does not see the IP header. It can infer every field except the identification
//! and "don't fragment": adapters increment the identification with each packet, and so does Linux's software RoCE.
//! [`IcrcCheck`] says how a receiver deals with that; [`Envelope::recover`] finds the identification.

use crate::bytes::{BTH_BYTES, ICRC_BYTES, get, put};
use crate::crc_shift;
use crate::error::PacketError;
use crc32fast::Hasher;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// UDP destination port of RoCE v2.
pub const ROCE_PORT: u16 = 4791;
/// Bytes of an IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// Bytes of an IPv6 header.
pub const IPV6_BYTES: usize = 40;
/// Bytes of a UDP header.
pub const UDP_BYTES: usize = 8;

/// The bytes of an IPv4 header that hold the identification.
const IDENTIFICATION: std::ops::Range<usize> = 4..6;

/// How a receiver that does not see IP headers checks an iCRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IcrcCheck {
    /// Accept the iCRC if it is right for any identification ([`Envelope::recover`]), so packets of adapters pass. One
    /// in 32,768 randomly damaged packets passes, too; with a known identification it is one in 4 billion.
    #[default]
    Recover,
    /// Accept the iCRC only if it is right for identification 0 and "don't fragment", which a
    /// [`RoceSocket`](crate::RoceSocket) sends.
    Zero,
    /// Do not check the iCRC.
    Ignore,
}

const UDP_PROTOCOL: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;
const TIME_TO_LIVE: u8 = 64;

/// The parts of the IP and UDP headers that an iCRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    ip: Ip,
    source_port: u16,
    destination_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ip {
    V4 { source: Ipv4Addr, destination: Ipv4Addr, identification: u16, fragment: u16 },
    V6 { source: Ipv6Addr, destination: Ipv6Addr },
}

impl Envelope {
    /// The envelope of a packet with identification 0 and "don't fragment", as an unconnected Linux UDP socket with
    /// path MTU discovery sends it.
    #[must_use]
    pub const fn v4(source: SocketAddrV4, destination: SocketAddrV4) -> Self {
        Self {
            ip: Ip::V4 {
                source: *source.ip(),
                destination: *destination.ip(),
                identification: 0,
                fragment: DONT_FRAGMENT,
            },
            source_port: source.port(),
            destination_port: destination.port(),
        }
    }

    /// The envelope of a packet over IPv6.
    #[must_use]
    pub const fn v6(source: &SocketAddrV6, destination: &SocketAddrV6) -> Self {
        Self {
            ip: Ip::V6 { source: *source.ip(), destination: *destination.ip() },
            source_port: source.port(),
            destination_port: destination.port(),
        }
    }

    /// The packet's source.
    #[must_use]
    pub fn source(&self) -> SocketAddr {
        let address = match self.ip {
            Ip::V4 { source, .. } => IpAddr::V4(source),
            Ip::V6 { source, .. } => IpAddr::V6(source),
        };
        SocketAddr::new(address, self.source_port)
    }

    /// The packet's destination.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        let address = match self.ip {
            Ip::V4 { destination, .. } => IpAddr::V4(destination),
            Ip::V6 { destination, .. } => IpAddr::V6(destination),
        };
        SocketAddr::new(address, self.destination_port)
    }

    /// Bytes of the IP and UDP headers.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        UDP_BYTES
            + match self.ip {
                Ip::V4 { .. } => IPV4_BYTES,
                Ip::V6 { .. } => IPV6_BYTES,
            }
    }

    /// Splits a whole IP packet into its envelope and the contents of its UDP datagram. The checksums of both headers
    /// are not checked.
    ///
    /// # Errors
    /// [`PacketError::NotUdp`] for another protocol, a fragment or options; [`PacketError::Truncated`] and
    /// [`PacketError::IpLength`] if lengths contradict each other.
    pub fn of_ip_packet(packet: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let version = get::<1>(packet, 0)?[0];
        let (ip, header_bytes, ip_bytes) = match version >> 4 {
            4 => {
                let header: [u8; IPV4_BYTES] = get(packet, 0)?;
                let fragment = u16::from_be_bytes(get(&header, 6)?);
                if version != 0x45 || header[9] != UDP_PROTOCOL || fragment & !DONT_FRAGMENT != 0 {
                    return Err(PacketError::NotUdp);
                }
                let ip = Ip::V4 {
                    source: get::<4>(&header, 12)?.into(),
                    destination: get::<4>(&header, 16)?.into(),
                    identification: u16::from_be_bytes(get(&header, 4)?),
                    fragment,
                };
                (ip, IPV4_BYTES, usize::from(u16::from_be_bytes(get(&header, 2)?)))
            }
            6 => {
                let header: [u8; IPV6_BYTES] = get(packet, 0)?;
                if header[6] != UDP_PROTOCOL {
                    return Err(PacketError::NotUdp);
                }
                let ip = Ip::V6 {
                    source: get::<16>(&header, 8)?.into(),
                    destination: get::<16>(&header, 24)?.into(),
                };
                (ip, IPV6_BYTES, IPV6_BYTES + usize::from(u16::from_be_bytes(get(&header, 4)?)))
            }
            _ => return Err(PacketError::NotUdp),
        };
        let udp: [u8; UDP_BYTES] = get(packet, header_bytes)?;
        let udp_bytes = usize::from(u16::from_be_bytes(get(&udp, 4)?));
        if udp_bytes < UDP_BYTES || header_bytes + udp_bytes != ip_bytes {
            return Err(PacketError::IpLength { ip: ip_bytes, udp: udp_bytes });
        }
        let payload = packet
            .get(header_bytes + UDP_BYTES..ip_bytes)
            .ok_or(PacketError::Truncated { needed: ip_bytes, available: packet.len() })?;
        let envelope = Self {
            ip,
            source_port: u16::from_be_bytes(get(&udp, 0)?),
            destination_port: u16::from_be_bytes(get(&udp, 2)?),
        };
        Ok((envelope, payload))
    }

    /// Writes the IP and UDP headers before `payload_bytes` of UDP payload, for raw sockets and captures: type of
    /// service 0, time to live 64, no UDP checksum. Returns their length.
    ///
    /// # Errors
    /// [`PacketError::BufferTooSmall`], and [`PacketError::TooLong`] if a datagram cannot hold the payload.
    pub fn write_headers(&self, payload_bytes: usize, out: &mut [u8]) -> Result<usize, PacketError> {
        let headers = self.header_bytes();
        let too_long = PacketError::TooLong { bytes: payload_bytes };
        let udp_bytes = u16::try_from(payload_bytes + UDP_BYTES).map_err(|_| too_long)?;
        if out.len() < headers {
            return Err(PacketError::BufferTooSmall { needed: headers, available: out.len() });
        }
        let mut header = [0; IPV6_BYTES + UDP_BYTES];
        let ip_bytes = headers - UDP_BYTES;
        match self.ip {
            Ip::V4 { .. } => {
                let total = u16::try_from(payload_bytes + headers).map_err(|_| too_long)?;
                self.ip_header(total, 0, &mut header);
                header[8] = TIME_TO_LIVE;
                let sum = checksum(&header[..IPV4_BYTES]);
                put(&mut header, 10, sum.to_be_bytes());
            }
            Ip::V6 { .. } => {
                self.ip_header(udp_bytes, 0, &mut header);
                header[7] = TIME_TO_LIVE;
            }
        }
        self.udp_header(udp_bytes, 0, &mut header[ip_bytes..]);
        out[..headers].copy_from_slice(&header[..headers]);
        Ok(headers)
    }

    /// Writes the IP header, with `mask` in every byte that the iCRC masks.
    fn ip_header(&self, length: u16, mask: u8, out: &mut [u8]) {
        match self.ip {
            Ip::V4 { source, destination, identification, fragment } => {
                put(out, 0, [0x45, mask]);
                put(out, 2, length.to_be_bytes());
                put(out, 4, identification.to_be_bytes());
                put(out, 6, fragment.to_be_bytes());
                put(out, 8, [mask, UDP_PROTOCOL, mask, mask]);
                put(out, 12, source.octets());
                put(out, 16, destination.octets());
            }
            Ip::V6 { source, destination } => {
                put(out, 0, [0x60 | mask & 0x0F, mask, mask, mask]);
                put(out, 4, length.to_be_bytes());
                put(out, 6, [UDP_PROTOCOL, mask]);
                put(out, 8, source.octets());
                put(out, 24, destination.octets());
            }
        }
    }

    fn udp_header(&self, udp_bytes: u16, mask: u8, out: &mut [u8]) {
        put(out, 0, self.source_port.to_be_bytes());
        put(out, 2, self.destination_port.to_be_bytes());
        put(out, 4, udp_bytes.to_be_bytes());
        put(out, 6, [mask, mask]);
    }

    /// The iCRC of `transport`: all bytes from the BTH on, without the iCRC itself.
    ///
    /// The length fields of the headers are those of a datagram that holds `transport` and the iCRC.
    #[must_use]
    pub fn icrc(&self, transport: &[u8]) -> u32 {
        const DUMMY: usize = 8;
        let mut prefix = [0xFF; DUMMY + IPV6_BYTES + UDP_BYTES + BTH_BYTES];
        let headers = self.header_bytes();
        let ip_bytes = headers - UDP_BYTES;
        // A datagram's length field has 16 bits; a longer datagram cannot be sent, even with a right iCRC.
        let udp_bytes = (transport.len() + UDP_BYTES + ICRC_BYTES) as u16;
        let length = match self.ip {
            Ip::V4 { .. } => udp_bytes.wrapping_add(IPV4_BYTES as u16),
            Ip::V6 { .. } => udp_bytes,
        };
        self.ip_header(length, 0xFF, &mut prefix[DUMMY..]);
        self.udp_header(udp_bytes, 0xFF, &mut prefix[DUMMY + ip_bytes..]);
        let (bth, rest) = transport.split_at(transport.len().min(BTH_BYTES));
        let masked = &mut prefix[DUMMY + headers..][..bth.len()];
        masked.copy_from_slice(bth);
        if let Some(congestion) = masked.get_mut(4) {
            *congestion = 0xFF;
        }
        let mut hasher = Hasher::new();
        hasher.update(&prefix[..DUMMY + headers + bth.len()]);
        hasher.update(rest);
        hasher.finalize()
    }

    /// Checks the iCRC at the end of `datagram`.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] or [`PacketError::WrongIcrc`].
    pub fn verify(&self, datagram: &[u8]) -> Result<(), PacketError> {
        let Some((transport, found)) = datagram.split_last_chunk::<ICRC_BYTES>() else {
            return Err(PacketError::Truncated { needed: ICRC_BYTES, available: datagram.len() });
        };
        let (found, computed) = (u32::from_le_bytes(*found), self.icrc(transport));
        if found == computed { Ok(()) } else { Err(PacketError::WrongIcrc { computed, found }) }
    }

    /// The envelope with the identification that makes the iCRC of `datagram` right. It is searched first with this
    /// envelope's fragment word, then with the other one of "don't fragment" and 0. IPv6 has neither field, so there
    /// this only [verifies](Self::verify).
    ///
    /// A CRC is linear: the received iCRC and the iCRC for identification 0 differ by the identification's two bytes,
    /// carried through all bytes after them. Traced back over those bytes, the difference is the identification if it
    /// fits 16 bits; otherwise the packet is damaged.
    ///
    /// ```
    /// use ringcall_roce::{Envelope, Packet, Psn};
    ///
    /// let assumed = Envelope::v4("10.0.0.2:49458".parse()?, "10.0.0.1:4791".parse()?);
    /// let sent = assumed.with_identification(0x84BD);
    /// let mut buffer = [0; 64];
    /// let length = Packet::send(0x12, Psn::new(0), b"hello").write(&sent, &mut buffer)?;
    /// assert_eq!(assumed.recover(&buffer[..length])?, sent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PacketError::Truncated`] or [`PacketError::WrongIcrc`].
    pub fn recover(&self, datagram: &[u8]) -> Result<Self, PacketError> {
        let first = self.recover_as(datagram);
        match (first, self.ip) {
            (Err(PacketError::WrongIcrc { .. }), Ip::V4 { fragment, .. }) => {
                self.with_fragment(fragment ^ DONT_FRAGMENT).recover_as(datagram).or(first)
            }
            (first, _) => first,
        }
    }

    /// [`recover`](Self::recover) with this envelope's fragment word only.
    fn recover_as(&self, datagram: &[u8]) -> Result<Self, PacketError> {
        let zero = self.with_identification(0);
        let (found, computed) = match zero.verify(datagram) {
            Ok(()) => return Ok(zero),
            Err(PacketError::WrongIcrc { computed, found }) => (found, computed),
            Err(error) => return Err(error),
        };
        let Ip::V4 { .. } = self.ip else { return Err(PacketError::WrongIcrc { computed, found }) };
        let bytes_after = IPV4_BYTES - IDENTIFICATION.end + UDP_BYTES + datagram.len() - ICRC_BYTES;
        // The difference before the two bytes of the identification: a CRC takes bytes in at its low end, the first one
        // lowest.
        let difference = crc_shift::back(found ^ computed, bytes_after + IDENTIFICATION.len());
        u16::try_from(difference)
            .map(|swapped| zero.with_identification(swapped.swap_bytes()))
            .map_err(|_| PacketError::WrongIcrc { computed, found })
    }

    /// Checks the iCRC at the end of `datagram`, as `how` says.
    ///
    /// # Errors
    /// [`PacketError::Truncated`] or [`PacketError::WrongIcrc`].
    #[inline]
    pub fn check(&self, datagram: &[u8], how: IcrcCheck) -> Result<(), PacketError> {
        match how {
            IcrcCheck::Recover => self.recover(datagram).map(drop),
            IcrcCheck::Zero => self.verify(datagram),
            IcrcCheck::Ignore => Ok(()),
        }
    }

    /// This envelope with another identification over IPv4; unchanged over IPv6.
    #[must_use]
    pub const fn with_identification(mut self, number: u16) -> Self {
        if let Ip::V4 { ref mut identification, .. } = self.ip {
            *identification = number;
        }
        self
    }

    const fn with_fragment(mut self, word: u16) -> Self {
        if let Ip::V4 { ref mut fragment, .. } = self.ip {
            *fragment = word;
        }
        self
    }
}

/// The Internet checksum of a header whose own field is 0 (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) + (folded >> 16)) as u16
}
