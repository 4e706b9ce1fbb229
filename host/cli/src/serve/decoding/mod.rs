//! `ringcall serve --config`: a decoding server, with a ring for each decoder.

pub(crate) mod file;
mod reload;
mod transport;

use super::counters::{self, NamedCounter, ReadCounters, ServiceCounters};
use super::log::Watchman;
use super::plugin::{Over, Plugin};
use super::sandbox::Sandbox;
use super::served::{Outcome, Served};
use super::server::Server;
use super::service::{on_host, roce_wire, udp_wire};
use super::{Args, TransportArg, check, metrics, serve_until_told};
use crate::memory::Estimate;
use crate::output;
use crate::signals::Signals;
use crate::usage::{Given, Misuse};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use reload::Reload;
use ringcall::thread::StopFlag;
use ringcall::wire::decoding::EnqueueSyndromes;
use ringcall::wire::header::HEADER_BYTES;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_decoder_service::decoding_server::{self, Config, DecodeStats, DecoderConfig, Sessions};
use ringcall_qec::decode::{DecoderFamily, MatchingEngine};
use ringcall_transport::{FunctionAnswers, Latencies, TransportAddress};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The corrections after a second decode if those of the first were not cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FrameArg {
    /// Those of the last decode alone
    Volume,
    /// Those of all decodes since they were cleared
    Running,
}

impl From<FrameArg> for decoding_server::Frame {
    fn from(frame: FrameArg) -> Self {
        match frame {
            FrameArg::Volume => Self::Volume,
            FrameArg::Running => Self::Running,
        }
    }
}

/// A decoder's ring that is being served.
struct DecoderRing {
    id: i64,
    served: Box<dyn Served>,
}

/// A decoder's ring with a known address. Starting it may wait for a peer, which waits for the address.
struct Bound {
    id: i64,
    endpoint: TransportAddress,
    start: Start,
}

type Start = Box<dyn FnOnce() -> Result<Box<dyn Served>>>;

/// The default bytes of a slot: room for a decode's measurements in one request, and at least the default of other
/// services.
fn slot_bytes(args: &Args, sized: bool, decoder: &DecoderConfig) -> u32 {
    if sized {
        return args.slot_bytes;
    }
    let request = EnqueueSyndromes::bytes(decoder.measurements());
    let bytes = HEADER_BYTES + request.max(decoder.observables().div_ceil(8));
    u32::try_from(bytes.next_multiple_of(64)).unwrap_or(u32::MAX).clamp(args.slot_bytes, 1 << 20)
}

/// Serves the decoders of a file.
pub(super) fn run(args: &Args, given: &Given<'_>, path: &Path, signals: &Signals) -> Result<u8> {
    transport::check(args, given)?;
    serve(args, given, path, &file::read(path, args.memory)?, signals)
}

/// Serves endless decoders of the experiment that the options choose.
pub(super) fn stream(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    transport::check_stream(args, given)?;
    let path = Path::new("--stream");
    let config = stream_config(args)?.parse().map_err(|error| file::refusal(path, &error))?;
    serve(args, given, path, &config, signals)
}

fn serve(args: &Args, given: &Given<'_>, path: &Path, config: &Config, signals: &Signals) -> Result<u8> {
    let (args, sized) = transport::of_file(args, given, path, &config.transport)?;
    check::check(&args, given)?;
    let room = |estimate: Estimate, decoder: &DecoderConfig| {
        super::around(&Args { slot_bytes: slot_bytes(&args, sized, decoder), ..args.clone() }, estimate)
    };
    let room = config.decoders.iter().fold(Estimate::process(), room);
    let estimate = file::estimate(path, config).beside(&room);
    args.memory.admit(&estimate)?;
    if let Some(path) = args.json.as_ref().filter(|_| !args.check) {
        output::check_writable(path)?;
    }
    // Sessions may have threads, which are to be confined as this one.
    let sandbox = (!args.check).then(|| Sandbox::begin(&args)).transpose()?;
    let sessions = Sessions::new(config, args.frame.unwrap_or(FrameArg::Volume).into());
    let sessions = Arc::new(sessions.map_err(|error| file::refusal(path, &error))?);
    let mut out = std::io::stdout();
    for key in config.decoders.iter().flat_map(DecoderConfig::unused) {
        eprintln!("ringcall: {}: {key} changes nothing: this decodes on a CPU", path.display());
    }
    if let Some(line) = file::too_many_cores(config) {
        eprintln!("ringcall: {}: {line}", path.display());
    }
    let Some(sandbox) = sandbox else {
        for decoder in &config.decoders {
            writeln!(out, "{}", file::described(decoder)).context("standard output")?;
        }
        writeln!(out, "takes about {} of memory", estimate.shown()).context("standard output")?;
        return Ok(0);
    };
    let bound = bind(&args, given, config, &sessions, sized)?;
    let counts: Arc<OnceLock<ReadCounters>> = Arc::default();
    let seen = Arc::clone(&counts);
    let counters_so_far: ReadCounters =
        Arc::new(move || seen.get().map_or_else(ServiceCounters::default, |counters| counters()));
    let ending = StopFlag::default();
    let serve_metrics = |address| metrics::start(address, Arc::clone(&counters_so_far), ending.clone());
    let metrics = args.metrics.map(serve_metrics).transpose()?;
    let mut line = ready_line(&bound);
    if let Some(metrics) = &metrics {
        line += &format!(" metrics={}", metrics.address());
    }
    line += &sandbox.end()?;
    super::say(&mut out, &line)?;
    let start = |Bound { id, start, .. }: Bound| start().map(|served| DecoderRing { id, served });
    let rings = bound.into_iter().map(start).collect::<Result<Vec<_>>>()?;
    let _ = counts.set(counters(&rings, &sessions));
    let mut reload = Reload::new(path, (&args, sized), room, config, &sessions);
    let mut watchman = Watchman::new(Arc::clone(&counters_so_far));
    serve_until_told(&args, signals, &line, &mut watchman, &mut |hung_up| reload.turn(hung_up));
    ending.set();
    // Half of the time is for requests under way; decodes by belief propagation that take longer are cut off then.
    sessions.cancel_after(args.stop_timeout / 2);
    let outcomes: Vec<_> = stop(rings, args.stop_timeout);
    if let Some(metrics) = metrics {
        Server::stop(metrics);
    }
    publish(&args, config, &outcomes, &sessions)
}

fn bind(
    args: &Args,
    given: &Given<'_>,
    config: &Config,
    sessions: &Arc<Sessions>,
    sized: bool,
) -> Result<Vec<Bound>> {
    let port = args.bind.port();
    let mut rings = Vec::with_capacity(config.decoders.len());
    for (i, decoder) in config.decoders.iter().enumerate() {
        let mut args = Args { slot_bytes: slot_bytes(args, sized, decoder), ..args.clone() };
        if port != 0 {
            let next = u16::try_from(i).ok().and_then(|i| port.checked_add(i));
            let Some(next) = next else {
                bail!(Misuse(format!(
                    "--bind: {} decoders from port {port} on end above 65535",
                    config.decoders.len()
                )));
            };
            args.bind.set_port(next);
        }
        let id = decoder.id();
        let (endpoint, start) =
            ring(&args, given, sessions).with_context(|| format!("the ring of decoder {id}"))?;
        rings.push(Bound { id, endpoint, start });
    }
    Ok(rings)
}

/// Starts one ring with the calls of every decoder: its own, and all others by their ids.
fn ring(args: &Args, given: &Given<'_>, sessions: &Arc<Sessions>) -> Result<(TransportAddress, Start)> {
    const TOO_SMALL: &str = "give --slot-bytes more";
    let dispatcher = |ring: &Ring| -> Result<_> {
        let table = sessions.serve(FunctionTable::builder()).build(ring).context(TOO_SMALL)?;
        Ok(HostDispatcher::builder(ring, table).in_order().build()?)
    };
    if let Over::Plugin(library) = &args.transport {
        let plugin = Plugin::load(library, &args.plugin_args)?;
        if !plugin.is_driven() {
            given.refuse(&["threads"], "this plug-in, whose library fills the ring by itself")?;
        }
        let (endpoint, ring, threads) = (plugin.endpoint()?, plugin.ring()?, args.threads);
        let dispatcher = dispatcher(&ring)?;
        return Ok((endpoint, Box::new(move || plugin.start(&ring, dispatcher, threads))));
    }
    let ring = Ring::allocate(RingConfig { slots: args.slots, slot_bytes: args.slot_bytes })?;
    let dispatcher = dispatcher(&ring)?;
    let served = match args.transport {
        Over::Own(TransportArg::Roce) => {
            on_host(roce_wire(args, &ring, None)?, &ring, dispatcher, args.threads)?
        }
        _ => on_host(udp_wire(args)?, &ring, dispatcher, args.threads)?,
    };
    Ok((served.endpoint(), Box::new(move || Ok(served))))
}

/// The line for which CUDA-Q's programs wait: the first ring's endpoint, and each ring's port.
fn ready_line(rings: &[Bound]) -> String {
    let mut line = "QEC_DECODING_SERVER_READY".to_owned();
    for (i, ring) in rings.iter().enumerate() {
        let endpoint = &ring.endpoint;
        let address: SocketAddr = endpoint.address;
        if i == 0 {
            line += &format!(" port={} transport={}", address.port(), endpoint.transport);
            for (key, value) in &endpoint.details {
                line += &format!(" {key}={value}");
            }
            line += &format!(" ip={}", address.ip());
        }
        line += &format!(" ring{}={}", ring.id, address.port());
    }
    line
}

/// The sum of the counters of all rings, and the decodes of all decoders.
fn counters(rings: &[DecoderRing], sessions: &Arc<Sessions>) -> ReadCounters {
    let each: Vec<ReadCounters> = rings.iter().map(|ring| ring.served.counters()).collect();
    let sessions = Arc::clone(sessions);
    Arc::new(move || {
        let mut sums: BTreeMap<String, NamedCounter> = BTreeMap::new();
        let mut latencies: Option<Latencies> = None;
        let mut functions: Vec<FunctionAnswers> = Vec::new();
        for counted in each.iter().map(|counters| counters()) {
            for counter in counted.counters {
                match sums.get_mut(&counter.name) {
                    Some(sum) => sum.value += counter.value,
                    None => {
                        sums.insert(counter.name.clone(), counter);
                    }
                }
            }
            latencies = match (latencies, counted.latencies) {
                (Some(sum), Some(more)) => Some(sum.plus(&more)),
                (sum, more) => sum.or(more),
            };
            for more in counted.functions {
                match functions.iter_mut().find(|sum| sum.function == more.function) {
                    Some(sum) => *sum = sum.plus(&more),
                    None => functions.push(more),
                }
            }
        }
        let DecodeStats { decodes, unconverged, late } = sessions.total();
        let decodes = counters::decodes([decodes, unconverged, late]);
        ServiceCounters { counters: sums.into_values().chain(decodes).collect(), latencies, functions }
    })
}

/// Stops every ring, one after the other.
fn stop(rings: Vec<DecoderRing>, deadline: Duration) -> Vec<(i64, Outcome)> {
    rings.into_iter().map(|ring| (ring.id, ring.served.stop(deadline))).collect()
}

fn publish(args: &Args, config: &Config, outcomes: &[(i64, Outcome)], sessions: &Sessions) -> Result<u8> {
    let dispatched = |outcome: &Outcome| outcome.json["dispatcher"]["dispatched"].as_u64().unwrap_or(0);
    let (mut frames, mut requests) = (0, 0);
    for (_, outcome) in outcomes {
        frames += outcome.balance.0.abs();
        requests += outcome.balance.1.abs();
    }
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let mut out = std::io::stdout();
        let mut text = String::new();
        for (id, outcome) in outcomes {
            text += &format!("QEC_DECODING_SERVER_RING decoder={id} dispatched={}\n", dispatched(outcome));
        }
        let total: u64 = outcomes.iter().map(|(_, outcome)| dispatched(outcome)).sum();
        text += &format!("QEC_DECODING_SERVER_DISPATCHED count={total}\n");
        for (id, outcome) in outcomes {
            text += &format!("decoder {id}\n{}", outcome.shown(args.verbose));
            let DecodeStats { decodes, unconverged, late } = sessions.stats(*id).unwrap_or_default();
            let may_fail = config.decoders.iter().any(|decoder| decoder.id() == *id && decoder.is_relay());
            if may_fail || unconverged + late > 0 {
                text += &format!("decodes: {decodes}, unconverged {unconverged}, late {late}\n");
            }
            if config.decoders.iter().any(|decoder| decoder.id() == *id && decoder.endless().is_some()) {
                let forced = sessions.forced(*id).unwrap_or_default();
                let lost = sessions.lost_helpers(*id).unwrap_or_default();
                text += &format!("runs: {decodes}, forced decisions {forced}, lost threads {lost}\n");
            }
        }
        text += &format!("unaccounted: {frames} frames, {requests} requests");
        writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output")?;
    }
    if let Some(path) = &args.json {
        let decoder = |(id, outcome): &(i64, Outcome)| {
            let mut value = outcome.json.clone();
            value["id"] = (*id).into();
            let DecodeStats { decodes, unconverged, late } = sessions.stats(*id).unwrap_or_default();
            value["decodes"] = decodes.into();
            value["unconverged"] = unconverged.into();
            value["late"] = late.into();
            value["forced"] = sessions.forced(*id).into();
            value["lost_helpers"] = sessions.lost_helpers(*id).into();
            value
        };
        let decoders: Vec<Value> = outcomes.iter().map(decoder).collect();
        let unaccounted = json!({ "frames": frames as i64, "requests": requests as i64 });
        output::write_json(path, &json!({ "decoders": decoders, "unaccounted": unaccounted }))?;
    }
    if outcomes.iter().any(|(_, outcome)| outcome.stuck) {
        bail!("a thread did not come back");
    }
    if (frames, requests) != (0, 0) {
        bail!("{frames} frames and {requests} requests are unaccounted for");
    }
    Ok(0)
}

/// Writes the configuration of the experiment that the options choose.
///
/// # Errors
/// The experiment cannot be decoded, or the file cannot be written.
pub(super) fn write(args: &Args, path: &Path) -> Result<u8> {
    if args.stream {
        output::write_text(path, &stream_config(args)?)?;
        return Ok(0);
    }
    let problem = args.experiment.problem(args.memory, |decoding| decoding)?;
    let decoders = args.decoders.unwrap_or(1);
    let text = decoding_server::write(problem.model(), decoders as usize, problem.matching().is_none())?;
    output::write_text(path, &text)?;
    Ok(0)
}

/// Rounds of a short run: its beginning, its end, and some similar rounds in between.
const SHORT_ROUNDS: u32 = 7;

/// The configuration of endless decoders.
///
/// # Errors
/// [`Misuse`]: a code other than the surface code, or a decoder other than matching. An error of the experiment.
fn stream_config(args: &Args) -> Result<String> {
    let memory = args.experiment.surface_run(SHORT_ROUNDS)?;
    let kind = args.experiment.decoder.options()?;
    if kind.family.is_some_and(|family| family != DecoderFamily::Matching) {
        bail!(Misuse("--stream is decoded by matching: leave --decoder out".to_owned()));
    }
    if kind.matching == Some(MatchingEngine::Ensemble) {
        bail!(Misuse("--stream is matched window by window: take --matching correlated".to_owned()));
    }
    let correlated = kind.matching != Some(MatchingEngine::SparseBlossom);
    let cores = NonZeroUsize::new(args.cores.unwrap_or(1).into()).unwrap_or(NonZeroUsize::MIN);
    let each = memory.distance * memory.distance - 1;
    let decoders = args.decoders.unwrap_or(1) as usize;
    let model = memory.detector_error_model()?;
    Ok(decoding_server::write_endless(&model, decoders, correlated, (each, each / 2), cores)?)
}
