//! Provenance of figures: program, time, machine and command of the measurement.

use serde::Serialize;
use std::time::SystemTime;

/// The facts that a citation of a report needs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Provenance {
    pub(crate) version: &'static str,
    /// Commit of the sources of the program; `None` if the build did not know it.
    pub(crate) commit: Option<&'static str>,
    /// The report's time in UTC, in the form of RFC 3339.
    pub(crate) date: String,
    pub(crate) host: String,
    /// The process's command line, quoted for a shell.
    pub(crate) command: String,
}

/// The commit of the program's sources, if the build knew it.
const COMMIT: Option<&str> = option_env!("RINGCALL_COMMIT");

impl Provenance {
    /// The provenance of a report that this process makes now.
    pub(crate) fn now() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let arguments = std::env::args_os().map(|argument| quoted(&argument.to_string_lossy()));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: COMMIT.filter(|commit| !commit.is_empty()),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            host: format!("{host}: {}", crate::machine::describe()),
            command: arguments.collect::<Vec<_>>().join(" "),
        }
    }

    pub(crate) fn in_words(&self) -> String {
        let Self { version, commit, date, host, command } = self;
        let commit = commit.map_or_else(String::new, |commit| format!(" (commit {commit})"));
        format!("Made by ringcall {version}{commit} at {date} on {host}, by: {command}")
    }
}

/// An argument, quoted for a shell.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+,./:@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_command_line_again() {
        let shown = ["--p=0.1", "a b", "", "it's", "$HOME"].map(quoted);
        assert_eq!(shown, ["--p=0.1", "'a b'", "''", r"'it'\''s'", "'$HOME'"]);
    }

    #[test]
    fn a_report_says_who_made_it_and_when() {
        let words = Provenance::now().in_words();
        let version = format!("ringcall {}", env!("CARGO_PKG_VERSION"));
        assert!(words.contains(&version) && words.contains("Z on "), "{words}");
        let unknown = Provenance { commit: None, ..Provenance::now() };
        assert!(!unknown.in_words().contains("commit"));
    }
}
