//! Usage errors: options that exclude each other in ways that the command line's parser cannot check.

use crate::style;
use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::fmt;
use std::io::{IsTerminal, Write};

/// A command line that makes no sense; the process ends with [`Misuse::CODE`].
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl Misuse {
    /// That of the parser.
    pub(crate) const CODE: u8 = 2;
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// A command line that makes no sense, for this reason.
pub(crate) fn misuse(why: impl fmt::Display) -> anyhow::Error {
    Misuse(why.to_string()).into()
}

/// An error and its causes in one line, none of which is said twice: some errors' own words end with their cause's.
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

/// What else is to be said of an error in a program that can load no library: nothing, unless the error is of a library.
pub(crate) fn of_static_program(error: &str) -> Option<&'static str> {
    let is_static = cfg!(all(target_env = "musl", target_feature = "crt-static"));
    let of_library = ["library", "loaded", "loading", "dlopen"].iter().any(|word| error.contains(word));
    (is_static && of_library).then_some(
        "this program is static and loads no library: GPUs, adapters, TensorRT, ONNX Runtime and plug-ins take the Debian package, \
         the Python package, or a build of your own",
    )
}

/// Says a line on standard error: on a terminal in as many as it takes, for a log or a script in one. An error that cannot be said is
/// not another one.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stderr();
    let line = format!("ringcall: {line}");
    let _ = match out.is_terminal() {
        true => out.write_all(style::paragraph("", 0, &style::plain(&line)).as_bytes()),
        false => writeln!(out, "{line}"),
    };
}

/// Which options the command line names, be it with their default's value.
pub(crate) struct Given<'a>(Option<&'a ArgMatches>);

impl<'a> Given<'a> {
    /// Those of the command that was asked for.
    pub(crate) fn to_command(matches: &'a ArgMatches) -> Self {
        Self(matches.subcommand().map(|(_, matches)| matches))
    }

    /// Whether the command line names this option.
    pub(crate) fn names(&self, field: &str) -> bool {
        self.0.is_some_and(|matches| matches.value_source(field) == Some(ValueSource::CommandLine))
    }

    /// Refuses the options of these fields where the command line names one of them: it would be ignored.
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
