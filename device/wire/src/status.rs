//! The one registry of status codes that a response carries.
//!
//! 0 is success; positive codes belong to the handler that set them; negative codes are the protocol's:
//!
//! | code | name | meaning |
//! |---|---|---|
//! | 0 | `OK` | success |
//! | -1 | `BAD_FLAG` | the RX flag was not the address of its slot |
//! | -2 | `BAD_MAGIC` | the slot does not start with the request magic |
//! | -3 | `ARG_TOO_LONG` | `arg_len` is more than slot minus header |
//! | -4 | `UNKNOWN_FUNCTION` | no table entry has this function id |
//! | -5 | `WRONG_MODE` | the entry is for another dispatch mode than this dispatcher serves |
//! | -6 | `SCHEMA_MISMATCH` | `arg_len` differs from the entry's schema |
//! | -7 | `RESULT_TOO_LONG` | the handler claimed more result bytes than fit; the length was clamped |
//! | -8 | `HANDLER_PANIC` | the handler panicked |
//! | -9 | `LAUNCH_FAILED` | a graph or kernel launch failed |
//! | -10 | `TIMED_OUT` | no completion within the time allowed |
//! | -11 | `SHUTTING_DOWN` | the dispatcher was stopping |
//! | -12 | `ABANDONED` | a deferred completion was dropped unanswered |
//! | -13 | `NO_WORKER` | the function has no worker |
//! | -14 | `BACKPRESSURE` | the function's queue was full |
//! | -15 | `ENGINE_FAILED` | the inference engine or decoder failed |
//! | -16 | `BAD_PAYLOAD` | a payload value is out of range, or unused bits are set |
//!
//! [`CudaqStatus`] is something else: what the C functions return. It and the C ABI's other enumerations are here too.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::WireError;

pub use crate::abi::{CudaqStatus, DispatchMode, DispatchPath, KernelType};

/// Status of a response.
///
/// ```
/// use ringcall_wire::Status;
/// assert!(Status(3).is_handler_error());
/// assert_eq!(Status(-4).name(), "UNKNOWN_FUNCTION");
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct Status(pub i32);

// One row gives the constant, the table entry and their texts, so that they cannot drift apart.
macro_rules! registry {
    ($($name:ident = $code:literal, $meaning:literal;)*) => {
        impl Status {
            $(#[doc = concat!($meaning, ".")] pub const $name: Self = Self($code);)*
        }

        /// Every code with its name and meaning, `OK` first, then downwards from -1.
        pub const ALL: &[(Status, &str, &str)] = &[$((Status::$name, stringify!($name), $meaning),)*];

        impl Status {
            /// Name of the code; `HANDLER` for positive ones, `UNKNOWN` for negative ones that are not in [`ALL`].
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($code => stringify!($name),)*
                    1.. => "HANDLER",
                    _ => "UNKNOWN",
                }
            }

            /// What the code means, in words.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self.0 {
                    $($code => $meaning,)*
                    1.. => "error of the handler's own",
                    _ => "protocol-level error unknown to this version",
                }
            }
        }
    };
}

registry! {
    OK = 0, "success";
    BAD_FLAG = -1, "the RX flag was not the address of its slot";
    BAD_MAGIC = -2, "the slot does not start with the request magic";
    ARG_TOO_LONG = -3, "arg_len is more than slot minus header";
    UNKNOWN_FUNCTION = -4, "no table entry has this function id";
    WRONG_MODE = -5, "the entry is for another dispatch mode than this dispatcher serves";
    SCHEMA_MISMATCH = -6, "arg_len differs from the entry's schema";
    RESULT_TOO_LONG = -7, "the handler claimed more result bytes than fit; the length was clamped";
    HANDLER_PANIC = -8, "the handler panicked";
    LAUNCH_FAILED = -9, "a graph or kernel launch failed";
    TIMED_OUT = -10, "no completion within the time allowed";
    SHUTTING_DOWN = -11, "the dispatcher was stopping";
    ABANDONED = -12, "a deferred completion was dropped unanswered";
    NO_WORKER = -13, "the function has no worker";
    BACKPRESSURE = -14, "the function's queue was full";
    ENGINE_FAILED = -15, "the inference engine or decoder failed";
    BAD_PAYLOAD = -16, "a payload value is out of range, or unused bits are set";
}

impl Status {
    /// Whether this is success.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// The status and the length to answer with, where a handler claims a result of `len` in a slot for `capacity`: a result
    /// that is too long is cut and answered [`RESULT_TOO_LONG`](Self::RESULT_TOO_LONG).
    ///
    /// ```
    /// use ringcall_wire::status::Status;
    ///
    /// assert_eq!(Status::OK.clamped(3, 8), (Status::OK, 3));
    /// assert_eq!(Status::OK.clamped(9, 8), (Status::RESULT_TOO_LONG, 8));
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn clamped<N: Copy + PartialOrd>(self, len: N, capacity: N) -> (Self, N) {
        if len > capacity { (Self::RESULT_TOO_LONG, capacity) } else { (self, len) }
    }

    /// Whether the handler set it.
    #[must_use]
    pub const fn is_handler_error(self) -> bool {
        self.0 > 0
    }

    /// Whether the protocol set it.
    #[must_use]
    pub const fn is_protocol_error(self) -> bool {
        self.0 < 0
    }

    /// Whether it refuses a request that no function is for: `BAD_MAGIC`, `UNKNOWN_FUNCTION`, `WRONG_MODE`. CUDA-Q Realtime
    /// takes such a request out of its slot and answers nothing.
    #[must_use]
    pub const fn is_bad_request(self) -> bool {
        matches!(self, Self::BAD_MAGIC | Self::UNKNOWN_FUNCTION | Self::WRONG_MODE)
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({}): {}", self.0, self.name(), self.meaning())
    }
}

impl WireError {
    /// The status a dispatcher or handler answers with when a request fails this way.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::BadMagic { .. } => Status::BAD_MAGIC,
            Self::SlotTooSmall { .. } => Status::ARG_TOO_LONG,
            Self::NonZeroPadding { .. }
            | Self::ValueOutOfRange { .. }
            | Self::NotFinite { .. }
            | Self::UnknownValue { .. } => Status::BAD_PAYLOAD,
            Self::NullHandler { .. } => Status::UNKNOWN_FUNCTION,
            _ => Status::SCHEMA_MISMATCH,
        }
    }
}
