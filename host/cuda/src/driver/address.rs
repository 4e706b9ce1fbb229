//! Addresses as the device sees them.

use std::fmt;

/// An address in the device's address space. The host never follows it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceAddress(pub u64);

impl DeviceAddress {
    /// The address `bytes` further on, wrapping at the end of the address space.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Debug for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAddress({:#x})", self.0)
    }
}

impl From<DeviceAddress> for u64 {
    fn from(address: DeviceAddress) -> Self {
        address.0
    }
}
