//! Transport and dispatcher of a service, in every combination.

use super::check::{hosts, one_peer};
use super::counters::{self, Answers, ReadCounters};
use super::model::{ModelService, common};
use super::plugin::{Over, Plugin};
use super::served::{DeviceService, Outcome, Served, driven};
use super::{Args, DispatcherArg, QpTypeArg, ThreadsArg, TransportArg, device};
use crate::experiment::{self, Syndromes};
use crate::side::SideArgs;
use crate::usage::{Given, misuse};
use anyhow::{Context, Result, bail};
use ringcall::dispatcher::Wired;
use ringcall::table::TableBuilder;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_decoder_service::{Cancellation, Problem, SideDecoder};
use ringcall_inference_service::{HostStats, RunningPredecoder};
use ringcall_qec::decode::{BpConfig, DecoderFamily};
use ringcall_roce::introduced::Introduction;
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_roce::{PAGE_UNIT_BYTES, PortOptions};
use ringcall_transport::{Link, Tagged, ThreadOptions, Threaded, Wire, roce, udp, verbs};
use ringcall_wire::function::names;
use ringcall_wire::qec::read_decode_result;
use serde_json::json;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub(super) struct Service {
    served: Box<dyn Served>,
    /// Threads of a model's service, which end after the dispatcher.
    predecoder: Option<RunningPredecoder>,
    /// Pairs for clients of a model's service.
    model: String,
    /// The problem of `decode_syndrome`, if it is served.
    decodes: Option<Decodes>,
}

/// Callers of a rendezvous, if there is one.
type Introductions = Option<Receiver<Introduction>>;

/// The problem of `decode_syndrome`.
struct Decodes {
    experiment: String,
    /// `plain` or `correlated` matching, `relay`, or `plugin`.
    decoder: &'static str,
    family: DecoderFamily,
    /// The settings of Relay-BP, if it decodes.
    relay: Option<BpConfig>,
    deadline_us: Option<f64>,
    /// Side information in requests.
    side: SideArgs,
    /// Counts of answers; none where a GPU answers.
    answers: Option<Arc<Answers>>,
    /// Ends decodes that a stop cannot wait for.
    cancellation: Cancellation,
    /// Whether requests are measurements.
    measured: bool,
    /// Whether answers end with a confidence.
    confident: bool,
}

impl Decodes {
    fn of(args: &Args, problem: &Problem, answers: Option<Arc<Answers>>, cancellation: Cancellation) -> Self {
        let family = problem.family();
        Self {
            experiment: experiment::digest(problem),
            decoder: problem.decoder_name(),
            family,
            relay: (family == DecoderFamily::Relay).then(|| args.experiment.decoder.relay.config()),
            deadline_us: args.deadline.deadline.map(|time| time.as_nanos() as f64 / 1e3),
            measured: problem.form().measurements().is_some(),
            confident: problem.form().is_confident(),
            side: args.side,
            answers,
            cancellation,
        }
    }

    fn pairs(&self) -> String {
        let Self { experiment, decoder, relay, family, deadline_us, side, measured, confident, .. } = self;
        let pairs = match relay {
            None if *family == DecoderFamily::Matching => {
                let deadline = deadline_us.map_or_else(String::new, |us| format!(" deadline_us={us}"));
                let weights = side.weights.map_or_else(String::new, |most| format!(" weights={most}"));
                let readout =
                    side.readout.map_or_else(String::new, |readout| format!(" readout={}", readout.name()));
                format!(" experiment={experiment} matching={decoder}{deadline}{weights}{readout}")
            }
            None => format!(" experiment={experiment} decoder={decoder}"),
            Some(BpConfig { solutions, max_iterations, ordered_statistics, .. }) => {
                let deadline = deadline_us.map_or_else(String::new, |us| format!(" deadline_us={us}"));
                let ordered =
                    ordered_statistics.map_or_else(String::new, |order| format!(" relay_osd={order}"));
                format!(
                    " experiment={experiment} decoder={decoder} relay_solutions={solutions} relay_iterations={max_iterations}{ordered}{deadline}"
                )
            }
        };
        let pairs = if *measured { pairs + " requests=measurements" } else { pairs };
        if *confident { pairs + " answers=confidence" } else { pairs }
    }
}

/// The functions, and the decoded problem.
fn functions(args: &Args, problem: Option<Problem>) -> Result<(TableBuilder, Option<Decodes>)> {
    let cancellation = Cancellation::default();
    let problem = problem.context("nothing to decode")?.cancelled_by(&cancellation);
    let mut syndromes = Syndromes::new(&problem)?;
    let answers = Arc::new(Answers::default());
    let counts = Arc::clone(&answers);
    let decode = move |request: &[u8], result: &mut [u8]| {
        let len = syndromes.answer(request, result)?;
        counts.count(syndromes.converged(&result[..len]));
        Ok(len)
    };
    let mut table = common(FunctionTable::builder()).host_call_with_schema(
        names::DECODE_SYNDROME,
        problem.schema(),
        decode,
    );
    for side in args.side.of(&args.experiment, &problem)? {
        let mut decoder = SideDecoder::new(&problem, side).map_err(misuse)?;
        let (function, schema) = (decoder.side().function(), *decoder.schema());
        let counts = Arc::clone(&answers);
        let answer = move |request: &[u8], result: &mut [u8]| {
            let len = decoder.answer(request, result)?;
            let outcome = read_decode_result(&schema, &result[..len]);
            counts.count(outcome.ok().map(|(_, outcome)| outcome.converged));
            Ok(len)
        };
        table = table.host_call_with_schema(function, schema, answer);
    }
    Ok((table, Some(Decodes::of(args, &problem, Some(answers), cancellation))))
}

const TOO_SMALL: &str = "give --slot-bytes more, or decode a smaller experiment";

fn v4(address: SocketAddr) -> Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => bail!("{address} is no IPv4 address: RoCE is served over IPv4"),
    }
}

impl Service {
    /// Starts the requested service, whose options were [checked](super::check), with the problem that the host's
    /// dispatchers decode. A rendezvous' thread reports callers through `introductions`.
    pub(super) fn start(
        args: &Args,
        given: &Given<'_>,
        problem: Option<Problem>,
        introductions: Introductions,
    ) -> Result<Self> {
        let transport = match &args.transport {
            Over::Plugin(library) => return Self::plugin(args, given, library, problem),
            Over::Own(TransportArg::Nic | TransportArg::Hsb) => {
                return Self::nic(args, given, problem, introductions);
            }
            Over::Own(transport) => transport,
        };
        let model = ModelService::open(args, given, problem.as_ref())?;
        // A model determines what its requests need.
        let slot_bytes = model.as_ref().map_or(0, ModelService::slot_bytes).max(args.slot_bytes());
        let config = RingConfig { slots: args.slots, slot_bytes };
        match args.dispatcher {
            None | Some(DispatcherArg::Host | DispatcherArg::Unified) => {
                let ring = Ring::allocate(config)?;
                let (table, decodes) = match &model {
                    Some(model) => (model.table()?, None),
                    None => functions(args, problem)?,
                };
                let table = table.build(&ring).context(TOO_SMALL)?;
                let builder = HostDispatcher::builder(&ring, table);
                let builder = match &model {
                    Some(model) => model.workers(builder),
                    None => builder,
                };
                let dispatcher = builder.build()?;
                let predecoder = match &model {
                    Some(model) => model.start(&dispatcher)?,
                    None => None,
                };
                let served = match transport {
                    TransportArg::Udp => on_host(udp_wire(args)?, &ring, dispatcher, args.threads)?,
                    TransportArg::Verbs => {
                        on_host(verbs_wire(args, &ring, introductions)?, &ring, dispatcher, args.threads)?
                    }
                    TransportArg::Roce | TransportArg::Nic | TransportArg::Hsb => match args.qp_type {
                        QpTypeArg::Uc => {
                            on_host(roce_wire(args, &ring, introductions)?, &ring, dispatcher, args.threads)?
                        }
                        QpTypeArg::Rc => on_host(
                            reliable_wire(args, &ring, introductions)?,
                            &ring,
                            dispatcher,
                            args.threads,
                        )?,
                    },
                };
                let model = model.as_ref().map_or_else(String::new, ModelService::pairs);
                Ok(Self { served, decodes, predecoder, model })
            }
            Some(DispatcherArg::Device) => {
                let decoder = match (args.model.is_relay(), &problem) {
                    (true, Some(problem)) => Some(device::OnGpu::open(problem)?),
                    _ => None,
                };
                let mapped = match &decoder {
                    None => device::ring(config)?,
                    Some(decoder) => decoder
                        .ring(RingConfig { slot_bytes: slot_bytes.max(decoder.slot_bytes()), ..config })?,
                };
                let ring = mapped.ring();
                let options = ThreadOptions::default();
                // The transport precedes the kernel, because nothing is allocated for this context while the kernel
                // polls.
                let transport = match transport {
                    TransportArg::Udp => Threaded::start(Link::attach(udp_wire(args)?, ring)?, &options)?,
                    TransportArg::Verbs => {
                        let wire = verbs_wire(args, ring, introductions)?;
                        Threaded::start(Link::attach(wire, ring)?, &options)?
                    }
                    TransportArg::Roce | TransportArg::Nic | TransportArg::Hsb => match args.qp_type {
                        QpTypeArg::Uc => {
                            let wire = roce_wire(args, ring, introductions)?;
                            Threaded::start(Link::attach(wire, ring)?, &options)?
                        }
                        QpTypeArg::Rc => {
                            let wire = reliable_wire(args, ring, introductions)?;
                            Threaded::start(Link::attach(wire, ring)?, &options)?
                        }
                    },
                };
                let (dispatcher, cancel) = match decoder {
                    None => (device::start(&mapped)?, None),
                    Some(decoder) => {
                        let (dispatcher, flag) = decoder.start(&mapped)?;
                        (dispatcher, Some(flag))
                    }
                };
                let served = Box::new(DeviceService { transport, dispatcher, cancel });
                let of = |problem| Decodes::of(args, problem, None, Cancellation::default());
                let decodes = problem.as_ref().map(of);
                Ok(Self { served, decodes, predecoder: None, model: String::new() })
            }
        }
    }

    fn plugin(args: &Args, given: &Given<'_>, library: &str, problem: Option<Problem>) -> Result<Self> {
        let plugin = Plugin::load(library, &args.plugin_args)?;
        if !plugin.is_driven() {
            given.refuse(&["threads"], "this plug-in, whose library fills the ring by itself")?;
        }
        let ring = plugin.ring()?;
        let model = ModelService::open(args, given, problem.as_ref())?;
        let (table, decodes) = match &model {
            Some(model) => (model.table()?, None),
            None => functions(args, problem)?,
        };
        let table = table.build(&ring).context(TOO_SMALL)?;
        let builder = HostDispatcher::builder(&ring, table);
        let dispatcher = match &model {
            Some(model) => model.workers(builder),
            None => builder,
        }
        .build()?;
        let predecoder = match &model {
            Some(model) => model.start(&dispatcher)?,
            None => None,
        };
        let served = plugin.start(&ring, dispatcher, args.threads)?;
        Ok(Self {
            served,
            decodes,
            predecoder,
            model: model.as_ref().map_or_else(String::new, ModelService::pairs),
        })
    }

    fn nic(
        args: &Args,
        given: &Given<'_>,
        problem: Option<Problem>,
        introductions: Introductions,
    ) -> Result<Self> {
        use ringcall_sim::socket_nic::{Service, SocketNicOptions, Threads};
        if let Some(device) = super::hsb::adapter(args) {
            let served = Box::new(super::adapter::start(args, device)?);
            return Ok(Self { served, decodes: None, predecoder: None, model: String::new() });
        }
        let by_context = args.transport == Over::Own(TransportArg::Hsb);
        if args.dispatcher == Some(DispatcherArg::Device) {
            let kernels = args.kernels.unwrap_or(device::KernelsArg::Unified);
            let port = port(args, args.slot_bytes())?;
            let served = device::adapter(kernels, port, peers(args), by_context, introductions)?;
            return Ok(Self {
                served: Box::new(served),
                decodes: None,
                predecoder: None,
                model: String::new(),
            });
        }
        let model = ModelService::open(args, given, problem.as_ref())?;
        let slot_bytes = model.as_ref().map_or(0, ModelService::slot_bytes).max(args.slot_bytes());
        let port = port(args, slot_bytes)?;
        let threads = match args.threads {
            ThreadsArg::One => Threads::One,
            ThreadsArg::Own => Threads::Two,
        };
        let capacity = Service::capacity(port.page_bytes);
        let (table, decodes) = match &model {
            Some(model) => (model.table()?, None),
            None => functions(args, problem)?,
        };
        let table = table.build_for(capacity, capacity).context(TOO_SMALL)?;
        let depth = args.slots.clamp(1, 4096).next_power_of_two();
        let options =
            SocketNicOptions { port, peers: peers(args), depth, threads, ..SocketNicOptions::default() };
        let service = if by_context {
            Service::start_wired(options, table, introductions, &super::hsb::wire)?
        } else {
            Service::start_introduced(options, table, introductions)?
        };
        let model = model.as_ref().map_or_else(String::new, ModelService::pairs);
        Ok(Self { served: Box::new(service), decodes, predecoder: None, model })
    }

    /// The line for the user who started this.
    pub(super) fn line(&self) -> String {
        let decodes = self.decodes.as_ref().map_or_else(String::new, Decodes::pairs);
        let endpoint = self.served.endpoint();
        format!("{endpoint} ip={}{decodes}{}", endpoint.address.ip(), self.model)
    }

    /// Queue pair, key and address of a service that has them, for a rendezvous.
    pub(super) fn side(&self) -> Option<ConnectionSide> {
        let endpoint = self.served.endpoint();
        let number = |key| {
            let (_, text) = endpoint.details.iter().find(|(name, _)| *name == key)?;
            u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        };
        match endpoint.address {
            SocketAddr::V4(address) => {
                Some(ConnectionSide { qp: number("qp")?, key: number("rkey")?, ip: *address.ip() })
            }
            SocketAddr::V6(_) => None,
        }
    }

    /// A reader of all counters.
    pub(super) fn counters(&self) -> ReadCounters {
        let counters = self.served.counters();
        let Some(answers) = self.decodes.as_ref().and_then(|decodes| decodes.answers.clone()) else {
            return counters;
        };
        Arc::new(move || {
            let mut counted = counters();
            counted.counters.extend(counters::decodes(answers.counts()));
            counted
        })
    }

    /// Stops it. Half of the time is for requests under way; decodes that take longer are cancelled then, and answered.
    pub(super) fn stop(self, deadline: Duration) -> Outcome {
        if let Some(decodes) = &self.decodes {
            decodes.cancellation.cancel_after(deadline / 2);
        }
        let mut outcome = self.served.stop(deadline);
        if let Some(predecoder) = self.predecoder {
            let report = predecoder.stop(deadline);
            let HostStats { inferred, engine_failed, refused, panicked, answered, late } = report.counts;
            outcome.text += &format!(
                "\npredecoder: inferred {inferred}, answered {answered}, refused {refused}, engine failed {engine_failed}, \
                 stages panicked {panicked}, late {late}"
            );
            outcome.json["predecoder"] = json!({
                "inferred": inferred,
                "answered": answered,
                "refused": refused,
                "engine_failed": engine_failed,
                "panicked": panicked,
                "late": late,
            });
            outcome.stuck |= report.stuck > 0 || report.workers.stuck > 0;
        }
        let matching = |decodes: &&Decodes| decodes.family == DecoderFamily::Matching;
        outcome.json["matching"] =
            self.decodes.as_ref().filter(matching).map(|decodes| decodes.decoder).into();
        if let Some(decodes) = &self.decodes
            && let Some(answers) = &decodes.answers
        {
            let [answers, unconverged, late] = answers.counts();
            outcome.json["decodes"] = json!({ "answers": answers, "unconverged": unconverged, "late": late });
            if decodes.deadline_us.is_some() || unconverged + late > 0 {
                outcome.text +=
                    &format!("\ndecodes: answers {answers}, unconverged {unconverged}, late {late}");
            }
        }
        outcome.json["decoder"] = self.decodes.as_ref().map(|decodes| decodes.family.name()).into();
        outcome
    }
}

pub(super) fn udp_wire(args: &Args) -> Result<Tagged<udp::Udp>> {
    let wire = udp::Udp::bind(&udp::UdpOptions {
        address: args.bind,
        allowed: args.peer.clone(),
        ..Default::default()
    })?;
    Ok(Tagged::new(wire, args.tags.key()))
}

pub(super) fn roce_wire(
    args: &Args,
    ring: &Ring,
    introductions: Introductions,
) -> Result<Tagged<roce::Roce>> {
    let wire = roce::Roce::bind(&roce::RoceOptions { port: ring_port(args, ring)?, peers: peers(args) })?;
    let wire = match introductions {
        None => wire,
        Some(introductions) => wire.introduced_by(introductions),
    };
    Ok(Tagged::new(wire, args.tags.key()))
}

fn reliable_wire(
    args: &Args,
    ring: &Ring,
    introductions: Introductions,
) -> Result<Tagged<roce::ReliableRoce>> {
    let options = roce::ReliableOptions { port: ring_port(args, ring)?, first_psn: args.psn };
    let wire = roce::ReliableRoce::bind(&options)?;
    let wire = match introductions {
        None => wire,
        Some(introductions) => wire.introduced_by(introductions),
    };
    Ok(Tagged::new(wire, args.tags.key()))
}

fn verbs_wire(args: &Args, ring: &Ring, introductions: Introductions) -> Result<Tagged<verbs::Verbs>> {
    let pair = verbs::PairOptions {
        device: args.device.clone().context("no --device")?,
        ip: None,
        reliable: args.qp_type == QpTypeArg::Rc,
        slots: args.slots,
        slot_bytes: page_bytes(args, ring),
        mtu: args.mtu.into(),
        first_psn: args.psn,
    };
    let peer = one_peer(args)?.map(|peer| verbs::RemoteQueuePair { qp: args.remote_qp, ip: *peer.ip() });
    let wire = verbs::Verbs::open(verbs::VerbsOptions { pair, peer })?;
    let wire = match introductions {
        None => wire,
        Some(introductions) => wire.introduced_by(introductions),
    };
    Ok(Tagged::new(wire, args.tags.key()))
}

/// The queue pair whose pages are a ring's slots.
fn ring_port(args: &Args, ring: &Ring) -> Result<PortOptions> {
    port(args, page_bytes(args, ring))
}

/// Bytes of a page: a slot, and the tag if there is one.
fn page_bytes(args: &Args, ring: &Ring) -> u32 {
    let geometry = ring.geometry();
    geometry.rx_stride().max(geometry.tx_stride()) + args.tags.bytes() as u32
}

/// The most peers of a queue pair at a time.
pub(super) fn peers(args: &Args) -> usize {
    args.peers.map_or(roce::DEFAULT_PEERS, usize::from)
}

/// The requested queue pair, with a page for each slot.
fn port(args: &Args, slot_bytes: u32) -> Result<PortOptions> {
    let &Args { qp, rkey: key, remote_qp, slots, mtu, .. } = args;
    let peer = one_peer(args)?;
    let window = PortOptions::new(slots, slot_bytes.next_multiple_of(PAGE_UNIT_BYTES));
    Ok(PortOptions {
        address: v4(args.bind)?,
        qp,
        key,
        remote_qp,
        peer,
        allowed: hosts(args)?,
        mtu,
        icrc: args.icrc.into(),
        ..window
    })
}

pub(super) fn on_host<W: Wire + 'static>(
    wire: W,
    ring: &Ring,
    dispatcher: HostDispatcher<Wired>,
    threads: ThreadsArg,
) -> Result<Box<dyn Served>> {
    driven(Link::attach(wire, ring)?, dispatcher, threads)
}
