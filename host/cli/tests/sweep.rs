//! `ringcall sweep`: completed, killed and stopped studies, and what the command refuses.

mod documented;

use assert_cmd::Command;
use documented::{below, keys, keys_of, table};
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

const STUDY: [&str; 10] =
    ["sweep", "--distances", "3,5", "--noises", "0.01,0.02", "--shots", "20000", "--batch", "100", "--json"];

fn ringcall(args: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::cargo_bin("ringcall")?;
    command.args(args);
    Ok(command)
}

/// Runs the study with more arguments; returns its points, without their times.
fn points(more: &[&str]) -> Result<Vec<Value>, Box<dyn Error>> {
    let output = ringcall(&[&STUDY[..], &["-"], more].concat())?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut results: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(results["complete"], true);
    let points = results["points"].as_array_mut().ok_or("no points")?;
    for point in points.iter_mut() {
        for arm in [&["alone"][..], &["arms", "0"]] {
            let path = format!("/{}", arm.join("/"));
            let arm = point.pointer_mut(&path).and_then(Value::as_object_mut).ok_or("no arm")?;
            arm.remove("matching_us").ok_or("no time")?;
        }
    }
    Ok(std::mem::take(points))
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn killed_and_started_again_it_ends_where_it_would_have() -> Outcome {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state.jsonl");
    let state_arg = state.to_string_lossy().into_owned();
    let expected = points(&["--threads", "1"])?;
    assert_eq!(expected.len(), 4);
    assert!(
        expected.iter().all(|point| point["shots"] == 20_000 && point["alone"]["errors"].as_u64() > Some(0))
    );

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"));
    command.args([&STUDY[..], &["-", "--threads", "2", "--state", &state_arg]].concat());
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let begin = Instant::now();
    let lines =
        |path: &Path| std::fs::read(path).map_or(0, |text| text.iter().filter(|&&b| b == b'\n').count());
    while lines(&state) < 20 && child.try_wait()?.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no batch is ever finished");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill()?;
    child.wait()?;
    let before = lines(&state);
    // The file looks as if the process had been killed in the middle of a line.
    let mut text = std::fs::read(&state)?;
    text.extend(b"{\"crc32\":\"0f3a1");
    std::fs::write(&state, text)?;
    assert_eq!(points(&["--threads", "2", "--state", &state_arg])?, expected);
    // One line for each batch, and the first one.
    assert_eq!(lines(&state), 1 + 4 * 200, "{before} lines were there");
    assert_eq!(points(&["--state", &state_arg])?, expected, "all there already");
    Ok(())
}

#[test]
fn a_state_of_another_study_or_in_use_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state.jsonl");
    let path = state.to_string_lossy().into_owned();
    let small = [
        "sweep",
        "--distances",
        "3",
        "--noises",
        "0.02",
        "--shots",
        "100",
        "--batch",
        "100",
        "--state",
        &path,
    ];
    let output = ringcall(&small)?.output()?;
    assert!(output.status.success(), "{}", said(&output));
    let before = std::fs::read(&state)?;
    let output = ringcall(&[&small[..], &["--seed", "2"]].concat())?.output()?;
    assert!(
        !output.status.success() && said(&output).contains("seed 1, 100 shots a batch"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("matching correlated"), "{}", said(&output));
    let output = ringcall(&[&small[..], &["--matching", "plain"]].concat())?.output()?;
    assert!(!output.status.success() && said(&output).contains("matching plain"), "{}", said(&output));
    assert_eq!(std::fs::read(&state)?, before, "untouched");

    let file = std::fs::File::open(&state)?;
    file.lock()?;
    let output = ringcall(&small)?.output()?;
    assert!(!output.status.success() && said(&output).contains("another process"), "{}", said(&output));
    drop(file);

    // An edited count fails its checksum.
    let whole = String::from_utf8(before)?;
    let edited = whole.replacen("\"shots\":100", "\"shots\":200", 1);
    let behind = format!("{whole}and notes");
    // Files of others, with and without an end of their line, and a user's text after a whole state.
    for (text, reason) in [
        (edited.as_str(), "line 2: its checksum is wrong"),
        ("notes of mine\n", "line 1: no state"),
        ("notes of mine", "line 1: no line of this state"),
        (&behind, "line 3: no line of this state"),
    ] {
        std::fs::write(&state, text)?;
        let output = ringcall(&small)?.output()?;
        let why = said(&output);
        assert!(!output.status.success() && why.contains(reason), "{text:?}: {why}");
        assert_eq!(std::fs::read_to_string(&state)?, text, "untouched");
    }
    Ok(())
}

/// A limit on the file's size ends a write as a full disk does.
#[test]
fn a_state_without_room_says_so_and_goes_on_later() -> Outcome {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state.jsonl").to_string_lossy().into_owned();
    let expected = points(&[])?;
    // The shell counts in blocks of 512 bytes or of a KiB.
    let limited = "trap '' XFSZ; ulimit -f 20; exec \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_ringcall")]);
    let output = command.args([&STUDY[..], &["-", "--state", &state]].concat()).output()?;
    let why = said(&output);
    assert_eq!(output.status.code(), Some(1), "{why}");
    assert!(why.contains(&state) && why.contains("cannot be written: File too large"), "{why}");
    assert!(why.contains("goes on from there"), "{why}");
    assert_eq!(points(&["--state", &state])?, expected);
    Ok(())
}

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../training/models/predecoder_3x64.onnx")
}

#[test]
fn a_predecoder_is_compared_with_matching_alone() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (model, page) = (model(), folder.path().join("sweep.html"));
    let (model, page_arg) = (model.to_string_lossy(), page.to_string_lossy());
    let args = ["sweep", "--distances", "3,5", "--noises", "0.012,0.02", "--shots", "200", "--model", &model];
    let more = ["--matching", "correlated", "--json", "-", "--report", &page_arg];
    let output = ringcall(&[&args[..], &more].concat())?.output()?;
    assert!(output.status.success(), "{}", said(&output));
    let results: Value = serde_json::from_slice(&output.stdout)?;
    let alone = ringcall(&[&args[..7], &["--json", "-", "--batch", "100"]].concat())?.output()?;
    let alone: Value = serde_json::from_slice(&alone.stdout)?;
    let list = |results: &Value| results["points"].as_array().cloned().ok_or("no points");
    let documented = table("The results of `ringcall sweep`", "key");
    let [arm_keys, more_keys] = ["alone", "predecoder"].map(|arm| below(&documented, arm));
    let compared = below(&documented, "arms");
    for (with, alone) in list(&results)?.iter().zip(list(&alone)?) {
        let arms = with["arms"].as_array().ok_or("no arms")?;
        let [first, second] = &arms[..] else { return Err(format!("{arms:?}").into()) };
        assert_eq!(keys(first), &arm_keys | &compared);
        assert_eq!(
            (&first["errors"], &second["errors"]),
            (&with["alone"]["errors"], &with["predecoder"]["errors"])
        );
        assert_eq!((&second["ratio"], &second["predecoder"]), (&with["predecoder"]["ratio"], &true.into()));
        assert_eq!(keys(with), keys_of(&documented));
        assert_eq!(keys(&with["alone"]), arm_keys);
        assert_eq!(keys(&with["predecoder"]), &arm_keys | &more_keys);
        assert_eq!(with["shots"], 200);
        // The other arm does not change the shots of the first one.
        assert_eq!(with["alone"]["errors"], alone["alone"]["errors"]);
        let arm = &with["predecoder"];
        let number = |value: &Value| value.as_f64().ok_or(format!("no number in {with}"));
        assert!(number(&arm["density_out"])? < number(&with["density_in"])?, "{with}");
        assert!(
            number(&arm["inference_us"])? > 0.0 && arm["errors_in_common"].as_u64() <= arm["errors"].as_u64()
        );
        let interval = arm["logical_error_rate_ci"].as_array().ok_or("no interval")?;
        let rate = number(&arm["logical_error_rate"])?;
        assert!(number(&interval[0])? <= rate && rate <= number(&interval[1])?);
    }
    let html = std::fs::read_to_string(&page)?;
    // The report has plots for wide and for narrow pages, each per shot and per round.
    assert_eq!(html.matches("<svg ").count(), 4);
    for words in ["d = 3", "d = 5", "with predecoder", "predecoder_3x64 (", "logical error rate per shot"] {
        assert!(html.contains(words), "no `{words}`");
    }
    assert!(!html.contains("http") && !html.contains("NaN"));
    Ok(())
}

/// `--engine` alone runs the committed network. A state that was begun with the network's file continues with that network and
/// with no other engine.
#[test]
fn an_engine_without_a_model_studies_the_committed_network() -> Outcome {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state.jsonl").to_string_lossy().into_owned();
    let file = model().with_file_name("predecoder_3x128_int8.onnx").to_string_lossy().into_owned();
    let args = ["sweep", "--distances", "3", "--noises", "0.02", "--state", &state, "--json", "-"];
    let run = |more: &[&str]| -> Result<Value, Box<dyn Error>> {
        let output = ringcall(&[&args[..], more].concat())?.output()?;
        assert!(output.status.success(), "{more:?}: {}", said(&output));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let half = run(&["--shots", "200", "--model", &file])?;
    let whole = run(&["--shots", "400", "--engine", "cpu"])?;
    for (results, shots) in [(&half, 200), (&whole, 400)] {
        assert_eq!(results["points"][0]["shots"], shots);
        let label = results["settings"]["predecoder"].as_str().ok_or("no predecoder")?;
        assert!(label.starts_with("predecoder_3x128_int8 (") && label.ends_with(", cpu"), "{label}");
    }
    assert_eq!(std::fs::read_to_string(&state)?.lines().count(), 1 + 4, "the first batches were there");
    for more in [&["--threshold", "1", "--engine", "cpu"][..], &[]] {
        let output = ringcall(&[&args[..], more].concat())?.output()?;
        assert!(!output.status.success() && said(&output).contains("another study"), "{}", said(&output));
    }
    Ok(())
}

/// With a GPU that the network is for, the network runs there, and decides as on the CPU. Without one, the command prints one line
/// and begins no state.
#[test]
fn a_study_on_a_gpu_runs_or_says_what_is_missing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state.jsonl");
    let path = state.to_string_lossy().into_owned();
    let args = ["sweep", "--distances", "5", "--noises", "0.006", "--shots", "400", "--json", "-"];
    let output = ringcall(&[&args[..], &["--engine", "gpu", "--state", &path]].concat())?.output()?;
    if !output.status.success() {
        let why = said(&output);
        assert!(["no GPU: ", "compute capability"].iter().any(|part| why.contains(part)), "{why}");
        assert_eq!((output.status.code(), why.trim_end().lines().count()), (Some(1), 1), "{why}");
        assert!(why.contains("compute capability") || !state.exists());
        eprintln!("skipped: a_study_on_a_gpu_runs_or_says_what_is_missing: {}", why.trim_end());
        return Ok(());
    }
    let gpu: Value = serde_json::from_slice(&output.stdout)?;
    let cpu: Value =
        serde_json::from_slice(&ringcall(&[&args[..], &["--engine", "cpu"]].concat())?.output()?.stdout)?;
    let errors = |results: &Value| results["points"][0]["predecoder"]["errors"].as_u64().ok_or("no count");
    assert_eq!(errors(&gpu)?, errors(&cpu)?);
    assert_eq!(gpu["points"][0]["alone"]["errors"], cpu["points"][0]["alone"]["errors"]);
    let output = ringcall(&[&args[..], &["--engine", "cpu", "--state", &path]].concat())?.output()?;
    assert!(said(&output).contains("another study"), "{}", said(&output));
    eprintln!("ran: a_study_on_a_gpu_runs_or_says_what_is_missing");
    Ok(())
}

/// Correlated matching is the default without a predecoder; with one, both kinds run, and each point names its matching.
#[test]
fn correlated_matching_makes_fewer_errors_on_the_same_shots() -> Outcome {
    let errors = |more: &[&str], kind: &str| -> Result<u64, Box<dyn Error>> {
        let args = ["sweep", "--distances", "9", "--noises", "0.006", "--shots", "4000", "--json", "-"];
        let output = ringcall(&[&args[..], more].concat())?.output()?;
        assert!(output.status.success(), "{more:?}: {}", said(&output));
        let results: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!(
            (&results["settings"]["matching"], &results["points"][0]["matching"]),
            (&kind.into(), &kind.into())
        );
        Ok(results["points"][0]["alone"]["errors"].as_u64().ok_or("no count")?)
    };
    let plain = errors(&["--matching", "plain"], "plain")?;
    let correlated = errors(&["--matching", "correlated"], "correlated")?;
    assert_eq!(errors(&[], "correlated")?, correlated);
    assert!(plain > 40 && correlated * 4 < plain * 3, "{correlated} errors, {plain} in one pass");

    let args = ["sweep", "--distances", "5", "--noises", "0.01,0.6", "--shots", "100"];
    let output = ringcall(&[&args[..], &["--json", "-"]].concat())?.output()?;
    let results: Value = serde_json::from_slice(&output.stdout)?;
    let kinds = [0, 1].map(|point| results["points"][point]["matching"].clone());
    assert_eq!(kinds, ["correlated", "plain"], "an error that is likelier than not is not taken");
    let output = ringcall(&[&args[..], &["--engine", "cpu"]].concat())?.output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in ["  correlated ", "  plain ", "  correlated + network ", "Ratio: "] {
        assert!(text.contains(part), "no `{part}` in {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Matching, correlated matching, and a network before either: each arm alone, on the same shots.
#[test]
fn both_kinds_of_matching_are_compared() -> Outcome {
    let folder = tempfile::tempdir()?;
    let [page, state] =
        ["sweep.html", "s.jsonl"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    let args = ["sweep", "--distances", "5", "--noises", "0.01,0.012", "--shots", "30", "--engine", "cpu"];
    let run = |more: &[&str]| -> Result<Value, Box<dyn Error>> {
        let output = ringcall(&[&args[..], &["--json", "-"], more].concat())?.output()?;
        assert!(output.status.success(), "{more:?}: {}", said(&output));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let both = run(&["--matching", "both", "--report", &page, "--state", &state])?;
    let alone = ["plain", "correlated"].map(|kind| run(&["--matching", kind]));
    let [plain, correlated] = alone;
    let (plain, correlated) = (plain?, correlated?);
    assert_eq!(both["settings"]["matching"], "both");
    for place in 0..2 {
        let [both, plain, correlated] = [&both, &plain, &correlated].map(|results| &results["points"][place]);
        let arms = both["arms"].as_array().ok_or("no arms")?;
        let which: Vec<_> =
            arms.iter().map(|arm| (arm["matching"].as_str(), arm["predecoder"].as_bool())).collect();
        let [one, two] = [Some("plain"), Some("correlated")];
        assert_eq!(which, [(one, Some(false)), (two, Some(false)), (one, Some(true)), (two, Some(true))]);
        let expected =
            [&plain["alone"], &correlated["alone"], &plain["predecoder"], &correlated["predecoder"]]
                .map(|arm| &arm["errors"]);
        assert_eq!(arms.iter().map(|arm| &arm["errors"]).collect::<Vec<_>>(), expected);
        assert_eq!(arms[2]["ratio"], plain["predecoder"]["ratio"]);
        // The keys without an arm's name are those of correlated matching.
        assert_eq!((&both["matching"], &both["alone"]["errors"]), (&"correlated".into(), expected[1]));
        assert_eq!(both["predecoder"]["ratio"], correlated["predecoder"]["ratio"]);
    }
    // The second run reads the same points from the state.
    assert_eq!(run(&["--matching", "both", "--state", &state])?["points"], both["points"]);
    let html = std::fs::read_to_string(&page)?;
    for words in ["plain matching alone", "correlated matching with predecoder", "Pale: plain matching"] {
        assert!(html.contains(words), "no `{words}`");
    }
    Ok(())
}

#[test]
fn a_point_ends_with_enough_errors() -> Outcome {
    let some = points(&["--max-errors", "10", "--threads", "2"])?;
    assert_eq!(some, points(&["--max-errors", "10", "--threads", "1"])?);
    for point in some {
        let (shots, errors) =
            (point["shots"].as_u64().ok_or("?")?, point["alone"]["errors"].as_u64().ok_or("?")?);
        assert!(shots < 20_000 && shots.is_multiple_of(100) && (10..110).contains(&errors), "{point}");
    }
    Ok(())
}

#[test]
fn the_table_has_a_line_for_each_point() -> Outcome {
    let output =
        ringcall(&["sweep", "--distances", "3", "--noises", "0.01,0.02", "--shots", "1000"])?.output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success());
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(
        text.contains("95% interval") && text.ends_with("Decoder: correlated.\n") && text.contains("1,000"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    Ok(())
}

/// The command refuses before it studies the first point, though the wrong network is the last point's.
#[test]
fn a_network_that_was_exported_for_another_experiment_is_refused() -> Outcome {
    let model =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../training/models/predecoder_3x64_d7_r7_Z.detectors.onnx");
    for (points, says) in [
        (&["--distances", "7", "--basis", "x"][..], "was exported for basis Z"),
        (&["--distances", "7", "--threshold", "2"], "--threshold does not apply"),
        (&["--distances", "7,5"], "was exported for distance 7"),
    ] {
        let output =
            ringcall(&[&["sweep", "--shots", "1e9", "--model", model], points].concat())?.output()?;
        let said = said(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(output.stdout.is_empty() && said.contains(says), "{said}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_studied_is_said_at_once() -> Outcome {
    for (args, part) in [
        (&["--distances", "3,4"][..], "4"),
        (&["--noises", "0.01,0"], "--p 0 is no strength of noise"),
        (&["--noises", "0.01,0.010"], "there twice"),
        (&["--noises", "2"], "--p 2 is no strength of noise"),
        (&["--confidence", "1"], "--confidence"),
        (&["--threshold", "1"], "--model"),
        (&["--noises", "0.01,0.6", "--matching", "correlated"], "--p 0.6 is too much"),
        (&["--noises", "0.6", "--matching", "both"], "--p 0.6 is too much"),
        (&["--onnxruntime", "x.so"], "--engine"),
        (&["--engine", "cpu", "--onnxruntime", "x.so"], "is for --engine onnxruntime"),
        (&["--model", "/no/such.onnx"], "/no/such.onnx"),
        (&["--state", "/no/such/folder/state"], "/no/such/folder/state"),
        (&["--shots", "0"], "shots"),
        (&["--preset", "d9"], "d7, d13, d21, d31, d13_r104, d21_r42"),
        (&["--preset", "d7", "--distances", "5"], "--distance"),
        (&["--p", "0.01:0.001:5"], "a range goes up"),
        (&["--distance", "3-12"], "odd"),
        (&["--dem", "/no/such.dem"], "/no/such.dem"),
        (&["--dem", "x.dem", "--distance", "3"], "--distance"),
        (&["--dem", "x.dem", "--slices"], "--slices"),
    ] {
        let output = ringcall(&[&["sweep"], args].concat())?.output()?;
        assert!(!output.status.success() && said(&output).contains(part), "{args:?}: {}", said(&output));
    }
    Ok(())
}
