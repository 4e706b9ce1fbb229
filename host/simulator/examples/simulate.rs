//! Runs worlds, each of which follows from its seed: `cargo xtask simulate`.

#![allow(clippy::print_stdout)] // a command: standard output is its user interface

use clap::Parser;
use ringcall_simulator::{Size, Summary};
use std::process::ExitCode;
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

fn main() -> ExitCode {
    let args = Args::parse();
    let begin = Instant::now();
    let size = args.peers.map(|peers| Size { peers, hostile: args.hostile, requests: args.requests });
    let (from, seeds) = args.seed.map_or((args.from, args.seeds), |seed| (seed, 1));
    let (mut total, mut run, mut broken) = (Summary::default(), 0_u64, 0_u64);
    for seed in from..from.saturating_add(seeds) {
        if args.limit_s.is_some_and(|limit| begin.elapsed().as_secs() >= limit) {
            break;
        }
        run += 1;
        let outcome = match &size {
            Some(size) => ringcall_simulator::run_sized(seed, size),
            None => ringcall_simulator::run(seed),
        };
        match outcome {
            Ok(summary) => total.add(&summary),
            Err(violation) => {
                println!("seed {seed}: {violation}\n  again: cargo xtask simulate --seed {seed}");
                broken += 1;
                if !args.keep_going {
                    break;
                }
            }
        }
        if run.is_multiple_of(100_000) {
            println!("{run} seeds in {:.0} s: {total}", begin.elapsed().as_secs_f64());
        }
    }
    println!(
        "{run} seeds from {from} on in {:.1} s, {broken} broken: {total}",
        begin.elapsed().as_secs_f64()
    );
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
