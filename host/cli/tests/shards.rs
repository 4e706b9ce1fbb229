//! `ringcall sweep --shard` and `ringcall merge`: shards are killed, continued and merged; bad ones are refused.

use assert_cmd::Command;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

fn output(args: &[&str]) -> Result<std::process::Output, Box<dyn Error>> {
    Ok(Command::cargo_bin("ringcall")?.args(args).output()?)
}

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The points of a result, without their times.
fn points(stdout: &[u8]) -> Result<Vec<Value>, Box<dyn Error>> {
    fn untimed(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| !key.ends_with("_us"));
                fields.values_mut().for_each(untimed);
            }
            Value::Array(values) => values.iter_mut().for_each(untimed),
            _ => {}
        }
    }
    let mut results: Value = serde_json::from_slice(stdout)?;
    assert_eq!(results["complete"], true);
    let points = results["points"].as_array_mut().ok_or("no points")?;
    points.iter_mut().for_each(untimed);
    Ok(std::mem::take(points))
}

fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count())
}

fn shard_file(folder: &Path, index: u32, of: u32) -> PathBuf {
    folder.join(format!("shard-{index}-of-{of}.jsonl"))
}

/// Four shards, one of which is killed in the middle of its work and continued, with and without a limit of errors.
#[test]
fn four_shards_one_of_them_killed_are_the_whole_study() -> Outcome {
    let study =
        ["sweep", "--distances", "3,5", "--noises", "0.01,0.02", "--shots", "20000", "--batch", "100"];
    for limit in [&[][..], &["--max-errors", "200"]] {
        let folder = tempfile::tempdir()?;
        let states = folder.path().join("states");
        let state = states.to_string_lossy().into_owned();
        let whole = output(&[&study[..], limit, &["--json", "-"]].concat())?;
        let expected = points(&whole.stdout)?;

        let args =
            |shard| [&study[..], limit, &["--threads", "1", "--state", &state, "--shard", shard]].concat();
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .args(args("2/4"))
            .stdout(Stdio::null())
            .spawn()?;
        let begin = Instant::now();
        while lines(&shard_file(&states, 2, 4)) < 5 && child.try_wait()?.is_none() {
            assert!(begin.elapsed() < Duration::from_secs(60), "no batch is ever finished");
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill()?;
        child.wait()?;
        // The file looks as if the process had been killed in the middle of a line.
        let mut text = std::fs::read(shard_file(&states, 2, 4))?;
        text.extend(b"{\"crc32\":\"0f3a1");
        std::fs::write(shard_file(&states, 2, 4), text)?;

        for shard in ["4/4", "1/4", "3/4"] {
            let done = output(&args(shard))?;
            assert!(done.status.success(), "{}", said(&done));
            assert!(String::from_utf8(done.stdout)?.contains(&format!("shard {shard} is complete")));
        }
        if limit.is_empty() {
            let unfinished = output(&["merge", &state])?;
            assert_eq!(unfinished.status.code(), Some(2));
            assert!(said(&unfinished).contains("shard 2/4 is not finished"), "{}", said(&unfinished));
        }
        let resumed = output(&args("2/4"))?;
        assert!(resumed.status.success() && said(&resumed).contains("cut short"), "{}", said(&resumed));

        let merged = output(&["merge", &state, "--json", "-"])?;
        assert!(merged.status.success(), "{}", said(&merged));
        assert_eq!(points(&merged.stdout)?, expected);
        let (whole, merged): (Value, Value) =
            (serde_json::from_slice(&whole.stdout)?, serde_json::from_slice(&merged.stdout)?);
        for key in ["seed", "batch_shots", "shots", "max_errors", "matching", "predecoder", "machine"] {
            assert_eq!(merged["settings"][key], whole["settings"][key], "{key}");
        }
    }
    Ok(())
}

#[test]
fn the_report_and_the_table_of_a_merge_are_those_of_a_sweep() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (state, page, csv) = (path("states"), path("page.html"), path("counts.csv"));
    let study = ["sweep", "--distances", "3", "--noises", "0.01,0.02", "--shots", "1000", "--batch", "100"];
    for shard in ["1/2", "2/2"] {
        let done =
            output(&[&study[..], &["--matching", "both", "--state", &state, "--shard", shard]].concat())?;
        assert!(done.status.success(), "{}", said(&done));
    }
    let merged = output(&["merge", &state, "--report", &page, "--sinter-csv", &csv])?;
    let table = String::from_utf8(merged.stdout)?;
    assert_eq!(table.lines().count(), 1 + 2 * 3 + 1, "{table}");
    assert!(std::fs::read_to_string(&page)?.contains("<svg "));

    // The result is that of a sweep without shards, but for times.
    let whole = path("whole.csv");
    output(&[&study[..], &["--matching", "both", "--sinter-csv", &whole]].concat())?;
    let rows = |path: &str| -> Result<Vec<String>, Box<dyn Error>> {
        let cut = |line: &str| {
            let mut fields: Vec<&str> = line.splitn(5, ',').collect();
            fields.remove(3);
            fields.join(",")
        };
        Ok(std::fs::read_to_string(path)?.lines().map(cut).collect())
    };
    let rows_of_merge = rows(&csv)?;
    assert_eq!(rows_of_merge, rows(&whole)?);
    assert_eq!(rows_of_merge.len(), 1 + 2 * 2, "{rows_of_merge:?}");
    let first = &rows_of_merge[1];
    assert!(first.starts_with("      1000,") && first.contains(",ringcall,"), "{first}");
    assert!(first.contains(r#","{""b"":""Z"",""c"":""surface"",""d"":3,""p"":0.01,""r"":3}","#), "{first}");
    Ok(())
}

#[test]
fn what_does_not_go_together_is_refused_with_one_line() -> Outcome {
    let folder = tempfile::tempdir()?;
    let states = folder.path().join("states");
    let state = states.to_string_lossy().into_owned();
    let study = ["sweep", "--distances", "3", "--noises", "0.02", "--shots", "200", "--batch", "100"];
    let sharded = |more: &[&str]| output(&[&study[..], &["--state", &state], more].concat());
    let refused = |output: &std::process::Output, code, part: &str| {
        let why = said(output);
        assert_eq!(output.status.code(), Some(code), "{why}");
        assert!(why.contains(part) && why.lines().count() == 1, "no `{part}` in {why}");
    };
    for option in ["--json", "--report", "--sinter-csv"] {
        let file = folder.path().join("out").to_string_lossy().into_owned();
        refused(&sharded(&["--shard", "1/2", option, &file])?, 2, &format!("{option} does not apply to"));
    }
    let without = output(&[&study[..], &["--shard", "1/2"]].concat())?;
    assert!(without.status.code() == Some(2) && said(&without).contains("--state"), "{}", said(&without));
    for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
        let output = sharded(&["--shard", wrong])?;
        assert!(
            output.status.code() == Some(2) && said(&output).contains("is no shard"),
            "{}",
            said(&output)
        );
    }
    assert!(!states.exists(), "nothing was begun");

    std::fs::create_dir(&states)?;
    refused(&output(&["merge", &state])?, 2, "no shard's state");
    assert!(sharded(&["--shard", "1/2"])?.status.success());
    refused(&output(&["merge", &state])?, 2, "shard 2/2 is missing");
    // The command refuses before an hour of work, not after it.
    refused(&sharded(&["--shard", "2/3"])?, 1, "another study");
    refused(&sharded(&["--shard", "2/2", "--seed", "2"])?, 1, "another study");
    refused(&sharded(&["--shard", "1/2", "--max-errors", "5"])?, 1, "another study");
    assert!(!shard_file(&states, 2, 3).exists() && !shard_file(&states, 2, 2).exists());
    assert!(sharded(&["--shard", "2/2"])?.status.success());
    assert!(output(&["merge", &state])?.status.success());

    let copy = states.join("copy.jsonl");
    std::fs::copy(shard_file(&states, 1, 2), &copy)?;
    refused(&output(&["merge", &state])?, 2, "shard 1/2 is there twice");
    std::fs::write(&copy, "notes of mine\n")?;
    refused(&output(&["merge", &state])?, 2, "copy.jsonl: line 1: no state of `ringcall sweep`");
    std::fs::remove_file(&copy)?;
    let whole = copy.to_string_lossy().into_owned();
    assert!(output(&[&study[..], &["--state", &whole]].concat())?.status.success());
    refused(&output(&["merge", &state])?, 2, "copy.jsonl is the state of a whole study");
    std::fs::remove_file(&copy)?;

    // Somebody edited a count.
    let text = std::fs::read_to_string(shard_file(&states, 1, 2))?;
    std::fs::write(shard_file(&states, 1, 2), text.replacen("\"shots\":100,", "\"shots\":101,", 2))?;
    refused(&output(&["merge", &state])?, 2, "its checksum is wrong");
    refused(&output(&["merge", "/no/such/folder"])?, 1, "/no/such/folder");
    Ok(())
}

/// Runs the example as Slurm would start its jobs.
#[test]
fn the_jobs_of_the_slurm_example_are_the_shards_of_one_study() -> Outcome {
    let folder = tempfile::tempdir()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/slurm/sweep.sbatch");
    let programs = Path::new(env!("CARGO_BIN_EXE_ringcall")).parent().ok_or("no folder")?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let study = "--distances 3 --noises 0.02 --shots 600 --batch 100";
    for task in ["1", "2", "3"] {
        let mut job = std::process::Command::new("bash");
        job.arg(&script).current_dir(folder.path()).env("PATH", &path).env("STUDY", study).env("SHARDS", "3");
        let done = job.env("SLURM_ARRAY_TASK_ID", task).env("SLURM_CPUS_PER_TASK", "1").output()?;
        assert!(done.status.success(), "{}", said(&done));
    }
    let states = folder.path().join("states").to_string_lossy().into_owned();
    let merged = output(&["merge", &states, "--json", "-"])?;
    let whole = output(&[&["sweep"], &study.split(' ').collect::<Vec<_>>()[..], &["--json", "-"]].concat())?;
    assert_eq!(points(&merged.stdout)?, points(&whole.stdout)?);
    Ok(())
}
