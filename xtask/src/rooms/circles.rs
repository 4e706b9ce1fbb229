//! Rule against circles: files of a crate use each other one way.

use super::scan::{Kind, SourceFile, Word};
use super::{Rule, Tree};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULE: Rule = Rule {
    name: "no-circles",
    says: "no two files of a crate use each other, directly or by way of others, but for a module and what is inside it: \
           move what both need into a file below both",
    check,
    planted: || {
        let file = |path, text| SourceFile::new(path, text).ok();
        Tree {
            files: [
                file("host/x/src/lib.rs", "mod a; mod b; pub use b::B;"),
                file("host/x/src/a.rs", "use crate::B; pub struct A;"),
                file("host/x/src/b.rs", "use super::a::A; pub struct B;"),
            ]
            .into_iter()
            .flatten()
            .collect(),
            ..Tree::default()
        }
    },
};

/// A module of a crate, from its root: `[]`, `["a"]`, `["a", "b"]`.
type Module = Vec<String>;

/// The crate's folder and the module that a file is; `None` for a file that is no module of a library or a
/// program.
fn module_of(path: &str) -> Option<(&str, Module)> {
    let (folder, rest) = path.split_once("/src/")?;
    let mut parts: Module = rest.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    Some((folder, parts))
}

/// A path that a file names, and whether it is made public there.
struct Named {
    path: Vec<String>,
    public: bool,
}

/// The paths in `words` that begin with `crate`, `super`, `self` or a name of `children`.
fn named(words: &[Word], children: &BTreeSet<&str>) -> Vec<Named> {
    let words: Vec<&Word> = words.iter().filter(|word| !word.in_test).collect();
    let mut found = Vec::new();
    let mut public = false;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let after_path = at >= 2 && words[at - 1].text == ":" && words[at - 2].text == ":";
        if word.text == "use" {
            let before = words[..at].iter().rev().take(4).position(|word| word.text == "pub");
            public = before.is_some_and(|back| back == 0 || words[at - 1].text == ")");
        } else if word.text == ";" {
            public = false;
        } else if word.kind == Kind::Ident
            && !after_path
            && (matches!(word.text.as_str(), "crate" | "super" | "self")
                || children.contains(word.text.as_str()))
            && is_path(&words, at + 1)
        {
            at = tree(&words, at, Vec::new(), public, &mut found);
            continue;
        }
        at += 1;
    }
    found
}

fn is_path(words: &[&Word], at: usize) -> bool {
    let colon = |at: usize| words.get(at).is_some_and(|word| word.text == ":");
    colon(at) && colon(at + 1)
}

/// Reads one path or group of paths from `at` on; where it ends.
fn tree(
    words: &[&Word],
    mut at: usize,
    mut path: Vec<String>,
    public: bool,
    found: &mut Vec<Named>,
) -> usize {
    loop {
        match words.get(at) {
            Some(word) if word.text == "{" => {
                at += 1;
                while let Some(word) = words.get(at).filter(|word| word.text != "}") {
                    let ident = word.kind == Kind::Ident || word.text == "{";
                    at = if ident { tree(words, at, path.clone(), public, found) } else { at + 1 };
                }
                return at + 1;
            }
            Some(word) if word.kind == Kind::Ident => {
                path.push(word.text.clone());
                at += 1;
                if is_path(words, at) {
                    at += 2;
                    continue;
                }
            }
            _ => (),
        }
        found.push(Named { path, public });
        return at;
    }
}

/// The module that `path`, written in `module`, begins with: the longest there is.
fn resolve(
    modules: &BTreeMap<Module, &SourceFile>,
    module: &[String],
    path: &[String],
) -> Option<(Module, usize)> {
    let mut full = module.to_vec();
    let mut skipped = 0;
    for part in path {
        match part.as_str() {
            "crate" => full.clear(),
            "self" => (),
            "super" => drop(full.pop()),
            _ => break,
        }
        skipped += 1;
    }
    let base = full.len();
    full.extend(path.iter().skip(skipped).cloned());
    (base.min(full.len())..=full.len())
        .rev()
        .find(|&len| modules.contains_key(&full[..len]))
        .map(|len| (full[..len].to_vec(), skipped + len - base))
}

fn check(tree: &Tree) -> Vec<String> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &SourceFile>> = BTreeMap::new();
    for file in &tree.files {
        if let Some((folder, module)) = module_of(&file.path) {
            crates.entry(folder).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(circles).collect()
}

/// One line for each circle of a crate.
fn circles(modules: &BTreeMap<Module, &SourceFile>) -> Vec<String> {
    let mut uses: BTreeMap<&Module, Vec<Named>> = BTreeMap::new();
    // What a module makes public of another one's, by name.
    let mut reexports: BTreeMap<(Module, String), Module> = BTreeMap::new();
    for (module, file) in modules {
        let children =
            modules.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
        let children = children.filter_map(|child| child.last().map(String::as_str)).collect();
        let paths = named(&file.words, &children);
        for Named { path, public } in &paths {
            if let (true, Some((from, _)), Some(name)) =
                (*public, resolve(modules, module, path), path.last())
            {
                reexports.insert((module.clone(), name.clone()), from);
            }
        }
        uses.insert(module, paths);
    }
    let mut edges: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, paths) in uses {
        for Named { path, .. } in paths {
            let Some((mut to, used)) = resolve(modules, module, &path) else { continue };
            if let Some(behind) = path.get(used).and_then(|name| reexports.get(&(to.clone(), name.clone()))) {
                to.clone_from(behind);
            }
            if !to.starts_with(module) && !module.starts_with(&to) {
                edges.entry(module).or_default().insert(to);
            }
        }
    }
    let reach = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from.clone()];
        while let Some(module) = next.pop() {
            for to in edges.get(&module).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        modules.keys().map(|module| (module, reach(module))).collect();
    let mut told = BTreeSet::new();
    let mut lines = Vec::new();
    for (module, file) in modules {
        let both = |other: &&Module| reached[module].contains(*other) && reached[*other].contains(module);
        let circle: Vec<_> = modules.keys().filter(both).map(|other| modules[other].path.as_str()).collect();
        if circle.len() > 1 && told.insert(circle.clone()) {
            lines.push(format!("{}: in a circle: {}", file.path, circle.join(", ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> usize {
        let tree = files.iter().fold(Tree::default(), |tree, (path, text)| tree.with(path, text));
        check(&tree).len()
    }

    #[test]
    fn a_module_and_its_children_may_use_each_other() {
        let parent = ("host/x/src/a/mod.rs", "mod b; use b::B; pub struct A;");
        assert_eq!(found(&[parent, ("host/x/src/a/b.rs", "use super::A; pub struct B;")]), 0);
    }

    #[test]
    fn siblings_may_not_in_either_way_of_writing() {
        let lib = ("host/x/src/lib.rs", "mod a; mod b;");
        let a = ("host/x/src/a.rs", "use crate::b::{B, C}; pub struct A;");
        assert_eq!(found(&[lib, a, ("host/x/src/b.rs", "pub struct B;")]), 0);
        assert_eq!(found(&[lib, a, ("host/x/src/b.rs", "fn f(_: crate::a::A) {}")]), 1);
        assert_eq!(found(&[lib, a, ("host/x/src/b.rs", "#[cfg(test)] mod tests { use crate::a::A; }")]), 0);
    }

    #[test]
    fn names_in_a_group_are_all_seen() {
        let lib = ("host/x/src/lib.rs", "mod a; mod b; mod c;");
        let a = ("host/x/src/a.rs", "use crate::{c::{C, D}, b::B};");
        let b = ("host/x/src/b.rs", "use super::a;  fn f() { a::g() }");
        assert_eq!(found(&[lib, a, b, ("host/x/src/c.rs", "")]), 1);
    }
}
