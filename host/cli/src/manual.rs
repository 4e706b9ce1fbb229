//! `ringcall completions` and `ringcall man`: files for a package of the command.

use anyhow::{Context, Result};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;

/// Writes completions of this command for a shell to standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the manual, a page for each command, into a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder, which is there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ringcall", &mut text);
    std::io::stdout().write_all(&text).context("standard output")
}

pub(crate) fn man(args: &ManArgs, command: clap::Command) -> Result<()> {
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write to {}", args.folder.display()))
}
