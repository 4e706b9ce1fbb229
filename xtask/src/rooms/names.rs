//! Rule about names: a public type's name belongs to one type in all published crates.

use super::scan::Kind;
use super::{Package, Rule, Tree, planted};
use std::collections::BTreeMap;

/// Names that several types have, and why they keep them.
const SHARED: &[(&str, &str)] = &[
    ("Caller", "`udp::Caller` is the generic one over UDP"),
    ("OnnxModel", "a build without the engine has a stand-in that refuses every file"),
];

pub(super) const RULE: Rule = Rule {
    name: "one-name-one-type",
    says: "no two public types of published crates have one name, so that an error message or a search names one type",
    check,
    planted: || Tree {
        packages: vec![Package {
            name: "a".to_owned(),
            targets: vec!["a/src/lib.rs".to_owned()],
            published: true,
            ..Package::default()
        }],
        ..planted("a/src/lib.rs", "pub mod one { pub struct Watch; } pub mod two { pub enum Watch {} }")
    },
};

fn check(tree: &Tree) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| published(tree, &file.path)) {
        for triple in file.words.windows(4) {
            let [public, keyword, name, after] = triple else { continue };
            let (keyword, name) = if keyword.text == "unsafe" { (name, after) } else { (keyword, name) };
            let kind = matches!(keyword.text.as_str(), "enum" | "struct" | "trait" | "type" | "union");
            if public.text == "pub"
                && kind
                && name.kind == Kind::Ident
                && !name.in_test
                && name.text != "Sealed"
            {
                places.entry(&name.text).or_default().push(file.at(name));
            }
        }
    }
    let shared = |name: &str| SHARED.iter().any(|(known, _)| *known == name);
    let doubles = places.iter().filter(|(_, at)| at.len() > 1);
    let mut found: Vec<String> = doubles
        .clone()
        .filter(|(name, _)| !shared(name))
        .map(|(name, at)| format!("{}: `{name}` is also {}", at[0], at[1..].join(", ")))
        .collect();
    // In a tree without published crates nothing is shared.
    if !places.is_empty() && tree.packages.len() > 1 {
        let stale = |name: &&str| doubles.clone().all(|(double, _)| double != name);
        let names = SHARED.iter().map(|(name, _)| *name).filter(stale);
        found.extend(
            names.map(|name| format!("xtask/src/rooms/names.rs: `{name}` is one type's name by now")),
        );
    }
    found
}

/// Whether a file is a source of a published package's library.
fn published(tree: &Tree, path: &str) -> bool {
    let library = |target: &String| {
        target
            .strip_suffix("lib.rs")
            .is_some_and(|source| source.ends_with("src/") && path.starts_with(source))
    };
    tree.packages.iter().any(|package| package.published && package.targets.iter().any(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(published: bool, text: &str) -> usize {
        let mut tree = (RULE.planted)();
        tree.packages[0].published = published;
        let planted = tree.files.remove(0).path;
        check(&tree.with(&planted, text)).len()
    }

    #[test]
    fn types_that_users_can_name_differ() {
        let two = "pub mod one { pub struct Watch; } pub mod two { pub type Watch = u8; }";
        assert_eq!(doubles(true, two), 1);
        assert_eq!(doubles(false, two), 0);
        assert_eq!(doubles(true, &two.replacen("pub struct", "pub(crate) struct", 1)), 0);
        assert_eq!(doubles(true, &two.replacen("pub struct", "#[cfg(test)] pub struct", 1)), 0);
    }
}
