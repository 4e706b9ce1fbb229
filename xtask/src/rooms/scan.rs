//! Source files as words: what the compiler sees, without comments, with line numbers, and with test code marked.

use crate::files::{self, below, entries, has_ending};
use anyhow::Result;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::path::Path;
use std::str::FromStr;

/// Folders with source of ours.
const FOLDERS: &[&str] = &[
    "bindings",
    "device",
    "docs",
    "examples",
    "fuzz",
    "host",
    "kernels-cu",
    "oracles",
    "tests",
    "training",
    "xtask",
];
/// Endings of files that people write and read.
const ENDINGS: &[&str] = &["rs", "cu", "cuh", "c", "h", "cpp", "hpp", "py", "sh", "md"];

/// One file.
pub(super) struct SourceFile {
    /// From the repository's root, with `/`.
    pub(super) path: String,
    /// As written.
    pub(super) text: String,
    /// How many lines.
    pub(super) lines: usize,
    /// Its words; none where it is not Rust.
    pub(super) words: Vec<Word>,
    /// Its comments, each with its first line's number; none where it is not Rust, or is test code.
    pub(super) comments: Vec<(usize, String)>,
}

/// One token of Rust.
pub(super) struct Word {
    /// As written. Groups are their two delimiters.
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
    /// Identifier, literal or other.
    pub(super) kind: Kind,
    /// Compiled for tests only.
    pub(super) in_test: bool,
    /// Inside a constant, where a panic is a compile error.
    pub(super) in_const: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ident,
    Literal,
    Punct,
}

impl SourceFile {
    /// The file `path` with this text.
    ///
    /// # Errors
    /// Rust that does not parse.
    pub(super) fn new(path: &str, text: &str) -> Result<Self> {
        let mut words = Vec::new();
        if path.ends_with(".rs") {
            let stream = TokenStream::from_str(text)
                .map_err(|error| anyhow::anyhow!("{path}:{}: {error}", error.span().start().line))?;
            let place = Place { in_test: is_test_path(path), in_const: false };
            flatten(stream, place, &mut words);
        }
        let prose = path.ends_with(".rs") && !is_test_path(path);
        let comments = if prose { comments(text) } else { Vec::new() };
        let lines = text.lines().count();
        Ok(Self { path: path.to_owned(), text: text.to_owned(), lines, words, comments })
    }

    /// `path:line`.
    pub(super) fn at(&self, word: &Word) -> String {
        format!("{}:{}", self.path, word.line)
    }
}

/// The comments of a file: neighbouring comment lines are one. Code in fences is left out.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let (mut open, mut fenced) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let whole = line.trim_start().strip_prefix("//");
        let Some(comment) = whole.or_else(|| line.split_once(" // ").map(|(_, comment)| comment)) else {
            (open, fenced) = (false, false);
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        match comments.last_mut().filter(|_| open) {
            Some((_, so_far)) => *so_far += &format!(" {comment}"),
            None => comments.push((index + 1, comment.to_owned())),
        }
        open = whole.is_some();
    }
    comments
}

/// Whether a whole file is test code: an integration test, a benchmark, or a module that its parent includes for tests.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

#[derive(Clone, Copy)]
struct Place {
    in_test: bool,
    in_const: bool,
}

fn flatten(stream: TokenStream, outer: Place, words: &mut Vec<Word>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    // Attributes and constants reach to the end of their item: its first block in braces, or its semicolon.
    let mut item = outer;
    let mut whole = outer;
    for (index, token) in tokens.iter().enumerate() {
        if attribute(&tokens, index).is_some_and(|attribute| implies_test(attribute.stream())) {
            // `#![…]` speaks of everything around it.
            let inner = punct(&tokens, index + 1, '!');
            whole.in_test |= inner;
            item.in_test = true;
        }
        if is_const_item(&tokens, index) {
            item.in_const = true;
        }
        let Place { in_test, in_const } = item;
        let mut push = |text, kind, line| words.push(Word { text, line, kind, in_test, in_const });
        let line = token.span().start().line;
        match token {
            TokenTree::Ident(ident) => push(ident.to_string(), Kind::Ident, line),
            TokenTree::Literal(literal) => push(literal.to_string(), Kind::Literal, line),
            TokenTree::Punct(punct) => {
                push(punct.to_string(), Kind::Punct, line);
                if punct.as_char() == ';' {
                    item = whole;
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open.to_owned(), Kind::Punct, line);
                flatten(group.stream(), item, words);
                let line = group.span_close().start().line;
                words.push(Word { text: close.to_owned(), line, kind: Kind::Punct, in_test, in_const });
                // A constant ends with its semicolon: `const X: T = { … };`.
                if group.delimiter() == Delimiter::Brace && !item.in_const {
                    item = whole;
                }
            }
        }
    }
}

fn punct(tokens: &[TokenTree], at: usize, c: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

/// The content of the attribute that begins at `index`: `#[…]` or `#![…]`.
fn attribute(tokens: &[TokenTree], index: usize) -> Option<&Group> {
    if !punct(tokens, index, '#') {
        return None;
    }
    let at = if punct(tokens, index + 1, '!') { index + 2 } else { index + 1 };
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => Some(group),
        _ => None,
    }
}

/// Whether a constant or static begins at `index`: `const NAME:`, also `const _:` and `const $name:`.
fn is_const_item(tokens: &[TokenTree], index: usize) -> bool {
    let Some(TokenTree::Ident(word)) = tokens.get(index) else { return false };
    if word != "const" && word != "static" {
        return false;
    }
    let mut rest =
        tokens[index + 1..].iter().filter(|t| !matches!(t, TokenTree::Punct(p) if p.as_char() == '$'));
    let named = match rest.next() {
        Some(TokenTree::Ident(name)) => !["fn", "unsafe", "extern", "async"].iter().any(|word| name == word),
        _ => false,
    };
    named && matches!(rest.next(), Some(TokenTree::Punct(p)) if p.as_char() == ':')
}

/// Whether an attribute means "in tests only": `test`, `cfg(test)`, `cfg(all(test, …))`.
fn implies_test(attribute: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = attribute.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(group)] if word == "cfg" => predicate(group.stream()),
        _ => false,
    }
}

/// Whether a `cfg` predicate can only hold in tests.
fn predicate(stream: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(group)] => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let mut parts = inner
                .split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ','))
                .filter(|part| !part.is_empty())
                .map(|part| predicate(part.iter().cloned().collect()));
            match word.to_string().as_str() {
                "all" => parts.any(|test| test),
                "any" => !inner.is_empty() && parts.all(|test| test),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Every file of ours below `root`.
///
/// # Errors
/// A folder or file that cannot be read; Rust that does not parse.
pub(super) fn read(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let path = root.join(folder);
        if path.is_dir() {
            walk(root, &path, &mut files)?;
        }
    }
    Ok(files)
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // What a link names is looked at where it lies.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(root, &path, files)?;
            }
        } else if ENDINGS.iter().any(|ending| has_ending(&path, ending)) {
            files.push(SourceFile::new(&below(root, &path), &files::read(&path)?)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idents(text: &str, pick: impl Fn(&Word) -> bool) -> Vec<String> {
        let file = SourceFile::new("host/x/src/lib.rs", text).expect("parses");
        let names = file.words.into_iter().filter(|word| word.kind == Kind::Ident && pick(word));
        names.map(|word| word.text).filter(|text| text.len() == 1).collect()
    }

    #[test]
    fn comments_are_no_words_and_lines_count_from_one() {
        let file = SourceFile::new("a.rs", "// panic\n/// panic\nfn\n/* panic */ f() {}\n").expect("parses");
        assert!(!file.words.iter().any(|word| word.text == "panic"));
        assert!(file.words.iter().any(|word| word.text == "f" && word.line == 4));
        assert_eq!(file.lines, 4);
        assert!(SourceFile::new("a.rs", "fn f( {").is_err());
    }

    #[test]
    fn test_code_ends_where_its_item_ends() {
        for (text, tests) in [
            ("#[cfg(test)] mod a { fn b() {} } fn c() {}", "ab"),
            ("#[cfg(test)] use a::b; fn c() {}", "ab"),
            ("#[cfg(all(test, not(loom)))] mod a { fn b() {} } fn c() {}", "ab"),
            ("#[test] fn a() { b } fn c() {}", "ab"),
            ("#![cfg(test)] use a; fn b() {} fn c() {}", "abc"),
            ("mod a { #![cfg(test)] use b; fn d() {} } fn c() {}", "bd"),
            ("#[cfg(not(test))] mod a { fn b() {} } fn c() {}", ""),
            ("#[cfg(any(test, feature = \"x\"))] fn a() { b } fn c() {}", ""),
            ("#[cfg(any(test, all(test, loom)))] fn a() { b } fn c() {}", "ab"),
            ("#[cfg(any())] fn a() { b }", ""),
        ] {
            assert_eq!(idents(text, |word| word.in_test).concat(), tests, "{text}");
        }
        let file = SourceFile::new("device/x/tests/a.rs", "fn f() {}").expect("parses");
        assert!(file.words.iter().all(|word| word.in_test));
    }

    #[test]
    fn constants_are_known() {
        let text = "const A: B = { C }; const fn d() { e } static F: G = [H; 2]; fn i(j: *const K) {}";
        assert_eq!(idents(text, |word| word.in_const).concat(), "ABCFGH");
        assert_eq!(idents("macro_rules! m { () => { const $a: b = c; d } }", |w| w.in_const).concat(), "abc");
    }
}
