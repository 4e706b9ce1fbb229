//! Rule about device code: no allocation, formatting or panic.

use super::scan::{Kind, Word};
use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "device-code",
    says: "the protocol, the NIC's queues, the dispatchers and the wire format allocate nothing, format nothing and panic nowhere: the same source \
           runs in a kernel, where a panic ends every request (tests, constants and debug assertions excepted)",
    check,
    planted: || planted("device/protocol/src/lib.rs", "fn f(x: Option<u8>) -> u8 {\n x.unwrap()\n}"),
};

/// Where the rule holds.
const PLACES: &[&str] =
    &["device/protocol/src/", "device/mlx5/src/", "device/dispatcher/src/", "device/wire/src/"];
/// Crates and types that allocate.
const ALLOCATING: &[&str] = &["std", "alloc", "Vec", "String", "Box", "Rc", "Arc", "HashMap", "BTreeMap"];
/// Macros that allocate or print. (`write!` into a caller's formatter is for the host's `Display` alone.)
const PRINTING: &[&str] = &["vec", "format", "print", "println", "eprint", "eprintln", "dbg"];
/// Macros that panic at run time.
const PANICKING: &[&str] =
    &["panic", "unreachable", "todo", "unimplemented", "assert", "assert_eq", "assert_ne"];
/// Methods that panic.
const UNWRAPPING: &[&str] = &["unwrap", "expect", "unwrap_err", "expect_err"];

fn check(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| PLACES.iter().any(|place| file.path.starts_with(place))) {
        for (index, word) in file.words.iter().enumerate() {
            if word.kind != Kind::Ident || word.in_test {
                continue;
            }
            let is = |at: Option<usize>, text: &str| {
                at.and_then(|at| file.words.get(at)).is_some_and(|word: &Word| word.text == text)
            };
            let (before, after) = (index.checked_sub(1), Some(index + 1));
            let name = word.text.as_str();
            let a_macro = is(after, "!") && !is(Some(index + 2), "=");
            let panics = (a_macro && PANICKING.contains(&name))
                || (UNWRAPPING.contains(&name) && is(before, ".") && is(after, "("));
            let what = if ALLOCATING.contains(&name) && !a_macro {
                "allocates"
            } else if a_macro && PRINTING.contains(&name) {
                "allocates or prints"
            } else if panics && !word.in_const {
                "panics"
            } else {
                continue;
            };
            breaches.push(format!("{}: `{name}` {what}", file.at(word)));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(text: &str) -> usize {
        check(&Tree::of("device/wire/src/x.rs", text)).len()
    }

    #[test]
    fn what_allocates_or_panics() {
        for text in [
            "use std::fmt;",
            "extern crate alloc;",
            "fn f() -> Vec<u8> {}",
            "fn f() { format!(\"\") }",
            "fn f() { panic!() }",
            "fn f(x: u8) { assert!(x > 1) }",
            "fn f(x: Option<u8>) { x.expect(\"there\") }",
        ] {
            assert_eq!(breaches(text), 1, "{text}");
        }
    }

    #[test]
    fn what_does_not() {
        for text in [
            "//! Vec\nuse core::fmt;",
            "const A: u8 = X.unwrap(); const _: () = { assert!(A == 1); };",
            "fn f(x: u8) { debug_assert!(x > 1) }",
            "#[cfg(test)] mod tests { use std::vec; fn f() { panic!() } }",
            "#![cfg_attr(not(any(loom, test)), no_std)]",
            "fn f(x: Option<u8>) -> u8 { x.unwrap_or(0) }",
            "fn unwrap(&self) {}",
        ] {
            assert_eq!(breaches(text), 0, "{text}");
        }
        assert!(check(&Tree::of("host/cli/src/x.rs", "fn f() { panic!() }")).is_empty());
    }
}
