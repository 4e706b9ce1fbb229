//! One exported function for each device primitive of `ringcall_gpu`, so that what it becomes can be read.
//!
//! A probe calls one primitive and nothing else. The committed PTX has all of them, and `tests/ptx` compares
//! the body of each with the instructions that its name promises: a primitive that lost its order, its scope or its width
//! fails there, on a machine that has neither a GPU nor a compiler for one. Nothing links them.
//!
//! | module | probes of |
//! |---|---|
//! | `access` | loads, stores and read-modify-writes, by order and scope |
//! | `window` | pairs, bursts and groups of words, bytes, staging buffers, results |
//! | `machine` | barriers, collectives, identity, clocks, calls |
//! | `graph` (feature `graph-probes`, instead of the others) | launches from the device |

/// A function that is exported as `probe_`, with the words of its name joined by `_`.
macro_rules! probe {
    ([$($word:literal)*] ($($arg:ident: $type:ty),*) $(-> $out:ty)? $body:block) => {
        const _: () = {
            #[unsafe(export_name = concat!("probe" $(, "_", $word)*))]
            extern "C" fn probe($($arg: $type),*) $(-> $out)? $body
        };
    };
}

#[cfg(feature = "probes")]
mod access;
#[cfg(feature = "graph-probes")]
mod graph;
#[cfg(feature = "probes")]
mod machine;
#[cfg(feature = "probes")]
mod window;
