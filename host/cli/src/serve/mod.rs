//! `ringcall serve`: a service on a network, until it is told to end.

mod check;
mod device;
mod figures;
mod http;
mod metrics;
mod plugin;
mod rendezvous;
mod served;
mod server;
mod service;

use crate::experiment::ExperimentArgs;
use crate::memory::{Estimate, MemoryLimit};
use crate::output;
use crate::signals::Signals;
use crate::usage::Given;
use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use plugin::Over;
use ringcall::thread::STOP_CHECK_INTERVAL;
use ringcall_roce::{IcrcCheck, PortOptions};
use ringcall_transport::{roce, udp};
use served::Outcome;
use server::Server;
use service::Service;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::net::SocketAddr;
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
    /// The same on the wire; an emulated adapter's queues, served by the unified loop
    Nic,
}

impl TransportArg {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => udp::NAME,
            Self::Roce => roce::NAME,
            Self::Nic => ringcall_sim::socket_nic::NAME,
        }
    }
}

/// How the invariant CRC is checked, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IcrcArg {
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
    /// A persistent kernel on a GPU, which serves `rpc_increment`; the transport has its own thread
    Device,
    /// A loop over an adapter's queues, without a ring (`--transport nic`)
    Unified,
}

/// What a RoCE service is like unless it is told otherwise.
pub(crate) const DEFAULT_PORT: PortOptions = PortOptions::new(64, 1024);

/// A random key, so that the key of an earlier start is worth nothing. The system's randomness seeds the hasher of a hash map.
fn random_key() -> u32 {
    RandomState::new().build_hasher().finish() as u32
}

/// Serves `rpc_increment` and `decode_syndrome` on a network.
///
/// Prints where it is reached as one line of `key=value` pairs, then serves until SIGINT, SIGTERM or
/// --seconds; then answers requests under way, prints its counters and ends with 0 if they balance.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// What requests come over: udp (a datagram a request), roce (RDMA WRITEs by RoCE v2, as an FPGA sends them,
    /// without an adapter), nic (the same on the wire; an emulated adapter's queues, served by the unified loop), or
    /// plugin:LIBRARY (a provider of the bridge interface, whose ring it is)
    #[arg(long, default_value = "udp", value_name = "TRANSPORT")]
    transport: Over,
    /// Local address; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    bind: SocketAddr,
    /// Slots of the ring; with RoCE, also pages of the window
    #[arg(long, default_value_t = DEFAULT_PORT.pages, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    slots: u32,
    /// Bytes of a slot: header and payload [default: 1024; with --preset what a request needs, if that is more]
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    slot_bytes: Option<u32>,
    /// Threads of transport and dispatcher
    #[arg(long, value_enum, default_value = "one")]
    threads: ThreadsArg,
    /// What serves requests [default: host; with --transport nic unified]
    #[arg(long, value_enum)]
    dispatcher: Option<DispatcherArg>,
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// RoCE: queue pair number
    #[arg(long, default_value_t = DEFAULT_PORT.qp)]
    qp: u32,
    /// RoCE: key to the window [default: a random one, which the first line of output says]
    #[arg(long, default_value_t = random_key(), hide_default_value = true)]
    rkey: u32,
    /// RoCE: the queue pair that answers are addressed to
    #[arg(long, default_value_t = DEFAULT_PORT.remote_qp)]
    remote_qp: u32,
    /// UDP: who is served, as IP addresses with any port or one; may be repeated; others are counted and not
    /// answered [default: every peer]. RoCE: the one peer, which gets every answer, at port 4791 unless another
    /// is given, since adapters listen there alone [default: the peer that brings the key]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    peer: Vec<udp::AllowedPeer>,
    /// RoCE: how the invariant CRC of packets is checked
    #[arg(long, value_enum, default_value = "recover")]
    icrc: IcrcArg,
    /// RoCE: the most peers known at a time, each with its own window; a newcomer takes the place of the peer
    /// that was silent longest, and its answers that are due are lost [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    peers: Option<u16>,
    /// RoCE: tell queue pair and key to any client that asks at this TCP address, as the reference's
    /// rendezvous does
    #[arg(long, value_name = "ADDRESS")]
    rendezvous: Option<SocketAddr>,
    /// End after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// How long a stop waits for requests under way
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    stop_ms: u64,
    /// Serve the counters for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Write the final counters as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Arguments of the plug-in
    #[arg(last = true, value_name = "ARGUMENT")]
    plugin_args: Vec<String>,
}

impl Args {
    /// Bytes of a slot.
    fn slot_bytes(&self) -> u32 {
        let least = DEFAULT_PORT.page_bytes;
        let preset = || self.experiment.preset.as_ref().map_or(least, |preset| preset.slot_bytes(least));
        self.slot_bytes.unwrap_or_else(preset)
    }
}

/// What the service takes beside its decoder.
fn around(args: &Args, decoding: Estimate) -> Estimate {
    match &args.transport {
        // The plug-in has its own ring.
        Over::Plugin(_) => decoding,
        Over::Own(TransportArg::Udp) => decoding.ring(args.slots, args.slot_bytes()),
        Over::Own(_) => {
            let peers = u32::try_from(service::peers(args)).unwrap_or(u32::MAX);
            decoding.ring(args.slots, args.slot_bytes()).windows(peers, args.slots, args.slot_bytes())
        }
    }
}

pub(crate) fn run(args: &Args, given: &Given<'_>) -> Result<ExitCode> {
    check::check(args, given)?;
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let signals = Signals::listen()?;
    let problem = if args.dispatcher == Some(DispatcherArg::Device) {
        args.memory.admit(&around(args, Estimate::process()))?;
        None
    } else {
        Some(args.experiment.problem(args.memory, |decoding| around(args, decoding))?)
    };
    let service = Service::start(args, given, problem)?;
    let metrics = args.metrics.map(|address| metrics::start(address, service.figures())).transpose()?;
    let rendezvous = args.rendezvous.zip(service.side(args));
    let rendezvous = rendezvous.map(|(address, side)| rendezvous::start(address, side)).transpose()?;
    let mut line = service.line();
    for (key, address) in [
        ("metrics", metrics.as_ref().map(Server::address)),
        ("rendezvous", rendezvous.as_ref().map(Server::address)),
    ] {
        if let Some(address) = address {
            line += &format!(" {key}={address}");
        }
    }
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("standard output")?;

    signals.run();
    let begin = Instant::now();
    let limit = args.seconds.map(Duration::from_secs);
    while signals.received().is_none() && limit.is_none_or(|limit| begin.elapsed() < limit) {
        std::thread::sleep(STOP_CHECK_INTERVAL);
    }
    if let Some(rendezvous) = rendezvous {
        rendezvous.stop();
    }
    let outcome = service.stop(Duration::from_millis(args.stop_ms));
    if let Some(metrics) = metrics {
        metrics.stop();
    }
    publish(args, &outcome)?;
    if outcome.stuck {
        bail!("a thread did not come back");
    }
    match outcome.balance {
        (0, 0) => Ok(ExitCode::SUCCESS),
        (frames, requests) => bail!("{frames} frames and {requests} requests are unaccounted for"),
    }
}

fn publish(args: &Args, outcome: &Outcome) -> Result<()> {
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let (frames, requests) = outcome.balance;
        let mut out = std::io::stdout();
        writeln!(out, "{}\nunaccounted: {frames} frames, {requests} requests", outcome.text)
            .and_then(|()| out.flush())
            .context("standard output")?;
    }
    args.json.as_ref().map_or(Ok(()), |path| output::write_json(path, &outcome.json))
}
