//! NVTX ranges: names of the threads' work for profilers, if the library is loaded; nothing without the feature `gpu`.

#[cfg(feature = "gpu")]
pub(crate) use ringcall_cuda::nvtx::range;

/// No range.
#[cfg(not(feature = "gpu"))]
pub(crate) fn range(_name: &'static std::ffi::CStr) {}
