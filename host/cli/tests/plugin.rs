//! `--decoder plugin:LIBRARY` in the commands that have it, with our own plug-in for deq.

use assert_cmd::Command;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{ShotFormat, ShotLayout, ShotWriter};
use serde_json::Value;
use std::path::Path;

/// The option, with the library that was built for this test.
fn plugin() -> String {
    let test = std::env::current_exe().expect("a path");
    let beside = |folder: Option<&Path>| folder.map(|folder| folder.join("libringcall_deq.so"));
    let paths = [beside(test.parent()), beside(test.parent().and_then(Path::parent))];
    let found = paths.into_iter().flatten().find(|path| path.is_file()).expect("the library was built");
    format!("plugin:{}", found.display())
}

fn ringcall(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    // An answer may take seconds where other work keeps the machine busy.
    command.args(args).env("RINGCALL_RUN_TIMEOUT", "60s");
    command
}

/// Runs to failure with this exit code, and one line with these words.
fn refused(args: &[&str], code: i32, words: &str) {
    let output = ringcall(args).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    assert!(stderr.contains(words) && stderr.lines().count() == 1, "{args:?}: no `{words}` in {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

#[test]
fn a_plugin_decodes_in_the_pipeline() {
    let plugin = plugin();
    let base =
        ["run", "--distance", "3", "--p", "0.01", "--requests", "2000", "--interval-us", "0", "--json", "-"];
    let run = |options: &[&str]| -> Value {
        let output = ringcall(&[&base[..], options].concat()).output().expect("ran");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let report = run(&["--decoder", &plugin, "--decoder-config", r#"{"matching": "plain"}"#]);
    assert_eq!((&report["decoder"], &report["matching"]), (&"plugin".into(), &Value::Null));
    assert_eq!(report["settings"]["engine"], "plugin alone");
    assert!(report["settings"]["library"].as_str().expect("a path").ends_with("libringcall_deq.so"));
    assert_eq!((&report["completed"], &report["unconverged"]), (&2000.into(), &0.into()));
    let matched = run(&["--decoder", "matching", "--matching", "plain"]);
    let errors = |report: &Value| report["logical_errors"].as_u64().expect("a count");
    assert!(errors(&matched) > 20 && errors(&report).abs_diff(errors(&matched)) < 20, "{report}");
}

#[test]
fn a_plugin_predicts() {
    let folder = tempfile::tempdir().expect("a folder");
    let noise = CircuitNoise::uniform(0.01);
    let experiment = MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise };
    let model = experiment.detector_error_model().expect("a model");
    let [dem, shots] = ["model.dem", "shots.b8"].map(|name| folder.path().join(name));
    std::fs::write(&dem, model.to_string()).expect("written");
    let layout = ShotLayout::with_observables(model.num_detectors, model.num_observables);
    let file = std::fs::File::create(&shots).expect("a file");
    let mut writer = ShotWriter::new(file, ShotFormat::B8, layout).expect("a writer");
    let mut sampler = Sampler::new(&model, 3).expect("a sampler");
    let mut shot = sampler.new_shot();
    for _ in 0..1000 {
        sampler.sample_into(&mut shot).expect("sampled");
        writer.write(&shot).expect("written");
    }
    writer.finish().expect("written");

    let predict = |decoder: &str| {
        let input = ["--in", shots.to_str().expect("text"), "--in_includes_appended_observables"];
        let output = ringcall(&[
            "predict",
            "--dem",
            dem.to_str().expect("text"),
            "--decoder",
            decoder,
            "--threads",
            "2",
        ])
        .args(input)
        .output()
        .expect("ran");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stderr).expect("text");
        let errors = said.split(", ").nth(1).and_then(|part| part.split(' ').next()).expect("a count");
        (String::from_utf8(output.stdout).expect("text"), errors.parse::<usize>().expect("a number"))
    };
    let ((plugin, wrong), (matched, _)) = (predict(&plugin()), predict("matching"));
    assert_eq!(plugin.lines().count(), 1000);
    let differ = plugin.lines().zip(matched.lines()).filter(|(a, b)| a != b).count();
    assert!(wrong > 5 && differ < 45, "{wrong}, {differ}");
}

#[test]
fn what_cannot_be_is_one_clear_line() {
    let plugin = &plugin();
    let run = ["run", "--distance", "3", "--requests", "10"];
    let with = |options: &[&'static str]| -> Vec<String> {
        run.iter().chain(&["--decoder", plugin.as_str()]).chain(options).map(|&arg| arg.to_owned()).collect()
    };
    for (options, words) in [
        (&["--matching", "plain"][..], "--matching does not apply to --decoder plugin"),
        (&["--relay-solutions", "2"], "--relay-solutions does not apply"),
    ] {
        let args = with(options);
        refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), 2, words);
    }
    refused(&[&run[..], &["--decoder-config", "{}"]].concat(), 2, "--decoder-config does not apply");
    let predict = ["predict", "--dem", "nowhere.dem", "--decoder", plugin, "--enable_correlations"];
    refused(&predict, 2, "--enable_correlations does not apply to --decoder plugin");
    refused(
        &["predict", "--dem", "nowhere.dem", "--decoder-config", "{}"],
        2,
        "--decoder-config does not apply",
    );
    refused(&["sweep", "--decoder", plugin], 2, "does not apply to sweep");

    refused(&[&run[..], &["--decoder", "plugin:./nowhere.so"]].concat(), 1, "decoder plug-in ./nowhere.so: ");
    let args = with(&["--decoder-config", r#"{"speed": 1}"#]);
    refused(&args.iter().map(String::as_str).collect::<Vec<_>>(), 1, "speed");
    // A library of the C runtime is no plug-in.
    refused(
        &[&run[..], &["--decoder", "plugin:libc.so.6"]].concat(),
        1,
        "no function deq_decoder_abi_version",
    );
}
