//! Other users of the processor: a hypervisor, other programs, idle states; and distances between devices.

use super::finding::{Finding, State};
use super::machine::Machine;
use serde_json::{Value, json};

/// The share of time that a hypervisor may take before the tail of latencies shows it.
const STEAL: f64 = 0.001;
/// Leaving a deeper idle state takes longer than a decode, us.
const WAKE_UP_US: u64 = 20;
/// The buffer that the sockets of UDP and software RoCE request.
const SOCKET_BUFFER: u64 = 4 << 20;

pub(super) fn virtual_machine(machine: &Machine) -> Finding {
    let purpose = "a hypervisor stops a polling thread without a word: the tail of the latency";
    let flags = machine.field("/proc/cpuinfo", "flags");
    let flag = flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let product = machine.text("/sys/class/dmi/id/product_name");
    let named = product.as_deref().is_some_and(|name| {
        ["KVM", "Virtual", "VMware", "Google Compute", "HVM", "QEMU"].iter().any(|word| name.contains(word))
    });
    let steal = steal(machine);
    let is_virtual = flag || named || steal.is_some_and(|share| share > 0.0);
    let details = json!({ "virtual": is_virtual, "product": product, "steal": steal });
    let finding = if is_virtual {
        let lost = steal
            .map_or_else(String::new, |share| format!(", {:.2}% of time stolen since boot", share * 100.0));
        let host = product.unwrap_or_else(|| "unknown".to_owned());
        let remedy = if steal.is_some_and(|share| share > STEAL) {
            "ask for dedicated cores, or measure on bare metal: other guests take this machine's time"
        } else {
            "measure on bare metal, or let the host pin this guest's cores: its latencies are longer than they need be"
        };
        Finding::ok("virtual_machine", "virtual machine", format!("yes ({host}){lost}"), purpose)
            .but(State::Limited, remedy)
    } else {
        Finding::ok("virtual_machine", "virtual machine", "no", purpose)
    };
    finding.with(details)
}

/// The share of time since boot that a hypervisor gave to others.
fn steal(machine: &Machine) -> Option<f64> {
    let stat = machine.text("/proc/stat")?;
    let times: Vec<f64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal. The time of guests of this machine is part of user.
    let total: f64 = times.iter().take(8).sum();
    Some(*times.get(7)? / total.max(1.0))
}

pub(super) fn load(machine: &Machine) -> Finding {
    let purpose = "threads that wait for a core answer late, however fast the decoder is";
    let load: Option<f64> =
        machine.text("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok());
    let cores = super::cores::usable(machine).max(1);
    let Some(load) = load.filter(|load| load.is_finite()) else {
        return Finding::ok("load", "load", "unknown", purpose)
            .but(State::Limited, "mount /proc where this process can read it")
            .with(json!({ "load": null, "cores": cores }));
    };
    Finding::ok("load", "load", format!("{load:.1} on {cores} cores"), purpose)
        .limited_if(
            load > 0.25 * cores as f64 && load > 0.5,
            "end other programs while you measure: `top` shows them",
        )
        .with(json!({ "load": load, "cores": cores }))
}

pub(super) fn idle_states(machine: &Machine) -> Finding {
    let purpose = "a core that sleeps deeply wakes up later than the decoder takes";
    let mut deepest: Option<(u64, String)> = None;
    for state in machine.glob("/sys/devices/system/cpu/cpu0/cpuidle/state[0-9]*") {
        let enabled = machine.number(&format!("{state}/disable")) != Some(1);
        let name = machine.text(&format!("{state}/name")).unwrap_or_default();
        if let Some(latency) = machine.number(&format!("{state}/latency")).filter(|_| enabled)
            && deepest.as_ref().is_none_or(|(most, _)| latency > *most)
        {
            deepest = Some((latency, name));
        }
    }
    let finding = match &deepest {
        None => Finding::ok("idle_states", "idle states", "none visible", purpose),
        Some((us, name)) => {
            Finding::ok("idle_states", "idle states", format!("down to {name}, {us} us to leave"), purpose)
                .limited_if(*us > WAKE_UP_US, format!("cpupower idle-set -D {WAKE_UP_US}"))
        }
    };
    let (latency, name) = deepest.map_or((None, None), |(latency, name)| (Some(latency), Some(name)));
    finding.with(json!({ "deepest": name, "latency_us": latency }))
}

pub(super) fn numa(machine: &Machine) -> Finding {
    let purpose = "memory, GPU and NIC of another node are a hop further away";
    let nodes =
        machine.text("/sys/devices/system/node/online").and_then(|list| super::cores::parse_list(&list));
    let node =
        |folder: &str| machine.text(&format!("{folder}/numa_node")).and_then(|text| text.parse::<i64>().ok());
    let mut devices: Vec<(String, i64)> = Vec::new();
    for file in machine.glob("/proc/driver/nvidia/gpus/*/information") {
        if let Some(bus) = machine.field(&file, "Bus Location") {
            devices.extend(
                node(&format!("/sys/bus/pci/devices/{bus}")).map(|node| (format!("GPU {bus}"), node)),
            );
        }
    }
    for name in machine.names("/sys/class/infiniband") {
        devices
            .extend(node(&format!("/sys/class/infiniband/{name}/device")).map(|node| (name.clone(), node)));
    }
    // -1: the firmware does not name the node.
    devices.retain(|(_, node)| *node >= 0);
    let apart = devices.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let count = nodes.as_ref().map_or(1, Vec::len);
    let mut found = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
    for (name, node) in &devices {
        found += &format!(", {name} on node {node}");
    }
    let shown: Vec<Value> =
        devices.iter().map(|(name, node)| json!({ "device": name, "node": node })).collect();
    let pin = devices.first().map_or(0, |(_, node)| *node);
    let crossed = count > 1 && !devices.is_empty() && !apart && !super::cores::within_node(machine, pin);
    Finding::ok("numa", "NUMA", found, purpose)
        .limited_if(
            apart,
            "GPU and NIC are on different nodes: use a pair on one, or move a card to another slot",
        )
        .limited_if(
            crossed,
            format!("start on the devices' node: numactl --cpunodebind={pin} --membind={pin} ringcall …"),
        )
        .with(json!({ "nodes": nodes, "devices": shown }))
}

pub(super) fn socket_buffers(machine: &Machine) -> Finding {
    let purpose = "packets that come faster than they are served wait here, or are lost";
    let [receive, send] =
        ["rmem_max", "wmem_max"].map(|name| machine.number(&format!("/proc/sys/net/core/{name}")));
    let details = json!({ "receive_bytes": receive, "send_bytes": send });
    let named = |found: String| Finding::ok("socket_buffers", "socket buffers", found, purpose);
    let finding = match (receive, send) {
        (Some(receive), Some(send)) => {
            let sizes = [receive, send].map(super::memory::size);
            named(format!("up to {} in, {} out", sizes[0], sizes[1])).limited_if(
                receive < SOCKET_BUFFER || send < SOCKET_BUFFER,
                format!("sysctl -w net.core.rmem_max={SOCKET_BUFFER} net.core.wmem_max={SOCKET_BUFFER}"),
            )
        }
        _ => named("not visible".to_owned()).limited_if(true, "mount /proc where this process can read it"),
    };
    finding.with(details)
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn a_guest_and_what_is_stolen_from_it() {
        let (_root, machine) = made_up(
            &[
                ("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc hypervisor avx\n"),
                ("/proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2\n"),
                ("/sys/class/dmi/id/product_name", "KVM\n"),
            ],
            &[],
        );
        let finding = virtual_machine(&machine);
        assert_eq!(finding.found, "yes (KVM), 10.00% of time stolen since boot");
        assert!(finding.state == State::Limited && finding.remedy.unwrap().contains("dedicated"));
        let (_root, machine) =
            made_up(&[("/proc/cpuinfo", "flags : fpu\n"), ("/proc/stat", "cpu  1 0 1 7 0 0 0 0 0 0\n")], &[]);
        assert_eq!(virtual_machine(&machine).state, State::Ok);
    }

    #[test]
    fn load_counts_beside_the_cores_that_there_are() {
        let of = |load: &str, cores: &str| {
            let (_root, machine) = made_up(
                &[
                    ("/proc/loadavg", load),
                    ("/sys/devices/system/cpu/online", cores),
                    ("/proc/self/status", &format!("Cpus_allowed_list:\t{cores}\n")),
                ],
                &[],
            );
            (super::load(&machine).state, super::load(&machine).found)
        };
        assert_eq!(of("6.04 5 4 1/2 3\n", "0-1"), (State::Limited, "6.0 on 2 cores".to_owned()));
        assert_eq!(of("6.04 5 4 1/2 3\n", "0-47").0, State::Ok);
        assert_eq!(of("0.4 5 4 1/2 3\n", "0").0, State::Ok);
        assert_eq!(of("nan\n", "0").0, State::Limited);
    }

    #[test]
    fn the_deepest_idle_state_that_is_enabled_counts() {
        let state = |n: u32, file: &str| format!("/sys/devices/system/cpu/cpu0/cpuidle/state{n}/{file}");
        let (name1, name2, us1, us2, off) = (
            state(1, "name"),
            state(2, "name"),
            state(1, "latency"),
            state(2, "latency"),
            state(2, "disable"),
        );
        let files = [(&*name1, "C1\n"), (&name2, "C6\n"), (&us1, "2\n"), (&us2, "133\n")];
        let (_root, machine) = made_up(&files, &[]);
        let finding = idle_states(&machine);
        assert_eq!((finding.state, &*finding.found), (State::Limited, "down to C6, 133 us to leave"));
        let (_root, machine) = made_up(&[&files[..], &[(&*off, "1\n")]].concat(), &[]);
        assert_eq!(idle_states(&machine).state, State::Ok);
    }

    #[test]
    fn devices_on_different_nodes_are_told() {
        let of = |nic: &str, allowed: &str| {
            let (_root, machine) = made_up(
                &[
                    ("/sys/devices/system/node/online", "0-1\n"),
                    ("/sys/devices/system/node/node0/cpulist", "0-3\n"),
                    ("/sys/devices/system/node/node1/cpulist", "4-7\n"),
                    ("/sys/devices/system/cpu/online", "0-7\n"),
                    ("/proc/self/status", &format!("Cpus_allowed_list:\t{allowed}\n")),
                    ("/proc/driver/nvidia/gpus/0000:18:00.0/information", "Bus Location: \t 0000:18:00.0\n"),
                    ("/sys/bus/pci/devices/0000:18:00.0/numa_node", "1\n"),
                    ("/sys/class/infiniband/mlx5_0/device/numa_node", nic),
                ],
                &[],
            );
            numa(&machine)
        };
        let finding = of("0\n", "4-7");
        assert_eq!(finding.found, "2 nodes, GPU 0000:18:00.0 on node 1, mlx5_0 on node 0");
        assert!(finding.remedy.unwrap().contains("different nodes"));
        assert!(of("1\n", "0-7").remedy.unwrap().contains("--cpunodebind=1"));
        assert_eq!(of("1\n", "4-7").state, State::Ok);
    }
}
