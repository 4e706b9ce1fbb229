//! Transport and dispatcher, running: every way to have both.

use super::check::one_peer;
use super::figures::Figures;
use super::plugin::{Over, Plugin};
use super::served::{DeviceService, Outcome, Served, driven};
use super::{Args, DispatcherArg, ThreadsArg, TransportArg, device};
use crate::experiment::{self, Syndromes};
use crate::usage::Given;
use anyhow::{Context, Result, bail};
use ringcall::dispatcher::Wired;
use ringcall::table::TableBuilder;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_decoder_service::Problem;
use ringcall_qec::decode::{BpConfig, DecoderFamily};
use ringcall_roce::{PAGE_UNIT_BYTES, PortOptions};
use ringcall_transport::{Link, ThreadOptions, Threaded, Wire, roce, udp};
use ringcall_wire::function::names;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

pub(super) struct Service {
    served: Box<dyn Served>,
    /// What `decode_syndrome` decodes, where it is served.
    decodes: Option<Decodes>,
}

/// What `decode_syndrome` decodes.
struct Decodes {
    /// The experiment's digest.
    experiment: String,
    /// `plain` or `correlated` matching, or `relay`.
    decoder: &'static str,
    /// The settings of Relay-BP where that decodes.
    relay: Option<BpConfig>,
}

impl Decodes {
    /// For the line that a client reads.
    fn pairs(&self) -> String {
        let Self { experiment, decoder, relay } = self;
        match relay {
            None => format!(" experiment={experiment} matching={decoder}"),
            Some(BpConfig { solutions, max_iterations, .. }) => format!(
                " experiment={experiment} decoder={decoder} relay_solutions={solutions} relay_iterations={max_iterations}"
            ),
        }
    }
}

/// The functions, and the experiment that is decoded.
fn functions(args: &Args, problem: Option<Problem>) -> Result<(TableBuilder, Option<Decodes>)> {
    let problem = problem.context("nothing to decode")?;
    let mut syndromes = Syndromes::new(&problem)?;
    let decode = move |request: &[u8], result: &mut [u8]| syndromes.answer(request, result);
    let table = FunctionTable::builder()
        .host_call(names::RPC_INCREMENT, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .host_call_with_schema(names::DECODE_SYNDROME, problem.schema(), decode);
    let experiment = experiment::digest(&problem);
    let relay = problem.matching().is_none().then(|| args.experiment.decoder.relay.config());
    let decodes = Decodes { experiment, decoder: problem.decoder_name(), relay };
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
    /// Starts what the options ask for, which were [checked](super::check), with the problem that the host's dispatchers decode.
    pub(super) fn start(args: &Args, given: &Given<'_>, problem: Option<Problem>) -> Result<Self> {
        let transport = match &args.transport {
            Over::Plugin(library) => return Self::plugin(args, given, library, problem),
            Over::Own(TransportArg::Nic) => return Self::nic(args, problem),
            Over::Own(transport) => transport,
        };
        let config = RingConfig { slots: args.slots, slot_bytes: args.slot_bytes() };
        match args.dispatcher {
            None | Some(DispatcherArg::Host | DispatcherArg::Unified) => {
                let ring = Ring::allocate(config)?;
                let (table, decodes) = functions(args, problem)?;
                let table = table.build(&ring).context(TOO_SMALL)?;
                let dispatcher = HostDispatcher::builder(&ring, table).build()?;
                let served = match transport {
                    TransportArg::Udp => on_host(udp_wire(args)?, &ring, dispatcher, args.threads)?,
                    TransportArg::Roce | TransportArg::Nic => {
                        on_host(roce_wire(args, &ring)?, &ring, dispatcher, args.threads)?
                    }
                };
                Ok(Self { served, decodes })
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
                let dispatcher = device::start(&mapped)?;
                Ok(Self { served: Box::new(DeviceService { transport, dispatcher }), decodes: None })
            }
        }
    }

    fn plugin(args: &Args, given: &Given<'_>, library: &str, problem: Option<Problem>) -> Result<Self> {
        let plugin = Plugin::load(library, &args.plugin_args)?;
        if !plugin.is_driven() {
            given.refuse(&["threads"], "this plug-in, whose library fills the ring by itself")?;
        }
        let ring = plugin.ring()?;
        let (table, decodes) = functions(args, problem)?;
        let table = table.build(&ring).context(TOO_SMALL)?;
        let dispatcher = HostDispatcher::builder(&ring, table).build()?;
        Ok(Self { served: plugin.start(&ring, dispatcher, args.threads)?, decodes })
    }

    fn nic(args: &Args, problem: Option<Problem>) -> Result<Self> {
        use ringcall_sim::socket_nic::{Service, SocketNicOptions, Threads};
        let port = port(args, args.slot_bytes())?;
        let threads = match args.threads {
            ThreadsArg::One => Threads::One,
            ThreadsArg::Own => Threads::Two,
        };
        let capacity = Service::capacity(port.page_bytes);
        let (table, decodes) = functions(args, problem)?;
        let table = table.build_for(capacity, capacity).context(TOO_SMALL)?;
        let depth = args.slots.clamp(1, 4096).next_power_of_two();
        let service = Service::start(
            SocketNicOptions { port, peers: peers(args), depth, threads, ..SocketNicOptions::default() },
            table,
        )?;
        Ok(Self { served: Box::new(service), decodes })
    }

    /// The line for the user who started this.
    pub(super) fn line(&self) -> String {
        let decodes = self.decodes.as_ref().map_or_else(String::new, Decodes::pairs);
        let endpoint = self.served.endpoint();
        format!("{endpoint} ip={}{decodes}", endpoint.address.ip())
    }

    /// Queue pair, key and address of a service that has them: what a rendezvous tells.
    pub(super) fn side(&self, args: &Args) -> Option<ringcall_roce::rendezvous::Side> {
        match self.served.endpoint().address {
            SocketAddr::V4(address)
                if matches!(args.transport, Over::Own(TransportArg::Roce | TransportArg::Nic)) =>
            {
                let (qp, key) = (args.qp, args.rkey);
                Some(ringcall_roce::rendezvous::Side { qp, key, ip: *address.ip() })
            }
            _ => None,
        }
    }

    /// What reads every count while the service runs.
    pub(super) fn figures(&self) -> Figures {
        self.served.figures()
    }

    pub(super) fn stop(self, deadline: Duration) -> Outcome {
        let mut outcome = self.served.stop(deadline);
        let matching = |decodes: &&Decodes| decodes.relay.is_none();
        outcome.json["matching"] =
            self.decodes.as_ref().filter(matching).map(|decodes| decodes.decoder).into();
        let family = |decodes: &Decodes| {
            if decodes.relay.is_some() { DecoderFamily::Relay } else { DecoderFamily::Matching }
        };
        outcome.json["decoder"] = self.decodes.as_ref().map(|decodes| family(decodes).name()).into();
        outcome
    }
}

fn udp_wire(args: &Args) -> Result<udp::Udp> {
    Ok(udp::Udp::bind(&udp::UdpOptions {
        address: args.bind,
        allowed: args.peer.clone(),
        ..Default::default()
    })?)
}

fn roce_wire(args: &Args, ring: &Ring) -> Result<roce::Roce> {
    let geometry = ring.geometry();
    let port = port(args, geometry.rx_stride().max(geometry.tx_stride()))?;
    Ok(roce::Roce::bind(&roce::RoceOptions { port, peers: peers(args) })?)
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
    Ok(PortOptions { address: v4(args.bind)?, qp, key, remote_qp, peer, icrc: args.icrc.into(), ..window })
}

fn on_host<W: Wire + 'static>(
    wire: W,
    ring: &Ring,
    dispatcher: HostDispatcher<Wired>,
    threads: ThreadsArg,
) -> Result<Box<dyn Served>> {
    driven(Link::attach(wire, ring)?, dispatcher, threads)
}
