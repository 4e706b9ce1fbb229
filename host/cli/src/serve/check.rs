//! Checks that options apply to the service. An option without effect is an error, since its purpose may be protection.

use super::plugin::Over;
use super::{Args, DispatcherArg, QpTypeArg, TransportArg};
use crate::decoder::{DeadlineArgs, DecoderArgs};
use crate::experiment::ExperimentArgs;
use crate::side::SideArgs;
use crate::tag_key::TagArgs;
use crate::usage::{Given, Misuse};
use anyhow::{Result, bail};
use ringcall_roce::{Hosts, MAX_PAGES, ROCE_PORT};
use ringcall_transport::udp::AllowedPeer;
use ringcall_wire::launch::MAX_SLOTS;
use std::net::{IpAddr, SocketAddrV4};

const QUEUE_PAIR: [&str; 9] =
    ["qp", "rkey", "remote_qp", "icrc", "mtu", "qp_type", "psn", "peers", "rendezvous"];
/// Options that the plug-in decides.
const WIRE: [&str; 4] = ["bind", "slots", "slot_bytes", "peer"];

/// The fewest entries of a queue of 64-byte send requests.
const LEAST_SLOTS: u32 = 4;

/// Refuses options that would be ignored.
pub(super) fn check(args: &Args, given: &Given<'_>) -> Result<()> {
    if args.experiment.preset.is_some() {
        given.refuse(&["slots", "slot_bytes"], "--preset, which sets the ring")?;
    }
    if args.config.is_none() && !args.stream {
        given.refuse(&["frame"], "a service without sessions: give --config or --stream")?;
    }
    if args.write_config.is_some() {
        let what = "--write-config, whose file has no requests of decode_syndrome";
        given.refuse(&SideArgs::FIELDS, what)?;
        given.refuse(&ExperimentArgs::FORMS, what)?;
        given.refuse(&DeadlineArgs::FIELDS, what)?;
        given.refuse(&["service", "engine"], what)?;
    }
    if args.experiment.slices {
        given.refuse(&SideArgs::FIELDS, "--slices, which are matched on weights of their own")?;
    }
    super::model::check(args, given)?;
    match &args.transport {
        Over::Plugin(_) => {
            let what = "a plug-in, which takes its own arguments after `--`";
            given.refuse(&WIRE, what)?;
            given.refuse(&QUEUE_PAIR, what)?;
            given.refuse(&["device"], what)?;
            given.refuse(&TagArgs::FIELDS, what)?;
            if !matches!(args.dispatcher, None | Some(DispatcherArg::Host)) {
                bail!(misuse("a plug-in is served by the host's dispatcher: leave --dispatcher out"));
            }
        }
        Over::Own(transport) => {
            if !args.plugin_args.is_empty() {
                bail!(misuse("arguments after `--` are for a plug-in: give --transport plugin:LIBRARY"));
            }
            match (transport, args.dispatcher) {
                (TransportArg::Nic | TransportArg::Hsb, Some(DispatcherArg::Host)) => {
                    let name = transport.name();
                    bail!(misuse(&format!(
                        "--transport {name} is served by the unified loop, or by kernels of a GPU: leave --dispatcher out, or give device"
                    )));
                }
                (TransportArg::Hsb, _) => {
                    super::hsb::check(args)?;
                    if super::hsb::adapter(args).is_some() {
                        adapter_of_a_kernel(args, given)?;
                    }
                }
                (TransportArg::Nic, _) => (),
                (_, Some(DispatcherArg::Unified)) => {
                    bail!(misuse("--dispatcher unified serves --transport nic"));
                }
                _ => (),
            }
            if !matches!(transport, TransportArg::Verbs | TransportArg::Hsb) {
                given.refuse(&["device"], &format!("--transport {}", transport.name()))?;
            }
            match transport {
                TransportArg::Udp => given.refuse(&QUEUE_PAIR, "--transport udp")?,
                TransportArg::Verbs => adapter(args, given)?,
                TransportArg::Roce | TransportArg::Nic | TransportArg::Hsb => {
                    queue_pair(*transport, args, given)?;
                }
            }
        }
    }
    let on_queues = matches!(args.transport, Over::Own(TransportArg::Nic | TransportArg::Hsb));
    if args.kernels.is_some() && !(on_queues && args.dispatcher == Some(DispatcherArg::Device)) {
        bail!(misuse(
            "--kernels is of --dispatcher device with --transport nic or hsb, whose queues kernels work"
        ));
    }
    if super::hsb::adapter(args).is_none() {
        given.refuse(
            &["queues"],
            "a service without an adapter: give --transport hsb and its name as --device",
        )?;
    }
    if args.dispatcher == Some(DispatcherArg::Device) {
        within("--dispatcher device, whose kernels poll", args.slots, MAX_SLOTS)?;
        let relay = args.model.is_relay();
        let what = if relay {
            "--engine relay, whose kernel serves decode_syndrome beside a thread of the transport's"
        } else {
            "--dispatcher device, whose kernel serves rpc_increment beside a thread of the transport's"
        };
        given.refuse(&SideArgs::FIELDS, what)?;
        given.refuse(&["threads"], what)?;
        if relay {
            given.refuse(&ExperimentArgs::FORMS, what)?;
        } else {
            given.refuse(&ExperimentArgs::FIELDS, what)?;
            given.refuse(&DecoderArgs::FIELDS, what)?;
            given.refuse(&DeadlineArgs::FIELDS, what)?;
        }
    }
    Ok(())
}

/// Refuses a ring with more slots than its server can tell apart.
fn within(what: &str, slots: u32, most: u32) -> Result<()> {
    if slots > most {
        bail!(misuse(&format!("{what} {most} slots at most, not --slots {slots}")));
    }
    Ok(())
}

/// Refuses options that a queue pair would ignore, and missing ones.
fn queue_pair(transport: TransportArg, args: &Args, given: &Given<'_>) -> Result<()> {
    within(&format!("--transport {}, whose packets name", transport.name()), args.slots, MAX_PAGES)?;
    let works_on_queues = matches!(transport, TransportArg::Nic | TransportArg::Hsb);
    if works_on_queues {
        let what = format!("--transport {}, whose loop works on an adapter's queues", transport.name());
        given.refuse(&TagArgs::FIELDS, &what)?;
    }
    let peer = one_peer(args)?;
    hosts(args)?;
    if args.qp_type == QpTypeArg::Uc {
        return given.refuse(&["psn"], "--qp-type uc, which takes any number");
    }
    if works_on_queues {
        let text = format!("--transport {} serves --qp-type uc: give --transport roce", transport.name());
        bail!(misuse(&text));
    }
    given.refuse(&["peers"], "--qp-type rc, which has one peer")?;
    if peer.is_none() && args.rendezvous.is_none() {
        bail!(misuse("--qp-type rc has one peer: give --peer or --rendezvous"));
    }
    Ok(())
}

/// Refuses options that an adapter's queue pair would ignore, and missing ones.
fn adapter(args: &Args, given: &Given<'_>) -> Result<()> {
    let what = "--transport verbs, whose adapter decides it";
    given.refuse(&["bind", "qp", "rkey", "icrc", "peers"], what)?;
    if args.device.is_none() {
        bail!(misuse("--transport verbs needs --device: `rdma link` lists the RDMA devices"));
    }
    if args.dispatcher == Some(DispatcherArg::Device) {
        bail!(misuse("--transport verbs is served by the host's dispatcher: leave --dispatcher out"));
    }
    if args.peer.len() > 1 {
        bail!(misuse("--transport verbs has one peer: give one --peer"));
    }
    within("--transport verbs, which has", args.slots, MAX_PAGES)?;
    match (one_peer(args)?, args.rendezvous) {
        (Some(_), Some(_)) => {
            bail!(misuse("give --peer or --rendezvous: an adapter's queue pair has one peer"))
        }
        (None, None) => {
            bail!(misuse("--transport verbs has one peer: give --peer with --remote-qp, or --rendezvous"))
        }
        _ => Ok(()),
    }
}

/// Refuses options that an adapter's queue pair under a kernel would ignore, and missing ones.
fn adapter_of_a_kernel(args: &Args, given: &Given<'_>) -> Result<()> {
    let what = "--transport hsb with an adapter";
    given.refuse(
        &["bind", "qp", "rkey", "icrc", "peers", "rendezvous"],
        &format!("{what}, which decides it"),
    )?;
    if args.dispatcher != Some(DispatcherArg::Device) {
        bail!(misuse(&format!("{what} is served by a kernel of a GPU: give --dispatcher device")));
    }
    if args.kernels == Some(super::device::KernelsArg::Three) {
        bail!(misuse(&format!(
            "{what}, whose doorbell record has one writer, is served by one kernel: give --kernels unified"
        )));
    }
    if args.slots < LEAST_SLOTS {
        bail!(misuse(&format!("{what} has {LEAST_SLOTS} --slots at least")));
    }
    if one_peer(args)?.is_none() {
        bail!(misuse(&format!("{what} has one peer: give --peer with --remote-qp")));
    }
    Ok(())
}

/// The only peer of a queue pair, if it is named.
///
/// # Errors
/// [`Misuse`]: several peers, or one to which packets cannot be addressed.
pub(super) fn one_peer(args: &Args) -> Result<Option<SocketAddrV4>> {
    match args.peer[..] {
        [] | [_, _, ..] => Ok(None),
        [AllowedPeer { ip: IpAddr::V4(ip), port }] => {
            Ok(Some(SocketAddrV4::new(ip, port.unwrap_or(ROCE_PORT))))
        }
        _ => bail!(misuse("--peer of a RoCE service is one IPv4 address, or several without ports")),
    }
}

/// The hosts whose packets a queue pair accepts.
///
/// # Errors
/// [`Misuse`]: too many hosts, or text that is not a host.
pub(super) fn hosts(args: &Args) -> Result<Hosts> {
    let host = |peer: &AllowedPeer| match (peer.ip, peer.port, &args.peer[..]) {
        (IpAddr::V4(ip), None, _) | (IpAddr::V4(ip), _, [_]) => Ok(ip),
        _ => bail!(misuse("several --peer of a RoCE service are IPv4 addresses without ports")),
    };
    let hosts = args.peer.iter().map(host).collect::<Result<Vec<_>>>()?;
    Hosts::new(&hosts).ok_or_else(|| {
        misuse(&format!("--peer of a RoCE service names {} hosts at most", Hosts::MOST)).into()
    })
}

fn misuse(text: &str) -> Misuse {
    Misuse(text.to_owned())
}
