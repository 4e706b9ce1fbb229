//! The `ringcall` command.

mod bench;
mod output;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Real-time RPC over polled ring buffers, for quantum error correction.
#[derive(Debug, Parser)]
#[command(name = "ringcall", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures this machine: floor, host calls, the pipeline's own cost
    Bench(bench::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringcall: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Bench(args) => bench::run(&args),
    }
}
