//! A GPU and its capabilities.

use super::Driver;
use super::api::Api;
use crate::CudaError;
use core::ffi::{c_char, c_int};
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

/// A GPU. A cheap handle; nothing is allocated on it before [`context`](Self::context).
#[derive(Debug, Clone, Copy)]
pub struct Device {
    driver: Driver,
    raw: CUdevice,
    ordinal: u32,
    capability: (u32, u32),
}

impl Device {
    pub(super) fn open(driver: Driver, ordinal: u32) -> Result<Self, CudaError> {
        let api = driver.api();
        let number = c_int::try_from(ordinal).map_err(|_| CudaError::NoSuchDevice { ordinal, count: 0 })?;
        let mut raw = 0;
        // SAFETY: the driver writes one device number.
        let code = unsafe { (api.cuDeviceGet)(&raw mut raw, number) };
        api.check(code, format_args!("opening device {ordinal}"))?;
        let mut device = Self { driver, raw, ordinal, capability: (0, 0) };
        device.capability = (
            device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        Ok(device)
    }

    /// Its number, counted from 0.
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Its compute capability, as (major, minor).
    #[must_use]
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// Refuses a device below `needs`, for the sake of `what`.
    ///
    /// # Errors
    /// [`CudaError::TooOld`].
    pub fn require(&self, needs: (u32, u32), what: &str) -> Result<(), CudaError> {
        if self.capability < needs {
            return Err(CudaError::TooOld { what: what.to_owned(), needs, found: self.capability });
        }
        Ok(())
    }

    /// Its name, such as `NVIDIA H200`.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn name(&self) -> Result<String, CudaError> {
        self.text("name", |api, out, len, raw| {
            // SAFETY: the driver writes at most `len` bytes, terminated.
            unsafe { (api.cuDeviceGetName)(out, len, raw) }
        })
    }

    /// Its PCI address, such as `0000:41:00.0`, as `lspci` and the NIC's topology print it.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn pci_bus_id(&self) -> Result<String, CudaError> {
        self.text("PCI address", |api, out, len, raw| {
            // SAFETY: the driver writes at most `len` bytes, terminated.
            unsafe { (api.cuDeviceGetPCIBusId)(out, len, raw) }
        })
    }

    /// How many multiprocessors it has.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn multiprocessors(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    /// Bytes of shared memory a block can have at most, after
    /// [`Kernel::set_dynamic_shared`](super::Kernel::set_dynamic_shared).
    ///
    /// # Errors
    /// The driver does not say.
    pub fn max_shared_per_block(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    }

    /// Threads a block can have at most.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn max_threads_per_block(&self) -> Result<u32, CudaError> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
    }

    /// Whether a whole grid can be resident at once, with barriers across it.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn cooperative_launch(&self) -> Result<bool, CudaError> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH).map(|value| value != 0)
    }

    /// Whether host memory can be mapped into it.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn maps_host_memory(&self) -> Result<bool, CudaError> {
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY).map(|value| value != 0)
    }

    /// Its peak clock, in kHz.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn clock_khz(&self) -> Result<u32, CudaError> {
        // The driver takes half a millisecond to answer, and the peak does not change.
        static KNOWN: Mutex<BTreeMap<u32, u32>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&khz) = known.get(&self.ordinal) {
            return Ok(khz);
        }
        let khz = self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?;
        known.insert(self.ordinal, khz);
        Ok(khz)
    }

    pub(super) fn driver(&self) -> Driver {
        self.driver
    }

    pub(super) fn raw(&self) -> CUdevice {
        self.raw
    }

    fn attribute(&self, which: Attribute) -> Result<u32, CudaError> {
        let api = self.driver.api();
        let mut value = 0;
        // SAFETY: the driver writes one int.
        let code = unsafe { (api.cuDeviceGetAttribute)(&raw mut value, which, self.raw) };
        api.check(code, format_args!("asking device {} for {which:?}", self.ordinal))?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn text(
        &self,
        what: &str,
        ask: impl FnOnce(&Api, *mut c_char, c_int, CUdevice) -> u32,
    ) -> Result<String, CudaError> {
        const LEN: usize = 256;
        let api = self.driver.api();
        let mut bytes = [0_u8; LEN];
        let code = ask(api, bytes.as_mut_ptr().cast(), LEN as c_int, self.raw);
        api.check(code, format_args!("asking device {} for its {what}", self.ordinal))?;
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

impl Driver {
    /// Every device, in the driver's order (which `CUDA_VISIBLE_DEVICES` changes).
    ///
    /// # Errors
    /// The driver cannot list them.
    pub fn devices(self) -> Result<Vec<Device>, CudaError> {
        (0..self.device_count()?).map(|ordinal| Device::open(self, ordinal)).collect()
    }

    /// The device number `ordinal`, counted from 0.
    ///
    /// # Errors
    /// There is none of that number.
    pub fn device(self, ordinal: u32) -> Result<Device, CudaError> {
        let count = self.device_count()?;
        if ordinal >= count {
            return Err(CudaError::NoSuchDevice { ordinal, count });
        }
        Device::open(self, ordinal)
    }
}
