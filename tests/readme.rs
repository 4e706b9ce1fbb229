//! The promises of README and book: README's first command answers every request, every command in either is one that the program
//! takes, and the book's scripts run.

use assert_cmd::Command;
use serde_json::Value;

const README: &str = include_str!("../README.md");
/// The chapters of the book that have commands, by name.
const CHAPTERS: [(&str, &str); 11] = [
    ("first-run", include_str!("../docs/guide/first-run.md")),
    ("your-own-shots", include_str!("../docs/guide/your-own-shots.md")),
    ("threshold", include_str!("../docs/guide/threshold.md")),
    ("serving", include_str!("../docs/guide/serving.md")),
    ("handler", include_str!("../docs/guide/handler.md")),
    ("c", include_str!("../docs/guide/c.md")),
    ("python", include_str!("../docs/guide/python.md")),
    ("network", include_str!("../docs/guide/network.md")),
    ("latency-report", include_str!("../docs/guide/latency-report.md")),
    ("tuning", include_str!("../docs/guide/tuning.md")),
    ("refusals", include_str!("../docs/guide/refusals.md")),
];
/// How the README runs the program from a clone.
const FROM_A_CLONE: &str = "cargo run --release --";

/// The arguments of each command of the program: in a page's shell blocks, then in its text.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_text = Vec::new();
    let mut in_shell = false;
    for line in page.lines() {
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
    let commands = commands(README);
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
    let of_readme = commands(README);
    assert!(of_readme.len() >= 12, "the README has {} commands", of_readme.len());
    // A name in capitals stands for what a user puts there.
    let of_book = CHAPTERS.iter().flat_map(|(_, page)| commands(page));
    for mut arguments in of_readme.into_iter().chain(of_book) {
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

/// The blocks of a chapter that are marked `sh test`, as one script.
fn script(page: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in page.lines() {
        match line {
            "```sh test" => inside = true,
            "```" => inside = false,
            line if inside => script += &format!("{line}\n"),
            _ => (),
        }
    }
    script
}

#[test]
fn the_scripts_of_the_book_run() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ringcall"));
    let folder = program.parent().expect("a folder").display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let scripts: Vec<(&str, String)> = CHAPTERS
        .iter()
        .map(|&(name, page)| (name, script(page)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    assert!(scripts.len() >= 6, "{} chapters have scripts", scripts.len());
    for (name, text) in scripts {
        let place = tempfile::tempdir().expect("a folder");
        let output = Command::new("sh")
            .args(["-e", "-c", &text])
            .current_dir(&place)
            .env("PATH", &path)
            .timeout(std::time::Duration::from_secs(300))
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}\n{text}");
    }
}
