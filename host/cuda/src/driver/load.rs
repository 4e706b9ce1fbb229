//! The driver, loaded once a process.

use super::api::{Api, NO_DEVICE, SUCCESS};
use crate::CudaError;
use core::ffi::c_int;
use std::fmt;
use std::sync::OnceLock;

/// The CUDA driver, loaded and initialised. A cheap handle.
#[derive(Clone, Copy)]
pub struct Driver {
    api: &'static Api,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}

impl Driver {
    /// Loads and initialises the driver; later calls return the first one's answer.
    ///
    /// ```
    /// match ringcall_cuda::driver::Driver::load() {
    ///     Ok(driver) => println!("driver for CUDA {:?}", driver.version()),
    ///     Err(why) => println!("no GPU work here: {why}"),
    /// }
    /// ```
    ///
    /// # Errors
    /// No driver on this machine, one that is too old, one that does not start, or no device. Never a panic.
    pub fn load() -> Result<Self, CudaError> {
        static API: OnceLock<Result<Api, CudaError>> = OnceLock::new();
        match API.get_or_init(initialised) {
            Ok(api) => Ok(Self { api }),
            Err(error) => Err(error.clone()),
        }
    }

    /// The newest CUDA version the driver supports, as (major, minor).
    ///
    /// # Errors
    /// The driver does not say.
    pub fn version(self) -> Result<(u32, u32), CudaError> {
        let mut version = 0;
        // SAFETY: the driver writes one int.
        let code = unsafe { (self.api.cuDriverGetVersion)(&raw mut version) };
        self.api.check(code, "asking for the driver's version")?;
        let version = version.unsigned_abs();
        Ok((version / 1000, version % 1000 / 10))
    }

    /// Number of the calling thread's current device, as CUDA's runtime has it: the device of the thread's
    /// current context, 0 where it has none. Waits for nothing that runs on a device.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn current_device(self) -> Result<u32, CudaError> {
        let mut context = core::ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let code = unsafe { (self.api.cuCtxGetCurrent)(&raw mut context) };
        self.api.check(code, "asking for the current context")?;
        if context.is_null() {
            return Ok(0);
        }
        let mut current = 0;
        // SAFETY: the driver writes one device number.
        let code = unsafe { (self.api.cuCtxGetDevice)(&raw mut current) };
        self.api.check(code, "asking for the current context's device")?;
        let count = self.device_count()?;
        for ordinal in 0..count {
            let mut device = 0;
            // SAFETY: the driver writes one device number.
            let code = unsafe { (self.api.cuDeviceGet)(&raw mut device, ordinal as c_int) };
            self.api.check(code, format_args!("opening device {ordinal}"))?;
            if device == current {
                return Ok(ordinal);
            }
        }
        Err(CudaError::NoSuchDevice { ordinal: count, count })
    }

    pub(super) fn device_count(self) -> Result<u32, CudaError> {
        let mut count = 0;
        // SAFETY: the driver writes one int.
        let code = unsafe { (self.api.cuDeviceGetCount)(&raw mut count) };
        self.api.check(code, "counting devices")?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    pub(super) fn api(self) -> &'static Api {
        self.api
    }
}

fn initialised() -> Result<Api, CudaError> {
    let api = Api::load()?;
    // SAFETY: 0 is the only flag there is.
    match unsafe { (api.cuInit)(0) } {
        SUCCESS => Ok(api),
        NO_DEVICE => Err(CudaError::NoDevice),
        code => Err(CudaError::DriverUnusable(api.describe(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_gets_one_line_that_says_so_every_time() {
        let first = Driver::load().err();
        assert_eq!(first, Driver::load().err(), "the answer does not change");
        let Some(error) = first else {
            eprintln!("skipped: this machine has a CUDA driver");
            return;
        };
        let text = error.to_string();
        assert!(!text.contains('\n'), "{text}");
        let expected = ["no CUDA driver: libcuda", "the CUDA driver "];
        assert!(expected.iter().any(|begin| text.starts_with(begin)), "{text}");
    }
}
