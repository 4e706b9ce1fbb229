//! Requests and replies of the control plane, as bytes. Everything is big-endian.
//!
//! A request is command, flags, sequence, two reserved bytes, then for one word its address and value, for a block pairs
//! of them; reads carry no value (blocks: an unused one). A reply repeats command, flags and sequence, has a response
//! code, and for reads a reserved byte, the pairs, and the sequence number that the bridge has latched.

use serde::Serialize;

/// Bytes before the first address of a request.
pub const REQUEST_HEADER_BYTES: usize = 6;
/// The most bytes of a control packet: what an Ethernet frame holds.
pub const MAX_PACKET_BYTES: usize = 1472;
/// The most pairs of a block: their reply is the longer of the two packets.
pub const MAX_PAIRS: usize = (MAX_PACKET_BYTES - READ_HEADER_BYTES - LATCHED_BYTES) / PAIR_BYTES;

/// Flag: the host wants a reply.
pub const FLAG_ACKNOWLEDGE: u8 = 1 << 0;
/// Flag: refuse the request unless its sequence number is the next one.
pub const FLAG_SEQUENCE_CHECK: u8 = 1 << 1;

const READ_HEADER_BYTES: usize = 6;
const LATCHED_BYTES: usize = 2;
const PAIR_BYTES: usize = 8;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// One word.
    WriteWord = 0x04,
    /// Several words.
    WriteBlock = 0x09,
    /// One word.
    ReadWord = 0x14,
    /// Several words.
    ReadBlock = 0x19,
}

impl Command {
    /// The command of this number.
    #[must_use]
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0x04 => Some(Self::WriteWord),
            0x09 => Some(Self::WriteBlock),
            0x14 => Some(Self::ReadWord),
            0x19 => Some(Self::ReadBlock),
            _ => None,
        }
    }

    /// Whether its reply carries values.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::ReadWord | Self::ReadBlock)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ResponseCode(pub u8);

impl ResponseCode {
    /// It was done.
    pub const SUCCESS: Self = Self(0x00);
    /// It failed.
    pub const GENERAL_ERROR: Self = Self(0x02);
    /// There is no such register.
    pub const INVALID_ADDRESS: Self = Self(0x03);
    /// There is no such command.
    pub const INVALID_COMMAND: Self = Self(0x04);
    /// The packet has another length than its command needs.
    pub const INVALID_LENGTH: Self = Self(0x05);
    /// Flags that are not known.
    pub const INVALID_FLAGS: Self = Self(0x06);
    /// The sequence number is not the next one.
    pub const SEQUENCE_CHECK_FAILED: Self = Self(0x0B);
}

impl std::fmt::Display for ResponseCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let meaning = match *self {
            Self::SUCCESS => "success",
            Self::GENERAL_ERROR => "general error",
            Self::INVALID_ADDRESS => "no such register",
            Self::INVALID_COMMAND => "no such command",
            Self::INVALID_LENGTH => "wrong packet length",
            Self::INVALID_FLAGS => "invalid flags",
            Self::SEQUENCE_CHECK_FAILED => "sequence check failed",
            _ => "unknown response code",
        };
        write!(f, "{:#04x} ({meaning})", self.0)
    }
}

/// Why bytes are no request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Fewer bytes than needed, or more.
    #[error("a control packet of {found} bytes, where {expected}")]
    Length {
        /// What there is.
        found: usize,
        /// What there should be.
        expected: &'static str,
    },
    /// No such command.
    #[error("control command {0:#04x} is not known")]
    Command(u8),
    /// A block that no packet holds.
    #[error("a block of {0} words: {MAX_PAIRS} fit in a packet")]
    TooManyPairs(usize),
}

/// Addresses and values, as they stand in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a>(&'a [[u8; PAIR_BYTES]]);

impl Pairs<'_> {
    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Address and value, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|&[a, b, c, d, e, f, g, h]| {
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        })
    }
}

/// A request as the bridge reads it.
///
/// ```
/// use ringcall_sim::fpga::control::{Command, Request, codec};
///
/// let mut packet = Vec::new();
/// Request::encode(Command::WriteWord, codec::FLAG_ACKNOWLEDGE, 0x101, &[(0x1000, 2)], &mut packet)?;
/// assert_eq!(packet, [0x04, 1, 1, 1, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 2]);
/// assert!(Request::parse(&packet)?.pairs().iter().eq([(0x1000, 2)]));
/// # Ok::<(), ringcall_sim::fpga::control::ControlError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub command: Command,
    /// [`FLAG_ACKNOWLEDGE`], [`FLAG_SEQUENCE_CHECK`].
    pub flags: u8,
    /// The host's number.
    pub sequence: u16,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body<'a> {
    One([u8; PAIR_BYTES]),
    Many(Pairs<'a>),
}

/// Command, flags and sequence number, if so much is there.
pub(crate) fn prefix(packet: &[u8]) -> Option<(u8, u8, u16)> {
    let &[command, flags, high, low] = packet.first_chunk()?;
    Some((command, flags, u16::from_be_bytes([high, low])))
}

impl<'a> Request<'a> {
    /// Reads a request. Bytes after one word's are ignored, as bridges do.
    ///
    /// # Errors
    /// An unknown command, or a length that is not its own.
    pub fn parse(packet: &'a [u8]) -> Result<Self, ControlError> {
        let found = packet.len();
        let short = |expected| ControlError::Length { found, expected };
        let (code, flags, sequence) = prefix(packet).ok_or(short("a request has at least 6"))?;
        let command = Command::from_code(code).ok_or(ControlError::Command(code))?;
        let body = packet.get(REQUEST_HEADER_BYTES..).ok_or(short("a request has at least 6"))?;
        let body = match command {
            Command::WriteWord => Body::One(*body.first_chunk().ok_or(short("writing a word takes 14"))?),
            Command::ReadWord => {
                let [a, b, c, d] = *body.first_chunk().ok_or(short("reading a word takes 10"))?;
                Body::One([a, b, c, d, 0, 0, 0, 0])
            }
            Command::WriteBlock | Command::ReadBlock => {
                let (pairs, rest) = body.as_chunks();
                if pairs.is_empty() || !rest.is_empty() {
                    return Err(short("a block has 6 and 8 for each word"));
                }
                if pairs.len() > MAX_PAIRS {
                    return Err(ControlError::TooManyPairs(pairs.len()));
                }
                Body::Many(Pairs(pairs))
            }
        };
        Ok(Self { command, flags, sequence, body })
    }

    /// Addresses and values; values of reads mean nothing.
    #[must_use]
    pub const fn pairs(&self) -> Pairs<'_> {
        match &self.body {
            Body::One(pair) => Pairs(std::slice::from_ref(pair)),
            Body::Many(pairs) => *pairs,
        }
    }

    /// Writes a request in place of what `packet` held. One-word commands take the first pair; values of reads are
    /// ignored.
    ///
    /// # Errors
    /// [`ControlError::TooManyPairs`], also for none.
    pub fn encode(
        command: Command,
        flags: u8,
        sequence: u16,
        pairs: &[(u32, u32)],
        packet: &mut Vec<u8>,
    ) -> Result<(), ControlError> {
        let one = matches!(command, Command::WriteWord | Command::ReadWord);
        if pairs.is_empty() || pairs.len() > if one { 1 } else { MAX_PAIRS } {
            return Err(ControlError::TooManyPairs(pairs.len()));
        }
        packet.clear();
        packet.extend([command as u8, flags]);
        packet.extend(sequence.to_be_bytes());
        packet.extend([0; 2]);
        for (address, value) in pairs {
            packet.extend(address.to_be_bytes());
            match command {
                Command::WriteWord | Command::WriteBlock => packet.extend(value.to_be_bytes()),
                Command::ReadBlock => packet.extend([0; 4]),
                Command::ReadWord => {}
            }
        }
        Ok(())
    }
}

/// A reply as the host reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's command, as a number: a bridge also answers commands that it does not know.
    pub command: u8,
    /// The request's flags.
    pub flags: u8,
    /// The request's number.
    pub sequence: u16,
    /// How it ended.
    pub code: ResponseCode,
    /// The values that were read, each with its address; empty for writes and failures.
    pub values: Vec<(u32, u32)>,
    /// The number that the bridge has latched, where the reply has it.
    pub latched: Option<u16>,
}

impl Reply {
    /// The bytes: five for a write or a failure, with values and latched number for a read.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut packet = vec![self.command, self.flags];
        packet.extend(self.sequence.to_be_bytes());
        packet.push(self.code.0);
        if let Some(latched) = self.latched {
            packet.push(0);
            for (address, value) in &self.values {
                packet.extend(address.to_be_bytes());
                packet.extend(value.to_be_bytes());
            }
            packet.extend(latched.to_be_bytes());
        }
        packet
    }

    /// Reads a reply. Writes are answered with five bytes by some bridges, with a reserved byte and the latched number
    /// too by others.
    ///
    /// # Errors
    /// A length that no reply has.
    pub fn parse(packet: &[u8]) -> Result<Self, ControlError> {
        let short = |expected| ControlError::Length { found: packet.len(), expected };
        let (command, flags, sequence) = prefix(packet).ok_or(short("a reply has at least 5"))?;
        let code = ResponseCode(*packet.get(4).ok_or(short("a reply has at least 5"))?);
        let mut reply = Self { command, flags, sequence, code, values: Vec::new(), latched: None };
        if let Some((body, latched)) =
            packet.get(READ_HEADER_BYTES..).and_then(<[u8]>::split_last_chunk::<LATCHED_BYTES>)
        {
            let (pairs, rest) = body.as_chunks();
            if !rest.is_empty() {
                return Err(short("a reply with values has 8 and 8 for each"));
            }
            reply.values = Pairs(pairs).iter().collect();
            reply.latched = Some(u16::from_be_bytes(*latched));
        }
        Ok(reply)
    }
}
