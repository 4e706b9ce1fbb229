//! Design records that one reads as a decision, and not as a notebook.

use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "short-records",
    says: "a design record has at most 40 lines: measurements belong to docs/performance",
    check,
    planted: || planted("docs/design/0001-x.md", &"line\n".repeat(LIMIT + 1)),
};

const LIMIT: usize = 40;

/// Records that are longer still, and how long they may be: a number here only falls.
const LONGER: &[(&str, usize)] = &[
    ("docs/design/0004-memory-contract.md", 54),
    ("docs/design/0009-device-dispatcher.md", 48),
    ("docs/design/0011-transports.md", 48),
    ("docs/design/0012-unified-graphs.md", 53),
    ("docs/design/0014-services.md", 52),
];

fn check(tree: &Tree) -> Vec<String> {
    let limit_of =
        |path: &str| LONGER.iter().find(|(longer, _)| *longer == path).map_or(LIMIT, |(_, limit)| *limit);
    tree.files
        .iter()
        .filter(|file| file.path.starts_with("docs/design/0") && file.lines > limit_of(&file.path))
        .map(|file| format!("{}: {} lines, at most {}", file.path, file.lines, limit_of(&file.path)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, lines: usize) -> usize {
        check(&Tree::of(path, &"line\n".repeat(lines))).len()
    }

    #[test]
    fn a_record_has_at_most_forty_lines() {
        assert_eq!(found("docs/design/0099-x.md", LIMIT), 0);
        assert_eq!(found("docs/design/0099-x.md", LIMIT + 1), 1);
        assert_eq!(found("docs/design/README.md", LIMIT + 1), 0);
    }

    #[test]
    fn a_longer_record_does_not_grow() {
        for (path, lines) in LONGER {
            assert_eq!((found(path, *lines), found(path, *lines + 1)), (0, 1), "{path}");
        }
    }
}
