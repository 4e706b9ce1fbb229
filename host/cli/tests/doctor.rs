//! `ringcall doctor` on made-up machines, and on this one.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// The keys that other programs read.
const KEYS: [&str; 25] = [
    "cpu",
    "cores",
    "isolated_cores",
    "smt",
    "governor",
    "clock",
    "kernel",
    "huge_pages",
    "memory_lock",
    "realtime",
    "nvidia_driver",
    "gpus",
    "libcudadevrt",
    "tensorrt",
    "rdma_devices",
    "verbs",
    "doca",
    "virtual_machine",
    "load",
    "idle_states",
    "numa",
    "memory",
    "socket_buffers",
    "onnxruntime",
    "device_toolchain",
];

/// A server with everything: cores set apart, an H200, a ConnectX-7.
fn server(root: &Path) {
    let file = |path: &str, content: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC 9454 48-Core Processor\nflags\t\t: tsc\n\n";
    file("proc/cpuinfo", cpuinfo);
    file("proc/self/status", "Name:\tringcall\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-47\n");
    file("proc/self/uid_map", "         0          0 4294967295\n");
    file("proc/sys/kernel/osrelease", "6.8.0-45-lowlatency\n");
    file("proc/sys/kernel/sched_rt_runtime_us", "-1\n");
    file("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet isolcpus=24-47 nohz_full=24-47 rcu_nocbs=24-47\n");
    let cpu = "sys/devices/system/cpu";
    for (name, content) in
        [("online", "0-47"), ("isolated", "24-47"), ("nohz_full", "24-47"), ("smt/active", "0")]
    {
        file(&format!("{cpu}/{name}"), content);
    }
    for core in 0..48 {
        file(&format!("{cpu}/cpu{core}/cpufreq/scaling_governor"), "performance\n");
    }
    file("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    file("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "8\n");
    file("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "8\n");
    file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");

    let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\nGCC version:\n";
    file("proc/driver/nvidia/version", version);
    file(
        "proc/driver/nvidia/gpus/0000:18:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nBus Type: \t PCIe\nBus Location: \t 0000:18:00.0\nDevice Minor: \t 0\n",
    );
    file("dev/nvidia0", "");
    file("usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
    file("opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcudadevrt.a", "");
    file("opt/tensorrt-11/lib/libnvinfer.so.11", "");
    file("opt/tensorrt-11/lib/libnvinfer_lean.so.11", "");
    file("opt/tensorrt-11/include/NvInfer.h", "");

    let device = "sys/class/infiniband/mlx5_0";
    file(&format!("{device}/device/vendor"), "0x15b3\n");
    file(&format!("{device}/device/device"), "0x1021\n");
    file(&format!("{device}/device/net/ens1np0/mtu"), "9000\n");
    file(&format!("{device}/fw_ver"), "28.43.1014\n");
    file(&format!("{device}/ports/1/link_layer"), "Ethernet\n");
    file(&format!("{device}/ports/1/state"), "4: ACTIVE\n");
    file(&format!("{device}/ports/1/rate"), "400 Gb/sec (4X NDR)\n");
    file("dev/infiniband/uverbs0", "");
    file("sys/module/nvidia_peermem/refcnt", "0\n");
    file("usr/lib/x86_64-linux-gnu/libibverbs.so.1", "");
    file("usr/lib/x86_64-linux-gnu/libmlx5.so.1", "");
    file("usr/include/infiniband/verbs.h", "");
    file("opt/mellanox/doca/lib/x86_64-linux-gnu/libdoca_gpunetio.so.2", "");
    file(
        "opt/mellanox/doca/lib/x86_64-linux-gnu/pkgconfig/doca-common.pc",
        "Name: doca-common\nVersion: 3.1.0105\n",
    );
    file("opt/mellanox/doca/include/doca_gpunetio.h", "");

    file("proc/loadavg", "0.42 0.40 0.39 1/600 4321\n");
    file("proc/stat", "cpu  100 0 100 9000 0 0 0 0 0 0\n");
    file("proc/meminfo", "MemTotal: 1056000000 kB\nMemAvailable: 990000000 kB\n");
    file("sys/devices/system/node/online", "0\n");
    file("sys/bus/pci/devices/0000:18:00.0/numa_node", "0\n");
    file(&format!("{device}/device/numa_node"), "0\n");
    file(&format!("{cpu}/cpu0/cpuidle/state1/name"), "C1\n");
    file(&format!("{cpu}/cpu0/cpuidle/state1/latency"), "1\n");
    for name in ["rmem_max", "wmem_max"] {
        file(&format!("proc/sys/net/core/{name}"), "16777216\n");
    }
    file("usr/lib/x86_64-linux-gnu/libonnxruntime.so", "");
    file("usr/lib/rustlib/src/rust/library/core/Cargo.toml", "");
}

fn doctor(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    command.env_clear().env("PATH", "/opt/venv/bin:/usr/bin").arg("doctor").arg("--root").arg(root);
    command
}

fn report(root: &Path) -> Value {
    let output = doctor(root).args(["--json", "-"]).assert().success();
    let report: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let findings = report["findings"].as_object().unwrap();
    let mut keys: Vec<&str> = findings.keys().map(String::as_str).collect();
    let mut expected = KEYS.to_vec();
    keys.sort_unstable();
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for (key, finding) in findings {
        let text = |name: &str| finding[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(text("found") && text("purpose") && finding["details"].is_object(), "{key}: {finding}");
        assert_eq!(text("remedy"), finding["state"] != "ok", "{key}: {finding}");
    }
    report
}

#[test]
fn a_server_with_everything_is_well() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let report = report(root.path());
    let findings = &report["findings"];
    for key in KEYS {
        assert_eq!(findings[key]["state"], "ok", "{key}: {}", findings[key]);
    }
    assert_eq!((&report["schema"], &report["ok"], &report["missing"]), (&json!(1), &json!(25), &json!(0)));

    let isolated: Vec<u32> = (24..48).collect();
    let library = |name: &str| format!("/usr/lib/x86_64-linux-gnu/{name}");
    for (key, details) in [
        ("virtual_machine", json!({ "virtual": false, "product": null, "steal": 0.0 })),
        ("load", json!({ "load": 0.42, "cores": 48 })),
        ("idle_states", json!({ "deepest": "C1", "latency_us": 1 })),
        (
            "numa",
            json!({
                "nodes": [0],
                "devices": [{ "device": "GPU 0000:18:00.0", "node": 0 }, { "device": "mlx5_0", "node": 0 }],
            }),
        ),
        ("memory", json!({ "total_bytes": 1_056_000_000_u64 * 1024, "free_bytes": 990_000_000_u64 * 1024 })),
        ("socket_buffers", json!({ "receive_bytes": 16_777_216, "send_bytes": 16_777_216 })),
        ("onnxruntime", json!({ "paths": [library("libonnxruntime.so")] })),
        ("device_toolchain", json!({ "sources": ["/usr/lib/rustlib/src/rust/library"], "programs": [] })),
        ("cpu", json!({ "model": "AMD EPYC 9454 48-Core Processor" })),
        ("isolated_cores", json!({ "isolated": isolated, "nohz_full": isolated })),
        ("smt", json!({ "active": false })),
        ("governor", json!({ "governors": ["performance"] })),
        (
            "kernel",
            json!({
                "release": "6.8.0-45-lowlatency",
                "realtime": false,
                "arguments": ["isolcpus=24-47", "nohz_full=24-47", "rcu_nocbs=24-47"],
            }),
        ),
        (
            "huge_pages",
            json!({ "pools": [{ "page_kib": 1_048_576, "total": 8, "free": 8 }], "transparent": "madvise" }),
        ),
        ("memory_lock", json!({ "limit_bytes": null })),
        ("realtime", json!({ "priority": 99, "throttled": false })),
        (
            "nvidia_driver",
            json!({ "version": "580.159.04", "open": true, "library": library("libcuda.so.1") }),
        ),
        (
            "gpus",
            json!({ "gpus": [{
                "model": "NVIDIA H200", "architecture": "Hopper", "target": "sm_90", "bus": "0000:18:00.0",
                "accessible": true,
            }] }),
        ),
        (
            "libcudadevrt",
            json!({ "paths": ["/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcudadevrt.a"] }),
        ),
        (
            "tensorrt",
            json!({
                "full": ["/opt/tensorrt-11/lib/libnvinfer.so.11"],
                "rtx": [],
                "lean": ["/opt/tensorrt-11/lib/libnvinfer_lean.so.11"],
                "dispatch": [],
                "headers": ["/opt/tensorrt-11/include/NvInfer.h"],
            }),
        ),
        (
            "rdma_devices",
            json!({
                "devices": [{
                    "name": "mlx5_0", "model": "ConnectX-7", "firmware": "28.43.1014", "interfaces": ["ens1np0"],
                    "ports": [{
                        "port": "1", "link_layer": "Ethernet", "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)",
                    }],
                }],
                "accessible": true,
                "peer_memory": true,
            }),
        ),
        (
            "verbs",
            json!({
                "libibverbs": [library("libibverbs.so.1")],
                "libmlx5": [library("libmlx5.so.1")],
                "headers": ["/usr/include/infiniband/verbs.h"],
            }),
        ),
        (
            "doca",
            json!({
                "folder": "/opt/mellanox/doca",
                "version": "3.1.0105",
                "gpunetio": "/opt/mellanox/doca/lib/x86_64-linux-gnu/libdoca_gpunetio.so.2",
                "headers": ["/opt/mellanox/doca/include/doca_gpunetio.h"],
            }),
        ),
    ] {
        assert_eq!(findings[key]["details"], details, "{key}");
    }
    assert_eq!(findings["cores"]["details"]["allowed"].as_array().unwrap().len(), 48);

    assert_eq!(report["latency"], "good");
    let text = text(doctor(root.path()).arg("--verbose"));
    assert!(text.contains("ok       GPUs              NVIDIA H200 (Hopper, sm_90)\n"), "{text}");
    assert!(text.ends_with("\n25 ok, 0 limited, 0 missing\n"), "{text}");
    assert!(!text.contains("do: ") && !text.contains('\x1b'), "{text}");
    // If nothing can be improved, the assessment is all there is.
    let assessment = self::text(&mut doctor(root.path()));
    assert!(assessment.starts_with("Ready ") && assessment.contains("Latency    good\n"), "{assessment}");
    assert!(assessment.lines().count() <= 6 && assessment.contains("NVIDIA H200"), "{assessment}");
    let fixes = self::text(doctor(root.path()).arg("--fix"));
    assert!(fixes.lines().all(|line| line.starts_with('#')), "{fixes}");
    for what in ["gpu", "rdma", "tensorrt,onnxruntime", "latency"] {
        assert_eq!(self::text(doctor(root.path()).args(["--require", what])), "", "{what}");
    }
}

/// The text that it prints; no line is wider than a terminal.
fn text(command: &mut Command) -> String {
    let output = command.assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

#[test]
fn an_empty_machine_is_no_error() {
    let root = tempfile::tempdir().unwrap();
    let report = report(root.path());
    for key in ["gpus", "nvidia_driver", "libcudadevrt", "tensorrt", "rdma_devices", "verbs", "doca"] {
        assert_eq!(report["findings"][key]["state"], "missing", "{key}");
    }
    let text = text(doctor(root.path()).arg("--verbose"));
    // Each item has three lines: its name, its purpose and, unless all is well, its advice.
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count() as u64;
    assert_eq!(count("missing  "), report["missing"].as_u64().unwrap());
    let lines = |word: &str| text.lines().filter(|line| line.trim_start().starts_with(word)).count();
    assert_eq!((lines("for: "), lines("do:  ") as u64), (25, 25 - report["ok"].as_u64().unwrap()));
    // Without a GPU or an adapter there is no advice about one.
    let advice = self::text(&mut doctor(root.path()));
    assert!(advice.contains("none: the CPU decodes") && advice.contains("real-time rights"), "{advice}");
    assert!(!advice.contains("TensorRT") && !advice.contains("DOCA"), "{advice}");
    let output = doctor(root.path()).args(["--require", "onnxruntime,gpu"]).assert().code(1);
    let (out, why) = (&output.get_output().stdout, String::from_utf8_lossy(&output.get_output().stderr));
    assert!(out.is_empty() && why.lines().count() == 1, "{why}");
    assert!(
        why.starts_with("ringcall: ONNX Runtime: none (") && why.contains("; NVIDIA driver: none ("),
        "{why}"
    );
}

#[test]
fn tensorrt_without_its_headers_is_limited() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    std::fs::remove_file(root.path().join("opt/tensorrt-11/include/NvInfer.h")).unwrap();
    let finding = &report(root.path())["findings"]["tensorrt"];
    assert_eq!(finding["state"], "limited");
    assert!(finding["remedy"].as_str().unwrap().contains("RINGCALL_TENSORRT_INCLUDE"), "{finding}");
}

#[test]
fn garbage_in_the_files_of_a_machine_is_no_error() {
    let root = tempfile::tempdir().unwrap();
    server(root.path());
    let mut folders = vec![root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                std::fs::write(path, b"\xff\x00 -1: [, \n99999999999999999999 /\n").unwrap();
            }
        }
    }
    report(root.path());
}

/// The doctor reports what the kernel says of this process.
#[test]
fn this_machine() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ringcall")).args(["doctor", "--json", "-"]).assert().success();
    let report: Value = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(report["findings"]["kernel"]["details"]["release"], release.trim());
    let details = &report["findings"]["cores"]["details"];
    let list = |name: &str| -> Vec<u64> {
        details[name].as_array().unwrap().iter().filter_map(Value::as_u64).collect()
    };
    let (allowed, online) = (list("allowed"), list("online"));
    let usable = allowed.iter().filter(|core| online.contains(core)).count();
    // A time quota may lower what the library says.
    assert!(usable >= std::thread::available_parallelism().unwrap().get() && online.len() >= usable);
    let counts = ["ok", "limited", "missing"].map(|state| report[state].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 25);
}

#[test]
fn only_output_that_cannot_be_written_fails() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("report.json");
    let output = doctor(root.path()).arg("--json").arg(&file).assert().success();
    assert!(output.get_output().stdout.starts_with(b"Ready "), "text too");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["schema"], 1);

    for path in ["/dev/full", "/none/report.json"] {
        let output = doctor(root.path()).args(["--json", path]).assert().code(1);
        let text = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(text.lines().count() == 1 && text.contains(path), "{text}");
    }
    // The reader has closed the pipe: the command ends quietly, as other filters do.
    for extra in [&[][..], &["--json", "-"]] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ringcall"))
            .arg("doctor")
            .args(extra)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{extra:?}");
    }
}
