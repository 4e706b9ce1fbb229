//! A kernel of a module: its resources and its launch.

use super::api::{Api, INVALID_VALUE, NOT_FOUND};
use super::handle::Handle;
use super::{Context, KernelArgs, Launch, Module, Stream};
use crate::CudaError;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use cudarc::driver::sys::{
    CUfunc_st, CUfunction, CUfunction_attribute as Attribute, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue, CUlaunchConfig,
};
use std::ffi::CString;
use std::sync::Arc;

/// Resources of one thread or block of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers a thread.
    pub registers: u32,
    /// Threads a block can have at most, given the registers.
    pub max_threads_per_block: u32,
    /// Bytes of static shared memory a block.
    pub static_shared: u32,
    /// Bytes of local memory a thread: spilled registers and arrays, in slow memory.
    pub local_bytes: u32,
}

/// A kernel. Cheap to clone; keeps its module loaded.
#[derive(Debug, Clone)]
pub struct Kernel {
    module: Module,
    raw: Handle<CUfunc_st>,
    name: Arc<str>,
    attributes: KernelAttributes,
    /// The size of each parameter, in bytes.
    parameters: Arc<[usize]>,
}

impl Kernel {
    pub(super) fn new(module: Module, raw: Handle<CUfunc_st>, name: &str) -> Result<Self, CudaError> {
        let api = module.context().enter()?;
        let ask = |which| attribute(api, raw.0, which, name);
        let attributes = KernelAttributes {
            registers: ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            max_threads_per_block: ask(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared: ask(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local_bytes: ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
        };
        let parameters = parameters(api, raw.0, name)?.into();
        Ok(Self { module, raw, name: name.into(), attributes, parameters })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module it is in.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Its resources.
    #[must_use]
    pub fn attributes(&self) -> KernelAttributes {
        self.attributes
    }

    /// The size of each parameter, in bytes.
    #[must_use]
    pub fn parameter_sizes(&self) -> &[usize] {
        &self.parameters
    }

    /// Allows launches with up to `bytes` of dynamic shared memory: needed above 48 KiB.
    ///
    /// # Errors
    /// More than the device has for a block, static shared memory included.
    pub fn set_dynamic_shared(&self, bytes: u32) -> Result<(), CudaError> {
        let api = self.context().enter()?;
        let most = self.context().device().max_shared_per_block()?;
        let fixed = self.attributes.static_shared;
        let value = c_int::try_from(bytes).ok().filter(|_| bytes.saturating_add(fixed) <= most);
        let Some(value) = value else {
            return Err(self.bad(format!(
                "{bytes} bytes of dynamic and {fixed} of static shared memory, a block has {most} at most"
            )));
        };
        let which = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of a loaded module.
        let code = unsafe { (api.cuFuncSetAttribute)(self.raw.0, which, value) };
        api.check(
            code,
            format_args!("allowing kernel `{}` {bytes} bytes of dynamic shared memory", self.name),
        )
    }

    /// How many of its blocks, of `threads` threads with `dynamic_shared` bytes each, fit one multiprocessor at once.
    ///
    /// # Errors
    /// The driver refuses the numbers.
    pub fn occupancy(&self, threads: u32, dynamic_shared: u32) -> Result<u32, CudaError> {
        let api = self.context().enter()?;
        let threads = c_int::try_from(threads).map_err(|_| self.bad(format!("{threads} threads a block")))?;
        let mut blocks = 0;
        // SAFETY: the driver writes one int; a function of a loaded module.
        let code = unsafe {
            (api.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &raw mut blocks,
                self.raw.0,
                threads,
                dynamic_shared as usize,
            )
        };
        api.check(code, format_args!("asking for the occupancy of kernel `{}`", self.name))?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// How many clusters of a launch the device runs at once, if nothing else runs.
    ///
    /// # Errors
    /// The driver refuses the shape.
    pub fn max_clusters(&self, launch: &Launch) -> Result<u32, CudaError> {
        self.allow_clusters(launch)?;
        let api = self.context().enter()?;
        let mut attributes = attributes(&Launch { cooperative: false, ..*launch });
        let config = config(launch, &mut attributes);
        let mut clusters = 0;
        // SAFETY: the driver writes one int, and reads the configuration during the call; a function of a loaded module.
        let code =
            unsafe { (api.cuOccupancyMaxActiveClusters)(&raw mut clusters, self.raw.0, &raw const config) };
        api.check(code, format_args!("asking for the clusters of kernel `{}`", self.name))?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    /// Allows launches in clusters of more blocks than every device with clusters has room for.
    fn allow_clusters(&self, launch: &Launch) -> Result<(), CudaError> {
        if launch.cluster <= PORTABLE_CLUSTER {
            return Ok(());
        }
        let api = self.context().enter()?;
        let which = Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: a function of a loaded module.
        let code = unsafe { (api.cuFuncSetAttribute)(self.raw.0, which, 1) };
        api.check(code, format_args!("allowing kernel `{}` clusters of {} blocks", self.name, launch.cluster))
    }

    /// Starts it on `stream`, and returns without waiting for it.
    ///
    /// # Safety
    /// The kernel's own contract: the arguments have the meaning that the kernel expects, and the memory that it
    /// reaches through them is mapped until the kernel has ended. Rust code accesses that memory only through atomics
    /// or the driver's copies.
    ///
    /// # Errors
    /// Arguments of other sizes than the kernel's parameters, a stream of another context, a shape the device cannot
    /// run ([`CudaError::BadLaunch`]), or the driver refuses. Failures of the running kernel come later, through the
    /// stream.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        launch: &Launch,
        args: &KernelArgs,
    ) -> Result<(), CudaError> {
        self.fits(launch, args)?;
        if stream.context().device().ordinal() != self.context().device().ordinal() {
            return Err(self.bad("the stream is of another device".to_owned()));
        }
        let api = self.context().enter()?;
        let mut pointers = args.pointers();
        let (grid, block) = (launch.grid, launch.block);
        let code = if launch.cluster > 1 {
            let mut attributes = attributes(launch);
            let config = CUlaunchConfig { hStream: stream.raw(), ..config(launch, &mut attributes) };
            // SAFETY: as below; the driver reads the configuration and its attributes during the call.
            unsafe {
                (api.cuLaunchKernelEx)(
                    &raw const config,
                    self.raw.0,
                    pointers.as_mut_ptr(),
                    core::ptr::null_mut(),
                )
            }
        } else if launch.cooperative {
            // SAFETY: one pointer for each parameter, to as many bytes as it has; the rest is the caller's promise.
            unsafe {
                (api.cuLaunchCooperativeKernel)(
                    self.raw.0,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    launch.dynamic_shared,
                    stream.raw(),
                    pointers.as_mut_ptr(),
                )
            }
        } else {
            // SAFETY: as above.
            unsafe {
                (api.cuLaunchKernel)(
                    self.raw.0,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    launch.dynamic_shared,
                    stream.raw(),
                    pointers.as_mut_ptr(),
                    core::ptr::null_mut(),
                )
            }
        };
        api.check(code, format_args!("launching kernel `{}` as {launch:?}", self.name))
    }

    /// Whether shape and arguments fit it; allows its clusters.
    pub(super) fn fits(&self, launch: &Launch, args: &KernelArgs) -> Result<(), CudaError> {
        let most = self.attributes.max_threads_per_block;
        if let Some(fault) = launch.fault() {
            return Err(self.bad(fault));
        }
        if launch.threads_per_block() > u64::from(most) {
            let threads = launch.threads_per_block();
            return Err(self.bad(format!("{threads} threads a block, it can have {most} with its registers")));
        }
        if args.sizes() != &*self.parameters {
            let (given, takes) = (args.sizes(), &self.parameters);
            return Err(self.bad(format!("arguments of {given:?} bytes were given, it takes {takes:?}")));
        }
        self.allow_clusters(launch)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.module.context()
    }

    pub(super) fn raw(&self) -> CUfunction {
        self.raw.0
    }

    fn bad(&self, why: String) -> CudaError {
        CudaError::BadLaunch { kernel: self.name.to_string(), why }
    }
}

/// The most blocks of a cluster that need no permission.
const PORTABLE_CLUSTER: u32 = 8;

/// A launch as the driver takes it, on its default stream.
fn config(launch: &Launch, attributes: &mut [CUlaunchAttribute]) -> CUlaunchConfig {
    let (grid, block) = (launch.grid, launch.block);
    CUlaunchConfig {
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: launch.dynamic_shared,
        hStream: core::ptr::null_mut(),
        attrs: attributes.as_mut_ptr(),
        numAttrs: attributes.len() as u32,
    }
}

/// Attributes of a launch beyond its shape.
fn attributes(launch: &Launch) -> Vec<CUlaunchAttribute> {
    let mut all =
        vec![attribute_of(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, cluster_value(launch))];
    if launch.cooperative {
        let value = CUlaunchAttributeValue { cooperative: 1 };
        all.push(attribute_of(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value));
    }
    all
}

fn attribute_of(id: CUlaunchAttributeID, value: CUlaunchAttributeValue) -> CUlaunchAttribute {
    CUlaunchAttribute { id, pad: [0; 4], value }
}

/// The value of the attribute for the size of clusters.
pub(super) fn cluster_value(launch: &Launch) -> CUlaunchAttributeValue {
    let mut value = MaybeUninit::<CUlaunchAttributeValue>::zeroed();
    let sides = value.as_mut_ptr().cast::<[u32; 3]>();
    // SAFETY: inside the union, whose member for this attribute is three numbers.
    unsafe { sides.write([launch.cluster, 1, 1]) };
    // SAFETY: a union of plain numbers, zeroed or written.
    unsafe { value.assume_init() }
}

fn attribute(api: &Api, function: CUfunction, which: Attribute, name: &str) -> Result<u32, CudaError> {
    let mut value = 0;
    // SAFETY: the driver writes one int; a function of a loaded module.
    let code = unsafe { (api.cuFuncGetAttribute)(&raw mut value, which, function) };
    api.check(code, format_args!("asking kernel `{name}` for {which:?}"))?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// The size of each parameter.
fn parameters(api: &Api, function: CUfunction, name: &str) -> Result<Vec<usize>, CudaError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the driver writes two numbers; past the last parameter it says so.
        let code = unsafe { (api.cuFuncGetParamInfo)(function, sizes.len(), &raw mut offset, &raw mut size) };
        if code == INVALID_VALUE {
            return Ok(sizes);
        }
        api.check(code, format_args!("asking for the parameters of kernel `{name}`"))?;
        sizes.push(size);
    }
}

impl Module {
    /// The kernel called `name`.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn kernel(&self, name: &str) -> Result<Kernel, CudaError> {
        let missing =
            || CudaError::NoSymbol { kind: "kernel", name: name.to_owned(), has: self.kernels().to_vec() };
        let c_name = CString::new(name).map_err(|_| missing())?;
        let api = self.context().enter()?;
        let mut raw = core::ptr::null_mut();
        // SAFETY: the driver writes one handle; the module is loaded, the name terminated.
        let code = unsafe { (api.cuModuleGetFunction)(&raw mut raw, self.raw(), c_name.as_ptr()) };
        if code == NOT_FOUND {
            return Err(missing());
        }
        api.check(code, format_args!("looking for kernel `{name}`"))?;
        Kernel::new(self.clone(), Handle(raw), name)
    }

    /// A kernel that the caller has loaded (`cudaFunction_t`, from `cudaGetFuncBySymbol`).
    ///
    /// # Safety
    /// `function` is a kernel of `context`'s device that stays loaded while the kernel or a clone of it lives.
    ///
    /// # Errors
    /// The driver does not know it, or the context is dead.
    pub unsafe fn foreign_kernel(
        context: &Arc<Context>,
        function: *mut c_void,
        name: &str,
    ) -> Result<Kernel, CudaError> {
        Kernel::new(Self::foreign(context, name), Handle(function.cast()), name)
    }
}
