//! Transport of a decoding server, from its file or the options.

use super::super::model::ModelArgs;
use super::super::plugin::Over;
use super::super::{Args, DispatcherArg, TransportArg};
use crate::decoder::DecoderArgs;
use crate::experiment::ExperimentArgs;
use crate::side::SideArgs;
use crate::usage::{Given, Misuse};
use anyhow::Result;
use ringcall_decoder_service::decoding_server::TransportConfig;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

/// Refuses options that would be ignored with a configuration.
pub(super) fn check(args: &Args, given: &Given<'_>) -> Result<()> {
    let what = "--config, whose file says what is decoded";
    given.refuse(&ExperimentArgs::FIELDS, what)?;
    given.refuse(&DecoderArgs::FIELDS, what)?;
    given.refuse(&["write_config", "stream"], "--config")?;
    given.refuse(&["decoders"], "--config: give --stream or --write-config")?;
    of_sessions(args, given, "--config")
}

/// Refuses options that would be ignored with --stream.
pub(super) fn check_stream(args: &Args, given: &Given<'_>) -> Result<()> {
    given.refuse(&ExperimentArgs::FORMS, "--stream, whose calls are a decoding server's")?;
    of_sessions(args, given, "--stream")
}

/// Refuses options that do not apply to sessions.
fn of_sessions(args: &Args, given: &Given<'_>, what: &str) -> Result<()> {
    given.refuse(&SideArgs::FIELDS, what)?;
    given.refuse(&["service", "engine"], what)?;
    given.refuse(&ModelArgs::FIELDS, what)?;
    given.refuse(&["kernels"], what)?;
    given.refuse(&["rendezvous", "qp_type", "psn", "device", "queues", "deadline", "preset"], what)?;
    if !matches!(args.dispatcher, None | Some(DispatcherArg::Host)) {
        return misuse(format!("{what} is served by the host's dispatcher: leave --dispatcher out"));
    }
    if args.check {
        given.refuse(&["duration", "stop_timeout", "metrics", "json"], "--check, which serves nothing")?;
    }
    Ok(())
}

fn misuse<T>(text: String) -> Result<T> {
    Err(Misuse(text).into())
}

/// The options combined with the file's transport, and whether a slot size was requested.
///
/// # Errors
/// [`Misuse`]: the file and the options contradict each other, or the file names an unknown transport.
pub(super) fn of_file(
    args: &Args,
    given: &Given<'_>,
    path: &Path,
    file: &TransportConfig,
) -> Result<(Args, bool)> {
    let mut args = args.clone();
    let refuse = |key: &str, reason: String| {
        misuse(format!("{}:{}: transport.{key}: {reason}", path.display(), file.line))
    };
    let names = format!("--config, whose file names the transport in line {}", file.line);
    if let Some(provider) = &file.provider {
        given.refuse(&["transport"], &names)?;
        args.transport = match &**provider {
            "udp" => Over::Own(TransportArg::Udp),
            "roce" | "cpu_roce" => Over::Own(TransportArg::Roce),
            library if library.contains('/') => Over::Plugin(library.to_owned()),
            other => {
                return refuse("provider", format!("`{other}`: take udp, cpu_roce or the path of a library"));
            }
        };
    }
    if let Over::Own(transport @ (TransportArg::Nic | TransportArg::Verbs | TransportArg::Hsb)) =
        args.transport
    {
        return misuse(format!(
            "--transport {} does not apply to --config: take udp, roce or plugin:LIBRARY",
            transport.name()
        ));
    }
    let mut sized = given.names("slot_bytes");
    if let Over::Plugin(_) = args.transport {
        // The command line's arguments come last: a provider that uses the last of two uses them.
        args.plugin_args.splice(0..0, file.args.iter().cloned());
        return Ok((args, sized));
    }
    let is_roce = args.transport == Over::Own(TransportArg::Roce);
    for (i, arg) in file.args.iter().enumerate() {
        let key = format!("args[{i}]");
        let Some((name, value)) = arg.split_once('=') else {
            return refuse(&key, format!("`{arg}` is no --NAME=VALUE"));
        };
        let number = |least: u32, most: u32| match value.parse::<u32>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(Misuse(format!(
                "{}:{}: transport.{key}: {name} is a number from {least} to {most}",
                path.display(),
                file.line
            ))),
        };
        let option = match name {
            "--port" => {
                args.bind.set_port(number(0, 65_535)? as u16);
                "bind"
            }
            "--num-slots" => {
                args.slots = number(1, 1_048_576)?;
                "slots"
            }
            "--slot-size" => {
                args.slot_bytes = number(64, 1_048_576)?;
                sized = true;
                "slot_bytes"
            }
            "--local-ip" if is_roce => match value.parse::<Ipv4Addr>() {
                Ok(ip) => {
                    args.bind = SocketAddr::new(IpAddr::V4(ip), args.bind.port());
                    "bind"
                }
                Err(_) => return refuse(&key, format!("`{value}` is no IPv4 address")),
            },
            "--remote-qp" if is_roce => {
                args.remote_qp = number(0, (1 << 24) - 1)?;
                "remote_qp"
            }
            "--peer-ip" if is_roce => match value.parse() {
                Ok(peer) => {
                    args.peer = vec![peer];
                    "peer"
                }
                Err(_) => return refuse(&key, format!("`{value}` is no address")),
            },
            _ => return refuse(&key, format!("`{name}` is not known of this transport")),
        };
        given.refuse(&[option], &format!("--config, whose file has {name}"))?;
    }
    Ok((args, sized))
}
