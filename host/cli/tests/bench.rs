//! `ringcall bench`: comparison with earlier runs, and what happens if it fails.

use assert_cmd::Command;
use serde_json::Value;
use std::error::Error;

fn ringcall(args: &[&str]) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::cargo_bin("ringcall")?;
    command.args(args);
    Ok(command)
}

#[test]
fn matching_weighs_the_same_as_whoever_is_there() -> Result<(), Box<dyn Error>> {
    let output =
        ringcall(&["bench", "matching/d7", "matching/slices", "--shots", "150", "--json", "-"])?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["results"], Value::Array(Vec::new()));
    let rows = report["matching"].as_array().ok_or("no rows")?;
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["matching/d7/p0.001", "matching/d7/p0.003", "matching/slices/d13"]);
    for row in rows {
        assert_eq!(row["n"], 150);
        assert!(row["p50_ns"].as_u64() <= row["p99_ns"].as_u64());
        for which in ["core", "pip"] {
            let absent = report["skipped"].as_array().ok_or("no list")?.iter().any(|s| s["name"] == which);
            if absent {
                assert!(row[which].is_null(), "{row}");
            } else {
                assert_eq!(row[which]["weights_equal"], 150, "{row}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_reference_that_ends_is_an_error() -> Result<(), Box<dyn Error>> {
    let output = ringcall(&["bench", "matching/slices", "--shots", "1", "--core", "/bin/false"])?.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("ended instead of answering"), "{said}");
    Ok(())
}

#[test]
fn the_predecoder_is_timed_where_it_can_run() -> Result<(), Box<dyn Error>> {
    let output = ringcall(&["bench", "predecoder/d7", "--trips", "5", "--json", "-"])?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let names = |list: &str| -> Vec<String> {
        let rows = report[list].as_array().into_iter().flatten();
        rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(names("results")[0], "predecoder/d7/cpu");
    assert!(report["results"][0]["n"].as_u64() > Some(0) && report["results"][0]["ratio_to_floor"].is_null());
    let mut device = [&names("results")[1..], &names("skipped")].concat();
    device.sort_unstable();
    assert_eq!(device, ["predecoder/d7/graph", "predecoder/d7/grid"]);
    for skipped in report["skipped"].as_array().into_iter().flatten() {
        let why = skipped["why"].as_str().unwrap_or_default();
        assert!(why.starts_with("no GPU: ") || why.contains("compute capability"), "{why}");
    }
    Ok(())
}

#[test]
fn belief_propagation_is_timed_where_it_can_run() -> Result<(), Box<dyn Error>> {
    let output = ringcall(&["bench", "bp/bb72", "--trips", "200", "--json", "-"])?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let cpu = &report["results"][0];
    assert_eq!((&cpu["name"], &cpu["n"]), (&"bp/bb72/cpu".into(), &200.into()));
    assert!(cpu["per_s"].as_f64() > Some(0.0) && cpu["iterations_mean"].as_f64() > Some(1.0), "{cpu}");
    assert!(cpu["p99_ns"].as_u64() <= cpu["p9999_ns"].as_u64() && cpu["inside_ns"].is_null(), "{cpu}");
    let skipped = report["skipped"].as_array().ok_or("none")?;
    for name in ["bp/bb72/graph", "bp/bb72/ring", "bp/bb72/ring/8-lanes"] {
        let row = report["results"].as_array().into_iter().flatten().find(|row| row["name"] == name);
        match skipped.iter().find(|skipped| skipped["name"] == name) {
            Some(skipped) => {
                let why = skipped["why"].as_str().unwrap_or_default();
                assert!(row.is_none() && (why.starts_with("no GPU: ") || why.contains("compute capability")));
            }
            None => assert!(row.is_some_and(|row| row["wrong"] == 0 && row["inside_ns"]["p50"].is_u64())),
        }
    }
    Ok(())
}

#[test]
fn a_core_given_twice_is_refused() -> Result<(), Box<dyn Error>> {
    for (command, option, cores, why) in [
        ("bench", "--cores", "0,0", "core 0 is given twice"),
        ("bench", "--cores", "0,x", "`x` is no core number"),
        ("run", "--pin", "1,2,1", "core 1 is given twice"),
        ("run", "--pin", "3,2,1", "core 3 twice: to the dispatcher and to one of 3 workers"),
    ] {
        let mut ringcall = ringcall(&[command, option, cores])?;
        if command == "run" {
            ringcall.args(["--workers", "3"]);
        }
        let output = ringcall.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{command} {cores}: {said}");
    }
    Ok(())
}

#[test]
fn unknown_names_are_refused() -> Result<(), Box<dyn Error>> {
    for name in ["matching/d", "matchin", "floor-"] {
        let output = ringcall(&["bench", name])?.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("matching/d7/p0.001"), "{said}");
    }
    Ok(())
}

/// Without a GPU the rows that need one are skipped, and say why; with one the committed network runs there.
#[test]
fn a_whole_pipeline_is_measured_paced_and_not() -> Result<(), Box<dyn Error>> {
    let args = ["bench", "pipeline/d7", "--pipeline-seconds", "0.05", "--json", "-"];
    let output = ringcall(&args)?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout)?;
    let rows = json["pipeline"].as_array().ok_or("no rows")?;
    let shown: Vec<_> = rows.iter().map(|row| (row["name"].as_str(), row["interval_us"].as_f64())).collect();
    assert_eq!(shown[..2], [(Some("pipeline/d7"), Some(30.0)), (Some("pipeline/d7"), Some(0.0))]);
    let correlated = Some("pipeline/d7/correlated");
    assert_eq!(shown[2..4], [(correlated, Some(30.0)), (correlated, Some(0.0))]);
    for row in rows {
        assert!(row["requests"].as_u64() > Some(0) && row["lost"] == 0 && row["failed"] == 0, "{row}");
        assert!(row["stages_p50_us"]["matching"].as_f64() > Some(0.0), "{row}");
    }
    let skipped = json["skipped"].as_array().ok_or("none")?;
    for shape in ["gpu-host", "gpu-device", "gpu-device-2", "gpu-device-4"] {
        let name = format!("pipeline/d7/{shape}");
        let measured = rows.iter().filter(|row| row["name"] == *name).count();
        let why = skipped.iter().find(|row| row["name"] == *name).and_then(|row| row["why"].as_str());
        match why {
            None => assert_eq!(measured, 2, "{name} is neither measured nor skipped"),
            Some(why) => {
                assert!(measured == 0 && (why.starts_with("no GPU: ") || why.contains("compute capability")));
            }
        }
    }
    Ok(())
}

/// A preset runs its own pipelines alone, and refuses options for other measurements.
#[test]
fn a_preset_measures_its_pipelines_alone() -> Result<(), Box<dyn Error>> {
    let preset = ["bench", "--preset", "d7"];
    let with = |more: &[&str]| ringcall(&[&preset[..], more].concat());
    let listed = with(&["--list"])?.output()?;
    assert_eq!(String::from_utf8(listed.stdout)?, "preset/d7\npreset/d7/slices\n");
    let output = with(&["--pipeline-seconds", "0.05", "--json", "-"])?.output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout)?;
    let names = |list: &str| -> Vec<String> {
        let rows = json[list].as_array().into_iter().flatten();
        rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(names("pipeline"), ["preset/d7", "preset/d7", "preset/d7/slices", "preset/d7/slices"]);
    for list in ["results", "matching", "matching_endless", "matching_patches", "skipped", "failed"] {
        assert_eq!(names(list), [""; 0], "{list}");
    }
    for option in ["--trips", "--requests", "--shots", "--rounds", "--spread", "--cores", "--model", "--core"]
    {
        let output = with(&[option, "5"])?.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("{option} does not apply to --preset")), "{said}");
    }
    Ok(())
}
