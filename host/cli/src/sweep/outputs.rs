//! Options for the outputs of `ringcall sweep` and `ringcall merge`.

use crate::output;
use crate::report::page;
use crate::usage::misuse;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Outputs of results.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Outputs {
    /// Confidence of the intervals
    #[arg(long, default_value_t = 0.95)]
    pub(super) confidence: f64,
    /// Write the results as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the results, with a plot, as one self-contained HTML file; the plot alone where FILE ends in .svg or .pdf, the points alone
    /// where it ends in .csv; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) report: Vec<PathBuf>,
    /// Write the counts as sinter's CSV, which `sinter combine` and `sinter plot` read: one row for each point and arm
    #[arg(long, value_name = "FILE")]
    pub(super) sinter_csv: Option<PathBuf>,
}

impl Outputs {
    pub(super) const FIELDS: [&str; 4] = ["confidence", "json", "report", "sinter_csv"];

    /// Checks in advance what would otherwise fail after everything has been counted.
    pub(super) fn check(&self) -> Result<()> {
        for path in &self.report {
            page::check_extension(path, &["svg", "pdf", "csv"])?;
        }
        for path in self.json.iter().chain(&self.report).chain(&self.sinter_csv) {
            output::check_writable(path)?;
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            bail!(misuse(format!("--confidence must be between 0 and 1, not {}", self.confidence)));
        }
        Ok(())
    }
}
