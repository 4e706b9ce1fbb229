//! Options that do not go together, where the command line's parser cannot know it.

use anyhow::{Result, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::fmt;

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
