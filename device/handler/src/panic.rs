//! Panics on a device.

/// There is no frame to unwind to and nowhere to print: the kernel ends, and its host sees a failed launch.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
