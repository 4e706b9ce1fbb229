//! `--protocol decoding`: a control system that calls a decoding server and checks every correction.

use super::measurements::Measurements;
use super::{Args, target::Target};
use crate::decoder::DecoderArgs;
use crate::experiment::ExperimentArgs;
use crate::output;
use crate::runs::{Run, RunSource};
use crate::serve::TransportArg;
use crate::serve::decoding::file;
use crate::side::SideArgs;
use crate::signals::{self, Signals};
use crate::style;
use crate::usage::{Given, Misuse};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use ringcall::wire::decoding::{EnqueueSyndromes, MAX_SYNDROME_BITS};
use ringcall::wire::header::HEADER_BYTES;
use ringcall_decoder_service::decoding_server::{Config, DecoderConfig, Frame, Session};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::Shot;
use ringcall_sim::fpga::Latency;
use ringcall_transport::{Caller, CallerOptions, DecodingClient, Tagged, udp};
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// This many consecutive failed calls end the run: the server is gone, or serves something else.
const MAX_FAILURES: u64 = 16;

/// Counters and latencies of the server's answers.
#[derive(Debug, Default, Serialize)]
struct Report {
    decoders: usize,
    /// Volumes sent, and calls in total.
    shots: u64,
    calls: u64,
    /// Corrections that equal those of a local decoder, and corrections that do not.
    correct: u64,
    wrong: u64,
    /// Volumes without corrections.
    failed: u64,
    first_failure: Option<String>,
    /// Corrections that differ from the sampled errors' flips: the code's logical errors.
    logical_errors: u64,
    /// Endless runs: decisions of the local decoder that later rounds might have changed.
    forced: u64,
    /// From the last measurements to the corrections.
    latency_ns: Latency,
    elapsed_s: f64,
    ok: bool,
}

/// One decoder of the server, with its requests.
struct Patient {
    client: DecodingClient<Tagged<udp::Udp>>,
    volumes: Volumes,
    bytes: Vec<u8>,
    observables: i64,
    own: Session,
    expected: Vec<u8>,
    found: Vec<u8>,
}

enum Volumes {
    /// Shots of the decoder's errors.
    Whole { sampler: Box<Sampler>, shot: Shot, measurements: Measurements, count: usize },
    /// Runs of `rounds` rounds, with the measurements of each round, and of the first and the last.
    Endless { source: RunSource, rounds: u32, each: u32, boundary: u32 },
}

impl Volumes {
    fn of(decoder: &DecoderConfig, seed: u64, run_rounds: u32) -> Result<Self> {
        let Some((each, boundary)) = decoder.endless() else {
            let sampler = Box::new(Sampler::new(&decoder.model(), seed)?);
            let count = decoder.measurements();
            let measurements = Measurements::new(decoder.detector_measurements(), count)?;
            return Ok(Self::Whole { shot: sampler.new_shot(), sampler, measurements, count });
        };
        let is_copy = |(at, row): (u32, &Vec<u32>)| *row == [at];
        if !(0..).zip(decoder.detector_measurements()).all(is_copy) {
            bail!(
                "runs of any length are emulated where each detector is one measurement, in the same order"
            );
        }
        let detectors = decoder.detectors() as u32;
        // The first round has `boundary` detectors, and the last one may have fewer than the others.
        let round = move |at: u32| if at < boundary { 0 } else { 1 + (at - boundary) / each };
        let last = 1 + (detectors - 2 * boundary) / each;
        let source = RunSource::new(decoder.model(), (0..detectors).map(move |at| round(at).min(last)));
        Ok(Self::Endless { source, rounds: run_rounds.max(detectors / each), each, boundary })
    }
}

fn check(given: &Given<'_>) -> Result<()> {
    let what = "--protocol decoding";
    given.refuse(&ExperimentArgs::FIELDS, what)?;
    given.refuse(&DecoderArgs::FIELDS, what)?;
    given.refuse(&SideArgs::FIELDS, what)?;
    given.refuse(&["function", "rate", "payload", "loss", "duplicate", "reorder"], what)?;
    given.refuse(&["metadata", "time_stamps", "rendezvous", "qp"], what)
}

pub(super) fn run(args: &Args, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    check(given)?;
    let Some(path) = &args.config else {
        bail!(Misuse("--protocol decoding needs --config: the file that the server was given".to_owned()));
    };
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let target = Target::parse(&args.connect)?;
    if target.transport(args.transport)? != TransportArg::Udp {
        bail!(Misuse("--protocol decoding is spoken over udp".to_owned()));
    }
    target.check_tag(args.tags.key())?;
    let config = file::read(path, args.memory)?;
    args.memory.admit(&file::estimate(path, &config))?;
    let mut patients = Vec::with_capacity(config.decoders.len());
    for (i, decoder) in config.decoders.iter().enumerate() {
        let patient = Patient::new(args, path, &target, decoder, i as u64);
        patients.push(patient.with_context(|| format!("decoder {}", decoder.id()))?);
    }
    signals.run_bounded(super::GRACE_PERIOD);
    let report = drive(args, &config, &mut patients, &|| signals.received().is_some())?;
    if args.json.as_ref().is_none_or(|path| path.as_os_str() != "-") {
        let mut out = std::io::stdout();
        write!(out, "{report}").and_then(|()| out.flush()).context("standard output")?;
    }
    args.json.as_ref().map_or(Ok(()), |path| output::write_json(path, &report))?;
    if let Some(signal) = signals.received() {
        return Ok(signals::status(signal));
    }
    if !report.ok {
        bail!("not every volume had the right corrections");
    }
    Ok(0)
}

impl Patient {
    fn new(
        args: &Args,
        path: &Path,
        target: &Target<'_>,
        decoder: &DecoderConfig,
        index: u64,
    ) -> Result<Self> {
        // Its corrections do not depend on how fast this machine is.
        let own = decoder.clone().without_deadline();
        let own = Session::new(&own, Frame::Volume).map_err(|error| file::refusal(path, &error))?;
        let count = match decoder.endless() {
            Some((each, _)) => each as usize,
            None => decoder.measurements(),
        };
        let parts = if decoder.endless().is_some() { 1 } else { args.parts as usize };
        let part = count.div_ceil(parts).min(MAX_SYNDROME_BITS);
        let frame_bytes = (HEADER_BYTES + EnqueueSyndromes::bytes(part)).max(1024);
        let deadline = args.timeout;
        let options = CallerOptions {
            frame_bytes,
            window: args.in_flight as usize,
            deadline,
            ..CallerOptions::default()
        };
        let address: SocketAddr = target.ring(decoder.id())?;
        let wire = Tagged::new(udp::Udp::to(address)?, args.tags.key());
        let caller = Caller::new(wire, address.into(), &options)?;
        let volumes = Volumes::of(decoder, args.seed.wrapping_add(index), args.run_rounds)?;
        let mut client = DecodingClient::new(caller, decoder.id(), decoder.observables());
        client.reset().with_context(|| format!("the server at {address}"))?;
        let bytes = client.correction_bytes();
        Ok(Self {
            volumes,
            bytes: Vec::new(),
            client,
            observables: decoder.observables() as i64,
            own,
            expected: vec![0; bytes],
            found: vec![0; bytes],
        })
    }
}

fn drive(args: &Args, config: &Config, patients: &mut [Patient], stop: &dyn Fn() -> bool) -> Result<Report> {
    let mut report = Report { decoders: config.decoders.len(), ..Report::default() };
    let mut latency =
        Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).context("the histogram of latencies")?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(args.seed);
    let (mut words, mut failures) = (Vec::new(), 0);
    let begin = Instant::now();
    for turn in 0..args.requests {
        if stop() || failures >= MAX_FAILURES {
            break;
        }
        let index = (turn % patients.len() as u64) as usize;
        let Patient { client, volumes, bytes, observables, own, expected, found } = &mut patients[index];
        let calls = &mut report.calls;
        let (sent, truth) = match volumes {
            Volumes::Whole { sampler, shot, measurements, count } => {
                sampler.sample_into(shot)?;
                if !measurements.solve(shot.detectors.words(), &mut random, &mut words) {
                    bail!(
                        "no measurements have the detectors of a shot: rows of D_sparse depend on one another"
                    );
                }
                bytes.clear();
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                own.push(*count, bytes);
                let truth: Vec<u8> = shot.observables.iter_bytes().collect();
                (volume(client, *count, args.parts as usize, bytes, found, calls), truth)
            }
            Volumes::Endless { source, rounds, each, boundary } => {
                let run = source.draw(*rounds + 1, &mut random);
                let mut truth = vec![0; found.len()];
                (0..64.min(*observables as u32))
                    .for_each(|o| truth[o as usize / 8] |= u8::from(run.flips(o)) << (o % 8));
                (endless_run(client, &run, [*rounds, *each, *boundary], own, bytes, found, calls), truth)
            }
        };
        report.shots += 1;
        match sent {
            Ok(took) => {
                own.corrections(*observables, true, expected)
                    .map_err(|status| anyhow::anyhow!("our own decoder: {status}"))?;
                failures = 0;
                latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1));
                if found == expected {
                    report.correct += 1;
                } else {
                    report.wrong += 1;
                }
                report.logical_errors += u64::from(truth != *found);
            }
            Err(error) => {
                failures += 1;
                report.failed += 1;
                report.first_failure.get_or_insert_with(|| error.to_string());
                // A failed reset is counted with the next volume.
                let _ = client.reset();
                own.reset();
            }
        }
    }
    report.elapsed_s = begin.elapsed().as_secs_f64();
    report.latency_ns = Latency::of(&latency);
    report.forced = patients.iter().map(|patient| patient.own.forced()).sum();
    report.ok = report.correct == args.requests;
    Ok(report)
}

/// Sends a run round by round, and decodes it locally, too. Returns the time from the last round to the corrections.
fn endless_run(
    client: &mut DecodingClient<Tagged<udp::Udp>>,
    run: &Run,
    [rounds, each, boundary]: [u32; 3],
    own: &mut Session,
    bytes: &mut Vec<u8>,
    found: &mut [u8],
    calls: &mut u64,
) -> Result<Duration, ringcall_transport::DecodingError> {
    let mut measured = |round: u32, bytes: &mut Vec<u8>| {
        let count = if round == 0 || round == rounds { boundary } else { each } as usize;
        bytes.clear();
        bytes.resize(count.div_ceil(8), 0);
        run.round(round as usize).iter().for_each(|&at| bytes[at as usize / 8] |= 1 << (at % 8));
        own.push(count, bytes);
        count
    };
    for round in 0..rounds {
        let count = measured(round, bytes);
        client.enqueue(count, bytes)?;
    }
    let count = measured(rounds, bytes);
    *calls += u64::from(rounds) + 2;
    client.wait();
    let begin = Instant::now();
    client.finish(count, bytes, true, found)?;
    Ok(begin.elapsed())
}

/// Sends one volume in parts. Returns the time from the last part to the corrections.
fn volume(
    client: &mut DecodingClient<Tagged<udp::Udp>>,
    count: usize,
    parts: usize,
    bytes: &[u8],
    found: &mut [u8],
    calls: &mut u64,
) -> Result<Duration, ringcall_transport::DecodingError> {
    // Whole bytes, so that no part needs to be shifted.
    let part = count.div_ceil(parts).next_multiple_of(8);
    let mut from = 0;
    while count - from > part {
        client.enqueue(part, &bytes[from / 8..])?;
        *calls += 1;
        from += part;
    }
    *calls += 2;
    // A control system's rounds come more slowly than they are answered, so the latency must not include a queue of
    // them.
    client.wait();
    let begin = Instant::now();
    client.finish(count - from, &bytes[from / 8..], true, found)?;
    Ok(begin.elapsed())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decoders, shots, calls, correct, wrong, failed, logical_errors, .. } = self;
        let plural = if *decoders == 1 { "" } else { "s" };
        writeln!(f, "{shots} volumes of {decoders} decoder{plural}, {calls} calls")?;
        let words =
            format!("correct {correct}, wrong {wrong}, none {failed}, logical errors {logical_errors}");
        f.write_str(&style::paragraph("corrections", 13, &words))?;
        if self.forced > 0 {
            writeln!(f, "decisions that later rounds might have changed: {}", self.forced)?;
        }
        if let Some(why) = &self.first_failure {
            f.write_str(&style::paragraph("first failure", 15, why))?;
        }
        // The latency is measured from the last measurements to the corrections.
        if correct + wrong == 0 {
            return Ok(());
        }
        f.write_str(&style::paragraph("latency", 13, &super::summary::latency(&self.latency_ns)))?;
        let rate = style::per_second(*shots as f64 / self.elapsed_s.max(1e-9));
        let words = format!(
            "{rate} (volumes) over {}",
            style::span(Duration::from_secs_f64(self.elapsed_s.max(0.0)))
        );
        f.write_str(&style::paragraph("rate", 13, &words))
    }
}
