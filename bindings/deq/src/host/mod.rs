//! Decoders out of shared libraries with deq's interface: any plug-in for deq decodes a detector error model here.
//!
//! ```no_run
//! use ringcall_deq::host::{Library, PluginFactory};
//! use ringcall_qec::decode::{Decoder, DecoderFactory};
//!
//! let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0")?;
//! let library = Library::open("./libringcall_deq.so")?;
//! let factory = PluginFactory::new(library, &model, "{}")?;
//! let mut decoder = factory.build()?;
//! let mut observables = [0u8];
//! decoder.decode(&[1], &mut observables)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decoder;
mod library;

pub use decoder::PluginFactory;
pub use library::Library;

/// Why a library or its decoder cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The library cannot be loaded.
    #[error("decoder plug-in {library}: {reason}")]
    Load {
        /// What it was called.
        library: String,
        /// What the dynamic linker says.
        reason: String,
    },
    /// The library lacks a function that every plug-in has, or has one of two that go together.
    #[error("decoder plug-in {library} has no function {symbol}: it is no plug-in for deq")]
    Symbol {
        /// What it was called.
        library: String,
        /// The function.
        symbol: &'static str,
    },
    /// The library is for another version of the interface.
    #[error(
        "decoder plug-in {library} has version {found} of deq's interface, and version {expected} is known"
    )]
    Version {
        /// What it was called.
        library: String,
        /// Its version.
        found: u32,
        /// The version that is known here.
        expected: u32,
    },
    /// The library says that it can do what this version of the interface does not know.
    #[error(
        "decoder plug-in {library} has capabilities {unknown:#x}, which version {version} of deq's interface does not know"
    )]
    Capabilities {
        /// What it was called.
        library: String,
        /// The bits that mean nothing.
        unknown: u64,
        /// The version that is known here.
        version: u32,
    },
    /// The model cannot be handed over.
    #[error("the model does not fit deq's interface: {reason}")]
    Model {
        /// What is wrong with it.
        reason: String,
    },
    /// The library refuses the model or the options, or answers nonsense.
    #[error("decoder plug-in {library}: {reason}")]
    Refused {
        /// What it was called.
        library: String,
        /// What it says.
        reason: String,
    },
}
