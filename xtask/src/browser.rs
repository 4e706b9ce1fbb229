//! The reports in a real browser: Chromium, which is installed where that can be done.

use crate::files::folder;
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use std::process::{Command, Stdio};

/// What Chromium may be called.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn is_there() -> bool {
    let answers = |name: &&str| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    NAMES.iter().any(answers)
}

/// Installs Chromium from Debian, where it is not there: 80 MB.
///
/// # Errors
/// No Debian, no right to install, no network.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    let words = ["90", "apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium"];
    run(shell.command("timeout", &words).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()))
        .context("no Chromium")?;
    ensure!(is_there(), "no Chromium, although it was installed");
    Ok(())
}

/// Runs `host/cli/tests/browser.rs`, which leaves pictures of the pages in `target/screenshots`: half a minute.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    if install(shell).is_err() {
        return Ok(Outcome::Skipped("no Chromium (`apt-get install chromium`)"));
    }
    let pictures = folder(shell.target("screenshots"))?;
    // Of the whole workspace, so that nothing is built again with fewer features.
    run(shell
        .cargo(&["test", "--workspace", "--test", "browser", "--", "--ignored"])
        .env("RINGCALL_SCREENSHOTS", pictures))?;
    Ok(Outcome::Done)
}
