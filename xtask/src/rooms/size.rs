//! Rule about sizes: a file can be read at one sitting.

use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "one-sitting",
    says: "no file is longer than 900 lines (aim at 100 to 250): split it where its subject splits",
    check,
    planted: || planted("host/cli/src/main.rs", &"// line\n".repeat(LIMIT + 1)),
};

const LIMIT: usize = 900;

/// A tool writes these files.
const GENERATED: &[&str] = &["bindings/tensorrt_shim.rs", "bindings/ibverbs.rs"];

fn check(tree: &Tree) -> Vec<String> {
    tree.files
        .iter()
        .filter(|file| file.lines > LIMIT && !GENERATED.iter().any(|place| file.path.starts_with(place)))
        .map(|file| format!("{}: {} lines", file.path, file.lines))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_allowed() {
        assert!(check(&Tree::of("docs/a.md", &"line\n".repeat(LIMIT))).is_empty());
        assert!(check(&Tree::of("bindings/tensorrt_shim.rs", &"// line\n".repeat(LIMIT + 1))).is_empty());
    }
}
