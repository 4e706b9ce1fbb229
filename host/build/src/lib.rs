//! Builds device code written in Rust: PTX for NVIDIA GPUs, from a build script.
//!
//! Handlers stand in a crate of their own, which the program uses as an ordinary dependency (the same handlers run on the
//! CPU) and which its build script compiles once more, for the device:
//!
//! ```no_run
//! // build.rs, all of its `main`
//! ringcall_build::handlers("../handlers").build();
//! ```
//!
//! The program includes the result, a table of compute capabilities and texts. It is called after the crate:
//!
//! ```ignore
//! // src/main.rs
//! include!(concat!(env!("OUT_DIR"), "/handlers_ptx.rs"));
//!
//! for (capability, text) in PTX { /* … */ }
//! ```
//!
//! The crate is `no_std`, and so is everything that it depends on for the device. The compiler is an upstream rustc with
//! the sources of its `core`: [`Toolchain::find`] says which. On a machine without one the table is empty, with a
//! warning, unless the build script says [`HandlerCrate::required`].
//!
//! | variable | what |
//! |---|---|
//! | `RINGCALL_DEVICE_RUSTC` | the compiler to take |
//! | `RINGCALL_DEVICE_ARCHS` | architectures instead of those of the build script: `sm_90,sm_100` |
//! | `RINGCALL_DEVICE_TARGET_DIR` | where to build; programs of one workspace that share it build `core` once |
//!
//! Outside of build scripts, [`compile`] does one crate for one architecture; [`for_sm_80`] makes the older text of the newer
//! one.

#![forbid(unsafe_code)]

mod arch;
mod compile;
mod error;
mod package;
mod ptx;
mod script;
mod toolchain;

pub use arch::{Arch, UnknownArch};
pub use compile::{Compiled, DeviceCrate, compile, compiler_of};
pub use error::DeviceBuildError;
pub use ptx::for_sm_80;
pub use script::HandlerCrate;
pub use toolchain::{RUSTC_VARIABLE, Toolchain};

use std::path::Path;

/// The crate of handlers in a folder, relative to the package of the build script. Built by [`HandlerCrate::build`].
///
/// ```no_run
/// ringcall_build::handlers("../handlers").arch("sm_90").feature("wide").required().build();
/// ```
pub fn handlers(path: impl AsRef<Path>) -> HandlerCrate {
    HandlerCrate::at(path.as_ref())
}

/// The library of the build script's own package, for programs whose handlers stand in the same package. Built by
/// [`HandlerCrate::build`].
///
/// The device build then compiles the whole library, so what needs `std` must be kept from it: dependencies under
/// `[target.'cfg(not(target_arch = "nvptx64"))'.dependencies]`, modules under the same condition.
pub fn this_crate() -> HandlerCrate {
    HandlerCrate::at(Path::new("."))
}
