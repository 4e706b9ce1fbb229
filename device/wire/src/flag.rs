//! Flag words: what the `u64` beside a slot says.
//!
//! | value | RX flag | TX flag |
//! |---|---|---|
//! | 0 | slot free | nothing to send |
//! | slot address | request ready | response ready |
//! | [`IN_FLIGHT`] | - | accepted, response to come |
//! | [`error`]`(code)` | - | launch or engine failed with that code, no response |
//!
//! A producer reuses a slot only when both flags are 0; the in-flight mark is stored before the RX flag is
//! cleared. An address is never trusted: a dispatcher compares it with the slot it polls.
//!
//! ```
//! use ringcall_wire::{TxState, flag};
//! assert_eq!(TxState::decode(flag::error(700)), TxState::Error(700));
//! assert_eq!(TxState::decode(0x7f00_0000_1000), TxState::Ready(0x7f00_0000_1000));
//! ```

use crate::error::WireError;

/// Flag of a slot that holds nothing.
pub const FREE: u64 = 0;
/// TX flag of a slot whose request was accepted and whose response is still to come.
pub const IN_FLIGHT: u64 = 0xEEEE_EEEE_EEEE_EEEE;
/// Marker a host-launched graph is triggered with. It is no slot address and no TX state of its own.
pub const GRAPH_TRIGGER: u64 = 0x0012_A6E5;
/// What bits 63..48 of an error word hold.
pub const ERROR_TAG: u16 = 0xDEAD;

/// TX flag of a slot that failed: [`ERROR_TAG`] in bits 63..48, `code` in bits 15..0, zeros between.
///
/// The tag is in the top bits because no user address on x86-64 or AArch64 (48-bit, canonical) reaches there.
#[must_use]
pub const fn error(code: u16) -> u64 {
    (ERROR_TAG as u64) << 48 | code as u64
}

/// What a TX flag word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxState {
    /// Nothing to send.
    Empty,
    /// Accepted, response to come.
    InFlight,
    /// Failed with this code; bits 47..16 of the word are ignored.
    Error(u16),
    /// Response ready at this address, to be compared with the slot's own.
    Ready(u64),
}

impl TxState {
    /// Reads a flag word. Every word means something.
    #[must_use]
    pub const fn decode(word: u64) -> Self {
        if word == FREE {
            Self::Empty
        } else if word == IN_FLIGHT {
            Self::InFlight
        } else if word >> 48 == ERROR_TAG as u64 {
            Self::Error(word as u16)
        } else {
            Self::Ready(word)
        }
    }

    /// The number the C ABI reports for this state.
    #[must_use]
    pub const fn status(self) -> TxStatus {
        match self {
            Self::Empty => TxStatus::Empty,
            Self::InFlight => TxStatus::InFlight,
            Self::Error(_) => TxStatus::Error,
            Self::Ready(_) => TxStatus::Ready,
        }
    }
}

/// The states of a TX slot as the C ABI numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TxStatus {
    /// Nothing to send.
    Empty = 0,
    /// Accepted, response to come.
    InFlight = 1,
    /// Failed; the code is in the flag word.
    Error = 2,
    /// Response ready.
    Ready = 3,
}

impl TxStatus {
    /// From the C number.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] for any other number.
    pub const fn from_raw(raw: u32) -> Result<Self, WireError> {
        match raw {
            0 => Ok(Self::Empty),
            1 => Ok(Self::InFlight),
            2 => Ok(Self::Error),
            3 => Ok(Self::Ready),
            value => Err(WireError::UnknownValue { of: "TX status", value }),
        }
    }

    /// The C number.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self as u32
    }
}
