//! The `ringcall` command.

mod bench;
mod decoder;
mod doctor;
mod emulate;
mod experiment;
mod machine;
mod memory;
mod network;
mod output;
mod pinning;
mod predict;
mod report;
mod run;
mod serve;
mod signals;
mod sweep;
mod usage;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use usage::{Given, Misuse};

/// Real-time RPC over polled ring buffers, for quantum error correction.
#[derive(Debug, Parser)]
#[command(name = "ringcall", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a memory experiment through the whole pipeline, and reports
    Run(Box<run::Args>),
    /// Measures this machine: floor, host calls, the pipeline's own cost, matching
    Bench(bench::Args),
    /// Serves requests from a network: a decoder, and a function to measure with
    Serve(serve::Args),
    /// Plays the FPGA: sends requests to a service, checks every answer, and accounts for each
    Emulate(emulate::Args),
    /// Measures logical error rates over distances and noises, with and without a predecoder
    Sweep(Box<sweep::Args>),
    /// Joins the shards of a sweep that several processes have counted
    Merge(sweep::merge::Args),
    /// Decodes a file of shots, with the options of `pymatching predict`
    Predict(predict::Args),
    /// Says what this machine has, what it is for, and what to do about missing parts
    Doctor(doctor::Args),
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match dispatch(cli.command, &Given::to_command(&matches)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ringcall: {error:#}");
            if error.is::<Misuse>() { ExitCode::from(Misuse::CODE) } else { ExitCode::FAILURE }
        }
    }
}

fn dispatch(command: Command, given: &Given<'_>) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Run(args) => run::run(&args),
        Command::Bench(args) => bench::run(&args).map(done),
        Command::Serve(args) => serve::run(&args, given),
        Command::Emulate(args) => emulate::run(&args, given),
        Command::Sweep(args) => sweep::run(&args, given),
        Command::Merge(args) => sweep::merge::run(&args).map(done),
        Command::Predict(args) => predict::run(&args).map(done),
        Command::Doctor(args) => doctor::run(&args).map(done),
    }
}
