//! `ringcall bench`: benchmarks of one machine in one run.

mod baseline;
mod bp;
mod chart;
mod device;
mod host_call;
mod journal;
mod matching;
mod measure;
mod pipeline;
mod predecoder;
mod starvation;
mod udp;
mod whole;

use crate::experiment::Preset;
use crate::number;
use crate::pinning::CoreList;
use crate::report::Provenance;
use crate::signals::Signals;
use crate::usage::{Given, misuse};
use anyhow::{Result, bail};
use device::Way;
use journal::{Before, Journal, Report};
use measure::{Bench, Cores, Limits, Row};
use ringcall_kernels::samples::graph;
use ringcall_kernels::samples::handlers::{
    rpc_increment, rpc_increment_bytes, rpc_increment_grid, rpc_increment_warp,
};
use ringcall_launch::ring::KernelKind;
use ringcall_qec::circuit::Code;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `ringcall bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to measure, `matching` standing for all of `matching/…`, `predecoder/d7` for all of `predecoder/d7/…`, or patterns
    /// such as `'*/d13*'`; everything if none is named
    names: Vec<String>,
    /// Measure the pipeline of a named configuration of the surface code, matched whole and by slices: d7, d13, d21, d31, d13_r104, d21_r42.
    /// The same as the name `preset/NAME`
    #[arg(long, value_name = "NAME")]
    preset: Option<Preset>,
    /// Print the names of the benchmarks, and measure nothing
    #[arg(long)]
    list: bool,
    /// Compare with what an earlier --json wrote to FILE: how medians changed. Round trips are measured three times, whose
    /// difference is the noise
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write the results as JSON to FILE, row by row as they come, and beside it histograms of the round trips as FILE with the extension svg; or
    /// the JSON alone to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Round trips to time, one outstanding
    #[arg(long, default_value = "200_000", value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    trips: u64,
    /// Requests of the throughput measurement, 64 slots in flight
    #[arg(long, default_value = "2_000_000", value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    requests: u64,
    /// Wait up to so long, in ns, at random, before each round trip with a device: a client that asks again at once falls into
    /// step with the device's polls
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = number::nanoseconds)]
    spread: Duration,
    /// Cores to pin to: dispatcher, client, worker, consumer, as many as there are (default: the first ones allowed)
    #[arg(long, value_name = "CORE,…")]
    cores: Option<CoreList>,
    /// Shots of each `matching/…`, instead of as many as take some seconds
    #[arg(long, value_name = "N", value_parser = number::within::<usize>(1, u64::MAX))]
    shots: Option<usize>,
    /// How often each `matching/…` decodes each shot; the shortest time counts. More than once is for machines that do
    /// other work
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::within::<usize>(1, u64::MAX))]
    rounds: usize,
    /// How long each run of `pipeline/…` takes, in s
    #[arg(long, alias = "pipeline-seconds", value_name = "TIME", default_value = "2s", value_parser = number::some_seconds)]
    duration: Duration,
    /// The predecoder of `pipeline/…/gpu-…`, as in training/models (default: the committed predecoder_3x128_int8, which is
    /// built in)
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// PyMatching's C++ core, which `matching/…` is compared with: the `ringcall-matching-core` that `oracles`
    /// builds (default: the one beside this executable, if there is one)
    #[arg(long, value_name = "PATH")]
    core: Option<PathBuf>,
}

/// Options without effect on the pipelines of a preset.
const OF_OTHERS: [&str; 8] = ["trips", "requests", "spread", "cores", "shots", "rounds", "model", "core"];

/// Measures one thing.
type Measure = fn(&Bench) -> Result<Row>;

/// The baseline of a row's figures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Baseline {
    /// A flag between two threads of the host, and back.
    Host,
    /// A flag from the host to the device and back.
    Device,
    /// None: the network on the CPU.
    None,
    /// The arithmetic's time on the device, which the row itself states.
    Arithmetic,
    /// None: belief propagation or a transport on the CPU.
    Cpu,
    /// None: belief propagation on the device.
    Gpu,
}

impl Baseline {
    /// The benchmark that measures the baseline.
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Host => Some("floor-host"),
            Self::Device => Some("floor"),
            Self::None | Self::Arithmetic | Self::Cpu | Self::Gpu => None,
        }
    }

    /// Why a benchmark with this baseline cannot run here, if it cannot.
    fn absent(self) -> Option<String> {
        let no_gpu = || device::context().err().map(|error| format!("no GPU: {error}"));
        match self {
            Self::Host | Self::Cpu => None,
            Self::None => predecoder::no_engine(),
            Self::Device => no_gpu(),
            Self::Gpu => no_gpu().or_else(bp::unfit),
            Self::Arithmetic => no_gpu().or_else(predecoder::unfit).or_else(predecoder::no_engine),
        }
    }
}

/// All benchmarks, in order.
const BENCHES: &[(&str, Baseline, Measure)] = &[
    ("floor-host", Baseline::Host, baseline::run),
    ("host-call/32", Baseline::Host, |bench| host_call::run(bench, 32)),
    ("host-call/512", Baseline::Host, |bench| host_call::run(bench, 512)),
    ("pipeline-overhead", Baseline::Host, pipeline::run),
    ("udp/32", Baseline::Cpu, |bench| udp::run(bench, 32, false)),
    ("udp/32/tag", Baseline::Cpu, |bench| udp::run(bench, 32, true)),
    ("tag/32", Baseline::Cpu, |bench| udp::tag(bench, 32)),
    ("tag/512", Baseline::Cpu, |bench| udp::tag(bench, 512)),
    ("floor", Baseline::Device, device::baseline),
    ("device-call/32", Baseline::Device, |bench| {
        device::device_call(bench, rpc_increment::HANDLER, 32, KernelKind::batched())
    }),
    ("unified/32", Baseline::Device, |bench| {
        device::queue_pair(bench, device::Kernels::Unified, rpc_increment::HANDLER, 32)
    }),
    ("three-kernels/32", Baseline::Device, |bench| {
        device::queue_pair(bench, device::Kernels::Three, rpc_increment::HANDLER, 32)
    }),
    ("device-call/512", Baseline::Device, |bench| {
        device::device_call(bench, rpc_increment_warp::HANDLER, 512, KernelKind::broad())
    }),
    ("device-call-bytes/512", Baseline::Device, |bench| {
        device::device_call(bench, rpc_increment_bytes::HANDLER, 512, KernelKind::broad())
    }),
    ("cooperative/8x128/512", Baseline::Device, |bench| {
        device::cooperative(bench, rpc_increment_grid::HANDLER, [8, 128], 512)
    }),
    ("cooperative/132x256/512", Baseline::Device, |bench| {
        device::cooperative(bench, rpc_increment_grid::HANDLER, [132, 256], 512)
    }),
    ("graph-launch/32", Baseline::Device, device::launches),
    ("graph-launch-burst/16", Baseline::Device, device::burst),
    ("host-graph/32", Baseline::Device, |bench| device::host_graph(bench, &graph::SINGLE)),
    ("host-graph-3/32", Baseline::Device, |bench| device::host_graph(bench, &graph::KERNELS)),
    ("copies/64/kernels", Baseline::Device, |bench| device::copies(bench, 64, Way::Kernels)),
    ("copies/64/engines", Baseline::Device, |bench| device::copies(bench, 64, Way::Engines)),
    ("copies/64/kernel-in", Baseline::Device, |bench| device::copies(bench, 64, Way::KernelIn)),
    ("copies/64/hook", Baseline::Device, |bench| device::copies(bench, 64, Way::Hook)),
    ("copies/1024/kernels", Baseline::Device, |bench| device::copies(bench, 1024, Way::Kernels)),
    ("copies/1024/engines", Baseline::Device, |bench| device::copies(bench, 1024, Way::Engines)),
    ("copies/1024/kernel-in", Baseline::Device, |bench| device::copies(bench, 1024, Way::KernelIn)),
    ("copies/1024/hook", Baseline::Device, |bench| device::copies(bench, 1024, Way::Hook)),
    ("copies/4096/kernels", Baseline::Device, |bench| device::copies(bench, 4096, Way::Kernels)),
    ("copies/4096/engines", Baseline::Device, |bench| device::copies(bench, 4096, Way::Engines)),
    ("copies/4096/kernel-in", Baseline::Device, |bench| device::copies(bench, 4096, Way::KernelIn)),
    ("copies/4096/hook", Baseline::Device, |bench| device::copies(bench, 4096, Way::Hook)),
    ("copies/16384/kernels", Baseline::Device, |bench| device::copies(bench, 16384, Way::Kernels)),
    ("copies/16384/engines", Baseline::Device, |bench| device::copies(bench, 16384, Way::Engines)),
    ("copies/16384/kernel-in", Baseline::Device, |bench| device::copies(bench, 16384, Way::KernelIn)),
    ("copies/16384/hook", Baseline::Device, |bench| device::copies(bench, 16384, Way::Hook)),
    ("copies/65536/kernels", Baseline::Device, |bench| device::copies(bench, 65536, Way::Kernels)),
    ("copies/65536/engines", Baseline::Device, |bench| device::copies(bench, 65536, Way::Engines)),
    ("copies/65536/kernel-in", Baseline::Device, |bench| device::copies(bench, 65536, Way::KernelIn)),
    ("copies/65536/hook", Baseline::Device, |bench| device::copies(bench, 65536, Way::Hook)),
    ("copies/262144/kernels", Baseline::Device, |bench| device::copies(bench, 262144, Way::Kernels)),
    ("copies/262144/engines", Baseline::Device, |bench| device::copies(bench, 262144, Way::Engines)),
    ("copies/262144/kernel-in", Baseline::Device, |bench| device::copies(bench, 262144, Way::KernelIn)),
    ("copies/262144/hook", Baseline::Device, |bench| device::copies(bench, 262144, Way::Hook)),
    ("predecoder/d7/cpu", Baseline::None, |bench| predecoder::cpu(bench, 7)),
    ("predecoder/d7/graph", Baseline::Arithmetic, |bench| predecoder::graph(bench, 7)),
    ("predecoder/d7/grid", Baseline::Arithmetic, |bench| predecoder::grid(bench, 7)),
    ("predecoder/d13/cpu", Baseline::None, |bench| predecoder::cpu(bench, 13)),
    ("predecoder/d13/graph", Baseline::Arithmetic, |bench| predecoder::graph(bench, 13)),
    ("predecoder/d13/grid", Baseline::Arithmetic, |bench| predecoder::grid(bench, 13)),
    ("predecoder/d21/cpu", Baseline::None, |bench| predecoder::cpu(bench, 21)),
    ("predecoder/d21/graph", Baseline::Arithmetic, |bench| predecoder::graph(bench, 21)),
    ("predecoder/d21/grid", Baseline::Arithmetic, |bench| predecoder::grid(bench, 21)),
    ("predecoder/d31/cpu", Baseline::None, |bench| predecoder::cpu(bench, 31)),
    ("predecoder/d31/graph", Baseline::Arithmetic, |bench| predecoder::graph(bench, 31)),
    ("predecoder/d31/grid", Baseline::Arithmetic, |bench| predecoder::grid(bench, 31)),
    ("bp/bb72/cpu", Baseline::Cpu, |bench| bp::cpu(bench, Code::Bb72)),
    ("bp/bb72/graph", Baseline::Gpu, |bench| bp::graph(bench, Code::Bb72)),
    ("bp/bb72/ring", Baseline::Gpu, |bench| bp::ring(bench, Code::Bb72, 1)),
    ("bp/bb72/ring/8-lanes", Baseline::Gpu, |bench| bp::ring(bench, Code::Bb72, 8)),
    ("bp/bb144/cpu", Baseline::Cpu, |bench| bp::cpu(bench, Code::Bb144)),
    ("bp/bb144/graph", Baseline::Gpu, |bench| bp::graph(bench, Code::Bb144)),
    ("bp/bb144/ring", Baseline::Gpu, |bench| bp::ring(bench, Code::Bb144, 1)),
    ("bp/bb144/ring/6-lanes", Baseline::Gpu, |bench| bp::ring(bench, Code::Bb144, 6)),
    ("bp/bb288/cpu", Baseline::Cpu, |bench| bp::cpu(bench, Code::Bb288)),
    ("bp/d13/cpu", Baseline::Cpu, |bench| bp::cpu(bench, Code::Surface)),
];

/// How often a round trip is measured for a comparison.
const REPETITIONS: usize = 3;

/// Whether `asked` selects `name`: by the whole name, by its beginning up to a `/`, or by a pattern.
fn means(asked: &str, name: &str) -> bool {
    let beginning = || name.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let pattern = || glob::Pattern::new(asked).is_ok_and(|pattern| pattern.matches(name));
    beginning() || pattern()
}

/// Runs the named benchmarks, each after its baseline.
pub(crate) fn run(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<()> {
    signals.run_to_the_signal();
    if args.preset.is_some() && args.names.is_empty() {
        given.refuse(&OF_OTHERS, "--preset, whose pipelines run for --duration on a CPU")?;
    }
    let known = BENCHES.iter().map(|&(name, ..)| name).chain(whole::names()).chain(matching::names());
    let known = known.chain(matching::endless::names()).chain(matching::patches::names());
    let known: Vec<&str> = known.collect();
    let presets = args.preset.iter().map(|preset| format!("preset/{}", preset.name()));
    let names: Vec<String> = args.names.iter().cloned().chain(presets).collect();
    for asked in &names {
        if !known.iter().any(|name| means(asked, name)) {
            bail!(misuse(format!("no benchmark `{asked}`; there are: {}", known.join(", "))));
        }
    }
    let asked = |name: &str| names.is_empty() || names.iter().any(|n| means(n, name));
    if args.list {
        for name in known.into_iter().filter(|name| asked(name)) {
            writeln!(std::io::stdout(), "{name}")?;
        }
        return Ok(());
    }
    let before = args.baseline.as_deref().map(Before::read).transpose()?;
    let cores = Cores::choose(args.cores.as_ref().map_or(&[], |list| &list.0))?;
    let bench = Bench {
        trips: args.trips,
        requests: args.requests,
        cores,
        spread_ns: u64::try_from(args.spread.as_nanos()).unwrap_or(u64::MAX),
        limits: Limits::new(args.trips, args.requests),
    };
    let host = crate::machine::describe();
    let report = Report {
        device: device::name().map_or_else(|| host.clone(), |gpu| format!("{gpu}; {host}")),
        provenance: Provenance::now(),
        cores: bench.cores.all().to_vec(),
        complete: false,
        results: Vec::new(),
        pipeline: Vec::new(),
        matching: Vec::new(),
        matching_endless: Vec::new(),
        matching_patches: Vec::new(),
        skipped: Vec::new(),
        failed: Vec::new(),
    };
    let mut journal = Journal::new(report, args.json.as_deref(), before);
    round_trips(&bench, &asked, &mut journal)?;
    for (name, error) in [
        ("pipeline", pipelines(args, &asked, &mut journal)),
        ("matching", decoders(args, &bench, &asked, &mut journal)),
    ]
    .into_iter()
    .filter_map(|(name, measured)| Some((name, measured.err()?)))
    .collect::<Vec<_>>()
    {
        journal.fail(name, &error)?;
    }
    let report = journal.finish()?;
    if let Some(path) = args.json.as_ref().filter(|path| path.as_os_str() != "-")
        && let Some(svg) = chart::svg(&report.results, &report.provenance)?
    {
        crate::output::write_text(&path.with_extension("svg"), &svg)?;
    }
    judge(&report)
}

/// The benchmarks of one request at a time.
fn round_trips(bench: &Bench, asked: &dyn Fn(&str) -> bool, journal: &mut Journal) -> Result<()> {
    let wanted = |name: &str| {
        asked(name) || BENCHES.iter().any(|&(other, floor, _)| asked(other) && floor.name() == Some(name))
    };
    if BENCHES.iter().any(|&(name, ..)| wanted(name)) {
        journal.say(Row::HEADING)?;
    }
    for &(name, floor, measure) in BENCHES.iter().filter(|(name, ..)| wanted(name)) {
        if let Some(why) = floor.absent() {
            journal.skip(name, why);
            continue;
        }
        let times = if journal.compares() { REPETITIONS } else { 1 };
        let measured: Result<Vec<Row>> = (0..times).map(|_| measure(bench)).collect();
        let mut rows = match measured {
            Ok(rows) => rows,
            Err(error) => {
                journal.fail(name, &error)?;
                continue;
            }
        };
        rows.sort_by_key(|row| row.p50_ns);
        let ends = [&rows[0], &rows[rows.len() - 1]].map(|row| row.p50_ns as f64);
        let noise = journal.compares().then(|| ends[1] / ends[0].max(1.0) - 1.0);
        let mut row = rows.swap_remove(rows.len() / 2);
        row.name = name.to_owned();
        if let Some(floor) = floor.name() {
            let rows = &journal.report.results;
            let base = rows.iter().find(|row| row.name == floor).map_or(row.p50_ns, |row| row.p50_ns);
            row.ratio_to_floor = row.p50_ns as f64 / base.max(1) as f64;
        }
        journal.row(row, noise, |report, row| report.results.push(row))?;
    }
    Ok(())
}

/// The whole pipeline.
fn pipelines(args: &Args, asked: &dyn Fn(&str) -> bool, journal: &mut Journal) -> Result<()> {
    if !whole::names().any(asked) {
        return Ok(());
    }
    journal.say(whole::Row::HEADING)?;
    let no_device = Baseline::Arithmetic.absent();
    let options = whole::EndToEndOptions {
        seconds: args.duration.as_secs_f64(),
        model: args.model.as_deref(),
        no_device: no_device.as_deref(),
    };
    let absent =
        whole::run(&options, asked, |row| journal.row(row, None, |report, row| report.pipeline.push(row)))?;
    absent.into_iter().for_each(|(name, why)| journal.skip(name, why));
    Ok(())
}

/// Matching.
fn decoders(args: &Args, bench: &Bench, asked: &dyn Fn(&str) -> bool, journal: &mut Journal) -> Result<()> {
    if matching::names().any(asked) {
        journal.say(matching::Row::HEADING)?;
        let options = matching::DecodeOptions {
            shots: args.shots,
            rounds: args.rounds,
            core: args.core.as_deref(),
            cpu: bench.cores.server(),
        };
        let absent = matching::run(&options, asked, |row| {
            journal.row(row, None, |report, row| report.matching.push(row))
        })?;
        // The missing decoders are columns of rows, which are complete without them.
        absent.into_iter().for_each(|(name, why)| journal.skip(name, why));
    }
    if matching::endless::names().any(asked) {
        journal.say(matching::endless::Row::HEADING)?;
        matching::endless::run(args.shots, bench.cores.server(), asked, |row| {
            journal.row(row, None, |report, row| report.matching_endless.push(row))
        })?;
    }
    if matching::patches::names().any(asked) {
        journal.say(matching::patches::Row::HEADING)?;
        let cpus = ringcall::pin::pin_current("bench", None).got;
        matching::patches::run(args.shots, &cpus, asked, |row| {
            journal.row(row, None, |report, row| report.matching_patches.push(row))
        })?;
    }
    Ok(())
}

/// Fails if a row is wrong.
fn judge(report: &Report) -> Result<()> {
    let broken: Vec<&str> =
        report.results.iter().filter(|row| row.lost + row.wrong > 0).map(|row| row.name.as_str()).collect();
    if !broken.is_empty() {
        bail!("requests were lost or answered wrongly in: {}", broken.join(", "));
    }
    let failing: Vec<&str> =
        report.pipeline.iter().filter(|row| row.wrong() > 0).map(|row| row.name).collect();
    if !failing.is_empty() {
        bail!("requests were lost, refused or timed out in: {}", failing.join(", "));
    }
    let differing: Vec<&str> =
        report.matching.iter().filter(|row| row.wrong() > 0).map(|row| row.name).collect();
    if !differing.is_empty() {
        bail!("weights differ from PyMatching's in: {}", differing.join(", "));
    }
    match &report.failed[..] {
        [] => Ok(()),
        failed => {
            let names: Vec<&str> = failed.iter().map(|failed| failed.name).collect();
            bail!("not measured: {}", names.join(", "))
        }
    }
}
