//! The border to C, in both directions: caught panics, and text from and into C memory.
#![allow(unsafe_code)] // named for it: memory of C callers

use crate::Refused;
use core::ffi::{CStr, c_char, c_int};
use ringcall_wire::CudaqStatus;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const fn raw(status: CudaqStatus) -> c_int {
    status.raw() as c_int
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a C function. Its error is kept for the thread; a panic becomes an internal error.
pub(crate) fn enter(body: impl FnOnce() -> Result<(), Refused>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    let (status, why) = match outcome {
        Ok(()) => (CudaqStatus::Ok, String::new()),
        Err(Refused { status, why }) => (status, why),
    };
    // A thread that is ending has no storage for the error, and nothing reads it.
    let _ = LAST_ERROR.try_with(|last| {
        if !(why.is_empty() && last.borrow().is_empty()) {
            *last.borrow_mut() = CString::new(why.replace('\0', " ")).unwrap_or_default();
        }
    });
    raw(status)
}

/// Runs the body of a C function with another result type: returns `otherwise` if it panics.
pub(crate) fn enter_for<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

fn panicked(panic: &(dyn Any + Send)) -> Refused {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Refused::internal(format!("panic: {said}"))
}

/// Why the thread's last call failed; valid until the thread's next call.
#[cfg(feature = "c-api")]
pub(crate) fn last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn last_error_text() -> CString {
    LAST_ERROR.try_with(|last| last.borrow().clone()).unwrap_or_default()
}

/// Copies text and its NUL to `out`, if it fits.
///
/// # Safety
/// `out` is null, or `len` bytes may be written there.
pub(crate) unsafe fn write_text(text: &str, out: *mut c_char, len: usize) -> Result<(), Refused> {
    if out.is_null() {
        return Err(Refused::invalid("the buffer is null"));
    }
    let text = CString::new(text).map_err(|_| Refused::internal("the text has a NUL in it"))?;
    let bytes = text.as_bytes_with_nul();
    if bytes.len() > len {
        return Err(Refused::invalid(format!("a buffer of {len} bytes is too short for {}", bytes.len())));
    }
    // SAFETY: as promised; the two do not overlap, since `text` was made here.
    unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

/// Reads text from a C caller.
///
/// # Safety
/// `text` is null or ends in a NUL.
pub(crate) unsafe fn read_text(text: *const c_char, what: &str) -> Result<String, Refused> {
    if text.is_null() {
        return Err(Refused::invalid(format!("{what} is null")));
    }
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_owned).map_err(|_| Refused::invalid(format!("{what} is not UTF-8")))
}

/// Reads arguments from a C caller. A null argument ends the list, as in `main`.
///
/// # Safety
/// `argv` is null or has `argc` strings.
pub(crate) unsafe fn read_args(argc: c_int, argv: *const *mut c_char) -> Result<Vec<String>, Refused> {
    let count = usize::try_from(argc).map_err(|_| Refused::invalid(format!("argc is {argc}")))?;
    if count > 0 && argv.is_null() {
        return Err(Refused::invalid("argv is null"));
    }
    let mut args = Vec::new();
    for index in 0..count {
        // SAFETY: as promised.
        let entry = unsafe { argv.add(index) };
        // SAFETY: as promised.
        let arg = unsafe { entry.read() };
        if arg.is_null() {
            break;
        }
        // SAFETY: as promised.
        args.push(unsafe { read_text(arg, "an argument") }?);
    }
    Ok(args)
}
