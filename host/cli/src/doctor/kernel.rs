//! The kernel: its clock, its arguments, and whether it lets a thread run before all others.

use super::finding::{Finding, State};
use super::machine::Machine;
use super::memory::{Capability, capable, limits};
use procfs::process::LimitValue;
use serde_json::json;

/// Clock sources that are read without a system call and without access to a slow device.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource"];

/// Kernel arguments that affect latency or devices' access to memory.
const ARGUMENTS: [&str; 18] = [
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "irqaffinity",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "mitigations",
    "preempt",
    "nosmt",
    "hugepages",
    "default_hugepagesz",
    "transparent_hugepage",
    "iommu",
    "intel_iommu",
];

pub(super) fn clock(machine: &Machine) -> Finding {
    let source = machine.text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let fast = source.as_deref().is_some_and(|source| FAST_CLOCKS.contains(&source));
    let found = source.as_deref().unwrap_or("not visible");
    Finding::ok(
        "clock",
        "time source",
        found,
        "every request is stamped several times; a slow clock is in every figure",
    )
    .limited_if(source.is_none(), "mount /sys where this process can read it")
    .limited_if(
        !fast,
        "boot with clocksource=tsc tsc=reliable if the processor's counter is sound, or expect slow stamps",
    )
    .with(json!({ "source": source }))
}

pub(super) fn kernel(machine: &Machine) -> Finding {
    let release = machine.text("/proc/sys/kernel/osrelease");
    let realtime = machine.number("/sys/kernel/realtime") == Some(1);
    let line = machine.text("/proc/cmdline").unwrap_or_default();
    let arguments: Vec<&str> = line
        .split_whitespace()
        // Later arguments are for the init process.
        .take_while(|argument| *argument != "--")
        .filter(|argument| ARGUMENTS.contains(&argument.split_once('=').map_or(*argument, |(name, _)| name)))
        .collect();
    let mut found = release.clone().unwrap_or_else(|| "not visible".to_owned());
    if realtime {
        found += ", real-time";
    }
    if !arguments.is_empty() {
        found += &format!(", started with {}", arguments.join(" "));
    }
    Finding::ok("kernel", "kernel", found, "schedules the threads; its start decides what disturbs them")
        .limited_if(release.is_none(), "run on Linux, with /proc where this process can read it")
        .with(json!({ "release": release, "realtime": realtime, "arguments": arguments }))
}

pub(super) fn realtime(machine: &Machine) -> Finding {
    let purpose = "a thread under SCHED_FIFO yields to no ordinary one, also on a core that is not isolated";
    let limit = limits(machine).map(|limits| limits.max_realtime_priority.soft_limit);
    let priority = if capable(machine, Capability::SysNice) {
        99
    } else {
        match limit {
            Some(LimitValue::Value(limit)) => limit.min(99),
            Some(LimitValue::Unlimited) => 99,
            None => 0,
        }
    };
    let runtime: Option<i64> =
        machine.text("/proc/sys/kernel/sched_rt_runtime_us").and_then(|text| text.parse().ok());
    let throttled = runtime.is_some_and(|runtime| runtime >= 0);
    let finding = if priority == 0 {
        Finding::ok("realtime", "real-time rights", "none", purpose).but(
            State::Missing,
            "give the right: rtprio 99 in /etc/security/limits.d, --ulimit rtprio=99 or \
             --cap-add SYS_NICE for a container",
        )
    } else {
        let reserve = match runtime {
            Some(runtime) if throttled => {
                format!(", at most {runtime} us of each period for all such threads")
            }
            _ => String::new(),
        };
        Finding::ok("realtime", "real-time rights", format!("priority up to {priority}{reserve}"), purpose)
    };
    finding
        .limited_if(
            throttled,
            "a polling thread may be stopped when its share is spent; with cores to spare for the \
             system: sysctl kernel.sched_rt_runtime_us=-1",
        )
        .with(json!({ "priority": priority, "throttled": throttled }))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn only_arguments_of_the_kernel_that_matter_are_shown() {
        let (_root, machine) = made_up(
            &[
                ("/proc/sys/kernel/osrelease", "6.8.0-rt\n"),
                ("/sys/kernel/realtime", "1\n"),
                ("/proc/cmdline", "quiet isolcpus=2-3 nosmt root=/dev/sda secret=1 -- --iommu nohz_full=9\n"),
            ],
            &[],
        );
        let finding = kernel(&machine);
        assert_eq!(finding.found, "6.8.0-rt, real-time, started with isolcpus=2-3 nosmt");
    }

    #[test]
    fn clocks_that_are_slow_to_read_are_told() {
        for (source, state) in [("tsc", State::Ok), ("hpet", State::Limited), ("", State::Limited)] {
            let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let (_root, machine) = made_up(&[(file, source)], &[]);
            assert_eq!(clock(&machine).state, state, "{source}");
        }
    }
}
