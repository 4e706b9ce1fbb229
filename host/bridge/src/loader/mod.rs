//! Loader of provider libraries.

mod calls;
mod library;
mod maps;
mod plane;
pub(crate) mod ring;

pub use calls::Provider;
pub use library::ProviderLibrary;
pub use plane::{Plane, PlanePoll};

/// The library that [`PROVIDER_GPU_ROCE`](crate::layout::PROVIDER_GPU_ROCE) stands for.
pub const GPU_ROCE_LIBRARY: &str = "libcudaq-realtime-bridge-gpu-roce.so";

/// The environment variable that names the library of [`PROVIDER_EXTERNAL`](crate::layout::PROVIDER_EXTERNAL).
pub const LIBRARY_VARIABLE: &str = "CUDAQ_REALTIME_BRIDGE_LIB";
