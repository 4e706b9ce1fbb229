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

/// Writes why the thread's last call failed, as text with a NUL.
pub type LastError = unsafe extern "C" fn(out: *mut c_char, len: usize) -> c_int;
/// A call with a time in nanoseconds.
pub type Timed = unsafe extern "C" fn(handle: Handle, ns: u64) -> c_int;

/// The extension's functions, called like those of the interface. None may be null. Later versions grow at the end.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Extension {
    /// Bytes of this structure in the library.
    pub size: usize,
    /// Why the calling thread's last call failed.
    pub last_error: Option<LastError>,
    /// The counters of [`TransportStats`](ringcall_transport::TransportStats) as one line of `name=value` pairs.
    pub statistics: Option<GetText>,
    /// Refuses further requests with `SHUTTING_DOWN`, while answers still go out. For a data plane.
    pub close: Option<OnHandle>,
    /// As `disconnect`, but waits no longer than this for requests in flight.
    pub stop: Option<Timed>,
    /// Blocks until a request may be there, or until the time is over. For a data plane.
    pub wait: Option<Timed>,
}

const _: () = assert!(size_of::<Extension>() == 48);

/// An [`Extension`] whose functions were checked to be present.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    pub(crate) last_error: LastError,
    pub(crate) statistics: GetText,
    pub(crate) stop: Timed,
    pub(crate) wait: Timed,
}
