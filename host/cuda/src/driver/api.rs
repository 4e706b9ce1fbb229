//! The driver's functions, looked up once.
//!
//! The bindings' own wrappers panic when the library or a symbol is missing, and their result type is an enum that a
//! newer driver's codes would fall outside of. So the table here is ours: every function is resolved when the driver
//! is loaded, a missing one is an error, and a result is a number. The argument types are checked against the
//! bindings' at compile time.

use crate::{CudaError, DriverCode};
use core::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use cudarc::driver::sys;
use std::ffi::CStr;
use std::fmt::Display;
use sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUcontext, CUdevice,
    CUdevice_attribute, CUdeviceptr, CUfunction, CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode,
    CUjit_option, CUjitInputType, CUkernelNodeAttrID, CUkernelNodeAttrValue, CUlaunchConfig, CUlinkState,
    CUmemRangeHandleType, CUmodule, CUpointer_attribute, CUstream, CUstreamCaptureMode, cuuint64_t,
};

/// `CUDA_SUCCESS`.
pub(super) const SUCCESS: u32 = 0;
/// `CUDA_ERROR_INVALID_VALUE`.
pub(super) const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_NO_DEVICE`.
pub(super) const NO_DEVICE: u32 = 100;
/// `CUDA_ERROR_NOT_FOUND`: no symbol of that name.
pub(super) const NOT_FOUND: u32 = 500;
/// `CUDA_ERROR_NOT_READY`: the stream still works.
pub(super) const NOT_READY: u32 = 600;

/// The bindings take an enum here; any number may have to be named, so this takes the number.
type ErrorWords = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

macro_rules! api {
    ($($name:ident($($argument:ty),*);)*) => {
        /// One pointer for each function that is used.
        #[allow(non_snake_case)] // the driver's names
        pub(super) struct Api {
            error_name: ErrorWords,
            error_string: ErrorWords,
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        // The argument types are those of the bindings; the result is a C enum, so an `unsigned int`.
        $(const _: unsafe fn($($argument),*) -> sys::CUresult = sys::$name;)*

        impl Api {
            fn resolve() -> Result<Self, CudaError> {
                Ok(Self {
                    error_name: symbol("cuGetErrorName")?,
                    error_string: symbol("cuGetErrorString")?,
                    $($name: symbol::<unsafe extern "C" fn($($argument),*) -> u32>(stringify!($name))?,)*
                })
            }
        }
    };
}

api! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuCtxGetDevice(*mut CUdevice);
    cuCtxGetStreamPriorityRange(*mut c_int, *mut c_int);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemGetHandleForAddressRange(*mut c_void, CUdeviceptr, usize, CUmemRangeHandleType, c_ulonglong);
    cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);
    cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuStreamCreateWithPriority(*mut CUstream, c_uint, c_int);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamQuery(CUstream);
    cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
    cuStreamEndCapture(CUstream, *mut CUgraph);
    cuStreamWriteValue64_v2(CUstream, CUdeviceptr, cuuint64_t, c_uint);
    cuLinkCreate_v2(c_uint, *mut CUjit_option, *mut *mut c_void, *mut CUlinkState);
    cuLinkAddData_v2(
        CUlinkState, CUjitInputType, *mut c_void, usize, *const c_char, c_uint, *mut CUjit_option, *mut *mut c_void
    );
    cuLinkComplete(CUlinkState, *mut *mut c_void, *mut usize);
    cuLinkDestroy(CUlinkState);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuModuleGetGlobal_v2(*mut CUdeviceptr, *mut usize, CUmodule, *const c_char);
    cuModuleGetFunctionCount(*mut c_uint, CUmodule);
    cuModuleEnumerateFunctions(*mut CUfunction, c_uint, CUmodule);
    cuFuncLoad(CUfunction);
    cuFuncGetName(*mut *const c_char, CUfunction);
    cuFuncGetParamInfo(CUfunction, usize, *mut usize, *mut usize);
    cuFuncGetAttribute(*mut c_int, CUfunction_attribute, CUfunction);
    cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, CUfunction, c_int, usize);
    cuOccupancyMaxActiveClusters(*mut c_int, CUfunction, *const CUlaunchConfig);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
    cuLaunchCooperativeKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void
    );
    cuLaunchKernelEx(*const CUlaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
    cuGraphCreate(*mut CUgraph, c_uint);
    cuGraphDestroy(CUgraph);
    cuGraphAddKernelNode_v2(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_KERNEL_NODE_PARAMS);
    cuGraphAddMemcpyNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_MEMCPY3D, CUcontext);
    cuGraphAddChildGraphNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, CUgraph);
    cuGraphKernelNodeSetAttribute(CUgraphNode, CUkernelNodeAttrID, *const CUkernelNodeAttrValue);
    cuGraphInstantiateWithParams(*mut CUgraphExec, CUgraph, *mut CUDA_GRAPH_INSTANTIATE_PARAMS);
    cuGraphGetNodes(CUgraph, *mut CUgraphNode, *mut usize);
    cuGraphExecGetFlags(CUgraphExec, *mut cuuint64_t);
    cuGraphUpload(CUgraphExec, CUstream);
    cuGraphLaunch(CUgraphExec, CUstream);
    cuGraphExecDestroy(CUgraphExec);
}

/// The function `name` of the driver's library, which is there.
fn symbol<F: Copy>(name: &'static str) -> Result<F, CudaError> {
    // SAFETY: the caller has seen that the library can be loaded (otherwise this panics, and is caught there).
    let library = unsafe { sys::culib() };
    // SAFETY: `F` is this function's type: checked against the bindings above, where each name meets its type.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|_| CudaError::DriverTooOld { symbol: name })
}

impl Api {
    /// Loads the driver's library and resolves every function.
    pub(super) fn load() -> Result<Self, CudaError> {
        // SAFETY: loading the driver's library runs its initialisers, which is what a CUDA program is for.
        let present = unsafe { sys::is_culib_present() };
        if !present {
            return Err(CudaError::NoDriver);
        }
        // The bindings panic should the library vanish in between; that is no driver, too.
        std::panic::catch_unwind(Self::resolve).unwrap_or(Err(CudaError::NoDriver))
    }

    /// An error for every result but success. `doing` is formatted only then.
    pub(super) fn check(&self, code: u32, doing: impl Display) -> Result<(), CudaError> {
        if code == SUCCESS {
            return Ok(());
        }
        Err(CudaError::Call { doing: doing.to_string(), code: self.describe(code) })
    }

    /// The driver's name and words for a code.
    pub(super) fn describe(&self, code: u32) -> DriverCode {
        let name = words(self.error_name, code).unwrap_or_else(|| "an unknown CUDA error".to_owned());
        let text = words(self.error_string, code).unwrap_or_else(|| "no description".to_owned());
        DriverCode { code, name, text }
    }
}

fn words(ask: ErrorWords, code: u32) -> Option<String> {
    let mut text = core::ptr::null();
    // SAFETY: the driver writes one pointer, to its own string or null; unknown codes are refused.
    let answer = unsafe { ask(code, &raw mut text) };
    if answer != SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success the string is the driver's, terminated and never freed.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
