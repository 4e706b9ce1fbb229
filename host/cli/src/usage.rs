//! Usage errors: combinations of options that the command line's parser cannot check.

use crate::style;
use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::fmt;
use std::io::{IsTerminal, Write};

/// An invalid command line; the process ends with [`Misuse::CODE`].
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl Misuse {
    /// The parser's exit code for invalid command lines.
    pub(crate) const CODE: u8 = 2;
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// An error for an invalid command line, with its reason.
pub(crate) fn misuse(why: impl fmt::Display) -> anyhow::Error {
    Misuse(why.to_string()).into()
}

/// An error and its causes in one line without repetitions, since the messages of some errors include their cause's.
pub(crate) fn in_words(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said.is_empty() {
            true => cause,
            false if said.ends_with(&cause) => said,
            false => format!("{said}: {cause}"),
        }
    })
}

/// A hint for a program that cannot load libraries, if the error is about a library.
pub(crate) fn of_static_program(error: &str) -> Option<&'static str> {
    let is_static = cfg!(all(target_env = "musl", target_feature = "crt-static"));
    let of_library = ["library", "loaded", "loading", "dlopen"].iter().any(|word| error.contains(word));
    (is_static && of_library).then_some(
        "this program is static and loads no library: GPUs, adapters, TensorRT, ONNX Runtime and plug-ins take the Debian package, \
         the Python package, or a build of your own",
    )
}

/// Prints a line on standard error: wrapped on a terminal, unbroken for a log or a script. A failure to print is
/// ignored.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stderr();
    let line = format!("ringcall: {line}");
    let _ = match out.is_terminal() {
        true => out.write_all(style::paragraph("", 0, &style::plain(&line)).as_bytes()),
        false => writeln!(out, "{line}"),
    };
}

/// The options that the command line names, even with their default values.
pub(crate) struct Given<'a>(Option<&'a ArgMatches>);

impl<'a> Given<'a> {
    /// The options of the command line's subcommand.
    pub(crate) fn to_command(matches: &'a ArgMatches) -> Self {
        Self(matches.subcommand().map(|(_, matches)| matches))
    }

    /// Whether the command line names this option.
    pub(crate) fn names(&self, field: &str) -> bool {
        self.0.is_some_and(|matches| matches.value_source(field) == Some(ValueSource::CommandLine))
    }

    /// Refuses these options if the command line names one of them, because it would be ignored.
    ///
    /// # Errors
    /// [`Misuse`]: `--OPTION does not apply to WHAT`.
    pub(crate) fn refuse(&self, fields: &[&str], what: &str) -> Result<()> {
        if let Some(field) = fields.iter().find(|field| self.names(field)) {
            bail!(Misuse(format!("--{} does not apply to {what}", field.replace('_', "-"))));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn no_cause_is_said_twice() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "point 3: {}", self.0)
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Err::<(), _>(Outer(std::io::Error::other("distance 4 is even"))).context("the study");
        let error = error.map_err(|error| error.context("ringcall")).expect_err("an error");
        assert_eq!(in_words(&error), "ringcall: the study: point 3: distance 4 is even");
        assert_eq!(in_words(&anyhow!("alone")), "alone");
    }
}
