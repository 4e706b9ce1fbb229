//! `ringcall serve`: a service on a network, until it is told to end.

mod metrics;
mod plugin;

use crate::experiment::{Experiment, Syndromes};
use crate::output;
use crate::signals::Signals;
use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use metrics::Metrics;
use plugin::{Over, Plugin};
use ringcall::dispatcher::{self, Running, Wired};
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_roce::PAGE_UNIT_BYTES;
use ringcall_transport::{
    Endpoint, Link, OneThread, RingFilling, StopReport, ThreadOptions, Threaded, Unified, Watch, Wire, roce,
    udp,
};
use ringcall_wire::function::names;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What requests come over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    /// A datagram a request
    Udp,
    /// RDMA WRITEs by RoCE v2, as an FPGA sends them, without an adapter
    Roce,
}

impl TransportArg {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => udp::NAME,
            Self::Roce => roce::NAME,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadsArg {
    /// Transport and dispatcher on one thread
    One,
    /// The transport on a thread of its own
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DispatcherArg {
    /// A thread of this process
    Host,
    /// A persistent kernel (not served by this command yet)
    Device,
}

/// Serves `rpc_increment` and `decode_syndrome` on a network.
///
/// Prints where it is reached as one line of `key=value` pairs, then serves until SIGINT, SIGTERM or --seconds; then
/// answers what is under way, prints its counters and ends with 0 if they balance.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// What requests come over: udp (a datagram a request), roce (RDMA WRITEs by RoCE v2, as an FPGA sends them,
    /// without an adapter), or plugin:LIBRARY (a provider of the bridge interface, whose ring it is)
    #[arg(long, default_value = "udp", value_name = "TRANSPORT")]
    transport: Over,
    /// Local address; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    bind: SocketAddr,
    /// Slots of the ring; with RoCE, also pages of the window
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    slots: u32,
    /// Bytes of a slot: header and payload
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    slot_bytes: u32,
    /// Threads of transport and dispatcher
    #[arg(long, value_enum, default_value = "one")]
    threads: ThreadsArg,
    /// What serves the ring
    #[arg(long, value_enum, default_value = "host")]
    dispatcher: DispatcherArg,
    #[command(flatten)]
    experiment: Experiment,
    /// RoCE: queue pair number
    #[arg(long, default_value_t = 0x12)]
    qp: u32,
    /// RoCE: key to the window
    #[arg(long, default_value_t = 0xBEEF)]
    rkey: u32,
    /// RoCE: the queue pair that answers are addressed to
    #[arg(long, default_value_t = 2)]
    remote_qp: u32,
    /// RoCE: the one peer, which gets every answer [default: whoever brings the key]
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddrV4>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// How long a stop waits for what is under way
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    stop_ms: u64,
    /// Serve the counters for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Write the final counters as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Arguments of the plug-in
    #[arg(last = true, value_name = "ARGUMENT")]
    plugin_args: Vec<String>,
}

/// Signals are looked for so often.
const LOOK: Duration = Duration::from_millis(10);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.dispatcher == DispatcherArg::Device {
        bail!("--dispatcher device is not served by this command yet: take --dispatcher host");
    }
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let signals = Signals::listen()?;
    let plugin = Plugin::load(&args.transport, &args.plugin_args)?;
    let ring = match &plugin {
        Some(plugin) => plugin.ring()?,
        None => Ring::allocate(RingConfig { slots: args.slots, slot_bytes: args.slot_bytes })?,
    };
    let table = functions(args, &ring)?;
    let dispatcher = HostDispatcher::builder(&ring, table).build()?;
    let counters = dispatcher.watch();
    let service = match (&args.transport, args.bind) {
        (Over::Plugin(_), _) => match plugin {
            Some(plugin) => plugin.start(&ring, dispatcher, args.threads)?,
            None => bail!("the plug-in was not loaded"),
        },
        (Over::Own(TransportArg::Udp), address) => {
            let options = udp::Options { address, ..Default::default() };
            Service::start(udp::Udp::bind(&options)?, &ring, dispatcher, args.threads)?
        }
        (Over::Own(TransportArg::Roce), SocketAddr::V4(address)) => {
            let wire = roce::Roce::bind(&roce_options(args, address, &ring))?;
            Service::start(wire, &ring, dispatcher, args.threads)?
        }
        (Over::Own(TransportArg::Roce), address) => {
            bail!("{address} is no IPv4 address: RoCE is served over IPv4")
        }
    };
    let metrics =
        args.metrics.map(|address| Metrics::start(address, service.watch(), counters.clone())).transpose()?;
    announce(service.endpoint(), metrics.as_ref().and_then(Metrics::address))?;

    let begin = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    while signals.received().is_none() && limit.is_none_or(|limit| begin.elapsed() < limit) {
        std::thread::sleep(LOOK);
    }
    let (report, dispatched) = service.stop(Duration::from_millis(args.stop_ms));
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    publish(args, &report, &counters.counters())?;
    if report.stuck || dispatched.is_none_or(|stop| stop.stuck) {
        bail!("a thread did not come back");
    }
    match report.statistics.balance() {
        (0, 0) => Ok(ExitCode::SUCCESS),
        (frames, slots) => bail!("{frames} frames and {slots} requests are unaccounted for"),
    }
}

fn functions(args: &Args, ring: &Ring) -> Result<FunctionTable> {
    let problem = args.experiment.problem()?;
    let mut syndromes = Syndromes::new(&problem)?;
    let decode = move |request: &[u8], result: &mut [u8]| syndromes.answer(request, result);
    FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .host_call_with_schema(names::DECODE_SYNDROME, problem.schema(), decode)
        .build(ring)
        .context("give --slot-bytes more, or decode a smaller experiment")
}

fn roce_options(args: &Args, address: SocketAddrV4, ring: &Ring) -> roce::Options {
    let geometry = ring.geometry();
    roce::Options {
        address,
        qp: args.qp,
        key: args.rkey,
        remote_qp: args.remote_qp,
        peer: args.peer,
        pages: args.slots,
        page_bytes: geometry.rx_stride().max(geometry.tx_stride()).next_multiple_of(PAGE_UNIT_BYTES),
        ..Default::default()
    }
}

/// One line, for whoever started this.
fn announce(endpoint: &Endpoint, metrics: Option<SocketAddr>) -> Result<()> {
    let mut line = format!("{endpoint} ip={}", endpoint.address.ip());
    if let Some(metrics) = metrics {
        line += &format!(" metrics={metrics}");
    }
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output")
}

fn publish(args: &Args, report: &StopReport, dispatcher: &dispatcher::Snapshot) -> Result<()> {
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let mut line = String::new();
        for (name, n) in dispatcher.named() {
            line += if line.is_empty() { "" } else { ", " };
            line += &format!("{name} {n}");
        }
        let (frames, slots) = report.statistics.balance();
        let mut out = std::io::stdout();
        writeln!(out, "{report}\ndispatcher: {line}\nunaccounted: {frames} frames, {slots} requests")
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    let Some(path) = &args.json else { return Ok(()) };
    let counts = |named: &mut dyn Iterator<Item = (&'static str, u64)>| {
        Value::Object(named.map(|(name, n)| (name.to_owned(), n.into())).collect::<Map<_, _>>())
    };
    let (frames, slots) = report.statistics.balance();
    let summary = json!({
        "drained": report.drained,
        "dropped": report.dropped,
        "refused": report.refused,
        "unaccounted": { "frames": frames as i64, "requests": slots as i64 },
        "transport": counts(&mut report.statistics.named()),
        "dispatcher": counts(&mut dispatcher.named()),
    });
    output::write_json(path, &summary)
}

/// Transport and dispatcher, running.
enum Service {
    One(OneThread),
    Own(Box<dyn RingFilling>, HostDispatcher<Running>),
}

impl Service {
    fn start<W: Wire + 'static>(
        wire: W,
        ring: &Ring,
        dispatcher: HostDispatcher<Wired>,
        threads: ThreadsArg,
    ) -> Result<Self> {
        Self::run(Link::attach(wire, ring)?, dispatcher, threads)
    }

    fn run(
        link: impl Unified + 'static,
        dispatcher: HostDispatcher<Wired>,
        threads: ThreadsArg,
    ) -> Result<Self> {
        let options = ThreadOptions::default();
        Ok(match threads {
            ThreadsArg::One => Self::One(OneThread::start(link, dispatcher, &options)?),
            ThreadsArg::Own => {
                let dispatcher = dispatcher.start()?;
                Self::Own(Box::new(Threaded::start(link, &options)?), dispatcher)
            }
        })
    }

    fn endpoint(&self) -> &Endpoint {
        match self {
            Self::One(service) => service.endpoint(),
            Self::Own(transport, _) => transport.endpoint(),
        }
    }

    fn watch(&self) -> Watch {
        match self {
            Self::One(service) => service.watch(),
            Self::Own(transport, _) => transport.watch(),
        }
    }

    /// The transport first, so that what is under way is still answered.
    fn stop(self, deadline: Duration) -> (StopReport, Option<dispatcher::StopReport>) {
        match self {
            Self::One(service) => {
                let (report, stopped) = service.stop(deadline);
                (report, stopped.map(|stopped| stopped.report))
            }
            Self::Own(transport, dispatcher) => {
                let report = transport.stop(deadline);
                (report, Some(dispatcher.stop(deadline).report))
            }
        }
    }
}
