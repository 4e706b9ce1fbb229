//! Runtimes, engines and execution contexts.

use super::{Loaded, Tensor, sys};
use crate::TensorRtError;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null};
use std::sync::Arc;

/// A tensor to be written by the shim.
pub(super) fn blank() -> sys::ringcall_trt_tensor {
    const DIMS: usize = sys::RINGCALL_TRT_MOST_DIMS as usize;
    sys::ringcall_trt_tensor {
        name: null(),
        type_: 0,
        on_host: 0,
        linear: 0,
        is_output: 0,
        rank: 0,
        dims: [0; DIMS],
        symbols: [null(); DIMS],
    }
}

fn given<T>(raw: *mut T, doing: &str) -> Result<NonNull<T>, TensorRtError> {
    NonNull::new(raw).ok_or_else(|| TensorRtError::Refused {
        doing: doing.to_owned(),
        words: "nothing came of it".to_owned(),
    })
}

/// Reads plans.
pub(crate) struct RawRuntime {
    library: &'static Loaded,
    raw: NonNull<sys::ringcall_trt_runtime>,
}

// SAFETY: a runtime is for any number of threads, says `shim.h`.
unsafe impl Send for RawRuntime {}
// SAFETY: as above.
unsafe impl Sync for RawRuntime {}

impl RawRuntime {
    pub(crate) fn new(library: &'static Loaded) -> Result<Self, TensorRtError> {
        const DOING: &str = "making a runtime";
        let mut raw = std::ptr::null_mut();
        library.call(DOING, |why| {
            // SAFETY: the library is open, `raw` lives.
            unsafe { library.shim.ringcall_trt_runtime_new(library.raw, &raw mut raw, why) }
        })?;
        Ok(Self { library, raw: given(raw, DOING)? })
    }
}

impl Drop for RawRuntime {
    fn drop(&mut self) {
        // SAFETY: given out once, freed once, after its engines, which hold it.
        unsafe { self.library.shim.ringcall_trt_runtime_free(self.raw.as_ptr()) };
    }
}

/// A plan, read.
pub(crate) struct RawEngine {
    runtime: Arc<RawRuntime>,
    raw: NonNull<sys::ringcall_trt_engine>,
}

// SAFETY: an engine is for any number of threads, says `shim.h`.
unsafe impl Send for RawEngine {}
// SAFETY: as above.
unsafe impl Sync for RawEngine {}

impl RawEngine {
    pub(crate) fn load(
        runtime: &Arc<RawRuntime>,
        plan: &[u8],
        host_code: bool,
    ) -> Result<Self, TensorRtError> {
        const DOING: &str = "reading a plan";
        let library = runtime.library;
        let mut raw = std::ptr::null_mut();
        library.call(DOING, |why| {
            // SAFETY: the runtime lives; the plan is borrowed for the call, which keeps nothing of it.
            unsafe {
                library.shim.ringcall_trt_engine_load(
                    runtime.raw.as_ptr(),
                    plan.as_ptr().cast(),
                    plan.len() as u64,
                    i32::from(host_code),
                    &raw mut raw,
                    why,
                )
            }
        })?;
        Ok(Self { runtime: Arc::clone(runtime), raw: given(raw, DOING)? })
    }

    fn library(&self) -> &'static Loaded {
        self.runtime.library
    }

    /// In the engine's order.
    pub(crate) fn tensors(&self) -> Result<Vec<Tensor>, TensorRtError> {
        let library = self.library();
        // SAFETY: the engine lives.
        let count = unsafe { library.shim.ringcall_trt_engine_tensors(self.raw.as_ptr()) };
        let mut tensors = Vec::new();
        for index in 0..count {
            let mut raw = blank();
            library.call("asking an engine for its tensors", |why| {
                // SAFETY: the engine and `raw` live; a number that is not there is refused.
                unsafe {
                    library.shim.ringcall_trt_engine_tensor(self.raw.as_ptr(), index, &raw mut raw, why)
                }
            })?;
            // SAFETY: the texts are the engine's.
            tensors.push(unsafe { Tensor::from_raw(&raw) });
        }
        Ok(tensors)
    }

    /// The sizes of input `name` that the first profile allows: smallest, optimum, largest.
    pub(crate) fn profile(&self, name: &str) -> Result<[Vec<i64>; 3], TensorRtError> {
        let c_name = CString::new(name).unwrap_or_default();
        let mut shapes = [Vec::new(), Vec::new(), Vec::new()];
        for (which, shape) in (0..).zip(&mut shapes) {
            *shape = shape_of(
                self.library(),
                format_args!("asking for the sizes of `{name}`"),
                |rank, dims, why| {
                    // SAFETY: the engine and the outputs live; the dimensions have room for any shape.
                    unsafe {
                        self.library().shim.ringcall_trt_engine_profile(
                            self.raw.as_ptr(),
                            c_name.as_ptr(),
                            which,
                            rank,
                            dims,
                            why,
                        )
                    }
                },
            )?;
        }
        Ok(shapes)
    }

    /// Bytes of device memory that a context takes for itself.
    pub(crate) fn memory(&self) -> u64 {
        // SAFETY: the engine lives.
        unsafe { self.library().shim.ringcall_trt_engine_memory(self.raw.as_ptr()) }
    }
}

impl Drop for RawEngine {
    fn drop(&mut self) {
        // SAFETY: given out once, freed once, after its contexts, which hold it.
        unsafe { self.library().shim.ringcall_trt_engine_free(self.raw.as_ptr()) };
    }
}

/// One thread's state of an engine.
pub(crate) struct RawContext {
    engine: Arc<RawEngine>,
    raw: NonNull<sys::ringcall_trt_context>,
}

// SAFETY: a context is for one thread at a time, and not for a certain one.
unsafe impl Send for RawContext {}

impl RawContext {
    /// On the device that is current.
    pub(crate) fn new(engine: &Arc<RawEngine>) -> Result<Self, TensorRtError> {
        const DOING: &str = "making an execution context";
        let library = engine.library();
        let mut raw = std::ptr::null_mut();
        library.call(DOING, |why| {
            // SAFETY: the engine and `raw` live.
            unsafe { library.shim.ringcall_trt_context_new(engine.raw.as_ptr(), &raw mut raw, why) }
        })?;
        Ok(Self { engine: Arc::clone(engine), raw: given(raw, DOING)? })
    }

    pub(crate) fn set_input_shape(&mut self, name: &str, dims: &[i64]) -> Result<(), TensorRtError> {
        let library = self.engine.library();
        let c_name = CString::new(name).unwrap_or_default();
        library.call(format_args!("giving `{name}` the shape {dims:?}"), |why| {
            // SAFETY: the context lives, and so many sizes are there.
            unsafe {
                library.shim.ringcall_trt_context_input_shape(
                    self.raw.as_ptr(),
                    c_name.as_ptr(),
                    dims.len() as u32,
                    dims.as_ptr(),
                    why,
                )
            }
        })
    }

    pub(crate) fn shape(&self, name: &str) -> Result<Vec<i64>, TensorRtError> {
        let library = self.engine.library();
        let c_name = CString::new(name).unwrap_or_default();
        shape_of(library, format_args!("asking for the shape of `{name}`"), |rank, dims, why| {
            // SAFETY: the context and the outputs live; the dimensions have room for any shape.
            unsafe {
                library.shim.ringcall_trt_context_shape(self.raw.as_ptr(), c_name.as_ptr(), rank, dims, why)
            }
        })
    }

    /// # Safety
    /// Device memory of the tensor's size, which outlives every run of this context.
    pub(crate) unsafe fn set_address(&mut self, name: &str, address: u64) -> Result<(), TensorRtError> {
        let library = self.engine.library();
        let c_name = CString::new(name).unwrap_or_default();
        library.call(format_args!("giving `{name}` its memory"), |why| {
            // SAFETY: the context lives; the memory is the caller's promise.
            unsafe {
                library.shim.ringcall_trt_context_address(self.raw.as_ptr(), c_name.as_ptr(), address, why)
            }
        })
    }

    /// Puts one run on a stream, which may be capturing.
    ///
    /// # Safety
    /// A live `cudaStream_t` of the device; every tensor has its memory.
    pub(crate) unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), TensorRtError> {
        let library = self.engine.library();
        library.call("putting a run on a stream", |why| {
            // SAFETY: the context lives; the stream is the caller's promise.
            unsafe { library.shim.ringcall_trt_context_enqueue(self.raw.as_ptr(), stream, why) }
        })
    }
}

impl Drop for RawContext {
    fn drop(&mut self) {
        // SAFETY: given out once, freed once.
        unsafe { self.engine.library().shim.ringcall_trt_context_free(self.raw.as_ptr()) };
    }
}

/// Runs a call that writes a rank and that many sizes.
fn shape_of(
    library: &'static Loaded,
    doing: impl std::fmt::Display,
    call: impl FnOnce(*mut u32, *mut i64, *mut sys::ringcall_trt_why) -> i32,
) -> Result<Vec<i64>, TensorRtError> {
    let (mut rank, mut dims) = (0, [0; sys::RINGCALL_TRT_MOST_DIMS as usize]);
    library.call(doing, |why| call(&raw mut rank, dims.as_mut_ptr(), why))?;
    Ok(dims[..(rank as usize).min(dims.len())].to_vec())
}
