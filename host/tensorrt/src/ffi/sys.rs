//! The shim's interface, as bindgen reads it out of `shim/shim.h`.

#![allow(
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)] // written by a tool: `cargo xtask tensorrt --bindings`

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/tensorrt_shim.rs"));
