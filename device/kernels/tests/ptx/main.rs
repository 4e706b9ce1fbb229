//! What each primitive becomes: the committed PTX, read.
//!
//! Neither a GPU nor a compiler for one is needed: `cargo xtask ptx --check` shows that the texts are what the sources
//! compile to, and here is shown that the texts are right.

mod expected;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use text::{Body, bodies};

const ARCHS: [&str; 2] = ["sm_80", "sm_90"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    let path = file(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn committed(program: &str, arch: &str) -> String {
    read(&format!("ptx/{program}.{arch}.ptx"))
}

/// What is wrong with a text, one line for each probe that is missing, unknown or not as expected.
fn faults(ptx: &str, arch: &str, expected: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    if !ptx.lines().any(|line| line == format!(".target {arch}")) {
        faults.push(format!("the text is not for {arch}"));
    }
    // Volatile accesses are relaxed ones of system scope that nothing may be merged with: the source asked
    // for no one.
    if ptx.contains(".volatile") {
        faults.push("a volatile access".to_owned());
    }
    let found = bodies(ptx);
    for (name, wanted) in expected {
        match found.get(name) {
            None => faults.push(format!("{name}: missing")),
            Some(body) => faults.extend(difference(name, body, wanted)),
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        faults.push(format!("{name}: not in the table"));
    }
    faults
}

fn difference(name: &str, body: &Body, wanted: &[String]) -> Option<String> {
    let same = body.lines.len() == wanted.len()
        && body.lines.iter().zip(wanted).all(|(found, wanted)| matches(found, wanted));
    if !same {
        return Some(format!("{name}: {:#?}, expected {wanted:#?}", body.lines));
    }
    // A burst is one only if nothing can wait between its loads.
    if name.ends_with("_load_burst") && !body.memory_is_adjacent() {
        return Some(format!("{name}: the loads do not follow each other"));
    }
    None
}

/// `_` stands for any one operand.
fn matches(found: &str, wanted: &str) -> bool {
    let operands = |line: &str| line.split(' ').map(|part| part.trim_end_matches(',').to_owned()).collect();
    let (found, wanted): (Vec<String>, Vec<String>) = (operands(found), operands(wanted));
    found.len() == wanted.len()
        && found.iter().zip(&wanted).all(|(found, wanted)| wanted == "_" || found == wanted)
}

#[test]
fn every_primitive_is_the_instruction_that_its_name_promises() {
    for arch in ARCHS {
        let faults = faults(&committed("probes", arch), arch, &expected::primitives(arch));
        assert!(faults.is_empty(), "{arch}:\n{}", faults.join("\n"));
    }
}

#[test]
fn every_launch_is_fenced_and_into_its_stream() {
    let faults = faults(&committed("graph-probes", "sm_80"), "sm_80", &expected::launches());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_launches_need_the_device_runtime() {
    for arch in ARCHS {
        assert!(!committed("probes", arch).contains("cudaGraphLaunch"), "{arch}");
    }
    assert!(committed("graph-probes", "sm_80").contains("cudaGraphLaunch"));
}

/// The checker, on texts that each have one thing wrong.
#[test]
fn what_is_weaker_is_found() {
    let arch = "sm_90";
    let (right, expected) = (committed("probes", arch), expected::primitives(arch));
    let known = faults(&right, arch, &expected);
    let planted: &[(&str, &str, &str)] = &[
        // No order and no scope: what the compiler's own lowering makes of it.
        ("probe_add_acq_rel_cta", "atom.acq_rel.cta.add.u64", "atom.add.u64"),
        ("probe_add_relaxed_gpu", "atom.relaxed.gpu.add.u64", "atom.add.u64"),
        ("probe_or_release_gpu", "atom.release.gpu", "atom.relaxed.gpu"),
        ("probe_swap_acquire_gpu", "atom.acquire.gpu", "atom.acquire.cta"),
        ("probe_and_relaxed_cta", "and.b64 %rd1", "or.b64 %rd1"),
        ("probe_load_acquire_sys", "ld.acquire.sys", "ld.acquire.gpu"),
        ("probe_load_acquire_sys", "ld.acquire.sys", "ld.relaxed.sys"),
        ("probe_load_relaxed_sys", "ld.relaxed.sys.u64", "ld.relaxed.sys.u32"),
        ("probe_store_release_sys", "st.release.sys", "st.relaxed.sys"),
        ("probe_store_release_gpu", "st.release.gpu.u64 [%rd1], %rd2;", "st.release.gpu.u64 [%rd1], %rd1;"),
        ("probe_load_seq_cst_gpu", "fence.sc.gpu;", ""),
        ("probe_store_seq_cst_gpu", "fence.sc.gpu;", "fence.acq_rel.gpu;"),
        ("probe_exchange_acq_rel_relaxed_gpu", "%rd3, %rd4;", "%rd4, %rd3;"),
        ("probe_claim", "atom.acquire.sys", "atom.relaxed.sys"),
        ("probe_observe_from_peer", "fence.acquire.sys", "fence.acquire.gpu"),
        ("probe_publish_to_peer", "fence.acq_rel.sys;", ""),
        ("probe_publish_to_grid", "fence.acq_rel.gpu;", ""),
        ("probe_words_load_pair", ".v2.u64 {%rd2, %rd3}", ".v2.u64 {%rd3, %rd2}"),
        ("probe_wide_store_peer", "st.relaxed.sys.global.v2.u64", "st.v2.u64"),
        ("probe_words_load_burst", "@q ld", "add.u64 y, y, 0;\n@q ld"),
        ("probe_words_load_burst", "[y];", "[y];\nfence.acq_rel.sys;"),
        ("probe_stage_pair", "ld.v2.u64", "ld.volatile.v2.u64"),
        // A second, plain access beside the right one.
        ("probe_load_acquire_gpu", "ret;", "ld.b64 %rd9, [%rd2];\nret;"),
        ("probe_store_release_cta", "ret;", "st.b64 [%rd1], %rd2;\nret;"),
        ("probe_shuffle_xor_u32", "shfl.sync.bfly", "shfl.sync.down"),
        ("probe_ballot", "0xffffffff", "0xffff"),
        ("probe_clock_cycles", "%clock64", "%globaltimer"),
        ("probe_nanosleep", "nanosleep.u32", "ret; nanosleep"),
        ("probe_trap", "trap;", "exit;"),
        ("probe_grid_sync", "atom.acq_rel.gpu", "atom.release.gpu"),
    ];
    for (name, from, to) in planted {
        let begin = right.find(&format!(" {name}(")).unwrap_or_else(|| panic!("{name}: missing"));
        let end = begin + right[begin..].find("\n}\n").expect("a body ends");
        assert!(right[begin..end].contains(from), "{name} has no `{from}`");
        let wrong =
            format!("{}{}{}", &right[..begin], right[begin..end].replacen(from, to, 1), &right[end..]);
        let found: Vec<_> =
            faults(&wrong, arch, &expected).into_iter().filter(|fault| !known.contains(fault)).collect();
        let others = found.iter().filter(|fault| *fault != "a volatile access");
        let own: Vec<_> = others.filter(|fault| fault.starts_with(&format!("{name}:"))).collect();
        assert_eq!(own.len(), 1, "{name}, `{from}` became `{to}`: {found:?}");
        assert_eq!(found.len(), 1 + usize::from(to.contains("volatile")), "{found:?}");
    }
}

#[test]
fn a_probe_that_is_not_there_or_not_expected_is_found() {
    let (text, expected) = (committed("probes", "sm_90"), expected::primitives("sm_90"));
    let known = faults(&text, "sm_90", &expected);
    let found = faults(&text.replace(" probe_swap_release_cta(", " probe_swap_twice("), "sm_90", &expected);
    let new: Vec<_> = found.iter().filter(|fault| !known.contains(fault)).collect();
    assert_eq!(new, ["probe_swap_release_cta: missing", "probe_swap_twice: not in the table"]);
    assert!(faults(&text, "sm_100", &expected).contains(&"the text is not for sm_100".to_owned()));
    assert_eq!(faults("", "sm_90", &expected).len(), expected.len() + 1);
}

/// A new primitive without a probe is found by its name.
#[test]
fn every_primitive_has_a_probe() {
    let sources =
        ["access", "graph", "machine", "window"].map(|name| read(&format!("src/probes/{name}.rs"))).concat();
    let probed: Vec<_> = sources.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let folder = file("../gpu/src/ptx");
    let mut files: Vec<_> =
        ["atomic", "barrier", "clock"].map(|name| file(&format!("../gpu/src/{name}.rs"))).into();
    for entry in std::fs::read_dir(&folder).expect("the sources of ringcall-gpu") {
        files.push(entry.expect("the sources of ringcall-gpu").path());
    }
    let mut names = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("the sources of ringcall-gpu");
        names.extend(text.lines().filter_map(public_function).map(str::to_owned));
    }
    assert!(names.len() > 30, "{names:?}");
    // No instructions of their own: constants, slices over memory, and the clock of simulations, which no device has.
    let without = ["new", "payload", "result_mut", "simulate"];
    names.retain(|name| !without.contains(&name.as_str()) && !probed.contains(&name.as_str()));
    assert!(names.is_empty(), "no probe calls {names:?}");
}

/// The name, if this line declares a public function (or, in a macro's list, a special register).
fn public_function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some((name, _)) = line.split_once(" = \"").filter(|_| line.ends_with("\";")) {
        return name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(name);
    }
    let rest = line.strip_prefix("pub ")?;
    let rest = rest.trim_start_matches("const ").trim_start_matches("unsafe ").strip_prefix("fn ")?;
    rest.split(['(', '<']).next().filter(|name| !name.starts_with('$'))
}
