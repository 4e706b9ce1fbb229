//! CUDA for persistent kernels, over the driver API: contexts, memory, streams, linking at load time, graphs.
//!
//! The crate builds and starts on any machine. The driver is looked for when [`Driver::load`](driver::Driver::load) is
//! called; without a driver, a device, `libcudadevrt.a`, or with too old a device, the answer is one [`CudaError`]
//! that says what to do.
//!
//! ```no_run
//! use ringcall_cuda::driver::{Driver, KernelArgs, Launch, Linker, Module, Stream};
//!
//! let driver = Driver::load()?;
//! let context = driver.device(0)?.context()?;
//! let image = Linker::new(context.device().capability()).ptx("dispatcher", "...")?.link(&context)?;
//! let kernel = Module::load(&context, &image)?.kernel("dispatch")?;
//! let stream = Stream::new(&context)?;
//! # Ok::<(), ringcall_cuda::CudaError>(())
//! ```

#![deny(unsafe_code)]

#[allow(unsafe_code)] // named for it: every call of the driver's C interface is one
pub mod driver;
mod error;
#[allow(unsafe_code)] // named for it: calls of NVIDIA's library of ranges
pub mod nvtx;

pub use error::{CudaError, DriverCode};
