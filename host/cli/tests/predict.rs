//! `ringcall predict` against PyMatching's own command (`data/predict/make.py`), and on what can go wrong.

use assert_cmd::Command;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FORMATS: [&str; 3] = ["01", "b8", "dets"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/predict").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(data(name)).unwrap()
}

fn predict(model: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    command.arg("predict").arg("--dem").arg(model);
    command
}

/// The one line that a failed run prints.
fn complaint(command: &mut Command) -> String {
    let output = command.assert().code(1).get_output().clone();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

#[test]
fn predictions_are_those_of_pymatching_in_every_format() {
    for (name, shots, errors) in [("surface", 300, 14), ("bundle", 200, 17)] {
        let model = data(&format!("{name}.dem"));
        for from in FORMATS {
            for to in FORMATS {
                let output = predict(&model)
                    .arg("--in")
                    .arg(data(&format!("{name}.shots.{from}")))
                    .args(["--in_format", from, "--in_includes_appended_observables", "--out_format", to])
                    .assert()
                    .success()
                    .get_output()
                    .clone();
                assert_eq!(output.stdout, read(&format!("{name}.predicted.{to}")), "{name}: {from} to {to}");
                let summary = String::from_utf8(output.stderr).unwrap();
                let expected =
                    format!("ringcall: {shots} shots, {errors} logical errors, logical error rate ");
                assert!(summary.starts_with(&expected), "{summary}");
            }
        }
    }
}

#[test]
fn correlated_predictions_are_those_of_pymatching() {
    for (name, shots, errors) in [("surface", 300, 8), ("bundle", 200, 17)] {
        for threads in ["1", "3"] {
            let output = predict(&data(&format!("{name}.dem")))
                .arg("--in")
                .arg(data(&format!("{name}.shots.b8")))
                .args(["--in_includes_appended_observables", "--enable_correlations", "--threads", threads])
                .assert()
                .success()
                .get_output()
                .clone();
            assert_eq!(output.stdout, read(&format!("{name}.correlated.01")), "{name}");
            let summary = String::from_utf8(output.stderr).unwrap();
            assert!(
                summary.starts_with(&format!("ringcall: {shots} shots, {errors} logical errors, ")),
                "{summary}"
            );
        }
    }
    // Where no solutions tie, the second pass changes some answers.
    assert_ne!(read("surface.predicted.01"), read("surface.correlated.01"));
}

#[test]
fn it_stands_in_a_pipe_with_pymatchings_defaults() {
    // Shots have detectors alone, in b8; answers are in 01 unless an option says otherwise, and nothing is on standard error.
    let rows = String::from_utf8(read("bundle.shots.01")).unwrap();
    let mut packed = Vec::new();
    for row in rows.lines() {
        let bits: Vec<u8> = row.bytes().take(44).map(|byte| byte - b'0').collect();
        packed.extend(bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |sum, bit| sum << 1 | bit)));
    }
    for extra in [&[][..], &["--threads", "1"], &["--threads", "5"], &["--in", "-", "--out", "-"]] {
        let output = predict(&data("bundle.dem")).args(extra).write_stdin(packed.clone()).assert().success();
        assert_eq!(output.get_output().stdout, read("bundle.predicted.01"));
        assert!(output.get_output().stderr.is_empty());
    }
}

#[test]
fn output_files_appear_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (out, cut) = (folder.path().join("out.dets"), folder.path().join("cut.b8"));
    let run = |input: &Path| {
        let mut command = predict(&data("surface.dem"));
        command.arg("--in").arg(input).arg("--in_includes_appended_observables");
        command.arg("--out").arg(&out).args(["--out_format=dets", "--in_format=b8"]);
        command
    };
    run(&data("surface.shots.b8")).assert().success().stdout("");
    assert_eq!(std::fs::read(&out).unwrap(), read("surface.predicted.dets"));

    let whole = read("surface.shots.b8");
    std::fs::write(&cut, &whole[..whole.len() - 1]).unwrap();
    let text = complaint(&mut run(&cut));
    assert_eq!(
        text,
        format!(
            "ringcall: {}: b8 input ends within shot 299 (counted from 0), at byte 2999: 10 bytes per shot, and the \
             last has 9; the file is cut off, or the number of bits per shot is wrong",
            cut.display()
        )
    );
    assert_eq!(std::fs::read(&out).unwrap(), read("surface.predicted.dets"), "the old file is kept");
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn faults_are_named_with_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let model = file("model.dem", "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D2 D3\n");
    let shots = file("shots.01", "0000\n0x00\n");
    let odd = file("odd.dets", "shot D0\nshot D0 D1\nshot D0 D3\n");
    let garbage = file("garbage.dem", "error(0.1) D0\nerror(1.5) D1\n");
    let cut = file("cut.dem", "error(0.1) D0\nrepeat 3 {\nerror(0.1) D1\n");
    let heavy = file("heavy.dem", "error(0.1) D0 D1 D2\n");
    let likely = file("likely.dem", "error(0.1) D0\nerror(0.7) D1 ^ D2 L0\nerror(0.1) D3\n");
    let none = folder.path().join("none");

    let run = |model: &Path, shots: &Path, format: &str, more: &[&str]| {
        let mut command = predict(model);
        command.arg("--in").arg(shots).args(["--in_format", format]).args(more);
        complaint(&mut command)
    };
    let path = |path: &Path| path.display().to_string();
    let cases = [
        (
            run(&garbage, &shots, "01", &[]),
            path(&garbage),
            "line 2: the probability 1.5 is not between 0 and 1",
        ),
        (run(&cut, &shots, "01", &[]), path(&cut), "line 2: the block opened here is never closed"),
        (
            run(&heavy, &shots, "01", &["--decoder", "matching"]),
            path(&heavy),
            "mechanism 0 flips 3 detectors",
        ),
        (run(&none, &shots, "01", &[]), path(&none), "No such file"),
        (run(&model, &none, "01", &[]), path(&none), "No such file"),
        (run(&model, folder.path(), "01", &[]), path(folder.path()), "Is a directory"),
        (run(&model, &shots, "01", &[]), path(&shots), "line 2, column 2: `x` is neither 0 nor 1"),
        (
            run(&model, &odd, "dets", &[]),
            path(&odd),
            "shot 2 (counted from 0): an odd number of detectors fired",
        ),
        (
            run(&model, &shots, "b8", &[]),
            path(&shots),
            "shot 0 (counted from 0), byte 0: padding bits are not 0",
        ),
        (
            run(&model, &shots, "01", &["--out", "/dev/full"]),
            "/dev/full".to_owned(),
            "No space left on device",
        ),
        (run(&model, &shots, "01", &["--out", "/none/out"]), "/none/out".to_owned(), "No such file"),
        (
            run(&likely, &shots, "01", &["--enable_correlations"]),
            path(&likely),
            "mechanism 1 has probability 0.7, and correlated matching takes none above 0.5",
        ),
    ];
    for (text, file, reason) in cases {
        assert!(text.starts_with("ringcall: ") && text.contains(&file) && text.contains(reason), "{text}");
    }
    let text = complaint(predict(&model).args(["--in_format", "01"]).write_stdin("0000\n00"));
    assert!(
        text.contains("standard input: 01 input ends within shot 1 (counted from 0), at byte 7"),
        "{text}"
    );
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for extra in [&["--in_format", "csv"][..], &["--out_format", "csv"], &["--threads", "0"], &["stray"]] {
        predict(&data("bundle.dem")).args(extra).assert().code(2);
    }
    Command::new(env!("CARGO_BIN_EXE_ringcall")).arg("predict").assert().code(2);
}

/// The output has a line for each shot, with any number of threads; these decisions differ from those of two passes.
#[test]
fn an_ensemble_says_how_sure_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("confidence");
    let run = |extra: &[&str]| {
        let mut command = predict(&data("surface.dem"));
        command
            .arg("--in")
            .arg(data("surface.shots.b8"))
            .arg("--in_includes_appended_observables")
            .args(extra);
        command
    };
    let sure = ["--matching", "ensemble", "--confidence"];
    let said = run(&sure).arg(&lines).assert().success().get_output().stderr.clone();
    let mistakes = |said: Vec<u8>| {
        let said = String::from_utf8(said).unwrap();
        said.split(", ").nth(1).and_then(|part| part.split(' ').next()).unwrap().parse::<u32>().unwrap()
    };
    let twice = run(&["--matching", "correlated"]).assert().success().get_output().stderr.clone();
    let (ensemble, correlated) = (mistakes(said), mistakes(twice));
    // PyMatching's correlated decoder gets 8 of 300 shots wrong.
    assert!(correlated == 8 && ensemble != correlated, "{ensemble} mistakes");
    let first = std::fs::read_to_string(&lines).unwrap();
    let confidences: Vec<f64> = first.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(confidences.len(), 300);
    assert!(confidences.iter().all(|confidence| !confidence.is_nan()));
    assert!(confidences.iter().any(|confidence| confidence.is_finite()));
    run(&sure).arg(&lines).args(["--threads", "3"]).assert().success();
    assert_eq!(std::fs::read_to_string(&lines).unwrap(), first, "whatever the threads");

    let none =
        predict(&data("bundle.dem")).args(["--matching", "ensemble"]).assert().code(2).get_output().clone();
    let none = String::from_utf8(none.stderr).unwrap();
    assert!(none.contains("bundle.dem: no error of the model makes another likelier"), "{none}");
    let full = complaint(run(&sure).arg("/dev/full"));
    assert!(full.contains("cannot write the confidences") && full.contains("No space left"), "{full}");
    for (extra, reason) in [
        (&["--confidence", "x"][..], "--confidence does not apply"),
        (&["--matching", "correlated", "--confidence", "x"], "--confidence does not apply"),
        (&["--matching", "ensemble", "--confidence", "-"], "go to different places"),
        (&["--matching", "ensemble", "--confidence", "x", "--out", "x"], "go to different places"),
        (&["--matching", "ensemble", "--enable_correlations"], "cannot be used with"),
        (&["--matching", "ensemble", "--decoder", "relay"], "--matching does not apply to --decoder relay"),
    ] {
        let output = run(extra).assert().code(2).get_output().clone();
        assert!(String::from_utf8(output.stderr).unwrap().contains(reason), "{extra:?}");
    }
}

/// `ringcall predict … | head -1`
#[test]
fn a_closed_pipe_ends_it_quietly() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
        .args(["predict", "--in_format", "01", "--in_includes_appended_observables", "--dem"])
        .arg(data("bundle.dem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // The input is endless: only the closed pipe can stop the command.
    let feeder = std::thread::spawn(move || {
        let shots = read("bundle.shots.01");
        while stdin.write_all(&shots).is_ok() {}
    });
    let mut line = [0; 12];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert_eq!(line[..], read("bundle.predicted.01")[..12]);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
