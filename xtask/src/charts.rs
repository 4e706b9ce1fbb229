//! The charts of the pages on performance: drawn from committed JSON, as `docs/performance/charts.toml` says.

use crate::files;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const LIST: &str = "docs/performance/charts.toml";
/// Where the JSON of the list is.
const FIGURES: &str = "docs/performance";
/// Where the charts are.
const PICTURES: &str = "docs/pictures";

/// Pixels.
const WIDTH: f64 = 900.0;
const TOP: f64 = 14.0;
const ROW: f64 = 34.0;
const FOOT: f64 = 36.0;
/// Of a letter, about.
const LETTER: f64 = 8.2;
/// The first quantity's bar, and the second's.
const COLOURS: [&str; 2] = ["#3b82f6", "#d97706"];
const STYLE: &str = ":root{color-scheme:light dark;--ink:#1f2937;--line:#e2e5ea;--card:#fff}\
    @media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--line:#343b47;--card:#1c222b}}\
    svg{font:14px system-ui,sans-serif;background:var(--card)}text{fill:var(--ink)}line{stroke:var(--line)}";

#[derive(Deserialize)]
struct List {
    chart: Vec<Chart>,
}

/// One picture: bars in rows, each with one quantity or two.
#[derive(Deserialize)]
struct Chart {
    /// Of the picture, without its ending.
    name: String,
    /// The JSON that it is drawn from.
    json: String,
    title: String,
    unit: String,
    /// What a value of the JSON is multiplied with.
    scale: f64,
    /// The keys of one or two quantities in a row's object; of a list of numbers the median is drawn.
    values: Vec<String>,
    /// What the quantities are called.
    names: Vec<String>,
    #[serde(default)]
    logarithmic: bool,
    /// A label, and the way to its object: keys, places in a list, or the name of one of a list's objects.
    bars: Vec<Vec<String>>,
}

/// A chart as a file.
pub(crate) struct Picture {
    pub(crate) path: PathBuf,
    pub(crate) svg: String,
}

/// Every chart of the list.
///
/// # Errors
/// The list, or what it names, is not there.
pub(crate) fn draw(root: &Path) -> Result<Vec<Picture>> {
    let list: List = toml::from_str(&files::read(&root.join(LIST))?).context(LIST)?;
    let picture = |chart: &Chart| -> Result<Picture> {
        let json: Value = serde_json::from_str(&files::read(&root.join(FIGURES).join(&chart.json))?)?;
        let path = root.join(PICTURES).join(format!("{}.svg", chart.name));
        Ok(Picture { path, svg: chart.svg(&json)? })
    };
    list.chart.iter().map(|chart| picture(chart).with_context(|| format!("chart {}", chart.name))).collect()
}

/// Writes every chart.
///
/// # Errors
/// As [`draw`]; a file cannot be written.
pub(crate) fn write(root: &Path) -> Result<()> {
    for picture in draw(root)? {
        files::write(&picture.path, &picture.svg)?;
    }
    Ok(())
}

/// What a reader of a picture asks about its figures: the question, and the keys of a JSON file that answer it.
const ASKED: [(&str, &[&str]); 4] = [
    ("commit", &["commit", "before", "after"]),
    ("date", &["date"]),
    ("machine", &["device", "host", "machine"]),
    ("command", &["command", "how", "program"]),
];

/// Where the figures of a JSON file come from: what the file says at its top, or in the provenance that a report has.
fn provenance(name: &str, json: &Value) -> String {
    let provenance = &json["provenance"];
    let said = |key: &str| {
        let text = [provenance, json].into_iter().find_map(|object| object[key].as_str());
        text.filter(|text| *text != "unknown").map(|text| format!("{key} {text}"))
    };
    let mut parts: Vec<String> = said("version").into_iter().collect();
    let mut unknown = Vec::new();
    for (question, keys) in ASKED {
        let before = parts.len();
        parts.extend(keys.iter().filter_map(|key| said(key)));
        if parts.len() == before {
            unknown.push(question);
        }
    }
    if !unknown.is_empty() {
        parts.push(format!("not on record: {}", unknown.join(", ")));
    }
    format!("Drawn by `cargo xtask charts` from {FIGURES}/{name}: {}", parts.join("; "))
}

/// Where one step of a way leads.
fn step<'a>(at: &'a Value, to: &str) -> Option<&'a Value> {
    match at {
        Value::Array(rows) => to.parse::<usize>().ok().and_then(|place| rows.get(place)).or_else(|| {
            let named = |row: &&Value| ["name", "run"].iter().any(|key| row[*key].as_str() == Some(to));
            rows.iter().find(named)
        }),
        other => other.get(to),
    }
}

/// A number, or the median of a list of numbers.
fn number(value: &Value) -> Option<f64> {
    let Some(list) = value.as_array() else { return value.as_f64() };
    let mut numbers: Vec<f64> = list.iter().map(Value::as_f64).collect::<Option<_>>()?;
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    Some((numbers.get(middle)? + numbers[(numbers.len() - 1) / 2]) / 2.0)
}

/// Three digits.
fn shown(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{}", v.round()),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

impl Chart {
    /// Labels, and what their bars show.
    fn rows(&self, json: &Value) -> Result<Vec<(&str, Vec<f64>)>> {
        let mut rows = Vec::new();
        for bar in &self.bars {
            let Some((label, way)) = bar.split_first() else { bail!("a bar without a label") };
            let object = way.iter().try_fold(json, |at, to| step(at, to));
            let object = object.with_context(|| format!("{}: nothing at {way:?}", self.json))?;
            let value = |key: &String| {
                let at = key.split('.').try_fold(object, step);
                let value = at.and_then(number).with_context(|| format!("{way:?} has no number {key}"))?;
                Ok(value * self.scale)
            };
            rows.push((label.as_str(), self.values.iter().map(value).collect::<Result<Vec<f64>>>()?));
        }
        Ok(rows)
    }

    fn svg(&self, json: &Value) -> Result<String> {
        let rows = self.rows(json)?;
        let all = || rows.iter().flat_map(|row| &row.1).copied();
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
        if most <= 0.0 || self.names.len() != self.values.len() {
            bail!("no bars, or not as many names as values");
        }
        let letters = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or_default();
        let left = (letters as f64).mul_add(LETTER, 16.0);
        let room = WIDTH - left - 150.0;
        // A logarithmic axis begins at the decade below the least value.
        let from = least.max(most / 1e6).log10().floor();
        let along = |value: f64| match self.logarithmic {
            true => room * (value.max(1e-300).log10() - from).max(0.0) / (most.log10() - from).max(1.0),
            false => room * value / most,
        };
        let height = (rows.len() as f64).mul_add(ROW, TOP + FOOT);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\
             <title>{}</title><desc id=\"provenance\">{}</desc><style>{STYLE}</style>\
             <rect width=\"100%\" height=\"100%\" style=\"fill:var(--card)\"/>\n",
            escaped(&self.title),
            escaped(&provenance(&self.json, json))
        );
        // Writing to a String cannot fail.
        if self.logarithmic {
            for decade in from as i32..=most.log10().floor() as i32 {
                let (x, below) = (left + along(10f64.powi(decade)), height - FOOT);
                let _ = writeln!(out, "<line x1=\"{x:.1}\" y1=\"8\" x2=\"{x:.1}\" y2=\"{below}\"/>");
            }
        }
        for (row, (label, values)) in rows.iter().enumerate() {
            let y = (row as f64).mul_add(ROW, TOP);
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                left - 10.0,
                y + 15.0,
                escaped(label)
            );
            // The thin bar of the second quantity is behind the first.
            for (place, value) in values.iter().enumerate().rev() {
                let (inset, colour) = ([0.0, 3.0][place.min(1)], COLOURS[place.min(1)]);
                let _ = write!(
                    out,
                    "<rect x=\"{left:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                    y + inset,
                    along(*value).max(1.0),
                    22.0 - 2.0 * inset
                );
            }
            let end = left + values.iter().map(|value| along(*value)).fold(0.0, f64::max) + 8.0;
            let words: Vec<String> = values.iter().map(|value| shown(*value)).collect();
            let (words, unit) = (words.join(" | "), escaped(&self.unit));
            let _ = writeln!(out, "<text x=\"{end:.1}\" y=\"{}\">{words} {unit}</text>", y + 15.0);
        }
        let colours = ["blue", "amber"];
        let mut legend: Vec<String> =
            self.names.iter().zip(colours).map(|(name, colour)| format!("{colour}: {name}")).collect();
        if self.logarithmic {
            legend.push("logarithmic, a line at each power of ten".to_owned());
        }
        let (below, legend) = (height - 12.0, escaped(&legend.join(", ")));
        let _ = writeln!(out, "<text x=\"{left:.1}\" y=\"{below}\" font-size=\"12\">{legend}</text>\n</svg>");
        Ok(out)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chart(bars: &[&[&str]], logarithmic: bool) -> Chart {
        Chart {
            name: "c".to_owned(),
            json: "c.json".to_owned(),
            title: "a < b".to_owned(),
            unit: "µs".to_owned(),
            scale: 0.001,
            values: vec!["p50_ns".to_owned(), "tail.p99_ns".to_owned()],
            names: vec!["p50".to_owned(), "p99".to_owned()],
            logarithmic,
            bars: bars.iter().map(|bar| bar.iter().map(|word| (*word).to_owned()).collect()).collect(),
        }
    }

    #[test]
    fn bars_are_found_by_key_place_and_name_and_lists_by_their_median() {
        let json = json!({ "results": [
            { "name": "x/32", "p50_ns": 1000, "tail": { "p99_ns": 2000 } },
            { "name": "y", "p50_ns": [5000, 1000, 3000], "tail": { "p99_ns": [40000, 20000] } },
        ] });
        let rows = chart(&[&["first", "results", "0"], &["second", "results", "y"]], false);
        assert_eq!(rows.rows(&json).unwrap(), [("first", vec![1.0, 2.0]), ("second", vec![3.0, 30.0])]);
        for logarithmic in [false, true] {
            let svg = chart(&[&["first", "results", "x/32"]], logarithmic).svg(&json).unwrap();
            assert!(svg.contains("a &lt; b") && svg.contains("1.00 | 2.00 µs"), "{svg}");
        }
        assert!(chart(&[&["gone", "results", "z"]], false).svg(&json).is_err());
    }

    #[test]
    fn a_picture_says_where_its_figures_come_from() {
        let said = |json: Value| provenance("x.json", &json);
        let report = json!({ "device": "a GPU; a CPU", "provenance": {
            "version": "0.1.0", "commit": "abc", "date": "2026-11-25T23:37:03Z", "host": "vm: a CPU", "command": "ringcall bench <x>",
        } });
        let words = "Drawn by `cargo xtask charts` from docs/performance/x.json: version 0.1.0; commit abc; date 2026-11-25T23:37:03Z; \
                     device a GPU; a CPU; host vm: a CPU; command ringcall bench <x>";
        assert_eq!(said(report), words);
        let turns = said(json!({ "device": "d", "before": "a", "after": "b", "how": "by hand" }));
        assert!(
            turns.ends_with(": before a; after b; device d; how by hand; not on record: date"),
            "{turns}"
        );
        assert!(
            said(json!({ "commit": "unknown" })).ends_with("not on record: commit, date, machine, command")
        );
        let chart = chart(&[&["first", "0"]], false);
        let svg = chart.svg(&json!([{ "p50_ns": 1, "tail": { "p99_ns": 2 } }])).unwrap();
        assert!(
            svg.contains(
                "<desc id=\"provenance\">Drawn by `cargo xtask charts` from docs/performance/c.json: "
            ),
            "{svg}"
        );
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [0.4283, 9.996, 23.456, 99.96, 1234.5].map(shown),
            ["0.43", "10.0", "23.5", "100", "1235"]
        );
    }
}
