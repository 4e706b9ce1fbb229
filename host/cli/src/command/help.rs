//! `ringcall help TOPIC`, and the examples at the end of each command's help.

use super::{WIDTH, command};
use crate::usage::Misuse;
use anyhow::{Context, Result};
use std::io::Write;

/// Shows help of a command, or on a topic.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A command, or one of: numbers, models, shots, latency, defaults, exit
    #[arg(value_name = "TOPIC")]
    topic: Option<String>,
}

/// The topics: name, one line, and full text.
const TOPICS: [(&str, &str, &str); 6] = [
    ("numbers", "Counts, times, lists and ranges", include_str!("topics/numbers.txt")),
    ("models", "Your own device: error models and circuits", include_str!("topics/models.txt")),
    ("shots", "Files of shots, and their six formats", include_str!("topics/shots.txt")),
    ("latency", "What a run's times are, and what disturbs them", include_str!("topics/latency.txt")),
    ("defaults", "ringcall.toml and RINGCALL_ variables", include_str!("topics/defaults.txt")),
    ("exit", "Exit codes, and what Ctrl-C does", include_str!("topics/exit.txt")),
];

/// Examples of each command, which `tests/readme.rs` runs.
pub(super) const EXAMPLES: [(&str, &str); 14] = [
    (
        "run",
        "Examples:
  ringcall run
      distance 7, p = 0.003, for 3 seconds
  ringcall run --distance 13 --p 0.001 --shots 1e5 --report run.html
      as many shots, and a report as a page
  ringcall run --circuit mine.stim --in shots.b8
      your own circuit, and shots that your device gave
  ringcall run --interval 1us --deadline 20us
      a request each microsecond, and an answer within 20",
    ),
    (
        "sweep",
        "Examples:
  ringcall sweep --distance 3-9 --p 0.001:0.01:5 --report threshold.html
      a threshold plot
  ringcall sweep --circuit circuits/d=*,p=*.stim
      your own circuits; distance and noise are read from their names
  ringcall sweep --shots 1e8 --max-errors 200 --state study.jsonl
      a long study, which the same command continues after Ctrl-C
  ringcall sweep --shots 1e8 --state shards --shard 1/2
      half of a study; another machine counts 2/2",
    ),
    (
        "merge",
        "Examples:
  ringcall merge shards --report merged.html
      the study whose parts `ringcall sweep --state shards --shard i/n` counted
  ringcall merge shards --sinter-csv counts.csv
      its counts, for `sinter plot`",
    ),
    (
        "predict",
        "Examples:
  ringcall predict --dem model.dem --in shots.b8 --out predictions.01
  ringcall predict --dem model.dem --in shots.dets --in_format dets \\
      --in_includes_appended_observables > predictions.01",
    ),
    (
        "count_mistakes",
        "Examples:
  ringcall count_mistakes --dem model.dem --in shots.b8 --in_format b8 \\
      --in_includes_appended_observables
  ringcall count_mistakes --dem model.dem --in shots.b8 --in_format b8 \\
      --obs_in truth.01",
    ),
    (
        "explain",
        "Examples:
  ringcall explain --distance 5 --p 0.006 --output shot.html
      the first sampled shot with a defect, as an animated page
  ringcall explain --dem model.dem --in shots.b8 --shot 2 --output shot.svg
      the third shot of a file, as a picture",
    ),
    (
        "bench",
        "Examples:
  ringcall bench --list
      what can be measured
  ringcall bench floor-host host-call --json before.json
      a bare flag between two threads, and calls; the figures in a file
  ringcall bench floor-host host-call --baseline before.json
      whether they changed since, and by more than the noise
  ringcall bench \"matching/d7/*\" --shots 1000
      matching, beside PyMatching where it is installed",
    ),
    (
        "serve",
        "Examples:
  ringcall serve --distance 7 --p 0.003
      a decoder on a free UDP port, until Ctrl-C
  ringcall serve --circuit mine.stim --metrics 127.0.0.1:9090
      your own circuit, with counters for Prometheus and `ringcall top`
  ringcall serve --bind 0.0.0.0:4000
      to every machine that reaches this one, not to this one alone
  ringcall serve --dem model.dem --write-config decoders.yaml
  ringcall serve --config decoders.yaml
      your own model as a decoding server; `kill -HUP` reads the file again
  ringcall serve --transport roce --bind 10.0.0.2:4791
      as an FPGA asks for it",
    ),
    (
        "top",
        "Examples:
  ringcall top 127.0.0.1:9090
      the service that has `--metrics 127.0.0.1:9090`, until q
  ringcall top 127.0.0.1:9090 --interval 10s --count 6 > minute.txt
      a line every ten seconds, for a minute",
    ),
    (
        "emulate",
        "Examples:
  ringcall emulate --connect 127.0.0.1:4000 --requests 1e5
  ringcall emulate --connect \"$LINE\" --function decode --distance 7
      where LINE is what `ringcall serve` printed",
    ),
    (
        "doctor",
        "Examples:
  ringcall doctor
      whether this machine is ready, and what would improve it
  ringcall doctor --fix
      the commands that would
  ringcall doctor --require gpu && ringcall run --engine gpu
      for scripts",
    ),
    (
        "completions",
        "Examples:
  ringcall completions bash > ringcall.bash
      sourced by ~/.bashrc, or put into /etc/bash_completion.d
  ringcall completions zsh > _ringcall
      put into a folder of $fpath",
    ),
    (
        "man",
        "Examples:
  ringcall man .
      a page for each command: `man ./ringcall-run.1`",
    ),
    (
        "help",
        "Examples:
  ringcall help run
      every option of a command
  ringcall help latency
      a topic",
    ),
];

/// The lines after the list of commands.
pub(super) fn overview() -> String {
    let mut text = "Topics of `ringcall help TOPIC`:\n".to_owned();
    for (name, line, _) in TOPICS {
        text += &format!("  {name:10}  {line}\n");
    }
    text
}

/// Prints a topic or a command's help.
pub(crate) fn run(args: &Args) -> Result<()> {
    let text = match args.topic.as_deref() {
        None => command().render_long_help().ansi().to_string(),
        Some(name) => match TOPICS.iter().find(|(topic, ..)| *topic == name) {
            Some((.., text)) => (*text).to_owned(),
            None => of_command(name)?,
        },
    };
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

fn of_command(name: &str) -> Result<String> {
    let mut command = command().max_term_width(WIDTH);
    command.build();
    let topics: Vec<&str> = TOPICS.iter().map(|(topic, ..)| *topic).collect();
    let command =
        command.find_subcommand_mut(name).filter(|command| !command.is_hide_set()).ok_or_else(|| {
            Misuse(format!("no command and no topic is called `{name}`; topics are {}", topics.join(", ")))
        })?;
    Ok(command.render_long_help().ansi().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A longer line would be broken and so no longer be a command.
    #[test]
    fn examples_fit_a_terminal() {
        for (name, text) in EXAMPLES {
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{name}");
        }
    }

    #[test]
    fn topics_fit_a_terminal() {
        for (topic, _, text) in TOPICS {
            assert!(
                text.ends_with('\n') && text.lines().all(|line| line.chars().count() <= WIDTH),
                "{topic}"
            );
        }
    }
}
