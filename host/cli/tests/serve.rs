//! `ringcall serve` and `ringcall emulate` as two processes over loopback.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// Against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

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
fn report(service: &Service, args: &[&str]) -> Value {
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
    let common = ["--distance", "3", "--timeout-ms", "2000", "--loss", "0.01"];
    let increment = report(&service, &[&common[..], &["--requests", "1000"]].concat());
    let decode = report(
        &service,
        &[&common[..], &["--requests", "500", "--function", "decode", "--seed", "7"]].concat(),
    );
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
        let report = report(&service, &decode);
        assert_eq!((n(&report["correct"]), n(&report["wrong"])), (300, 0), "{report}");
        // By the other kind, as it would be without the line: some answers differ.
        let address = format!("127.0.0.1:{}", service.get("port"));
        let judge = |connect: &str| {
            let args = ["emulate", "--connect", connect, "--matching", other, "--json", "-"];
            ringcall().args(args).args(&decode).output().expect("ran")
        };
        let differs: Value = serde_json::from_slice(&judge(&address).stdout).expect("JSON");
        assert!(n(&differs["wrong"]) > 0 && n(&differs["correct"]) > 0, "{differs}");
        let refused = judge(&service.endpoint);
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
        for threads in ["one", "own"] {
            let args = ["--transport", &plugin, "--threads", threads, "--distance", "3"];
            let shape = ["--", "--port=0", "--num-slots=64", "--slot-size=1024"];
            let service = Service::start(&[&args[..], &shape[..]].concat());
            assert!(service.endpoint.starts_with(&format!("transport={transport} ")), "{}", service.endpoint);
            let common = ["--distance", "3", "--timeout-ms", "2000", "--loss", "0.01"];
            let increment = report(&service, &[&common[..], &["--requests", "1000"]].concat());
            let decode = ["--requests", "500", "--function", "decode", "--seed", "7"];
            let decode = report(&service, &[&common[..], &decode].concat());
            let mut answered = 0;
            for (report, requests) in [(&increment, 1000), (&decode, 500)] {
                assert_eq!(n(&report["answered"]) + n(&report["lost"]), requests, "{report}");
                assert_eq!(report["lost"], report["faults"]["lost"], "{report}");
                assert_eq!((n(&report["wrong"]), n(&report["unanswered"])), (0, 0), "{report}");
                answered += n(&report["answered"]);
            }
            let (text, counters) = service.stop();
            assert_eq!(n(&counters["dispatcher"]["completed"]), answered, "{text}");
        }
    }
}

/// Queue pair, NIC and unified loop in place of ring and dispatcher: the books of both sides agree.
#[test]
fn an_emulated_adapter_and_the_unified_loop() {
    for threads in ["one", "own"] {
        let service = Service::start(&["--transport", "nic", "--threads", threads, "--distance", "3"]);
        assert!(service.endpoint.contains(" device=nic "), "{}", service.endpoint);
        let faults = ["--loss", "0.01", "--duplicate", "0.02", "--reorder", "0.02", "--timeout-ms", "2000"];
        let increment = report(&service, &[&faults[..], &["--requests", "1000"]].concat());
        let decode = ["--distance", "3", "--function", "decode", "--requests", "500", "--metadata"];
        let decode = report(&service, &[&faults[..], &decode].concat());
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
    let report = report(&service, &[&args[..], &["--timeout-ms", "2000"]].concat());
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
        let args = ["emulate", "--connect", &connect, "--requests", "50", "--timeout-ms", "2000"];
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
    let report = report(&service, &args);
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
    report(&service, &["--requests", "200", "--timeout-ms", "20000"]);
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
fn wrong_answers_and_silence_are_failures() {
    let service = Service::start(&["--distance", "3"]);
    // Another experiment on the other side: payloads of another length are refused.
    let output =
        emulate(&service, &["--function", "decode", "--distance", "5", "--requests", "20", "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((n(&report["wrong"]), report["ok"].as_bool()), (20, Some(false)), "{report}");
    let endpoint = service.endpoint.clone();
    service.stop();
    let output = ringcall()
        .args(["emulate", "--connect", &endpoint, "--requests", "5", "--timeout-ms", "100"])
        .output()
        .expect("ran");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("unanswered 5"), "{text}");
}

#[test]
fn a_service_ends_by_itself() {
    let output = ringcall().args(["serve", "--seconds", "1", "--transport", "roce"]).output().expect("ran");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("transport=roce port="), "{text}");
    assert!(text.contains(" qp=0x12 rkey=0xbeef base=0x0 pages=64 page_size=1024 ip=127.0.0.1"), "{text}");
    assert!(text.contains("nothing yet"), "{text}");
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

#[test]
fn what_cannot_be_is_one_clear_line() {
    for (args, says) in [
        (&["serve", "--dispatcher", "unified"][..], "serves --transport nic"),
        (&["serve", "--transport", "nic", "--dispatcher", "host"], "leave --dispatcher out"),
        (&["serve", "--transport", "nic", "--bind", "[::1]:0"], "over IPv4"),
        (&["serve", "--rendezvous", "127.0.0.1:0"], "this transport has neither"),
        (&["serve", "--dispatcher", "device", "--matching", "plain"], "--matching is for decode_syndrome"),
        (&["serve", "--slot-bytes", "64", "--distance", "11"], "give --slot-bytes more"),
        (&["serve", "--transport", "roce", "--bind", "[::1]:0"], "over IPv4"),
        (&["serve", "--transport", "roce", "--slots", "5000"], "give 1 to 4096"),
        (&["serve", "--bind", "192.0.2.1:9"], "cannot bind 192.0.2.1:9"),
        (&["emulate", "--connect", "nowhere"], "neither an address nor a line"),
        (&["emulate", "--connect", "127.0.0.1:9", "--loss", "2"], "a probability from 0 to 1"),
        (&["emulate", "--connect", "127.0.0.1:9", "--metadata"], "are for RoCE"),
        (&["emulate", "--connect", "127.0.0.1:9", "--loss", "0.6", "--reorder", "0.6"], "together at most 1"),
        (&["emulate", "--connect", "127.0.0.1:9", "--rate", "0"], "--rate must be"),
    ] {
        let output = ringcall().args(args).output().expect("ran");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

/// Callers of a rendezvous that say nothing, or a byte now and then, delay neither another caller nor the end.
#[test]
fn a_rendezvous_waits_for_nobody() {
    let service = Service::start(&["--transport", "roce", "--rendezvous", "127.0.0.1:0"]);
    let at = service.get("rendezvous").to_owned();
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(&at).expect("listening")).collect();
    let connect = format!("transport=roce port={}", service.get("port"));
    // Its patience is short of what twenty silent callers would cost one after the other.
    let args =
        ["emulate", "--connect", &connect, "--requests", "5", "--timeout-ms", "8000", "--rendezvous", &at];
    let output = ringcall().args(args).output().expect("ran");
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
        trickle.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut answer = Vec::new();
        let _ = trickle.read_to_end(&mut answer);
        answer
    });
    std::thread::sleep(Duration::from_millis(1200));
    service.stop();
    assert_eq!(trickling.join().expect("it ran"), [0_u8; 0], "its time was up");
}
