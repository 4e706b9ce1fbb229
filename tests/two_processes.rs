//! `ringcall serve` and `ringcall emulate` as two processes over loopback.

#[path = "two_processes/access.rs"]
mod access;
#[path = "two_processes/models.rs"]
mod models;
#[path = "two_processes/options.rs"]
mod options;
#[path = "two_processes/relay.rs"]
mod relay;

use ringcall_transport::{CallerOptions, udp};
use ringcall_wire::Status;
use ringcall_wire::weighted::{decode_weighted_schema, write_weighted_request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Against hanging.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn ringcall() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ringcall"))
}

/// A service that is killed with the test, if it did not end before.
struct Service {
    child: Child,
    out: BufReader<ChildStdout>,
    endpoint: String,
    json: PathBuf,
    _folder: tempfile::TempDir,
}

impl Service {
    fn start(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let json = folder.path().join("counters.json");
        let mut child = ringcall()
            .arg("serve")
            .arg("--json")
            .arg(&json)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let mut endpoint = String::new();
        out.read_line(&mut endpoint).expect("text");
        assert!(endpoint.starts_with("transport="), "{endpoint}");
        Self { child, out, endpoint: endpoint.trim().to_owned(), json, _folder: folder }
    }

    fn get(&self, key: &str) -> &str {
        let value = |word: &'_ str| word.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
        let word = self.endpoint.split(' ').find(|word| value(word)).expect("the key");
        &word[key.len() + 1..]
    }

    /// Ends it by SIGTERM: what it wrote, and its counters, which balance.
    fn stop(mut self) -> (String, Value) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it runs");
        let mut text = String::new();
        self.out.read_to_string(&mut text).expect("text");
        let status = self.child.wait().expect("ended");
        assert!(status.success(), "{status}: {text}");
        assert!(text.contains("unaccounted: 0 frames, 0 requests"), "{text}");
        let counters: Value =
            serde_json::from_slice(&std::fs::read(&self.json).expect("written")).expect("JSON");
        assert_eq!(counters["unaccounted"], serde_json::json!({ "frames": 0, "requests": 0 }));
        (text, counters)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn emulate(service: &Service, args: &[&str]) -> Output {
    ringcall().args(["emulate", "--connect", &service.endpoint]).args(args).output().expect("ran")
}

/// Runs to success and gives the report.
fn report_of(service: &Service, args: &[&str]) -> Value {
    let output = emulate(service, &[args, &["--json", "-"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {stderr}{stdout}");
    serde_json::from_str(&stdout).expect("JSON and nothing else on standard output")
}

fn n(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// Answers and injected losses are all requests; the service's books say the same.
fn both_sides_agree(transport: &str, threads: &str) {
    let service = Service::start(&["--transport", transport, "--threads", threads, "--distance", "3"]);
    let common = ["--timeout-ms", "2000", "--loss", "0.01"];
    let increment = report_of(&service, &[&common[..], &["--requests", "1000"]].concat());
    let decode = ["--distance", "3", "--requests", "500", "--function", "decode", "--seed", "7"];
    let decode = report_of(&service, &[&common[..], &decode].concat());
    let mut answered = 0;
    for (report, requests) in [(&increment, 1000), (&decode, 500)] {
        assert_eq!((n(&report["sent"]), n(&report["wrong"])), (requests, 0), "{report}");
        assert_eq!(n(&report["answered"]) + n(&report["lost"]), requests, "{report}");
        assert_eq!((n(&report["unanswered"]), n(&report["duplicates"])), (0, 0), "{report}");
        assert_eq!(report["lost"], report["faults"]["lost"], "{report}");
        assert!(n(&report["lost"]) > 0 && report["ok"] == true, "{report}");
        assert_eq!(report["latency_ns"]["count"], report["answered"], "{report}");
        // Latencies that were cut to a histogram's range would all be the same.
        assert!(n(&report["latency_ns"]["max"]) > n(&report["latency_ns"]["min"]), "{report}");
        answered += n(&report["answered"]);
    }
    let (text, counters) = service.stop();
    let counts = &counters["transport"];
    assert_eq!((n(&counts["received"]), n(&counts["answered"])), (answered, answered), "{text}");
    assert_eq!(n(&counters["dispatcher"]["completed"]), answered, "{text}");
    assert_eq!((n(&increment["faults"]["duplicated"]), counts.get("errors").map_or(0, n)), (0, 0), "{text}");
    // By its own numbers the RoCE wire has seen what was lost, but for what a client lost first or last.
    let lost = n(&increment["lost"]) + n(&decode["lost"]);
    let seen = n(&counts["lost"]);
    let expected = if transport == "roce" { lost - 2..=lost } else { 0..=0 };
    assert!(expected.contains(&seen), "{seen} of {lost}: {text}");
}

/// Which decoder answers is in the line and in the counters; `emulate` compares with the same one.
#[test]
fn the_matching_is_told_and_compared_with() {
    let decode = ["--function", "decode", "--distance", "5", "--p", "0.01", "--requests", "300"];
    let decode = [&decode[..], &["--timeout-ms", "20000"]].concat();
    for (more, kind, other) in
        [(&[][..], "correlated", "plain"), (&["--matching", "plain"], "plain", "correlated")]
    {
        let service = Service::start(&[&["--distance", "5", "--p", "0.01"], more].concat());
        assert_eq!(service.get("matching"), kind);
        let report = report_of(&service, &decode);
        assert_eq!((n(&report["correct"]), n(&report["wrong"])), (300, 0), "{report}");
        // By the other kind, as it would be without the line: some answers differ.
        let address = format!("127.0.0.1:{}", service.get("port"));
        let emulate = |connect: &str| {
            let args = ["emulate", "--connect", connect, "--matching", other, "--json", "-"];
            ringcall().args(args).args(&decode).output().expect("ran")
        };
        let differs: Value = serde_json::from_slice(&emulate(&address).stdout).expect("JSON");
        assert!(n(&differs["wrong"]) > 0 && n(&differs["correct"]) > 0, "{differs}");
        let refused = emulate(&service.endpoint);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains(&format!("the endpoint's matching is {kind}")), "{stderr}");
        assert_eq!(service.stop().1["matching"], kind);
    }
}

#[test]
fn udp_on_one_thread() {
    both_sides_agree("udp", "one");
}

#[test]
fn udp_on_threads_of_their_own() {
    both_sides_agree("udp", "own");
}

#[test]
fn roce_on_one_thread() {
    both_sides_agree("roce", "one");
}

#[test]
fn roce_on_threads_of_their_own() {
    both_sides_agree("roce", "own");
}

/// A library that was built with this test: beside it.
fn library(file: &str) -> String {
    let test = std::env::current_exe().expect("a test");
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(file)).find(|path| path.is_file());
    format!("plugin:{}", found.expect("built with its package").display())
}

/// Our transports as a provider's libraries, loaded as anybody's.
#[test]
fn plugged_in_transports_serve() {
    for (file, transport) in
        [("libcudaq_realtime_bridge_udp.so", "udp"), ("libringcall_bridge_roce.so", "roce")]
    {
        let plugin = library(file);
        let args = ["--transport", &plugin, "--distance", "3"];
        let shape = ["--", "--port=0", "--num-slots=64", "--slot-size=1024"];
        let service = Service::start(&[&args[..], &shape[..]].concat());
        assert!(service.endpoint.starts_with(&format!("transport={transport} ")), "{}", service.endpoint);
        let common = ["--timeout-ms", "2000", "--loss", "0.01"];
        let increment = report_of(&service, &[&common[..], &["--requests", "1000"]].concat());
        let decode = ["--distance", "3", "--requests", "500", "--function", "decode", "--seed", "7"];
        let decode = report_of(&service, &[&common[..], &decode].concat());
        let mut answered = 0;
        for (report, requests) in [(&increment, 1000), (&decode, 500)] {
            assert_eq!(n(&report["answered"]) + n(&report["lost"]), requests, "{report}");
            assert_eq!(report["lost"], report["faults"]["lost"], "{report}");
            assert_eq!((n(&report["wrong"]), n(&report["unanswered"])), (0, 0), "{report}");
            answered += n(&report["answered"]);
        }
        let (text, counters) = service.stop();
        assert_eq!(n(&counters["dispatcher"]["completed"]), answered, "{text}");
        // These libraries fill the ring with threads of their own.
        is_refused(
            &[&["serve"], &args[..], &["--threads", "one"], &shape].concat(),
            2,
            "--threads does not apply to this plug-in",
        );
    }
}

/// The service decodes by a library, and says so; its client needs the same one to compare with.
#[test]
fn a_plugged_in_decoder_is_served() {
    let decoder = library("libringcall_deq.so");
    let service = Service::start(&["--distance", "3", "--decoder", &decoder]);
    assert_eq!(service.get("decoder"), "plugin");
    let experiment = ["--distance", "3", "--function", "decode", "--requests", "300"];
    let report = report_of(&service, &[&experiment[..], &["--decoder", &decoder]].concat());
    assert_eq!(n(&report["wrong"]), 0, "{report}");
    let output = emulate(&service, &experiment);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("--decoder plugin:LIBRARY"), "{stderr}");
    let (_, counters) = service.stop();
    assert_eq!((&counters["decoder"], &counters["matching"]), (&"plugin".into(), &Value::Null));
}

/// Queue pair, NIC and unified loop in place of ring and dispatcher: the books of both sides agree.
#[test]
fn an_emulated_adapter_and_the_unified_loop() {
    // By way of the bytes of a transport context.
    let service = Service::start(&["--transport", "hsb", "--device", "emulated", "--distance", "3"]);
    // Stamps in the form of the bridge's hardware, which come back as they are.
    let report = report_of(&service, &["--requests", "1000", "--time-stamps", "seconds-nanoseconds"]);
    assert_eq!(n(&report["correct"]), 1000, "{report}");
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["dispatcher"]["completed"]), 1000, "{text}");
    assert_eq!(n(&counters["broken_rules"]), 0, "{text}");

    for threads in ["one", "own"] {
        let service = Service::start(&["--transport", "nic", "--threads", threads, "--distance", "3"]);
        assert!(service.endpoint.contains(" device=nic "), "{}", service.endpoint);
        let faults = ["--loss", "0.01", "--duplicate", "0.02", "--reorder", "0.02", "--timeout-ms", "2000"];
        let increment = report_of(&service, &[&faults[..], &["--requests", "1000"]].concat());
        let decode = ["--distance", "3", "--function", "decode", "--requests", "500", "--metadata"];
        let decode = report_of(&service, &[&faults[..], &decode].concat());
        let mut correct = 0;
        for (report, requests) in [(&increment, 1000), (&decode, 500)] {
            assert_eq!(n(&report["correct"]) + n(&report["lost"]), requests, "{report}");
            assert_eq!(report["lost"], report["faults"]["lost"], "{report}");
            assert!(n(&report["lost"]) > 0 && n(&report["faults"]["duplicated"]) > 0, "{report}");
            assert_eq!((n(&report["duplicates"]), n(&report["wrong"])), (0, 0), "{report}");
            correct += n(&report["correct"]);
        }
        let (text, counters) = service.stop();
        assert_eq!(n(&counters["dispatcher"]["completed"]), correct, "{text}");
        assert_eq!(n(&counters["transport"]["rx_requests"]), correct, "{text}");
        assert_eq!(n(&counters["transport"]["port_sent"]), correct, "{text}");
        assert_eq!(n(&counters["broken_rules"]), 0, "{text}");
        let doubled = n(&increment["faults"]["duplicated"]) + n(&decode["faults"]["duplicated"]);
        assert_eq!(n(&counters["transport"]["port_repeated"]), doubled, "{text}");
    }
}

#[test]
fn datagrams_are_lost_doubled_and_disordered_too() {
    let service = Service::start(&["--transport", "udp"]);
    let args = ["--loss", "0.01", "--duplicate", "0.05", "--reorder", "0.05", "--requests", "2000"];
    let report = report_of(&service, &[&args[..], &["--timeout-ms", "2000"]].concat());
    let (lost, doubled) = (n(&report["faults"]["lost"]), n(&report["faults"]["duplicated"]));
    assert!(lost > 0 && doubled > 0 && n(&report["faults"]["reordered"]) > 0, "{report}");
    // Every lost one is reported, every other one answered, the doubled ones twice.
    assert_eq!((n(&report["lost"]), n(&report["correct"])), (lost, 2000 - lost), "{report}");
    assert_eq!((n(&report["unanswered"]), n(&report["wrong"])), (0, 0), "{report}");
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["transport"]["requests"]), 2000 - lost + doubled, "{text}");
}

#[test]
fn a_rendezvous_tells_queue_pair_and_key() {
    let service = Service::start(&[
        "--transport",
        "roce",
        "--qp",
        "153",
        "--rkey",
        "77",
        "--rendezvous",
        "127.0.0.1:0",
    ]);
    let connect = format!("transport=roce port={}", service.get("port"));
    let at = service.get("rendezvous").to_owned();
    let run = |rendezvous: &[&str]| {
        let bind = ["--bind", "127.45.7.2:4791", "--qp", "77"];
        let args = ["emulate", "--connect", &connect, "--requests", "50", "--timeout-ms", "2000"];
        let args = [&args[..], &bind[..]].concat();
        ringcall().args(args).args(rendezvous).output().expect("ran")
    };
    // Twice: it may be asked again.
    for _ in 0..2 {
        let output = run(&["--rendezvous", &at]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    service.stop();
}

#[test]
fn duplicates_and_disorder_are_survived() {
    let service = Service::start(&["--transport", "roce", "--slot-bytes", "4096"]);
    // Payloads of several packets.
    let args = [
        "--payload",
        "2500",
        "--duplicate",
        "0.05",
        "--reorder",
        "0.05",
        "--requests",
        "1000",
        "--timeout-ms",
        "20000",
    ];
    let report = report_of(&service, &args);
    assert_eq!((n(&report["correct"]), n(&report["lost"])), (1000, 0), "{report}");
    let doubled = n(&report["faults"]["duplicated"]);
    assert!(doubled > 0 && n(&report["faults"]["reordered"]) > 0, "{report}");
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["transport"]["repeated"]), doubled, "{text}");
    assert_eq!(n(&counters["transport"]["requests"]), 1000, "{text}");
}

#[test]
fn metrics_are_served() {
    let service = Service::start(&["--metrics", "127.0.0.1:0"]);
    report_of(&service, &["--requests", "200", "--timeout-ms", "20000"]);
    let get = |path: &str| {
        let mut stream = TcpStream::connect(service.get("metrics")).expect("listening");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    };
    let text = get("/metrics");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    for line in [
        "# TYPE ringcall_transport_received counter",
        "ringcall_transport_received_total 200",
        "ringcall_transport_answered_total 200",
        "# TYPE ringcall_transport_under_way gauge",
        "ringcall_transport_under_way 0",
        "ringcall_dispatcher_completed_total 200",
        "ringcall_dispatcher_bad_magic_total 0",
        "ringcall_transport_request_duration_seconds_bucket{le=\"+Inf\"} 200",
        "# TYPE ringcall_function_request_duration_seconds histogram",
        "ringcall_function_request_duration_seconds_count{function=\"rpc_increment\"} 200",
        "ringcall_function_refused_total{function=\"rpc_increment\"} 0",
    ] {
        assert!(text.lines().any(|there| there == line), "{line}: {text}");
    }
    assert!(get("/").starts_with("HTTP/1.1 404"));
    // Nor does one who promises a body, or says nothing, keep the end waiting.
    let clients = ["GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "GET /met", ""].map(|words| {
        let mut stream = TcpStream::connect(service.get("metrics")).expect("listening");
        stream.write_all(words.as_bytes()).expect("sent");
        stream
    });
    service.stop();
    drop(clients);
}

#[test]
fn silence_is_a_failure() {
    // Bound, and never read.
    let mute = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = mute.local_addr().expect("bound").to_string();
    let output = ringcall()
        .args(["emulate", "--connect", &address, "--requests", "5", "--timeout-ms", "100"])
        .output()
        .expect("ran");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("unanswered 5"), "{text}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("nobody answers at {address}")), "{text}");
}

#[test]
fn a_service_ends_by_itself() {
    let output = ringcall().args(["serve", "--seconds", "1", "--transport", "roce"]).output().expect("ran");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("transport=roce port="), "{text}");
    assert!(text.contains(" qp=0x12 rkey=0x"), "{text}");
    assert!(text.contains(" base=0x0 pages=64 page_size=1024 ip=127.0.0.1"), "{text}");
    assert!(text.contains("nothing yet"), "{text}");
}

/// Who has seen one service's key does not know the next one's.
#[test]
fn each_start_has_a_key_of_its_own() {
    let key = || {
        let service = Service::start(&["--transport", "roce"]);
        let key = service.get("rkey").to_owned();
        service.stop();
        key
    };
    assert_ne!(key(), key());
    let args = ["emulate", "--connect", "transport=roce port=9", "--requests", "1"];
    let output = ringcall().args(args).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("has no rkey="), "{stderr}");
}

#[test]
fn a_device_serves_or_is_missed_in_one_line() {
    let output =
        ringcall().args(["serve", "--dispatcher", "device", "--seconds", "1"]).output().expect("ran");
    let text = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        assert!(text.contains("unaccounted: 0 frames, 0 requests"), "{text}");
        eprintln!("ran: a device's dispatcher");
    } else {
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("needs a GPU"), "{stderr}");
        eprintln!("skipped: {stderr}");
    }
}

/// Runs what must fail: with this code, and one line that says this.
fn is_refused(args: &[&str], code: i32, says: &str) {
    // A service that is not refused ends all the same.
    let (command, options) = args.split_first().expect("a command");
    let bound: &[&str] = if *command == "serve" { &["--seconds", "1"] } else { &["--requests", "1"] };
    let output = ringcall().arg(command).args(bound).args(options).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(code), 1), "{args:?}: {stderr}");
    assert!(stderr.contains(says), "{args:?}: {stderr}");
}

#[test]
fn what_cannot_be_is_one_clear_line() {
    for (args, says) in [
        (&["serve", "--transport", "nic", "--bind", "[::1]:0"][..], "over IPv4"),
        (&["serve", "--slot-bytes", "64", "--distance", "11"], "give --slot-bytes more"),
        (&["serve", "--transport", "roce", "--bind", "[::1]:0"], "over IPv4"),
        (&["serve", "--bind", "192.0.2.1:9"], "cannot bind 192.0.2.1:9"),
    ] {
        is_refused(args, 1, says);
    }
    is_refused(&["emulate", "--connect", "nowhere"], 2, "neither an address nor a line");
    for (args, says) in [
        (&["--loss", "2"][..], "a probability from 0 to 1"),
        (&["--loss", "0.6", "--reorder", "0.6"], "together at most 1"),
        (&["--rate", "0"], "--rate must be"),
    ] {
        is_refused(&[&["emulate", "--connect", "127.0.0.1:9"], args].concat(), 2, says);
    }
}

/// Without rdma-core or the device there is one line that says so, and no service.
#[test]
fn a_device_that_is_not_there_is_named() {
    let args = ["serve", "--transport", "verbs", "--device", "nowhere", "--rendezvous", "127.0.0.1:0"];
    let output = ringcall().args(args).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), stderr.lines().count(), output.stdout.len()),
        (Some(1), 1, 0),
        "{stderr}"
    );
    assert!(
        stderr.contains("no RDMA device `nowhere`") || stderr.contains("libibverbs.so.1 cannot be used"),
        "{stderr}"
    );
}

/// Over the reliable service what is lost or comes twice is sent again, and every request is answered once.
#[test]
fn a_reliable_connection_answers_every_request() {
    let service = Service::start(&[
        "--transport",
        "roce",
        "--bind",
        "127.45.9.1:0",
        "--qp-type",
        "rc",
        "--psn",
        "16777210",
        "--mtu",
        "256",
        "--rendezvous",
        "127.0.0.1:0",
    ]);
    let at = service.get("rendezvous").to_owned();
    let common = ["--rendezvous", &at, "--bind", "127.45.9.2:4791", "--mtu", "256", "--timeout-ms", "20000"];
    let faults = [
        "--requests",
        "500",
        "--payload",
        "600",
        "--loss",
        "0.02",
        "--duplicate",
        "0.02",
        "--reorder",
        "0.02",
    ];
    // Twice: a second client begins a connection of its own.
    for _ in 0..2 {
        let report = report_of(&service, &[&common[..], &faults[..]].concat());
        assert_eq!(
            (n(&report["correct"]), n(&report["lost"]), n(&report["unanswered"])),
            (500, 0, 0),
            "{report}"
        );
        assert!(n(&report["reliable"]["requester"]["retransmitted"]) > 0, "{report}");
    }
    let (text, counters) = service.stop();
    let counts = &counters["transport"];
    assert_eq!((n(&counts["requests"]), n(&counts["answered"])), (1000, 1000), "{text}");
    assert!(n(&counts["wrong_psn"]) > 0 && n(&counts["repeated"]) > 0, "{text}");
}

/// What a service refuses by its own status is no wrong answer.
#[test]
fn refusals_are_told_from_wrong_answers() {
    for transport in ["udp", "roce"] {
        let service = Service::start(&["--transport", transport, "--distance", "3"]);
        // An address or a line without the experiment: nothing is known of it before it is asked.
        let key = if transport == "roce" { format!(" rkey={}", service.get("rkey")) } else { String::new() };
        let line = format!("transport={transport} port={}{key}", service.get("port"));
        let args =
            ["emulate", "--connect", &line, "--function", "decode", "--distance", "5", "--requests", "20"];
        let run = |more: &[&str]| ringcall().args(args).args(more).output().expect("ran");
        let output = run(&["--json", "-"]);
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(
            (n(&report["wrong"]), n(&report["refused"]), n(&report["answered"])),
            (0, 20, 20),
            "{report}"
        );
        assert_eq!(report["refusals"], serde_json::json!({ "SCHEMA_MISMATCH": 20 }), "{report}");
        let output = run(&[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("refused 20") && text.contains("SCHEMA_MISMATCH"), "{text}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("the service refused 20 of 20 requests: SCHEMA_MISMATCH"), "{stderr}");
        service.stop();
    }
}

#[test]
fn another_experiment_is_refused_in_words() {
    let service = Service::start(&["--distance", "3"]);
    assert!(service.get("experiment").len() == 8, "{}", service.endpoint);
    for other in [
        &["--distance", "5"][..],
        &["--distance", "3", "--p", "0.004"],
        &["--distance", "3", "--rounds", "4"],
    ] {
        let output = emulate(&service, &[&["--function", "decode", "--requests", "20"], other].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("decodes another experiment") && stderr.contains("--distance"), "{stderr}");
    }
    report_of(&service, &["--function", "decode", "--distance", "3", "--requests", "20"]);
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["transport"]["received"]), 20, "{text}");
}

/// The system says so at once; the requests' time, of hours here, is not waited for.
#[test]
fn a_closed_port_is_noticed() {
    for transport in ["udp", "roce"] {
        for faults in [&[][..], &["--duplicate", "0.5", "--reorder", "0.1"]] {
            // A port that was free a moment ago.
            let port = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            let port = port.expect("a port").port();
            let line = format!("transport={transport} port={port} rkey=1");
            let args = ["emulate", "--connect", &line, "--requests", "50", "--timeout-ms", "10000000"];
            let folder = tempfile::tempdir().expect("a folder");
            let (out, err) = (folder.path().join("out"), folder.path().join("err"));
            let file = |path: &PathBuf| std::fs::File::create(path).expect("a file");
            let mut child = ringcall()
                .args(args)
                .args(faults)
                .stdout(file(&out))
                .stderr(file(&err))
                .spawn()
                .expect("started");
            let begin = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().expect("ours") {
                    break status;
                }
                if begin.elapsed() > TIMEOUT {
                    child.kill().expect("it runs");
                    panic!("{transport} {faults:?}: it waits for a port that is closed");
                }
                std::thread::sleep(POLL_INTERVAL);
            };
            let text = std::fs::read_to_string(err).expect("text");
            assert_eq!((status.code(), text.lines().count()), (Some(1), 1), "{text}");
            assert!(text.contains(&format!("nobody answers at 127.0.0.1:{port}")), "{text}");
            let text = std::fs::read_to_string(out).expect("text");
            assert!(text.contains("correct 0, unanswered "), "{text}");
        }
    }
}

/// Callers of a rendezvous that say nothing, or a byte now and then, delay neither another caller nor the end.
#[test]
fn a_rendezvous_waits_for_nobody() {
    let service = Service::start(&["--transport", "roce", "--rendezvous", "127.0.0.1:0"]);
    let at = service.get("rendezvous").to_owned();
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&at).expect("listening")).collect();
    let connect = format!("transport=roce port={}", service.get("port"));
    // Its timeout is shorter than what twenty silent callers would cost one after the other.
    let args =
        ["emulate", "--connect", &connect, "--requests", "5", "--timeout-ms", "8000", "--rendezvous", &at];
    let output = ringcall().args(args).args(["--bind", "127.45.6.2:4791"]).output().expect("ran");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(silent);
    // Twelve bytes in six seconds: served one after the other they would be answered, and keep the end waiting.
    let mut trickle = TcpStream::connect(&at).expect("listening");
    let trickling = std::thread::spawn(move || {
        for byte in [0; 12] {
            std::thread::sleep(Duration::from_millis(500));
            if trickle.write_all(&[byte]).is_err() {
                break;
            }
        }
        trickle.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut answer = Vec::new();
        let _ = trickle.read_to_end(&mut answer);
        answer
    });
    std::thread::sleep(Duration::from_millis(1200));
    service.stop();
    assert_eq!(trickling.join().expect("it ran"), [0_u8; 0], "its time was up");
}

/// Weights and read-outs go from an encoder over UDP to the answers that they have; bad ones are refused with their status.
#[test]
fn weights_and_read_outs_are_served() {
    let experiment = ["--distance", "3", "--p", "0.01"];
    let start = |more: &[&str]| Service::start(&[&experiment[..], more].concat());
    let ask = |service: &Service, function: &str| {
        let args = ["--function", function, "--requests", "400", "--timeout-ms", "20000"];
        let report = report_of(service, &[&experiment[..], &args].concat());
        assert_eq!((n(&report["correct"]), n(&report["wrong"])), (400, 0), "{report}");
    };
    let service = start(&["--weights", "20", "--readout", "soft8"]);
    assert_eq!((service.get("weights"), service.get("readout")), ("20", "soft8"));
    for function in ["decode-weighted", "decode-readout", "decode"] {
        ask(&service, function);
    }
    // As a program of another kind would send them.
    let options = CallerOptions { deadline: Duration::from_secs(20), ..CallerOptions::default() };
    let port = service.get("port").parse().expect("a port");
    let mut caller =
        udp::Caller::connect(SocketAddr::from(([127, 0, 0, 1], port)), &options).expect("a socket");
    let schema = decode_weighted_schema(24, 1, 20);
    let mut status = |weights: &[(u32, f32)], detectors: &[u8]| {
        let mut payload = vec![0; schema.args_bytes().expect("small") as usize];
        let len = write_weighted_request(&schema, &mut payload, detectors, weights).expect("it fits");
        caller.call("decode_weighted", &payload[..len]).expect("an answer").status
    };
    assert_eq!(status(&[(0, 0.5), (7, 0.0)], &[1, 0, 0]), Status::OK);
    for bad in [(9999, 0.5), (u32::MAX, 0.5), (0, f32::NAN), (0, f32::INFINITY), (0, -0.5)] {
        assert_eq!(status(&[(1, 0.5), bad], &[1, 0, 0]), Status::BAD_PAYLOAD, "{bad:?}");
    }
    assert_eq!(status(&[(3, 0.5), (3, 0.5)], &[1, 0, 0]), Status::BAD_PAYLOAD, "twice");
    assert_eq!(status(&[], &[1, 0, 0]), Status::OK);
    let (_, counters) = service.stop();
    assert_eq!(counters["decodes"], serde_json::json!({ "answers": 1202, "unconverged": 0, "late": 0 }));
    for readout in ["soft4", "soft-f32", "leakage8", "leakage32"] {
        let service = start(&["--readout", readout, "--deadline-us", "0"]);
        let args = ["--function", "decode-readout", "--requests", "100", "--timeout-ms", "20000"];
        let report = report_of(&service, &[&experiment[..], &args].concat());
        assert_eq!((n(&report["correct"]), n(&report["past_deadline"])), (100, 100), "{readout}: {report}");
        let (text, counters) = service.stop();
        assert_eq!(
            counters["decodes"],
            serde_json::json!({ "answers": 100, "unconverged": 0, "late": 100 }),
            "{text}"
        );
    }
    // Not asked for, not served; and without a circuit nothing is known of measurements.
    let service = start(&[]);
    let output = emulate(&service, &["--distance", "3", "--p", "0.01", "--function", "decode-weighted"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("needs --weights"));
}

/// Of who asks for it alone: the answers of the others have nothing more.
#[test]
fn an_ensemble_says_how_sure_it_is_on_the_wire() {
    let experiment = ["--distance", "3", "--p", "0.01"];
    let start = |more: &[&str]| {
        let args = ["--transport", "udp", "--matching", "ensemble"];
        Service::start(&[&args[..], &experiment, more].concat())
    };
    for sure in [true, false] {
        let service = start(if sure { &["--confidence"] } else { &[] });
        assert_eq!(service.endpoint.contains(" answers=confidence"), sure, "{}", service.endpoint);
        let args = ["--function", "decode", "--requests", "500", "--timeout-ms", "20000"];
        let report = report_of(&service, &[&experiment[..], &args].concat());
        assert_eq!(n(&report["correct"]), 500, "{report}");
        let bins = report["confidences"].as_array().expect("a list");
        let said: u64 = bins.iter().map(|bin| n(&bin["answers"])).sum();
        assert_eq!((said, bins.is_empty()), if sure { (500, false) } else { (0, true) }, "{report}");
        assert!(bins.iter().all(|bin| bin["wrong"].is_null()), "{report}");
    }
    is_refused(
        &["serve", "--transport", "udp", "--matching", "correlated", "--confidence"],
        2,
        "--confidence does not apply: it is for --matching ensemble",
    );
}
