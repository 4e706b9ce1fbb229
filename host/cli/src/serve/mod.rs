//! `ringcall serve`: a service on a network, until it is told to end.

mod adapter;
mod check;
mod counters;
pub(crate) mod decoding;
mod device;
mod hsb;
mod http;
mod log;
mod metrics;
mod model;
mod plugin;
mod rendezvous;
mod sandbox;
mod served;
mod server;
mod service;
mod supervisor;

use crate::decoder::DeadlineArgs;
use crate::experiment::ExperimentArgs;
use crate::memory::{Estimate, MemoryLimit};
use crate::number;
use crate::output;
use crate::side::SideArgs;
use crate::signals::Signals;
use crate::style;
use crate::tag_key::TagArgs;
use crate::usage::{Given, misuse};
use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use log::Watchman;
use plugin::Over;
use ringcall::thread::{STOP_CHECK_INTERVAL, StopFlag};
use ringcall_roce::introduced::introductions;
use ringcall_roce::{IcrcCheck, PathMtu, PortOptions, random_key};
use ringcall_transport::{roce, udp, verbs};
use sandbox::Sandbox;
use served::Outcome;
use server::Server;
use service::Service;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The transport of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    /// A datagram a request
    Udp,
    /// RDMA WRITEs by RoCE v2, as an FPGA sends them, without an adapter
    Roce,
    /// The same on the wire; an emulated adapter's queues, served by the unified loop
    Nic,
    /// The same on the wire, by an RDMA adapter through libibverbs
    Verbs,
    /// The same on the wire; queues that a transport context names, as HSB and DOCA hand them out
    Hsb,
}

impl TransportArg {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => udp::NAME,
            Self::Roce => roce::NAME,
            Self::Nic => ringcall_sim::socket_nic::NAME,
            Self::Verbs => verbs::NAME,
            Self::Hsb => "hsb",
        }
    }
}

/// The service of a queue pair, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum QpTypeArg {
    /// Unreliable connected: a lost packet is counted, and its request not answered
    Uc,
    /// Reliable connected: packets are acknowledged, and sent again until they are
    Rc,
}

/// How the invariant CRC is checked, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IcrcArg {
    /// It is right for some IP identification, which a socket does not see: packets of adapters pass
    Recover,
    /// It is right for identification 0, which `ringcall emulate` sends: finds more damage
    Zero,
    /// Not at all
    Ignore,
}

impl From<IcrcArg> for IcrcCheck {
    fn from(icrc: IcrcArg) -> Self {
        match icrc {
            IcrcArg::Recover => Self::Recover,
            IcrcArg::Zero => Self::Zero,
            IcrcArg::Ignore => Self::Ignore,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadsArg {
    /// Transport and dispatcher on one thread
    One,
    /// The transport on its own thread
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DispatcherArg {
    /// A thread of this process
    Host,
    /// Persistent kernels on a GPU, which serve `rpc_increment`, or with --engine relay `decode_syndrome`; the transport has its own thread
    Device,
    /// A loop over an adapter's queues, without a ring (`--transport nic`)
    Unified,
}

/// What `decode_syndrome` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServiceArg {
    /// A decoder of the experiment
    Syndromes,
    /// A model by itself: requests are its inputs, answers its outputs
    Decoder,
    /// A model, and matching of what it leaves, by workers that take it from a queue
    Predecoder,
}

/// The default RoCE queue pair of a service.
pub(crate) const DEFAULT_PORT: PortOptions = PortOptions::new(64, 1024);

/// Serves `rpc_increment` and `decode_syndrome` (with --weights and --readout `decode_weighted` and `decode_readout`) on a network, or with --config the decoders of a file by CUDA-Q QEC's calls.
///
/// Prints where it is reached as one line of `key=value` pairs, then serves until SIGINT, SIGTERM or
/// --duration; then answers requests under way, prints its counters and ends with 0 if they balance.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Args {
    /// The transport of the requests: udp (a datagram a request), roce (RDMA WRITEs by RoCE v2, as an FPGA sends them,
    /// without an adapter), nic (the same on the wire; an emulated adapter's queues, served by the unified loop), verbs
    /// (the same on the wire, by an RDMA adapter: see --device), hsb (the same on the wire; queues that a transport context
    /// names: of --device emulated, or of an mlx5 adapter with --dispatcher device), or plugin:LIBRARY (a provider of the bridge interface, whose ring it is)
    #[arg(long, default_value = "udp", value_name = "TRANSPORT")]
    transport: Over,
    /// Local address; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    bind: SocketAddr,
    /// Verbs: the RDMA device, as `rdma link` names it; its queue pair has one peer: give --peer with --remote-qp, or
    /// --rendezvous
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Slots of the ring, 1048576 at most; with RoCE also pages of the window, and 4096 at most, as where a GPU polls them
    #[arg(long, default_value_t = DEFAULT_PORT.pages, value_parser = number::within::<u32>(1, 1_048_576))]
    slots: u32,
    /// Bytes of a slot: header and payload; with --preset what a request needs, if that is more
    #[arg(long, default_value_t = DEFAULT_PORT.page_bytes, value_parser = number::within::<u32>(64, 1_048_576))]
    slot_bytes: u32,
    /// Threads of transport and dispatcher
    #[arg(long, value_enum, default_value = "one")]
    threads: ThreadsArg,
    /// What serves requests [default: host; with --transport nic unified]
    #[arg(long, value_enum)]
    dispatcher: Option<DispatcherArg>,
    /// With --dispatcher device and --transport nic or hsb: the kernels that work the adapter's queues [default: unified]
    #[arg(long, value_enum)]
    kernels: Option<device::KernelsArg>,
    /// With --transport hsb and an adapter: where its queues and slots are [default: gpu]
    #[arg(long, value_enum)]
    queues: Option<adapter::QueuesArg>,
    /// Serve the decoders of this YAML file by `enqueue_syndromes`, `get_corrections` and `reset_decoder`, each decoder on a ring
    /// and a port of its own: from that of --bind on, or free ones. Slots have room for a whole decode, unless --slot-bytes is given
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// With --config: check the file, say what it takes, and end
    #[arg(long, requires = "config")]
    check: bool,
    /// With --config or --stream: what corrections say after a second decode whose first was not cleared [default: volume]
    #[arg(long, value_enum)]
    frame: Option<decoding::FrameArg>,
    /// Write the experiment as a file for --config, whose measurements are its detectors, to FILE or to standard output for `-`,
    /// and end
    #[arg(long, value_name = "FILE")]
    write_config: Option<PathBuf>,
    /// Runs of any length, decoded round by round as their measurements come: serve decoders of the surface code's experiment as
    /// --config does, or with --write-config write them. --rounds is of the short run that describes them, at least 7
    #[arg(long)]
    stream: bool,
    /// With --write-config or --stream: how many decoders of the experiment there are [default: 1]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1, 256))]
    decoders: Option<u16>,
    /// With --stream: how many cores share the runs of each decoder [default: 1]
    #[arg(long, value_name = "N", requires = "stream", value_parser = number::within::<u16>(1, 64))]
    cores: Option<u16>,
    /// What `decode_syndrome` is: a decoder of the experiment (syndromes), a model by itself (decoder: requests are its inputs, answers
    /// its outputs), or a model and matching of what it leaves (predecoder)
    #[arg(long, value_enum, default_value = "syndromes")]
    service: ServiceArg,
    #[command(flatten)]
    model: model::ModelArgs,
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    deadline: DeadlineArgs,
    #[command(flatten)]
    side: SideArgs,
    /// RoCE: queue pair number
    #[arg(long, default_value_t = DEFAULT_PORT.qp, value_name = "N", value_parser = number::within::<u32>(0, 0xFF_FFFF))]
    qp: u32,
    /// RoCE: key to the window [default: a random one, which the first line of output says]
    #[arg(long, default_value_t = random_key(), hide_default_value = true)]
    rkey: u32,
    /// RoCE: the queue pair that answers are addressed to
    #[arg(long, default_value_t = DEFAULT_PORT.remote_qp, value_name = "N", value_parser = number::within::<u32>(0, 0xFF_FFFF))]
    remote_qp: u32,
    /// UDP: the peers that are served, as IP addresses with any port or one; may be repeated; others are counted and not
    /// answered [default: every peer]. RoCE: one peer, which gets every answer, at port 4791 unless another is given,
    /// since adapters listen there alone; or several, without ports, each answered where it sends from; others are
    /// counted, and the rendezvous does not speak to them [default: peers that bring the key]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    peer: Vec<udp::AllowedPeer>,
    #[command(flatten)]
    tags: TagArgs,
    /// RoCE: how the invariant CRC of packets is checked
    #[arg(long, value_enum, default_value = "recover")]
    icrc: IcrcArg,
    /// RoCE: the path MTU in bytes, 256, 512, 1024, 2048 or 4096: longer answers are several packets. The peer's is
    /// the same; on Ethernet of 1500 bytes RDMA programs have 1024
    #[arg(long, default_value_t = PathMtu::default(), value_name = "BYTES")]
    mtu: PathMtu,
    /// RoCE: the most peers known at a time, each with its own window; a newcomer takes the place of the peer
    /// that was silent longest, and its answers that are due are lost [default: 64]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1, 4096))]
    peers: Option<u16>,
    /// RoCE: the service of the queue pair: uc (unreliable connected, as an FPGA has it) or rc (reliable connected: each
    /// packet is acknowledged and sent again until it is, with one peer: give --peer or --rendezvous)
    #[arg(long, value_enum, default_value = "uc")]
    qp_type: QpTypeArg,
    /// RoCE with --qp-type rc: the first packet sequence number, the same in both directions
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = number::within::<u32>(0, 0xFF_FFFF))]
    psn: u32,
    /// RoCE: exchange queue pair, key and IP address with any client that asks at this TCP address, as the reference's
    /// rendezvous does: its answers then go to its queue pair, at port 4791 unless --peer says another
    #[arg(long, value_name = "ADDRESS")]
    rendezvous: Option<SocketAddr>,
    /// End after so long, in s
    #[arg(long, alias = "seconds", value_name = "TIME", value_parser = number::some_seconds)]
    duration: Option<Duration>,
    /// How long a stop waits for requests under way, in ms. After half of it the stop cancels decodes by Relay-BP, whose answers
    /// are then the best so far
    #[arg(long, alias = "stop-ms", default_value = "1s", value_name = "TIME", value_parser = number::milliseconds)]
    stop_timeout: Duration,
    /// Serve the counters for Prometheus at http://ADDRESS/metrics, and /healthz and /readyz beside them
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Let the process open files and call the system as it likes while it serves. By default it reads and writes nothing
    /// but --json's folder, connects to nobody and starts no process, as far as the kernel has Landlock and seccomp; its
    /// line names the parts that are on (sandbox=files,calls). Libraries, GPUs and adapters are served without
    #[arg(long)]
    no_sandbox: bool,
    /// The format of lines on standard error, which are those of level `warn` and above, or what RUST_LOG says
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    log_format: log::LogFormatArg,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Write the final counters as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show at the end what was not counted, too
    #[arg(long, short)]
    verbose: bool,
    /// Arguments of the plug-in
    #[arg(last = true, value_name = "ARGUMENT")]
    plugin_args: Vec<String>,
}

impl Args {
    /// These options, with those that `--engine` decides.
    ///
    /// # Errors
    /// [`Misuse`](crate::usage::Misuse): another decoder, dispatcher or transport is asked for.
    fn with_engine(&self, given: &Given<'_>) -> Result<Self> {
        let mut args = self.clone();
        if self.model.is_relay() {
            given.refuse(&["service"], "--engine relay")?;
            if !matches!(self.transport, Over::Own(TransportArg::Udp | TransportArg::Roce)) {
                bail!(misuse("--engine relay is served over --transport udp or roce"));
            }
            if !matches!(self.dispatcher, None | Some(DispatcherArg::Device)) {
                bail!(misuse("--engine relay is served by the GPU's dispatcher: leave --dispatcher out"));
            }
            args.dispatcher = Some(DispatcherArg::Device);
            args.experiment.decoder = args.experiment.decoder.by_relay()?;
        }
        Ok(args)
    }

    /// Bytes of a slot; with a preset at least those that its requests need.
    fn slot_bytes(&self) -> u32 {
        let least = self.slot_bytes;
        let measurements = self.experiment.measurements;
        self.experiment.preset.as_ref().map_or(least, |preset| preset.slot_bytes(least, measurements))
    }
}

/// The service's memory besides its decoder.
fn around(args: &Args, decoding: Estimate) -> Estimate {
    match &args.transport {
        // A plug-in has a ring of its own.
        Over::Plugin(_) => decoding,
        Over::Own(TransportArg::Udp | TransportArg::Verbs) => decoding.ring(args.slots, args.slot_bytes()),
        Over::Own(_) => {
            let peers = u32::try_from(service::peers(args)).unwrap_or(u32::MAX);
            let page_bytes = args.slot_bytes() + args.tags.bytes() as u32;
            decoding.ring(args.slots, args.slot_bytes()).windows(peers, args.slots, page_bytes)
        }
    }
}

pub(crate) fn run(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    signals.keep_hang_ups()?;
    log::start(args.log_format);
    if let Some(path) = &args.config {
        return decoding::run(args, given, path, signals);
    }
    if args.stream && args.write_config.is_none() {
        return decoding::stream(args, given, signals);
    }
    if args.write_config.is_none() {
        given.refuse(&["decoders"], "a service of one experiment: give --stream or --write-config")?;
    }
    let args = &args.with_engine(given)?;
    check::check(args, given)?;
    if let Some(path) = &args.write_config {
        return decoding::write(args, path);
    }
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let busy = style::Busy::new("building the decoder");
    let decodes = args.dispatcher != Some(DispatcherArg::Device) || args.model.is_relay();
    let problem = if !decodes || args.service == ServiceArg::Decoder {
        args.memory.admit(&around(args, Estimate::process()))?;
        None
    } else {
        let experiment = match args.service {
            ServiceArg::Predecoder => &args.experiment.after_a_network(),
            ServiceArg::Syndromes | ServiceArg::Decoder => &args.experiment,
        };
        let problem = experiment.problem(args.memory, |decoding| around(args, decoding))?;
        Some(args.deadline.limit(problem)?)
    };
    drop(busy);
    let sandbox = Sandbox::begin(args)?;
    let (introducer, heard) = introductions();
    let service = Service::start(args, given, problem, args.rendezvous.is_some().then_some(heard))?;
    let (counters, ending) = (service.counters(), StopFlag::default());
    let serve_metrics = |address| metrics::start(address, Arc::clone(&counters), ending.clone());
    let metrics = args.metrics.map(serve_metrics).transpose()?;
    let rendezvous = args.rendezvous.zip(service.side());
    let rendezvous = rendezvous
        .map(|(address, side)| rendezvous::start(address, side, introducer, check::hosts(args)?))
        .transpose()?;
    let mut line = service.line();
    for (key, address) in [
        ("metrics", metrics.as_ref().map(Server::address)),
        ("rendezvous", rendezvous.as_ref().map(Server::address)),
    ] {
        if let Some(address) = address {
            line += &format!(" {key}={address}");
        }
    }
    line += &sandbox.end()?;
    // Before the line is printed, since a program that reads it may tell this process to end at once.
    signals.run();
    let mut out = std::io::stdout();
    say(&mut out, &line)?;

    let mut turn = |hung_up| {
        if hung_up {
            tracing::warn!(
                "SIGHUP: this service has no --config to read again; `ringcall serve --write-config FILE` with a model writes one"
            );
        }
    };
    serve_until_told(args, signals, &line, &mut Watchman::new(counters), &mut turn);
    ending.set();
    if let Some(rendezvous) = rendezvous {
        rendezvous.stop();
    }
    let outcome = service.stop(args.stop_timeout);
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    publish(args, &outcome)?;
    if outcome.stuck {
        bail!("a thread did not come back");
    }
    match outcome.balance {
        (0, 0) => Ok(0),
        (frames, requests) => bail!("{frames} frames and {requests} requests are unaccounted for"),
    }
}

/// Prints the service's address: for programs in one line, on a terminal in as many as necessary, from which it can be
/// copied.
fn say(out: &mut std::io::Stdout, line: &str) -> Result<()> {
    let line = if out.is_terminal() { style::paragraph("", 0, line) } else { format!("{line}\n") };
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Waits for a signal or the end of --duration, and calls `turn` repeatedly with whether a hang-up has come. A service
/// manager gets `line`, and regular signs of life.
fn serve_until_told(
    args: &Args,
    signals: &Signals,
    line: &str,
    watchman: &mut Watchman,
    turn: &mut dyn FnMut(bool),
) {
    let mut supervisor = supervisor::Supervisor::ready(line);
    signals.run();
    tracing::info!(endpoint = line, "serving");
    let begin = Instant::now();
    while signals.received().is_none() && args.duration.is_none_or(|limit| begin.elapsed() < limit) {
        std::thread::sleep(STOP_CHECK_INTERVAL);
        supervisor.alive();
        watchman.check();
        turn(signals.take_reload());
    }
    tracing::info!(signal = signals.received(), seconds = begin.elapsed().as_secs_f64(), "stopping");
    supervisor.stopping();
}

fn publish(args: &Args, outcome: &Outcome) -> Result<()> {
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let mut out = std::io::stdout();
        out.write_all(outcome.shown(args.verbose).as_bytes())
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    args.json.as_ref().map_or(Ok(()), |path| output::write_json(path, &outcome.json))
}
