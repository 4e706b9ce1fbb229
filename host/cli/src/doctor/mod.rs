//! `ringcall doctor`: the parts of this machine, what Ringcall can do with each, and remedies for missing parts.
//!
//! The checks open nothing that could change the machine and load no library: they read files under `/proc`, `/sys` and
//! the usual folders, so that any user can run them at any time.
//!
//! `--json FILE` writes the same for programs:
//!
//! ```text
//! {
//!   "schema": 1,                      // raised when a key below changes its meaning or goes
//!   "version": "0.2.0",               // of ringcall
//!   "latency": "fair",                // or "good" or "poor": what this machine's latencies will be like
//!   "ok": 7, "limited": 5, "missing": 5,
//!   "findings": {
//!     "cores": {
//!       "state": "ok",                // or "limited" or "missing"
//!       "found": "16 of 16 cores",    // for people; may change
//!       "purpose": "…",               // for people; may change
//!       "remedy": null,               // for people; a string unless the state is "ok"
//!       "details": { … }              // for programs; `null` where the machine does not say
//!     }, …
//!   }
//! }
//! ```
//!
//! | finding | details |
//! |---|---|
//! | `cpu` | `model` |
//! | `cores` | `online`, `allowed`: lists of core numbers; `quota`: cores' worth of time that the control group grants |
//! | `isolated_cores` | `isolated`, `nohz_full`: lists of core numbers |
//! | `smt` | `active`: whether a core runs two threads |
//! | `governor` | `governors`: their names, each once |
//! | `clock` | `source`: where the kernel takes the time from |
//! | `kernel` | `release`, `realtime`: built as such, `arguments`: those of its command line that matter here |
//! | `huge_pages` | `pools`: list of `page_kib`, `total`, `free`; `transparent`: `always`, `madvise` or `never` |
//! | `memory_lock` | `limit_bytes`: `null` for no limit |
//! | `realtime` | `priority`: the highest allowed, 0 for none; `throttled`: whether the kernel reserves time for others |
//! | `nvidia_driver` | `version`, `open`: whether the kernel module is the open one, `library`: path of `libcuda.so.1` |
//! | `gpus` | `gpus`: list of `model`, `architecture`, `target` (as `sm_90`), `bus`, `accessible` |
//! | `libcudadevrt` | `paths` |
//! | `tensorrt` | `full`, `rtx`, `lean`, `dispatch`: paths of the runtimes; `headers`: paths of `NvInfer.h` |
//! | `rdma_devices` | `devices`: list of `name`, `model`, `firmware`, `interfaces`, `ports`: list of `port`, `link_layer`, `state`, `rate`; `accessible`, `peer_memory` |
//! | `verbs` | `libibverbs`, `libmlx5`, `headers`: paths |
//! | `doca` | `folder`, `version`, `gpunetio`: path of its library, `headers`: path of `doca_gpunetio.h` |
//! | `virtual_machine` | `virtual`, `product`, `steal`: share of time since boot that a hypervisor gave to others |
//! | `load` | `load`: of the last minute, `cores` that this process may use |
//! | `idle_states` | `deepest`: its name, `latency_us`: how long it takes to leave |
//! | `numa` | `nodes`: list of numbers, `devices`: list of `device`, `node` |
//! | `memory` | `total_bytes`, `free_bytes` |
//! | `socket_buffers` | `receive_bytes`, `send_bytes`: the most that a socket gets |
//! | `onnxruntime` | `paths` |
//! | `device_toolchain` | `sources`: paths of the standard library, `programs`: paths of compilers and linkers |
//!
//! Without `--verbose`, the text is an assessment and a list of improvements.

mod assessment;
mod cores;
mod cuda;
mod finding;
mod gpu;
mod kernel;
mod load;
pub(crate) mod machine;
mod memory;
mod network;
mod programs;
mod table;
mod tensorrt;

use anyhow::{Context, Result};
use assessment::{Latency, Requirement};
use finding::{Finding, State};
use machine::Machine;
use serde::{Serialize, Serializer};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Options of `ringcall doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the findings as JSON to FILE, or to standard output (and nothing else) for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show everything that was looked at, with what it is for
    #[arg(long, short)]
    verbose: bool,
    /// Print the commands that would improve this machine, and change nothing
    #[arg(long, conflicts_with_all = ["verbose", "json"])]
    fix: bool,
    /// Print nothing, and end with 1 and a line on standard error unless the machine has these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT,…", conflicts_with_all = ["verbose", "json", "fix"])]
    require: Vec<Requirement>,
    /// Examine the machine whose file system is mounted at this folder
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    root: PathBuf,
}

/// All checks, in the order in which they are shown.
const CHECKS: &[fn(&Machine) -> Finding] = &[
    cores::cpu,
    cores::cores,
    cores::isolated,
    cores::smt,
    cores::governor,
    load::idle_states,
    load::virtual_machine,
    load::load,
    kernel::clock,
    kernel::kernel,
    memory::huge_pages,
    memory::memory_lock,
    kernel::realtime,
    memory::memory,
    load::numa,
    gpu::driver,
    gpu::gpus,
    cuda::libcudadevrt,
    tensorrt::tensorrt,
    programs::onnxruntime,
    programs::device_toolchain,
    load::socket_buffers,
    network::rdma_devices,
    network::verbs,
    network::doca,
];

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    version: &'static str,
    latency: Latency,
    ok: usize,
    limited: usize,
    missing: usize,
    #[serde(serialize_with = "by_key")]
    findings: Vec<Finding>,
}

impl Report {
    fn on(machine: &Machine) -> Self {
        let findings: Vec<Finding> = CHECKS.iter().map(|check| check(machine)).collect();
        let count = |state| findings.iter().filter(|finding| finding.state == state).count();
        Self {
            schema: 1,
            version: env!("CARGO_PKG_VERSION"),
            latency: assessment::latency(&findings).0,
            ok: count(State::Ok),
            limited: count(State::Limited),
            missing: count(State::Missing),
            findings,
        }
    }
}

fn by_key<S: Serializer>(findings: &[Finding], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(findings.iter().map(|finding| (finding.key, finding)))
}

/// Runs the checks and prints the findings. A missing part is not an error unless it is required.
pub(crate) fn run(args: &Args) -> Result<u8> {
    match examine(args) {
        // The reader of the output has closed it: end quietly, as filters do.
        Err(error) if broken_pipe(&error) => Ok(0),
        result => result,
    }
}

fn examine(args: &Args) -> Result<u8> {
    let report = Report::on(&Machine::at(&args.root));
    if !args.require.is_empty() {
        let lacking: Vec<String> =
            args.require.iter().filter_map(|wanted| wanted.lacking(&report.findings)).collect();
        if !lacking.is_empty() {
            crate::usage::tell(&lacking.join("; "));
        }
        return Ok(u8::from(!lacking.is_empty()));
    }
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let text = match (args.fix, args.verbose) {
            (true, _) => assessment::fixes(&report.findings),
            (false, true) => assessment::summary(&report.findings) + "\n" + &table::render(&report.findings),
            (false, false) => {
                assessment::summary(&report.findings) + &assessment::improvements(&report.findings)
            }
        };
        let mut out = anstream::stdout();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")?;
    }
    args.json.as_ref().map_or(Ok(()), |path| crate::output::write_json(path, &report))?;
    Ok(0)
}

fn broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
