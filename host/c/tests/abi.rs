//! The interface as a C compiler and a linker see it: the committed listing, the library's symbols, the headers.

#![allow(clippy::print_stdout)] // says what was skipped

use std::collections::BTreeSet;
use std::process::Command;

const LISTING: &str = include_str!("../abi/exports.txt");
const HEADERS: [&str; 8] = [
    include_str!("../include/cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"),
    include_str!("../include/cudaq/realtime/daemon/dispatcher/graph_launch_engine.h"),
    include_str!("../include/ringcall_decoder.h"),
    include_str!("../include/ringcall_hsb.h"),
    include_str!("../include/ringcall_pipeline.h"),
    include_str!("../../bridge/include/cudaq/realtime/daemon/bridge/bridge_interface.h"),
    include_str!("../../bridge/include/cudaq/realtime/cpu_transport/udp_wrapper.h"),
    include_str!("../../bridge/include/cudaq/realtime/cpu_transport/roce_wrapper.h"),
];
const WIRE: &str = include_str!("../include/cudaq/realtime/daemon/dispatcher/rpc_wire_format.h");

fn listed() -> BTreeSet<&'static str> {
    LISTING.lines().collect()
}

#[test]
fn the_library_exports_what_is_listed() {
    let test = std::env::current_exe().expect("a test knows where it is");
    let library = test.parent().expect("in a folder").join("libringcall_c.so");
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        println!("skipped: there is no `nm`");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8_lossy(&output.stdout);
    let exported: BTreeSet<&str> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(exported, listed(), "a change of the interface changes host/c/abi/exports.txt");
}

/// Names that a header declares as functions: a known prefix, then a parenthesis.
fn declared(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['*', '/', '#'])) {
        for (at, _) in line.match_indices('(') {
            let word: String = line[..at]
                .chars()
                .rev()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            if ["cudaq_", "ringcall_", "cpu_udp_", "cpu_roce_", "HSB_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
            {
                names.insert(word);
            }
        }
    }
    names
}

#[test]
fn the_headers_declare_what_is_listed() {
    let mut names: BTreeSet<String> = HEADERS.iter().flat_map(|text| declared(text)).collect();
    // Written in the headers themselves.
    names.remove("ringcall_create_with_entries");
    names.retain(|name| !name.starts_with("ringcall_entries_"));
    // A provider's library has it.
    names.remove("cudaq_realtime_get_bridge_interface");
    // The device archive's side of the library.
    let listed: BTreeSet<String> = listed()
        .into_iter()
        .filter(|name| !name.starts_with("ringcall_linked_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(names, listed);
}

/// The value of `#define NAME VALUE`, as a number.
fn defined(name: &str) -> i128 {
    let line = WIRE
        .lines()
        .find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("{name} is not defined"));
    let digits = line.trim().trim_matches(['(', ')']).trim_end_matches(['u', 'U', 'L']);
    match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).expect("hexadecimal"),
        None => digits.parse().expect("decimal"),
    }
}

#[test]
fn the_wire_formats_numbers_are_those_of_the_wire_crate() {
    use ringcall_wire::{HEADER_BYTES, REQUEST_MAGIC, RESPONSE_MAGIC, flag, status};
    assert_eq!(defined("CUDAQ_RPC_MAGIC_REQUEST"), i128::from(REQUEST_MAGIC));
    assert_eq!(defined("CUDAQ_RPC_MAGIC_RESPONSE"), i128::from(RESPONSE_MAGIC));
    assert_eq!(defined("CUDAQ_RPC_HEADER_SIZE"), HEADER_BYTES as i128);
    assert_eq!(defined("CUDAQ_TX_FLAG_IN_FLIGHT"), i128::from(flag::IN_FLIGHT));
    assert_eq!(defined("CUDAQ_TX_FLAG_ERROR_TAG"), i128::from(flag::ERROR_TAG));
    assert_eq!(defined("CUDAQ_DISPATCH_STATUS_TRIGGER_GRAPH"), i128::from(flag::GRAPH_TRIGGER));
    for (status, name, _) in status::ALL.iter().filter(|(status, ..)| !status.is_ok()) {
        assert_eq!(defined(&format!("RINGCALL_STATUS_{name}")), i128::from(status.0));
    }
}
