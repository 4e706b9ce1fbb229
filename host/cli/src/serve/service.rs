//! Transport and dispatcher, running: every way to have both.

use super::check::one_peer;
use super::figures::{self, Figures};
use super::plugin::{Over, Plugin};
use super::{Args, DispatcherArg, ThreadsArg, TransportArg, device};
use crate::experiment::{self, Syndromes};
use crate::usage::Given;
use anyhow::{Context, Result, bail};
use ringcall::dispatcher::{Running, Wired};
use ringcall::table::TableBuilder;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_launch::ring::{DeviceDispatcher, Running as OnDevice};
use ringcall_protocol::counters::Snapshot;
use ringcall_roce::{PAGE_UNIT_BYTES, PortOptions};
use ringcall_transport::{
    Endpoint, Link, OneThread, RingFilling, StopReport, ThreadOptions, Threaded, Unified, Wire, roce, udp,
};
use ringcall_wire::function::names;
use serde_json::{Map, Value, json};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

/// A service, by what serves it.
pub(super) enum Kind {
    /// Transport and host dispatcher on one thread.
    One(OneThread),
    /// On threads of their own.
    Own(Box<dyn RingFilling>, HostDispatcher<Running>),
    /// A transport's thread, and a kernel.
    Device(Box<Threaded>, DeviceDispatcher<OnDevice>),
    /// A NIC in software and the unified loop.
    Nic(ringcall_sim::socket_nic::Service),
}

pub(super) struct Service {
    kind: Kind,
    /// Of a host dispatcher.
    host: Option<ringcall::dispatcher::Watch>,
    /// What `decode_syndrome` decodes, where it is served.
    decodes: Option<Decodes>,
}

/// How a service ended.
pub(super) struct Outcome {
    /// For people.
    pub(super) text: String,
    /// For programs.
    pub(super) json: Value,
    /// A thread or kernel did not come back.
    pub(super) stuck: bool,
    /// Frames and requests unaccounted for.
    pub(super) balance: (i128, i128),
}

/// What `decode_syndrome` decodes.
struct Decodes {
    /// The experiment's digest.
    experiment: String,
    matching: &'static str,
}

/// The functions, and what is decoded.
fn functions(args: &Args) -> Result<(TableBuilder, Option<Decodes>)> {
    let problem = args.experiment.problem()?;
    let mut syndromes = Syndromes::new(&problem)?;
    let decode = move |request: &[u8], result: &mut [u8]| syndromes.answer(request, result);
    let table = FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .host_call_with_schema(names::DECODE_SYNDROME, problem.schema(), decode);
    let decodes = Decodes { experiment: experiment::digest(&problem), matching: problem.matching().name() };
    Ok((table, Some(decodes)))
}

const TOO_SMALL: &str = "give --slot-bytes more, or decode a smaller experiment";

fn v4(address: SocketAddr) -> Result<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Ok(address),
        SocketAddr::V6(_) => bail!("{address} is no IPv4 address: RoCE is served over IPv4"),
    }
}

impl Service {
    /// Starts what the options ask for, which were [checked](super::check).
    pub(super) fn start(args: &Args, given: &Given<'_>) -> Result<Self> {
        let transport = match &args.transport {
            Over::Plugin(library) => return Self::plugin(args, given, library),
            Over::Own(TransportArg::Nic) => return Self::nic(args),
            Over::Own(transport) => transport,
        };
        let config = RingConfig { slots: args.slots, slot_bytes: args.slot_bytes };
        match args.dispatcher {
            None | Some(DispatcherArg::Host | DispatcherArg::Unified) => {
                let ring = Ring::allocate(config)?;
                let (table, decodes) = functions(args)?;
                let table = table.build(&ring).context(TOO_SMALL)?;
                let dispatcher = HostDispatcher::builder(&ring, table).build()?;
                let host = Some(dispatcher.watch());
                let kind = match transport {
                    TransportArg::Udp => on_host(udp_wire(args)?, &ring, dispatcher, args.threads)?,
                    TransportArg::Roce | TransportArg::Nic => {
                        on_host(roce_wire(args, &ring)?, &ring, dispatcher, args.threads)?
                    }
                };
                Ok(Self { kind, host, decodes })
            }
            Some(DispatcherArg::Device) => {
                let mapped = device::ring(config)?;
                let ring = mapped.ring();
                let options = ThreadOptions::default();
                // Before the kernel: nothing is allocated for this context while it polls.
                let transport = match transport {
                    TransportArg::Udp => Threaded::start(Link::attach(udp_wire(args)?, ring)?, &options)?,
                    TransportArg::Roce | TransportArg::Nic => {
                        Threaded::start(Link::attach(roce_wire(args, ring)?, ring)?, &options)?
                    }
                };
                let kind = Kind::Device(Box::new(transport), device::start(&mapped)?);
                Ok(Self { kind, host: None, decodes: None })
            }
        }
    }

    fn plugin(args: &Args, given: &Given<'_>, library: &str) -> Result<Self> {
        let plugin = Plugin::load(library, &args.plugin_args)?;
        if !plugin.is_driven() {
            given.refuse(&["threads"], "this plug-in, whose library fills the ring by itself")?;
        }
        let ring = plugin.ring()?;
        let (table, decodes) = functions(args)?;
        let table = table.build(&ring).context(TOO_SMALL)?;
        let dispatcher = HostDispatcher::builder(&ring, table).build()?;
        let host = Some(dispatcher.watch());
        Ok(Self { kind: plugin.start(&ring, dispatcher, args.threads)?, host, decodes })
    }

    fn nic(args: &Args) -> Result<Self> {
        use ringcall_sim::socket_nic::{Options, Service, Threads};
        let port = port(args, args.slot_bytes)?;
        let threads = match args.threads {
            ThreadsArg::One => Threads::One,
            ThreadsArg::Own => Threads::Two,
        };
        let capacity = Service::capacity(port.page_bytes);
        let (table, decodes) = functions(args)?;
        let table = table.build_for(capacity, capacity).context(TOO_SMALL)?;
        let depth = args.slots.clamp(1, 4096).next_power_of_two();
        let service = Service::start(
            Options { port, peers: peers(args), depth, threads, ..Options::default() },
            table,
        )?;
        Ok(Self { kind: Kind::Nic(service), host: None, decodes })
    }

    /// The line for whoever started this.
    pub(super) fn line(&self) -> String {
        let decodes = self.decodes.as_ref().map_or_else(String::new, |Decodes { experiment, matching }| {
            format!(" experiment={experiment} matching={matching}")
        });
        let of = |endpoint: &Endpoint| format!("{endpoint} ip={}{decodes}", endpoint.address.ip());
        match &self.kind {
            Kind::One(service) => of(service.endpoint()),
            Kind::Own(transport, _) => of(transport.endpoint()),
            Kind::Device(transport, _) => of(transport.endpoint()),
            Kind::Nic(service) => {
                // What a peer speaks to it is RoCE.
                let mut details = service.options().port.details();
                details.push(("device", ringcall_sim::socket_nic::NAME.to_owned()));
                let address = SocketAddr::V4(service.address());
                of(&Endpoint { transport: roce::NAME, address, details })
            }
        }
    }

    /// Queue pair, key and address of a service that has them: what a rendezvous tells.
    pub(super) fn side(&self, args: &Args) -> Option<ringcall_roce::rendezvous::Side> {
        let address = match &self.kind {
            Kind::One(service) => service.endpoint().address,
            Kind::Own(transport, _) => transport.endpoint().address,
            Kind::Device(transport, _) => transport.endpoint().address,
            Kind::Nic(service) => SocketAddr::V4(service.address()),
        };
        match address {
            SocketAddr::V4(address)
                if matches!(args.transport, Over::Own(TransportArg::Roce | TransportArg::Nic)) =>
            {
                let (qp, key) = (args.qp, args.rkey);
                Some(ringcall_roce::rendezvous::Side { qp, key, ip: *address.ip() })
            }
            _ => None,
        }
    }

    /// Every count, for whoever asks.
    pub(super) fn figures(&self) -> Figures {
        let host = self.host.clone();
        let of_host = move || host.as_ref().map(ringcall::dispatcher::Watch::counters).unwrap_or_default();
        match &self.kind {
            Kind::One(service) => {
                let watch = service.watch();
                Box::new(move || both(&watch.statistics(), &of_host()))
            }
            Kind::Own(transport, _) => {
                let watch = transport.watch();
                Box::new(move || both(&watch.statistics(), &of_host()))
            }
            Kind::Device(transport, dispatcher) => {
                let (watch, device) = (transport.watch(), dispatcher.watch());
                Box::new(move || both(&watch.statistics(), &device.counters()))
            }
            Kind::Nic(service) => {
                let watch = service.watch();
                Box::new(move || {
                    let counters = figures::dispatcher(&watch.counters());
                    figures::queue_pair(watch.named()).chain(counters).collect()
                })
            }
        }
    }

    /// The transport first, so that what is under way is still answered.
    pub(super) fn stop(self, deadline: Duration) -> Outcome {
        let Self { kind, host, decodes } = self;
        let counters = move || host.as_ref().map(ringcall::dispatcher::Watch::counters).unwrap_or_default();
        let mut outcome = match kind {
            Kind::One(service) => {
                let (report, stopped) = service.stop(deadline);
                let stuck = stopped.is_none_or(|stopped| stopped.report.stuck);
                Outcome::of_ring(&report, stuck, &counters())
            }
            Kind::Own(transport, dispatcher) => {
                let report = transport.stop(deadline);
                let stuck = dispatcher.stop(deadline).report.stuck;
                Outcome::of_ring(&report, stuck, &counters())
            }
            Kind::Device(transport, dispatcher) => {
                let report = transport.stop(deadline);
                let watch = dispatcher.watch();
                let stopped = dispatcher.stop(deadline.max(Duration::from_millis(50))).report;
                let failed = !stopped.stuck.is_empty() || stopped.failed.is_some();
                Outcome::of_ring(&report, failed, &watch.counters())
            }
            Kind::Nic(service) => Outcome::of_nic(&service.stop(deadline)),
        };
        outcome.json["matching"] = decodes.map(|decodes| decodes.matching).into();
        outcome
    }
}

fn both(transport: &ringcall_transport::Statistics, counters: &Snapshot) -> Vec<figures::Figure> {
    figures::transport(transport).chain(figures::dispatcher(counters)).collect()
}

fn udp_wire(args: &Args) -> Result<udp::Udp> {
    Ok(udp::Udp::bind(&udp::Options {
        address: args.bind,
        allowed: args.peer.clone(),
        ..Default::default()
    })?)
}

fn roce_wire(args: &Args, ring: &Ring) -> Result<roce::Roce> {
    let geometry = ring.geometry();
    let port = port(args, geometry.rx_stride().max(geometry.tx_stride()))?;
    Ok(roce::Roce::bind(&roce::Options { port, peers: peers(args) })?)
}

/// The most peers of a queue pair at a time.
pub(super) fn peers(args: &Args) -> usize {
    args.peers.map_or(roce::DEFAULT_PEERS, usize::from)
}

/// The queue pair that was asked for, with a page for each slot.
fn port(args: &Args, slot_bytes: u32) -> Result<PortOptions> {
    let &Args { qp, rkey: key, remote_qp, slots, .. } = args;
    let peer = one_peer(args)?;
    let window = PortOptions::new(slots, slot_bytes.next_multiple_of(PAGE_UNIT_BYTES));
    Ok(PortOptions { address: v4(args.bind)?, qp, key, remote_qp, peer, ..window })
}

fn on_host<W: Wire + 'static>(
    wire: W,
    ring: &Ring,
    dispatcher: HostDispatcher<Wired>,
    threads: ThreadsArg,
) -> Result<Kind> {
    driven(Link::attach(wire, ring)?, dispatcher, threads)
}

/// A transport that a thread of ours drives.
pub(super) fn driven(
    link: impl Unified + 'static,
    dispatcher: HostDispatcher<Wired>,
    threads: ThreadsArg,
) -> Result<Kind> {
    let options = ThreadOptions::default();
    Ok(match threads {
        ThreadsArg::One => Kind::One(OneThread::start(link, dispatcher, &options)?),
        ThreadsArg::Own => {
            let dispatcher = dispatcher.start()?;
            Kind::Own(Box::new(Threaded::start(link, &options)?), dispatcher)
        }
    })
}

fn counts(named: impl Iterator<Item = (&'static str, u64)>) -> Value {
    Value::Object(named.map(|(name, n)| (name.to_owned(), n.into())).collect::<Map<_, _>>())
}

fn line(counters: &Snapshot) -> String {
    let mut line = String::new();
    for (name, n) in counters.named() {
        line += if line.is_empty() { "" } else { ", " };
        line += &format!("{name} {n}");
    }
    line
}

impl Outcome {
    fn of_ring(report: &StopReport, stuck: bool, counters: &Snapshot) -> Self {
        let balance @ (frames, slots) = report.statistics.balance();
        Self {
            text: format!("{report}\ndispatcher: {}", line(counters)),
            json: json!({
                "drained": report.drained,
                "dropped": report.dropped,
                "refused": report.refused,
                "unaccounted": { "frames": frames as i64, "requests": slots as i64 },
                "transport": counts(report.statistics.named()),
                "dispatcher": counts(counters.named()),
            }),
            stuck: stuck || report.stuck,
            balance,
        }
    }

    fn of_nic(report: &ringcall_sim::socket_nic::Report) -> Self {
        let (messages, requests, answers) = report.balance();
        let balance @ (frames, slots) = (messages, requests.abs() + answers.abs());
        let broken: u64 = report.broken().map(|(_, n)| n).sum();
        Self {
            text: format!("{report}\ndispatcher: {}", line(&report.dispatcher)),
            json: json!({
                "unaccounted": { "frames": frames as i64, "requests": slots as i64 },
                "broken_rules": broken,
                "transport": counts(report.named.iter().copied()),
                "dispatcher": counts(report.dispatcher.named()),
            }),
            stuck: report.ended.is_none(),
            balance,
        }
    }
}
