//! Guard of every entry point: no panic crosses into C, and an error leaves a message.

use core::ffi::{c_char, c_int};
use ringcall_cuda::CudaError;
use ringcall_wire::status::CudaqStatus;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: CudaqStatus,
    pub(crate) why: String,
    /// CUDA's number, where there is one.
    pub(crate) cuda: u32,
}

/// `cudaErrorInvalidValue`.
const CUDA_INVALID_VALUE: u32 = 1;
/// `cudaErrorNoDevice`.
const CUDA_NO_DEVICE: u32 = 100;
/// `cudaErrorNotSupported`.
const CUDA_NOT_SUPPORTED: u32 = 801;
/// `cudaErrorUnknown`.
pub(crate) const CUDA_UNKNOWN: u32 = 999;

impl Fault {
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::InvalidArg, why: why.into(), cuda: CUDA_INVALID_VALUE }
    }

    pub(crate) fn internal(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::Internal, why: why.into(), cuda: CUDA_UNKNOWN }
    }

    /// The same, with the number of the shot that it is of.
    pub(crate) fn of_shot(self, shot: usize) -> Self {
        Self { why: format!("shot {shot}: {}", self.why), ..self }
    }

    pub(crate) fn unsupported(why: impl Into<String>) -> Self {
        Self { status: CudaqStatus::Unsupported, why: why.into(), cuda: CUDA_NOT_SUPPORTED }
    }
}

impl From<CudaError> for Fault {
    fn from(error: CudaError) -> Self {
        let cuda = match &error {
            CudaError::Call { code, .. } => code.code,
            CudaError::NoDriver | CudaError::NoDevice => CUDA_NO_DEVICE,
            _ => CUDA_UNKNOWN,
        };
        Self { status: CudaqStatus::Cuda, why: error.to_string(), cuda }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps `why` for [`ringcall_last_error`].
#[cold]
#[inline(never)]
pub(crate) fn remember(why: &str) {
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    // No borrow of the cell lasts while a call is under way; a thread that is ending has no use for words.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Runs an entry point: a panic is `internal`.
#[inline(always)]
pub(crate) fn attempt<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Fault::internal("a fault of the library: it panicked")));
    if let Err(fault) = &outcome {
        remember(&fault.why);
    }
    outcome
}

/// As a `cudaq_status_t`.
#[inline(always)]
pub(crate) fn status(body: impl FnOnce() -> Result<(), Fault>) -> c_int {
    match attempt(body) {
        Ok(()) => CudaqStatus::Ok.raw() as c_int,
        Err(fault) => fault.status.raw() as c_int,
    }
}

/// As a `cudaError_t`.
pub(crate) fn cuda_error(body: impl FnOnce() -> Result<(), Fault>) -> c_int {
    match attempt(body) {
        Ok(()) => 0,
        Err(fault) => fault.cuda as c_int,
    }
}

/// Why the last failing call of this thread failed.
#[unsafe(no_mangle)]
pub extern "C" fn ringcall_last_error() -> *const c_char {
    const NONE: &CStr = c"";
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(NONE.as_ptr())
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn ringcall_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
