//! libibverbs' interface, as bindgen reads it out of `infiniband/verbs.h`.

#![allow(
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    unreachable_pub,
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)] // written by a tool: `RINGCALL_BLESS=1 cargo test -p ringcall-rdma --features bindings --test bindings`

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/bindings/ibverbs.rs"));
