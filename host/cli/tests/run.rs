//! `ringcall run` as a user meets it: its report, its exit codes, and one clear line on bad input.

mod documented;

use assert_cmd::Command;
use documented::{below, keys, keys_of, table};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn ringcall() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    // An answer may take seconds where other work keeps the machine busy.
    command.env("RINGCALL_RUN_TIMEOUT", "60s");
    command
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file");
    path
}

/// Runs to success and returns the JSON report.
fn report(args: &[&str]) -> Value {
    let output = ringcall().arg("run").args(args).args(["--json", "-"]).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else on standard output")
}

/// Runs to failure; returns the exit code and the one line.
fn failure(args: &[&str]) -> (i32, String) {
    let output = ringcall().arg("run").args(args).output().expect("ran");
    let stderr = String::from_utf8(output.stderr).expect("text");
    (output.status.code().expect("no signal"), stderr)
}

#[test]
fn the_report_has_the_documented_keys_and_the_counts_add_up() {
    let report = report(&["--requests", "2000", "--interval-us", "20", "--seed", "7"]);
    let documented = table("The report of `ringcall run`", "key");
    assert_eq!(keys(&report), keys_of(&documented));
    let summary = below(&documented, "latency_us");
    let stages = keys_of(&table("The report of `ringcall run`", "stage"));
    assert_eq!(keys(&report["stages_us"]), stages);
    for times in stages.iter().map(|stage| &report["stages_us"][stage]).chain([&report["latency_us"]]) {
        assert_eq!(keys(times), summary);
        assert!(summary.iter().all(|key| times[key].is_number()), "{times}");
    }
    assert_eq!(report["submitted"], 2000);
    assert_eq!(report["completed"], 2000);
    assert_eq!(report["shots"], 2000);
    assert_eq!((&report["refused"], &report["timed_out"]), (&0.into(), &0.into()));
    assert_eq!(report["density_in"], report["density_out"]);
    // At this noise some syndromes are empty, and most are not.
    let skipped = report["matching_skipped"].as_u64().expect("a count");
    assert!(skipped > 0 && skipped < 1000, "{skipped}");
}

/// If the device dispatches, the host sees fewer stages: the report names those that it has.
#[test]
fn the_stages_are_documented_for_both_dispatchers() {
    let stages = |column| {
        let table = table("The report of `ringcall run`", column);
        table.iter().flat_map(|row| row.keys.iter().copied()).collect::<Vec<_>>()
    };
    assert_eq!(stages("stage"), ringcall_decoder_service::STAGES);
    assert_eq!(stages("stage with `--dispatcher device`"), ringcall_decoder_service::REMOTE_STAGES);
}

#[test]
fn the_same_seed_gives_the_same_physics_through_every_engine() {
    let base = ["--requests", "1500", "--interval-us", "0", "--p", "0.006", "--distance", "5", "--seed", "3"];
    let mut errors = Vec::new();
    for engine in ["matching", "passthrough"] {
        for workers in ["1", "3"] {
            let args = [&base[..], &["--engine", engine, "--workers", workers]].concat();
            let report = report(&args);
            errors.push((report["logical_errors"].clone(), report["density_in"].clone()));
        }
    }
    assert!(errors.windows(2).all(|pair| pair[0] == pair[1]), "{errors:?}");
    assert!(errors[0].0.as_u64().expect("a number") > 0, "at this noise some answers are wrong");
}

/// Correlated matching is the default for a model with correlations: it makes fewer errors on the same shots. After a network it
/// makes no fewer errors, so plain matching is the default there.
#[test]
fn correlated_matching_is_the_default_and_the_report_says_so() {
    let base = ["--requests", "10000", "--interval-us", "0", "--distance", "9", "--p", "0.006"];
    let errors = |more: &[&str], kind: &str| {
        let report = report(&[&base[..], more].concat());
        assert_eq!(report["matching"], kind, "{more:?}");
        report["logical_errors"].as_u64().expect("a count")
    };
    let plain = errors(&["--matching", "plain"], "plain");
    let correlated = errors(&["--matching", "correlated"], "correlated");
    assert_eq!(errors(&[], "correlated"), correlated);
    assert!(plain > 100 && correlated * 4 < plain * 3, "{correlated} errors, {plain} in one pass");

    let text = ringcall().args(["run", "--distance", "3", "--requests", "50"]).output().expect("ran").stdout;
    let text = String::from_utf8(text).expect("text");
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("; correlated matching"), "{text}");
    let network = ["--distance", "5", "--engine", "cpu", "--requests", "20", "--interval-us", "0"];
    assert_eq!(report(&network)["matching"], "plain");
    assert_eq!(report(&[&network[..], &["--matching", "correlated"]].concat())["matching"], "correlated");
}

/// One pass matches a model without errors of several parts, and a model with an error that is likelier than not.
#[test]
fn correlated_matching_needs_correlations() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, why) in [
        ("chain.dem", "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0\n", "no correlations to use"),
        ("likely.dem", "error(0.6) D0 ^ D1 L0\nerror(0.1) D0\n", "probability 0.6"),
    ] {
        let dem = write(folder.path(), name, text);
        let args = ["--dem", dem.to_str().expect("text"), "--requests", "20", "--matching"];
        assert_eq!(report(&args[..4])["matching"], "plain");
        assert_eq!(report(&[&args[..], &["plain"]].concat())["matching"], "plain");
        let (code, stderr) = failure(&[&args[..], &["correlated"]].concat());
        assert_eq!((code, stderr.trim_end().lines().count()), (1, 1), "{stderr}");
        assert!(stderr.starts_with("ringcall: --matching correlated: ") && stderr.contains(why), "{stderr}");
    }
    assert_eq!(failure(&["--matching", "best"]).0, 2);
}

/// A network for any size, bound to this experiment, answers as the network that was bound to it when it was exported.
#[test]
fn a_predecoder_of_any_size_equals_the_exported_binding() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/");
    let physics = |model: &str, more: &[&str]| {
        let model = format!("{models}{model}.onnx");
        let base = [
            "--engine",
            "cpu",
            "--model",
            &model,
            "--requests",
            "40",
            "--interval-us",
            "0",
            "--timeout-ms",
            "60000",
        ];
        let report = report(&[&base[..], &["--p", "0.003", "--seed", "5"], more].concat());
        assert_eq!(report["completed"], 40);
        let density = |key: &str| report[key].as_f64().expect("a number");
        (density("density_in"), density("density_out"), report["logical_errors"].clone())
    };
    let core = physics("predecoder_3x64", &["--distance", "7"]);
    assert_eq!(core, physics("predecoder_3x64_d7_r7_Z.detectors", &["--distance", "7"]));
    assert!(core.0 > 4.0 * core.1, "the network leaves {} of {}", core.1, core.0);
    let silent = physics("predecoder_3x64", &["--distance", "7", "--threshold", "100"]);
    assert_eq!((silent.0, silent.1), (core.0, core.0));
    physics("predecoder_3x64", &["--distance", "5", "--rounds", "2", "--basis", "x"]);
}

/// Networks of both bases have the same tensors, so a network that was exported for one experiment runs in no other.
#[test]
fn a_network_that_was_exported_for_another_experiment_is_refused() {
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models");
    for form in ["3x64_d7_r7_Z.detectors", "3x128_int8_d7_r7_Z.measurements"] {
        let model = format!("{models}/predecoder_{form}.onnx");
        for (more, says) in [
            (&["--basis", "x"][..], "was exported for basis Z, and the experiment has basis X"),
            (&["--rounds", "6"], "was exported for rounds 7, and the experiment has rounds 6"),
            (&["--distance", "5", "--rounds", "7"], "for distance 7, and the experiment has distance 5"),
            (&["--threshold", "2"], "--threshold does not apply"),
        ] {
            let (code, stderr) = failure(&[&["--engine", "cpu", "--model", &model], more].concat());
            assert_eq!((code, stderr.trim_end().lines().count()), (2, 1), "{form}, {more:?}: {stderr}");
            assert!(stderr.contains(says) && stderr.contains(form), "{form}, {more:?}: {stderr}");
        }
    }
}

/// Without `--model` the committed network runs: it answers as its file does, and the report names it.
#[test]
fn an_engine_without_a_model_runs_the_committed_network() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x128_int8.onnx");
    let run = |more: &[&str]| {
        let base = ["--engine", "cpu", "--distance", "5", "--requests", "60", "--interval-us", "0"];
        let report = report(&[&base[..], &["--seed", "5"], more].concat());
        assert_eq!((&report["completed"], &report["lost"]), (&60.into(), &0.into()));
        let physics = ["density_in", "density_out", "logical_errors", "matching_skipped"]
            .map(|key| report[key].as_f64().expect("a number"));
        (physics, report["settings"].clone())
    };
    let (built_in, settings) = run(&[]);
    assert!(built_in[0] > 4.0 * built_in[1], "the network leaves {} of {}", built_in[1], built_in[0]);
    assert_eq!(settings["engine"], "cpu (predecoder_3x128_int8, built in)");
    let own: f32 = settings["threshold"].as_str().expect("a setting").parse().expect("a number");
    let (by_file, settings) = run(&["--model", file]);
    assert_eq!((built_in, settings["engine"].as_str()), (by_file, Some(format!("cpu ({file})").as_str())));
    let (silent, settings) = run(&["--threshold", "99.5"]);
    assert_eq!((silent[1], settings["threshold"].as_str()), (silent[0], Some("99.5")));
    assert!(own < 10.0, "the file's own threshold is {own}");
}

/// With a GPU that the network is for, either dispatcher runs it there; without one, the command prints one clear line.
#[test]
fn an_engine_on_a_gpu_runs_or_says_what_is_missing() {
    for (dispatcher, handoff) in [("host", "thread"), ("host", "flag"), ("device", "thread")] {
        let args =
            ["run", "--distance", "13", "--engine", "gpu", "--dispatcher", dispatcher, "--handoff", handoff];
        let output = ringcall().args(args).args(["--requests", "200", "--json", "-"]).output().expect("ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!((&report["completed"], &report["lost"]), (&200.into(), &0.into()));
            assert_eq!(report["settings"]["engine"], "gpu (predecoder_3x128_int8, built in)");
            let device = dispatcher == "device";
            let documented = if device {
                &ringcall_decoder_service::REMOTE_STAGES[..]
            } else {
                &ringcall_decoder_service::STAGES
            };
            assert_eq!(keys(&report["stages_us"]), documented.iter().copied().collect());
            assert_eq!(
                report["settings"]["kernels"],
                if device || handoff == "flag" { "1".into() } else { Value::Null }
            );
            eprintln!("ran: --engine gpu --dispatcher {dispatcher}");
        } else {
            assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
            let why = ["no GPU: ", "compute capability"].iter().any(|why| stderr.contains(why));
            assert!(why && stderr.trim_end().lines().count() == 1, "{stderr}");
            eprintln!("skipped: --engine gpu --dispatcher {dispatcher}: {}", stderr.trim_end());
        }
    }
}

#[test]
fn both_bases_and_any_rounds_run() {
    for (basis, rounds) in [("x", "1"), ("z", "2"), ("x", "9")] {
        let report = report(&["--distance", "3", "--basis", basis, "--rounds", rounds, "--requests", "200"]);
        assert_eq!(report["completed"], 200);
    }
}

#[test]
fn a_users_model_and_shots_are_decoded_and_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let dem = write(folder.path(), "chain.dem", "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0\n");
    // Detectors 0 and 1, then the observable: the fourth shot's truth contradicts the most likely explanation.
    let shots = write(folder.path(), "shots.01", "000\n010\n011\n101\n");
    let (dem, shots) = (dem.to_str().expect("text"), shots.to_str().expect("text"));
    let args = ["--dem", dem, "--shots", shots, "--shots-format", "01", "--shots-with-observables"];
    let judged = report(&args);
    assert_eq!((&judged["submitted"], &judged["shots"]), (&4.into(), &4.into()));
    assert_eq!(judged["logical_errors"], 2);
    // Without the truth no prediction is judged: the same bytes are other shots of five detectors.
    let bare = write(folder.path(), "bare.01", "00\n01\n");
    let unjudged = report(&["--dem", dem, "--shots", bare.to_str().expect("text"), "--shots-format", "01"]);
    assert_eq!((&unjudged["submitted"], &unjudged["shots"]), (&2.into(), &0.into()));
    assert!(unjudged["logical_error_rate"].is_null());
}

/// Measurements go in; corrections and convergence come out, with time stamps.
#[test]
fn raw_measurements_are_answered_by_slices() {
    let args = ["--preset", "d7", "--slices", "--measurements", "--ptp-clock", "tai", "--requests", "300"];
    let report = report(&[&args[..], &["--interval-us", "0"]].concat());
    assert_eq!((&report["decoder"], &report["matching"]), (&"slices".into(), &Value::Null));
    assert_eq!((&report["completed"], &report["shots"]), (&300.into(), &0.into()));
    assert_eq!(report["settings"]["requests"], "measurements");
    let shares = report["stage_shares"].as_object().expect("an object");
    let sum: f64 = shares.values().map(|share| share.as_f64().expect("a number")).sum();
    assert!((sum - 1.0).abs() < 1e-9 && shares.len() == 5, "{shares:?}");
    assert!(report["per_round_us"].as_f64() < report["latency_us"]["mean"].as_f64());
    let [least, most] = ["min", "max"].map(|at| report["ptp_round_trip_us"][at].as_f64().expect("a time"));
    assert!(least > 0.0 && least <= most, "{report}");
}

/// Options that exclude each other: one line, exit code 2, and nothing was started.
#[test]
fn options_of_measurements_slices_and_models_are_checked() {
    let cases: &[(&[&str], &str)] = &[
        (&["--slices", "--matching", "plain"], "--slices"),
        (&["--slices", "--deadline-us", "5"], "--slices"),
        (&["--slices", "--code", "bb72"], "--slices is for --code surface"),
        (&["--slices", "--dem", "/no/such.dem"], "--slices"),
        (&["--slices", "--engine", "relay"], "--slices does not apply to --engine relay"),
        (&["--slices", "--relay-lanes", "2"], "--relay-lanes does not apply to --slices"),
        (&["--measurements", "--code", "color"], "--measurements is for --code surface"),
        (&["--measurements", "--engine", "relay"], "--measurements does not apply"),
        (
            &["--measurements", "--engine", "gpu", "--handoff", "flag"],
            "--measurements is for --handoff thread",
        ),
        (
            &["--measurements", "--engine", "gpu", "--dispatcher", "device"],
            "--measurements is for --dispatcher host",
        ),
        (&["--ptp-clock", "sundial"], "--ptp-clock"),
        (&["--slots", "1048577"], "a number from 1 to 1048576"),
        (&["--engine", "gpu", "--dispatcher", "device", "--slots", "4097"], "poll 4096 slots at most"),
        (&["--engine", "gpu", "--dispatcher", "graphs", "--slots", "4097"], "poll 4096 slots at most"),
        (&["--engine", "relay", "--dispatcher", "device", "--slots", "4097"], "poll 4096 slots at most"),
        (&["--engine-save-path", "x.engine"], "--model"),
        (&["--engine", "cpu", "--model", "/no.onnx", "--engine-save-path", "x"], "--engine tensorrt"),
    ];
    for (args, says) in cases {
        let (code, stderr) = failure(args);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn bad_input_gives_one_clear_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let dem = write(folder.path(), "ok.dem", "error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0\n");
    let cut = write(folder.path(), "cut.dem", "error(0.1) D0\nrepeat 3 {\nerror(0.1) D0 D1\n");
    let nonsense = write(folder.path(), "nonsense.dem", [0xFF, 0x00, 0x80, 0x0A]);
    let short = write(folder.path(), "short.b8", []);
    let shots = write(folder.path(), "cut.01", "000\n01");
    let empty = write(folder.path(), "empty.dem", "");
    let onnx = write(folder.path(), "cut.onnx", b"\x08\x07");
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (dem, cut, nonsense) = (text(&dem), text(&cut), text(&nonsense));
    let (shots, empty, onnx, short) = (text(&shots), text(&empty), text(&onnx), text(&short));
    let floats =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x64.onnx").to_owned();
    let cases: &[(&[&str], &str)] = &[
        (&["--ptp-clock", "/dev/null"], "no PTP hardware clock"),
        (&["--ptp-clock", "/dev/no-clock"], "/dev/no-clock"),
        (&["--dem", &cut], "cut.dem"),
        (&["--dem", &nonsense], "nonsense.dem"),
        (&["--dem", &empty], "no detectors"),
        (&["--dem", "/no/such.dem"], "cannot open /no/such.dem"),
        (&["--dem", &dem, "--shots", &shots, "--shots-format", "01", "--shots-with-observables"], "shot"),
        (&["--dem", &dem, "--shots", "/no/such.b8"], "cannot open /no/such.b8"),
        (&["--engine", "cpu", "--model", &onnx], "cut.onnx"),
        (&["--engine", "cpu", "--threshold", "nan"], "threshold NaN"),
        // The command refuses before it looks for a device.
        (
            &["--engine", "gpu", "--model", &floats, "--dispatcher", "device"],
            "3x64.onnx: the network is in floating point",
        ),
        (&["--engine", "gpu", "--model", "/no/such.onnx"], "/no/such.onnx"),
        (&["--engine", "gpu", "--model", &onnx, "--dispatcher", "device"], "network"),
        (&["--report", "/no/such/folder/r.html"], "there is no folder"),
        (&["--json", "/"], "is a directory"),
    ];
    for (args, expected) in cases {
        let (code, stderr) = failure(args);
        assert_eq!(code, 1, "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{args:?}: {stderr}");
        assert!(stderr.starts_with("ringcall: "), "{args:?}: {stderr}");
    }
    // A command line that makes no sense has exit code 2, and a line of ours.
    for (args, expected) in [
        (&["--distance", "4"][..], "ringcall: --distance 4 is not an odd number"),
        (&["--p", "2"], "--p 2 is no strength of noise"),
        (&["--p", "nan"], "--p NaN"),
        (&["--rounds", "0"], "--rounds 0"),
        (&["--engine", "cpu", "--dem", &dem], "--model"),
        (&["--engine", "gpu", "--dem", &dem], "not for --dem"),
        (&["--engine", "matching", "--model", &onnx], "--model"),
        (&["--threshold", "1"], "--threshold is for the engines that run a network"),
        (&["--dispatcher", "device"], "--engine gpu"),
        (&["--in-format", "01"], "give --in as well"),
        (&["--in", &short, "--shots", &short], "their file is --in"),
    ] {
        let (code, stderr) = failure(args);
        assert_eq!((code, stderr.trim_end().lines().count()), (2, 1), "{args:?}: {stderr}");
        assert!(stderr.starts_with("ringcall: ") && stderr.contains(expected), "{args:?}: {stderr}");
    }
    for (option, value) in
        [("--duration", "nan"), ("--interval", "-1"), ("--shots", "1.5"), ("--deadline", "10 lightyears")]
    {
        let (code, stderr) = failure(&[&format!("{option}={value}")]);
        assert!(code == 2 && stderr.contains(&format!("'{option} <")), "{stderr}");
    }
    // The parser of the command line finds options that a configuration excludes, and unknown ones.
    for (more, says) in [
        (&["d9"][..], "d7, d13, d21, d31, d13_r104, d21_r42"),
        (&["d7", "--distance", "7"], "--distance"),
        (&["d7", "--rounds", "7"], "--rounds"),
        (&["d7", "--slots", "64"], "--slots"),
        (&["d7", "--dem", &dem], "--dem"),
    ] {
        let (code, stderr) = failure(&[&["--preset"], more].concat());
        assert_eq!(code, 2, "{more:?}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(says), "{more:?}: {stderr}");
    }
    for (args, says) in [
        (&["--handoff", "flag"][..], "--handoff flag is for --engine gpu with --dispatcher host"),
        (&["--engine", "gpu", "--dispatcher", "device", "--handoff", "flag"], "--handoff flag is for"),
        (&["--engine", "gpu", "--copies", "hook"], "--copies is for --handoff flag"),
        (&["--dispatcher", "graphs"], "--dispatcher graphs is for --engine gpu"),
        (
            &["--code", "bb72", "--engine", "relay", "--dispatcher", "graphs"],
            "--dispatcher graphs is for --engine gpu",
        ),
        (&["--engine", "gpu", "--dispatcher", "graphs", "--handoff", "flag"], "--handoff flag is for"),
        (&["--engine", "gpu", "--dispatcher", "graphs", "--measurements"], "--measurements is for"),
        (&["--engine", "gpu", "--kernels", "2"], "--kernels is for --dispatcher device, --dispatcher graphs"),
        (&["--engine", "gpu", "--kernels", "0"], "--kernels"),
        (&["--engine", "cpu", "--model", &onnx, "--engine-save-path", "x.engine"], "--engine tensorrt"),
        (&["--ptp-clock", "sundial"], "--ptp-clock"),
        (&["--code", "bb72", "--slices"], "--slices"),
    ] {
        let (code, stderr) = failure(args);
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
    // An empty shot file is no error: it has no shots to decode.
    assert_eq!(report(&["--dem", &dem, "--shots", &short])["submitted"], 0);
    assert_eq!(failure(&["--slots", "0"]).0, 2);
    assert_eq!(failure(&["--dem", &dem, "--distance", "5"]).0, 2);
}

#[test]
fn a_configuration_sets_distance_rounds_basis_and_slots() {
    let of = |args: &[&str]| report(&[args, &["--requests", "5", "--p", "0.001"]].concat());
    let settings = of(&["--preset", "d13_r104"])["settings"].clone();
    for (key, value) in [("distance", "13"), ("rounds", "104"), ("basis", "x"), ("slots", "64")] {
        assert!(
            settings[key].as_str().is_some_and(|said| said.eq_ignore_ascii_case(value)),
            "{key}: {settings}"
        );
    }
    assert_eq!(of(&[])["settings"]["slots"], "32");
}

#[test]
fn a_full_disk_is_one_clear_line_and_leaves_no_half_report() {
    let (code, stderr) = failure(&["--distance", "3", "--requests", "50", "--report", "/dev/full"]);
    assert_eq!(code, 1);
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.contains("cannot write /dev/full"), "{stderr}");
}

#[test]
fn the_html_report_stands_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.html");
    let picture = folder.path().join("r.svg");
    let [path_text, picture_text] = [&path, &picture].map(|path| path.to_str().expect("text"));
    report(&["--distance", "3", "--requests", "500", "--report", path_text, "--report", picture_text]);
    assert!(std::fs::read_to_string(&picture).expect("written").starts_with("<svg"));
    let html = std::fs::read_to_string(&path).expect("written");
    assert!(html.contains("<svg") && html.contains("</html>"));
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    // The folder has no other file.
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn a_signal_ends_the_run_in_order() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["run", "--distance", "3", "--duration", "600", "--json", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    // The sleep is long enough for set-up, during which a signal ends the process at once.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("signalled");
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), Some(143), "{err}");
    assert_eq!(err.trim_end().lines().count(), 1, "{err}");
    assert!(err.contains("signal 15"), "{err}");
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["submitted"], report["completed"]);
}

/// A model of this size takes minutes to set up.
#[test]
fn a_signal_during_set_up_ends_any_command_at_once() {
    for command in [
        &["run", "--distance", "75"][..],
        &["serve", "--distance", "75", "--slot-bytes", "1048576"],
        &["sweep", "--distances", "75", "--noises", "0.001"],
    ] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .args(command)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(std::time::Duration::from_millis(500));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let begin = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status;
            }
            if begin.elapsed() > std::time::Duration::from_secs(20) {
                child.kill().expect("it runs");
                panic!("{command:?} does not obey");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(128 + 15), "{command:?}: {status}");
    }
}

#[test]
fn a_deadline_is_counted_and_refused_where_it_does_not_apply() {
    let args =
        ["--requests", "500", "--interval-us", "0", "--p", "0.01", "--seed", "3", "--timeout-ms", "20000"];
    let in_time = report(&args);
    assert_eq!(in_time["late"], 0);
    assert_eq!(in_time["late_or_wrong"], in_time["logical_errors"]);
    let late = report(&[&args[..], &["--deadline-us", "0"]].concat());
    assert_eq!(late["settings"]["deadline_us"], "0");
    assert!(late["late"].as_u64() > Some(400), "{}", late["late"]);
    assert!(late["late_or_wrong"].as_u64() >= late["late"].as_u64());
    for (args, expected) in [
        (&["--deadline", "5us", "--engine", "relay"][..], "--deadline does not apply to --engine relay"),
        (&["--deadline-us=-1"], "give a time from 0"),
        (&["--deadline-us", "inf"], "give a time from 0"),
    ] {
        let (code, stderr) = failure(args);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

/// Only one of seventy observables is ever wrong: its error looks like another, likelier error.
#[test]
fn observables_beyond_a_word_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("many.dem");
    let certain: String = (1..69).map(|i| format!("error(0.1) D{i} L{i}\n")).collect();
    let text = format!("{certain}error(0.2) D0\nerror(0.1) D0 L69\n");
    std::fs::write(&model, text).expect("written");
    let model = model.to_str().expect("text");
    let report = report(&["--dem", model, "--shots", "400", "--interval", "0"]);
    let errors: Vec<u64> =
        report["observable_errors"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert_eq!((errors.len(), errors.iter().sum::<u64>()), (70, errors[69]));
    assert!((10..100).contains(&errors[69]), "{report}");
    assert_eq!(report["logical_errors"], errors[69]);
    let sweep = ["sweep", "--dem", model, "--shots", "400", "--json", "-"];
    let output = ringcall().args(sweep).assert().success();
    let results: Value = serde_json::from_slice(&output.get_output().stdout).expect("JSON");
    let found = results["points"][0]["alone"]["errors"].as_u64().expect("a count");
    assert!((10..100).contains(&found), "{results}");
}

#[test]
fn an_ensemble_reports_how_sure_it_was() {
    let args =
        ["--requests", "2000", "--interval-us", "0", "--p", "0.01", "--seed", "3", "--timeout-ms", "20000"];
    let sure = report(&[&args[..], &["--matching", "ensemble"]].concat());
    let bins = sure["confidences"].as_array().expect("a list");
    let sum = |key: &str| bins.iter().map(|bin| bin[key].as_u64().expect("a count")).sum::<u64>();
    assert_eq!((sum("answers"), Some(sum("wrong"))), (2000, sure["logical_errors"].as_u64()), "{sure}");
    assert!(bins[0]["from"].is_null() && bins[9]["from"].is_null() && bins[9]["to"].is_null(), "{sure}");
    assert!(bins[0]["expected_wrong"].as_f64().is_some_and(|wrong| wrong > 0.0), "{sure}");
    assert_eq!(report(&args)["confidences"], serde_json::json!([]));
}
