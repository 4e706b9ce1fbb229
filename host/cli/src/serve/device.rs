//! `--dispatcher device`: the ring in mapped memory, served by a persistent kernel.

use anyhow::{Context, Result, bail};
use ringcall::RingConfig;
use ringcall_cuda::driver::Driver;
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running,
};
use ringcall_wire::function::names;

/// A ring that a device maps.
///
/// # Errors
/// No driver, no device, or one that cannot map host memory.
pub(super) fn ring(config: RingConfig) -> Result<MappedRing> {
    let context = Driver::load()
        .and_then(|driver| driver.device(0)?.context())
        .context("--dispatcher device needs a GPU (`ringcall doctor` says what is missing)")?;
    MappedRing::allocate(&context, config).context("a ring that the GPU maps")
}

/// The kernel, with `rpc_increment` from the committed PTX. Decoders run on the host.
pub(super) fn start(ring: &MappedRing) -> Result<DeviceDispatcher<Running>> {
    let handlers: Vec<_> = ringcall_kernels::samples::handlers::all()
        .into_iter()
        .filter(|handler| handler.name == names::RPC_INCREMENT)
        .collect();
    if handlers.is_empty() {
        bail!("the device handlers have no {}", names::RPC_INCREMENT);
    }
    let functions = Functions::new().handlers(&handlers);
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, ring.context())?;
    let options = DispatcherOptions::new(KernelKind::regular());
    Ok(DeviceDispatcher::wire(ring, functions, modules, options)?.start()?)
}
