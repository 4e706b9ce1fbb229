//! Commands called in this process: they return their results and print nothing.

use crate::signals::Interrupt;
use crate::usage::{Misuse, in_words};
use crate::{Cli, Command, run, sweep};
use clap::Parser;
use signal_hook::consts::SIGINT;
use std::cell::Cell;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

/// The results of a command.
#[derive(Debug, Clone)]
pub struct Called {
    /// The contents of the `--json` file.
    pub json: String,
    /// The contents of the `--report` file.
    pub html: String,
}

/// Why a called command has no results.
#[derive(Debug)]
pub enum CallError {
    /// The arguments are invalid.
    Usage(String),
    /// The command failed.
    Failed(String),
    /// The caller interrupted the command. The results in `--state` are kept.
    Interrupted,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Failed(why) => f.write_str(why),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for CallError {}

/// The caller's interruptions, in place of signals.
struct Caller<'a> {
    interrupted: &'a dyn Fn() -> bool,
    /// Whether the caller has interrupted, which it need not repeat.
    said: Cell<bool>,
}

impl Interrupt for Caller<'_> {
    fn begin(&self, _: Option<Duration>) {}

    fn received(&self) -> Option<usize> {
        if !self.said.get() {
            self.said.set((self.interrupted)());
        }
        self.said.get().then_some(SIGINT as usize)
    }
}

/// Runs a command line of `run` or `sweep`, without the program's name, and returns its results instead of printing and
/// writing them; `None` for a shard of a sweep. `interrupted` is called on this thread about ten times a second while
/// the command works; `true` ends the command. Signals are not handled.
///
/// ```
/// let sweep = ["sweep", "--distances", "3", "--noises", "0.01", "--shots", "100"];
/// let called = ringcall_cli::call(sweep, &|| false)?.ok_or("a shard")?;
/// assert!(called.json.contains("\"shots\":100") && called.html.contains("<svg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CallError`]: arguments that the program would refuse, another command, an error of the command, or an
/// interruption.
pub fn call(
    arguments: impl IntoIterator<Item = impl Into<OsString>>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<Called>, CallError> {
    let words = [OsString::from("ringcall")].into_iter().chain(arguments.into_iter().map(Into::into));
    let cli = Cli::try_parse_from(words).map_err(|error| CallError::Usage(first_line(&error)))?;
    let caller = Caller { interrupted, said: Cell::new(false) };
    let results = match cli.command {
        Command::Run(args) => run::called(&args, &caller).map(Some),
        Command::Sweep(args) => sweep::called(&args, &caller),
        _ => return Err(CallError::Usage("only `run` and `sweep` can be called".to_owned())),
    };
    match results {
        _ if caller.said.get() => Err(CallError::Interrupted),
        Ok(results) => Ok(results.map(|(json, html)| Called { json, html })),
        Err(error) if error.is::<Misuse>() => Err(CallError::Usage(in_words(&error))),
        Err(error) => Err(CallError::Failed(in_words(&error))),
    }
}

/// The parser's message without its hints.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
