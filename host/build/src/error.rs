//! Errors of compiling device code.

use std::path::PathBuf;

/// Why device code was not built. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceBuildError {
    /// Nothing on this machine compiles for NVIDIA GPUs.
    #[error(
        "no toolchain that compiles for NVIDIA GPUs. Install Debian's pair (`apt-get install rustc-web rust-web-src`) \
         or a nightly with sources (`rustup toolchain install nightly --component rust-src`), or name a rustc that \
         has its sources in RINGCALL_DEVICE_RUSTC. Tried: {tried}"
    )]
    NoToolchain {
        /// The compilers that were found, and why each is unsuitable.
        tried: String,
    },
    /// `RINGCALL_DEVICE_RUSTC` names something that will not do.
    #[error("RINGCALL_DEVICE_RUSTC={}: {why}", rustc.display())]
    Unusable {
        /// As the variable has it.
        rustc: PathBuf,
        /// The fault that was found.
        why: String,
    },
    /// An architecture that is not in the table.
    #[error(transparent)]
    UnknownArch(#[from] crate::arch::UnknownArch),
    /// The folder holds no package with a library.
    #[error("{}: {why}", manifest_dir.display())]
    Package {
        /// Where a package was expected.
        manifest_dir: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// The compiler refused the crate.
    #[error("`{package}` does not compile for {arch}:\n{output}{hint}")]
    Compile {
        /// The package.
        package: String,
        /// For which architecture.
        arch: crate::Arch,
        /// As cargo printed it.
        output: String,
        /// What a message of the code generator means, if it is one that does not say so itself; else empty.
        hint: &'static str,
    },
    /// The code calls functions that a GPU does not have.
    #[error(
        "`{package}` for {arch} calls {symbols}, which nothing defines: on a GPU no C library provides \
         comparisons and copies of slices. Compare and copy element by element, or define the function as a weak symbol"
    )]
    Undefined {
        /// The package.
        package: String,
        /// For which architecture.
        arch: crate::Arch,
        /// The functions, separated by commas.
        symbols: String,
    },
    /// A program that should be there did not start.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Called outside of a build script.
    #[error("{0} is not set: this is for build scripts, which cargo runs with it")]
    NotABuildScript(&'static str),
}
