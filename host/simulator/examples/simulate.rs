//! Runs worlds, each of which follows from its seed: `cargo xtask simulate`.

#![allow(clippy::print_stdout)] // a command: standard output is its user interface

use clap::Parser;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_simulator::{Size, Summary};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[derive(Parser)]
struct Args {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Ends after so many seconds, with the seeds that were run by then.
    #[arg(long)]
    limit_s: Option<u64>,
    /// So many worlds at a time, a thread each.
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Goes on after a violation, and counts them.
    #[arg(long)]
    keep_going: bool,
    /// Correct RoCE peers in every world, in place of what the seed says.
    #[arg(long)]
    peers: Option<u32>,
    /// Hostile peers beside them.
    #[arg(long, default_value_t = 2, requires = "peers")]
    hostile: u32,
    /// Requests of each correct peer.
    #[arg(long, default_value_t = 1000, requires = "peers")]
    requests: u32,
}

/// What the threads have run together.
#[derive(Default)]
struct Progress {
    total: Summary,
    run: u64,
    broken: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let begin = Instant::now();
    let size = args.peers.map(|peers| Size { peers, hostile: args.hostile, requests: args.requests });
    let (from, seeds) = args.seed.map_or((args.from, args.seeds), |seed| (seed, 1));
    let end = from.saturating_add(seeds);
    let (next, progress) = (DeviceU64::new(from), Mutex::new(Progress::default()));
    let lock = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    // A world is one thread's, whose clock it sets.
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end || args.limit_s.is_some_and(|limit| begin.elapsed().as_secs() >= limit) {
                break;
            }
            let outcome = match &size {
                Some(size) => ringcall_simulator::run_sized(seed, size),
                None => ringcall_simulator::run(seed),
            };
            let mut progress = lock();
            progress.run += 1;
            match outcome {
                Ok(summary) => progress.total.add(&summary),
                Err(violation) => {
                    println!("seed {seed}: {violation}\n  again: cargo xtask simulate --seed {seed}");
                    progress.broken += 1;
                    if !args.keep_going {
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                    }
                }
            }
            if progress.run.is_multiple_of(100_000) {
                let Progress { total, run, .. } = &*progress;
                println!("{run} seeds in {:.0} s: {total}", begin.elapsed().as_secs_f64());
            }
        }
    };
    std::thread::scope(|scope| {
        (1..args.threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let Progress { total, run, broken } = &*lock();
    let took = begin.elapsed().as_secs_f64();
    println!(
        "{run} seeds from {from} on in {took:.1} s ({:.0} a second), {broken} broken: {total}",
        *run as f64 / took
    );
    if *broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
