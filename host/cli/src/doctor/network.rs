//! Network hardware that carries requests around the kernel: RDMA devices, their libraries, DOCA.

use super::finding::{Finding, State};
use super::machine::Machine;
use serde_json::{Value, json};

const CLASS: &str = "/sys/class/infiniband";

pub(super) fn rdma_devices(machine: &Machine) -> Finding {
    let purpose = "requests arrive in memory, of a GPU too, without the kernel or a copy";
    let mut devices = Vec::new();
    let mut names = Vec::new();
    let mut active = false;
    for device in machine.names(CLASS) {
        let folder = format!("{CLASS}/{device}");
        let model = nic(machine, &folder);
        let mut ports = Vec::new();
        let mut shown = Vec::new();
        for port in machine.names(&format!("{folder}/ports")) {
            let read = |name: &str| machine.text(&format!("{folder}/ports/{port}/{name}"));
            // `4: ACTIVE`
            let state =
                read("state").map(|state| state.rsplit(':').next().unwrap_or_default().trim().to_owned());
            let link = read("link_layer");
            active |= state.as_deref() == Some("ACTIVE");
            let words = [link.as_deref(), state.as_deref()].map(|word| word.unwrap_or("?"));
            shown.push(format!("port {port} {}", words.join(" ")));
            ports.push(json!({ "port": port, "link_layer": link, "state": state, "rate": read("rate") }));
        }
        names.push(format!("{device} ({model}): {}", shown.join(", ")));
        devices.push(json!({
            "name": device,
            "model": model,
            "firmware": machine.text(&format!("{folder}/fw_ver")),
            "interfaces": machine.names(&format!("{folder}/device/net")),
            "ports": Value::from(ports),
        }));
    }
    let accessible = machine.glob("/dev/infiniband/uverbs*").iter().any(|path| machine.usable(path));
    let peer_memory = machine.exists("/sys/module/nvidia_peermem");
    let finding = if devices.is_empty() {
        Finding::ok("rdma_devices", "RDMA devices", "none", purpose).but(
            State::Missing,
            "nothing for local use; over a network: a ConnectX NIC and its driver (mlx5_ib)",
        )
    } else {
        Finding::ok("rdma_devices", "RDMA devices", names.join("; "), purpose)
            .limited_if(
                !accessible,
                "let this process open /dev/infiniband/*: modprobe ib_uverbs, --device=/dev/infiniband for a \
                 container",
            )
            .limited_if(
                !active,
                "no port is up: plug in the cable, and `ip link set <interface> up` (see `rdma link`)",
            )
    };
    finding.with(
        json!({ "devices": Value::from(devices), "accessible": accessible, "peer_memory": peer_memory }),
    )
}

/// The device's kind, by its number on the PCI bus.
fn nic(machine: &Machine, folder: &str) -> String {
    let field = |name: &str| machine.text(&format!("{folder}/device/{name}"));
    let (Some(vendor), Some(device)) = (field("vendor"), field("device")) else {
        return "software".to_owned();
    };
    let name = match (vendor.as_str(), device.as_str()) {
        ("0x15b3", "0x1013" | "0x1014") => "ConnectX-4",
        ("0x15b3", "0x1015" | "0x1016") => "ConnectX-4 Lx",
        ("0x15b3", "0x1017" | "0x1018") => "ConnectX-5",
        ("0x15b3", "0x1019" | "0x101a") => "ConnectX-5 Ex",
        ("0x15b3", "0x101b" | "0x101c") => "ConnectX-6",
        ("0x15b3", "0x101d") => "ConnectX-6 Dx",
        ("0x15b3", "0x101f") => "ConnectX-6 Lx",
        ("0x15b3", "0x101e") => "ConnectX virtual function",
        ("0x15b3", "0x1021") => "ConnectX-7",
        ("0x15b3", "0x1023") => "ConnectX-8",
        ("0x15b3", "0xa2d6") => "BlueField-2",
        ("0x15b3", "0xa2dc") => "BlueField-3",
        ("0x15b3", other) => return format!("NVIDIA {other}"),
        (vendor, device) => return format!("{vendor}:{device}"),
    };
    name.to_owned()
}

pub(super) fn verbs(machine: &Machine) -> Finding {
    let folders = machine.library_folders();
    let libibverbs = machine.find(&folders, "libibverbs.so.1");
    let libmlx5 = machine.find(&folders, "libmlx5.so.1");
    let include = ["/usr/include", "/usr/local/include"];
    let headers: Vec<String> = ["infiniband/verbs.h", "infiniband/mlx5dv.h"]
        .iter()
        .flat_map(|header| machine.find_in(&include, header))
        .collect();
    let purpose = "set up an RDMA device's queues; libmlx5 hands those of a ConnectX to the GPU";
    let named = |found: String| Finding::ok("verbs", "verbs libraries", found, purpose);
    let finding = match (libibverbs.first(), libmlx5.first()) {
        (Some(verbs), Some(mlx5)) => named(format!("{verbs}, {mlx5}")),
        (Some(verbs), None) => named(format!("{verbs}, no libmlx5")).but(
            State::Limited,
            "for a ConnectX: apt-get install ibverbs-providers (or rdma-core of your system)",
        ),
        (None, _) => named("none".to_owned()).but(
            State::Missing,
            "for RDMA devices: apt-get install libibverbs1 ibverbs-providers (or rdma-core of your system)",
        ),
    };
    finding.with(json!({ "libibverbs": libibverbs, "libmlx5": libmlx5, "headers": headers }))
}

pub(super) fn doca(machine: &Machine) -> Finding {
    let purpose = "the GPU drives the NIC's queues itself, through NVIDIA's GPUNetIO";
    let homes = ["/opt/mellanox/doca", "/usr/local/doca"];
    let folder = homes.into_iter().find(|folder| machine.exists(folder));
    let libraries: Vec<String> = folder
        .iter()
        .flat_map(|folder| {
            ["lib", "lib64", "lib/*-linux-gnu"]
                .iter()
                .flat_map(move |place| machine.glob(&format!("{folder}/{place}")))
        })
        .chain(machine.library_folders())
        .collect();
    let gpunetio = machine.find(&libraries, "libdoca_gpunetio.so*").into_iter().next();
    let mut include = vec!["/usr/include".to_owned()];
    include.extend(folder.map(|folder| format!("{folder}/include")));
    let headers = machine.find(&include, "doca_gpunetio.h");
    // The packages write it there for pkg-config.
    let version = machine
        .find(&libraries, "pkgconfig/doca-common.pc")
        .first()
        .and_then(|file| machine.field(file, "Version"));
    let named = |found: String| Finding::ok("doca", "DOCA", found, purpose);
    let known = version.as_deref().unwrap_or("version unknown");
    let install = "install DOCA's GPUNetIO packages (doca-sdk-gpunetio, libdoca-sdk-gpunetio-dev)";
    let finding = match (folder, &gpunetio) {
        (_, Some(library)) if headers.is_empty() => {
            named(format!("{known}, {library}, no headers")).but(State::Limited, install)
        }
        (_, Some(library)) => named(format!("{known}, {library}, headers")),
        (Some(folder), None) => {
            named(format!("{known} in {folder}, no GPUNetIO")).but(State::Limited, install)
        }
        (None, None) => named("none".to_owned()).but(
            State::Missing,
            "with a GPU and a ConnectX-6 Dx or later: install DOCA from NVIDIA's packages",
        ),
    };
    finding.with(json!({ "folder": folder, "version": version, "gpunetio": gpunetio, "headers": headers }))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn a_port_that_is_down_and_a_software_device() {
        let (_root, machine) = made_up(
            &[
                ("/sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n"),
                ("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n"),
                ("/dev/infiniband/uverbs0", ""),
            ],
            &[],
        );
        let finding = rdma_devices(&machine);
        assert_eq!(
            (finding.state, finding.found.as_str()),
            (State::Limited, "rxe0 (software): port 1 Ethernet DOWN")
        );
        assert!(finding.remedy.unwrap().contains("ip link set"));
    }

    #[test]
    fn libraries_in_part() {
        let (_root, machine) =
            made_up(&[("/usr/lib64/libibverbs.so.1", ""), ("/opt/mellanox/doca/lib/", "")], &[]);
        assert_eq!((verbs(&machine).state, doca(&machine).state), (State::Limited, State::Limited));
        assert_eq!(doca(&machine).found, "version unknown in /opt/mellanox/doca, no GPUNetIO");
        let (_root, machine) = made_up(&[], &[]);
        assert_eq!((verbs(&machine).state, doca(&machine).state), (State::Missing, State::Missing));
    }
}
