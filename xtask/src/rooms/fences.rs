//! Rule about fences: barriers have purposes.

use super::scan::Kind;
use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "named-barriers",
    says: "bare fences and volatile accesses stand only in device/gpu; everybody else calls \
           `ringcall_gpu::barrier`, whose functions say what they are for",
    check,
    planted: || planted("host/ringcall/src/lib.rs", "fn f() {\n fence(Ordering::SeqCst);\n}"),
};

const WORDS: &[&str] = &["fence", "compiler_fence", "read_volatile", "write_volatile"];

fn check(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.starts_with("device/gpu/")) {
        // A model may fence: planting the wrong order is what it is for.
        for word in file.words.iter().filter(|word| word.kind == Kind::Ident && !word.in_test) {
            if WORDS.contains(&word.text.as_str()) {
                breaches.push(format!("{}: `{}`", file.at(word), word.text));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_room_for_it() {
        assert!(check(&Tree::of("device/gpu/src/barrier.rs", "fn f() { fence(o) }")).is_empty());
        assert!(check(&Tree::of("device/protocol/tests/loom_x.rs", "fn f() { fence(o) }")).is_empty());
        assert_eq!(check(&Tree::of("host/x/src/a.rs", "fn f() { p.read_volatile() }")).len(), 1);
    }
}
