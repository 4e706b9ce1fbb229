//! `ringcall bench`: figures for one machine, in one run.

mod floor;
mod host_call;
mod measure;
mod pipeline;

use anyhow::{Context, Result, bail};
use measure::{Bench, Cores, Row};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Options of `ringcall bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure; everything if none is named
    names: Vec<String>,
    /// Write the results as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Round trips to time, one outstanding
    #[arg(long, default_value_t = 200_000)]
    trips: u64,
    /// Requests of the throughput measurement, 64 slots in flight
    #[arg(long, default_value_t = 2_000_000)]
    requests: u64,
    /// Cores to pin to: dispatcher, client, worker, consumer, as many as there are (default: the first ones allowed)
    #[arg(long, value_delimiter = ',', value_name = "CORE,…")]
    cores: Vec<usize>,
}

/// Measures one thing.
type Measure = fn(&Bench) -> Result<Row>;

/// Everything that can be measured here, in order.
const BENCHES: &[(&str, Measure)] = &[
    ("floor-host", floor::run),
    ("host-call/32", |bench| host_call::run(bench, 32)),
    ("host-call/512", |bench| host_call::run(bench, 512)),
    ("pipeline-overhead", pipeline::run),
];

#[derive(Debug, Serialize)]
struct Report {
    device: String,
    commit: String,
    cores: Vec<usize>,
    results: Vec<Row>,
}

/// Runs the named benches, the floor always first.
pub(crate) fn run(args: &Args) -> Result<()> {
    for name in &args.names {
        if !BENCHES.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = BENCHES.iter().map(|&(name, _)| name).collect();
            bail!("no benchmark `{name}`; there are: {}", known.join(", "));
        }
    }
    if args.trips == 0 || args.requests == 0 {
        bail!("--trips and --requests must be at least 1");
    }
    let cores = Cores::choose(&args.cores)?;
    let bench = Bench { trips: args.trips, requests: args.requests, cores };
    let wanted =
        |name: &str| name == "floor-host" || args.names.is_empty() || args.names.iter().any(|n| n == name);
    let mut results: Vec<Row> = Vec::new();
    let quiet = args.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let mut out = std::io::stdout();
    if !quiet {
        writeln!(out, "{}", Row::HEADING)?;
    }
    for (name, measure) in BENCHES.iter().filter(|(name, _)| wanted(name)) {
        let mut row = measure(&bench).with_context(|| format!("benchmark {name}"))?;
        row.name = (*name).to_owned();
        let floor = results.first().map_or(row.p50_ns, |floor| floor.p50_ns);
        row.ratio_to_floor = row.p50_ns as f64 / floor.max(1) as f64;
        if !quiet {
            writeln!(out, "{row}")?;
        }
        results.push(row);
    }
    let report = Report {
        device: crate::machine::describe(),
        commit: option_env!("RINGCALL_COMMIT").unwrap_or("unknown").to_owned(),
        cores: bench.cores.all().to_vec(),
        results,
    };
    if !quiet {
        writeln!(out, "on {}, cores {:?}", report.device, report.cores)?;
    }
    if let Some(path) = &args.json {
        crate::output::write_json(path, &report)?;
    }
    let broken: Vec<&str> =
        report.results.iter().filter(|row| row.lost + row.wrong > 0).map(|row| row.name.as_str()).collect();
    if !broken.is_empty() {
        bail!("requests were lost or answered wrongly in: {}", broken.join(", "));
    }
    Ok(())
}
