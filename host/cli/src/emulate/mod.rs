//! `ringcall emulate`: the FPGA's side of a service's wire.

mod adapter;
mod datagrams;
mod decoding;
mod faulty;
mod measurements;
mod side;
mod summary;
mod target;
mod work;

use crate::decoder::DecoderArgs;
use crate::experiment::ExperimentArgs;
use crate::memory::MemoryLimit;
use crate::number;
use crate::output;
use crate::serve::{IcrcArg, QpTypeArg, TransportArg};
use crate::side::SideArgs;
use crate::signals::{self, Signals};
use crate::style;
use crate::tag_key::TagArgs;
use crate::usage::{Given, misuse};
use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum};
use ringcall::thread::STOP_CHECK_INTERVAL;
use ringcall_roce::{PathMtu, ROCE_PORT, RoceSocket, rendezvous};
use ringcall_sim::fpga::{
    EMULATOR_QP, Exchange, Faults, Player, PlayerConfig, PlayerTarget, Report, TimeFormat,
};
use ringcall_transport::{CallerOptions, Tagged};
use ringcall_wire::header::RequestHeader;
use std::cell::Cell;
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use summary::Summary;
use target::Target;
use work::{Asked, Checker, FunctionArg, Source};

/// How long to wait for answers after a signal.
const GRACE_PERIOD: Duration = Duration::from_millis(1500);

/// The form of a time stamp in a request's 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimeStampsArg {
    /// Nanoseconds since 1970
    Nanoseconds,
    /// Seconds in the upper half, nanoseconds in the lower, as the bridge's hardware writes PTP time
    SecondsNanoseconds,
}

impl From<TimeStampsArg> for TimeFormat {
    fn from(stamps: TimeStampsArg) -> Self {
        match stamps {
            TimeStampsArg::Nanoseconds => Self::Nanoseconds,
            TimeStampsArg::SecondsNanoseconds => Self::SecondsNanoseconds,
        }
    }
}

/// Sends requests to a service, checks every answer, and accounts for each request.
///
/// Ends with 0 only if every request was answered rightly and once, but for those lost on purpose.
#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// The line that `ringcall serve` prints, or an address
    #[arg(long, value_name = "ENDPOINT")]
    connect: String,
    /// The transport of the requests [default: the endpoint's]
    #[arg(long, value_enum)]
    transport: Option<TransportArg>,
    /// The protocol: requests of one function, or with --config a decoding server's calls
    #[arg(long, value_enum, default_value = "rpc")]
    protocol: ProtocolArg,
    /// --protocol decoding: the file that the server was given. Shots are sampled from its errors
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// --protocol decoding: in how many calls the measurements of a decode are sent, the last together with the question for its
    /// corrections
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = number::within::<u32>(1, 4096))]
    parts: u32,
    /// --protocol decoding: rounds of a run of a decoder of runs of any length, each sent in a call of its own
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = number::within::<u32>(1, 10_000_000))]
    run_rounds: u32,
    /// The function to call
    #[arg(long, value_enum, default_value = "increment")]
    function: FunctionArg,
    #[command(flatten)]
    experiment: ExperimentArgs,
    #[command(flatten)]
    side: SideArgs,
    /// Requests to send; --protocol decoding: volumes, dealt to the decoders in turn
    #[arg(long, alias = "shots", default_value = "10_000", value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    requests: u64,
    /// Requests a second [default: as many as there is room in flight]
    #[arg(long, value_name = "PER-SECOND")]
    rate: Option<f64>,
    /// The most requests under way; with RoCE, no more than the service has pages
    #[arg(long, default_value_t = 16, value_parser = number::within::<u32>(1, 4096))]
    in_flight: u32,
    /// Payload bytes of `increment`
    #[arg(long, default_value_t = 32, value_name = "BYTES", value_parser = number::within::<u32>(0, 16_000))]
    payload: u32,
    /// A request without an answer after so long, in ms, is given up
    #[arg(long, alias = "timeout-ms", default_value = "1s", value_name = "TIME", value_parser = number::some_milliseconds)]
    timeout: Duration,
    /// Probability that a packet is lost on purpose
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    loss: f64,
    /// Probability that a packet is sent twice
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    duplicate: f64,
    /// Probability that a packet is sent after up to four later ones
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    reorder: f64,
    /// RoCE: each request ends in a metadata block of 128 bytes, as a camera's frames do
    #[arg(long)]
    metadata: bool,
    /// RoCE: how requests' time stamps, which answers have to echo, are written
    #[arg(long, value_enum, default_value = "nanoseconds")]
    time_stamps: TimeStampsArg,
    /// RoCE: ask this TCP address for queue pair, key and IP address, as the reference's rendezvous does; --connect says
    /// the rest
    #[arg(long, value_name = "ADDRESS")]
    rendezvous: Option<SocketAddr>,
    /// Verbs: the RDMA device, as `rdma link` names it; its queue pair is told to the service by --rendezvous
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// RoCE: our own address, to which answers come; adapters send them to port 4791 alone [default: the address of
    /// the route to the service, and a free port, or with --rendezvous 4791]
    #[arg(long, value_name = "ADDRESS:PORT")]
    bind: Option<SocketAddrV4>,
    /// RoCE: how the invariant CRC of answers is checked
    #[arg(long, value_enum, default_value = "recover")]
    icrc: IcrcArg,
    /// RoCE: the path MTU in bytes, 256, 512, 1024, 2048 or 4096: longer requests are several packets. The service's is
    /// the same
    #[arg(long, default_value_t = PathMtu::default(), value_name = "BYTES")]
    mtu: PathMtu,
    /// RoCE: the service of the queue pair: uc (unreliable connected) or rc (reliable connected: requests are sent again
    /// until they are acknowledged) [default: the endpoint's]
    #[arg(long, value_enum)]
    qp_type: Option<QpTypeArg>,
    /// RoCE: the first packet sequence number; with --qp-type rc the same in both directions [default: the endpoint's, or 0;
    /// with --qp-type uc one of the clock's]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(0, 0xFF_FFFF))]
    psn: Option<u32>,
    #[command(flatten)]
    tags: TagArgs,
    /// Seed of shots and faults
    #[arg(long, default_value_t = 1, value_parser = number::count)]
    seed: u64,
    /// RoCE: our own queue pair, to which answers are addressed
    #[arg(long, default_value_t = EMULATOR_QP, value_name = "N", value_parser = number::within::<u32>(0, 0xFF_FFFF))]
    qp: u32,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Write the report as JSON to FILE, or to standard output for `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show every count
    #[arg(long, short)]
    verbose: bool,
}

const QUEUE_PAIR: [&str; 9] =
    ["metadata", "time_stamps", "rendezvous", "qp", "bind", "icrc", "mtu", "qp_type", "psn"];

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    /// Requests of one function, each with its answer
    Rpc,
    /// `enqueue_syndromes` and `get_corrections` of every decoder: corrections are compared with a decoder of our own
    Decoding,
}

/// How many packets later a held-back packet is sent, at most.
const REORDER_DEPTH: u32 = 4;

pub(crate) fn run(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    if args.protocol == ProtocolArg::Decoding {
        return decoding::run(args, given, signals);
    }
    given.refuse(&["config", "parts", "run_rounds"], "--protocol rpc")?;
    Target::refuse_decoding_server(&args.connect)?;
    for (name, value) in [("loss", args.loss), ("duplicate", args.duplicate), ("reorder", args.reorder)] {
        if !(0.0..=1.0).contains(&value) {
            bail!(misuse(format!("--{name} must be a probability from 0 to 1, not {value}")));
        }
    }
    if args.loss + args.duplicate + args.reorder > 1.0 {
        bail!(misuse(
            "--loss, --duplicate and --reorder are probabilities of one fault a packet: together at most 1"
        ));
    }
    let interval = match args.rate {
        None => Duration::ZERO,
        Some(rate) if rate.is_finite() && rate >= 1e-3 => Duration::from_secs_f64(1.0 / rate),
        Some(rate) => bail!(misuse(format!("--rate must be a number of at least 0.001, not {rate}"))),
    };
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let target = Target::parse(&args.connect)?;
    let transport = target.transport(args.transport)?;
    target.check_tag(args.tags.key())?;
    if transport == TransportArg::Udp {
        given.refuse(&QUEUE_PAIR, "--transport udp")?;
    }
    adapter::check(args, given, transport)?;
    match args.function {
        FunctionArg::Increment => {
            given.refuse(&ExperimentArgs::FIELDS, "--function increment")?;
            given.refuse(&DecoderArgs::FIELDS, "--function increment")?;
            given.refuse(&SideArgs::FIELDS, "--function increment")?;
        }
        FunctionArg::Decode => {
            given.refuse(&["payload"], "--function decode")?;
            given.refuse(&SideArgs::FIELDS, "--function decode")?;
        }
        FunctionArg::DecodeWeighted => {
            given.refuse(&["payload", "readout"], "--function decode-weighted")?;
            given.refuse(&ExperimentArgs::FORMS, "--function decode-weighted")?;
        }
        FunctionArg::DecodeReadout => {
            given.refuse(&["payload", "weights"], "--function decode-readout")?;
            given.refuse(&ExperimentArgs::FORMS, "--function decode-readout")?;
        }
    }
    let mut experiment = args.experiment.clone();
    experiment.decoder = target.decoder(experiment.decoder.clone())?;
    let (measurements, slices) = target.forms();
    experiment.measurements |= measurements;
    experiment.slices |= slices;
    experiment.confidence |= target.says_confidence();
    let asked = Asked {
        function: args.function,
        experiment: &experiment,
        side: target.side(args.side)?,
        model: args.function == FunctionArg::Decode && target.model()?,
        payload_bytes: args.payload as usize,
        seed: args.seed,
    };
    let busy = style::Busy::new("building the decoder");
    let (mut source, mut checker) = work::work(&asked, args.memory, target.experiment())?;
    drop(busy);
    signals.run_bounded(GRACE_PERIOD);
    let stop = || signals.received().is_some();
    let (report, address) = match transport {
        TransportArg::Udp => {
            let options = datagrams::DatagramOptions {
                to: target.address()?,
                function: args.function,
                requests: args.requests,
                interval,
                in_flight: args.in_flight as usize,
                timeout: args.timeout,
                frame_bytes: CallerOptions::default().frame_bytes,
                faults: faults(args),
            };
            let (wire, faults) = datagrams::connect(&options)?;
            let wire = Tagged::new(wire, args.tags.key());
            let way = datagrams::Way { wire, peer: options.to.into(), faults, fault: |_| None };
            let outcome = datagrams::run(way, &options, &mut source, &mut checker, &stop)?;
            (outcome, options.to)
        }
        TransportArg::Verbs => adapter::run(args, &target, interval, &mut source, &mut checker, &stop)?,
        TransportArg::Roce | TransportArg::Nic | TransportArg::Hsb => {
            play(args, &target, interval, &mut source, &mut checker, &stop)?
        }
    };
    let summary = Summary::new(transport, args.function, args.requests, &report, &checker);
    publish(args, &summary)?;
    if let Some(signal) = signals.received() {
        eprintln!("ringcall: stopped by signal {signal} after {} requests", report.sent);
        return Ok(signals::status(signal));
    }
    if !summary.is_ok() || report.sent != args.requests {
        bail!(summary.complaint(address));
    }
    Ok(0)
}

fn faults(args: &Args) -> Faults {
    Faults {
        loss: args.loss,
        duplication: args.duplicate,
        reordering: args.reorder,
        reorder_depth: REORDER_DEPTH,
        seed: args.seed,
        ..Faults::default()
    }
}

/// The address to which the socket is bound.
fn local(args: &Args, service: SocketAddrV4) -> Result<SocketAddrV4> {
    if let Some(address) = args.bind {
        return Ok(address);
    }
    let local = RoceSocket::route_source(service).with_context(|| format!("no route to {service}"))?;
    // A rendezvous names no port.
    Ok(SocketAddrV4::new(local, if args.rendezvous.is_some() { ROCE_PORT } else { 0 }))
}

/// Overrides the endpoint's values by those of a rendezvous.
fn introduce(args: &Args, service: SocketAddr, target: &mut PlayerTarget) -> Result<()> {
    let timeout = args.timeout;
    let here = rendezvous::ConnectionSide { qp: args.qp, key: 0, ip: *local(args, target.peer)?.ip() };
    let there =
        rendezvous::call(service, here, timeout).with_context(|| format!("the rendezvous at {service}"))?;
    (target.qp, target.key) = (there.qp, there.key);
    target.peer.set_ip(there.ip);
    Ok(())
}

fn play(
    args: &Args,
    target: &Target<'_>,
    interval: Duration,
    source: &mut Source,
    checker: &mut Checker,
    stop: &dyn Fn() -> bool,
) -> Result<(Report, SocketAddr)> {
    let (qp_type, endpoint_psn) = (target.qp_type(args.qp_type)?, target.psn()?);
    let mut target = target.window(args.rendezvous.is_some())?;
    if let Some(service) = args.rendezvous {
        introduce(args, service, &mut target)?;
    }
    let socket = RoceSocket::bind(local(args, target.peer)?)?;
    socket.tell_closed_ports().context("a RoCE socket")?;
    let config = PlayerConfig {
        qp: args.qp,
        interval,
        in_flight: args.in_flight.min(target.pages),
        timeout: args.timeout,
        metadata: args.metadata,
        time: args.time_stamps.into(),
        faults: faults(args),
        icrc: args.icrc.into(),
        packet_bytes: u16::from(args.mtu).into(),
        reliable: (qp_type == QpTypeArg::Rc).then_some(args.mtu),
        first_psn: args.psn.or(endpoint_psn),
        key: args.tags.key(),
        ..PlayerConfig::new(target)
    };
    let mut left = args.requests;
    let mut payload = Vec::new();
    let function = args.function.id();
    let mut windows = |window: &mut Vec<u8>| {
        payload.clear();
        if left == 0 || !source.next(&mut payload) {
            return false;
        }
        left -= 1;
        // The emulated FPGA writes number and time, and refuses a payload that does not fit a page.
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        window.clear();
        window.extend_from_slice(&RequestHeader::new(function.0, length, 0, 0).to_bytes());
        window.extend_from_slice(&payload);
        true
    };
    let heard = Cell::new(false);
    let mut check = |exchange: &Exchange<'_>| {
        heard.set(true);
        let payload = exchange.arguments.get(..exchange.request.arg_len as usize);
        payload.is_some_and(|payload| checker.is_right(payload, exchange.response.status(), exchange.result))
    };
    let address = SocketAddr::V4(config.target.peer);
    let (begin, silence) = (Instant::now(), datagrams::SILENCE.max(args.timeout + STOP_CHECK_INTERVAL));
    let stop = || stop() || (!heard.get() && begin.elapsed() >= silence);
    Ok((Player::new(socket, config)?.run(&mut windows, &mut check, &stop)?, address))
}

fn publish(args: &Args, summary: &Summary) -> Result<()> {
    match &args.json {
        Some(path) if path.as_os_str() == "-" => output::write_json(path, summary),
        path => {
            let mut out = anstream::stdout();
            write!(out, "{}", summary.shown(args.verbose))
                .and_then(|()| out.flush())
                .context("standard output")?;
            path.as_ref().map_or(Ok(()), |path| output::write_json(path, summary))
        }
    }
}
