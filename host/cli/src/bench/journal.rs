//! Journal of a run of `bench`: each row is shown, compared with an earlier run, and written as soon as it is measured.

use super::measure::{Row, time};
use super::{matching, whole};
use crate::report::Provenance;
use crate::style;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// A benchmark that this machine cannot run.
#[derive(Debug, Serialize)]
pub(super) struct Skipped {
    pub(super) name: &'static str,
    pub(super) why: String,
}

/// All results, in the form of the JSON file.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) device: String,
    pub(super) provenance: Provenance,
    pub(super) cores: Vec<usize>,
    /// Whether every requested benchmark was measured or skipped.
    pub(super) complete: bool,
    pub(super) results: Vec<Row>,
    pub(super) pipeline: Vec<whole::Row>,
    pub(super) matching: Vec<matching::Row>,
    pub(super) matching_endless: Vec<matching::endless::Row>,
    pub(super) matching_patches: Vec<matching::patches::Row>,
    pub(super) skipped: Vec<Skipped>,
    /// Benchmarks that failed.
    pub(super) failed: Vec<Skipped>,
}

/// A report under construction.
pub(super) struct Journal {
    pub(super) report: Report,
    json: Option<PathBuf>,
    before: Option<Before>,
    quiet: bool,
}

/// The medians of an earlier run, ns, by name and pace.
#[derive(Debug)]
pub(super) struct Before(BTreeMap<String, f64>);

/// The name and the median in ns by which a row is compared.
fn median(row: &Value) -> Option<(String, f64)> {
    let name = row["name"].as_str()?;
    let name = row["interval_us"].as_f64().map_or_else(|| name.to_owned(), |us| format!("{name} every {us}"));
    let ns = row["p50_ns"].as_f64().or_else(|| Some(row["p50_us"].as_f64()? * 1e3))?;
    (ns > 0.0).then_some((name, ns))
}

impl Before {
    /// Reads the `--json` file of an earlier run.
    ///
    /// # Errors
    /// The file cannot be read, or is not a report of a bench.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let report: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
            let lists = ["results", "pipeline", "matching", "matching_endless", "matching_patches"];
            let rows = lists.iter().filter_map(|list| report[list].as_array()).flatten();
            let medians: BTreeMap<String, f64> = rows.filter_map(median).collect();
            anyhow::ensure!(!medians.is_empty(), "it has no rows of `ringcall bench`");
            Ok(Self(medians))
        };
        read().with_context(|| format!("--baseline {}", path.display()))
    }

    /// How a row compares, in one line; `noise` is the share by which its repetitions differ.
    fn compare(&self, row: &Value, noise: Option<f64>) -> Option<String> {
        let (name, ns) = median(row)?;
        let Some(&before) = self.0.get(&name) else { return Some("not in the baseline".to_owned()) };
        let change = ns / before - 1.0;
        let note = match noise {
            None => String::new(),
            Some(noise) if change.abs() <= noise => format!(", within the noise of {:.1}%", noise * 100.0),
            Some(noise) => format!(", more than the noise of {:.1}%", noise * 100.0),
        };
        Some(format!("p50 {} was {}: {:+.1}%{note}", time(ns), time(before), change * 100.0))
    }
}

/// The text, with lines that are wider than a terminal broken between words.
fn fitting(lines: &str) -> String {
    let wide = |line: &str| line.chars().count() > style::WIDTH;
    let each = |line| if wide(line) { style::paragraph("", 0, line) } else { format!("{line}\n") };
    lines.lines().map(each).collect()
}

impl Journal {
    pub(super) fn new(report: Report, json: Option<&Path>, before: Option<Before>) -> Self {
        let quiet = json.is_some_and(|path| path.as_os_str() == "-");
        Self { report, json: json.map(Path::to_owned), before, quiet }
    }

    /// Whether rows are compared, and so measured several times each.
    pub(super) fn compares(&self) -> bool {
        self.before.is_some()
    }

    /// Prints a line for people.
    pub(super) fn say(&self, line: &str) -> Result<()> {
        if !self.quiet {
            let mut out = std::io::stdout();
            let line = if out.is_terminal() { fitting(line) } else { format!("{line}\n") };
            out.write_all(line.as_bytes()).context("standard output")?;
        }
        Ok(())
    }

    /// Records a measured row: `keep` adds it to its list.
    pub(super) fn row<R: Serialize + std::fmt::Display>(
        &mut self,
        row: R,
        noise: Option<f64>,
        keep: impl FnOnce(&mut Report, R),
    ) -> Result<()> {
        self.say(&row.to_string())?;
        if let Some(before) = &self.before
            && let Some(line) = before.compare(&serde_json::to_value(&row)?, noise)
        {
            self.say(&format!("  {line}"))?;
        }
        keep(&mut self.report, row);
        self.save()
    }

    /// Records a benchmark that this machine cannot run.
    pub(super) fn skip(&mut self, name: &'static str, why: String) {
        self.report.skipped.push(Skipped { name, why });
    }

    /// Records a failed benchmark. Earlier rows stay, and the remaining benchmarks still run.
    pub(super) fn fail(&mut self, name: &'static str, error: &anyhow::Error) -> Result<()> {
        eprintln!("ringcall: benchmark {name}: {error:#}");
        self.report.failed.push(Skipped { name, why: format!("{error:#}") });
        self.save()
    }

    /// Writes the results so far to the file, if there is one.
    fn save(&self) -> Result<()> {
        match &self.json {
            Some(path) if !self.quiet => crate::output::write_json(path, &self.report),
            _ => Ok(()),
        }
    }

    /// Prints the skipped benchmarks, a line for each reason, and the machine; then writes the whole report.
    pub(super) fn finish(mut self) -> Result<Report> {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Skipped { name, why } in &self.report.skipped {
            reasons.entry(why).or_default().push(name);
        }
        for (why, names) in reasons {
            let several =
                if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
            self.say(&format!("skipped {}{several}: {why}", names[0]))?;
        }
        self.say(&format!("on {}, cores {:?}", self.report.device, self.report.cores))?;
        self.report.complete = self.report.failed.is_empty();
        if let Some(path) = &self.json {
            crate::output::write_json(path, &self.report)?;
        }
        Ok(self.report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_is_judged_by_the_noise_of_the_row() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("before.json");
        let rows = json!({
            "results": [{ "name": "floor-host", "p50_ns": 1000 }],
            "pipeline": [{ "name": "pipeline/d7", "interval_us": 30.0, "p50_us": 10.0 }],
        });
        std::fs::write(&path, rows.to_string()).expect("written");
        let before = Before::read(&path).expect("a report");
        let said = |row: Value, noise| before.compare(&row, noise).expect("a median");
        let row = json!({ "name": "floor-host", "p50_ns": 1100 });
        assert_eq!(
            said(row.clone(), Some(0.2)),
            "p50 1.10 µs was 1.00 µs: +10.0%, within the noise of 20.0%"
        );
        assert!(said(row, Some(0.05)).ends_with("more than the noise of 5.0%"));
        let paced = |interval: f64| json!({ "name": "pipeline/d7", "interval_us": interval, "p50_us": 9.0 });
        assert_eq!(said(paced(30.0), None), "p50 9.00 µs was 10.00 µs: -10.0%");
        assert_eq!(said(paced(0.0), None), "not in the baseline");
        std::fs::write(&path, "{}").expect("written");
        assert!(format!("{:#}", Before::read(&path).expect_err("no rows")).contains("no rows"));
    }
}
