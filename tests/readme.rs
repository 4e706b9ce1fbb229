//! The README's promises: its first command answers every request, and every command in it is one that the program takes.

use assert_cmd::Command;
use serde_json::Value;

const README: &str = include_str!("../README.md");
/// How the README runs the program from a clone.
const FROM_A_CLONE: &str = "cargo run --release --";

/// The arguments of each command of the program: in the README's shell blocks, then in its text.
fn commands() -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_text = Vec::new();
    let mut in_shell = false;
    for line in README.lines() {
        match line.trim_end() {
            "```sh" => in_shell = true,
            "```" => in_shell = false,
            line if in_shell => {
                let line = line.split("  #").next().unwrap_or_default();
                let arguments = line.strip_prefix(FROM_A_CLONE).or_else(|| line.strip_prefix("ringcall "));
                commands.extend(arguments.map(words));
            }
            line => {
                let quoted = line.split('`').skip(1).step_by(2);
                in_text.extend(quoted.filter_map(|code| code.strip_prefix("ringcall ")).map(words));
            }
        }
    }
    commands.append(&mut in_text);
    commands
}

/// A line as a shell splits it: at blanks outside of double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn the_first_command_answers_every_request() {
    let commands = commands();
    let first = commands.first().expect("a command in the README");
    assert_eq!(first, &["run"], "the README begins with the main job");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    let output = command.args(first).args(["--requests", "500", "--json", "-"]).assert().success();
    let report: Value = serde_json::from_slice(&output.get_output().stdout).expect("one JSON document");
    for (key, expected) in [("submitted", 500), ("completed", 500), ("refused", 0), ("timed_out", 0)] {
        assert_eq!(report[key], expected, "{key}");
    }
}

#[test]
fn every_command_is_one_that_the_program_takes() {
    let commands = commands();
    assert!(commands.len() >= 12, "the README has {} commands", commands.len());
    for mut arguments in commands {
        // An unknown option before `--help` is an error. A plug-in's own arguments are not looked at.
        let own = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        arguments.insert(own, "--help".to_owned());
        Command::new(env!("CARGO_BIN_EXE_ringcall")).args(&arguments).assert().success();
    }
}

#[test]
fn a_command_that_the_program_does_not_take_is_noticed() {
    assert_eq!(
        words("emulate --connect \"a b\" --loss 0.01"),
        ["emulate", "--connect", "a b", "--loss", "0.01"]
    );
    Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["run", "--distnace", "13", "--help"])
        .assert()
        .failure();
}
