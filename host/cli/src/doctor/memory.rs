//! Memory: large pages, and the amount that this process may lock.

use super::finding::{Finding, State};
use super::machine::Machine;
use procfs::FromRead;
use procfs::process::{LimitValue, Limits};
use serde_json::{Value, json};

/// Enough for rings and buffers of the largest codes; the default of most systems, 64 KiB to 8 MiB, is too small.
const ENOUGH: u64 = 64 << 20;

/// A capability that a process may have regardless of its limits, by the kernel's number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Capability {
    IpcLock = 14,
    SysNice = 23,
}

/// Whether this process has a capability that counts. Inside a user namespace it has all of them, but the kernel
/// ignores them.
pub(super) fn capable(machine: &Machine, capability: Capability) -> bool {
    let effective = machine.field("/proc/self/status", "CapEff");
    let held = effective.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    let namespace = machine.text("/proc/self/uid_map");
    let initial = namespace.is_none_or(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    initial && held.is_some_and(|mask| mask >> capability as u32 & 1 == 1)
}

pub(super) fn limits(machine: &Machine) -> Option<Limits> {
    Limits::from_read(machine.text("/proc/self/limits")?.as_bytes()).ok()
}

pub(super) fn huge_pages(machine: &Machine) -> Finding {
    let purpose = "rings and models in few pages: fewer misses when a page is looked up";
    let pool = |path: &String| -> Option<(u64, u64, u64)> {
        let kib = path.rsplit_once("hugepages-")?.1.strip_suffix("kB")?.parse().ok()?;
        let count = |name: &str| machine.number(&format!("{path}/{name}"));
        Some((kib, count("nr_hugepages")?, count("free_hugepages")?))
    };
    let pools: Vec<(u64, u64, u64)> =
        machine.glob("/sys/kernel/mm/hugepages/hugepages-*kB").iter().filter_map(pool).collect();
    // `always [madvise] never`
    let choices = machine.text("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let transparent = choices.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
    let reserved: Vec<String> = pools
        .iter()
        .filter(|(_, total, _)| *total > 0)
        .map(|(kib, total, free)| format!("{free} of {total} pages of {} free", size(kib << 10)))
        .collect();
    let advised = transparent.as_deref().is_some_and(|choice| choice != "never");
    let found = match (reserved.as_slice(), advised) {
        ([], false) => "none".to_owned(),
        ([], true) => "none reserved; the kernel makes some when it can".to_owned(),
        (some, _) => some.join(", "),
    };
    let free = pools.iter().any(|(_, _, free)| *free > 0);
    let state = match (free, advised || !reserved.is_empty()) {
        (true, _) => State::Ok,
        (false, true) => State::Limited,
        (false, false) => State::Missing,
    };
    let list: Vec<Value> = pools
        .iter()
        .map(|(kib, total, free)| json!({ "page_kib": kib, "total": total, "free": free }))
        .collect();
    let finding = Finding::ok("huge_pages", "huge pages", found, purpose);
    let finding = if state == State::Ok {
        finding
    } else {
        finding.but(state, "reserve some: sysctl vm.nr_hugepages=64, or hugepages=64 at boot")
    };
    finding.with(json!({ "pools": list, "transparent": transparent }))
}

pub(super) fn memory_lock(machine: &Machine) -> Finding {
    let purpose =
        "memory that a GPU or a NIC reads must stay where it is, and so must what a polling thread touches";
    let limit = limits(machine).map(|limits| limits.max_locked_memory.soft_limit);
    let raise = "raise it: ulimit -l unlimited (memlock in /etc/security/limits.d), --ulimit memlock=-1 for \
                 a container, LimitMEMLOCK=infinity for a service";
    let named = |found: String| Finding::ok("memory_lock", "memory lock", found, purpose);
    let (finding, bytes) = match limit {
        _ if capable(machine, Capability::IpcLock) => (named("no limit for this process".to_owned()), None),
        Some(LimitValue::Unlimited) => (named("no limit".to_owned()), None),
        Some(LimitValue::Value(0)) => (named("none allowed".to_owned()).but(State::Missing, raise), Some(0)),
        Some(LimitValue::Value(bytes)) => {
            (named(format!("up to {}", size(bytes))).limited_if(bytes < ENOUGH, raise), Some(bytes))
        }
        None => (
            named("unknown".to_owned()).but(State::Limited, "mount /proc where this process can read it"),
            None,
        ),
    };
    finding.with(json!({ "limit_bytes": bytes }))
}

/// The machine's memory that the control group leaves to this process.
pub(super) fn memory(machine: &Machine) -> Finding {
    /// Memory that the largest generated codes need.
    const WANTED: u64 = 4 << 30;
    let purpose = "decoders of large codes take gigabytes: `ringcall run` refuses what does not fit";
    let kib = |name: &str| {
        let text = machine.field("/proc/meminfo", name)?;
        text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let (total, free) = (kib("MemTotal"), crate::memory::free(machine));
    let found = match (free, total) {
        (Some(free), Some(total)) => format!("{} free of {}", size(free), size(total)),
        (Some(free), None) => format!("{} free", size(free)),
        _ => "unknown".to_owned(),
    };
    Finding::ok("memory", "memory", found, purpose)
        .limited_if(free.is_none(), "mount /proc where this process can read it")
        .limited_if(
            free.is_some_and(|free| free < WANTED),
            "end other programs, or raise the control group's limit (--memory of a container, MemoryMax)",
        )
        .with(json!({ "total_bytes": total, "free_bytes": free }))
}

/// Bytes in the largest binary unit of which there is at least one.
pub(super) fn size(bytes: u64) -> String {
    let (unit, name) = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1, "bytes"));
    let amount = bytes as f64 / unit as f64;
    if amount.fract() == 0.0 { format!("{amount} {name}") } else { format!("{amount:.1} {name}") }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::realtime;
    use super::super::machine::tests::made_up;
    use super::*;

    /// `/proc/self/limits` of Linux 6, with these values in the two relevant lines.
    pub(super) fn limits_file(memory: &str, priority: &str) -> String {
        let mut text = format!("{:26}{:21}{:21}Units     \n", "Limit", "Soft Limit", "Hard Limit");
        for (name, value, unit) in [
            ("Max cpu time", "unlimited", "seconds"),
            ("Max file size", "unlimited", "bytes"),
            ("Max data size", "unlimited", "bytes"),
            ("Max stack size", "8388608", "bytes"),
            ("Max core file size", "0", "bytes"),
            ("Max resident set", "unlimited", "bytes"),
            ("Max processes", "96365", "processes"),
            ("Max open files", "20000", "files"),
            ("Max locked memory", memory, "bytes"),
            ("Max address space", "unlimited", "bytes"),
            ("Max file locks", "unlimited", "locks"),
            ("Max pending signals", "96365", "signals"),
            ("Max msgqueue size", "819200", "bytes"),
            ("Max nice priority", "0", ""),
            ("Max realtime priority", priority, ""),
            ("Max realtime timeout", "unlimited", "us"),
        ] {
            text += &format!("{name:26}{value:21}{value:21}{unit:10}\n");
        }
        text
    }

    #[test]
    fn limits_and_rights_are_weighed_together() {
        let none = "CapEff:\t0000000000000000\n";
        let all = "CapEff:\t000001ffffffffff\n";
        let (initial, inner) = ("0 0 4294967295\n", "0 1000 1\n");
        use State::{Limited, Missing, Ok};
        for (memory, priority, status, map, lock, schedule) in [
            ("unlimited", "99", none, initial, Ok, Ok),
            ("67108864", "1", none, initial, Ok, Ok),
            ("8388608", "0", none, initial, Limited, Missing),
            ("0", "0", none, initial, Missing, Missing),
            ("0", "0", all, initial, Ok, Ok),
            ("0", "0", all, inner, Missing, Missing),
        ] {
            let (_root, machine) = made_up(
                &[
                    ("/proc/self/limits", &limits_file(memory, priority)),
                    ("/proc/self/status", status),
                    ("/proc/self/uid_map", map),
                    ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
                ],
                &[],
            );
            let case = format!("{memory} {priority} {status} {map}");
            assert_eq!((memory_lock(&machine).state, realtime(&machine).state), (lock, schedule), "{case}");
        }
        let (_root, machine) = made_up(
            &[
                ("/proc/self/limits", &limits_file("8388608", "50")),
                ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ],
            &[],
        );
        assert_eq!(memory_lock(&machine).found, "up to 8 MiB");
        let finding = realtime(&machine);
        assert_eq!(finding.state, Limited);
        assert!(finding.found.starts_with("priority up to 50, at most 950000 us"), "{}", finding.found);
    }

    #[test]
    fn huge_pages_count_when_they_are_free() {
        let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        for (total, free, transparent, state, found) in [
            ("64", "60", "always madvise [never]", State::Ok, "60 of 64 pages of 2 MiB free"),
            ("64", "0", "always madvise [never]", State::Limited, "0 of 64 pages of 2 MiB free"),
            (
                "0",
                "0",
                "always [madvise] never",
                State::Limited,
                "none reserved; the kernel makes some when it can",
            ),
            ("0", "0", "always madvise [never]", State::Missing, "none"),
        ] {
            let (_root, machine) = made_up(
                &[
                    (&format!("{pool}/nr_hugepages"), total),
                    (&format!("{pool}/free_hugepages"), free),
                    ("/sys/kernel/mm/transparent_hugepage/enabled", transparent),
                ],
                &[],
            );
            let finding = huge_pages(&machine);
            assert_eq!((finding.state, finding.found.as_str()), (state, found));
        }
    }
}
