//! Named ranges of host threads for profilers (NVTX), by a library that is loaded at run time. Without the library a
//! range costs one load.

use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Names of the library: of NVTX 3, and of earlier toolkits.
const LIBRARIES: [&str; 2] = ["libnvtx3interop.so.1", "libnvToolsExt.so.1"];

/// Why there are no ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no NVTX library: neither {} can be loaded ({why}); they come with the CUDA toolkit and with the Python package nvidia-nvtx",
    LIBRARIES.join(" nor ")
)]
pub struct NoNvtx {
    /// The system's error for each name.
    why: String,
}

#[derive(Debug)]
struct Nvtx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    /// Keeps the functions.
    _library: Library,
}

static NVTX: OnceLock<Nvtx> = OnceLock::new();

/// Loads the library: from then on ranges are reported to the profiler under which the process runs, if any.
///
/// # Errors
/// There is no such library, or it lacks a function.
pub fn enable() -> Result<(), NoNvtx> {
    if NVTX.get().is_some() {
        return Ok(());
    }
    let mut whys = Vec::new();
    for name in LIBRARIES {
        match load(name) {
            Ok(nvtx) => {
                // A library that another thread loaded meanwhile is as good.
                let _ = NVTX.set(nvtx);
                return Ok(());
            }
            Err(why) => whys.push(why.to_string()),
        }
    }
    Err(NoNvtx { why: whys.join("; ") })
}

fn load(name: &str) -> Result<Nvtx, libloading::Error> {
    // SAFETY: NVIDIA's library, whose constructors do nothing but look for a profiler.
    let library = unsafe { Library::new(name) }?;
    // SAFETY: the function's type, by NVTX's header.
    let push = *unsafe { library.get::<unsafe extern "C" fn(*const c_char) -> c_int>(b"nvtxRangePushA\0") }?;
    // SAFETY: as above.
    let pop = *unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"nvtxRangePop\0") }?;
    Ok(Nvtx { push, pop, _library: library })
}

/// A range of the calling thread, which ends when this is dropped. Ranges of a thread nest.
#[derive(Debug)]
#[must_use = "a range ends where it is dropped"]
pub struct Range {
    nvtx: Option<&'static Nvtx>,
    /// It ends on the thread that began it.
    _not_send: PhantomData<*const ()>,
}

/// Begins a range, if [`enable`] was called.
#[inline]
pub fn range(name: &'static CStr) -> Range {
    let nvtx = NVTX.get();
    if let Some(nvtx) = nvtx {
        // SAFETY: the library is loaded; the name is terminated.
        unsafe { (nvtx.push)(name.as_ptr()) };
    }
    Range { nvtx, _not_send: PhantomData }
}

impl Drop for Range {
    #[inline]
    fn drop(&mut self) {
        if let Some(nvtx) = self.nvtx {
            // SAFETY: the library is loaded; the range was begun on this thread, and those begun in it have ended.
            unsafe { (nvtx.pop)() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a library, and without one: where there is none, an error that names both, and ranges that do nothing.
    #[test]
    fn ranges_are_there_with_a_library_alone() {
        let before = range(c"before");
        match enable() {
            Ok(()) => {
                let (_outer, inner) = (range(c"outer"), range(c"inner"));
                assert!(before.nvtx.is_none() && inner.nvtx.is_some());
                assert_eq!(enable(), Ok(()));
            }
            Err(why) => {
                assert!(LIBRARIES.iter().all(|name| why.to_string().contains(name)), "{why}");
                assert!(range(c"after").nvtx.is_none());
            }
        }
    }
}
