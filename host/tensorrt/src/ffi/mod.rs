//! FFI border: libraries that are loaded at run time, and calls through the shim. No code outside this folder and
//! `replay.rs` is unsafe.

#![allow(unsafe_code)] // named for it: the shim's C interface

mod build;
mod loaded;
mod log;
mod run;
pub(crate) mod sys;

pub(crate) use build::{Build, BuildFlags};
pub(crate) use loaded::{Loaded, RawLibrary};
pub(crate) use log::Log;
pub use log::{Message, Severity};
pub(crate) use run::{RawContext, RawEngine, RawRuntime};

use std::ffi::{CStr, c_char};

/// A tensor as TensorRT describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// TensorRT's number of the element type.
    pub(crate) type_code: i32,
    /// Its values are wanted on the host.
    pub(crate) on_host: bool,
    /// Row-major, packed.
    pub(crate) linear: bool,
    pub(crate) is_output: bool,
    /// -1 is open.
    pub(crate) dims: Vec<i64>,
    /// As many as dimensions, for inputs of a parsed network.
    pub(crate) symbols: Vec<Option<String>>,
}

impl Tensor {
    /// # Safety
    /// The texts are null or terminated, and live.
    unsafe fn from_raw(raw: &sys::ringcall_trt_tensor) -> Self {
        let rank = (raw.rank as usize).min(raw.dims.len());
        // SAFETY: the caller's promise.
        let name = unsafe { text(raw.name) }.unwrap_or_default();
        // SAFETY: the caller's promise.
        let symbol = |raw: &*const c_char| unsafe { text(*raw) }.filter(|symbol| !symbol.is_empty());
        Self {
            name,
            type_code: raw.type_,
            on_host: raw.on_host != 0,
            linear: raw.linear != 0,
            is_output: raw.is_output != 0,
            dims: raw.dims[..rank].to_vec(),
            symbols: raw.symbols[..rank].iter().map(symbol).collect(),
        }
    }
}

/// # Safety
/// Null, or a terminated text that lives.
unsafe fn text(raw: *const c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned())
}
