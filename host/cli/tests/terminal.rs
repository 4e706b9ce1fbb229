//! Every command on a terminal of 80 columns: no line wraps. And the values that a command line takes: units, ranges, defaults, topics.

use assert_cmd::Command;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

const COLUMNS: u16 = 80;

fn ringcall(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    // An answer may take seconds where other work keeps the machine busy.
    command.args(args).env("RINGCALL_RUN_TIMEOUT", "60s");
    command
}

fn data(name: &str) -> String {
    format!("{}/tests/data/predict/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A command on a terminal of its own, to which standard error also goes.
struct Terminal {
    child: Child,
    master: File,
    text: Vec<u8>,
}

impl Terminal {
    fn start(args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("ours");
        let size = Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let slave =
            File::options().read(true).write(true).open(name.to_str().expect("text")).expect("opened");
        let end = || Stdio::from(slave.try_clone().expect("a copy"));
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .args(args)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            // `top` alone reads keys.
            .stdin(if args[0] == "top" { end() } else { Stdio::null() })
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("started");
        Self { child, master: File::from(master), text: Vec::new() }
    }

    /// Reads once more; `false` once the last process that writes to the terminal has ended, when reading fails.
    fn read(&mut self) -> bool {
        let mut block = [0; 4096];
        let read = self.master.read(&mut block).unwrap_or(0);
        self.text.extend_from_slice(&block[..read]);
        read > 0
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Reads until this text was written after the first `from` bytes; returns how many bytes were read then.
    fn wait(&mut self, words: &str, from: usize) -> usize {
        while !String::from_utf8_lossy(&self.text[from..]).contains(words) {
            assert!(self.read(), "it ended without `{words}`: {}", self.shown());
        }
        self.text.len()
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    }

    /// The text that the command wrote, and how the command ended.
    fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        (self.shown(), self.child.wait().expect("ended").code())
    }
}

/// Runs a command on a terminal, and sends it SIGINT once it has written `until`. Returns its text and how it ended.
fn on_a_terminal(args: &[&str], until: Option<&str>) -> (String, Option<i32>) {
    let mut terminal = Terminal::start(args);
    if let Some(until) = until {
        terminal.wait(until, 0);
        terminal.interrupt();
    }
    terminal.end()
}

/// Lines as a terminal shows them: a carriage return begins a line anew, and colours have no width.
fn too_wide(text: &str) -> Vec<String> {
    let plain = anstream::adapter::strip_str(text).to_string();
    let lines = plain.split(['\n', '\r']).filter(|line| line.chars().count() > usize::from(COLUMNS));
    lines.map(str::to_owned).collect()
}

#[test]
fn no_line_of_any_command_wraps() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join(format!("{}.dem", "a_rather_long_name".repeat(6)));
    std::fs::copy(data("surface.dem"), &long).expect("copied");
    let (long, dem, shots) = (long.to_str().expect("text"), data("surface.dem"), data("surface.shots.b8"));
    let nowhere = folder.path().join("out");
    let nowhere = nowhere.to_str().expect("text");
    let fast = ["--shots", "300", "--interval", "0"];
    let commands: Vec<(Vec<&str>, Option<&str>)> = vec![
        ([&["run", "--distance", "3"][..], &fast].concat(), None),
        ([&["run", "--verbose", "--deadline", "1ms", "--dem", long][..], &fast].concat(), None),
        (
            [&["run", "--code", "bb72", "--rounds", "2", "--verbose", "--timeout", "60s"][..], &fast]
                .concat(),
            None,
        ),
        (vec!["sweep", "--distance", "3-5", "--p", "0.01:0.02:3", "--shots", "1000", "--verbose"], None),
        (vec!["sweep", "--distance", "3", "--matching", "both", "--shots", "1000", "--verbose"], None),
        (vec!["sweep", "--dem", long, "--shots", "1000", "--verbose"], None),
        (vec!["sweep", "--distance", "5", "--shots", "1e9"], Some("errors")),
        (
            vec![
                "predict",
                "--dem",
                &dem,
                "--in",
                &shots,
                "--out",
                nowhere,
                "--in_includes_appended_observables",
            ],
            None,
        ),
        (vec!["predict", "--dem", long, "--in", &dem], None),
        (vec!["serve", "--distance", "3", "--metrics", "127.0.0.1:0"], Some("metrics=")),
        (vec!["emulate", "--connect", "127.0.0.1:9", "--requests", "3", "--timeout", "100ms"], None),
        (vec!["bench", "floor-host", "tag", "--trips", "2_000", "--requests", "2e3"], None),
        (vec!["bench", "matching/d7/p0.001", "--shots", "5"], None),
        (vec!["bench", "--list"], None),
        (vec!["bench", "nothing"], None),
        (vec!["explain", "--distance", "3", "--output", nowhere], None),
        (vec!["count_mistakes", "--dem", long, "--in", &shots, "--in_includes_appended_observables"], None),
        (vec!["merge", nowhere], None),
        (vec!["top", "127.0.0.1:9"], None),
        (vec!["doctor"], None),
        (vec!["doctor", "--verbose"], None),
        (vec!["doctor", "--fix"], None),
        (vec!["help"], None),
    ];
    let topics =
        ["numbers", "models", "shots", "latency", "defaults", "exit", "run", "bench", "serve", "top"];
    let topics = topics.into_iter().map(|topic| (vec!["help", topic], None));
    let commands: Vec<_> = commands.into_iter().chain(topics).collect();
    for (args, until) in commands {
        let (text, code) = on_a_terminal(&args, until);
        assert!(code.is_some() && text.lines().count() > 0, "{args:?}: {text}");
        assert_eq!(too_wide(&text), Vec::<String>::new(), "{args:?}:\n{text}");
        if until.is_some() && args[0] != "serve" {
            assert_eq!(code, Some(130), "{args:?}: {text}");
        }
    }
}

/// The stopped command reports the points that it has counted, though it takes minutes to build the next one.
#[test]
fn a_sweep_that_is_stopped_while_it_builds_reports_what_it_has() {
    let args = ["sweep", "--distance", "3,75", "--p", "0.01", "--shots", "1000", "--max-memory", "1TiB"];
    let (text, code) = on_a_terminal(&args, Some("d75/r75/z/p0.01"));
    let text = anstream::adapter::strip_str(&text).to_string();
    assert_eq!(code, Some(130), "{text}");
    assert!(
        text.contains("d = 3") && text.contains("1,000") && text.contains("Not complete: 1 of 2"),
        "{text}"
    );
}

#[test]
fn colours_are_for_terminals_and_not_where_no_color_is_set() {
    let (text, _) = on_a_terminal(&["doctor"], None);
    assert!(text.contains("\x1b[32mReady"), "{text}");
    let output = ringcall(&["doctor"]).assert().success();
    assert!(!output.get_output().stdout.contains(&0x1b));
}

fn json(mut command: Command) -> Value {
    let output = command.args(["--json", "-"]).output().expect("ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn earlier_names_and_numbers_alone_mean_what_they_did() {
    let earlier =
        ["--requests", "200", "--interval-us", "20", "--timeout-ms", "5000", "--deadline-us", "1000"];
    let now = ["--shots", "2e2", "--interval", "20us", "--timeout", "5s", "--deadline", "1ms"];
    let [earlier, now] =
        [&earlier[..], &now].map(|args| json(ringcall(&[&["run", "--distance", "3"], args].concat())));
    assert_eq!(earlier["settings"], now["settings"]);
    assert_eq!((&earlier["submitted"], &now["submitted"]), (&200.into(), &200.into()));
    assert_eq!(
        (&now["settings"]["interval_us"], &now["settings"]["deadline_us"]),
        (&"20".into(), &"1000".into())
    );
    let sweep = |args: &[&str]| json(ringcall(&[&["sweep", "--shots", "1_000"], args].concat()));
    let points = |results: &Value| -> Vec<(u64, f64, u64)> {
        let list = results["points"].as_array().expect("points");
        let point = |point: &Value| {
            (point["distance"].as_u64(), point["p"].as_f64(), point["alone"]["errors"].as_u64())
        };
        list.iter().map(point).map(|(d, p, n)| (d.unwrap(), p.unwrap(), n.unwrap())).collect()
    };
    let earlier = points(&sweep(&["--distances", "3,5", "--noises", "0.01,0.0141,0.02"]));
    assert_eq!(points(&sweep(&["--distance", "3-5", "--p", "0.01:0.02:3"])), earlier);
}

#[test]
fn defaults_come_from_a_file_and_from_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = |args: &[&str]| {
        let mut command = ringcall(args);
        command.current_dir(folder.path());
        command
    };
    let file = folder.path().join("ringcall.toml");
    std::fs::write(&file, "[run]\ndistance = 3\np = 0.02\nshots = 100\n").expect("written");
    let run = |command: Command| json(command)["settings"].clone();
    let settings = run(in_folder(&["run"]));
    assert_eq!((&settings["distance"], &settings["p"]), (&"3".into(), &"0.02".into()));
    let mut command = in_folder(&["run", "--p", "0.01"]);
    command.env("RINGCALL_RUN_DISTANCE", "5");
    let settings = run(command);
    assert_eq!((&settings["distance"], &settings["p"]), (&"5".into(), &"0.01".into()));
    let help = in_folder(&["run", "--help"]).output().expect("ran").stdout;
    assert!(String::from_utf8_lossy(&help).contains("[default: 0.02]"));
    let mut command = in_folder(&["run", "--shots", "100"]);
    command.env("RINGCALL_CONFIG", "");
    assert_eq!(run(command)["distance"], "7");

    std::fs::write(&file, "[run]\ndistnace = 3\n").expect("written");
    let output = in_folder(&["run"]).assert().code(2);
    let text = String::from_utf8_lossy(&output.get_output().stderr);
    assert!(
        text.contains("ringcall.toml") && text.contains("--distnace") && text.lines().count() == 1,
        "{text}"
    );
    std::fs::write(&file, "[run]\ndistance = \"far\"\n").expect("written");
    let output = in_folder(&["run"]).assert().code(2);
    let text = String::from_utf8_lossy(&output.get_output().stderr);
    assert!(text.starts_with("ringcall: `far` for --distance is from ringcall.toml"), "{text}");
}

#[test]
fn help_has_groups_examples_and_topics() {
    let text = |args: &[&str]| {
        let output = ringcall(args).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).expect("text")
    };
    let run = text(&["help", "run"]);
    for part in ["What is decoded:", "Shots:", "Decoder:", "Machine:", "Examples:", "--shots <N>"] {
        assert!(run.contains(part), "no `{part}` in {run}");
    }
    assert!(!run.contains("--requests") && !run.contains("interval-us"), "{run}");
    assert!(text(&["help"]).contains("latency  ") && text(&["help", "latency"]).contains("`injection`"));
    let output = ringcall(&["help", "physics"]).assert().code(2);
    assert!(String::from_utf8_lossy(&output.get_output().stderr).contains("topics are numbers, models"));
}

/// Names of files name their points, in the table, the plot, the state and sinter's rows.
#[test]
fn a_sweep_takes_files_of_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (named, other) = (at("d=3,r=3,p=0.01.dem"), at("mine.dem"));
    std::fs::copy(data("surface.dem"), &named).expect("copied");
    std::fs::copy(data("bundle.dem"), &other).expect("copied");
    let (state, page, csv) = (at("state.jsonl"), at("page.html"), at("counts.csv"));
    let study = ["sweep", "--dem", &named, &other, "--shots", "2000", "--batch", "100"];
    let results =
        json(ringcall(&[&study[..], &["--state", &state, "--report", &page, "--sinter-csv", &csv]].concat()));
    let points = results["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    let of = |point: &Value| ["code", "name", "distance", "p", "shots"].map(|key| point[key].clone());
    let text = |text: &str| Value::from(text);
    assert_eq!(of(&points[0]), [text("model"), text("d=3,r=3,p=0.01"), 3.into(), 0.01.into(), 2000.into()]);
    assert_eq!(of(&points[1]), [text("model"), text("mine"), 0.into(), Value::Null, 2000.into()]);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.contains("mine") && !page.contains("NaN"));
    let csv = std::fs::read_to_string(csv).expect("rows");
    assert!(
        csv.lines().count() == 3 && csv.contains("\"\"name\"\":\"\"mine\"\"") && csv.contains("\"\"d\"\":3"),
        "{csv}"
    );
    // A parameter that no name says is in no file and in no column.
    let csv = at("points.csv");
    let output = ringcall(&["sweep", "--dem", &other, "--shots", "100", "--report", &csv]).assert().success();
    let shown = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    let heading = shown.lines().next().expect("a heading");
    assert!(
        heading.split_whitespace().eq("code shots errors error rate 95% interval decode".split(' ')),
        "{shown}"
    );
    let csv = std::fs::read_to_string(csv).expect("rows");
    assert!(
        csv.lines().nth(1).is_some_and(|row| row.starts_with("model,0,,,") && row.ends_with(',')),
        "{csv}"
    );
    // The points come from the state; and from shards.
    let again = json(ringcall(&[&study[..], &["--state", &state]].concat()));
    let errors = |results: &Value| {
        [0, 1].map(|place| results["points"][place]["alone"]["errors"].as_u64().expect("a count"))
    };
    assert_eq!(errors(&again), errors(&results));
    assert!(errors(&results)[0] > 0);
    let shards = at("shards");
    for shard in ["1/2", "2/2"] {
        ringcall(&[&study[..], &["--state", &shards, "--shard", shard]].concat()).assert().success();
    }
    let merged = json(ringcall(&["merge", &shards]));
    assert_eq!(errors(&merged), errors(&results));
    assert_eq!(merged["points"][0]["distance"], 3);

    let twice = at("again.dem");
    std::fs::copy(&other, &twice).expect("copied");
    let output = ringcall(&["sweep", "--dem", &other, &twice, "--shots", "10"]).assert().code(2);
    assert!(
        String::from_utf8_lossy(&output.get_output().stderr).contains("again.dem is the same model as mine")
    );
}

#[test]
fn mistakes_are_counted_as_pymatching_counts_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth.01");
    let (dem, shots) = (data("surface.dem"), folder.path().join("shots.01"));
    let row = |name: &str| std::fs::read_to_string(data(name)).expect("rows");
    let observables = row("surface.predicted.01").lines().next().expect("a row").len();
    // Shots without observables, read from shots that have them.
    let bare: String = row("surface.shots.01")
        .lines()
        .map(|line| format!("{}\n", &line[..line.len() - observables]))
        .collect();
    std::fs::write(&shots, bare).expect("written");
    let common = ["--dem", &dem, "--in", shots.to_str().expect("text"), "--in_format", "01"];
    let path = truth.to_str().expect("text");
    ringcall(&[&["predict"][..], &common, &["--out", path]].concat()).assert().success();
    let mut rows = std::fs::read_to_string(&truth).expect("predictions");
    let count = rows.lines().count();
    let counted = |more: &[&str]| {
        let output = ringcall(&[&["count_mistakes"][..], &common, more].concat()).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).expect("text")
    };
    assert_eq!(counted(&["--obs_in", path]), format!("0 / {count}\n"));
    let flipped = if rows.starts_with('0') { "1" } else { "0" };
    rows.replace_range(0..1, flipped);
    std::fs::write(&truth, &rows).expect("written");
    assert_eq!(counted(&["--obs_in", path]), format!("1 / {count}\n"));
    let out = folder.path().join("counts");
    assert_eq!(counted(&["--obs_in", path, "--out", out.to_str().expect("text"), "--time"]), "");
    assert_eq!(std::fs::read_to_string(&out).expect("counts"), format!("1 / {count}\n"));

    std::fs::write(&truth, rows.split_once('\n').expect("rows").1).expect("written");
    for (more, code, part) in [
        (&["--obs_in", path][..], 1, "truth.01 ends before the shots of"),
        (&[], 2, "nothing says what is right"),
    ] {
        let output = ringcall(&[&["count_mistakes"][..], &common, more].concat()).assert().code(code);
        let text = String::from_utf8_lossy(&output.get_output().stderr);
        assert!(text.contains(part) && text.trim_end().lines().count() == 1, "{text}");
    }
}

/// A stopped command leaves no part of a file.
#[test]
fn predictions_that_are_stopped_leave_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let out: PathBuf = folder.path().join("out");
    let dem = data("surface.dem");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["predict", "--dem", &dem, "--in", "/dev/zero", "--out"])
        .arg(&out)
        .spawn()
        .expect("started");
    let names = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
    let begin = std::time::Instant::now();
    while names(folder.path()) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing is ever written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    assert_eq!(names(folder.path()), 0);
}

/// `top` shows a live service and sees its end; q and Ctrl-C end the picture.
#[test]
fn top_watches_a_service_come_and_go() {
    let service = || {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .args(["serve", "--distance", "3", "--metrics", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let (mut out, mut line) = (BufReader::new(child.stdout.take().expect("piped")), String::new());
        out.read_line(&mut line).expect("a line");
        (child, out, line.trim().to_owned())
    };
    let (mut child, _out, line) = service();
    let metrics = line.split("metrics=").nth(1).and_then(|rest| rest.split(' ').next()).expect("its metrics");
    let mut ends = Terminal::start(&["top", metrics, "--interval", "50ms"]);
    ends.wait("answers/s", 0);
    ends.interrupt();
    let (text, code) = ends.end();
    assert_eq!((code, too_wide(&text)), (Some(0), Vec::new()), "{text}");

    let mut top = Terminal::start(&["top", metrics, "--interval", "50ms"]);
    top.wait("0 answers/s", 0);
    let asked =
        ["emulate", "--connect", &line, "--requests", "3000", "--function", "decode", "--distance", "3"];
    ringcall(&asked).assert().success();
    // The line has the number of requests in all.
    let line =
        |text: &str| text.lines().any(|line| line.contains("decode_syndrome ") && line.contains(" 3,000"));
    while !line(&top.shown()) {
        assert!(top.read(), "{}", top.shown());
    }
    let seen = top.wait("transport answered", 0);
    top.wait("3,000", 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("it runs");
    child.wait().expect("ended");
    top.wait("no answer for", seen);
    top.master.write_all(b"xq").expect("pressed");
    let (text, code) = top.end();
    assert_eq!((code, too_wide(&text)), (Some(0), Vec::new()), "{text}");
    for part in ["every 0.1 s", "q ends", "p50 \u{2264} ", "cores, ", "under way 0", "refused", "altogether"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    // Without a terminal there is no picture, so the command does not wait for one.
    let output = ringcall(&["top", metrics]).assert().code(1);
    let text = String::from_utf8_lossy(&output.get_output().stderr);
    assert!(text.contains("no metrics at") && text.trim_end().lines().count() == 1, "{text}");
}

/// Options, each with values that the command refuses.
type Options<'a> = Vec<(&'a str, &'a [&'a str])>;

/// Every command and every kind of value: exit code 2 at once, one line that names the fault, and nothing twice.
#[test]
fn bad_arguments_are_refused_with_exit_code_2() {
    let dem = data("surface.dem");
    let emulate = ["emulate", "--connect", "127.0.0.1:9"];
    let decode = [&emulate[..], &["--function", "decode"]].concat();
    let (predict, mistakes) =
        (["predict", "--dem", &dem], ["count_mistakes", "--dem", &dem, "--in_includes_appended_observables"]);
    let experiment: Options<'_> = vec![
        ("--distance", &["4", "1", "-3", "x", "", "3.5", "nan", "99999999999"]),
        ("--p", &["2", "1", "-0.1", "nan", "x", ""]),
        ("--rounds", &["0", "-1", "x", "99999999999"]),
        ("--preset", &["x"]),
        ("--code", &["x"]),
        ("--basis", &["w"]),
        ("--detectors", &["x"]),
        ("--decoder", &["x"]),
        ("--matching", &["x"]),
        ("--relay-solutions", &["0", "x", "-1", "1e9"]),
        ("--relay-iterations", &["0", "x"]),
        ("--max-memory", &["x", "-1", ""]),
    ];
    let of_experiments = [&["run"][..], &["serve"], &["explain"], &["sweep"], &decode];
    let of_experiments = of_experiments.into_iter().map(|command| (command, experiment.clone()));
    let counts: &[&str] = &["0", "x", "-1", "1.5", "1e30", ""];
    let times: &[&str] = &["x", "-1", "nan", "5 fathoms"];
    let mut table: Vec<(&[&str], Options<'_>)> = of_experiments.collect();
    table.extend([
        (
            &["run"][..],
            vec![
                ("--shots", counts),
                ("--workers", counts),
                ("--slots", counts),
                ("--kernels", counts),
                ("--duration", times),
                ("--duration", &["0"]),
                ("--interval", times),
                ("--timeout", times),
                ("--deadline", times),
                ("--seed", &["x", "-1", "1.5"]),
                ("--pin", &["x", "0-", "0,0"]),
                ("--engine", &["x"]),
                ("--threshold", &["x", "nan", "0.5"]),
                ("--in-format", &["b8", "x"]),
                ("--dispatcher", &["x"]),
                ("--decoder-config", &["{"]),
                ("--report", &["r.csv", "r.png", "r.json"]),
            ],
        ),
        (
            &["sweep"],
            vec![
                ("--report", &["r.png"]),
                ("--distance", &["3-", "5-3", "3,4"]),
                ("--p", &["0.1:0.01:3", "0:0.1:3", "0.1:0.2"]),
                ("--shots", counts),
                ("--max-errors", counts),
                ("--batch", counts),
                ("--threads", counts),
                ("--seed", &["x"]),
                ("--confidence", &["0", "1", "x", "nan"]),
                ("--shard", &["0/2", "3/2", "x", "1/0"]),
                ("--engine", &["x"]),
            ],
        ),
        (&["merge", "."], vec![("--confidence", &["2", "x"])]),
        (&predict, vec![("--in_format", &["x", ""]), ("--out_format", &["x"]), ("--threads", counts)]),
        (&predict, vec![("--decoder", &["x"]), ("--max-memory", &["x"]), ("--relay-solutions", counts)]),
        (&mistakes, vec![("--in_format", &["x"]), ("--obs_in_format", &["x"]), ("--threads", counts)]),
        (
            &["serve"],
            vec![
                ("--transport", &["x"]),
                ("--bind", &["x", "127.0.0.1", "127.0.0.1:99999"]),
                ("--slots", counts),
                ("--slot-bytes", &["1", "x"]),
                ("--threads", &["x"]),
                ("--dispatcher", &["x"]),
                ("--duration", times),
                ("--stop-timeout", times),
                ("--metrics", &["x"]),
                ("--peer", &["x"]),
                ("--mtu", &["1000", "x"]),
                ("--peers", counts),
                ("--qp", &["x", "99999999"]),
                ("--psn", &["x", "99999999"]),
                ("--rkey", &["x"]),
                ("--rendezvous", &["x"]),
                ("--log-format", &["x"]),
                ("--tag-key", &["x"]),
                ("--weights", counts),
                ("--readout", &["x"]),
                ("--decoders", counts),
                ("--service", &["x"]),
                ("--instances", counts),
                ("--sizes", &["x", "", "x=0", "x=y", "x=1,x=2"]),
                ("--config", &["/no/such.yaml"]),
            ],
        ),
        (&["emulate"], vec![("--connect", &["x", "", "127.0.0.1", "127.0.0.1:99999", "transport=x port=1"])]),
        (
            &emulate,
            vec![
                ("--requests", counts),
                ("--rate", &["0", "x", "-1", "nan"]),
                ("--payload", &["x", "-1", "9999999999"]),
                ("--in-flight", counts),
                ("--timeout", times),
                ("--timeout", &["0"]),
                ("--loss", &["2", "x", "-0.1", "nan"]),
                ("--duplicate", &["2"]),
                ("--reorder", &["2"]),
                ("--function", &["x"]),
                ("--bind", &["x"]),
                ("--mtu", &["1000"]),
                ("--psn", &["99999999"]),
                ("--tag-key", &["x"]),
                ("--protocol", &["x", "decoding"]),
            ],
        ),
        (
            &["top", "127.0.0.1:9"],
            vec![("--interval", times), ("--interval", &["0", "2h"]), ("--count", counts)],
        ),
        (&["explain"], vec![("--shot", &["x", "-1"]), ("--seed", &["x"]), ("--in-format", &["x"])]),
        (
            &["bench", "floor-host"],
            vec![
                ("--trips", counts),
                ("--requests", counts),
                ("--shots", counts),
                ("--rounds", counts),
                ("--spread", times),
                ("--duration", times),
                ("--cores", &["x", "99999", "0,0"]),
                ("--preset", &["x"]),
            ],
        ),
        (&["doctor"], vec![("--require", &["x", ""])]),
    ]);
    let mut lines: Vec<Vec<String>> = Vec::new();
    for (command, options) in table {
        for (option, values) in options {
            let given = values.iter().map(|value| format!("{option}={value}"));
            lines.extend(
                given.map(|given| command.iter().map(|word| (*word).to_owned()).chain([given]).collect()),
            );
        }
    }
    for words in [
        &["nothing"][..],
        &["help", "x"],
        &["completions", "x"],
        &["bench", "x"],
        &["top", "x"],
        &["top"],
        &["merge"],
    ] {
        lines.push(words.iter().map(|word| (*word).to_owned()).collect());
    }
    for words in lines {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .args(&words)
            .stdin(Stdio::null())
            .output()
            .expect("ran");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {text}");
        let first = text.lines().find(|line| !line.is_empty()).unwrap_or_default();
        let parts: Vec<&str> = first.split(": ").collect();
        let twice = (1..parts.len()).any(|place| parts[..place].contains(&parts[place]));
        assert!(!first.is_empty() && !twice && output.stdout.is_empty(), "{words:?}: {text}");
    }
}

/// Old names still have their meaning, and no help names them.
#[test]
fn names_of_earlier_versions_are_hidden() {
    let text = |args: &[&str]| {
        let output = ringcall(args).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).expect("text")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (dem, shots) = (data("surface.dem"), data("surface.shots.01"));
    let explain = ["explain", "--dem", &dem, "--shot", "3"];
    let names = [
        [["--in", &shots], ["--in-format", "01"], ["--output", &at("now.svg")]],
        [["--shots", &shots], ["--shots-format", "01"], ["--output", &at("earlier.svg")]],
    ];
    let with = ["--in-includes-appended-observables", "--shots-with-observables"];
    for (names, with) in names.iter().zip(with) {
        text(&[&explain[..], names.as_flattened(), &[with]].concat());
    }
    // A picture says which command made it, and when.
    let picture = |name| {
        let picture = std::fs::read_to_string(at(name)).expect("a picture");
        let (before, provenance) = picture.split_once("<desc id=\"provenance\">").expect("its provenance");
        before.to_owned() + provenance.split_once("</desc>").expect("its end").1
    };
    assert_eq!(picture("now.svg"), picture("earlier.svg"));
    let help = text(&["explain", "--help"]) + &text(&["bench", "--help"]);
    assert!(!help.contains("shots-format") && !help.contains("pipeline-seconds"), "{help}");
    text(&["bench", "floor-host", "--trips", "1e3", "--spread", "100", "--pipeline-seconds", "1"]);
}
