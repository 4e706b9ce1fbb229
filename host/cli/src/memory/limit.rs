//! Free memory: the least of the machine's free memory and the remainder of each control group of the process.

use crate::doctor::machine::Machine;

/// Bytes, or `None` if the machine does not say.
pub(crate) fn free(machine: &Machine) -> Option<u64> {
    let available = machine.field("/proc/meminfo", "MemAvailable").and_then(|text| {
        let kib: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    available.into_iter().chain(groups(machine)).min()
}

/// The remainder of each control group with a limit.
fn groups(machine: &Machine) -> Vec<u64> {
    let paths = machine.text("/proc/self/cgroup").unwrap_or_default();
    let mut left = Vec::new();
    for line in paths.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let group = if controllers.is_empty() {
            Group {
                folder: "/sys/fs/cgroup",
                limit: "memory.max",
                usage: "memory.current",
                cache: "inactive_file",
            }
        } else if controllers.split(',').any(|name| name == "memory") {
            Group {
                folder: "/sys/fs/cgroup/memory",
                limit: "memory.limit_in_bytes",
                usage: "memory.usage_in_bytes",
                cache: "total_inactive_file",
            }
        } else {
            continue;
        };
        let mut path = path.trim_end_matches('/');
        loop {
            left.extend(group.left(machine, path));
            match path.rsplit_once('/') {
                Some((parent, _)) => path = parent,
                None => break,
            }
        }
    }
    left
}

/// Files of a version of control groups.
struct Group {
    folder: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// In `memory.stat`: bytes of file cache, which are reclaimed when memory is short.
    cache: &'static str,
}

impl Group {
    fn left(&self, machine: &Machine, path: &str) -> Option<u64> {
        let file = |name: &str| format!("{}{path}/{name}", self.folder);
        // `max` if there is no limit.
        let limit = machine.number(&file(self.limit))?;
        let used = machine.number(&file(self.usage))?;
        let stat = machine.text(&file("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.trim().parse::<u64>().ok());
        Some(limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::machine::tests::made_up;

    #[test]
    fn the_smallest_of_all_limits_counts() {
        let meminfo = ("/proc/meminfo", "MemTotal: 99 kB\nMemAvailable:   4096 kB\n");
        let (_machine_alone, machine) = made_up(&[meminfo], &[]);
        assert_eq!(free(&machine), Some(4 << 20));
        let (_folder, machine) = made_up(
            &[
                meminfo,
                ("/proc/self/cgroup", "0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("/sys/fs/cgroup/a/b/memory.current", "5\n"),
                ("/sys/fs/cgroup/a/memory.max", "3000000\n"),
                ("/sys/fs/cgroup/a/memory.current", "2000000\n"),
                ("/sys/fs/cgroup/a/memory.stat", "anon 7\ninactive_file 500000\n"),
            ],
            &[],
        );
        assert_eq!(free(&machine), Some(1_500_000));
    }

    #[test]
    fn the_first_version_of_control_groups_is_read_too() {
        let (_folder, machine) = made_up(
            &[
                ("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/box\n"),
                ("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1000\n"),
                ("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1200\n"),
            ],
            &[],
        );
        assert_eq!(free(&machine), Some(0));
        let (_nothing, machine) = made_up(&[], &[]);
        assert_eq!(free(&machine), None);
    }
}
