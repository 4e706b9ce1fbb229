//! Errors of loading and providing a bridge library.

use core::ffi::c_int;
use ringcall_transport::TransportError;
use ringcall_wire::CudaqStatus;

/// Error of a function of the interface: a status, and a reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// The status that the C function returns.
    pub status: CudaqStatus,
    /// The reason, which only the extension passes on.
    pub why: String,
}

impl Refused {
    /// An invalid argument.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::InvalidArg, why: why.into() }
    }

    /// A function that this provider does not support.
    pub fn unsupported(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::Unsupported, why: why.into() }
    }

    /// A fault.
    pub fn internal(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::Internal, why: why.into() }
    }
}

impl From<TransportError> for Refused {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::Setting { .. } | TransportError::SlotTooLong { .. } => {
                Self::invalid(error.to_string())
            }
            other => Self::internal(other.to_string()),
        }
    }
}

/// Why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The string contains a NUL, so C functions cannot take it.
    #[error("`{}` has a NUL in it", .0.escape_debug())]
    Nul(String),
    /// More arguments than C counts.
    #[error("too many arguments")]
    TooManyArguments,
    /// The dynamic linker cannot load the library.
    #[error("cannot load `{library}`: {why}")]
    Load {
        /// The library.
        library: String,
        /// The dynamic linker's message.
        why: String,
    },
    /// The library is loaded, but is not a provider that this loader can use.
    #[error("`{library}` is no bridge provider: {why}")]
    NoProvider {
        /// The library.
        library: String,
        /// What is wrong.
        why: String,
    },
    /// The provider refused a call.
    #[error("{call} of `{library}`: {}{}", of_status(*status), but(why))]
    Refused {
        /// The library.
        library: String,
        /// The function.
        call: &'static str,
        /// The returned number, which may not be a status of the interface.
        status: c_int,
        /// The provider's reason; empty if it gave none.
        why: String,
    },
    /// The provider does not have the function.
    #[error("`{library}` does not support {call}")]
    Unsupported {
        /// The library.
        library: String,
        /// The function.
        call: &'static str,
    },
    /// The call is not allowed in the instance's state.
    #[error("{call} of `{library}` in the wrong order: it is {state}")]
    Order {
        /// The library.
        library: String,
        /// The function.
        call: &'static str,
        /// The instance's state.
        state: &'static str,
    },
    /// The provider accepted the call, but returned an impossible value.
    #[error("{call} of `{library}` handed out garbage: {why}")]
    Garbage {
        /// The library.
        library: String,
        /// The function.
        call: &'static str,
        /// The value, and why it is impossible.
        why: String,
    },
}

impl BridgeError {
    /// The status that a C caller gets.
    #[must_use]
    pub fn status(&self) -> CudaqStatus {
        match self {
            Self::Nul(_) | Self::TooManyArguments | Self::Order { .. } => CudaqStatus::InvalidArg,
            Self::Load { .. } | Self::NoProvider { .. } | Self::Garbage { .. } => CudaqStatus::Internal,
            Self::Unsupported { .. } => CudaqStatus::Unsupported,
            Self::Refused { status, .. } => {
                let known = u32::try_from(*status).ok().and_then(|raw| CudaqStatus::from_raw(raw).ok());
                known.filter(|status| *status != CudaqStatus::Ok).unwrap_or(CudaqStatus::Internal)
            }
        }
    }
}

fn of_status(status: c_int) -> String {
    match u32::try_from(status).ok().and_then(|raw| CudaqStatus::from_raw(raw).ok()) {
        Some(CudaqStatus::InvalidArg) => "invalid argument".to_owned(),
        Some(CudaqStatus::Internal) => "internal error".to_owned(),
        Some(CudaqStatus::Cuda) => "CUDA error".to_owned(),
        Some(CudaqStatus::Unsupported) => "not supported".to_owned(),
        Some(CudaqStatus::Ok) | None => format!("status {status}, which the interface does not have"),
    }
}

fn but(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_a_provider_may_return_becomes_a_status_of_the_interface() {
        let refused = |status| BridgeError::Refused {
            library: "l.so".to_owned(),
            call: "create",
            status,
            why: String::new(),
        };
        for (raw, status) in
            [(1, CudaqStatus::InvalidArg), (3, CudaqStatus::Cuda), (4, CudaqStatus::Unsupported)]
        {
            assert_eq!(refused(raw).status(), status);
        }
        for raw in [2, 5, -1, c_int::MIN, c_int::MAX] {
            assert_eq!(refused(raw).status(), CudaqStatus::Internal);
        }
        assert_eq!(refused(17).to_string(), "create of `l.so`: status 17, which the interface does not have");
    }
}
