//! Rule about unsafe code: it is confined to listed places.

use super::scan::Kind;
use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "unsafe-is-confined",
    says: "`unsafe` stands only in the places that xtask/src/rooms/unsafety.rs lists, each with its reason",
    check,
    planted: || planted("host/qec/src/lib.rs", "fn f(p: *const u8) -> u8 {\n unsafe { *p }\n}"),
};

/// Beginnings of paths where `unsafe` may stand, and what for.
const PLACES: &[(&str, &str)] = &[
    ("device/gpu/", "shared memory: atomics over raw words, so that nothing above needs unsafe"),
    ("device/kernels/", "entry points of kernels: addresses that the host hands over, exported names"),
    ("device/handler-macros/src/", "writes the exported entry of a handler, which reads words of a slot"),
    ("device/handler/tests/refused/", "programs that must not compile"),
    ("host/cuda/", "the CUDA driver's functions"),
    ("host/launch/src/ring/launch.rs", "launches: signs the contract of the dispatch kernels"),
    (
        "host/launch/src/ring/linked.rs",
        "launches of kernels that a program linked: the caller signs their contract",
    ),
    (
        "host/launch/src/relay/linked.rs",
        "the same of three kernels that a program linked: the caller signs their contract",
    ),
    (
        "host/launch/src/ring/graphs.rs",
        "credit words by address: the caller says that they outlive the graphs",
    ),
    (
        "host/launch/src/queue_pair/",
        "queue pairs and transport contexts by address: the caller says that they are live",
    ),
    ("host/launch/tests/", "calls of those functions"),
    ("host/rdma/src/verbs/", "libibverbs' functions, loaded at run time, and memory that an adapter writes"),
    ("bindings/ibverbs.rs", "libibverbs' interface as bindgen writes it"),
    ("host/rdma/src/devx/", "rdma-core's functions, from libraries that are loaded at run time"),
    (
        "host/bridge/src/",
        "the bridge interface: C functions, tables and memory of shared libraries, either way",
    ),
    ("host/bridge/tests/", "calls of its C functions, as C makes them"),
    ("fuzz/fuzz_targets/bridge_inputs.rs", "the same, with any input"),
    ("host/c/", "the C interface: pointers of the caller's, exported names"),
    ("fuzz/fuzz_targets/c_decoder_calls.rs", "calls of the C interface"),
    ("fuzz/fuzz_targets/c_ring_helpers.rs", "calls of the C interface"),
    ("bindings/deq/src/exports/", "deq's decoder interface: exported names, pointers of a host's"),
    ("bindings/deq/src/host/library.rs", "the same out of a library that is loaded: code of its"),
    ("bindings/deq/tests/library.rs", "calls of those functions, as a host makes them"),
    ("host/gpu-decoders/src/relay_bp/launch.rs", "launches: signs the contract of the Relay-BP kernel"),
    ("host/gpu-decoders/src/predecoder/launch.rs", "launches: signs the contract of the network's kernels"),
    ("host/tensorrt/src/ffi/", "TensorRT's libraries, and the shim over them"),
    ("host/tensorrt/src/replay.rs", "launches and copies: signs the contract of TensorRT's kernels"),
    ("host/tensorrt/tests/tensorrt_gpu.rs", "launches of what was recorded, as its users launch it"),
    ("bindings/tensorrt_shim.rs", "C interfaces as bindgen writes them"),
    ("host/build/tests/fixture/", "a device crate in a test: exported names"),
    ("oracles/src/core/ffi.rs", "PyMatching's C++ core, in a workspace that nobody else builds"),
    ("host/pipeline/tests/no_alloc.rs", "a counting global allocator over all threads, in one test"),
];

fn check(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in &tree.files {
        if PLACES.iter().any(|(place, _)| file.path.starts_with(place)) {
            continue;
        }
        for (index, word) in file.words.iter().enumerate() {
            if word.kind != Kind::Ident {
                continue;
            }
            if word.text == "unsafe" {
                breaches.push(format!("{}: `unsafe`", file.at(word)));
            }
            let lowered = || {
                let before = |back: usize| index.checked_sub(back).and_then(|at| file.words.get(at));
                let opened = before(1).is_some_and(|w| w.text == "(" || w.text == ",");
                opened
                    && file.words[..index]
                        .iter()
                        .rev()
                        .take(8)
                        .any(|w| w.text == "allow" || w.text == "expect")
            };
            if word.text == "unsafe_code" && lowered() {
                breaches.push(format!("{}: the lint `unsafe_code` is switched off", file.at(word)));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> usize {
        check(&Tree::of(path, text)).len()
    }

    #[test]
    fn words_in_code_count_and_words_in_prose_do_not() {
        assert_eq!(
            breaches("host/cli/src/main.rs", "/// unsafe\nfn f() { let _ = \"unsafe\"; } // unsafe"),
            0
        );
        assert_eq!(breaches("host/cli/src/main.rs", "unsafe impl Send for X {}"), 1);
        assert_eq!(breaches("host/cli/src/main.rs", "#[unsafe(no_mangle)] fn f() {}"), 1);
        assert_eq!(breaches("host/cli/src/main.rs", "#![allow(unsafe_code)]"), 1);
        assert_eq!(breaches("host/cli/src/main.rs", "#![forbid(unsafe_code)] #![deny(unsafe_code)]"), 0);
        assert_eq!(breaches("device/gpu/src/x.rs", "unsafe impl Send for X {}"), 0);
    }
}
