//! Rule about literals: the protocol's numbers are in one place.

use super::scan::Kind;
use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "one-idea-one-place",
    says: "magics and marks are spelled out in ringcall-wire alone; everybody else names its constants \
           (a test that needs a wrong number takes another one)",
    check,
    planted: || planted("host/ringcall/src/ring.rs", "const MINE: u64 = 0xeeee_EEEE_eeee_EEEE;"),
};

/// Each number, and the constant to use.
const NUMBERS: &[(u128, &str)] = &[
    (0x4355_5152, "header::REQUEST_MAGIC"),
    (0x4355_5153, "header::RESPONSE_MAGIC"),
    (0xEEEE_EEEE_EEEE_EEEE, "flag::IN_FLIGHT"),
    (0x0012_A6E5, "flag::GRAPH_TRIGGER"),
    (0xDEAD, "flag::ERROR_TAG"),
];

fn check(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.starts_with("device/wire/")) {
        // The table above.
        if file.path == "xtask/src/rooms/literals.rs" {
            continue;
        }
        for word in file.words.iter().filter(|word| word.kind == Kind::Literal) {
            let Some(value) = integer(&word.text) else { continue };
            let tagged = |&&(number, _): &&(u128, &str)| {
                number == value || (number == 0xDEAD && value >> 48 == number)
            };
            if let Some((_, name)) = NUMBERS.iter().find(tagged) {
                breaches.push(format!("{}: `{}` is ringcall_wire::{name}", file.at(word), word.text));
            }
        }
    }
    breaches
}

/// The value of an integer literal of any base, separators and suffix.
fn integer(literal: &str) -> Option<u128> {
    let text = literal.replace('_', "").to_ascii_lowercase();
    let (radix, digits) = match text.get(..2) {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        _ => (10, text.as_str()),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let whole = suffix.is_empty() || suffix.starts_with(['u', 'i']);
    if whole { u128::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_does_not_hide_a_number() {
        assert_eq!(integer("0x4355_5152u32"), Some(0x4355_5152));
        assert_eq!(integer("0xdead"), Some(0xDEAD));
        assert_eq!(integer("57005"), Some(0xDEAD));
        assert_eq!(integer("0b11_u8"), Some(3));
        assert_eq!(integer("1_000i64"), Some(1000));
        for other in ["1.5", "1e9", "\"0xDEAD\"", "'a'", "b\"x\""] {
            assert_eq!(integer(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_wire_has_them() {
        let text = "const A: u64 = 0xDEAD_0000_0000_0001; const B: u32 = 1_129_664_850;";
        assert_eq!(check(&Tree::of("host/x/src/a.rs", text)).len(), 2);
        assert!(check(&Tree::of("device/wire/src/a.rs", text)).is_empty());
        assert!(check(&Tree::of("host/x/src/a.rs", "const SEED: u64 = 0xDEAD_BEEF;")).is_empty());
    }
}
