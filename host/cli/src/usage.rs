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

    /// Refuses the options of these fields where the command line names one of them: it would be ignored.
    ///
    /// # Errors
    /// [`Misuse`]: `--OPTION does not apply to WHAT`.
    pub(crate) fn refuse(&self, fields: &[&str], what: &str) -> Result<()> {
        let Some(matches) = self.0 else { return Ok(()) };
        let named = |field: &&&str| matches.value_source(field) == Some(ValueSource::CommandLine);
        if let Some(field) = fields.iter().find(named) {
            bail!(Misuse(format!("--{} does not apply to {what}", field.replace('_', "-"))));
        }
        Ok(())
    }
}
