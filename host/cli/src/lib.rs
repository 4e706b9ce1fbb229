//! The `ringcall` command as a library, for the program `ringcall` and the command of the Python package.
//!
//! [`main`] acts as the program does: it parses arguments, prints results and handles signals. [`call`] returns the
//! results of one command to its caller.

mod bench;
mod called;
mod command;
mod decoder;
mod doctor;
mod emulate;
mod experiment;
mod explain;
mod machine;
mod manual;
mod memory;
mod network;
mod number;
mod output;
mod pinning;
mod predict;
mod report;
mod run;
mod runs;
mod serve;
mod side;
mod signals;
mod style;
mod sweep;
mod tag_key;
mod top;
mod usage;

use anyhow::Result;
pub use called::{CallError, Called, call};
use clap::{FromArgMatches, Parser, Subcommand};
use command::Defaults;
use signals::Signals;
use std::ffi::OsString;
use std::io::Write;
use usage::{Given, Misuse, in_words, of_static_program, tell};

/// Real-time RPC over polled ring buffers, for quantum error correction.
#[derive(Debug, Parser)]
#[command(name = "ringcall", version, propagate_version = true, disable_help_subcommand = true)]
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
    Serve(Box<serve::Args>),
    /// Shows what a service does, from its metrics
    Top(top::Args),
    /// Plays the FPGA: sends requests to a service, checks every answer, and accounts for each
    Emulate(Box<emulate::Args>),
    /// Measures logical error rates over distances and noises, with and without a predecoder
    Sweep(Box<sweep::Args>),
    /// Joins the shards of a sweep that several processes have counted
    Merge(sweep::merge::Args),
    /// Decodes a file of shots, with the options of `pymatching predict`
    Predict(predict::Args),
    /// Counts shots of a file that are decoded wrongly, with the options of `pymatching count_mistakes`
    #[command(name = "count_mistakes", alias = "count-mistakes")]
    CountMistakes(predict::mistakes::Args),
    /// Draws how one shot is decoded, as an animated picture
    Explain(Box<explain::Args>),
    /// Says what this machine has, what it is for, and what to do about missing parts
    Doctor(doctor::Args),
    /// Writes completions of this command for a shell
    Completions(manual::CompletionsArgs),
    /// Writes the manual, a page for each command
    #[command(hide = true)]
    Man(manual::ManArgs),
    /// Shows help of a command, or on a topic
    Help(command::help::Args),
}

/// Runs a command line, whose first word is the program's name, and returns the exit status.
///
/// Help, versions and invalid command lines end the process, as do signals during set-up and second signals. SIGINT and
/// SIGTERM are handled from the first moment on.
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let status = match Signals::listen().and_then(|signals| started(arguments, &signals)) {
        Ok(status) => status,
        Err(error) => {
            let error_in_words = in_words(&error);
            tell(&error_in_words);
            if let Some(more) = of_static_program(&error_in_words) {
                tell(more);
            }
            if error.is::<Misuse>() { Misuse::CODE } else { 1 }
        }
    };
    // A caller that is not a Rust program does not flush. Write errors were reported where they mattered.
    let _ = std::io::stdout().flush();
    status
}

fn started(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    signals: &Signals,
) -> Result<u8> {
    let command = command::command();
    let defaults = Defaults::read(&command)?;
    let matches = defaults.apply(command).try_get_matches_from(arguments).unwrap_or_else(|error| {
        if let Some(line) = defaults.explain(&error) {
            tell(&line);
        }
        error.exit()
    });
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    dispatch(cli.command, &Given::to_command(&matches), signals)
}

fn dispatch(command: Command, given: &Given<'_>, signals: &Signals) -> Result<u8> {
    let done = |()| 0;
    match command {
        Command::Run(args) => run::run(&args, signals),
        Command::Bench(args) => bench::run(&args, given, signals).map(done),
        Command::Serve(args) => serve::run(&args, given, signals),
        Command::Top(args) => top::run(&args, signals).map(done),
        Command::Emulate(args) => emulate::run(&args, given, signals),
        Command::Sweep(args) => sweep::run(&args, given, signals),
        Command::Merge(args) => sweep::merge::run(&args).map(done),
        Command::Predict(args) => predict::run(&args, signals).map(done),
        Command::Explain(args) => explain::run(&args).map(done),
        Command::CountMistakes(args) => predict::mistakes::run(&args, signals).map(done),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => manual::completions(&args, command::command()).map(done),
        Command::Man(args) => manual::man(&args, command::command()).map(done),
        Command::Help(args) => command::help::run(&args).map(done),
    }
}
