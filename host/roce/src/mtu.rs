//! The path MTU: the most payload bytes of a packet.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The most payload bytes of a packet. All packets of a longer message but the last have exactly this many bytes, and
/// adapters drop packets of another length: both ends of a connection need the same path MTU.
///
/// ```
/// use ringcall_roce::PathMtu;
///
/// assert_eq!("2048".parse::<PathMtu>()?.bytes(), 2048);
/// assert!("1500".parse::<PathMtu>().is_err());
/// assert_eq!(PathMtu::default(), PathMtu::B1024);
/// # Ok::<(), ringcall_roce::mtu::NoPathMtu>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "u16")]
pub enum PathMtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes: the largest that fits Ethernet's 1500 bytes, and the usual choice of RDMA programs there.
    #[default]
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

/// A text that names no path MTU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no path MTU: give 256, 512, 1024, 2048 or 4096")]
pub struct NoPathMtu(String);

impl PathMtu {
    /// Every path MTU, the smallest first.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// The path MTU in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        256 << self as usize
    }

    /// The packets of a message of `message_bytes`, at least one.
    #[must_use]
    pub const fn packets(self, message_bytes: usize) -> u32 {
        // Messages have at most 2³¹ bytes.
        let packets = message_bytes.div_ceil(self.bytes()) as u32;
        if packets == 0 { 1 } else { packets }
    }
}

impl From<PathMtu> for u16 {
    fn from(mtu: PathMtu) -> Self {
        // At most 4096.
        mtu.bytes() as Self
    }
}

impl FromStr for PathMtu {
    type Err = NoPathMtu;

    fn from_str(text: &str) -> Result<Self, NoPathMtu> {
        let known = Self::ALL.into_iter().find(|mtu| text.parse() == Ok(mtu.bytes()));
        known.ok_or_else(|| NoPathMtu(text.to_owned()))
    }
}

impl fmt::Display for PathMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}
