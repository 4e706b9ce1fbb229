//! Codes beyond the surface code, and Relay-BP, in every command that decodes.

#![allow(clippy::print_stdout)] // says what was skipped

use assert_cmd::Command;
use ringcall_qec::circuit::{Code, Experiment};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{ShotFormat, ShotWriter};
use serde_json::Value;
use std::path::Path;

fn ringcall(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    // An answer may take seconds where other work keeps the machine busy.
    command.args(args).env("RINGCALL_RUN_TIMEOUT", "60s");
    command
}

/// Runs to success and returns the JSON report.
fn report(args: &[&str]) -> Value {
    let output = ringcall(&[args, &["--json", "-"]].concat()).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else on standard output")
}

/// Runs to failure with this exit code and these words.
fn refused(args: &[&str], code: i32, words: &str) {
    let output = ringcall(args).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(words), "{args:?}: no `{words}` in {stderr}");
}

const QUICK: [&str; 6] = ["--requests", "300", "--interval-us", "0", "--timeout-ms", "60000"];

#[test]
fn a_bicycle_code_runs_through_the_pipeline_by_relay() {
    let report = report(&[&["run", "--code", "bb72"][..], &QUICK].concat());
    assert_eq!((&report["decoder"], &report["matching"]), (&"relay".into(), &Value::Null));
    assert_eq!(
        (&report["completed"], &report["lost"], &report["shots"]),
        (&300.into(), &0.into(), &300.into())
    );
    let settings = &report["settings"];
    for (key, value) in [
        ("code", "bb72"),
        ("distance", "6"),
        ("rounds", "6"),
        ("basis", "z"),
        ("detector_bases", "memory"),
        ("detectors", "252"),
        ("observables", "12"),
        ("engine", "relay alone"),
        ("relay_solutions", "1"),
        ("relay_iterations", "18080"),
        ("relay_lanes", "1"),
    ] {
        assert_eq!(settings[key], value, "{key}");
    }
    // About one shot in 60 is wrong, and flips several of the twelve observables.
    let errors = report["logical_errors"].as_u64().expect("a count");
    let by_observable: Vec<u64> =
        report["observable_errors"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!((1..20).contains(&errors), "{errors}");
    assert_eq!(by_observable.len(), 12);
    let sum: u64 = by_observable.iter().sum();
    assert!(sum >= errors && by_observable.iter().all(|&of_one| of_one <= errors), "{by_observable:?}");
    assert_eq!(report["unconverged"], 0);
}

#[test]
fn lanes_that_race_decode_on_a_cpu_too() {
    let lanes = ["--relay-lanes", "3", "--requests", "100"];
    let report = report(&[&["run", "--code", "bb72", "--interval-us", "0"][..], &lanes].concat());
    assert_eq!((&report["settings"]["relay_lanes"], &report["completed"]), (&"3".into(), &100.into()));
}

/// With or without a GPU, options that exclude each other start nothing.
#[test]
fn options_of_the_gpus_relay_that_do_not_go_together_are_refused() {
    let engine = ["run", "--engine", "relay"];
    let with = |more: &[&'static str]| [&engine[..], more].concat();
    refused(&with(&["--matching", "plain"]), 2, "--matching does not apply to --engine relay");
    refused(&with(&["--decoder", "matching"]), 2, "--decoder matching does not apply to --engine relay");
    refused(&["run", "--code", "bb72", "--relay-deadline-us", "5"], 2, "is for --engine relay");
    refused(&["run", "--relay-lanes", "3"], 2, "--relay-lanes does not apply: it is for Relay-BP");
    refused(&with(&["--relay-lanes", "65"]), 2, "65");
    refused(
        &with(&["--code", "bb72", "--model", "x.onnx"]),
        2,
        "--model is for the engines that run a network",
    );
    // The command refuses before it looks for a device.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.dem");
    for (model, words) in [
        ("error(0.1) D0 D1 D2 D3 D4 D5 D6 D7 D8 L0", "at most 8 checks of one column, and the graph has 9"),
        ("error(0.1) D0 L40", "at most 32 observables, and the graph has 41"),
        ("error(0.7) D0 L0", "a probability above 0.5"),
    ] {
        std::fs::write(&path, model).expect("written");
        refused(&["run", "--engine", "relay", "--dem", path.to_str().expect("text")], 2, words);
    }
}

#[test]
fn relay_on_a_gpu_decodes_or_says_that_there_is_none() {
    for dispatcher in ["host", "device"] {
        let args =
            ["run", "--code", "bb72", "--engine", "relay", "--dispatcher", dispatcher, "--requests", "300"];
        let output = ringcall(&[&args[..], &["--json", "-"]].concat()).output().expect("ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(1) {
            assert!(output.stdout.is_empty() && stderr.lines().count() == 1, "{stderr}");
            assert!(stderr.contains("--engine relay needs a GPU"), "{stderr}");
            println!("skipped: no GPU");
            continue;
        }
        assert!(output.status.success(), "{stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((&report["completed"], &report["lost"]), (&300.into(), &0.into()));
        assert_eq!(report["settings"]["dispatcher"], dispatcher);
        println!("ran: {dispatcher}");
    }
}

#[test]
fn what_does_not_converge_is_answered_and_counted() {
    let few = ["--relay-iterations", "3"];
    let report = report(&[&["run", "--code", "bb72"][..], &QUICK, &few].concat());
    let unconverged = report["unconverged"].as_u64().expect("a count");
    assert_eq!((&report["completed"], &report["refused"]), (&300.into(), &0.into()));
    assert!((1..300).contains(&unconverged), "{unconverged}");
    let text = ringcall(&[&["run", "--code", "bb72", "-v"][..], &QUICK, &few].concat())
        .output()
        .expect("ran")
        .stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("; relay\n"), "{text}");
    for line in
        [format!("{unconverged} of 300 answers did not converge"), format!("{unconverged} of 300 answers")]
    {
        assert!(text.contains(&line), "no `{line}` in\n{text}");
    }
    assert!(text.contains("of observables"), "{text}");
}

#[test]
fn colour_codes_bases_and_detectors_are_options() {
    let color =
        report(&[&["run", "--code", "color", "--distance", "3", "--rounds", "4"][..], &QUICK].concat());
    assert_eq!((&color["decoder"], &color["settings"]["detectors"]), (&"relay".into(), &"12".into()));
    assert!(color["settings"]["basis"].is_null());
    let both = ["run", "--code", "bb72", "--rounds", "2", "--basis", "x", "--detectors", "both"];
    let both = report(&[&both[..], &QUICK].concat());
    assert_eq!((&both["settings"]["basis"], &both["settings"]["detectors"]), (&"x".into(), &"144".into()));
}

/// Memory of X and memory of Z: the same code with other circuits and shots is decoded about as well.
#[test]
fn a_bicycle_code_is_run_and_swept_in_both_bases() {
    let code = ["--code", "bb72", "--rounds", "3"];
    let study = ["--noises", "0.006", "--shots", "400", "--batch", "100"];
    let found = ["x", "z"].map(|basis| {
        let ran = report(&[&["run", "--basis", basis, "--p", "0.006"][..], &code, &QUICK].concat());
        assert_eq!((&ran["settings"]["basis"], &ran["completed"]), (&basis.into(), &300.into()));
        let swept = report(&[&["sweep", "--basis", basis][..], &code, &study].concat());
        let point = &swept["points"][0];
        assert_eq!((&point["basis"], &point["matching"]), (&basis.to_uppercase().into(), &"relay".into()));
        let wrong = point["alone"]["errors"].as_u64().expect("a count");
        assert!((1..200).contains(&wrong), "{basis}: {wrong} of 400");
        (ran["density_in"].clone(), point["density_in"].clone())
    });
    assert!(found[0].0 != found[1].0 && found[0].1 != found[1].1, "other shots: {found:?}");
}

#[test]
fn the_surface_code_is_matched_unless_relay_is_asked_for() {
    let base = ["run", "--distance", "3", "--p", "0.01"];
    assert_eq!(report(&[&base[..], &QUICK].concat())["decoder"], "matching");
    let relay = report(&[&base[..], &["--decoder", "relay", "--relay-solutions", "3"], &QUICK].concat());
    assert_eq!((&relay["decoder"], &relay["settings"]["relay_solutions"]), (&"relay".into(), &"3".into()));
    assert_eq!(relay["completed"], 300);
}

#[test]
fn a_sweep_mixes_codes_and_says_what_decoded() {
    let args =
        ["--code", "bb72,surface,color", "--distances", "3", "--rounds", "3", "--noises", "0.004,0.01"];
    let results = report(&[&["sweep", "--shots", "400", "--batch", "100"][..], &args].concat());
    let points = results["points"].as_array().expect("points");
    let found: Vec<_> =
        points.iter().map(|point| (&point["code"], &point["matching"], &point["distance"])).collect();
    let expected = [("bb72", "relay", 6), ("surface", "correlated", 3), ("color", "relay", 3)];
    for (code, pair) in expected.into_iter().zip(found.chunks(2)) {
        for &(name, matching, distance) in pair {
            assert_eq!((name, matching, distance), (&code.0.into(), &code.1.into(), &code.2.into()));
        }
    }
    let bicycle = &points[0];
    assert_eq!((&bicycle["observables"], &points[2]["observables"]), (&12.into(), &1.into()));
    let per_shot = bicycle["alone"]["logical_error_rate"].as_f64().expect("a rate");
    let per_observable = bicycle["error_rate_per_observable"].as_f64().expect("a rate");
    assert!(per_observable > 0.0 && per_observable < per_shot && per_shot <= 12.0 * per_observable);
    assert_eq!(points[2]["error_rate_per_observable"], points[2]["alone"]["logical_error_rate"]);
    assert_eq!((&bicycle["basis"], &points[4]["basis"]), (&"Z".into(), &Value::Null));

    let relay = [
        "sweep",
        "--distances",
        "3",
        "--noises",
        "0.01",
        "--shots",
        "200",
        "--batch",
        "100",
        "--decoder",
        "relay",
    ];
    let text = ringcall(&relay).output().expect("ran").stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("d = 3") && text.contains("relay"), "{text}");
    assert!(!text.contains("did not converge"), "{text}");
    let few = [
        "sweep",
        "--code",
        "bb72",
        "--noises",
        "0.01",
        "--shots",
        "100",
        "--batch",
        "100",
        "--relay-iterations",
        "3",
    ];
    let text = ringcall(&few).output().expect("ran").stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("bb72, p = 0.01: ") && text.contains(" of 100 shots did not converge"), "{text}");
}

#[test]
fn a_states_points_are_kept_by_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.jsonl");
    let state = state.to_str().expect("text");
    let base =
        ["sweep", "--rounds", "2", "--noises", "0.01", "--shots", "200", "--batch", "100", "--state", state];
    let first = report(&[&base[..], &["--code", "bb72"]].concat());
    let lines = std::fs::read_to_string(state).expect("a state").lines().count();
    let again = report(&[&base[..], &["--code", "bb72"]].concat());
    assert_eq!(first["points"], again["points"]);
    assert_eq!(std::fs::read_to_string(state).expect("a state").lines().count(), lines);
    let five =
        ringcall(&[&base[..], &["--code", "bb72", "--relay-solutions", "5"]].concat()).output().expect("ran");
    let stderr = String::from_utf8_lossy(&five.stderr);
    assert!(
        stderr.contains("the state of another study") && stderr.contains("relay with 5 solutions"),
        "{stderr}"
    );
    let both = report(&[&base[..], &["--code", "bb72", "--detectors", "both"]].concat());
    assert_ne!(both["points"][0]["density_in"], first["points"][0]["density_in"]);
}

/// A model and shots with their observables, in a folder.
fn bicycle_files(folder: &Path) -> (String, String) {
    let model = Experiment { rounds: 2, p: 0.004, ..Experiment::of(Code::Bb72) }
        .detector_error_model()
        .expect("a model");
    let [dem, shots] = ["bb72.dem", "bb72.b8"].map(|name| folder.join(name));
    std::fs::write(&dem, model.to_string()).expect("a file");
    let mut sampler = Sampler::new(&model, 3).expect("a sampler");
    let file = std::fs::File::create(&shots).expect("a file");
    let mut writer = ShotWriter::new(file, ShotFormat::B8, sampler.layout()).expect("a layout");
    let mut shot = sampler.new_shot();
    for _ in 0..500 {
        sampler.sample_into(&mut shot).expect("a shot");
        writer.write(&shot).expect("written");
    }
    writer.finish().expect("written");
    [dem, shots].map(|path| path.to_str().expect("text").to_owned()).into()
}

#[test]
fn predict_and_run_take_models_that_matching_cannot() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dem, shots) = bicycle_files(folder.path());
    let base = ["predict", "--dem", &dem, "--in", &shots, "--in_includes_appended_observables"];
    let output = ringcall(&base).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (first, rest) = stderr.split_once('\n').expect("two lines");
    assert_eq!(first, "ringcall: decoding by relay: an error of the model flips more than two detectors");
    assert!(output.status.success() && rest.starts_with("ringcall: 500 shots, "), "{stderr}");
    let lines: Vec<_> = output.stdout.split(|&byte| byte == b'\n').collect();
    assert!(lines.len() == 501 && lines[..500].iter().all(|line| line.len() == 12));
    // The pipeline and a run with two threads give the same answers.
    let errors: u64 = rest.split(' ').nth(3).and_then(|word| word.parse().ok()).expect("a count");
    let run = ["run", "--dem", &dem, "--shots", &shots, "--shots-with-observables", "--interval-us", "0"];
    let run = report(&run);
    assert_eq!((&run["decoder"], &run["logical_errors"]), (&"relay".into(), &errors.into()));
    let two = ringcall(&[&base[..], &["--threads", "2"]].concat()).output().expect("ran");
    assert_eq!(two.stdout, output.stdout);

    let few = ringcall(&[&base[..], &["--relay-iterations", "2"]].concat()).output().expect("ran");
    let stderr = String::from_utf8_lossy(&few.stderr);
    assert!(
        stderr.contains(" of 500 shots did not converge: their predictions are best guesses"),
        "{stderr}"
    );

    for (args, words) in [
        (&["--decoder", "matching"][..], "an edge has at most two"),
        (&["--enable_correlations"], "an edge has at most two"),
    ] {
        refused(&[&base[..], args].concat(), 1, words);
    }
    refused(
        &[&base[..], &["--decoder", "relay", "--enable_correlations"]].concat(),
        2,
        "--enable_correlations does not apply to --decoder relay",
    );
    let run = ["run", "--dem", &dem, "--requests", "5"];
    refused(
        &[&run[..], &["--matching", "plain"]].concat(),
        1,
        "--matching plain (--decoder relay takes any model)",
    );
    refused(
        &[&run[..], &["--decoder", "matching"]].concat(),
        1,
        "--decoder matching (--decoder relay takes any model)",
    );
    refused(&[&run[..], &["--code", "bb72"]].concat(), 2, "cannot be used with");
    refused(&["serve", "--dem", &dem, "--p", "0.1"], 2, "cannot be used with");
}

/// A user's circuit in place of an experiment: the command derives its model, and matches it if it splits into edges.
#[test]
fn circuits_are_run_and_served_as_their_models() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let experiment = |code| Experiment { p: 0.004, rounds: 3, ..Experiment::of(code) };
    for (code, decoder) in [(Code::Surface, "matching"), (Code::Bb72, "relay")] {
        let circuit = write("code.stim", &experiment(code).circuit().expect("a circuit").to_string());
        let dem = write("code.dem", &experiment(code).detector_error_model().expect("a model").to_string());
        let [ours, model] = ["--circuit", "--dem"].map(|option| {
            let path = if option == "--dem" { &dem } else { &circuit };
            report(&[&["run", option, path][..], &QUICK].concat())
        });
        assert_eq!(
            (&ours["decoder"], &ours["settings"]["model"]),
            (&decoder.into(), &circuit.as_str().into())
        );
        for key in ["logical_errors", "density_in", "matching", "observable_errors"] {
            assert_eq!(ours[key], model[key], "{code:?}: {key}");
        }
    }
    let broken = write("broken.stim", "R 0\nM 0\nDETECTOR rec[-2]\n");
    let random = write("random.stim", "RX 0\nM 0\nDETECTOR rec[-1]\n");
    let none = write("none.stim", "R 0\nM 0\n");
    for (path, words) in [
        (&broken, "broken.stim: line 3: rec[-2] lies before the first of 1 measurements"),
        (&random, "random.stim: detector 0 is random without any noise"),
        (&none, "no detectors"),
        (&"/no/such.stim".to_owned(), "cannot open /no/such.stim"),
    ] {
        refused(&["run", "--requests", "1", "--circuit", path], 1, words);
        refused(&["serve", "--circuit", path], 1, words);
    }
    for other in [&["--dem", "x.dem"][..], &["--code", "bb72"], &["--p", "0.1"], &["--basis", "x"]] {
        refused(&[&["run", "--circuit", &none][..], other].concat(), 2, "cannot be used with");
        refused(&[&["serve", "--circuit", &none][..], other].concat(), 2, "cannot be used with");
    }
}

#[test]
fn options_that_a_code_has_no_use_for_are_refused() {
    for (args, words) in [
        (
            &["--code", "bb144", "--distance", "5"][..],
            "--distance does not apply to --code bb144, whose distance is 12",
        ),
        (&["--code", "color", "--basis", "x"], "--basis does not apply to --code color"),
        (&["--detectors", "both"], "--detectors does not apply to --code surface"),
        (&["--code", "steane"], "invalid value 'steane'"),
        (&["--decoder", "relay", "--matching", "plain"], "--matching does not apply to --decoder relay"),
        (&["--relay-solutions", "5"], "--relay-solutions does not apply: it is for Relay-BP"),
        (&["--relay-solutions", "0", "--decoder", "relay"], "give a number from 1 to 1000"),
        (&["--code", "bb72", "--engine", "cpu"], "--engine cpu is for the surface code"),
    ] {
        refused(&[&["run", "--requests", "1"][..], args].concat(), 2, words);
    }
    for (args, words) in [
        (&["--code", "bb72", "--rounds", "0"][..], "0 rounds of this code: give 1 to "),
        (&["--code", "bb72", "--p", "0.8"], "--p 0.8 is no strength of noise"),
        (&["--p=-0.1"], "--p -0.1 is no strength of noise"),
        (&["--p", "NaN"], "--p NaN is no strength of noise"),
        (&["--code", "color", "--rounds", "1"], "1 rounds of a colour code of this distance: give 2 to "),
        (&["--code", "color", "--distance", "4"], "distance 4 is not an odd number"),
    ] {
        refused(&[&["run", "--requests", "1"][..], args].concat(), 2, words);
    }
    for (args, words) in [
        (&["--code", "bb72", "--distances", "7"][..], "--distance does not apply to --code bb72"),
        (&["--code", "color", "--basis", "z"], "--basis does not apply to --code color"),
        (&["--decoder", "relay", "--matching", "both"], "--matching does not apply to --decoder relay"),
        (
            &["--distances", "3", "--relay-solutions", "2"],
            "--relay-solutions does not apply: it is for Relay-BP",
        ),
        (&["--code", "bb72", "--engine", "cpu"], "--model and --engine are for --code surface"),
    ] {
        refused(&[&["sweep", "--shots", "100"][..], args].concat(), 2, words);
    }
    for (args, words) in
        [(&["--code", "bb72", "--rounds", "0"][..], "0 rounds"), (&["--code", "bb72,bb72"], "there twice")]
    {
        refused(&[&["sweep", "--shots", "100"][..], args].concat(), 2, words);
    }
    refused(&["serve", "--code", "bb144", "--distance", "3"], 2, "--distance does not apply to --code bb144");
    let emulate = ["emulate", "--connect", "127.0.0.1:9"];
    refused(
        &[&emulate[..], &["--code", "bb72"]].concat(),
        2,
        "--code does not apply to --function increment",
    );
    refused(
        &[&emulate[..], &["--decoder", "relay"]].concat(),
        2,
        "--decoder does not apply to --function increment",
    );
}
