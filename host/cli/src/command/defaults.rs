//! A user's defaults, from `ringcall.toml` and from variables `RINGCALL_COMMAND_OPTION`.
//!
//! They replace the options' defaults, and help shows them as such. As with declared defaults, a default that does not
//! apply to the command line is not used.

use crate::usage::Misuse;
use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::ErrorKind;

/// The file's name in the current folder.
const FILE: &str = "ringcall.toml";
/// The variable that names another file, or with an empty value none.
const FILE_VARIABLE: &str = "RINGCALL_CONFIG";

/// A value that a file may give an option.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Setting {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    List(Vec<Setting>),
}

impl Setting {
    /// The value as on a command line.
    fn text(&self) -> String {
        match self {
            Self::Switch(on) => on.to_string(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::List(list) => list.iter().map(Self::text).collect::<Vec<_>>().join(","),
        }
    }
}

/// A table for each command: values by option.
type Sections = BTreeMap<String, BTreeMap<String, Setting>>;

/// The defaults found, by command and option.
#[derive(Debug, Default)]
pub(crate) struct Defaults {
    found: BTreeMap<(String, String), Default>,
}

#[derive(Debug, PartialEq)]
struct Default {
    value: String,
    origin: String,
}

impl Defaults {
    /// Reads the defaults of the file and the environment for this command line.
    ///
    /// # Errors
    /// [`Misuse`]: the file is not TOML, names an unknown command or option, or was named and cannot be read.
    pub(crate) fn read(command: &Command) -> Result<Self> {
        let named = std::env::var(FILE_VARIABLE).ok();
        let path = named.as_deref().unwrap_or(FILE);
        let text = match std::fs::read_to_string(path) {
            _ if path.is_empty() => String::new(),
            Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => String::new(),
            text => text.with_context(|| format!("cannot read {path}"))?,
        };
        Self::of(command, path, &text, |name| std::env::var(name).ok())
    }

    fn of(
        command: &Command,
        path: &str,
        text: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        let sections: Sections = toml::from_str(text).map_err(|error| {
            let place =
                error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            Misuse(format!("{path}, line {place}: {}", error.message()))
        })?;
        let mut found = BTreeMap::new();
        for (section, settings) in &sections {
            let command = command
                .find_subcommand(section)
                .ok_or_else(|| Misuse(format!("{path}: there is no command `{section}` for [{section}]")))?;
            for (option, setting) in settings {
                let long = option.replace('_', "-");
                let arg = option_of(command, option).or_else(|| option_of(command, &long));
                let id = arg.map(|arg| arg.get_id().to_string()).ok_or_else(|| {
                    Misuse(format!(
                        "{path}: `ringcall {section}` has no option --{long}, which [{section}] sets"
                    ))
                })?;
                let found_here = Default { value: setting.text(), origin: path.to_owned() };
                found.insert((command.get_name().to_owned(), id), found_here);
            }
        }
        for command in command.get_subcommands() {
            for (arg, long) in command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?))) {
                let name = format!("RINGCALL_{}_{long}", command.get_name()).to_uppercase().replace('-', "_");
                if let Some(value) = variable(&name) {
                    let key = (command.get_name().to_owned(), arg.get_id().to_string());
                    found.insert(key, Default { value, origin: name });
                }
            }
        }
        Ok(Self { found })
    }

    pub(crate) fn apply(&self, command: Command) -> Command {
        let named: std::collections::BTreeSet<&String> = self.found.keys().map(|(name, _)| name).collect();
        named.into_iter().fold(command, |command, name| {
            command.mut_subcommand(name, |command| command.mut_args(|arg| self.applied(name, arg)))
        })
    }

    fn applied(&self, command: &str, arg: Arg) -> Arg {
        let Some(default) = self.found.get(&(command.to_owned(), arg.get_id().to_string())) else {
            return arg;
        };
        let list = matches!(arg.get_action(), ArgAction::Append);
        let values: Vec<String> = match arg.get_value_delimiter().filter(|_| list) {
            Some(delimiter) => default.value.split(delimiter).map(|part| part.trim().to_owned()).collect(),
            None => vec![default.value.clone()],
        };
        arg.required(false).hide_default_value(false).default_values(values)
    }

    /// Names the origin of a value that the parser refused, unless it is the command line.
    pub(crate) fn explain(&self, error: &clap::Error) -> Option<String> {
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let (option, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
        let name = option.trim_start_matches('-').split([' ', '=']).next()?;
        let from = |((_, id), default): &(&(String, String), &Default)| {
            (id == name || id.replace('_', "-") == name)
                && default.value.split(',').any(|part| part.trim() == value)
        };
        let (_, default) = self.found.iter().find(from)?;
        let mut line = String::new();
        // Writing to a String cannot fail.
        let _ = write!(line, "`{value}` for --{name} is from {}", default.origin);
        Some(line)
    }
}

/// The option with this name, or which had this name earlier.
fn option_of<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    fn of(text: &str, variables: &[(&str, &str)]) -> Result<Defaults> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Defaults::of(&command::command(), FILE, text, variable)
    }

    fn matches(defaults: &Defaults, words: &[&str]) -> clap::ArgMatches {
        defaults.apply(command::command()).get_matches_from(words)
    }

    #[test]
    fn a_file_sets_defaults_and_the_environment_goes_first() {
        let text = "[run]\np = 0.01\ndistance = 9\n[sweep]\ndistance = [3, \"5-9\"]\nshots = 1e6\n[predict]\n\
                    enable_correlations = true\ndem = \"m.dem\"\n";
        let defaults =
            of(text, &[("RINGCALL_RUN_DISTANCE", "11"), ("RINGCALL_RUN_NOTHING", "1")]).expect("sound");
        let run = matches(&defaults, &["ringcall", "run"]);
        let (_, run) = run.subcommand().expect("run");
        assert_eq!((run.get_one::<f64>("p"), run.get_one::<u32>("distance")), (Some(&0.01), Some(&11)));
        let run = matches(&defaults, &["ringcall", "run", "--p", "0.002"]);
        assert_eq!(run.subcommand().expect("run").1.get_one::<f64>("p"), Some(&0.002));
        let sweep = matches(&defaults, &["ringcall", "sweep"]);
        let sweep = sweep.subcommand().expect("sweep").1;
        assert_eq!(sweep.get_many::<crate::number::Distances>("distances").map(Iterator::count), Some(2));
        assert_eq!(sweep.get_one::<u64>("shots"), Some(&1_000_000));
        let predict = matches(&defaults, &["ringcall", "predict"]);
        assert!(predict.subcommand().expect("predict").1.get_flag("enable_correlations"));
        // Options that exclude each other do not conflict if one of them is a default.
        matches(&defaults, &["ringcall", "run", "--dem", "m.dem"]);
        matches(&defaults, &["ringcall", "run", "--preset", "d7"]);
    }

    #[test]
    fn what_a_file_cannot_set_is_said_by_its_name() {
        for (text, part) in [
            ("[rum]\np = 1\n", "no command `rum`"),
            ("[run]\ndistnace = 1\n", "no option --distnace"),
            ("[run]\np = \n", "line 2"),
            ("p = 1\n", "ringcall.toml, line 1"),
        ] {
            let error = of(text, &[]).expect_err(text);
            assert!(error.is::<Misuse>() && error.to_string().contains(part), "{error}");
        }
        let defaults = of("[run]\np = \"much\"\n", &[]).expect("known when it is used");
        let error = defaults
            .apply(command::command())
            .try_get_matches_from(["ringcall", "run"])
            .expect_err("no number");
        assert_eq!(defaults.explain(&error).as_deref(), Some("`much` for --p is from ringcall.toml"));
    }
}
