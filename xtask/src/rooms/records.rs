//! Rule about design records: each is a short decision, without measurements.

use super::{Rule, Tree, planted};

pub(super) const RULE: Rule = Rule {
    name: "short-records",
    says: "a design record has at most 40 lines: measurements belong to docs/performance",
    check,
    planted: || planted("docs/design/0001-x.md", &"line\n".repeat(LIMIT + 1)),
};

const LIMIT: usize = 40;

fn check(tree: &Tree) -> Vec<String> {
    tree.files
        .iter()
        .filter(|file| file.path.starts_with("docs/design/0") && file.lines > LIMIT)
        .map(|file| format!("{}: {} lines, at most {LIMIT}", file.path, file.lines))
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
}
