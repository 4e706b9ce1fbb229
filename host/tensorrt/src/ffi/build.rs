//! A parsed network on its way to a plan.

use super::{Loaded, Tensor, sys};
use crate::TensorRtError;
use std::ffi::CString;
use std::ptr::NonNull;

/// What the shim builds with. Each may be switched on or off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BuildFlags {
    pub(crate) f16: bool,
    pub(crate) bf16: bool,
    pub(crate) int8: bool,
    pub(crate) tf32: bool,
    pub(crate) version_compatible: bool,
    pub(crate) exclude_lean_runtime: bool,
}

impl BuildFlags {
    fn bits(self) -> u32 {
        [
            (self.f16, sys::RINGCALL_TRT_FLAG_F16),
            (self.bf16, sys::RINGCALL_TRT_FLAG_BF16),
            (self.int8, sys::RINGCALL_TRT_FLAG_INT8),
            (self.tf32, sys::RINGCALL_TRT_FLAG_TF32),
            (self.version_compatible, sys::RINGCALL_TRT_FLAG_VERSION_COMPATIBLE),
            (self.exclude_lean_runtime, sys::RINGCALL_TRT_FLAG_EXCLUDE_LEAN_RUNTIME),
        ]
        .iter()
        .fold(0, |bits, (on, bit)| if *on { bits | bit } else { bits })
    }
}

/// A parsed network, its builder and its configuration.
pub(crate) struct Build {
    library: &'static Loaded,
    raw: NonNull<sys::ringcall_trt_build>,
}

impl Build {
    pub(crate) fn parse(
        library: &'static Loaded,
        onnx: &[u8],
        flags: BuildFlags,
    ) -> Result<Self, TensorRtError> {
        let mut raw = std::ptr::null_mut();
        library.call("parsing the ONNX file", |why| {
            // SAFETY: the library is open; the bytes are borrowed for the call, which keeps nothing of them.
            unsafe {
                library.shim.ringcall_trt_build_parse(
                    library.raw,
                    onnx.as_ptr().cast(),
                    onnx.len() as u64,
                    flags.bits(),
                    &raw mut raw,
                    why,
                )
            }
        })?;
        let raw = NonNull::new(raw).ok_or_else(|| TensorRtError::Refused {
            doing: "parsing the ONNX file".to_owned(),
            words: "no network".to_owned(),
        })?;
        Ok(Self { library, raw })
    }

    /// The network's inputs and outputs, in that order.
    pub(crate) fn tensors(&self) -> Result<Vec<Tensor>, TensorRtError> {
        let shim = &self.library.shim;
        // SAFETY: the handle lives.
        let inputs = unsafe { shim.ringcall_trt_build_inputs(self.raw.as_ptr()) };
        // SAFETY: the handle lives.
        let outputs = unsafe { shim.ringcall_trt_build_outputs(self.raw.as_ptr()) };
        let mut tensors = Vec::new();
        for index in 0..inputs + outputs {
            let mut raw = super::run::blank();
            self.library.call("asking a network for its tensors", |why| {
                // SAFETY: the handle and `raw` live; a number that is not there is refused.
                unsafe { shim.ringcall_trt_build_tensor(self.raw.as_ptr(), index, &raw mut raw, why) }
            })?;
            // SAFETY: the texts are the network's, which lives as long as the handle.
            tensors.push(unsafe { Tensor::from_raw(&raw) });
        }
        Ok(tensors)
    }

    /// Sizes of one input; the three are of its rank.
    pub(crate) fn shape(&mut self, name: &str, sizes: [&[i64]; 3]) -> Result<(), TensorRtError> {
        let c_name = CString::new(name).unwrap_or_default();
        let [smallest, optimum, largest] = sizes;
        let rank = smallest.len().min(optimum.len()).min(largest.len()) as u32;
        self.library.call(format_args!("giving input `{name}` its sizes"), |why| {
            // SAFETY: the handle lives, and each array has `rank` sizes.
            unsafe {
                self.library.shim.ringcall_trt_build_shape(
                    self.raw.as_ptr(),
                    c_name.as_ptr(),
                    rank,
                    smallest.as_ptr(),
                    optimum.as_ptr(),
                    largest.as_ptr(),
                    why,
                )
            }
        })
    }

    pub(crate) fn workspace(&mut self, bytes: u64) -> Result<(), TensorRtError> {
        self.library.call("limiting the workspace", |why| {
            // SAFETY: the handle lives.
            unsafe { self.library.shim.ringcall_trt_build_workspace(self.raw.as_ptr(), bytes, why) }
        })
    }

    pub(crate) fn effort(&mut self, level: u8) -> Result<(), TensorRtError> {
        self.library.call(format_args!("setting optimisation level {level}"), |why| {
            // SAFETY: the handle lives.
            unsafe { self.library.shim.ringcall_trt_build_effort(self.raw.as_ptr(), i32::from(level), why) }
        })
    }

    /// As (major, minor).
    pub(crate) fn capabilities(&mut self, capabilities: &[(u32, u32)]) -> Result<(), TensorRtError> {
        let numbers: Vec<i32> = capabilities
            .iter()
            .map(|(major, minor)| {
                i32::try_from(major.saturating_mul(10).saturating_add(*minor)).unwrap_or(i32::MAX)
            })
            .collect();
        self.library.call("choosing compute capabilities", |why| {
            // SAFETY: the handle lives, and so many numbers are there.
            unsafe {
                self.library.shim.ringcall_trt_build_capabilities(
                    self.raw.as_ptr(),
                    numbers.as_ptr(),
                    numbers.len() as u32,
                    why,
                )
            }
        })
    }

    pub(crate) fn run(self) -> Result<Vec<u8>, TensorRtError> {
        let shim = &self.library.shim;
        let mut plan = std::ptr::null_mut();
        self.library.call("building the engine", |why| {
            // SAFETY: the handle and `plan` live.
            unsafe { shim.ringcall_trt_build_run(self.raw.as_ptr(), &raw mut plan, why) }
        })?;
        // SAFETY: a plan was given out.
        let data = unsafe { shim.ringcall_trt_plan_data(plan) };
        // SAFETY: as above.
        let len = unsafe { shim.ringcall_trt_plan_bytes(plan) };
        let len = usize::try_from(len).unwrap_or(0);
        let bytes = if data.is_null() || len == 0 {
            Vec::new()
        } else {
            // SAFETY: the plan has so many bytes, and is freed below.
            unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec()
        };
        // SAFETY: given out once, freed once.
        unsafe { shim.ringcall_trt_plan_free(plan) };
        Ok(bytes)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // SAFETY: given out once, freed once.
        unsafe { self.library.shim.ringcall_trt_build_free(self.raw.as_ptr()) };
    }
}
