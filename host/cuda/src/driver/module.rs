//! Loaded device code.

use super::api::{Api, NOT_FOUND};
use super::frees::DeferredFree;
use super::handle::Handle;
use super::{Context, DeviceAddress, Image};
use crate::CudaError;
use cudarc::driver::sys::{CUfunc_st, CUmod_st};
use std::any::Any;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Device code loaded into a context. Cheap to clone; kernels of it keep it loaded.
#[derive(Debug, Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    context: Arc<Context>,
    raw: Handle<CUmod_st>,
    kernels: Vec<String>,
    /// Dropped after the code is unloaded.
    _kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Module {
    /// Loads an image with every kernel in it, since loading a kernel at its first launch can wait for running
    /// kernels. This function waits for running kernels, too, so call it before a persistent kernel starts.
    ///
    /// # Errors
    /// The image is for another architecture, the device is out of memory, or the context is dead;
    /// [`CudaError::KernelRuns`] while a persistent kernel runs in this context ([`Context::hold_frees`]), for whose end the
    /// driver would wait.
    pub fn load(context: &Arc<Context>, image: &Image) -> Result<Self, CudaError> {
        Self::load_with(context, image, Vec::new())
    }

    /// The same code, together with an object that is kept as long as the code is loaded: memory whose addresses are
    /// written into the code's variables.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_with(
        context: &Arc<Context>,
        image: &Image,
        kept: Vec<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Self, CudaError> {
        if context.frees().held() {
            return Err(CudaError::KernelRuns("loading device code"));
        }
        let api = context.enter()?;
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle, and reads an image that its own linker made.
        let code = unsafe { (api.cuModuleLoadData)(&raw mut raw, image.cubin().as_ptr().cast()) };
        api.check(code, "loading device code")?;
        // From here on the module unloads itself.
        let mut loaded =
            Loaded { context: Arc::clone(context), raw: Handle(raw), kernels: Vec::new(), _kept: kept };
        loaded.kernels = load_all(api, raw)?;
        Ok(Self { loaded: Arc::new(loaded) })
    }

    /// Its context.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.loaded.context
    }

    /// The names of its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.loaded.kernels
    }

    /// No module of the driver's: a placeholder for the code of a kernel that the caller has loaded.
    pub(super) fn foreign(context: &Arc<Context>, kernel: &str) -> Self {
        let raw = Handle(core::ptr::null_mut());
        let kernels = vec![kernel.to_owned()];
        let loaded = Loaded { context: Arc::clone(context), raw, kernels, _kept: Vec::new() };
        Self { loaded: Arc::new(loaded) }
    }

    pub(super) fn raw(&self) -> *mut CUmod_st {
        self.loaded.raw.0
    }

    /// Where the global variable `name` lies in device memory, and how many bytes it has. Valid while the module is
    /// loaded.
    ///
    /// # Errors
    /// There is none of that name, or it was optimised away (it must be visible, `.visible .global`).
    pub fn global(&self, name: &str) -> Result<(DeviceAddress, usize), CudaError> {
        let missing =
            || CudaError::NoSymbol { kind: "global variable", name: name.to_owned(), has: Vec::new() };
        let c_name = CString::new(name).map_err(|_| missing())?;
        let api = self.context().enter()?;
        let mut address = DeviceAddress(0);
        let mut bytes = 0;
        // SAFETY: the driver writes an address and a length; the module is loaded, the name terminated.
        let code = unsafe {
            (api.cuModuleGetGlobal_v2)(&raw mut address.0, &raw mut bytes, self.loaded.raw.0, c_name.as_ptr())
        };
        if code == NOT_FOUND {
            return Err(missing());
        }
        api.check(code, format_args!("looking for global variable `{name}`"))?;
        Ok((address, bytes))
    }
}

impl Module {
    /// The bytes of the global variable `name`, now.
    ///
    /// # Errors
    /// As for [`global`](Self::global), or the context is dead.
    pub fn read_global(&self, name: &str) -> Result<Vec<u8>, CudaError> {
        let (from, len) = self.global(name)?;
        let mut out = vec![0; len];
        let api = self.context().enter()?;
        let stream = self.context().copies();
        // SAFETY: both ends hold `len` bytes; `out` is borrowed until the copy has been waited for.
        let code = unsafe { (api.cuMemcpyDtoHAsync_v2)(out.as_mut_ptr().cast(), from.0, len, stream.raw()) };
        api.check(code, format_args!("reading global variable `{name}`"))?;
        stream.synchronize(api)?;
        Ok(out)
    }
}

impl Module {
    /// Writes the global or constant variable `name`, whole, and waits until that is done. Before kernels that read it
    /// are launched.
    ///
    /// # Errors
    /// As for [`global`](Self::global), other data than the variable has room for, or the context is dead.
    pub fn write_global(&self, name: &str, data: &[u8]) -> Result<(), CudaError> {
        let (to, len) = self.global(name)?;
        if data.len() != len {
            return Err(CudaError::OutOfBounds {
                what: "a global variable",
                offset: 0,
                len: data.len(),
                size: len,
            });
        }
        let api = self.context().enter()?;
        let stream = self.context().copies();
        // SAFETY: both ends hold `len` bytes; `data` is borrowed until the copy has been waited for.
        let code = unsafe { (api.cuMemcpyHtoDAsync_v2)(to.0, data.as_ptr().cast(), len, stream.raw()) };
        api.check(code, format_args!("writing global variable `{name}`"))?;
        stream.synchronize(api)
    }
}

/// Loads every function of a module; their names.
fn load_all(api: &Api, module: *mut CUmod_st) -> Result<Vec<String>, CudaError> {
    let mut count = 0;
    // SAFETY: the driver writes one number; the module is loaded.
    let code = unsafe { (api.cuModuleGetFunctionCount)(&raw mut count, module) };
    api.check(code, "counting kernels")?;
    let mut functions: Vec<*mut CUfunc_st> = vec![core::ptr::null_mut(); count as usize];
    // SAFETY: the driver writes at most `count` handles into an array of that length.
    let code = unsafe { (api.cuModuleEnumerateFunctions)(functions.as_mut_ptr(), count, module) };
    api.check(code, "listing kernels")?;
    functions.retain(|function| !function.is_null());
    functions.into_iter().map(|function| load_one(api, function)).collect()
}

fn load_one(api: &Api, function: *mut CUfunc_st) -> Result<String, CudaError> {
    // SAFETY: a function of a loaded module.
    let code = unsafe { (api.cuFuncLoad)(function) };
    api.check(code, "loading a kernel")?;
    let mut name = core::ptr::null();
    // SAFETY: the driver writes one pointer; the function is of a loaded module.
    let code = unsafe { (api.cuFuncGetName)(&raw mut name, function) };
    api.check(code, "asking for a kernel's name")?;
    if name.is_null() {
        return Ok(String::new());
    }
    // SAFETY: on success a terminated string of the module's, which is loaded.
    let name = unsafe { CStr::from_ptr(name) };
    Ok(name.to_string_lossy().into_owned())
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.raw.0.is_null() {
            self.context.discard(DeferredFree::Module(self.raw));
        }
    }
}
