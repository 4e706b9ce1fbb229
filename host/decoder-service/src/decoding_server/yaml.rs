//! YAML reader: a tree whose nodes know their lines, without anchors, aliases and tags, so that no text grows when it is read.

use super::error::ConfigError;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;

/// The deepest nesting of lists and mappings.
const MAX_DEPTH: usize = 16;

/// A value and the line where it begins, counted from 1.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) line: usize,
    pub(super) value: Value<'a>,
}

#[derive(Debug)]
pub(super) enum Value<'a> {
    /// The value's text, and whether it is unquoted: `5` is a number, `"5"` is not.
    Scalar(Cow<'a, str>, bool),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// A key of a mapping.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) line: usize,
    pub(super) node: Node<'a>,
}

/// A list or a mapping that is not closed yet.
enum Open<'a> {
    List(usize, Vec<Node<'a>>),
    /// With the key whose value comes next.
    Map(usize, Vec<Entry<'a>>, Option<(Cow<'a, str>, usize)>),
}

/// The only document of `text`.
///
/// # Errors
/// Text that is not YAML, or YAML of a kind that this reader does not support, each with its line.
pub(super) fn read(text: &str) -> Result<Node<'_>, ConfigError> {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            ConfigError::new(error.marker().line(), "", format!("this is no YAML: {}", error.info()))
        })?;
        let line = span.start.line();
        let refuse = |what: &str| Err(ConfigError::new(line, "", format!("{what} are not read here")));
        let done = match event {
            Event::Alias(_) => return refuse("aliases (`*name`)"),
            Event::Scalar(.., anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return refuse("anchors (`&name`)");
            }
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return refuse("tags (`!name`)");
            }
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == MAX_DEPTH => {
                return Err(ConfigError::new(
                    line,
                    "",
                    format!("more than {MAX_DEPTH} levels are not read here"),
                ));
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(line, Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(line, Vec::new(), None));
                continue;
            }
            Event::Scalar(text, style, ..) => {
                Node { line, value: Value::Scalar(text, style == ScalarStyle::Plain) }
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(line, nodes)) => Node { line, value: Value::List(nodes) },
                Some(Open::Map(line, entries, _)) => Node { line, value: Value::Map(entries) },
                // The parser ended a node that it never began.
                None => continue,
            },
            Event::DocumentStart(_) if document.is_some() => return refuse("further documents (`---`)"),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => continue,
        };
        match open.last_mut() {
            None => document = Some(done),
            Some(Open::List(_, nodes)) => nodes.push(done),
            Some(Open::Map(_, entries, pending)) => match (pending.take(), done) {
                (Some((key, line)), node) => entries.push(Entry { key, line, node }),
                (None, Node { line, value: Value::Scalar(key, _) }) => {
                    if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                        let reason = format!("this key was given before, in line {}", first.line);
                        return Err(ConfigError::new(line, key, reason));
                    }
                    *pending = Some((key, line));
                }
                (None, Node { line, .. }) => {
                    return Err(ConfigError::new(line, "", "a key is a name, no list and no mapping"));
                }
            },
        }
    }
    document.ok_or_else(|| ConfigError::new(1, "", "the file is empty"))
}

impl Node<'_> {
    /// The node's kind, for messages.
    fn kind(&self) -> String {
        match &self.value {
            Value::Scalar(text, _) if text.chars().count() <= 40 => format!("`{text}`"),
            Value::Scalar(..) => "a text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    fn refuse<T>(&self, key: &str, needed: &str) -> Result<T, ConfigError> {
        Err(ConfigError::new(self.line, key, format!("{} is no {needed}", self.kind())))
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Self], ConfigError> {
        match &self.value {
            Value::List(nodes) => Ok(nodes),
            _ => self.refuse(key, "list"),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<&str, ConfigError> {
        match &self.value {
            Value::Scalar(text, _) => Ok(text),
            _ => self.refuse(key, "text"),
        }
    }

    pub(super) fn integer(&self, key: &str) -> Result<i64, ConfigError> {
        match &self.value {
            Value::Scalar(text, true) => {
                text.parse().or_else(|_| self.refuse(key, "whole number of 64 bits"))
            }
            _ => self.refuse(key, "whole number"),
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count(&self, key: &str, least: u32, most: u32) -> Result<u32, ConfigError> {
        let value = self.integer(key)?;
        match u32::try_from(value) {
            Ok(count) if (least..=most).contains(&count) => Ok(count),
            _ => Err(ConfigError::new(self.line, key, format!("{value} is not from {least} to {most}"))),
        }
    }

    /// A finite number.
    pub(super) fn number(&self, key: &str) -> Result<f64, ConfigError> {
        let Value::Scalar(text, true) = &self.value else { return self.refuse(key, "number") };
        // Rust would read `inf`, `nan` and `infinity`, which are texts in YAML.
        let digits = text.bytes().any(|byte| byte.is_ascii_digit());
        match text.parse::<f64>() {
            Ok(number) if digits && number.is_finite() => Ok(number),
            _ => self.refuse(key, "finite number"),
        }
    }

    pub(super) fn boolean(&self, key: &str) -> Result<bool, ConfigError> {
        match &self.value {
            Value::Scalar(text, true) if matches!(&**text, "true" | "True" | "TRUE") => Ok(true),
            Value::Scalar(text, true) if matches!(&**text, "false" | "False" | "FALSE") => Ok(false),
            _ => self.refuse(key, "`true` or `false`"),
        }
    }

    /// The entries of a mapping; no entries for a value that was left out.
    pub(super) fn fields<'s>(&'s self, path: &str) -> Result<Fields<'s>, ConfigError> {
        match &self.value {
            Value::Map(entries) => {
                Ok(Fields { path: path.to_owned(), line: self.line, entries, taken: Vec::new() })
            }
            Value::Scalar(text, true) if matches!(&**text, "" | "~" | "null") => {
                Ok(Fields { path: path.to_owned(), line: self.line, entries: &[], taken: Vec::new() })
            }
            _ => self.refuse(path, "mapping"),
        }
    }
}

/// The entries of a mapping. The reader takes them by name, and none may be left at the end.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    path: String,
    line: usize,
    entries: &'a [Entry<'a>],
    taken: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// A key's full name.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The line where the mapping begins.
    pub(super) const fn line(&self) -> usize {
        self.line
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Node<'a>> {
        self.taken.push(key);
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// A required entry.
    pub(super) fn need(&mut self, key: &'static str) -> Result<&'a Node<'a>, ConfigError> {
        self.take(key).ok_or_else(|| ConfigError::new(self.line, self.name(key), "this key is missing"))
    }

    /// Refuses keys that were not read.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let Some(entry) = self.entries.iter().find(|entry| !self.taken.contains(&&*entry.key)) else {
            return Ok(());
        };
        let known = self.taken.join(", ");
        Err(ConfigError::new(
            entry.line,
            self.name(&entry.key),
            format!("this key is not known; known are {known}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> (usize, String) {
        let error = read(text).expect_err(text);
        (error.line, error.reason)
    }

    #[test]
    fn nodes_know_their_lines() {
        let tree = read("a: 1\nb:\n  - [2,\n     3]\n  - c: 'x'\n").expect("YAML");
        let mut fields = tree.fields("").expect("a mapping");
        assert_eq!(fields.need("a").expect("there").integer("a"), Ok(1));
        let list = fields.need("b").expect("there").list("b").expect("a list");
        let inner = list[0].list("b[0]").expect("a list");
        assert_eq!((inner[1].line, inner[1].integer("x")), (4, Ok(3)));
        let mut inner = list[1].fields("b[1]").expect("a mapping");
        assert_eq!(inner.need("c").expect("there").text("c"), Ok("x"));
        fields.finish().expect("all was asked for");
        inner.finish().expect("all was asked for");
    }

    #[test]
    fn what_is_not_read_is_refused_with_its_line() {
        for (text, line, part) in [
            ("", 1, "empty"),
            ("a: [1\n", 2, "no YAML"),
            ("a: &x 1\nb: *x", 1, "anchors"),
            ("b: 1\na: !!int 1", 2, "tags"),
            ("a: 1\n---\nb: 2", 2, "further documents"),
            ("a: 1\nb: 2\na: 3", 3, "given before, in line 1"),
            ("[1, 2]: 3", 1, "a key is a name"),
        ] {
            let (found, reason) = refusal(text);
            assert!(found == line && reason.contains(part), "{text}: {found}: {reason}");
        }
        assert!(refusal(&"[".repeat(17)).1.contains("levels"), "deep");
        assert!(read(&"[".repeat(100_000)).is_err(), "deep enough to overflow a stack");
    }

    #[test]
    fn texts_are_no_numbers() {
        let tree =
            read("[5, '5', .nan, nan, inf, 1e400, 0x1F, 1.5, -3, 1e-3, true, yes, 9223372036854775808]")
                .expect("YAML");
        let nodes = tree.list("").expect("a list");
        let integers: Vec<_> = nodes.iter().map(|node| node.integer("").ok()).collect();
        let mut expected = vec![None; nodes.len()];
        (expected[0], expected[8]) = (Some(5), Some(-3));
        assert_eq!(integers, expected);
        let numbers: Vec<_> = nodes.iter().map(|node| node.number("").ok()).collect();
        assert_eq!(numbers[..6], [Some(5.0), None, None, None, None, None]);
        assert_eq!(numbers[6..10], [None, Some(1.5), Some(-3.0), Some(0.001)]);
        assert_eq!((nodes[10].boolean(""), nodes[11].boolean("").is_err()), (Ok(true), true));
    }
}
