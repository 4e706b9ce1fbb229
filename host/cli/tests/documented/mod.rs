//! The keys of JSON documents, as docs/report.md lists them.

use serde_json::Value;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/report.md");

/// A row of a table: the keys in its first column, and the keys that its meaning names.
pub(crate) struct Row {
    pub(crate) keys: Vec<&'static str>,
    pub(crate) below: Vec<&'static str>,
}

/// The table in a section whose first column has this heading.
pub(crate) fn table(section: &str, column: &str) -> Vec<Row> {
    let section = PAGE.split("# ").find(|text| text.starts_with(section)).expect("a section");
    let head = format!("| {column} |");
    let rows = section.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows: Vec<Row> = rows.map_while(|line| line.strip_prefix('|')?.split_once('|')).map(row).collect();
    assert!(!rows.is_empty(), "no table `{column}` in `{section}`");
    rows
}

fn row((keys, meaning): (&'static str, &'static str)) -> Row {
    let quoted =
        |text: &'static str| text.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect();
    // The text after a semicolon is about the key itself.
    Row { keys: quoted(keys), below: quoted(meaning.split(';').next().unwrap_or_default()) }
}

/// All keys of a table.
pub(crate) fn keys_of(table: &[Row]) -> BTreeSet<&'static str> {
    table.iter().flat_map(|row| row.keys.iter().copied()).collect()
}

/// The keys that the meaning of one key names.
pub(crate) fn below(table: &[Row], key: &str) -> BTreeSet<&'static str> {
    let row = table.iter().find(|row| row.keys.contains(&key)).expect("a row");
    row.below.iter().copied().collect()
}

/// The keys of an object.
pub(crate) fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
