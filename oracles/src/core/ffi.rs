//! The three functions of core.cpp.

use std::ffi::{CStr, c_char, c_void};

use anyhow::{Result, bail, ensure};

/// An edge; `v` is `u32::MAX` for the boundary.
#[repr(C)]
pub(crate) struct Edge {
    pub(crate) u: u32,
    pub(crate) v: u32,
    pub(crate) weight: f64,
    pub(crate) observables: u64,
}

/// What a request took and gave.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) ns: u64,
    pub(crate) weight: f64,
    pub(crate) observables: u64,
}

unsafe extern "C" {
    fn ringcall_core_new(
        detectors: u32,
        observables: u32,
        edges: *const Edge,
        count: usize,
        error: *mut c_char,
        error_size: usize,
    ) -> *mut c_void;
    fn ringcall_core_free(core: *mut c_void);
    fn ringcall_core_decode(
        core: *mut c_void,
        defects: *const u32,
        offsets: *const u32,
        shots: usize,
        answer: *mut Answer,
        error: *mut c_char,
        error_size: usize,
    ) -> bool;
}

/// A decoder of the core, for one graph.
pub(crate) struct Core {
    handle: *mut c_void,
    detectors: u32,
}

impl Core {
    pub(crate) fn new(detectors: u32, observables: u32, edges: &[Edge]) -> Result<Self> {
        ensure!(observables <= 64, "{observables} observables; masks hold 64");
        let out = |end: u32| end >= detectors;
        if let Some(e) = edges.iter().find(|e| out(e.u) || (out(e.v) && e.v != u32::MAX)) {
            bail!("edge {}-{} leaves the {detectors} detectors", e.u, e.v);
        }
        let mut error = [0; 256];
        // SAFETY: the edges and the buffer for errors live through the call, with the lengths given.
        let handle = unsafe {
            ringcall_core_new(
                detectors,
                observables,
                edges.as_ptr(),
                edges.len(),
                error.as_mut_ptr(),
                error.len(),
            )
        };
        ensure!(!handle.is_null(), "the core refuses the graph: {}", text(&error));
        Ok(Self { handle, detectors })
    }

    /// Decodes shots one after the other: shot `i` has the defects `offsets[i]..offsets[i + 1]`.
    pub(crate) fn decode(&mut self, defects: &[u32], offsets: &[u32]) -> Result<Answer> {
        // After an index out of range the core decodes nothing any more.
        if let Some(defect) = defects.iter().find(|&&defect| defect >= self.detectors) {
            bail!("there is no detector {defect}");
        }
        ensure!(
            offsets.is_sorted() && offsets.last().is_some_and(|&end| end as usize == defects.len()),
            "offsets that do not fit the defects"
        );
        let (mut answer, mut error) = (Answer::default(), [0; 256]);
        // SAFETY: the handle comes from `ringcall_core_new`; `offsets` ascends and ends at the number of defects.
        let done = unsafe {
            ringcall_core_decode(
                self.handle,
                defects.as_ptr(),
                offsets.as_ptr(),
                offsets.len() - 1,
                &raw mut answer,
                error.as_mut_ptr(),
                error.len(),
            )
        };
        ensure!(done, "the core fails: {}", text(&error));
        Ok(answer)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: the handle comes from `ringcall_core_new` and is not used again.
        unsafe { ringcall_core_free(self.handle) };
    }
}

fn text(error: &[c_char; 256]) -> String {
    // SAFETY: the C++ side ends every message with a zero, and the buffer began as zeros.
    unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned()
}
