//! The table of the specification: the files and tests that its cells name exist.

use super::scan::{Kind, SourceFile};
use super::{Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "specification-table",
    says: "every path in backticks of docs/specification.md is a source file or a folder with some, and every \
           `path::name` is a test function of that file",
    check,
    planted: || Tree { specification: "| a section | `host/gone.rs` | none |".to_owned(), ..Tree::default() },
};

/// Where the table is, from the repository's root.
pub(super) const TABLE: &str = "docs/specification.md";

/// Endings that make a name without `/` a path.
const ENDINGS: [&str; 5] = [".md", ".rs", ".cu", ".cpp", ".h"];

fn check(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for (index, line) in tree.specification.lines().enumerate() {
        for (path, test) in cited(line) {
            let place = format!("{TABLE}:{}", index + 1);
            let file = tree.files.iter().find(|file| file.path == path);
            match (file, test) {
                (Some(file), Some(test)) if !has_test(file, test) => {
                    breaches.push(format!("{place}: {path} has no test `{test}`"));
                }
                (None, None) if is_folder(tree, path) || tree.documents.iter().any(|name| name == path) => (),
                (None, _) => breaches.push(format!("{place}: there is no {path}")),
                (Some(_), _) => (),
            }
        }
    }
    breaches
}

/// The paths in backticks of a line, each with the test that follows `::`.
fn cited(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    line.split('`').skip(1).step_by(2).filter_map(|token| {
        let (path, test) = token.split_once("::").map_or((token, None), |(path, test)| (path, Some(test)));
        let letters = path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
        let is_path = path.contains('/') || ENDINGS.iter().any(|ending| path.ends_with(ending));
        (letters && is_path).then_some((path, test))
    })
}

/// Whether `fn test` is in the test code of the file.
fn has_test(file: &SourceFile, test: &str) -> bool {
    file.words.windows(2).any(|pair| {
        pair[0].text == "fn" && pair[1].text == test && pair[1].kind == Kind::Ident && pair[1].in_test
    })
}

fn is_folder(tree: &Tree, path: &str) -> bool {
    let inside = |file: &SourceFile| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    tree.files.iter().any(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_tests() {
        let source = "fn helper() {} #[cfg(test)] mod tests { #[test] fn it_holds() {} }";
        let found = |cell: &str| {
            let tree = Tree {
                specification: format!("# Title\n| a section | {cell} |\n"),
                documents: vec!["README.md".to_owned()],
                ..Tree::of("host/x/src/a.rs", source)
            };
            check(&tree)
        };
        for right in [
            "`host/x/src/a.rs`",
            "`host/x/src`, `README.md`",
            "`host/x/src/a.rs::it_holds`",
            "`path::name`, `run --engine gpu`, `cudaq_status_t`, `*.onnx`, host/y",
        ] {
            assert_eq!(found(right), [""; 0], "{right}");
        }
        for (wrong, says) in [
            ("`host/x/src/b.rs`", "docs/specification.md:2: there is no host/x/src/b.rs"),
            ("`host/x/s`", "docs/specification.md:2: there is no host/x/s"),
            ("`b.md`", "docs/specification.md:2: there is no b.md"),
            ("`host/x/src/b.rs::it_holds`", "docs/specification.md:2: there is no host/x/src/b.rs"),
            ("`host/x/src::it_holds`", "docs/specification.md:2: there is no host/x/src"),
            ("`host/x/src/a.rs::it_hold`", "docs/specification.md:2: host/x/src/a.rs has no test `it_hold`"),
            ("`host/x/src/a.rs::helper`", "docs/specification.md:2: host/x/src/a.rs has no test `helper`"),
        ] {
            assert_eq!(found(wrong), [says]);
        }
    }
}
