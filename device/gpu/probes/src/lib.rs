//! One exported function for each device primitive of `ringcall_gpu`, so that what it becomes can be read.
//!
//! A probe calls one primitive and nothing else. The committed PTX (`ptx/`) has all of them, and `tests/ptx` compares
//! the body of each with the instructions that its name promises: a primitive that lost its order, its scope or its width
//! fails there, on a machine that has neither a GPU nor a compiler for one.
//!
//! | module | probes of |
//! |---|---|
//! | `access` | loads, stores and read-modify-writes, by order and scope |
//! | `window` | pairs, bursts and groups of words, bytes, stages, results |
//! | `machine` | barriers, collectives, identity, clocks, calls |
//! | `graph` (feature `graph`, instead of the others) | launches from the device |
//!
//! Nothing links this crate: it is compiled to be read. Built for a host it is empty.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![allow(unsafe_code)] // named for it: exported names; see ARCHITECTURE.md, "Where unsafe lives"

/// A function that is exported as `probe_`, with the words of its name joined by `_`.
#[cfg(target_arch = "nvptx64")]
macro_rules! probe {
    ([$($word:literal)*] ($($arg:ident: $type:ty),*) $(-> $out:ty)? $body:block) => {
        const _: () = {
            #[unsafe(export_name = concat!("probe" $(, "_", $word)*))]
            extern "C" fn probe($($arg: $type),*) $(-> $out)? $body
        };
    };
}

#[cfg(all(target_arch = "nvptx64", not(feature = "graph")))]
mod access;
#[cfg(all(target_arch = "nvptx64", feature = "graph"))]
mod graph;
#[cfg(all(target_arch = "nvptx64", not(feature = "graph")))]
mod machine;
#[cfg(all(target_arch = "nvptx64", not(feature = "graph")))]
mod window;

/// Nothing can unwind here.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ringcall_gpu::ptx::trap()
}
