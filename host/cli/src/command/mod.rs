//! Command-line help beyond the options' own declarations: width, groups, examples, and the origin of defaults.

mod defaults;
pub(crate) mod help;

use crate::Cli;
use clap::{Arg, Command, CommandFactory};
pub(crate) use defaults::Defaults;

/// Columns of help: the usual width of a terminal, and few enough to read.
pub(crate) const WIDTH: usize = 80;

/// The command line with its declared defaults.
pub(crate) fn command() -> Command {
    let command = Cli::command().max_term_width(WIDTH).after_help(help::overview());
    help::EXAMPLES.iter().fold(command, |command, (name, examples)| {
        command.mut_subcommand(name, |command| command.mut_args(grouped).after_help(*examples))
    })
}

/// The option under its heading of the help.
fn grouped(arg: Arg) -> Arg {
    let heading = HEADINGS.iter().find(|(_, ids)| ids.contains(&arg.get_id().as_str()));
    match heading {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

/// Groups of options, with the names of their fields.
const HEADINGS: [(&str, &[&str]); 8] = [
    (
        "What is decoded",
        &[
            "preset",
            "code",
            "codes",
            "distance",
            "distances",
            "rounds",
            "basis",
            "detectors",
            "p",
            "noises",
            "dem",
            "circuit",
        ],
    ),
    (
        "Shots",
        &[
            "shots",
            "requests",
            "input",
            "shots_format",
            "shots_with_observables",
            "duration",
            "interval",
            "seed",
            "max_errors",
            "batch",
            "rate",
            "payload",
            "in_format",
            "in_includes_appended_observables",
            "obs_in",
            "obs_in_format",
        ],
    ),
    (
        "Decoder",
        &[
            "decoder",
            "decoder_config",
            "matching",
            "enable_correlations",
            "deadline",
            "relay_solutions",
            "relay_iterations",
            "relay_osd",
            "relay_lanes",
            "relay_deadline",
        ],
    ),
    ("Before the decoder", &["engine", "model", "sizes", "threshold", "onnxruntime", "kernels"]),
    (
        "Decoding server",
        &["config", "check", "frame", "write_config", "stream", "decoders", "cores", "protocol", "parts"],
    ),
    (
        "RDMA and peers",
        &[
            "device",
            "qp",
            "rkey",
            "remote_qp",
            "peer",
            "icrc",
            "mtu",
            "peers",
            "qp_type",
            "psn",
            "rendezvous",
            "metadata",
        ],
    ),
    ("Faults on purpose", &["loss", "duplicate", "reorder"]),
    (
        "Machine",
        &[
            "workers",
            "slots",
            "slot_bytes",
            "pin",
            "timeout",
            "threads",
            "dispatcher",
            "max_memory",
            "in_flight",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name of the table belongs to an option, and to one group.
    #[test]
    fn groups_are_of_options_that_there_are() {
        let command = command();
        let known: Vec<&str> = command
            .get_subcommands()
            .flat_map(Command::get_arguments)
            .map(|arg| arg.get_id().as_str())
            .collect();
        let mut seen = std::collections::BTreeSet::new();
        for id in HEADINGS.iter().flat_map(|(_, ids)| *ids) {
            assert!(known.contains(id), "{id}");
            assert!(seen.insert(id), "{id} is in two groups");
        }
    }

    #[test]
    fn the_command_line_is_sound_and_its_help_fits() {
        let mut command = command();
        command.clone().debug_assert();
        command.build();
        for command in command.get_subcommands_mut() {
            for help in [command.render_help(), command.render_long_help()] {
                let wide = help.to_string().lines().map(|line| line.chars().count()).max();
                assert!(wide <= Some(WIDTH), "{}: {wide:?} columns\n{help}", command.get_name());
            }
        }
    }
}
