//! Requests over a caller's wire instead of software RoCE, with the same loop and the same report.

use super::faulty::Faulty;
use super::work::{Checker, FunctionArg, Source};
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_sim::fpga::{FaultStats, Faults, Latency, Report, TimeFormat};
use ringcall_transport::{Caller, CallerError, CallerOptions, RequestOutcome, Wire, udp};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

pub(super) struct DatagramOptions {
    pub(super) to: SocketAddr,
    pub(super) function: FunctionArg,
    pub(super) requests: u64,
    pub(super) interval: Duration,
    pub(super) in_flight: usize,
    pub(super) timeout: Duration,
    /// The longest request or answer.
    pub(super) frame_bytes: usize,
    pub(super) faults: Faults,
}

/// How long to wait for answers after a stop.
const DRAIN: Duration = Duration::from_millis(300);
/// A service counts as absent after this time without any answer while a request is past its timeout.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// The longest sleep, which bounds how late a signal is noticed.
const SLEEP: Duration = Duration::from_millis(2);

struct Open {
    payload: Vec<u8>,
    time: u64,
    withheld: bool,
}

/// A socket that injects faults into requests.
pub(super) fn connect(options: &DatagramOptions) -> Result<(Faulty, super::faulty::Counts)> {
    let any = match options.to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let mut wire =
        udp::Udp::bind(&udp::UdpOptions { address: SocketAddr::new(any, 0), ..Default::default() })?;
    wire.connect(options.to).with_context(|| format!("no route to {}", options.to))?;
    // Losses are requests that are never sent, and the caller's table handles them.
    Ok(Faulty::new(wire, options.to.into(), Faults { loss: 0.0, ..options.faults }))
}

pub(super) struct Way<W: Wire> {
    pub(super) wire: W,
    pub(super) peer: W::Peer,
    /// Faults injected by the wire itself.
    pub(super) faults: super::faulty::Counts,
    /// Why the wire has failed, if it has.
    pub(super) fault: fn(&W) -> Option<anyhow::Error>,
}

/// Sends requests over a wire, and checks the answers.
pub(super) fn run<W: Wire>(
    way: Way<W>,
    options: &DatagramOptions,
    source: &mut Source,
    checker: &mut Checker,
    stop: &dyn Fn() -> bool,
) -> Result<Report> {
    let config = CallerOptions {
        window: options.in_flight,
        deadline: options.timeout,
        frame_bytes: options.frame_bytes,
        ..CallerOptions::default()
    };
    let Way { wire, peer, faults, fault } = way;
    let mut caller = Caller::new(wire, peer, &config)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.faults.seed);
    let mut report = Report::default();
    let mut latency =
        Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).context("the histogram of latencies")?;
    let mut open: HashMap<u32, Open> = HashMap::with_capacity(options.in_flight);
    let begin = Instant::now();
    let mut more = true;
    let mut idle = 0_u32;
    let mut stopped = None;
    while more || caller.waiting() > 0 {
        let silent = report.unanswered > 0
            && report.answered() + caller.stats().late == 0
            && begin.elapsed() >= SILENCE;
        if stopped.is_none() && stop() {
            stopped = Some(Instant::now());
        }
        if stopped.is_some_and(|at| at.elapsed() >= DRAIN) {
            break;
        }
        more = more && report.sent < options.requests && !silent && stopped.is_none();
        let due = begin + options.interval.mul_f64(report.sent as f64);
        if more && caller.room() > 0 && Instant::now() >= due {
            let mut payload = Vec::new();
            more = source.next(&mut payload);
            let withheld = uniform(&mut random) < options.faults.loss;
            let time = TimeFormat::Nanoseconds.now();
            let sent = if withheld {
                caller.withhold()
            } else {
                report.packets += 1;
                report.payload_bytes += payload.len() as u64;
                caller.send(options.function.id(), time, &payload)
            };
            match sent {
                Ok(id) => {
                    report.sent += 1;
                    report.faults.lost += u64::from(withheld);
                    open.insert(id, Open { payload, time, withheld });
                    idle = 0;
                }
                Err(error @ CallerError::TooLong { .. }) => return Err(error.into()),
                Err(_) => report.stalls += 1,
            }
        }
        let ended = caller.poll(|ended| {
            let Some(Open { payload, time, withheld }) = open.remove(&ended.id) else { return };
            match ended.outcome {
                RequestOutcome::Answered(header, result) => {
                    latency
                        .saturating_record(u64::try_from(ended.took.as_nanos()).unwrap_or(u64::MAX).max(1));
                    if header.ptp_timestamp != time {
                        report.wrong_time += 1;
                    } else if checker.is_right(&payload, header.status(), result) {
                        report.correct += 1;
                    } else if header.status().is_protocol_error() {
                        report.refuse(header.status());
                    } else {
                        report.wrong_content += 1;
                    }
                }
                RequestOutcome::Lost if withheld => report.lost += 1,
                RequestOutcome::Lost | RequestOutcome::Unsent => report.unanswered += 1,
            }
        });
        if ended == 0 && caller.stats().closed > 0 {
            report.closed = true;
            break;
        }
        if let Some(why) = fault(caller.wire()) {
            return Err(why).context("the connection has ended");
        }
        idle = if ended > 0 { 0 } else { idle.saturating_add(1) };
        if idle > 1000 {
            let next =
                if more && caller.room() > 0 { due.saturating_duration_since(Instant::now()) } else { SLEEP };
            caller.wait(next.min(SLEEP)).context("waiting for answers")?;
        } else if idle > 16 {
            std::thread::yield_now();
        }
    }
    // Some are left if the port is closed, and after a stop.
    let withheld = open.values().filter(|open| open.withheld).count() as u64;
    report.lost += withheld;
    report.unanswered += open.len() as u64 - withheld;
    let counts = caller.stats();
    let elapsed = begin.elapsed().as_secs_f64();
    let injected = *faults.lock().unwrap_or_else(PoisonError::into_inner);
    report.faults = FaultStats { lost: report.faults.lost, ..injected };
    report.late = counts.late;
    report.duplicate_answers = counts.duplicates;
    report.unexpected = counts.strays;
    report.malformed = counts.malformed;
    report.wrong_tag = counts.wrong_tag;
    report.latency_ns = Latency::of(&latency);
    report.elapsed_s = elapsed;
    report.throughput_per_s = report.answered() as f64 / elapsed.max(1e-9);
    Ok(report)
}

/// A random number from 0 to 1, without 1.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
