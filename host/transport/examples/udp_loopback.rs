//! Measures UDP over loopback between two processes: a service (host dispatcher, `rpc_increment`) and a caller.
//!
//! `cargo run --release -p ringcall-transport --example udp_loopback` starts both; `serve` and `call` start one half
//! each, for two terminals or two machines. Exits with 1 if any answer is wrong or any request unaccounted for.

use clap::{Args, Parser, Subcommand, ValueEnum};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, RingConfig, Wait};
use ringcall_transport::{
    CallerError, CallerOptions, EndedRequest, IdleStrategy, Link, OneThread, RequestOutcome, RingFilling,
    ThreadOptions, Threaded, udp,
};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const FUNCTION: &str = "rpc_increment";

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    half: Option<Half>,
    #[command(flatten)]
    service: ServiceArgs,
    #[command(flatten)]
    calls: CallArgs,
}

#[derive(Subcommand)]
enum Half {
    /// The service alone; ends when its standard input does.
    Serve(ServiceArgs),
    /// The caller alone.
    Call {
        /// The service's address.
        to: SocketAddr,
        #[command(flatten)]
        calls: CallArgs,
    },
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum Mode {
    /// Transport and dispatcher on one thread.
    Unified,
    /// A thread for each.
    Threaded,
}

#[derive(Args, Clone)]
struct ServiceArgs {
    /// How the service runs.
    #[arg(long, value_enum, default_value = "unified")]
    mode: Mode,
    /// Where it is bound.
    #[arg(long, default_value = "127.0.0.1:0")]
    bind: SocketAddr,
    /// Slots of the ring.
    #[arg(long, default_value_t = 64)]
    slots: u32,
    /// Bytes of a slot.
    #[arg(long, default_value_t = 256)]
    slot_bytes: u32,
    /// Empty turns before a thread yields; 0: it never does.
    #[arg(long, default_value_t = 16)]
    spins: u32,
}

#[derive(Args, Clone)]
struct CallArgs {
    /// Requests of each phase.
    #[arg(long, default_value_t = 1_000_000)]
    requests: u64,
    /// Requests under way in the pipelined phase.
    #[arg(long, default_value_t = 64)]
    window: usize,
    /// Payload bytes.
    #[arg(long, default_value_t = 32)]
    bytes: usize,
    /// Of a hundred requests, so many are lost on purpose.
    #[arg(long, default_value_t = 0.0)]
    loss_percent: f64,
    /// How long an answer may take.
    #[arg(long, default_value_t = 500)]
    deadline_ms: u64,
    /// Only one phase.
    #[arg(long, value_enum)]
    only: Option<Phase>,
    /// Seed of payloads and losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
enum Phase {
    /// One outstanding.
    Latency,
    /// Many.
    Throughput,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let cli = Cli::parse();
    match cli.half {
        Some(Half::Serve(service)) => serve(&service).map(|()| ExitCode::SUCCESS),
        Some(Half::Call { to, calls }) => call(to, &calls),
        None => both(&cli.service, &cli.calls),
    }
}

fn both(service: &ServiceArgs, calls: &CallArgs) -> Result<ExitCode, Box<dyn Error>> {
    let mode = if service.mode == Mode::Unified { "unified" } else { "threaded" };
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve", "--mode", mode, "--bind", &service.bind.to_string()])
        .args(["--slots", &service.slots.to_string(), "--slot-bytes", &service.slot_bytes.to_string()])
        .args(["--spins", &service.spins.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let endpoint = lines.next().ok_or("the service did not start")??;
    let port = endpoint.rsplit_once("port=").ok_or("no port")?.1.parse()?;
    let outcome = call(SocketAddr::new(service.bind.ip(), port), calls);
    drop(child.stdin.take());
    for line in lines {
        say(&format!("service: {}", line?));
    }
    child.wait()?;
    outcome
}

fn serve(args: &ServiceArgs) -> Result<(), Box<dyn Error>> {
    let ring = Ring::allocate(RingConfig { slots: args.slots, slot_bytes: args.slot_bytes })?;
    let table = FunctionTable::builder()
        .host_call(FUNCTION, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .build(&ring)?;
    let wait = if args.spins == 0 { Wait::Spin } else { Wait::Yield { spins: args.spins } };
    let options = ThreadOptions { idle: IdleStrategy { wait, ..IdleStrategy::default() }, core: None };
    let dispatcher =
        HostDispatcher::builder(&ring, table).options(HostOptions { wait, ..HostOptions::default() });
    let link =
        Link::attach(udp::Udp::bind(&udp::UdpOptions { address: args.bind, ..Default::default() })?, &ring)?;
    let until_stopped = || std::io::stdin().read_to_end(&mut Vec::new());
    let timeout = Duration::from_secs(2);
    match args.mode {
        Mode::Unified => {
            let service = OneThread::start(link, dispatcher.build()?, &options)?;
            say(&service.endpoint().to_string());
            until_stopped()?;
            say(&service.stop(timeout).0.to_string());
        }
        Mode::Threaded => {
            let dispatcher = dispatcher.build()?.start()?;
            let transport = Threaded::start(link, &options)?;
            say(&transport.endpoint().to_string());
            until_stopped()?;
            say(&Box::new(transport).stop(timeout).to_string());
            let _ = dispatcher.stop(timeout);
        }
    }
    Ok(())
}

/// The caller's observations, besides its counters.
#[derive(Default)]
struct Seen {
    right: u64,
    wrong: u64,
    lost: u64,
    unsent: u64,
}

fn call(to: SocketAddr, args: &CallArgs) -> Result<ExitCode, Box<dyn Error>> {
    let mut good = true;
    for (phase, name, window) in
        [(Phase::Latency, "one outstanding", 1), (Phase::Throughput, "pipelined", args.window)]
    {
        if args.only.is_none_or(|only| only == phase) {
            good &= run(to, args, name, window)?;
        }
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one phase. Returns whether every answer was right and every request is accounted for.
fn run(to: SocketAddr, args: &CallArgs, name: &str, window: usize) -> Result<bool, Box<dyn Error>> {
    let options = CallerOptions {
        window,
        deadline: Duration::from_millis(args.deadline_ms),
        frame_bytes: 24 + args.bytes,
        ..CallerOptions::default()
    };
    let mut caller = udp::Caller::connect(to, &options)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(args.seed);
    let function = FunctionId::of(FUNCTION);
    // The payload follows from the time stamp, which serves as a number here and comes back, so every answer can be
    // checked.
    let fill = |number: u64, out: &mut [u8]| {
        let mut word = number.wrapping_add(args.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for chunk in out.chunks_mut(8) {
            word = word.rotate_left(23).wrapping_mul(5);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    };
    let mut payload = vec![0; args.bytes];
    let mut expected = vec![0; args.bytes];
    let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut seen = Seen::default();
    let (mut sent, mut withheld, mut ended) = (0, 0, 0);
    let mut quiet = 0_u32;
    let begin = Instant::now();
    while ended < args.requests {
        while sent < args.requests && caller.room() > 0 {
            if args.loss_percent > 0.0 && rng.random_bool(args.loss_percent / 100.0) {
                caller.withhold()?;
                withheld += 1;
            } else {
                fill(sent, &mut payload);
                match caller.send(function, sent, &payload) {
                    Ok(_) => (),
                    Err(CallerError::Full(_)) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            sent += 1;
        }
        let n = caller.poll(|end: EndedRequest<'_>| match end.outcome {
            RequestOutcome::Answered(header, result) => {
                fill(header.ptp_timestamp, &mut expected);
                expected.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                if header.status().is_ok() && result == expected {
                    seen.right += 1;
                } else {
                    seen.wrong += 1;
                }
                times.saturating_record(end.took.as_nanos() as u64);
            }
            RequestOutcome::Lost => seen.lost += 1,
            RequestOutcome::Unsent => seen.unsent += 1,
        });
        ended += n as u64;
        quiet = if n > 0 { 0 } else { quiet.saturating_add(1) };
        if quiet > 16 {
            std::thread::yield_now();
        }
    }
    let took = begin.elapsed();
    let us = |q: f64| times.value_at_quantile(q) as f64 / 1000.0;
    say(&format!(
        "{name}: {} requests of {} B, window {window}: p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us; {:.0} requests/s",
        args.requests,
        args.bytes,
        us(0.5),
        us(0.99),
        us(0.999),
        args.requests as f64 / took.as_secs_f64(),
    ));
    let unaccounted = i128::from(args.requests)
        - [seen.right, seen.wrong, seen.lost, seen.unsent].into_iter().map(i128::from).sum::<i128>();
    say(&format!(
        "  right {}, wrong {}, lost {} (on purpose {withheld}), unsent {}, unaccounted {unaccounted}; {}",
        seen.right,
        seen.wrong,
        seen.lost,
        seen.unsent,
        caller.stats()
    ));
    Ok(seen.wrong == 0 && unaccounted == 0 && caller.stats().balance() == 0)
}

/// The reader of the output may be gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
