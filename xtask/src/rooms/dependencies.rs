//! Rule about dependencies: our crates depend on each other one way.

use super::{Package, Rule, Tree};

pub(super) const RULE: Rule = Rule {
    name: "one-way",
    says: "a crate knows only the rooms below it (xtask/src/rooms/dependencies.rs has the table); \
           a new crate is entered there with what it may know",
    check,
    planted: || Tree {
        packages: vec![Package {
            name: "ringcall-qec".to_owned(),
            dependencies: vec!["ringcall".to_owned()],
            ..Package::default()
        }],
        ..Tree::default()
    },
};

/// Each room, and the rooms it may know, also in its tests. In the order of the picture: below first.
const ROOMS: &[(&str, &[&str])] = &[
    ("ringcall-wire", &[]),
    // Memory and machine, no protocol.
    ("ringcall-gpu", &[]),
    ("ringcall-protocol", &["ringcall-wire", "ringcall-gpu"]),
    // The queues of a NIC, no RPC.
    ("ringcall-mlx5", &["ringcall-wire", "ringcall-gpu"]),
    ("ringcall-dispatcher", DEVICE),
    // How handlers are written; what runs on a device.
    ("ringcall-handler-macros", &[]),
    ("ringcall-handler", &["ringcall-wire", "ringcall-gpu", "ringcall-handler-macros"]),
    (
        "ringcall-kernels",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-mlx5",
            "ringcall-dispatcher",
            "ringcall-handler",
        ],
    ),
    ("ringcall", &["ringcall-wire", "ringcall-gpu", "ringcall-protocol"]),
    // Compiles any crate for devices, and knows none.
    ("ringcall-build", &[]),
    // The CUDA driver, no protocol.
    ("ringcall-cuda", &["ringcall-gpu"]),
    // Packets, queue pairs and windows; no rings, no RPC.
    ("ringcall-roce", &[]),
    // Hardware in software: an adapter, an adapter on a socket with a service, a sensor bridge.
    (
        "ringcall-sim",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-mlx5",
            "ringcall-dispatcher",
            "ringcall",
            "ringcall-roce",
        ],
    ),
    // What an adapter and a kernel are given.
    ("ringcall-rdma", &["ringcall-wire", "ringcall-gpu", "ringcall-mlx5"]),
    (
        "ringcall-launch",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-mlx5",
            "ringcall-dispatcher",
            "ringcall-handler",
            "ringcall-kernels",
            "ringcall",
            // The committed texts for older devices.
            "ringcall-build",
            "ringcall-cuda",
            // An adapter whose queues a kernel works.
            "ringcall-rdma",
            // The other side in its tests.
            "ringcall-sim",
        ],
    ),
    // Codes, matching and inference know nothing of rings.
    ("ringcall-matching", &[]),
    ("ringcall-bp", &[]),
    ("ringcall-infer", &[]),
    ("ringcall-qec", &["ringcall-matching", "ringcall-bp"]),
    // Decoders on a device: they know the driver, and no code but in tests.
    (
        "ringcall-gpu-decoders",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall",
            "ringcall-cuda",
            "ringcall-launch",
            "ringcall-infer",
            "ringcall-bp",
            "ringcall-qec",
        ],
    ),
    ("ringcall-tensorrt", &["ringcall-infer", "ringcall-cuda"]),
    // Services of captured networks: any engine on a device, any CPU stage, and no code.
    (
        "ringcall-inference-service",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-kernels",
            "ringcall",
            "ringcall-cuda",
            "ringcall-launch",
            "ringcall-infer",
            "ringcall-gpu-decoders",
            "ringcall-tensorrt",
        ],
    ),
    // The shortest way to a decoder.
    ("ringcall-decoder", &["ringcall-qec"]),
    // deq's decoder interface, both ways: matching as a plug-in, plug-ins as decoders.
    ("ringcall-deq", &["ringcall-matching", "ringcall-qec"]),
    // Any decoder: it knows engines, and no code or matching.
    (
        "ringcall-pipeline",
        &["ringcall-wire", "ringcall-gpu", "ringcall-protocol", "ringcall", "ringcall-infer"],
    ),
    // What fills rings from a network: any dispatcher, any decoder.
    (
        "ringcall-transport",
        &["ringcall-wire", "ringcall-gpu", "ringcall-protocol", "ringcall", "ringcall-roce", "ringcall-rdma"],
    ),
    // Transports in shared libraries: from both sides, and ours as such.
    (
        "ringcall-bridge",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall",
            "ringcall-rdma",
            "ringcall-transport",
        ],
    ),
    // CUDA for rings that a kernel polls.
    (
        "ringcall-bridge-udp",
        &["ringcall", "ringcall-transport", "ringcall-bridge", "ringcall-cuda", "ringcall-launch"],
    ),
    (
        "ringcall-bridge-roce",
        &["ringcall-protocol", "ringcall", "ringcall-roce", "ringcall-transport", "ringcall-bridge"],
    ),
    // The C interface: checks and handles around the dispatchers.
    (
        "ringcall-c",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-mlx5",
            "ringcall-dispatcher",
            "ringcall",
            "ringcall-cuda",
            "ringcall-launch",
            // Contexts of adapters, and an adapter in software.
            "ringcall-rdma",
            "ringcall-sim",
            "ringcall-bridge",
            "ringcall-bridge-udp",
            "ringcall-matching",
            "ringcall-qec",
            "ringcall-pipeline",
        ],
    ),
    // A problem, an engine and matching, wired together on a CPU or with a GPU.
    (
        "ringcall-decoder-service",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall",
            "ringcall-matching",
            "ringcall-infer",
            "ringcall-qec",
            "ringcall-pipeline",
            "ringcall-cuda",
            "ringcall-launch",
            "ringcall-gpu-decoders",
            "ringcall-bp",
            "ringcall-inference-service",
        ],
    ),
    // Worlds over all that a service is made of.
    (
        "ringcall-simulator",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall",
            "ringcall-roce",
            "ringcall-sim",
            "ringcall-qec",
            "ringcall-pipeline",
            "ringcall-transport",
            "ringcall-decoder-service",
        ],
    ),
    (
        "ringcall-cli",
        &[
            "ringcall-wire",
            "ringcall-gpu",
            "ringcall-protocol",
            "ringcall-mlx5",
            "ringcall-dispatcher",
            "ringcall-handler",
            "ringcall-kernels",
            "ringcall",
            "ringcall-build",
            "ringcall-cuda",
            "ringcall-launch",
            "ringcall-roce",
            "ringcall-sim",
            "ringcall-rdma",
            "ringcall-matching",
            "ringcall-infer",
            "ringcall-gpu-decoders",
            "ringcall-bp",
            "ringcall-tensorrt",
            "ringcall-inference-service",
            "ringcall-qec",
            "ringcall-deq",
            "ringcall-pipeline",
            "ringcall-transport",
            "ringcall-bridge",
            // Loaded by its tests.
            "ringcall-bridge-udp",
            "ringcall-bridge-roce",
            "ringcall-decoder-service",
        ],
    ),
    // What a user copies: handlers, and the program that runs them.
    ("example-handlers", &["ringcall-handler"]),
    (
        "example-host",
        &[
            "ringcall-handler",
            "ringcall",
            "ringcall-build",
            "ringcall-cuda",
            "ringcall-launch",
            "example-handlers",
        ],
    ),
    ("xtask", &["ringcall-build"]),
];

/// What a dispatcher of a device is made of.
const DEVICE: &[&str] = &["ringcall-wire", "ringcall-gpu", "ringcall-protocol", "ringcall-mlx5"];

fn check(tree: &Tree) -> Vec<String> {
    let ours = |name: &str| name == "xtask" || name == "ringcall" || name.starts_with("ringcall-");
    let mut breaches = Vec::new();
    for package in &tree.packages {
        let Some((_, may)) = ROOMS.iter().find(|(name, _)| *name == package.name) else {
            breaches.push(format!("{}: not in the table", package.name));
            continue;
        };
        // A crate may name itself, to switch its own features on for its tests.
        let known = |name: &str| may.contains(&name) || name == package.name;
        for dependency in package.dependencies.iter().filter(|name| ours(name) && !known(name)) {
            breaches.push(format!("{} must not know {dependency}", package.name));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(name: &str, dependency: &str) -> usize {
        let package = Package {
            name: name.to_owned(),
            dependencies: vec![dependency.to_owned(), "serde".to_owned()],
            ..Package::default()
        };
        check(&Tree { packages: vec![package], ..Tree::default() }).len()
    }

    #[test]
    fn only_downwards() {
        assert_eq!(breaches("ringcall-protocol", "ringcall-wire"), 0);
        assert_eq!(breaches("ringcall-qec", "ringcall-matching"), 0);
        assert_eq!(breaches("ringcall-infer", "ringcall-infer"), 0);
        assert_eq!(breaches("ringcall-cuda", "ringcall-protocol"), 1);
        assert_eq!(breaches("ringcall-wire", "ringcall-gpu"), 1);
        assert_eq!(breaches("ringcall-gpu", "ringcall-wire"), 1);
        assert_eq!(breaches("ringcall-matching", "ringcall-qec"), 1);
        assert_eq!(breaches("ringcall-pipeline", "ringcall-qec"), 1);
        assert_eq!(breaches("ringcall-build", "ringcall-wire"), 1);
        assert_eq!(breaches("ringcall-mlx5", "ringcall-protocol"), 1);
        assert_eq!(breaches("ringcall-kernels", "ringcall-launch"), 1);
        assert_eq!(breaches("ringcall-new", "serde"), 1);
    }

    #[test]
    fn the_table_itself_points_one_way() {
        for (index, (name, may)) in ROOMS.iter().enumerate() {
            for below in *may {
                let at = ROOMS.iter().position(|(other, _)| other == below);
                assert!(at.is_some_and(|at| at < index), "{name} -> {below}");
            }
        }
    }
}
