//! Who is served: keys, lists of peers, tags of frames; and what a service may do.

use super::*;

/// A wrong key ends a reliable connection, by name; the next one works.
#[test]
fn a_wrong_key_ends_a_reliable_connection_by_name() {
    let peer = "127.45.8.2:5000";
    let service =
        Service::start(&["--transport", "roce", "--bind", "127.45.8.1:0", "--qp-type", "rc", "--peer", peer]);
    let right = format!("rkey={}", service.get("rkey"));
    let wrong = service.endpoint.replace(&right, "rkey=0x1");
    let args = ["emulate", "--connect", &wrong, "--bind", peer, "--requests", "5"];
    let output = ringcall().args(args).output().expect("ran");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("remote access error"), "{stderr}");
    let (text, counters) = service.stop();
    assert!(n(&counters["transport"]["wrong_key"]) > 0, "{text}");
}

/// With UDP `--peer` is a list of who is served; the others are counted, and hear nothing.
#[test]
fn peers_that_are_not_listed_are_not_served() {
    let service = Service::start(&["--peer", "127.0.0.2,127.0.0.3:9"]);
    let output = emulate(&service, &["--requests", "20", "--timeout-ms", "300", "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(n(&report["unanswered"]), 20, "{report}");
    let (text, counters) = service.stop();
    let counts = &counters["transport"];
    assert_eq!(
        (n(&counts["received"]), n(&counts["forbidden"]), n(&counts["requests"])),
        (20, 20, 0),
        "{text}"
    );

    let service = Service::start(&["--peer", "127.0.0.2", "--peer", "127.0.0.1"]);
    report_of(&service, &["--requests", "20"]);
    let (text, counters) = service.stop();
    assert_eq!(n(&counters["transport"]["forbidden"]), 0, "{text}");
}

/// A queue pair may have a list of peers, too, each answered where it sends from.
#[test]
fn a_queue_pair_hears_the_hosts_of_its_list() {
    for transport in ["roce", "nic"] {
        let service = Service::start(&["--transport", transport, "--peer", "127.0.0.2,127.0.0.1"]);
        report_of(&service, &["--requests", "20"]);
        service.stop();
        let service = Service::start(&["--transport", transport, "--peer", "127.0.0.2,127.0.0.3"]);
        let output = emulate(&service, &["--requests", "5", "--timeout-ms", "200", "--json", "-"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((n(&report["answered"]), n(&report["unanswered"])), (0, 5), "{report}");
        let (text, counters) = service.stop();
        if transport == "roce" {
            assert_eq!(n(&counters["transport"]["forbidden"]), 5, "{text}");
        }
    }
    let many: Vec<String> = (1..=17).map(|host| format!("127.0.0.{host}")).collect();
    is_refused(&["serve", "--transport", "roce", "--peer", &many.join(",")], 2, "16 hosts at most");
    is_refused(&["serve", "--transport", "roce", "--peer", "127.0.0.1,127.0.0.2:9"], 2, "without ports");
}

/// Frames without the key's tag are counted under their own name, and nobody hears of them.
#[test]
fn frames_without_their_tag_are_counted_and_not_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 16]).expect("a key");
    let key = key.to_str().expect("a path");
    for transport in ["udp", "roce"] {
        let service = Service::start(&["--transport", transport, "--tag-key", key]);
        assert_eq!(service.get("tag"), "2");
        // As digits, too.
        for key in [key, &"07".repeat(16)] {
            let report = report_of(&service, &["--tag-key", key, "--requests", "200"]);
            assert_eq!((n(&report["correct"]), n(&report["wrong_tag"])), (200, 0), "{report}");
        }
        let stderr = String::from_utf8_lossy(&emulate(&service, &[]).stderr).into_owned();
        assert!(stderr.contains("give its --tag-key"), "{stderr}");
        let other = "08".repeat(16);
        let wrong = ["--tag-key", &other, "--requests", "5", "--timeout-ms", "200", "--json", "-"];
        let report: Value = serde_json::from_slice(&emulate(&service, &wrong).stdout).expect("JSON");
        assert_eq!((n(&report["answered"]), n(&report["unanswered"])), (0, 5), "{report}");
        let (text, counters) = service.stop();
        let counts = &counters["transport"];
        assert_eq!((n(&counts["requests"]), n(&counts["wrong_tag"])), (400, 5), "{text}");
        // A service without tags is not believed by a client that asks for them.
        let service = Service::start(&["--transport", transport]);
        let stderr = String::from_utf8_lossy(&emulate(&service, &["--tag-key", key]).stderr).into_owned();
        assert!(stderr.contains("leave --tag-key out"), "{stderr}");
        service.stop();
    }
    is_refused(&["serve", "--transport", "nic", "--tag-key", key], 2, "--tag-key does not apply to");
}

/// As far as the kernel can, and as the line says; everything that a service does goes on.
#[test]
fn a_service_is_confined_unless_it_is_told_otherwise() {
    let threads = |service: &Service| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", service.child.id())).expect("threads");
        tasks
            .map(|task| std::fs::read_to_string(task.expect("a thread").path().join("status")).expect("text"))
            .collect()
    };
    let service = Service::start(&["--metrics", "127.0.0.1:0"]);
    let parts: Vec<&str> = service.get("sandbox").split(',').collect();
    assert!(parts.iter().all(|part| ["files", "calls", "off"].contains(part)), "{parts:?}");
    if parts.contains(&"calls") {
        let confined = |status: &String| status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1");
        assert!(threads(&service).iter().all(confined));
    }
    report_of(&service, &["--requests", "200"]);
    let mut stream = TcpStream::connect(service.get("metrics")).expect("metrics");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("asked");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("text");
    assert!(page.contains("ringcall_transport_kernel_drops_total"), "{page}");
    service.stop();

    let service = Service::start(&["--no-sandbox"]);
    assert_eq!(service.get("sandbox"), "off");
    report_of(&service, &["--requests", "20"]);
    service.stop();
}
