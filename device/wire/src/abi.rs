//! Enumerations of the C ABI: 4-byte integers, checked when they come in.

use crate::error::WireError;

macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $value,)*
        }

        impl $name {
            /// Every member, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// From the C number.
            ///
            /// # Errors
            /// [`WireError::UnknownValue`] for any number without a member.
            pub const fn from_raw(raw: u32) -> Result<Self, WireError> {
                match raw {
                    $($value => Ok(Self::$variant),)*
                    value => Err(WireError::UnknownValue { of: $what, value }),
                }
            }

            /// The C number.
            #[must_use]
            pub const fn raw(self) -> u32 {
                self as u32
            }
        }
    };
}

c_enum! {
    /// What the C functions return (`cudaq_status_t`). Not the status of a response.
    CudaqStatus, "C status" {
        /// Success.
        Ok = 0,
        /// An argument is null, out of range or inconsistent.
        InvalidArg = 1,
        /// A fault of the library itself.
        Internal = 2,
        /// A CUDA call failed.
        Cuda = 3,
        /// Not available in this build or on this machine.
        Unsupported = 4,
    }
}

c_enum! {
    /// Where requests are dispatched (`cudaq_dispatch_path_t`).
    DispatchPath, "dispatch path" {
        /// By a kernel on the device.
        Device = 0,
        /// By a thread on the host.
        Host = 1,
    }
}

c_enum! {
    /// Which dispatch kernel runs (`cudaq_kernel_type_t`).
    KernelType, "kernel type" {
        /// Ordinary launch.
        Regular = 0,
        /// Cooperative launch: handlers may synchronise the grid.
        Cooperative = 1,
        /// Receive, dispatch and send in one kernel.
        Unified = 2,
    }
}

c_enum! {
    /// How one function is called (`cudaq_dispatch_mode_t`).
    DispatchMode, "dispatch mode" {
        /// A function on the device, called by the dispatch kernel.
        DeviceCall = 0,
        /// A graph, launched from the device or by the host dispatcher.
        GraphLaunch = 1,
        /// A function on the host, called by the host dispatcher.
        HostCall = 2,
    }
}
