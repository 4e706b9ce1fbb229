//! Reasons for which a packet is refused, and a counter for each.

use crate::error::PacketError;
use serde::ser::{Serialize, SerializeMap, Serializer};

macro_rules! reasons {
    ($($variant:ident, $name:literal, $meaning:literal;)*) => {
        /// Why a queue pair refused a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = concat!($meaning, ".")] $variant,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The reason's name in reports: lower case with underscores.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The reason in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

reasons! {
    Malformed, "malformed", "no RoCE packet: cut off, unknown opcode, lengths that disagree";
    WrongIcrc, "wrong_icrc", "the invariant CRC is wrong";
    WrongPeer, "wrong_peer", "it came from another address than the queue pair's peer";
    WrongQp, "wrong_qp", "it is for another queue pair";
    Unsupported, "unsupported", "an operation that this queue pair does not serve";
    Duplicate, "duplicate", "a packet with this sequence number was here before";
    WrongPsn, "wrong_psn", "its sequence number is not the next one of a reliable connection";
    WrongKey, "wrong_key", "the R_Key is not the window's";
    OutOfRange, "out_of_range", "the addresses are not all in the window";
    CrossesSlot, "crosses_slot", "the addresses lie in two slots";
    NoSuchSlot, "no_such_slot", "the immediate names a slot that the window does not have";
    WrongSlot, "wrong_slot", "the immediate names another slot than the address";
    Stale, "stale", "it belongs to a frame that a later one in its slot has replaced";
    NoMessage, "no_message", "it continues a message that did not begin, or lost a packet";
    WrongLength, "wrong_length", "its message has another length than announced";
    Busy, "busy", "the slot still has a request that is being served";
}

impl From<PacketError> for Reason {
    /// A wrong iCRC has its own reason; every other error means a malformed packet.
    fn from(error: PacketError) -> Self {
        match error {
            PacketError::WrongIcrc { .. } => Self::WrongIcrc,
            _ => Self::Malformed,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.meaning())
    }
}

impl std::error::Error for Reason {}

/// How many packets were refused, by [`Reason`]. Serializes as a map by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Reason::ALL.len()]);

impl Refusals {
    /// Counts one packet.
    pub const fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// The number of packets refused for `reason`.
    #[must_use]
    pub const fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// The number of packets refused for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Serialize for Refusals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Reason::ALL.len()))?;
        for reason in Reason::ALL {
            map.serialize_entry(reason.name(), &self.of(*reason))?;
        }
        map.end()
    }
}
