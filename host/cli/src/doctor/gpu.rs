//! The NVIDIA driver and the GPUs that it drives.

use super::finding::{Finding, State};
use super::machine::Machine;
use serde_json::{Value, json};

/// The first driver that accepts code compiled for CUDA 13.
const DRIVER_WANTED: u32 = 580;
/// The first architecture whose loads and stores have an order and a scope.
const TARGET_WANTED: u32 = 70;

pub(super) fn driver(machine: &Machine) -> Finding {
    let purpose = "everything on the GPU: the device dispatcher, graph launch, inference";
    let text = machine.text("/proc/driver/nvidia/version");
    let line = text.as_deref().and_then(|text| text.lines().find(|line| line.starts_with("NVRM version")));
    let version = line.and_then(version);
    let open = line.map(|line| line.contains("Open Kernel Module"));
    let library = machine.find(&machine.library_folders(), "libcuda.so.1").into_iter().next();
    let named = |found: String| Finding::ok("nvidia_driver", "NVIDIA driver", found, purpose);
    let finding = match (version, &library) {
        (Some(version), Some(library)) => {
            let kind = if open == Some(true) { "open" } else { "proprietary" };
            let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
            named(format!("{version} ({kind} kernel module), {library}")).limited_if(
                major.is_none_or(|major| major < DRIVER_WANTED),
                format!(
                    "install driver {DRIVER_WANTED} or newer: an older one refuses code compiled for CUDA 13"
                ),
            )
        }
        (Some(version), None) => named(format!("{version}, but no libcuda.so.1")).but(
            State::Limited,
            "install the driver's user-space part (Debian: libcuda1), or start the container with --gpus all",
        ),
        (None, _) if on_bus(machine) > 0 => named(match &library {
            Some(library) => format!("no kernel module, though {library} and a GPU are there"),
            None => "none, though a GPU is there".to_owned(),
        })
        .but(State::Missing, format!("install driver {DRIVER_WANTED} or newer and load it: modprobe nvidia")),
        // A paravirtual GPU, as under WSL, has a library but no such module.
        (None, Some(library)) => named(format!("no kernel module visible, {library}")).but(
            State::Limited,
            "start a GPU program to see whether this works; else install the driver's kernel module",
        ),
        (None, None) => named("none".to_owned())
            .but(State::Missing, "nothing without an NVIDIA GPU: Ringcall runs on the CPU alone"),
    };
    finding.with(json!({ "version": version, "open": open, "library": library }))
}

/// The version in a line such as `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …`
fn version(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// The number of NVIDIA's display and compute devices on the PCI bus, with or without a driver.
fn on_bus(machine: &Machine) -> usize {
    let is_gpu = |folder: &String| {
        let field = |name: &str| machine.text(&format!("{folder}/{name}"));
        field("vendor").as_deref() == Some("0x10de")
            && field("class").is_some_and(|class| class.starts_with("0x03"))
    };
    machine.glob("/sys/bus/pci/devices/*").iter().filter(|folder| is_gpu(folder)).count()
}

pub(super) fn gpus(machine: &Machine) -> Finding {
    let purpose = "polls the ring itself, and runs inference";
    let mut devices = Vec::new();
    let mut names = Vec::new();
    let (mut locked, mut old) = (0, 0);
    for file in machine.glob("/proc/driver/nvidia/gpus/*/information") {
        let field = |name: &str| machine.field(&file, name);
        let model = field("Model").unwrap_or_else(|| "unknown".to_owned());
        let known = architecture(&model);
        let accessible = match field("Device Minor") {
            Some(minor) => machine.usable(&format!("/dev/nvidia{minor}")),
            None => machine.glob("/dev/nvidia[0-9]*").iter().any(|path| machine.usable(path)),
        };
        names.push(match known {
            Some((name, target)) => format!("{model} ({name}, sm_{target})"),
            None => format!("{model} (architecture unknown)"),
        });
        locked += usize::from(!accessible);
        old += usize::from(known.is_some_and(|(_, target)| target < TARGET_WANTED));
        devices.push(json!({
            "model": model,
            "architecture": known.map(|(name, _)| name),
            "target": known.map(|(_, target)| format!("sm_{target}")),
            "bus": field("Bus Location"),
            "accessible": accessible,
        }));
    }
    let named = |found: String| Finding::ok("gpus", "GPUs", found, purpose);
    let finding = match (devices.len(), on_bus(machine)) {
        (0, 0) => named("none".to_owned()).but(
            State::Missing,
            "nothing, if the CPU is fast enough for your code; else a GPU of Hopper or later",
        ),
        (0, bus) => named(format!("{bus} on the PCI bus, none driven"))
            .but(State::Missing, "install and load the NVIDIA driver (above)"),
        (count, _) => named(names.join("; "))
            .limited_if(
                locked > 0,
                "let this process open /dev/nvidia*: container with --gpus all, or the group of the files",
            )
            .limited_if(
                old == count,
                "use a GPU of Volta or later: older ones lack the memory order that polling needs",
            ),
    };
    finding.with(json!({ "gpus": Value::from(devices) }))
}

/// The architecture that a model's name implies, and the number of its compilation target.
fn architecture(model: &str) -> Option<(&'static str, u32)> {
    let words: Vec<&str> =
        model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has = |wanted: &str| words.contains(&wanted);
    // Model names that were reused for another architecture include its name.
    if has("Blackwell") {
        return Some(("Blackwell", 120));
    }
    if has("Ada") {
        return Some(("Ada", 89));
    }
    if let Some(found) = words.iter().find_map(|word| by_word(word)) {
        return Some(found);
    }
    // Models such as GeForce RTX 4090, Quadro RTX 6000, GTX 1660.
    let digits = |word: &&str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = words.iter().copied().find(digits)?;
    match (&number[..2], has("RTX"), has("GTX")) {
        ("50", true, _) if has("GeForce") => Some(("Blackwell", 120)),
        ("40", true, _) if has("GeForce") => Some(("Ada", 89)),
        ("30", true, _) if has("GeForce") => Some(("Ampere", 86)),
        ("20", true, _) if has("GeForce") => Some(("Turing", 75)),
        (_, true, _) if has("Quadro") => Some(("Turing", 75)),
        ("16", _, true) => Some(("Turing", 75)),
        ("10", _, true) => Some(("Pascal", 61)),
        _ => None,
    }
}

fn by_word(word: &str) -> Option<(&'static str, u32)> {
    Some(match word {
        "Thor" => ("Blackwell", 110),
        "GB10" => ("Blackwell", 121),
        "B300" | "GB300" => ("Blackwell", 103),
        "B100" | "B200" | "GB200" => ("Blackwell", 100),
        "H100" | "H200" | "H800" | "H20" | "GH200" => ("Hopper", 90),
        "L2" | "L4" | "L20" | "L40" | "L40S" | "L40G" => ("Ada", 89),
        "Orin" => ("Ampere", 87),
        "A2" | "A10" | "A10G" | "A10M" | "A16" | "A40" | "A2000" | "A4000" | "A4500" | "A5000" | "A5500"
        | "A6000" => ("Ampere", 86),
        "A30" | "A30X" | "A100" | "A100X" | "A800" => ("Ampere", 80),
        "T4" | "T4G" | "T400" | "T600" | "T1000" => ("Turing", 75),
        "Xavier" => ("Volta", 72),
        "V100" | "V100S" | "GV100" => ("Volta", 70),
        "P4" | "P6" | "P40" => ("Pascal", 61),
        "P100" | "GP100" => ("Pascal", 60),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::made_up;
    use super::*;

    #[test]
    fn versions_of_both_kinds_of_module() {
        for (line, expected) in [
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder)",
                Some("580.159.04"),
            ),
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.82  Sat Feb 1 03:05:21 UTC 2025",
                Some("470.82"),
            ),
            ("NVRM version: ..", None),
        ] {
            assert_eq!(version(line), expected);
        }
    }

    #[test]
    fn architectures_by_name() {
        for (model, expected) in [
            ("NVIDIA H200", Some(("Hopper", 90))),
            ("NVIDIA GH200 480GB", Some(("Hopper", 90))),
            ("NVIDIA B200", Some(("Blackwell", 100))),
            ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", Some(("Blackwell", 120))),
            ("NVIDIA GeForce RTX 5090", Some(("Blackwell", 120))),
            ("NVIDIA RTX 6000 Ada Generation", Some(("Ada", 89))),
            ("NVIDIA L40S", Some(("Ada", 89))),
            ("NVIDIA A100-SXM4-80GB", Some(("Ampere", 80))),
            ("NVIDIA RTX A6000", Some(("Ampere", 86))),
            ("Quadro RTX 6000", Some(("Turing", 75))),
            ("Tesla T4", Some(("Turing", 75))),
            ("NVIDIA GeForce GTX 1080 Ti", Some(("Pascal", 61))),
            ("Tesla V100-SXM2-16GB", Some(("Volta", 70))),
            ("NVIDIA X1000", None),
            ("", None),
        ] {
            assert_eq!(architecture(model), expected, "{model}");
        }
    }

    #[test]
    fn a_gpu_without_a_driver_and_one_out_of_reach() {
        let bus = [
            ("/sys/bus/pci/devices/0000:00:06.0/vendor", "0x10de\n"),
            ("/sys/bus/pci/devices/0000:00:06.0/class", "0x030200\n"),
        ];
        let (_root, machine) = made_up(&bus, &[]);
        assert_eq!(
            (driver(&machine).state, driver(&machine).found.as_str()),
            (State::Missing, "none, though a GPU is there")
        );
        assert_eq!(gpus(&machine).found, "1 on the PCI bus, none driven");

        let information = "Model: \t\t NVIDIA H200\nDevice Minor: \t 3\n";
        let (_root, machine) = made_up(
            &[("/proc/driver/nvidia/gpus/0000:00:06.0/information", information), ("/dev/nvidia0", "")],
            &[],
        );
        let finding = gpus(&machine);
        assert_eq!((finding.state, finding.found.as_str()), (State::Limited, "NVIDIA H200 (Hopper, sm_90)"));
        assert!(finding.remedy.unwrap().contains("--gpus all"));
    }

    #[test]
    fn an_old_driver_is_told() {
        let version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat\n";
        let (_root, machine) =
            made_up(&[("/proc/driver/nvidia/version", version), ("/usr/lib/libcuda.so.1", "")], &[]);
        let finding = driver(&machine);
        assert_eq!(finding.found, "535.104.05 (proprietary kernel module), /usr/lib/libcuda.so.1");
        assert!(finding.state == State::Limited && finding.remedy.unwrap().contains("580"));
    }
}
