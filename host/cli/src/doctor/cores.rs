//! The processor: its model, the cores that this process may use, and disturbances on them.

use super::finding::{Finding, State};
use super::machine::Machine;
use procfs::{CpuInfo, FromRead};
use serde_json::json;
use std::collections::BTreeSet;

const SYSFS: &str = "/sys/devices/system/cpu";
/// The dispatcher, the client, a worker and the consumer each poll on a core of their own.
const WANTED: usize = 4;

pub(super) fn cpu(machine: &Machine) -> Finding {
    let info = machine.text("/proc/cpuinfo").and_then(|text| CpuInfo::from_read(text.as_bytes()).ok());
    // Some architectures do not name their processors and only give numbers of maker and model.
    let model = info.as_ref().and_then(|info| {
        let arm = || {
            let field = |name| info.get_field(0, name);
            Some(format!("implementer {}, part {}", field("CPU implementer")?, field("CPU part")?))
        };
        info.model_name(0).map(str::to_owned).or_else(arm)
    });
    let finding = Finding::ok(
        "cpu",
        "CPU",
        model.as_deref().unwrap_or("unknown"),
        "the host dispatcher, its workers and matching run here, with or without a GPU",
    );
    finding
        .limited_if(
            model.is_none(),
            "nothing: /proc/cpuinfo does not say what it is, which only reports miss",
        )
        .with(json!({ "model": model }))
}

pub(super) fn cores(machine: &Machine) -> Finding {
    let allowed = machine.field("/proc/self/status", "Cpus_allowed_list").and_then(|list| parse_list(&list));
    let online = list_file(machine, "online");
    let quota = quota(machine);
    let (Some(allowed), Some(online)) = (&allowed, &online) else {
        return Finding::ok("cores", "cores", "unknown", CORES)
            .but(State::Limited, "mount /proc and /sys where this process can read them")
            .with(json!({ "online": online, "allowed": allowed, "quota": quota }));
    };
    // A core that a control group allows may be offline.
    let usable: Vec<u32> = allowed.iter().copied().filter(|core| online.contains(core)).collect();
    let mut found = format!("{} of {} ({})", usable.len(), online.len(), show_list(&usable));
    if let Some(quota) = quota {
        found += &format!(", time of {quota:.1} granted");
    }
    let few = usable.len() < WANTED;
    let kept = usable.len() < online.len();
    let give = if few && kept {
        "allow this process more: `taskset`, the container's --cpuset-cpus, the service's AllowedCPUs"
    } else {
        "roles share cores, which costs latency: use fewer workers, or a machine with at least 4 cores"
    };
    Finding::ok("cores", "cores", found, CORES)
        .limited_if(
            quota.is_some(),
            "a time quota stops threads that poll: name cores (--cpuset-cpus) instead of a share (--cpus, CPUQuota)",
        )
        .limited_if(few, give)
        .with(json!({ "online": online, "allowed": allowed, "quota": quota }))
}

/// How many cores this process may use; 0 if the machine does not say.
pub(super) fn usable(machine: &Machine) -> usize {
    let allowed = machine.field("/proc/self/status", "Cpus_allowed_list").and_then(|list| parse_list(&list));
    let online = list_file(machine, "online").unwrap_or_default();
    allowed.map_or(0, |allowed| allowed.iter().filter(|core| online.contains(core)).count())
}

/// Whether all of them belong to one NUMA node.
pub(super) fn within_node(machine: &Machine, node: i64) -> bool {
    let list = |text: Option<String>| text.and_then(|list| parse_list(&list)).unwrap_or_default();
    let cores = list(machine.text(&format!("/sys/devices/system/node/node{node}/cpulist")));
    let allowed = list(machine.field("/proc/self/status", "Cpus_allowed_list"));
    allowed.iter().all(|core| cores.contains(core))
}

const CORES: &str = "dispatcher, client, worker and consumer poll on a core each";

pub(super) fn isolated(machine: &Machine) -> Finding {
    let isolated = list_file(machine, "isolated").unwrap_or_default();
    let tickless = list_file(machine, "nohz_full").unwrap_or_default();
    let online = list_file(machine, "online").unwrap_or_default();
    let purpose = "no other thread and no timer interrupts a polling one: the tail of the latency";
    let details = json!({ "isolated": isolated, "nohz_full": tickless });
    let finding = if isolated.is_empty() {
        Finding::ok("isolated_cores", "isolated cores", "none", purpose)
    } else {
        let ticks = match tickless.as_slice() {
            [] => "all with a timer tick".to_owned(),
            cores => format!("without a timer tick: {}", show_list(cores)),
        };
        Finding::ok("isolated_cores", "isolated cores", format!("{}, {ticks}", show_list(&isolated)), purpose)
    };
    // The first core always serves the system.
    let wanted = if isolated.is_empty() { &online[online.len().div_ceil(2)..] } else { &isolated };
    let list = show_list(wanted);
    let finding = if isolated.is_empty() && wanted.is_empty() {
        finding.but(State::Missing, "nothing: one core alone cannot be set apart")
    } else if isolated.is_empty() {
        finding.but(
            State::Missing,
            format!("boot with isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}, and pin to them"),
        )
    } else {
        let ticking = isolated.iter().any(|core| !tickless.contains(core));
        finding.limited_if(ticking, format!("boot with nohz_full={list} rcu_nocbs={list} as well"))
    };
    finding.with(details)
}

pub(super) fn smt(machine: &Machine) -> Finding {
    let purpose = "a thread beside a polling one shares its core's units, and slows it";
    let siblings: BTreeSet<String> = machine
        .glob(&format!("{SYSFS}/cpu[0-9]*/topology/thread_siblings_list"))
        .iter()
        .filter_map(|path| machine.text(path))
        .filter(|list| parse_list(list).is_some_and(|cores| cores.len() > 1))
        .collect();
    let switch = machine.number(&format!("{SYSFS}/smt/active")).map(|active| active == 1);
    let active = switch.unwrap_or(!siblings.is_empty());
    let finding = if active {
        let mut shown: Vec<&str> = siblings.iter().take(4).map(String::as_str).collect();
        if siblings.len() > shown.len() {
            shown.push("…");
        }
        Finding::ok("smt", "SMT", format!("on; one core each: {}", shown.join("  ")), purpose).but(
            State::Limited,
            "pin to one thread of a core and leave the other idle, or: echo off > /sys/devices/system/cpu/smt/control",
        )
    } else {
        Finding::ok("smt", "SMT", "off: one thread per core", purpose)
    };
    finding.with(json!({ "active": active }))
}

pub(super) fn governor(machine: &Machine) -> Finding {
    let purpose = "a core at full clock answers at once, one that saves power wakes up first";
    let governors: BTreeSet<String> = machine
        .glob(&format!("{SYSFS}/cpu[0-9]*/cpufreq/scaling_governor"))
        .iter()
        .filter_map(|path| machine.text(path))
        .collect();
    let found: Vec<&str> = governors.iter().map(String::as_str).collect();
    let finding = match found.as_slice() {
        [] => Finding::ok("governor", "clock governor", "not visible", purpose).but(
            State::Limited,
            "nothing from here: firmware or hypervisor sets the clock; on your own machine choose maximum performance",
        ),
        ["performance"] => Finding::ok("governor", "clock governor", "performance", purpose),
        _ => Finding::ok("governor", "clock governor", found.join(", "), purpose)
            .but(State::Limited, "cpupower frequency-set -g performance"),
    };
    finding.with(json!({ "governors": governors }))
}

/// The limit of the control group and its parents on this process, in cores' worth of time.
fn quota(machine: &Machine) -> Option<f64> {
    let groups = machine.text("/proc/self/cgroup")?;
    let mut group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut least: Option<f64> = None;
    loop {
        let text = machine.text(&format!("/sys/fs/cgroup{}/cpu.max", group.trim_end_matches('/')));
        if let Some((quota, period)) = text.as_deref().and_then(|text| text.split_once(' '))
            && let (Ok(quota), Ok(period)) = (quota.parse::<f64>(), period.parse::<f64>())
            && period > 0.0
        {
            least = Some(least.map_or(quota / period, |least| least.min(quota / period)));
        }
        match group.trim_end_matches('/').rsplit_once('/') {
            Some((parent, _)) => group = parent,
            None => return least,
        }
    }
}

fn list_file(machine: &Machine, name: &str) -> Option<Vec<u32>> {
    machine.text(&format!("{SYSFS}/{name}")).and_then(|list| parse_list(&list))
}

/// Parses the kernel's lists, such as `0-3,8`; `None` for other text, such as `(null)`.
pub(super) fn parse_list(text: &str) -> Option<Vec<u32>> {
    /// More cores than any kernel supports.
    const MOST: u32 = 1 << 16;
    let mut cores = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if last >= MOST {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores.into_iter().collect())
}

/// The reverse of [`parse_list`].
fn show_list(cores: &[u32]) -> String {
    let runs = cores.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn lists_of_cores() {
        for (text, cores) in
            [("0", vec![0]), ("0-3,8, 10-11", vec![0, 1, 2, 3, 8, 10, 11]), ("5,4", vec![4, 5])]
        {
            assert_eq!(parse_list(text).unwrap(), cores);
        }
        assert_eq!(show_list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        for bad in ["", "(null)", "0-", "-1", "0-4294967295", "a"] {
            assert_eq!(parse_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_tightest_quota_of_all_groups_counts() {
        let (_root, machine) = made_up(
            &[
                ("/proc/self/cgroup", "1:cpu:/\n0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
                ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n"),
                ("/sys/devices/system/cpu/online", "0-7\n"),
            ],
            &[],
        );
        assert_eq!(quota(&machine), Some(1.5));
        let finding = cores(&machine);
        assert_eq!(
            (finding.state, finding.found.as_str()),
            (State::Limited, "8 of 8 (0-7), time of 1.5 granted")
        );
        assert!(finding.remedy.unwrap().contains("--cpuset-cpus"));
    }

    #[test]
    fn isolation_asks_for_what_is_missing() {
        let sysfs = |name| format!("{SYSFS}/{name}");
        let (online, alone) = (sysfs("online"), sysfs("isolated"));
        let tickless = sysfs("nohz_full");
        type Case<'a> = (&'a [(&'a str, &'a str)], State, Option<&'a str>);
        let cases: [Case<'_>; 5] = [
            (
                &[(&online, "0-7"), (&alone, "\n"), (&tickless, "(null)\n")],
                State::Missing,
                Some("domain,4-7 nohz"),
            ),
            (&[(&online, "0")], State::Missing, Some("nothing")),
            (&[], State::Missing, Some("nothing")),
            (&[(&online, "0-7"), (&alone, "2-3"), (&tickless, "3")], State::Limited, Some("nohz_full=2-3 ")),
            (&[(&online, "0-7"), (&alone, "2-3"), (&tickless, "2-3")], State::Ok, None),
        ];
        for (files, state, remedy) in cases {
            let (_root, machine) = made_up(files, &[]);
            let finding = isolated(&machine);
            assert_eq!(finding.state, state, "{finding:?}");
            assert_eq!(finding.remedy.is_some(), remedy.is_some());
            assert!(remedy.is_none_or(|part| finding.remedy.unwrap().contains(part)));
        }
    }
}
