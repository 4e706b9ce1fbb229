//! Belief propagation in a service: its limits, and its end.

use super::{Service, emulate, is_refused, n, report_of, ringcall};
use serde_json::Value;

/// Codes that matching cannot take, and models of a file: served by Relay-BP, whose settings the endpoint says.
#[test]
fn bicycle_codes_and_models_are_served_by_relay() {
    let folder = tempfile::tempdir().expect("a folder");
    let dem = folder.path().join("hyper.dem");
    std::fs::write(&dem, "error(0.05) D0 D1 D2 L0\nerror(0.1) D0\nerror(0.1) D2 D3 L7\nerror(0.02) D3\n")
        .expect("a file");
    let dem = dem.to_str().expect("text");
    let circuit = folder.path().join("three.stim");
    let text = "X_ERROR(0.1) 0\nCX 0 1 0 2\nX_ERROR(0.05) 1\nM 0 1 2\nDETECTOR rec[-1]\nDETECTOR rec[-2]\nDETECTOR rec[-3]\n\
                OBSERVABLE_INCLUDE(0) rec[-3]\n";
    std::fs::write(&circuit, text).expect("a file");
    let circuit = circuit.to_str().expect("text");
    for (served, asked) in [
        (
            &["--code", "bb72", "--rounds", "2", "--relay-solutions", "2"][..],
            &["--code", "bb72", "--rounds", "2"][..],
        ),
        (
            &["--code", "bb72", "--rounds", "2", "--basis", "x", "--detectors", "both"],
            &["--code", "bb72", "--rounds", "2", "--basis", "x", "--detectors", "both"],
        ),
        (&["--dem", dem], &["--dem", dem]),
        (&["--distance", "3", "--decoder", "relay"], &["--distance", "3"]),
        (&["--circuit", circuit], &["--circuit", circuit]),
    ] {
        let service = Service::start(served);
        assert_eq!(service.get("decoder"), "relay", "{}", service.endpoint);
        let solutions = if served.contains(&"--relay-solutions") { "2" } else { "1" };
        assert_eq!(service.get("relay_solutions"), solutions);
        let decode = ["--function", "decode", "--requests", "200"];
        let report = report_of(&service, &[&decode[..], asked].concat());
        assert_eq!((n(&report["correct"]), n(&report["wrong"])), (200, 0), "{report}");
        let matched = emulate(&service, &[&decode[..], asked, &["--matching", "plain"]].concat());
        let stderr = String::from_utf8_lossy(&matched.stderr);
        assert!(!matched.status.success() && stderr.contains("the endpoint's decoder is relay"), "{stderr}");
        let (text, counters) = service.stop();
        assert_eq!((&counters["decoder"], &counters["matching"]), (&"relay".into(), &Value::Null), "{text}");
    }
}

/// Iterations, ordered statistics and a deadline, in the X basis: what did not converge says so, and is counted.
#[test]
fn the_limits_of_relay_are_served() {
    let code = ["--code", "bb72", "--rounds", "2", "--basis", "x", "--p", "0.01"];
    let decode = ["--function", "decode", "--requests", "100", "--timeout-ms", "60000"];
    let few = ["--relay-iterations", "2"];
    for (limits, unconverged, late) in [
        (&few[..], true, false),
        (&[few[0], few[1], "--relay-osd", "0"], false, false),
        (&["--deadline-us", "0"], false, true),
    ] {
        let service = Service::start(&[&code[..], limits].concat());
        let report = report_of(&service, &[&code[..], &decode].concat());
        assert_eq!((n(&report["correct"]), n(&report["wrong"])), (100, 0), "{limits:?}: {report}");
        let (text, counters) = service.stop();
        let decodes = &counters["decodes"];
        assert_eq!(n(&decodes["answers"]), 100, "{text}");
        for (key, there, is_some) in
            [("unconverged", "unconverged", unconverged), ("late", "past_deadline", late)]
        {
            assert_eq!(decodes[key], report[there], "{limits:?}: {text}");
            assert_eq!(n(&decodes[key]) > 0, is_some, "{limits:?}: {text}");
        }
        assert_eq!(text.contains("answers 100, unconverged "), unconverged || late, "{text}");
    }
}

/// Over UDP and RoCE, in both bases, and detectors of both kinds of checks: every answer is the CPU's.
#[test]
fn a_gpu_serves_relay_or_is_missed_in_one_line() {
    let engine = ["--engine", "relay"];
    let output = ringcall().args(["serve", "--seconds", "1"]).args(engine).output().expect("ran");
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("--engine relay"), "{stderr}");
        eprintln!("skipped: {stderr}");
        return;
    }
    for transport in ["udp", "roce"] {
        for experiment in [
            &["--code", "bb72"][..],
            &["--code", "bb144", "--basis", "x"],
            &["--distance", "5", "--rounds", "5", "--basis", "x"],
        ] {
            let service = Service::start(&[&engine[..], &["--transport", transport], experiment].concat());
            assert_eq!(service.get("decoder"), "relay", "{}", service.endpoint);
            let decode = ["--function", "decode", "--requests", "1000", "--timeout-ms", "60000"];
            let report = report_of(&service, &[&decode[..], experiment].concat());
            assert_eq!((n(&report["correct"]), n(&report["wrong"])), (1000, 0), "{report}");
            let (text, counters) = service.stop();
            assert_eq!(counters["decoder"], "relay", "{text}");
        }
    }
    eprintln!("ran: a GPU served Relay-BP");
}

/// With a GPU or without: what cannot be served on it is named, and starts nothing.
#[test]
fn what_a_gpu_cannot_serve_by_relay_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let dem = folder.path().join("nine.dem");
    std::fs::write(&dem, "error(0.1) D0 D1 D2 D3 D4 D5 D6 D7 D8 L0\n").expect("written");
    let dem = dem.to_str().expect("text");
    for (args, says) in [
        (&["--dispatcher", "host"][..], "leave --dispatcher out"),
        (&["--transport", "nic"], "--engine relay is served over --transport udp or roce"),
        (&["--transport", "plugin:nowhere.so"], "--engine relay is served over --transport udp or roce"),
        (&["--matching", "plain"], "--matching does not apply to --engine relay"),
        (&["--decoder", "matching"], "--decoder matching does not apply to --engine relay"),
        (&["--service", "decoder"], "--service does not apply to --engine relay"),
        (&["--measurements"], "--measurements does not apply to --engine relay"),
        (&["--weights", "4"], "--weights does not apply to --engine relay"),
        (&["--threads", "own"], "--threads does not apply to --engine relay"),
        (&["--code", "bb72", "--relay-osd", "0"], "are for a CPU"),
        (&["--code", "bb72", "--detectors", "both"], "at most 8 checks of one column, and the graph has 9"),
        (&["--dem", dem], "at most 8 checks of one column, and the graph has 9"),
        (&["--config", dem], "--engine does not apply to --config"),
        (&["--write-config", "-"], "--engine does not apply to --write-config"),
    ] {
        is_refused(&[&["serve", "--engine", "relay"], args].concat(), 2, says);
    }
}
