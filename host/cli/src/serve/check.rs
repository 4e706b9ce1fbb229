//! Which options apply to which service. One that would be ignored is an error: it may be meant to protect something.

use super::plugin::Over;
use super::{Args, DispatcherArg, TransportArg};
use crate::decoder::DecoderArgs;
use crate::experiment::ExperimentArgs;
use crate::usage::{Given, Misuse};
use anyhow::{Result, bail};
use ringcall_roce::ROCE_PORT;
use ringcall_transport::udp::AllowedPeer;
use std::net::{IpAddr, SocketAddrV4};

/// Options of a queue pair.
const QUEUE_PAIR: [&str; 6] = ["qp", "rkey", "remote_qp", "icrc", "peers", "rendezvous"];
/// What the plug-in decides.
const WIRE: [&str; 4] = ["bind", "slots", "slot_bytes", "peer"];

/// Refuses what would be ignored.
pub(super) fn check(args: &Args, given: &Given<'_>) -> Result<()> {
    if args.experiment.preset.is_some() {
        given.refuse(&["slots", "slot_bytes"], "--preset, which sets the ring")?;
    }
    match &args.transport {
        Over::Plugin(_) => {
            let what = "a plug-in, which takes its own arguments after `--`";
            given.refuse(&WIRE, what)?;
            given.refuse(&QUEUE_PAIR, what)?;
            if !matches!(args.dispatcher, None | Some(DispatcherArg::Host)) {
                bail!(misuse("a plug-in is served by the host's dispatcher: leave --dispatcher out"));
            }
        }
        Over::Own(transport) => {
            if !args.plugin_args.is_empty() {
                bail!(misuse("arguments after `--` are for a plug-in: give --transport plugin:LIBRARY"));
            }
            match (transport, args.dispatcher) {
                (TransportArg::Nic, None | Some(DispatcherArg::Unified)) => (),
                (TransportArg::Nic, Some(_)) => {
                    bail!(misuse("--transport nic is served by the unified loop: leave --dispatcher out"));
                }
                (_, Some(DispatcherArg::Unified)) => {
                    bail!(misuse("--dispatcher unified serves --transport nic"));
                }
                _ => (),
            }
            match transport {
                TransportArg::Udp => given.refuse(&QUEUE_PAIR, "--transport udp")?,
                TransportArg::Roce | TransportArg::Nic => drop(one_peer(args)?),
            }
        }
    }
    if args.dispatcher == Some(DispatcherArg::Device) {
        let what =
            "--dispatcher device, whose kernel serves rpc_increment beside a thread of the transport's";
        given.refuse(&ExperimentArgs::FIELDS, what)?;
        given.refuse(&DecoderArgs::FIELDS, what)?;
        given.refuse(&["threads"], what)?;
    }
    Ok(())
}

/// The one peer of a queue pair, if it is named.
///
/// # Errors
/// [`Misuse`]: more than one, or one that packets cannot be addressed to.
pub(super) fn one_peer(args: &Args) -> Result<Option<SocketAddrV4>> {
    match args.peer[..] {
        [] => Ok(None),
        [AllowedPeer { ip: IpAddr::V4(ip), port }] => {
            Ok(Some(SocketAddrV4::new(ip, port.unwrap_or(ROCE_PORT))))
        }
        _ => bail!(misuse("--peer of a RoCE service is one IPv4 address: answers go there")),
    }
}

fn misuse(text: &str) -> Misuse {
    Misuse(text.to_owned())
}
