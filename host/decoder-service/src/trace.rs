//! Names of what threads do, for profilers: NVTX ranges, where the library is loaded; nothing in builds without the feature `gpu`.

#[cfg(feature = "gpu")]
pub(crate) use ringcall_cuda::nvtx::range;

/// No range.
#[cfg(not(feature = "gpu"))]
pub(crate) fn range(_name: &'static std::ffi::CStr) {}
