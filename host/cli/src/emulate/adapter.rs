//! Requests through an RDMA adapter instead of software RoCE.

use super::datagrams::{self, DatagramOptions, Way};
use super::faulty::Counts;
use super::target::Target;
use super::work::{Checker, Source};
use super::{Args, faults};
use crate::serve::{QpTypeArg, TransportArg};
use crate::usage::{Given, Misuse};
use anyhow::{Context, Result, bail};
use ringcall_roce::rendezvous;
use ringcall_sim::fpga::Report;
use ringcall_transport::Tagged;
use ringcall_transport::verbs::{PairOptions, RemoteQueuePair, VerbsCaller, VerbsWindow};
use std::net::SocketAddr;
use std::time::Duration;

/// Refuses options that have no effect with an adapter, and missing ones.
pub(super) fn check(args: &Args, given: &Given<'_>, transport: TransportArg) -> Result<()> {
    if transport != TransportArg::Verbs {
        return given.refuse(&["device"], &format!("--transport {}", transport.name()));
    }
    let what = "--transport verbs, whose adapter decides it";
    given.refuse(&["metadata", "time_stamps", "qp", "bind", "icrc"], what)?;
    given.refuse(
        &["duplicate", "reorder"],
        "--transport verbs, whose adapter sends each packet once and in order",
    )?;
    let misuse = |text: &str| Misuse(text.to_owned());
    if args.device.is_none() {
        bail!(misuse("--transport verbs needs --device: `rdma link` lists the RDMA devices"));
    }
    if args.rendezvous.is_none() {
        bail!(misuse("--transport verbs needs --rendezvous: the service must know the adapter's queue pair"));
    }
    Ok(())
}

/// Opens the device, introduces its queue pair to the service, and sends the requests.
pub(super) fn run(
    args: &Args,
    target: &Target<'_>,
    interval: Duration,
    source: &mut Source,
    checker: &mut Checker,
    stop: &dyn Fn() -> bool,
) -> Result<(Report, SocketAddr)> {
    let (device, service) =
        args.device.clone().zip(args.rendezvous).context("no --device or --rendezvous")?;
    let reliable = target.qp_type(args.qp_type)? == QpTypeArg::Rc;
    let first_psn = args.psn.or(target.psn()?).unwrap_or(0);
    let window = target.window(true)?;
    let in_flight = args.in_flight.min(window.pages);
    let pair = PairOptions {
        device,
        ip: None,
        reliable,
        // Answers to requests that were given up may still come.
        slots: (2 * in_flight).min(4096),
        slot_bytes: window.page_bytes,
        mtu: args.mtu.into(),
        first_psn,
    };
    let mut wire = VerbsCaller::open(pair)?;
    let timeout = args.timeout;
    let there = rendezvous::call(service, wire.side(), timeout)
        .with_context(|| format!("the rendezvous at {service}"))?;
    let pages =
        VerbsWindow { key: there.key, base: window.base, page_bytes: window.page_bytes, pages: in_flight };
    wire.connect(RemoteQueuePair { qp: there.qp, ip: there.ip }, pages)?;
    let options = DatagramOptions {
        to: SocketAddr::V4(window.peer),
        function: args.function,
        requests: args.requests,
        interval,
        in_flight: in_flight as usize,
        timeout,
        frame_bytes: (window.page_bytes as usize).saturating_sub(args.tags.bytes()),
        faults: faults(args),
    };
    let fault = |wire: &Tagged<VerbsCaller>| wire.wire().fault().map(Into::into);
    let way = Way { wire: Tagged::new(wire, args.tags.key()), peer: (), faults: Counts::default(), fault };
    let report = datagrams::run(way, &options, source, checker, stop)?;
    Ok((report, options.to))
}
