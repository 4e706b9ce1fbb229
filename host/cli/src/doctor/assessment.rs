//! Assessment of the findings: what works on this machine, how good latencies will be, and improvements by
//! importance.

use super::finding::{Finding, State};
use crate::style::{self, BAD, GOOD, HEADING, WARNING, paragraph, plain, styled};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write;

/// Column at which the second column starts.
const LABEL: usize = 11;

/// The grade of this machine's latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Latency {
    Good,
    Fair,
    Poor,
}

/// Findings that affect latency, the worst first, with their weights.
const LATENCY: [(&str, u32); 13] = [
    ("cores", 4),
    ("load", 4),
    ("clock", 3),
    ("virtual_machine", 2),
    ("isolated_cores", 1),
    ("idle_states", 1),
    ("governor", 1),
    ("numa", 1),
    ("smt", 1),
    ("realtime", 1),
    ("memory_lock", 1),
    ("huge_pages", 1),
    ("kernel", 1),
];

/// Findings about a GPU and about an RDMA adapter, without advice if there is none.
const OF_GPU: [&str; 5] = ["nvidia_driver", "gpus", "libcudadevrt", "tensorrt", "device_toolchain"];
const OF_ADAPTER: [&str; 3] = ["rdma_devices", "verbs", "doca"];

/// Findings that limit features rather than latency, which follow the others.
const OTHERS: [&str; 12] = [
    "nvidia_driver",
    "gpus",
    "memory",
    "socket_buffers",
    "rdma_devices",
    "verbs",
    "libcudadevrt",
    "tensorrt",
    "onnxruntime",
    "doca",
    "device_toolchain",
    "cpu",
];

fn of<'a>(findings: &'a [Finding], key: &str) -> Option<&'a Finding> {
    findings.iter().find(|finding| finding.key == key)
}

/// Whether there is a GPU, with or without a driver.
fn has_gpu(findings: &[Finding]) -> bool {
    of(findings, "gpus").is_some_and(|gpus| gpus.found != "none")
}

/// The grade, and the findings that lower it, the worst first.
pub(super) fn latency(findings: &[Finding]) -> (Latency, Vec<&Finding>) {
    let wanting = LATENCY.iter().filter_map(|&(key, cost)| Some((of(findings, key)?, cost)));
    let wanting: Vec<(&Finding, u32)> = wanting.filter(|(finding, _)| finding.state != State::Ok).collect();
    let cost: u32 = wanting.iter().map(|(_, cost)| cost).sum();
    let grade = match cost {
        0..=2 => Latency::Good,
        3..=8 => Latency::Fair,
        _ => Latency::Poor,
    };
    (grade, wanting.into_iter().map(|(finding, _)| finding).collect())
}

/// A finding in short: its first clause.
fn in_short(finding: &Finding) -> String {
    let Finding { key, name, found, .. } = finding;
    let clause = found.split([',', ';', '(']).next().unwrap_or_default().trim();
    match (*key, clause) {
        ("cores", clause) => format!("{clause} cores"),
        ("load", clause) => format!("load {}", clause.split(" on ").next().unwrap_or_default()),
        ("virtual_machine", _) => "a virtual machine".to_owned(),
        (_, "none") => format!("no {name}"),
        (_, clause) => format!("{name} {clause}"),
    }
}

pub(super) fn summary(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut row = |style, label: &str, words: &str| {
        let lines = paragraph(label, LABEL, &plain(words));
        let rest = lines.strip_prefix(label).unwrap_or(&lines);
        // Writing to a String cannot fail.
        let _ = write!(text, "{}{rest}", styled(style, label));
    };
    row(GOOD, "Ready", "run, sweep, predict, serve, emulate and bench work here.");
    let (grade, wanting) = latency(findings);
    let why: Vec<String> = wanting.iter().take(3).map(|finding| in_short(finding)).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    let (style, word) = match grade {
        Latency::Good => (GOOD, "good"),
        Latency::Fair => (WARNING, "fair"),
        Latency::Poor => (BAD, "poor"),
    };
    row(style, "Latency", &format!("{word}{why}"));
    let (style, words) = match of(findings, "gpus") {
        Some(gpus) if gpus.state == State::Ok => (GOOD, gpus.found.clone()),
        Some(gpus) if has_gpu(findings) => (WARNING, format!("{}: not ready", gpus.found)),
        _ => (style::PALE, "none: the CPU decodes".to_owned()),
    };
    row(style, "GPU", &words);
    let adapter = of(findings, "rdma_devices").filter(|devices| devices.found != "none");
    let (style, words) = match adapter {
        Some(devices) if devices.state == State::Ok => (GOOD, format!("UDP, RoCE, {}", devices.found)),
        Some(devices) => (WARNING, format!("UDP and software RoCE; {}: not ready", devices.found)),
        None => (style::PALE, "UDP and software RoCE; no RDMA adapter".to_owned()),
    };
    row(style, "Network", &words);
    text
}

/// Findings whose remedy applies to this machine, the most important first.
fn wanting(findings: &[Finding]) -> Vec<&Finding> {
    let gpu = has_gpu(findings);
    let adapter = of(findings, "rdma_devices").is_some_and(|devices| devices.found != "none");
    let applies = |key: &str| {
        (gpu || !(OF_GPU.contains(&key) || key == "doca")) && (adapter || !OF_ADAPTER.contains(&key))
    };
    let keys = LATENCY.iter().map(|&(key, _)| key).chain(OTHERS);
    keys.filter(|key| applies(key))
        .filter_map(|key| of(findings, key))
        .filter(|finding| finding.state != State::Ok && !is_idle(finding))
        .collect()
}

/// Whether the advice is to do nothing.
fn is_idle(finding: &Finding) -> bool {
    finding.remedy.as_deref().is_none_or(|remedy| remedy.starts_with("nothing"))
}

/// The list of improvements for this machine.
pub(super) fn improvements(findings: &[Finding]) -> String {
    let wanting = wanting(findings);
    if wanting.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", styled(HEADING, "What would improve it, the most important first"));
    for (place, finding) in wanting.iter().enumerate() {
        let number = format!("{:>2}. ", place + 1);
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        text += &paragraph(&number, 4, &plain(&format!("{}: {}", finding.name, finding.found)));
        text += &paragraph("", 4, &plain(remedy));
    }
    text + "\n`ringcall doctor --fix` prints commands, `--verbose` shows everything.\n"
}

/// Commands for a superuser's shell that remedy a finding; a remedy without a command becomes a comment.
fn commands(finding: &Finding) -> Vec<String> {
    let remedy = finding.remedy.clone().unwrap_or_default();
    let lines: &[&str] = match finding.key {
        "governor" => &["cpupower frequency-set -g performance"],
        "smt" => &["echo off > /sys/devices/system/cpu/smt/control"],
        "huge_pages" => &["sysctl -w vm.nr_hugepages=64"],
        "memory_lock" => &[
            "echo '* - memlock unlimited' > /etc/security/limits.d/ringcall-memlock.conf",
            "ulimit -l unlimited",
        ],
        "realtime" if finding.state == State::Missing => {
            &["echo '* - rtprio 99' > /etc/security/limits.d/ringcall-rtprio.conf"]
        }
        "realtime" => &["sysctl -w kernel.sched_rt_runtime_us=-1"],
        "onnxruntime" if finding.state == State::Missing => &["pip install onnxruntime"],
        "verbs" => &["apt-get install libibverbs1 ibverbs-providers"],
        "libcudadevrt" => &["pip install nvidia-cuda-runtime"],
        // The remedies of these findings are commands.
        "idle_states" | "socket_buffers" | "onnxruntime" | "device_toolchain" => return vec![remedy],
        _ => return Vec::new(),
    };
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// A shell script of all remedies that are commands.
pub(super) fn fixes(findings: &[Finding]) -> String {
    let mut text =
        "#!/bin/sh -e\n# What would improve this machine. Read it, then run it as root.\n".to_owned();
    for finding in wanting(findings) {
        let remark = |words: &str| {
            let lines = paragraph("", 2, &plain(words));
            lines.lines().map(|line| format!("# {}\n", line.trim_start())).collect::<String>()
        };
        text += "\n";
        text += &remark(&format!("{}: {}", finding.name, finding.found));
        let commands = commands(finding);
        if commands.is_empty() {
            text += &remark(finding.remedy.as_deref().unwrap_or_default());
        }
        for command in commands {
            text += &format!("{}\n", continued(&plain(&command)));
        }
    }
    text
}

/// A command broken over lines that fit, which a shell joins again. Within single quotes a shell would not.
fn continued(command: &str) -> String {
    if command.contains('\'') {
        return command.to_owned();
    }
    let letters: Vec<char> = command.chars().collect();
    let lines: Vec<String> = letters.chunks(style::WIDTH - 1).map(|line| line.iter().collect()).collect();
    lines.join("\\\n")
}

/// A property that a script may require of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Requirement {
    /// A GPU of ours: driven, and open to this process
    Gpu,
    /// An RDMA adapter with an active port, and the libraries
    Rdma,
    /// TensorRT that builds engines
    Tensorrt,
    /// ONNX Runtime
    Onnxruntime,
    /// A latency that is fair at least
    Latency,
}

impl Requirement {
    /// The finding that does not meet the requirement, in words.
    pub(super) fn lacking(self, findings: &[Finding]) -> Option<String> {
        let (keys, least): (&[&str], _) = match self {
            Self::Gpu => (&["nvidia_driver", "gpus"], State::Ok),
            Self::Rdma => (&["rdma_devices", "verbs"], State::Ok),
            Self::Tensorrt => (&["tensorrt"], State::Ok),
            Self::Onnxruntime => (&["onnxruntime"], State::Limited),
            Self::Latency => {
                let (grade, wanting) = latency(findings);
                let names: Vec<&str> = wanting.iter().map(|finding| finding.name).collect();
                return (grade == Latency::Poor).then(|| format!("latency is poor: {}", names.join(", ")));
            }
        };
        let is_met = |finding: &&Finding| finding.state == State::Ok || finding.state == least;
        let finding = keys.iter().filter_map(|key| of(findings, key)).find(|finding| !is_met(finding))?;
        let remedy = finding.remedy.as_deref().unwrap_or("-");
        Some(plain(&format!("{}: {} ({remedy})", finding.name, finding.found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(key: &'static str, state: State) -> Finding {
        let finding = Finding::ok(key, key, format!("{key} found"), "this");
        if state == State::Ok { finding } else { finding.but(state, format!("mend {key}")) }
    }

    #[test]
    fn the_worst_comes_first_and_what_does_not_apply_not_at_all() {
        let findings = [
            finding("huge_pages", State::Missing),
            finding("load", State::Limited),
            Finding::ok("gpus", "GPUs", "none", "this").but(State::Missing, "nothing, if"),
            finding("tensorrt", State::Missing),
            finding("socket_buffers", State::Limited),
            finding("cores", State::Ok),
        ];
        let keys: Vec<&str> = wanting(&findings).iter().map(|finding| finding.key).collect();
        assert_eq!(keys, ["load", "huge_pages", "socket_buffers"]);
        assert_eq!(latency(&findings).0, Latency::Fair);
        let text = anstream::adapter::strip_str(&(summary(&findings) + &improvements(&findings))).to_string();
        assert!(
            text.starts_with("Ready ") && text.contains("Latency    fair: load load found; huge_pages"),
            "{text}"
        );
        assert!(
            text.contains("none: the CPU decodes") && text.contains(" 1. load: load found\n    mend load\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= style::WIDTH), "{text}");
    }

    #[test]
    fn fixes_are_a_script_whose_remarks_are_remarks() {
        let findings = [finding("governor", State::Limited), finding("load", State::Limited)];
        let script = fixes(&findings);
        let commands: Vec<&str> =
            script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(commands, ["cpupower frequency-set -g performance"]);
        assert!(script.contains("# mend load\n"), "{script}");
    }

    #[test]
    fn a_long_command_is_continued() {
        let command = format!("export WHERE=/{}", "a_folder/".repeat(20));
        let shown = continued(&command);
        assert!(shown.lines().all(|line| line.len() <= style::WIDTH), "{shown}");
        assert_eq!(shown.replace("\\\n", ""), command);
        assert_eq!(continued("echo '* - memlock unlimited'"), "echo '* - memlock unlimited'");
    }

    #[test]
    fn a_requirement_says_what_is_wanting() {
        let findings = [finding("nvidia_driver", State::Ok), finding("gpus", State::Missing)];
        assert_eq!(Requirement::Gpu.lacking(&findings).as_deref(), Some("gpus: gpus found (mend gpus)"));
        assert_eq!(Requirement::Gpu.lacking(&findings[..1]), None);
        assert!(Requirement::Latency.lacking(&findings).is_none());
    }
}
