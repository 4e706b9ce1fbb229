//! The promises of README and book: README's first command answers every request, every command in either runs, and so do the
//! book's scripts.

use assert_cmd::Command;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

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
/// On a machine that other work keeps busy an answer may take seconds, which is no matter here.
const TIMEOUTS: [(&str, &str); 2] = [("RINGCALL_RUN_TIMEOUT", "60s"), ("RINGCALL_EMULATE_TIMEOUT", "10s")];
/// How the README runs the program from a clone.
const FROM_A_CLONE: &str = "cargo run --release --";

/// The program.
fn ringcall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    command.envs(TIMEOUTS);
    command
}

/// The arguments of each command of the program: in a page's shell blocks, then in its text.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_text = Vec::new();
    let mut in_shell = false;
    for line in page.lines() {
        match line.trim_end() {
            // The scripts are run as a whole.
            line if line.starts_with("```sh") && line != "```sh test" => in_shell = true,
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
    let mut command = ringcall();
    let output = command.args(first).args(["--requests", "500", "--json", "-"]).assert().success();
    let report: Value = serde_json::from_slice(&output.get_output().stdout).expect("one JSON document");
    for (key, expected) in [("submitted", 500), ("completed", 500), ("refused", 0), ("timed_out", 0)] {
        assert_eq!(report[key], expected, "{key}");
    }
}

/// Every page of the book outside of the guide: figures, keys, records.
fn other_pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => pages.extend(other_pages(&path)),
            false => pages.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "md"))),
        }
    }
    pages
}

#[test]
fn every_command_is_one_that_the_program_takes() {
    let of_readme = commands(README);
    assert!(of_readme.len() >= 12, "the README has {} commands", of_readme.len());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let texts = other_pages(&docs).into_iter().map(|page| std::fs::read_to_string(page).expect("text"));
    let of_book = texts.flat_map(|text| commands(&text)).filter(|arguments| {
        // Dots stand for options, and a name in capitals for what a user puts there; such a list is none.
        !arguments.iter().any(|argument| argument.contains('…') || argument == "D,C,W,N")
    });
    let mut seen = std::collections::BTreeSet::new();
    for mut arguments in
        of_readme.into_iter().chain(of_book).filter(|arguments| seen.insert(arguments.clone()))
    {
        // An unknown option before `--help` is an error. A plug-in's own arguments are not looked at.
        let own = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
        arguments.insert(own, "--help".to_owned());
        ringcall().args(&arguments).assert().success();
    }
}

/// Why a command is not run here, but only parsed; `None` where it is.
fn not_here(arguments: &[String]) -> Option<&'static str> {
    let has = |option: &str, value: &str| {
        arguments.windows(2).any(|pair| pair[0] == option && (value.is_empty() || pair[1] == value))
    };
    let placeholder = |argument: &String| {
        let capitals = argument.split(|c: char| !c.is_ascii_uppercase()).any(|word| word.len() >= 3);
        argument != "DIR" && capitals || argument.contains('…')
    };
    match arguments.first().map(String::as_str) {
        None => Some("a name, not a command"),
        Some("emulate") if arguments.len() == 1 => Some("a name, not a command"),
        Some("top") => Some("the script of the book's page on serving runs it"),
        _ if has("--engine", "") || has("--dispatcher", "device") => {
            Some("needs a GPU, or a build with an engine")
        }
        _ if arguments.iter().any(placeholder) => Some("has a word that stands for another"),
        _ => None,
    }
}

/// A command's arguments, for less work and on ports of its own.
fn lessened(arguments: &[String]) -> Vec<String> {
    let mut arguments: Vec<String> = arguments
        .iter()
        .map(|argument| match argument.as_str() {
            address if address.starts_with("127.0.0.1:") => "127.0.0.1:0".to_owned(),
            // Addresses that are not this machine's, or any of its.
            "0.0.0.0:4000" | "10.0.0.2:4791" => "127.0.0.1:0".to_owned(),
            // A shell finds the file.
            glob if glob.ends_with("d=*,p=*.stim") => glob.replace('*', "X").replace("d=X,p=X", "d=3,p=0.1"),
            other => other.to_owned(),
        })
        .collect();
    if matches!(arguments[0].as_str(), "run" | "sweep")
        && let Some(at) = arguments.iter().position(|argument| argument == "--shots")
    {
        arguments.drain(at..at + 2);
    }
    let given = |option: &str| arguments.iter().any(|argument| argument == option);
    let less: &[&str] = match arguments[0].as_str() {
        "run" if given("--interval") => &["--requests", "30"],
        "run" if given("bb144") => &["--requests", "2"],
        "run" => &["--requests", "30", "--interval-us", "1000"],
        "sweep" if given("--code") => &["--shots", "2", "--distances", "3"],
        "sweep" => &["--shots", "200"],
        "serve" => &["--seconds", "300ms"],
        "bench" if given("--list") => &[],
        // Names of its own are of short ones.
        "bench" if !arguments[1].starts_with("--") => &["--trips", "500", "--requests", "500"],
        "top" => &["--interval", "50ms", "--count", "2"],
        "bench" => &["floor-host", "--trips", "500", "--requests", "500"],
        _ => &[],
    };
    arguments.extend(less.iter().map(|argument| (*argument).to_owned()));
    arguments
}

/// What a reader has beside the page: a model, its shots with and without observables, a circuit, a configuration.
fn furnish(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("written");
    write("my.dem", b"error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n");
    write("my.b8", &[0b100, 0b000, 0b011]);
    write("shots.b8", &[0b00, 0b01, 0b11]);
    let circuit = b"R 0 1 2 3 4\nX_ERROR(0.1) 0 1 2\nCX 0 3 1 3 1 4 2 4\nM 3 4\nDETECTOR rec[-2]\nDETECTOR rec[-1]\nM 0 1 2\n\
          OBSERVABLE_INCLUDE(0) rec[-3]\n";
    write("my.stim", circuit);
    write("d=3,p=0.1.stim", circuit);
    std::fs::create_dir(folder.join("circuits")).expect("a folder");
    for name in ["mine.stim", "circuits/d=3,p=0.1.stim"] {
        write(name, circuit);
    }
    // Help's examples have other names.
    write("model.dem", b"error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n");
    write("shots.dets", b"shot D0 L0\nshot\nshot D0 D1\n");
    write("truth.01", b"1\n0\n1\n");
    let page = include_str!("../docs/decoding-server.md");
    let yaml = page.split("```yaml").nth(1).and_then(|rest| rest.split_once('\n')?.1.split("```").next());
    write("decoders.yaml", yaml.expect("a configuration on the page").as_bytes());
}

/// The examples at the end of a command's help: the command, and the file that its standard output goes to.
fn examples(of: &str) -> Vec<(Vec<String>, Option<String>)> {
    let output = ringcall().args([of, "--help"]).assert().success();
    let help = String::from_utf8(output.get_output().stdout.clone()).expect("text");
    let (_, text) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{of} has no examples"));
    // A line that goes on in the next one ends so. What is no command says what one does.
    let text = text.replace("\\\n", " ");
    let commands = text.lines().filter_map(|line| line.strip_prefix("  ringcall "));
    let example = |line: &str| {
        // What comes after it is another's: `doctor` guards it.
        let line = line.split(" && ").next().unwrap_or_default();
        let (line, file) =
            line.split_once(" > ").map_or((line, None), |(line, file)| (line, Some(file.to_owned())));
        (words(line), file)
    };
    commands.map(example).collect()
}

/// Every command's help ends with examples, and each of them runs.
#[test]
fn examples_of_help_run() {
    let folder = tempfile::tempdir().expect("a folder");
    furnish(folder.path());
    let mut service = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["serve", "--distance", "7", "--p", "0.003", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .map(Service)
        .expect("started");
    let mut endpoint = String::new();
    BufReader::new(service.0.stdout.take().expect("piped")).read_line(&mut endpoint).expect("a line");
    let of =
        |key: &str| endpoint.split_whitespace().find_map(|word| word.strip_prefix(key)).expect("an address");
    let (port, metrics) = (of("port="), of("metrics="));
    let commands = [
        "run",
        "bench",
        "serve",
        "top",
        "emulate",
        "sweep",
        "merge",
        "predict",
        "count_mistakes",
        "explain",
        "doctor",
        "completions",
        "man",
        "help",
    ];
    let output = ringcall().arg("help").assert().success();
    let help = String::from_utf8(output.get_output().stdout.clone()).expect("text");
    let listed =
        help.split_once("Commands:\n").and_then(|(_, rest)| rest.split_once("\n\n")).expect("a list").0;
    for name in listed
        .lines()
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
    {
        assert!(commands.contains(&name), "{name} is a new command: its examples are to be run here");
    }
    for name in commands {
        for (arguments, file) in examples(name) {
            if arguments[0] == "sweep" && arguments.iter().any(|argument| argument == "1/2") {
                // The other half, which another machine counts.
                let other =
                    arguments.iter().map(|argument| argument.replace("1/2", "2/2")).collect::<Vec<_>>();
                let mut half = ringcall();
                half.args(lessened(&other))
                    .current_dir(&folder)
                    .timeout(Duration::from_secs(120))
                    .assert()
                    .success();
            }
            let arguments = match name {
                "emulate" => {
                    let now = |word: String| match word.as_str() {
                        "127.0.0.1:4000" => format!("127.0.0.1:{port}"),
                        "$LINE" => endpoint.trim().to_owned(),
                        "1e5" => "500".to_owned(),
                        _ => word,
                    };
                    let few = arguments.iter().any(|word| word == "--requests");
                    let least = if few { None } else { Some(["--requests", "500"].map(str::to_owned)) };
                    arguments.into_iter().map(now).chain(least.into_iter().flatten()).collect()
                }
                "top" => {
                    let without =
                        |words: Vec<String>| match words.iter().position(|word| word == "--interval") {
                            Some(at) => words[..at].to_vec(),
                            None => words,
                        };
                    let mut words = lessened(&without(arguments));
                    words[1] = metrics.to_owned();
                    words
                }
                _ => lessened(&arguments),
            };
            let output = ringcall()
                .args(&arguments)
                .current_dir(&folder)
                .timeout(Duration::from_secs(120))
                .output()
                .expect("a process");
            let good = output.status.success() || name == "doctor" && output.status.code() == Some(1);
            assert!(good, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            if let Some(file) = file {
                assert!(!output.stdout.is_empty(), "{arguments:?} writes nothing for {file}");
            }
        }
    }
}

/// A service that ends with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks the service of a command by another, as in two terminals.
fn ask(serve: &[String], emulate: &[String], folder: &Path) {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let serve = serve.iter().map(|argument| match argument.as_str() {
        "127.0.0.1:9100" => "127.0.0.1:0".to_owned(),
        other if other.starts_with("127.0.0.1:") => format!("127.0.0.1:{port}"),
        other => other.to_owned(),
    });
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(serve)
        .args(["--seconds", "60"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped"));
    let _service = Service(child);
    let mut endpoint = String::new();
    lines.read_line(&mut endpoint).expect("a line");
    assert!(endpoint.contains(&port.to_string()), "{endpoint}");
    let words = |argument: &String| -> String {
        let port = port.to_string();
        let known =
            [("4791", port.as_str()), ("4792", &port), ("4700", &port), ("10000", "500"), ("1000", "500")];
        known.iter().fold(argument.clone(), |text, (known, now)| text.replace(known, now))
    };
    ringcall()
        .args(emulate.iter().map(words))
        .current_dir(folder)
        .timeout(Duration::from_secs(60))
        .assert()
        .success();
}

#[test]
fn every_command_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    furnish(folder.path());
    let (mut ran, mut parsed) = (0, 0);
    for page in [README].into_iter().chain(CHAPTERS.iter().map(|(_, page)| *page)) {
        let mut serve: Vec<String> = Vec::new();
        for arguments in commands(page) {
            if not_here(&arguments).is_some() {
                parsed += 1;
                continue;
            }
            ran += 1;
            if arguments[0] == "emulate" {
                ask(&serve, &arguments, folder.path());
                continue;
            }
            let output = ringcall()
                .args(lessened(&arguments))
                .current_dir(&folder)
                .timeout(Duration::from_secs(120))
                .output()
                .expect("a process");
            // `doctor` ends with 1 where a machine lacks something.
            let good = output.status.success() || arguments[0] == "doctor" && output.status.code() == Some(1);
            assert!(good, "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            if arguments[0] == "serve" {
                serve = arguments;
            }
        }
    }
    assert!(ran > 3 * parsed, "{ran} ran, {parsed} did not");
}

#[test]
fn a_command_that_the_program_does_not_take_is_noticed() {
    assert_eq!(
        words("emulate --connect \"a b\" --loss 0.01"),
        ["emulate", "--connect", "a b", "--loss", "0.01"]
    );
    ringcall().args(["run", "--distnace", "13", "--help"]).assert().failure();
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
            .envs(TIMEOUTS)
            .timeout(std::time::Duration::from_secs(300))
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}\n{text}");
    }
}

/// The block that this test runs: a reader's folder has the clone in it. Every dependency of the copies is where they say.
#[test]
fn the_handlers_are_copied_as_the_book_says() {
    let (_, page) = CHAPTERS.iter().find(|(name, _)| *name == "handler").expect("a chapter");
    let block = page.split("::the_handlers_are_copied_as_the_book_says\n").nth(1).expect("the block");
    let block = block.split("```").next().expect("its end");
    let place = tempfile::tempdir().expect("a folder");
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the clone");
    std::os::unix::fs::symlink(clone, place.path().join("ringcall")).expect("a link");
    Command::new("sh").args(["-e", "-c", block]).current_dir(&place).assert().success();
    let mut dependencies = 0;
    for package in ["mine/device", "mine/host"] {
        let folder = place.path().join(package);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        for path in manifest.split("path = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(folder.join(path).exists(), "{package}: {path} leads nowhere");
            dependencies += usize::from(path.starts_with("../"));
        }
    }
    assert_eq!(dependencies, 7, "the six of Ringcall, and one on the other");
}
