//! Ringcall's extension of the interface, as a second symbol of a provider's library: reasons of failed calls,
//! counters, a stop with a deadline, and blocking waits. A loader that does not know the symbol still has the whole
//! interface.

use crate::layout::{GetText, Handle, OnHandle};
use core::ffi::{c_char, c_int};
use core::mem::size_of;

/// The function that a library exports: [`GetExtension`].
pub const GET_EXTENSION: &str = "ringcall_bridge_get_extension";

/// The type of [`GET_EXTENSION`].
pub type GetExtension = unsafe extern "C" fn() -> *const Extension;

/// Why the thread's last call failed: text and a NUL.
pub type LastError = unsafe extern "C" fn(out: *mut c_char, len: usize) -> c_int;
/// With a time in nanoseconds.
pub type Timed = unsafe extern "C" fn(handle: Handle, ns: u64) -> c_int;

/// Functions that are called like the interface's: none may be null. Later versions grow at the end.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Extension {
    /// Bytes of this structure: what the library has.
    pub size: usize,
    /// Why the calling thread's last call failed.
    pub last_error: Option<LastError>,
    /// The counters of [`Statistics`](ringcall_transport::Statistics) as one line of `name=value` pairs.
    pub statistics: Option<GetText>,
    /// From now on requests are refused with `SHUTTING_DOWN`; answers still go out. For a data plane.
    pub close: Option<OnHandle>,
    /// As `disconnect`, but waits for requests under way no longer than this.
    pub stop: Option<Timed>,
    /// Blocks until a request may be there or the time is over. For a data plane.
    pub wait: Option<Timed>,
}

const _: () = assert!(size_of::<Extension>() == 48);

/// What a loader works with: an [`Extension`] whose functions are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) last_error: LastError,
    pub(crate) statistics: GetText,
    pub(crate) stop: Timed,
    pub(crate) wait: Timed,
}
